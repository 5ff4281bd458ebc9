"""Dimensions whose links are listed one by one: custom graphs, and fabrics with failed or degraded links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from archmodel.errors import listed
from archmodel.network.errors import TopologyError
from archmodel.network.pattern import NOTHING, Pattern
from archmodel.network.shape import Ints, Shape
from archmodel.quantities import Array, Num

Truth: TypeAlias = npt.NDArray[np.bool_]

MOST_SUBSETS = 16
"""Ranks up to which the narrowest even cut is found by trying all."""

MOST_VERTICES = 512
"""Vertices up to which a spectral cut is among those tried."""


End: TypeAlias = int | str
"""A rank by its number, anything else (a switch) by its name."""


class Edge(NamedTuple):
    """A link, or several parallel ones: two ends, bytes per second in each direction, latency."""

    a: End
    b: End
    bandwidth: Num
    latency: Num = 0.0


@dataclass(frozen=True, slots=True)
class Wires:
    """Directed links, parallel ones added up: arrays of one entry per link. Vertices `size`.. are switches."""

    size: int
    names: tuple[int | str, ...]
    tail: Ints
    head: Ints
    width: Array
    """Nominal B/s, for striping and for finding the busiest link: means over design points."""
    scale: Num
    """Actual over nominal bandwidth: 1, or an array over design points."""
    latency: Array


class Graph(Shape):
    """A shape given by its links. Every message is spread over all shortest paths (fewest links): at each
    vertex over the links that lead on, in proportion to their bandwidth. Parallel links and parallel planes
    of switches are so striped, and add up.

    Cost: time of a pattern ~ targets x links; memory ~ links.
    """

    __slots__ = ("__dict__", "wires")

    wires: Wires

    def __init__(self, wires: Wires) -> None:
        object.__setattr__(self, "size", wires.size)
        object.__setattr__(self, "bandwidth", float(wires.width.max(initial=1.0)) * wires.scale)
        object.__setattr__(self, "latency", float(wires.latency.max(initial=0.0)))
        object.__setattr__(self, "wires", wires)

    @cached_property
    def _uniform(self) -> Pattern:
        ranks = np.arange(self.size)
        return self._routed({int(t): (ranks, np.ones(self.size)) for t in ranks})

    def uniform(self) -> Pattern:
        return self._uniform

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        if row is not None and row.any():
            return self._busiest_row(source, target, weight, row)
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)
        order = np.argsort(target, kind="stable")
        ends, starts = np.unique(target[order], return_index=True)
        parts = np.split(order, starts[1:])
        return self._routed({int(t): (source[part], w[part]) for t, part in zip(ends, parts, strict=True)})

    def _busiest_row(self, source: Ints, target: Ints, weight: Array | float, row: Ints) -> Pattern:
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)
        found: dict[tuple[bytes, ...], Pattern] = {}
        for number in np.unique(row):
            parts = (source[row == number], target[row == number], w[row == number])
            key = tuple(part.tobytes() for part in parts)
            if key not in found:
                found[key] = self.between(*parts)
        return max(found.values(), key=lambda p: float(np.max(p.seconds_per_byte)))

    def loads(self, source: Ints, target: Ints, weight: Array | float = 1.0) -> Array:
        """Bytes on every directed link, in the order of `wires`."""
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)
        load = np.zeros(self.wires.tail.size)
        for t in np.unique(target):
            mine = target == t
            load += self._towards(int(t), source[mine], w[mine])[0]
        return load

    def carried(self, demand: Array) -> Array:
        """Bytes on every directed link, (..., links), of messages demand[..., i, j] from rank i to rank j."""
        wires, n = self.wires, self.size
        lead = demand.shape[:-2]
        load = np.zeros((*lead, wires.tail.size))
        apart = np.where(np.eye(n, dtype=bool), 0.0, demand)
        for t in np.flatnonzero(apart.any(axis=tuple(range(apart.ndim - 1)))):
            hops, on_path, share = self._tree(int(t))
            flow = np.zeros((*lead, len(wires.names)))
            flow[..., :n] = apart[..., t]
            lost = np.flatnonzero((flow > 0).reshape(-1, flow.shape[-1]).any(0) & (hops < 0))
            if lost.size:
                raise TopologyError(f"no path of links joins rank {int(lost[0])} to rank {int(t)}")
            for links in on_path[:0:-1]:
                moved = flow[..., wires.tail[links]] * share[links]
                load[..., links] += moved
                np.add.at(flow.T, wires.head[links], moved.T)
        return load

    def _routed(self, demand: Mapping[int, tuple[Ints, Array]]) -> Pattern:
        load = np.zeros(self.wires.tail.size)
        most, fewest, path, edge = 0, 0, 0.0, 0.0
        for t, (source, weight) in demand.items():
            moving = source != t
            if not moving.any():
                continue
            part, hops, latency, ends = self._towards(t, source[moving], weight[moving])
            load += part
            far = int(hops.max())
            near = int(hops.min())
            most, fewest = max(most, far), near if fewest == 0 else min(fewest, near)
            if float(latency.max()) >= path:
                path = float(latency.max())
                edge = float(ends[int(latency.argmax())])
        if most == 0:
            return NOTHING
        busiest = int((load / self.wires.width).argmax())
        return Pattern(
            load=float(load[busiest]),
            bandwidth=float(self.wires.width[busiest]) * self.wires.scale,
            hops=most,
            least_hops=fewest,
            latency=path,
            edge_latency=edge,
        )

    def _towards(self, target: int, source: Ints, weight: Array) -> tuple[Array, Ints, Array, Array]:
        """(load of every link; hops, path latency, latency of first and last link of each message)."""
        wires = self.wires
        hops, on_path, share = self._tree(target)
        lost = source[hops[source] < 0]
        if lost.size:
            raise TopologyError(f"no path of links joins rank {int(lost[0])} to rank {target}")
        vertices = len(wires.names)
        flow = np.bincount(source, weights=weight, minlength=vertices).astype(np.float64)
        load = np.zeros(wires.tail.size)
        delay = np.zeros(vertices)
        last = np.zeros(vertices)
        far = int(hops[source].max())
        for distance in range(1, far + 1):  # path latency, mean over the links that lead on
            links = on_path[distance]
            tail, head = wires.tail[links], wires.head[links]
            np.add.at(delay, tail, share[links] * (wires.latency[links] + delay[head]))
            np.add.at(last, tail, share[links] * (wires.latency[links] if distance == 1 else last[head]))
        for distance in range(far, 0, -1):
            links = on_path[distance]
            tail, head = wires.tail[links], wires.head[links]
            moved = flow[tail] * share[links]
            load[links] += moved
            np.add.at(flow, head, moved)
        first = np.zeros(vertices)
        for distance in range(2, far + 1):
            links = on_path[distance]
            np.add.at(first, wires.tail[links], share[links] * wires.latency[links])
        return load, hops[source], delay[source], (first + last)[source]

    def _tree(self, target: int) -> tuple[Ints, list[Ints], Array]:
        """Hops of every vertex to `target` (-1: none), links on shortest paths by distance of their tail, and
        the share of its tail's traffic that each takes."""
        wires = self.wires
        vertices = len(wires.names)
        hops = np.full(vertices, -1, dtype=np.int64)
        hops[target] = 0
        reached = np.zeros(vertices, dtype=bool)
        reached[target] = True
        by_distance: list[Ints] = [np.empty(0, dtype=np.int64)]
        share = np.zeros(wires.tail.size)
        while True:
            links = np.flatnonzero(reached[wires.head] & (hops[wires.tail] < 0))
            if not links.size:
                return hops, by_distance, share
            tails = wires.tail[links]
            total = np.bincount(tails, weights=wires.width[links], minlength=vertices)
            share[links] = wires.width[links] / total[tails]
            hops[tails] = len(by_distance)
            by_distance.append(links)
            reached = np.zeros(vertices, dtype=bool)
            reached[tails] = True

    def rank_bandwidth(self) -> Num:
        if not self.wires.tail.size:
            return self.bandwidth
        out = np.bincount(self.wires.tail, weights=self.wires.width, minlength=self.size)[: self.size]
        least: Num = float(out.min()) * self.wires.scale
        return least

    @cached_property
    def _cut(self) -> float:
        return _narrowest_half(self.wires)

    def bisection(self) -> Num:
        cut: Num = self._cut * self.wires.scale
        return cut


def wires_of(size: int, edges: Iterable[Edge]) -> Wires:
    """Links (end, end, B/s per direction, latency), each once, both directions; parallel ones add up.

    Raises `TopologyError` for a rank that does not exist, a link to itself, and ranks that no path joins.
    """
    merged: dict[tuple[End, End], list[tuple[Num, Num]]] = {}
    switches: dict[str, None] = {}
    for a, b, bandwidth, latency in edges:
        for end in (a, b):
            if isinstance(end, int) and not 0 <= end < size:
                raise TopologyError(f"a link names rank {end}; there are ranks 0 to {size - 1}")
            if isinstance(end, str):
                switches.setdefault(end)
        if a == b:
            raise TopologyError(f"{a} is linked to itself")
        merged.setdefault((a, b), []).append((bandwidth, latency))
        merged.setdefault((b, a), []).append((bandwidth, latency))
    names: tuple[End, ...] = (*range(size), *switches)
    number = {name: i for i, name in enumerate(names)}
    nominal = [sum(float(np.mean(bandwidth)) for bandwidth, _ in links) for links in merged.values()]
    wires = Wires(
        size=size,
        names=names,
        tail=np.array([number[a] for a, _ in merged], dtype=np.int64),
        head=np.array([number[b] for _, b in merged], dtype=np.int64),
        width=np.array(nominal, dtype=np.float64),
        scale=_scale([bandwidth for links in merged.values() for bandwidth, _ in links]),
        latency=np.array(
            [max(float(np.mean(late)) for _, late in links) for links in merged.values()], dtype=np.float64
        ),
    )
    _check_joined(wires)
    return wires


def _scale(bandwidths: Sequence[Num]) -> Num:
    """What all links have in common over design points; they may only change together."""
    arrays = [b for b in bandwidths if isinstance(b, np.ndarray) and b.size > 1]
    if not arrays:
        return 1.0
    scale: Array = arrays[0] / arrays[0].mean()
    if len(arrays) < len(bandwidths) or not all(np.allclose(b / b.mean(), scale) for b in arrays):
        raise TopologyError("the links of a listed graph can only change together over design points")
    return scale


def _check_joined(wires: Wires) -> None:
    """Every rank reaches every other."""
    if wires.size == 1:
        return
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(wires.names)
    alive = wires.width > 0
    graph = coo_array((np.ones(int(alive.sum())), (wires.tail[alive], wires.head[alive])), shape=(n, n))
    _, part = connected_components(graph, directed=False)
    apart = np.flatnonzero(part[: wires.size] != part[0])
    if apart.size:
        shown = listed([str(rank) for rank in apart.tolist()], 8)
        raise TopologyError(f"no path of links joins rank 0 to rank{'s' if apart.size > 1 else ''} {shown}")


def _narrowest_half(wires: Wires) -> float:
    """B/s across the narrowest cut into floor(size/2) and the other ranks, switches on the better side.

    Exact up to `MOST_SUBSETS` ranks that are joined without switches. Else the narrowest of a few likely cuts, so at
    most too wide: rank order, even and odd ranks, and the two sides of the second eigenvector of the Laplacian.
    """
    n = wires.size
    if n == 1:
        return 0.0
    if n <= MOST_SUBSETS and len(wires.names) == n:
        return _by_trying(wires)
    rank = np.arange(n)
    halves = [rank < n // 2, (rank % 2 == 1) & (rank < 2 * (n // 2))]
    if len(wires.names) <= MOST_VERTICES:
        halves.append(np.argsort(np.argsort(_second_eigenvector(wires)[:n], kind="stable")) < n // 2)
    return min(_cut_between(wires, half) for half in halves)


def _second_eigenvector(wires: Wires) -> Array:
    """Of the graph's Laplacian, (vertices,)."""
    v = len(wires.names)
    laplacian = np.zeros((v, v))
    laplacian[wires.tail, wires.head] = -wires.width / wires.width.max()
    laplacian[np.arange(v), np.arange(v)] = -laplacian.sum(axis=1)
    vector: Array = np.linalg.eigh(laplacian)[1][:, 1]
    return vector


def _cut_between(wires: Wires, half: Truth) -> float:
    """Least bandwidth between the ranks of a half and the others (max-flow, min-cut)."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    for a, b, width in zip(wires.tail.tolist(), wires.head.tolist(), wires.width.tolist(), strict=True):
        graph.add_edge(a, b, capacity=width)
    for rank, inside in enumerate(half.tolist()):
        graph.add_edge("one side", rank) if inside else graph.add_edge(rank, "the other")
    return float(nx.minimum_cut_value(graph, "one side", "the other"))


def _by_trying(wires: Wires) -> float:
    n = wires.size
    halves = combinations(range(n), n // 2)
    best = np.inf
    while block := list(islice(halves, 4096)):
        inside = np.zeros((len(block), n), dtype=bool)
        inside[np.arange(len(block))[:, None], np.array(block)] = True
        crossing = inside[:, wires.tail] & ~inside[:, wires.head]
        best = min(best, float((crossing * wires.width).sum(axis=1).min()))
    return float(best)
