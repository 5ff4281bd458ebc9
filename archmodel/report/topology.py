"""A machine's network as a terminal shows it, and as a picture."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from archmodel.quantities import Num, show
from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, plural, time, whole

if TYPE_CHECKING:
    import networkx as nx

    from archmodel.network.dimension import Dimension
    from archmodel.network.topology import Topology

MOST_DRAWN = 1024
"""Ranks that a picture shows; of larger machines the first nodes, or the first rows, would say no more."""

MOST_LISTED = 65_536
"""Ranks up to which links are counted one by one."""


def show_topology(topology: Topology, name: str, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints ranks, a row for every dimension, and the kinds of links there are."""
    out = file or sys.stdout
    numbers = ("ranks", "per rank", "ring", "all pairs", "step", "bisection")
    rows = table("dimension", "kind", *numbers, right=numbers)
    for d in topology.dimensions:
        cells = (
            _bandwidth(d.bandwidth),
            _bandwidth(d.ring_bandwidth if d.size > 1 else 0.0),
            _bandwidth(d.direct_bandwidth if d.size > 1 else 0.0),
            time(d.latency),
            _bandwidth(d.bisection),
        )
        rows.add_row(one_line(d.name), one_line(d.kind), f"{d.size:,}", *(whole(cell) for cell in cells))
    blocks: list[Any] = [Text(headline(topology, name), "bold"), Text(), rows, Text()]
    if topology.ranks <= MOST_LISTED:
        links = table("links", "between", "each", "latency", right=("links", "each", "latency"))
        for (ends, bandwidth, latency), count in link_kinds(topology):
            links.add_row(f"{count:,}", ends, whole(_bandwidth(bandwidth)), whole(time(latency)))
        blocks += [links, Text()]
    blocks.append(
        Text("bandwidths per direction; ring and all pairs: what a rank achieves, software efficiency included", "dim")
    )
    emit(console(out, width), blocks, out)


def headline(topology: Topology, name: str) -> str:
    """`NVIDIA DGX H100   16 ranks · 2 nodes of 8`."""
    nodes = f"{plural(topology.nodes, 'node')} of {topology.local_size}"
    return f"{one_line(name) or 'unnamed'}   {plural(topology.ranks, 'rank')} · {nodes}"


def to_dict(topology: Topology) -> dict[str, Any]:
    """The same in SI units."""
    kinds = link_kinds(topology) if topology.ranks <= MOST_LISTED else []
    return {
        "ranks": topology.ranks,
        "nodes": topology.nodes,
        "local_size": topology.local_size,
        "dimensions": [_dimension(d) for d in topology.dimensions],
        "links": [
            {"between": ends, "count": count, "bandwidth": bandwidth, "latency": latency}
            for (ends, bandwidth, latency), count in kinds
        ],
    }


def _dimension(d: Dimension) -> dict[str, Any]:
    return {
        "name": d.name,
        "kind": d.kind,
        "level": d.level,
        "size": d.size,
        "bandwidth": float(d.bandwidth),
        "ring_bandwidth": float(d.ring_bandwidth),
        "direct_bandwidth": float(d.direct_bandwidth),
        "latency": float(d.latency),
        "bisection": float(d.bisection),
    }


def link_kinds(topology: Topology) -> list[tuple[tuple[str, float, float], int]]:
    """((between what, B/s per direction, latency), how many), the widest first."""
    counted: Counter[tuple[str, float, float]] = Counter()
    for edge in topology.wiring():
        ends = sorted("GPU" if isinstance(end, int) else "switch" for end in (edge.a, edge.b))
        counted[f"{ends[0]} and {ends[1]}", float(edge.bandwidth), float(edge.latency)] += 1
    return sorted(counted.items(), key=lambda item: (item[0][0], -item[0][1]))


def _bandwidth(value: Num) -> str:
    return show(value, "bandwidth") if float(value) else ""


# --- the picture ------------------------------------------------------------------------------------------------


def figure(topology: Topology, name: str) -> Any:
    """A plotly figure: ranks on a circle for each node, switches above them, links as wide as their bandwidth."""
    import plotly.graph_objects as go  # type: ignore[import-untyped]

    graph = topology.graph()
    if topology.ranks > MOST_DRAWN:
        shown = MOST_DRAWN // topology.local_size * topology.local_size or MOST_DRAWN
        graph = graph.subgraph([v for v in graph if isinstance(v, str) or v < shown]).copy()
        graph.remove_nodes_from([v for v in list(graph) if graph.degree[v] == 0 and isinstance(v, str)])
        name = f"{name}, first {shown:,} of {topology.ranks:,} ranks"
    place = layout(graph, topology)
    widest = max((data["bandwidth"] for *_, data in graph.edges(data=True)), default=1.0)
    kinds: dict[tuple[float, float], list[tuple[Any, Any]]] = {}
    for a, b, data in graph.edges(data=True):
        kinds.setdefault((float(data["bandwidth"]), float(data["latency"])), []).append((a, b))
    picture = go.Figure()
    for (bandwidth, latency), pairs in sorted(kinds.items()):
        x: list[float | None] = []
        y: list[float | None] = []
        for a, b in pairs:
            x += [place[a][0], place[b][0], None]
            y += [place[a][1], place[b][1], None]
        label = f"{len(pairs):,} x {show(bandwidth, 'bandwidth')}, {time(latency)}"
        picture.add_scatter(
            x=x,
            y=y,
            mode="lines",
            name=label,
            hoverinfo="skip",
            line={"width": 0.7 + 3.0 * (bandwidth / widest) ** 0.5},
        )
    for kind, symbol in (("gpu", "circle"), ("switch", "square")):
        found = [v for v, data in graph.nodes(data=True) if data["kind"] == kind]
        if found:
            picture.add_scatter(
                x=[place[v][0] for v in found],
                y=[place[v][1] for v in found],
                text=[f"rank {v}" if isinstance(v, int) else one_line(v) for v in found],
                hoverinfo="text",
                mode="markers",
                name={"gpu": "ranks", "switch": "switches"}[kind],
                marker={"size": 9, "symbol": symbol, "line": {"width": 1}},
            )
    hidden = {"visible": False}
    picture.update_layout(
        title=one_line(headline(topology, name)),
        xaxis=hidden,
        yaxis={**hidden, "scaleanchor": "x"},
        template="plotly_white",
    )
    return picture


def layout(graph: nx.Graph[Any], topology: Topology) -> dict[Any, tuple[float, float]]:
    """Where every vertex is drawn: ranks in boxes or circles, a switch above the middle of what hangs on it."""
    axes = [d.size for level in topology.levels for d in level.flat]
    boxed = len(axes) > len(topology.levels)
    place: dict[Any, tuple[float, float]] = {
        rank: _in_box(rank, axes) if boxed else _on_circle(rank, topology.local_size)
        for rank in graph
        if isinstance(rank, int)
    }
    waiting = [v for v in graph if isinstance(v, str)]
    height = max((y for _, y in place.values()), default=0.0)
    while waiting:
        height += 1.2
        middle = {v: [place[w][0] for w in graph[v] if w in place] for v in waiting}
        ready = [v for v in waiting if middle[v]] or waiting
        beside: Counter[float] = Counter()
        for v in ready:
            x = round(sum(middle[v]) / max(len(middle[v]), 1), 3)
            place[v] = (x + 0.35 * beside[x], height)
            beside[x] += 1
        waiting = [v for v in waiting if v not in place]
    return place


def _on_circle(rank: int, local_size: int) -> tuple[float, float]:
    node, local = divmod(rank, local_size)
    turn = 2 * math.pi * local / local_size
    return 3.2 * node + math.cos(turn), math.sin(turn)


def _in_box(rank: int, sizes: list[int]) -> tuple[float, float]:
    """Dimensions in turn to the right and upwards, each box beside the one before; rows bent a little, so that links
    round a ring do not lie on those along it."""
    at, stride = [0.0, 0.0], [1.0, 1.0]
    for i, size in enumerate(sizes):
        rank, step = divmod(rank, size)
        along, across = i % 2, 1 - i % 2
        at[along] += step * stride[along]
        at[across] += 0.15 * math.sin(math.pi * step / max(size - 1, 1)) + 0.05 * step
        stride[along] *= size + 0.5
    return at[0], at[1]
