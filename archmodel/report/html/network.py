"""What an iteration puts on every link, drawn over the machine: the busiest link, and how far others are from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.quantities import show
from archmodel.report.html import drawing, palette
from archmodel.report.html.drawing import Line, Pair, Point
from archmodel.report.html.figure import Figure
from archmodel.report.html.page import Block
from archmodel.report.html.table import Cell, Table, quantity, share
from archmodel.report.html.text import label, lines
from archmodel.report.link_loads import MOST_RANKS, iteration_loads
from archmodel.report.words import data, one_line, percent, plural, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate
    from archmodel.network.load import LinkLoads
    from archmodel.network.topology import Topology

HOW = (
    "Busy: bytes over the bandwidth of the link, in the direction that carries more; colours and widths go from "
    "nothing to the busiest link. What software takes beside is in the timeline."
)


@dataclass(frozen=True)
class Loads:
    """Loads of links with the names that are drawn, the iteration time, and bytes of which the links are not known."""

    topology: Topology
    found: LinkLoads
    links: Sequence[Pair]
    period: float
    unknown: float

    @classmethod
    def of(cls, estimate: Estimate) -> Loads:
        """Those of an iteration."""
        topology = estimate.design.system.topology(estimate.program.ranks)
        found, unknown = iteration_loads(estimate)
        return cls(topology, found, drawing.named(topology, found.ends), float(estimate.iteration_time), unknown)

    @property
    def share(self) -> Any:
        """Part of the iteration in which each link is busy, (links,)."""
        return self.found.seconds / self.period

    def told(self, i: int) -> tuple[str, str]:
        """One direction of a link: bytes, seconds, bandwidth, share."""
        a, b = self.links[i]
        seconds, width = float(self.found.seconds[i]), show(float(self.found.bandwidth[i]), "bandwidth")
        return (
            f"{label(a, 24)} to {label(b, 24)}: {data(float(self.found.bytes[i]))}",
            f"  busy {time(seconds)} at {width}, {percent(seconds / self.period, 1)}",
        )

    def told_all(self, head: str, which: list[int]) -> str:
        """Both directions of one link; of many links, their sum and the busiest."""
        if len(which) <= 2:
            return lines(head, *(row for i in which for row in self.told(i)))
        sums = f"{len(which):,} directed links, {data(float(self.found.bytes[which].sum()))} in all"
        return lines(head, sums, "busiest:", *self.told(max(which, key=lambda i: self.found.seconds[i])))


def blocks(estimate: Estimate) -> list[Block]:
    """The figure, and a row per directed link; nothing for a single rank."""
    ranks = estimate.program.ranks
    if not 1 < ranks <= MOST_RANKS:
        return [network(estimate)] if ranks > 1 else []
    loads = Loads.of(estimate)
    return [network(estimate, loads), _table(loads)]


def network(estimate: Estimate, loads: Loads | None = None) -> Figure:
    """Links by the share of an iteration in which they are busy; of a large machine, nodes."""
    ranks = estimate.program.ranks
    if not 1 < ranks <= MOST_RANKS:
        why = "One rank: nothing crosses a network." if ranks == 1 else f"{ranks:,} ranks: more than are drawn."
        return drawing.nothing("network", "Load of every link", why)
    loads = Loads.of(estimate) if loads is None else loads
    topology, links = loads.topology, loads.links
    by_node = drawing.by_node(topology)
    grouped = drawing.grouped(links, topology)
    top = float(loads.share.max(initial=0.0))
    drawn = {
        pair: Line(
            float(loads.share[which].max()) / top if top else 0.0,
            loads.told_all(f"<b>{label(pair[0], 30)} and {label(pair[1], 30)}</b>", which),
        )
        for pair, which in grouped.items()
        if pair[0] != pair[1]
    }
    place = drawing.places(topology, list(drawn))
    told = {v: _vertex(v, grouped.get((v, v), []), loads) for v in place}
    ends = drawing.ends(place, told, nodes=by_node)
    notes = [HOW]
    if by_node:
        inside = [float(loads.share[grouped.get((v, v), [])].max(initial=0.0)) for v in place if drawing.plain(v)]
        ends[0]["marker"] |= {"color": [palette.along(share / top if top else 0.0) for share in inside]}
        notes.append(
            f"{ranks:,} ranks: a point is a node of {topology.local_size}, in the colour of its busiest link inside; a "
            "line is all links between two points, as busy as the busiest of them."
        )
    else:
        ends += _interfaces(estimate, place, loads)
    if loads.unknown:
        notes.append(f"{data(loads.unknown)} of ops whose messages are not known are left out.")
    layout = {**drawing.layout_of(place, topology), "coloraxis": drawing.scale(top)}
    busiest = int(loads.share.argmax())
    worst = next(pair for pair, which in grouped.items() if busiest in which)
    if worst in drawn and top:
        layout["annotations"] = [drawing.arrow(worst, place, f"busiest, {percent(top)}")]
    return Figure(
        "network",
        "Load of every link",
        _takeaway(loads),
        [*drawing.loaded(drawn, place, top), *ends],
        layout,
        height=drawing.height_of(place),
        note=" ".join(notes),
        narrow={"showlegend": False, "coloraxis.colorbar": drawing.LYING},
    )


def _table(loads: Loads) -> Table:
    found, shares = loads.found, loads.share
    rows: list[list[Cell]] = [
        [
            *loads.links[i], quantity(found.bytes[i], "bytes"), quantity(found.bandwidth[i], "bandwidth"),
            quantity(found.seconds[i], "seconds"), share(float(shares[i]), 1),
        ]
        for i in np.argsort(-shares, kind="stable").tolist()
    ]  # fmt: skip
    columns = [
        ("from", ""), ("to", ""), ("carries", "B"), ("bandwidth", "B/s"), ("busy", "s"), ("of the time", "fraction"),
    ]  # fmt: skip
    return Table("links", columns, rows, page=6)


def _takeaway(loads: Loads) -> str:
    found, top = loads.found, int(loads.share.argmax())
    if not found.bytes.any():
        return "No link carries anything."
    a, b = loads.links[top]
    said = (
        f"The busiest of {len(loads.links):,} directed links is {one_line(a)} to {one_line(b)}: "
        f"{data(float(found.bytes[top]))} an iteration, {percent(float(loads.share[top]))} of the time at "
        f"{show(float(found.bandwidth[top]), 'bandwidth')}."
    )
    parts = {"inside nodes": loads.share[: found.inside], "between nodes": loads.share[found.inside :]}
    means = " and ".join(f"{percent(float(s.mean()), 1)} {where}" for where, s in parts.items() if s.size)
    idle = len(loads.links) - int(np.count_nonzero(found.bytes))
    unused = f" {plural(idle, 'link')} carr{'ies' if idle == 1 else 'y'} nothing." if idle else ""
    return f"{said} The mean is {means}.{unused}"


def _vertex(v: str, inner: list[int], loads: Loads) -> str:
    head = f"<b>{label(v, 40)}</b>"
    if inner:
        return loads.told_all(f"{head}, links inside", inner)
    sums = [sum(float(loads.found.bytes[i]) for i, p in enumerate(loads.links) if p[side] == v) for side in (0, 1)]
    return lines(head, f"sends {data(sums[0])}, receives {data(sums[1])}" if any(sums) else "")


def _interfaces(estimate: Estimate, place: Mapping[str, Point], loads: Loads) -> list[dict[str, Any]]:
    """Interfaces of a switched network, on the way from their ranks to the switches."""
    system, found, topology = estimate.design.system, loads.found, loads.topology
    nic, out = system.node.nic, system.scale_out
    if topology.nodes == 1 or nic is None or out is None or not out.needs_nic:
        return []
    gpus = system.node.gpus
    sharing = max(1, -(-gpus // (gpus if nic.per_node is None else nic.per_node)))
    ways: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for i in range(found.inside, len(found.ends)):
        for side, end in enumerate(found.ends[i]):
            if isinstance(end, int):
                node, local = divmod(end, topology.local_size)
                ways.setdefault((node, local // sharing), ([], []))[side].append(i)
    at: dict[str, Point] = {}
    told: dict[str, str] = {}
    for (node, number), both in ways.items():
        spots = np.array([[place[v] for v in loads.links[i]] for i in both[0]])  # (links, 2 ends, x and y)
        x, y = (0.82 * spots[:, 0] + 0.18 * spots[:, 1]).mean(0).tolist()
        sums = [float(found.bytes[way].sum()) for way in both]
        busy = max(float(found.seconds[way].mean()) for way in both) / loads.period
        called = f"interface {number} of node {node}"
        at[called] = (x, y)
        told[called] = lines(
            f"<b>{called}</b>, {show(nic.bandwidth, 'bandwidth')} each way",
            f"sends {data(sums[0])}, receives {data(sums[1])}, busy {percent(busy, 1)}",
        )
    return [drawing.points("interfaces", "diamond", list(at), at, told, 7) | {"mode": "markers"}]
