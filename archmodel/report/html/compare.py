"""The page of several designs: what differs first, then everything side by side."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archmodel.errors import ArchmodelError
from archmodel.quantities import show
from archmodel.report.html import headline, palette, tables
from archmodel.report.html.balance import balance
from archmodel.report.html.elasticities import LEAST, elasticities
from archmodel.report.html.figure import Figure, listing_axis
from archmodel.report.html.memory import memory
from archmodel.report.html.network import network
from archmodel.report.html.page import Block, Page, Section
from archmodel.report.html.roofline import roofline
from archmodel.report.html.stack import stack
from archmodel.report.html.table import Cell, Table, quantity
from archmodel.report.html.text import label, labels, lines, markup
from archmodel.report.html.timeline import timeline
from archmodel.report.html.traffic import traffic
from archmodel.report.html.waterfall import waterfall
from archmodel.report.words import one_line, percent, plural, signed, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

Named = Sequence[tuple[str, "Estimate"]]
MOST = 8
"""Designs of one page."""

SAME = 1e-9


def compare(estimates: Sequence[Estimate], names: Sequence[str] | None = None) -> Page:
    """Two or more designs; the first is what the others are held against. `names`: to tell them by, where their own are
    alike. Raises ArchmodelError for other numbers of designs."""
    if not 2 <= len(estimates) <= MOST:
        raise ArchmodelError(f"{len(estimates)} designs: a comparison takes 2 to {MOST}")
    tags = string.ascii_uppercase[: len(estimates)]
    own = [e.design.name or "unnamed" for e in estimates]
    called = own if len(set(own)) == len(own) or names is None else list(names)
    named = [(f"{tag}: {name}", e) for tag, name, e in zip(tags, called, estimates, strict=True)]
    values, differing = outputs(named), inputs(named)
    count = plural(len(differing.rows), "value") + (" differs" if len(differing.rows) == 1 else " differ")
    sections = [
        Section(
            "inputs", "What differs", [differing if differing.rows else _SAME], note=f"{count} between the designs."
        ),
        Section("outputs", "What comes of it", [ratios(named, values), _table(named, values)]),
        Section("phases", "Where the time goes", [stack(named), groups(named)]),
        Section("levers", "What one percent more buys", [levers(named)]),
    ]
    sections += [
        Section(name, title, _side_by_side(named, maker), beside=True)
        for name, title, maker in (
            ("falls", "Waterfalls", waterfall),
            ("timelines", "Timelines", timeline),
            ("roofs", "Rooflines", roofline),
            ("memories", "Memory", memory),
            ("balances", "Balance over ranks", balance),
            ("moves", "Traffic", traffic),
            ("nets", "Networks", network),
            ("each", "Levers of each", elasticities),
        )
    ]
    title = " against ".join(one_line(name) for name in called)
    return Page(title, f"{plural(len(estimates), 'design')}; ratios are to A", _tops(named), sections)


_SAME = "<p>The designs hold the same values.</p>"


def _tops(named: Named) -> str:
    return "".join(
        f"<h2>{markup(one_line(tag))}</h2>{headline.as_html(headline.cards(estimate)[:5])}" for tag, estimate in named
    )


# --- differences ----------------------------------------------------------------------------------------------


def inputs(named: Named) -> Table:
    """A row per value that is not the same in all designs."""
    found = [tables.leaves(estimate.design) for _, estimate in named]
    rows: list[list[Cell]] = []
    for path in dict.fromkeys(path for one in found for path in one):
        values = [one.get(path, "") for one in found]
        if len(set(values)) > 1 and path != "name" and not path.startswith("published."):
            rows.append([path, *(one_line(value) or "-" for value in values)])
    return Table("inputs-that-differ", [("field", ""), *((tag.split(":")[0], "") for tag, _ in named)], rows, page=15)


Outputs = dict[str, tuple[str, list[float | None]]]


def outputs(named: Named) -> Outputs:
    """By name: dimension, and the value of each design; None where it has no such thing."""
    found: Outputs = {}

    def add(name: str, kind: str, values: list[Any]) -> None:
        if any(value is not None for value in values):
            found[name] = (kind, [None if value is None else float(value) for value in values])

    every = [estimate for _, estimate in named]
    add("iteration time", "seconds", [e.iteration_time for e in every])
    add("throughput", "sample_rate", [e.throughput for e in every])
    add("latency", "seconds", [e.latency for e in every])
    add("exposed communication", "seconds", [e.exposed_communication for e in every])
    add("busiest rank computes", "seconds", [e.busy("compute").max() for e in every])
    for tier in dict.fromkeys(tier for e in every for tier in e.memory):
        needs = [e.memory.get(tier) for e in every]
        add(f"{tier} needed", "bytes", [n.worst if n is not None and n.worst > 0 else None for n in needs])
    add("energy per sample", "joules_per_sample", [e.energy and e.energy.per_sample for e in every])
    add("mean power", "watts", [e.energy and e.energy.power for e in every])
    add("cost per Msample", "usd", [e.cost and e.cost.per_million_samples for e in every])
    return found


def _table(named: Named, values: Outputs) -> Table:
    rows: list[list[Cell]] = []
    for name, (kind, row) in values.items():
        cells: list[Cell] = [name, *(quantity(v, kind) if v is not None else ("", None) for v in row)]
        for v in row[1:]:
            known = v is not None and row[0] not in (None, 0.0)
            cells.append((f"{v / row[0]:.3g}", v / row[0]) if known and v is not None and row[0] else ("", None))
        rows.append(cells)
    rows.append(["bound by", *((one_line(e.bound.resource), None) for _, e in named), *[("", None)] * (len(named) - 1)])
    tags = [tag.split(":")[0] for tag, _ in named]
    columns = [("output", ""), *((tag, "SI") for tag in tags), *((f"{tag} / A", "ratio") for tag in tags[1:])]
    return Table("outputs-side-by-side", columns, rows, page=40)


def ratios(named: Named, values: Outputs) -> Figure:
    """Outputs of every design over those of the first."""
    names = [name for name, (_, row) in values.items() if row[0]]
    traces: list[dict[str, Any]] = []
    for i, (tag, _) in enumerate(named[1:], 1):
        changes = []
        for name in names:
            value, base = values[name][1][i], values[name][1][0]
            changes.append(None if value is None or not base else value / base - 1.0)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label(tag, 36),
                "y": list(range(len(names))),
                "x": [None if c is None else 100 * c for c in changes],
                "text": ["" if c is None else signed(c, 1) for c in changes],
                "textposition": "auto",
                "cliponaxis": False,
                "hovertext": [
                    lines(
                        label(name), *(f"{label(t, 30)}: {_shown(values[name], j)}" for j, (t, _) in enumerate(named))
                    )
                    for name in names
                ],
                "hoverinfo": "text",
                "marker": {"color": palette.SERIES[i % len(palette.SERIES)]},
            }
        )
    ends = [0.0, *(x for trace in traces for x in trace["x"] if x is not None)]
    reach = max(ends) - min(ends) or 1.0
    layout = {
        "xaxis": {
            "ticksuffix": " %",
            "title": {"text": f"against {label(named[0][0], 40)}"},
            "range": [max(min(ends) - 0.22 * reach, min(-125.0, -0.18 * reach)), max(ends) + 0.22 * reach],
        },
        "yaxis": listing_axis(labels(names, 30)),
        "showlegend": True,
    }
    height = 110 + len(names) * (8 + 18 * (len(named) - 1))
    said = _said(named)
    return Figure("ratios", "Outputs in ratio", said, traces, layout, height, {"yaxis.tickfont.size": 10})


def _shown(output: tuple[str, list[float | None]], i: int) -> str:
    kind, row = output
    value = row[i]
    return "none" if value is None else show(value, kind)


def _said(named: Named) -> str:
    base = float(named[0][1].throughput)
    parts = []
    for tag, estimate in named[1:]:
        speed = float(estimate.throughput) / base
        fits = "" if estimate.fits else ", but does not fit"
        parts.append(f"{tag.split(':')[0]} has {speed:.3g} times the throughput of A{fits}")
    first = named[0][1]
    return f"{'; '.join(parts)}. A takes {time(first.iteration_time)}, bound by {one_line(first.bound.resource)}."


def groups(named: Named) -> Table:
    """A row per group of ops: seconds in each design, and the change against the first; the largest change first."""
    times: dict[str, list[float | None]] = {}
    for i, (_, estimate) in enumerate(named):
        for phase in estimate.phases:
            row = times.setdefault(f"{phase.name} ({phase.phase})", [None] * len(named))
            row[i] = (row[i] or 0.0) + float(phase.slowest)
    ranked = sorted(times.items(), key=lambda item: -max(abs((v or 0.0) - (item[1][0] or 0.0)) for v in item[1]))
    rows: list[list[Cell]] = []
    for name, row in ranked:
        cells: list[Cell] = [name, *(quantity(v, "seconds") if v is not None else ("", None) for v in row)]
        for v in row[1:]:
            change = (v or 0.0) - (row[0] or 0.0)
            cells.append(
                (f"{'+' if change > 0 else '-'}{time(abs(change))}", change) if abs(change) > SAME else ("", 0.0)
            )
        rows.append(cells)
    tags = [tag.split(":")[0] for tag, _ in named]
    columns = [("ops", ""), *((tag, "s") for tag in tags), *((f"{tag} less A", "s") for tag in tags[1:])]
    return Table("groups-side-by-side", columns, rows, page=20)


def levers(named: Named) -> Figure:
    """Elasticities beside each other."""
    found = [estimate.elasticities for _, estimate in named]
    names = list(dict.fromkeys(name for one in found for name, slope in one.items() if abs(slope) >= LEAST))
    names = sorted(names, key=lambda name: -max(abs(one.get(name, 0.0)) for one in found))[:12]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label(tag, 36),
            "y": list(range(len(names))),
            "x": [one.get(name, 0.0) for name in names],
            "hovertext": [
                lines(label(name, 60), f"{label(tag, 36)}: {signed(one.get(name, 0.0) / 100, 3)}") for name in names
            ],
            "hoverinfo": "text",
            "marker": {"color": palette.SERIES[i % len(palette.SERIES)]},
        }
        for i, ((tag, _), one) in enumerate(zip(named, found, strict=True))
    ]
    short = [name.removeprefix("system.") for name in names]
    layout = {
        "xaxis": {"ticksuffix": " %", "title": {"text": "change of the iteration time"}},
        "yaxis": listing_axis(labels(short, 44)),
    }
    tops = [max(one, key=lambda name: abs(one[name]), default="nothing") for one in found]
    said = ", ".join(
        f"{tag.split(':')[0]}: {one_line(top.removeprefix('system.'))} {percent(abs(one.get(top, 0.0)) / 100, 2)}"
        for (tag, _), one, top in zip(named, found, tops, strict=True)
    )
    return Figure(
        "levers-compared",
        "What one percent more buys",
        f"Strongest lever of {said} of the iteration.",
        traces,
        layout,
        height=110 + len(names) * (8 + 12 * len(named)),
        narrow={"yaxis.ticktext": labels(short, 20), "yaxis.tickfont.size": 10},
    )


# --- side by side ---------------------------------------------------------------------------------------------


def _side_by_side(named: Named, maker: Any) -> list[Block]:
    made = [maker(estimate) for _, estimate in named]
    spans = [figure.layout.get("xaxis", {}).get("range") for figure in made]
    if maker in (timeline, waterfall):
        ends = [s[1] for s in spans if s] or [1.08 * float(e.iteration_time) for _, e in named]
        made = [
            replace(f, layout={**f.layout, "xaxis": {**f.layout["xaxis"], "range": [0.0, max(ends)]}}) for f in made
        ]
    height = max(figure.height for figure in made)
    return [
        replace(figure, name=f"{figure.name}-{tag.split(':')[0].lower()}", title=tag, height=height)
        for figure, (tag, _) in zip(made, named, strict=True)
    ]
