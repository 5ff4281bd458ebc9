"""The page of a machine's network: its links drawn, its dimensions, kinds of links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archmodel.quantities import show
from archmodel.report import topology as words
from archmodel.report.html import drawing, headline, palette
from archmodel.report.html.drawing import Pair
from archmodel.report.html.figure import Figure
from archmodel.report.html.page import Page, Section
from archmodel.report.html.table import Cell, Table, count, quantity
from archmodel.report.html.text import label
from archmodel.report.words import one_line, plural, time

if TYPE_CHECKING:
    from archmodel.network.topology import Topology

MOST_DRAWN = 1024
"""Ranks of a node that are drawn; more would say no more."""


def topology_page(topology: Topology, name: str) -> Page:
    """Everything that `archmodel topology` prints, and the picture."""
    tables = [table for table in (_dimensions(topology), _links(topology)) if table.rows]
    sections = [Section("links", "Links", [links(topology)]), Section("dimensions", "Dimensions", tables, note=_NOTE)]
    subtitle = f"{plural(topology.ranks, 'rank')}, {plural(topology.nodes, 'node')} of {topology.local_size}"
    cards = [
        (one_line(d.name), show(float(d.bandwidth), "bandwidth"), f"a rank, {d.size:,} of them, {one_line(d.kind)}", "")
        for d in topology.dimensions
        if d.size > 1
    ]
    return Page(one_line(name) or "unnamed", subtitle, headline.as_html(cards), sections)


_NOTE = "Bandwidths per direction; ring and all pairs: what a rank achieves, software efficiency included."


def _dimensions(topology: Topology) -> Table:
    rows: list[list[Cell]] = [
        [
            d.name, d.kind, count(d.size), quantity(d.bandwidth, "bandwidth"),
            *(quantity(x if d.size > 1 else float("nan"), "bandwidth") for x in (d.ring_bandwidth, d.direct_bandwidth)),
            quantity(d.latency, "seconds"), quantity(d.bisection, "bandwidth"),
        ]
        for d in topology.dimensions
    ]  # fmt: skip
    columns = [
        ("dimension", ""), ("kind", ""), ("ranks", "number"), ("per rank", "B/s"), ("ring", "B/s"),
        ("all pairs", "B/s"), ("step", "s"), ("bisection", "B/s"),
    ]  # fmt: skip
    return Table("dimensions-table", columns, rows)


def _links(topology: Topology) -> Table:
    kinds = words.link_kinds(topology) if topology.ranks <= words.MOST_LISTED else []
    rows: list[list[Cell]] = [
        [between, count(n), quantity(bandwidth, "bandwidth"), quantity(latency, "seconds")]
        for (between, bandwidth, latency), n in kinds
    ]
    return Table("links-table", [("between", ""), ("links", "number"), ("each", "B/s"), ("latency", "s")], rows)


def links(topology: Topology) -> Figure:
    """Links by bandwidth and latency, as wide as they are; of a machine of many nodes, nodes stand for their ranks."""
    edges = topology.wiring()
    shown = topology.ranks if topology.nodes > 1 else min(topology.ranks, MOST_DRAWN)
    kept = [e for e in edges if all(end < shown for end in (e.a, e.b) if isinstance(end, int))]
    pairs = drawing.named(topology, [(e.a, e.b) for e in kept])
    kinds: dict[tuple[float, float], list[Pair]] = {}
    counts: dict[tuple[float, float], int] = {}
    for pair, which in drawing.grouped(pairs, topology).items():
        kind = (float(kept[which[0]].bandwidth), float(kept[which[0]].latency))
        counts[kind] = counts.get(kind, 0) + len(which)
        if pair[0] != pair[1]:
            kinds.setdefault(kind, []).append(pair)
    part = f" Drawn are the first {shown:,} of {topology.ranks:,} ranks." if shown < topology.ranks else ""
    widths = ", ".join(dict.fromkeys(show(b, "bandwidth") for b, _ in sorted(counts, reverse=True)))
    said = f"{plural(topology.ranks, 'rank')} and {plural(len(edges), 'link')} of {widths or 'no bandwidth'}.{part}"
    if not kinds:
        return drawing.nothing("topology", "Links", said)
    place = drawing.places(topology, [pair for found in kinds.values() for pair in found])
    widest = max(bandwidth for bandwidth, _ in kinds)
    traces: list[dict[str, Any]] = []
    for i, ((bandwidth, latency), found) in enumerate(sorted(kinds.items(), reverse=True)):
        colour, width = palette.SERIES[i % len(palette.SERIES)], 0.7 + 3.0 * (bandwidth / widest) ** 0.5
        told = f"{counts[bandwidth, latency]:,} x {show(bandwidth, 'bandwidth')}" + (
            f", {time(latency)}" if latency else ""
        )
        traces.append(drawing.strokes(found, place, colour, width) | {"name": told, "showlegend": True})
    traces += drawing.ends(place, {v: label(v, 40) for v in place}, nodes=drawing.by_node(topology))
    note = "Lines are as wide as their bandwidth."
    if drawing.by_node(topology):
        note += f" A point is a node of {topology.local_size} ranks, a line all links between two points."
    layout = drawing.layout_of(place, topology)
    return Figure("topology", "Links", said, traces, layout, height=drawing.height_of(place), note=note)
