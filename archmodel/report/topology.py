"""A machine's network as a terminal shows it."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from archmodel.quantities import Num, show
from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, plural, time, whole

if TYPE_CHECKING:
    from archmodel.network.dimension import Dimension
    from archmodel.network.topology import Topology

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
