"""Several collectives that run at the same time: what they put on every link together.

Each is reduced to the bytes between pairs of ranks over its whole run, and all are routed over the machine's list of
links (`Topology.routes`: shortest paths, spread over all of them). A collective alone is bound by its busiest link;
with others it waits, besides, for their bytes on the links that it uses:

    time_i = alone_i + ( max_l sum_j load_jl / B_l  -  max_l load_il / B_l ) / efficiency,   links l that i uses

which is the time until all that shares its links is done: exact when the collectives last equally long, else an upper
bound. Collectives whose links are disjoint do not slow each other. `efficiency` is the least of the dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from archmodel.collectives import flows
from archmodel.collectives.groups import Group, placements
from archmodel.collectives.kinds import CollectiveError
from archmodel.collectives.link_load import price_link_load
from archmodel.network.shape import Ints
from archmodel.network.topology import Topology
from archmodel.quantities import Array


@dataclass(frozen=True, slots=True)
class Request:
    """One collective; `group` as `estimate` takes it, so overlapping groups are requests of their own."""

    kind: str
    algorithm: str
    per_rank_input_bytes: float
    group: Group = "world"


@dataclass(frozen=True, slots=True)
class Shared:
    """Seconds of each collective `alone` and `together` with the others; bytes of all on every directed `links`
    entry (end, end), and the seconds that each of these is busy."""

    alone: tuple[float, ...]
    together: tuple[float, ...]
    links: tuple[tuple[int | str, int | str], ...]
    load: Array
    busy: Array

    @property
    def slowdown(self) -> tuple[float, ...]:
        """Together over alone."""
        return tuple(b / a if a else 1.0 for a, b in zip(self.alone, self.together, strict=True))

    @property
    def busiest(self) -> tuple[int | str, int | str]:
        """The link that works longest."""
        return self.links[int(self.busy.argmax())]


def together(topology: Topology, requests: Sequence[Request]) -> Shared:
    """All `requests` at once. Raises `CollectiveError` for algorithms that are more than rings and direct exchanges."""
    graph = topology.routes()
    wires = graph.wires
    loads, results = [], []
    for request in requests:
        load = np.zeros(wires.tail.size)
        for source, target, amount in flows_of(topology, request):
            load += graph.loads(source, target, amount)
        loads.append(load)
        groups = placements(topology, request.group)
        full = request.per_rank_input_bytes * (groups[0].size if request.kind == "all_gather" else 1)
        results.append(price_link_load(topology, request.kind, request.algorithm, full, groups))
    rate = wires.width * float(np.mean(wires.scale))
    total: Array = np.sum(loads, axis=0) if loads else np.zeros(wires.tail.size)
    alone = tuple(float(np.max(result.time)) for result in results)
    efficiency = min(float(np.min(d.efficiency)) for d in topology.dimensions)
    times = []
    for load, lasting in zip(loads, alone, strict=True):
        used = load > 0
        own = float((load / rate).max(initial=0.0))
        shared = float((total[used] / rate[used]).max(initial=0.0))
        times.append(lasting + (shared - own) / efficiency)
    pairs = zip(wires.tail.tolist(), wires.head.tolist(), strict=True)
    ends = tuple((wires.names[a], wires.names[b]) for a, b in pairs)
    return Shared(alone, tuple(times), ends, total, total / rate)


def members_of(topology: Topology, group: Group) -> Ints:
    """Ranks of every group that a request names, (groups, ranks of one)."""
    found = placements(topology, group)
    if found[0].members is not None:
        return np.stack([one.members for one in found if one.members is not None])
    inside = {d.name for d in topology.spanned(found[0].label)}
    dims = topology.dimensions
    sizes = [d.size for d in dims]
    places = np.arange(prod(sizes)).reshape(sizes[::-1])
    axis = {d.name: len(dims) - 1 - i for i, d in enumerate(dims)}
    outside = [axis[d.name] for d in reversed(dims) if d.name not in inside]
    order = outside + [axis[d.name] for d in reversed(dims) if d.name in inside]
    ranks: Ints = places.transpose(order).reshape(-1, prod(d.size for d in dims if d.name in inside))
    return ranks


def flows_of(topology: Topology, request: Request) -> list[tuple[Ints, Ints, float]]:
    """(senders, receivers, bytes of each) over the whole collective."""
    kind, algorithm = request.kind, request.algorithm
    phases = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}.get(kind, 0)
    members = members_of(topology, request.group)
    n = members.shape[1]
    full = request.per_rank_input_bytes * (n if kind == "all_gather" else 1)
    if n == 1:
        return []
    found: list[tuple[Ints, Ints, float]]
    if algorithm == "direct" and phases:
        source, target = np.divmod(np.arange(n * n), n)
        apart = source != target
        return [(members[:, source[apart]].ravel(), members[:, target[apart]].ravel(), phases * full / n)]
    if algorithm == "ring" and phases and kind != "all_to_all":
        found = []
        for ranks, place in zip(members, placements(topology, request.group) * len(members), strict=False):
            order = np.sort(ranks)[flows.ring_orders(n, place.local)]
            amount = phases * (n - 1) / n * full / len(order)
            found.append((order.ravel(), np.roll(order, -1, axis=1).ravel(), amount))
        return found
    if algorithm == "hierarchical" and phases and isinstance(request.group, str):
        found = []
        share = full
        for d in topology.spanned(request.group):
            part = "direct" if kind == "all_to_all" else "ring"
            amount = full if kind == "all_to_all" else share / (d.size if kind == "all_gather" else 1)
            found += flows_of(topology, Request(kind, part, amount, d.name))
            share /= d.size
        return found
    raise CollectiveError(f"{algorithm} {kind} cannot be priced together with others; ring, direct or hierarchical can")
