"""A network as points and lines: where ranks, nodes and switches are drawn, and the marks for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure
from archmodel.report.html.text import label

if TYPE_CHECKING:
    from archmodel.network.graph import End
    from archmodel.network.topology import Topology

MOST_SHOWN, MOST_IN_BOX = 32, 64
"""Ranks that are drawn one by one where a node can stand for its own, round their nodes and in a torus or mesh; of a
larger machine, nodes are drawn."""

PITCH = 3.2
"""From one node to the next, their circles having a radius of 1."""

STEPS = 6
"""Widths and colours of lines."""

MOST_NAMED = 40
"""Points that have their names beside them."""

HERE = 0.3
"""How far along a link its marker sits: at the middle those of crossing links would meet."""

Point = tuple[float, float]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Line:
    """What is drawn between two points: `value` from 0 to 1 sets colour and width; `told` is escaped."""

    value: float
    told: str


# --- where things are -------------------------------------------------------------------------------------------


def by_node(topology: Topology) -> bool:
    """Whether nodes stand for their ranks."""
    return topology.nodes > 1 and topology.ranks > (MOST_IN_BOX if _boxed(topology) else MOST_SHOWN)


def places(topology: Topology, links: Sequence[Pair]) -> dict[str, Point]:
    """Where every vertex of `links` is drawn: nodes in a row or box, ranks of a node round it, switches above what
    hangs on them, and a node's only switch in its middle."""
    apart = by_node(topology)
    ends = dict.fromkeys(v for pair in links for v in pair)
    beside: dict[str, list[str]] = {v: [] for v in ends}
    for a, b in links:
        beside[a].append(b)
        beside[b].append(a)
    everywhere = _nodes(topology) if apart else _ranks(topology)
    found = {v: at for v, at in everywhere.items() if v in ends}
    switches = [v for v in ends if v not in found]
    if not apart:
        inside = Counter(_node_of(v, topology) for v in switches)
        for v in switches:
            around = [found[w] for w in beside[v] if w in found]
            if _node_of(v, topology) and inside[_node_of(v, topology)] == 1 and len(around) > 2:
                found[v] = (float(np.mean([x for x, _ in around])), float(np.mean([y for _, y in around])))
    waiting = [v for v in switches if v not in found]
    left, right = min(x for x, _ in found.values()), max(x for x, _ in found.values())
    step = 0.45 * max(1.0, (right - left) / 6) if apart else 1.6
    height = max(y for _, y in found.values())
    while waiting:
        middle = {v: [_column(w, found, topology) for w in beside[v] if w in found] for v in waiting}
        ready = [v for v in waiting if middle[v]] or waiting
        height += step
        ready.sort(key=lambda v: round(float(np.mean(middle[v])), 6) if middle[v] else 0.0)
        wide = max(right - left, 0.9 * (len(ready) - 1))
        for i, v in enumerate(ready):
            found[v] = ((left + right) / 2 + wide * ((i + 0.5) / len(ready) - 0.5), height)
        waiting = [v for v in waiting if v not in found]
    return found


def _column(v: str, found: Mapping[str, Point], topology: Topology) -> float:
    """Where a vertex stands from left to right; ranks round a node stand where it does."""
    if v.startswith("rank ") and not _boxed(topology):
        return PITCH * (int(v[5:]) // topology.local_size)
    return found[v][0]


def _node_of(switch: str, topology: Topology) -> str:
    """The node that a switch is inside of; empty for those between nodes."""
    if topology.nodes == 1:
        return "node 0"
    return " ".join(switch.split(" ")[:2]) if switch.startswith("node ") else ""


def _boxed(topology: Topology) -> bool:
    return sum(len(level.flat) for level in topology.levels) > len(topology.levels)


def _ranks(topology: Topology) -> dict[str, Point]:
    axes = [d.size for level in topology.levels for d in level.flat]
    if _boxed(topology):
        return {f"rank {rank}": _in_box(rank, axes) for rank in range(topology.ranks)}
    return {f"rank {rank}": _on_circle(rank, topology.local_size) for rank in range(topology.ranks)}


def _nodes(topology: Topology) -> dict[str, Point]:
    outer = topology.scale_out
    axes = [d.size for d in outer.flat] if outer is not None else []
    if len(axes) > 1:
        return {f"node {m}": _in_box(m, axes) for m in range(topology.nodes)}
    return {f"node {m}": (1.0 * m, 0.0) for m in range(topology.nodes)}


def _on_circle(rank: int, local_size: int) -> Point:
    node, local = divmod(rank, local_size)
    turn = 2 * math.pi * (local + 0.5) / local_size
    return PITCH * node + math.cos(turn), math.sin(turn)


def _in_box(rank: int, sizes: Sequence[int]) -> Point:
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


def named(topology: Topology, ends: Sequence[tuple[End, End]]) -> list[Pair]:
    """Links by name: `rank 3`, `leaf 0`, `node 2 switch`; of a single node, `switch`."""
    alone = topology.nodes == 1

    def name(end: End) -> str:
        if isinstance(end, int):
            return f"rank {end}"
        return end.removeprefix("node 0 ") if alone else end

    return [(name(a), name(b)) for a, b in ends]


def grouped(links: Sequence[Pair], topology: Topology) -> dict[Pair, list[int]]:
    """Links by the line that they are drawn as; inside of a node that stands for its ranks, by the node twice."""
    apart = by_node(topology)

    def home(vertex: str) -> str:
        if not apart:
            return vertex
        rank = vertex.startswith("rank ")
        return f"node {int(vertex[5:]) // topology.local_size}" if rank else _node_of(vertex, topology) or vertex

    found: dict[Pair, list[int]] = {}
    for i, (a, b) in enumerate(links):
        one, other = home(a), home(b)
        found.setdefault((other, one) if (other, one) in found else (one, other), []).append(i)
    return found


# --- marks ------------------------------------------------------------------------------------------------------


def plain(v: str) -> bool:
    """Whether it is a rank, or a node that stands for its ranks."""
    kind, _, number = v.partition(" ")
    return kind in ("rank", "node") and number.isdecimal()


def short(v: str) -> str:
    """`3` for a rank or node, the name of a switch without its node."""
    kind, _, rest = v.partition(" ")
    return rest if plain(v) else label(rest.partition(" ")[2] if kind == "node" else v, 12)


def strokes(pairs: Sequence[Pair], place: Mapping[str, Point], colour: str, width: float) -> dict[str, Any]:
    """Straight lines of one colour and width."""
    x: list[float | None] = []
    y: list[float | None] = []
    for a, b in pairs:
        x += [place[a][0], place[b][0], None]
        y += [place[a][1], place[b][1], None]
    line = {"color": colour, "width": width}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip", "showlegend": False}


def loaded(drawn: Mapping[Pair, Line], place: Mapping[str, Point], top: float) -> list[dict[str, Any]]:
    """Lines in steps of width and colour, the idlest first, and a marker on each that says what it carries."""
    by_step: dict[int, list[Pair]] = {}
    for pair, line in drawn.items():
        by_step.setdefault(min(int(line.value * STEPS), STEPS - 1), []).append(pair)
    thick = float(np.clip(150.0 / max(len(drawn), 1), 1.6, 4.2))
    traces = [
        strokes(found, place, palette.along((step + 0.5) / STEPS), 0.8 + thick * (step + 0.5) / STEPS)
        for step, found in sorted(by_step.items())
    ]
    x = [(1 - HERE) * place[a][0] + HERE * place[b][0] for a, b in drawn]
    y = [(1 - HERE) * place[a][1] + HERE * place[b][1] for a, b in drawn]
    busy = [100 * line.value * top for line in drawn.values()]
    marker = {"size": 7 if len(drawn) < 200 else 5, "color": busy, "coloraxis": "coloraxis"}
    told = {"hovertext": [line.told for line in drawn.values()], "hoverinfo": "text"}
    return [*traces, {"type": "scatter", "mode": "markers", "name": "links", "x": x, "y": y, "marker": marker,
                      "showlegend": False, **told}]  # fmt: skip


def scale(top: float) -> dict[str, Any]:
    """The colours of marks by per cent, which are those of the lines; their bar lies below on a narrow screen."""
    bar = {"ticksuffix": " %", "thickness": 12, "outlinewidth": 0, "title": {"text": "busy"}, "len": 0.8}
    return {"colorscale": palette.SEQUENTIAL, "cmin": 0, "cmax": 100 * top or 1.0, "colorbar": bar}


LYING = {"orientation": "h", "ticksuffix": " %", "thickness": 10, "outlinewidth": 0, "y": -0.02, "yanchor": "top",
         "len": 0.9}  # fmt: skip
"""The bar of colours on a narrow screen."""


def points(
    called: str, symbol: str, of: Sequence[str], place: Mapping[str, Point], told: Mapping[str, str], size: int
) -> dict[str, Any]:
    """Marks that say what they are told; up to `MOST_NAMED` of them with their names."""
    names: dict[str, Any] = {"mode": "markers"}
    if len(of) <= MOST_NAMED:
        side = "bottom center" if symbol == "circle" else "top center"
        names = {"mode": "markers+text", "text": [short(v) for v in of], "textposition": side, "textfont": {"size": 10}}
    return {
        "type": "scatter", "name": called, **names,
        "x": [place[v][0] for v in of], "y": [place[v][1] for v in of],
        "hovertext": [told[v] for v in of], "hoverinfo": "text",
        "marker": {"size": size, "symbol": symbol, "color": palette.NEUTRAL,
                   "line": {"width": 1, "color": palette.NEUTRAL}},
    }  # fmt: skip


def arrow(pair: Pair, place: Mapping[str, Point], text: str) -> dict[str, Any]:
    """A name at the mark of a line."""
    (ax, ay), (bx, by) = place[pair[0]], place[pair[1]]
    at = {"x": (1 - HERE) * ax + HERE * bx, "y": (1 - HERE) * ay + HERE * by}
    return {**at, "text": text, "showarrow": True, "arrowhead": 0, "arrowwidth": 1, "ax": 36, "ay": -28,
            "font": {"size": 11}}  # fmt: skip


def layout_of(place: Mapping[str, Point], topology: Topology) -> dict[str, Any]:
    """Axes without ticks, with room around; one node keeps its shape."""
    hidden: dict[str, Any] = {"visible": False}
    xs, ys = [x for x, _ in place.values()], [y for _, y in place.values()]
    wide, high = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
    x = hidden | {"range": [min(xs) - 0.06 * wide, max(xs) + 0.06 * wide]}
    y = hidden | {"range": [min(ys) - 0.08 * high, max(ys) + 0.12 * high]}
    if topology.nodes == 1 and not _boxed(topology):
        y = hidden | {"scaleanchor": "x"}
        x = hidden
    return {"xaxis": x, "yaxis": y, "hovermode": "closest", "showlegend": True}


def height_of(place: Mapping[str, Point]) -> int:
    """Pixels."""
    return 460 if len(place) < 100 else 560


def ends(place: Mapping[str, Point], told: Mapping[str, str], *, nodes: bool) -> list[dict[str, Any]]:
    """Ranks or nodes, then switches."""
    plains = [v for v in place if plain(v)]
    found = [points("nodes" if nodes else "ranks", "circle", plains, place, told, 11)]
    switches = [v for v in place if not plain(v)]
    return [*found, points("switches", "square", switches, place, told, 10)] if switches else found


def nothing(name: str, title: str, said: str) -> Figure:
    """A figure of a network that has nothing to draw."""
    hidden = {"visible": False}
    return Figure(name, title, said, [{"type": "scatter", "x": [], "y": []}], {"xaxis": hidden, "yaxis": hidden}, 60)
