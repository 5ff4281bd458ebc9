"""Collectives by the links that their messages take: the step-by-step time of equal ranks without other traffic.

A step is a pattern of equal messages of m bytes that start together (`archmodel.network.pattern`). With cut-through
links it takes

    t(m) = overhead + max( max_d (m load_d / B_d + edge_d),  sum_d latency_d + m / min_d B_d )

over the dimensions d that its messages cross: the busiest link works without pause, from when its first byte can reach
it until its last byte has left it; or the longest path of a single message counts. A link that stores a whole message
before it forwards it (`store_and_forward`) adds the serialisation of every link of the path. An algorithm is a sum of
steps, each starting when the one before has arrived everywhere. B_d is the line rate times the fabric's `efficiency`.

Who sends how much to whom is what `archmodel.collectives.flows` says, and the executor does. `ring` goes in one
direction (an all-to-all passes messages on round it: n (n - 1) / 2 steps). Over several dimensions, and over listed
ranks on several nodes, a ring is striped; its dimensions then work at the same time. `hierarchical` goes through the
dimensions one after the other (reduce-scatter inner to outer, all-reduce in the last, all-gather back), with rings, or
with the algorithms that are named for each: "ring+direct+halving_doubling". Chunks of it are pipelined as in
`archmodel.collectives.pipeline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from archmodel.collectives import flows, trees
from archmodel.collectives.groups import Placement
from archmodel.collectives.kinds import LIBRARY, CollectiveError, check_algorithm
from archmodel.collectives.link_load_endpoint import IDEAL, Endpoint
from archmodel.collectives.link_load_wires import Wire, nested, wires_of
from archmodel.collectives.pipeline import Chunks, Phase, optimal, pipelined
from archmodel.collectives.result import CollectiveResult, bus_bytes
from archmodel.network.pattern import Pattern
from archmodel.network.shape import Ints
from archmodel.network.topology import Topology
from archmodel.quantities import Array, Num

ROUND = ("all_to_all", "ring")
"""A kind and algorithm that only this fidelity prices: no library uses it."""


@dataclass(frozen=True, slots=True)
class Step:
    """`times` steps in which messages of `share` of the buffer cross `wires` in the given patterns.

    `pipelined`: small pieces follow each other along `times` hops, so that bytes count once and latency `times`.
    `reduces`: whether a rank adds up what arrives, every message as it comes. `sent`: share of the buffer that a rank
    sends in each step, by wire. `peers`: messages that it posts in each step.
    """

    wires: tuple[Wire, ...]
    patterns: tuple[Pattern, ...]
    share: float
    times: int = 1
    pipelined: bool = False
    reduces: bool = False
    sent: tuple[float, ...] = ()
    peers: int = 0


@dataclass(frozen=True, slots=True)
class Priced:
    """Seconds: of everything, of latency alone; busy seconds of each wire's busiest link; bytes sent; steps."""

    time: Num
    latency: Num
    busy: dict[str, Num]
    sent: dict[str, Num]
    steps: dict[str, int]


def price_link_load(
    topology: Topology,
    kind: str,
    algorithm: str,
    full_bytes: Num,
    groups: Sequence[Placement],
    chunks: Chunks = None,
    *,
    endpoint: Endpoint = IDEAL,
    store_and_forward: bool = False,
    contention: bool = True,
) -> CollectiveResult:
    """Time of a collective of equal blocks that all `groups` run at once; `full_bytes` of the whole buffer.

    `endpoint`: what sending, receiving and adding up costs beside the links, and whether times are whole ticks.
    `contention=False` lets any number of messages pass a link at once, as some simulators do: it breaks the bounds of
    the links, and is there to compare with them.
    """
    wires = wires_of(topology, groups, kind)
    n = prod(wire.size for wire in wires)
    names = [algorithm]
    if algorithm == "auto":
        crossing = topology.scale_out is not None and groups[0].nodes > 1
        usable = {"in_network": len(wires) == 1 and wires[0].in_network is not None, "tree": crossing}
        names = [name for name in LIBRARY[kind] if usable.get(name, True)]
    staged = any(name in ("tree", "hierarchical") or "+" in name for name in names)
    levels = nested(topology, groups) if staged else wires
    law = Law(kind, wires, levels, endpoint, store_and_forward, contention)
    results = [_result(law, name, full_bytes, chunks, topology, groups, n) for name in names]
    best = results[0]
    for other in results[1:]:
        best = other if np.all(np.less(other.time, best.time)) else best
    return best


def _result(
    law: Law, algorithm: str, full: Num, chunks: Chunks, topology: Topology, groups: Sequence[Placement], n: int
) -> CollectiveResult:
    priced, pieces = law.price(algorithm, full, chunks)
    return result_of(law.kind, algorithm, full, priced, pieces, topology, groups, n)


def result_of(
    kind: str,
    algorithm: str,
    full: Num,
    priced: Priced,
    pieces: Num,
    topology: Topology,
    groups: Sequence[Placement],
    n: int,
) -> CollectiveResult:
    """What is told of `priced`, a collective of `full` bytes over `n` ranks."""
    moving = np.greater(full, 0) & (n > 1)
    time, latency = _only(moving, priced.time), _only(moving, priced.latency)
    sent, steps = {"scale_up": 0.0, "scale_out": 0.0} | priced.sent, {"scale_up": 0, "scale_out": 0} | priced.steps
    for level in topology.levels:
        inside = [axis.name for axis in level.axes if axis.name in priced.sent]
        if inside:
            sent[level.name] = sum((priced.sent[name] for name in inside), start=0.0)
            steps[level.name] = sum(priced.steps[name] for name in inside)
    busiest = max(priced.busy, key=lambda name: float(np.max(priced.busy[name])), default="none")
    moved, lasting = np.broadcast_arrays(bus_bytes(kind, n, full), time)
    bus = np.divide(moved, lasting, out=np.zeros(moved.shape), where=lasting > 0)
    return CollectiveResult(
        kind=kind,
        group=groups[0].label if len(groups) == 1 else f"{len(groups)} groups, such as {groups[0].label}",
        ranks=n,
        algorithm=algorithm,
        protocol="none",
        time=time,
        parts={"latency": latency, "bandwidth": time - latency, "copy": 0.0 * time},
        steps=steps,
        wire_bytes=sent,
        bus_bandwidth=bus if bus.ndim else float(bus),
        bound=busiest,
        chunks=pieces,
    )


@dataclass(frozen=True, slots=True)
class Law:
    """Prices a kind of collective on `wires`; trees and hierarchical algorithms on `levels` (`nested`)."""

    kind: str
    wires: tuple[Wire, ...]
    levels: tuple[Wire, ...]
    endpoint: Endpoint = IDEAL
    store_and_forward: bool = False
    contention: bool = True

    def price(self, algorithm: str, full: Num, chunks: Chunks) -> tuple[Priced, Num]:
        """The collective, and the number of chunks it was cut into (0: as finely as one likes)."""
        inner = self.phases(algorithm)
        if inner is not None:
            return self._pipelined(inner, full, chunks)
        if (self.kind, algorithm) != ROUND:
            check_algorithm(self.kind, algorithm)
        k = 1 if chunks in (None, "auto") else int(chunks)  # one dimension: cutting only costs
        one = self.together(self.flat(algorithm), full / k)
        return _times(one, k), float(k)

    def phases(self, algorithm: str) -> list[tuple[int, list[Step]]] | None:
        """(wire, steps) in the order of a hierarchical algorithm; None for others."""
        if algorithm != "hierarchical" and "+" not in algorithm:
            return None
        default = "direct" if self.kind == "all_to_all" else "ring"
        names = [default] * len(self.levels) if algorithm == "hierarchical" else algorithm.split("+")
        if len(names) != len(self.levels):
            dims = ", ".join(wire.name for wire in self.levels) or "none"
            raise CollectiveError(
                f"{algorithm} names {len(names)} algorithms; this group crosses {len(self.levels)} dimensions ({dims})"
            )
        up: list[tuple[int, list[Step]]] = []
        down: list[tuple[int, list[Step]]] = []
        share = 1.0  # of the buffer that a rank still works on
        last = len(self.levels) - 1
        for i, (wire, name) in enumerate(zip(self.levels, names, strict=True)):
            if self.kind == "all_to_all":
                up.append((i, one_wire("all_to_all", name, wire, 1.0)))
            elif self.kind == "all_reduce" and i == last:
                up.append((i, one_wire("all_reduce", name, wire, share)))
            else:
                if self.kind in ("all_reduce", "reduce_scatter"):
                    up.append((i, one_wire("reduce_scatter", name, wire, share)))
                if self.kind in ("all_reduce", "all_gather"):
                    down.append((i, one_wire("all_gather", name, wire, share)))
                if self.kind not in ("all_reduce", "reduce_scatter", "all_gather"):
                    check_algorithm(self.kind, "hierarchical")
            share /= wire.size
        return up + down[::-1]

    def _pipelined(self, phases: list[tuple[int, list[Step]]], full: Num, chunks: Chunks) -> tuple[Priced, Num]:
        def of(k: Num) -> list[Priced]:
            """Each dimension's part of one of k chunks."""
            parts = [Priced(0.0 * full, 0.0 * full, {}, {}, {}) for _ in self.levels]
            for wire, steps in phases:
                parts[wire] = _after(parts[wire], self.together(steps, full / k))
            return parts

        def as_phases(k: Num) -> list[Phase]:
            return [Phase(part.latency, part.time - part.latency) for part in of(k)]

        whole = Priced(0.0 * full, 0.0 * full, {}, {}, {})
        for part in of(1.0):
            whole = _after(whole, part)
        if not self.levels:
            return whole, 1.0
        if chunks is None:
            slowest: Num = 0.0
            for phase in as_phases(1.0):
                slowest = np.maximum(slowest, phase.bandwidth)
            return replace(whole, time=whole.latency + slowest), 0.0
        found = optimal(as_phases) if chunks == "auto" else pipelined(as_phases, int(chunks))
        return replace(whole, time=found.time, latency=found.latency), found.chunks

    def flat(self, algorithm: str) -> list[Step]:
        """Steps of an algorithm that treats the group's ranks as one line, over all its dimensions."""
        if algorithm == "tree" and self.wires:
            check_algorithm(self.kind, algorithm)
            return _rings_and_trees(self.levels)
        if len(self.wires) == 1:
            return one_wire(self.kind, algorithm, self.wires[0], 1.0)
        if not self.wires:
            return []
        return over_all(self.kind, algorithm, self.wires)

    def together(self, steps: list[Step], full: Num) -> Priced:
        """Steps one after the other; ring steps of different dimensions overlap in bytes, not in latency."""
        striped = (
            any(step.pipelined and len(step.wires) == 1 for step in steps)
            and len({step.wires[0].name for step in steps if step.wires}) > 1
        )
        total = Priced(0.0 * full, 0.0 * full, {}, {}, {})
        longest: Num = 0.0
        by_wire: dict[str, Num] = {}
        for step in steps:
            priced = self._step(step, full)
            if striped:
                name = step.wires[0].name
                by_wire[name] = by_wire.get(name, 0.0) + (priced.time - priced.latency)
                longest = np.maximum(longest, by_wire[name])
                priced = replace(priced, time=priced.latency)
            total = _after(total, priced)
        ending = self.endpoint.delay if steps else 0.0
        return replace(total, time=total.time + longest + ending, latency=total.latency + ending)

    def _step(self, step: Step, full: Num) -> Priced:
        m = step.share * full
        end = self.endpoint
        if not self.contention:
            alone = tuple(replace(p, load=np.minimum(p.load, 1.0)) for p in step.patterns)
            step = replace(step, patterns=alone)
        hop = _one_step(step, 0.0 * m, end, self.store_and_forward)
        once = _one_step(step, m, end, self.store_and_forward)
        posts: Num = 0.0
        for wire in step.wires:
            posts = np.maximum(posts, step.peers * wire.direct_latency)
        adds = 3 * end.floor(m / end.memory_bandwidth) * step.reduces
        per_step = end.delay + posts
        if step.pipelined:
            time = step.times * (hop + per_step) + (once - hop) + adds
        else:
            time = step.times * (once + per_step + adds)
        rounds = 1 if step.pipelined else step.times
        busy = {w.name: rounds * m * p.seconds_per_byte / w.efficiency for w, p in _crossed(step)}
        sent = {w.name: step.times * x * full for w, x in zip(step.wires, step.sent, strict=False)}
        steps = {w.name: step.times for w in step.wires}
        return Priced(time, step.times * (hop + per_step), busy, sent, steps)


def _crossed(step: Step) -> list[tuple[Wire, Pattern]]:
    return [(w, p) for w, p in zip(step.wires, step.patterns, strict=True) if p.hops]


def _one_step(step: Step, m: Num, end: Endpoint, stores: bool) -> Num:
    """t(m) of one step, without what endpoints add."""
    overhead: Num = 0.0
    bottleneck: Num = 0.0
    path: Num = 0.0
    slowest: Num = 0.0
    for wire, p in _crossed(step):
        rate = p.bandwidth * wire.efficiency
        one = m / rate
        overhead = np.maximum(overhead, wire.overhead)
        if stores:
            per_hop = p.latency / p.hops
            kept = min(p.least_hops, 2)
            busy = (
                end.floor(np.maximum(p.load - 1.0, 0.0) * 1.0 * end.floor(one))
                + kept * end.floor(per_hop + one)
                + (min(p.hops, 2) - kept) * per_hop
            )
            path = path + p.hops * end.floor(per_hop + one)
        else:
            busy = end.floor(p.edge_latency + p.load * one)
            path = path + p.latency
            slowest = np.maximum(slowest, one)
        bottleneck = np.maximum(bottleneck, busy)
    return overhead + np.maximum(bottleneck, path if stores else end.floor(path + slowest))


# --- algorithms on one dimension --------------------------------------------------------------------------------


def one_wire(kind: str, algorithm: str, wire: Wire, share: float) -> list[Step]:
    """Steps over one dimension of n ranks, of a buffer that is `share` of the full one."""
    n = wire.size
    if (kind, algorithm) == ROUND:  # every message is passed on until it is where it belongs
        return [Step((wire,), (wire.shape.shift(),), share / n, n * (n - 1) // 2, sent=(share / n,))] if n > 1 else []
    check_algorithm(kind, algorithm)
    if n == 1:
        return []
    both = {"all_reduce": ("reduce_scatter", "all_gather")}.get(kind, (kind,))
    if algorithm == "ring" and kind in ("all_reduce", "reduce_scatter", "all_gather"):
        pattern, m = wire.ring(), share / n
        return [Step((wire,), (pattern,), m, n - 1, reduces=phase == "reduce_scatter", sent=(m,)) for phase in both]
    if algorithm == "bidirectional_ring" and kind in ("all_reduce", "reduce_scatter", "all_gather"):
        return [step for phase in both for step in _both_ways(phase, wire, share)]
    if algorithm == "direct" and kind in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
        pattern = wire.shape.uniform()
        return [
            Step(
                (wire,),
                (pattern,),
                share / n,
                reduces=phase == "reduce_scatter",
                sent=((n - 1) * share / n,),
                peers=n - 1,
            )
            for phase in both
        ]
    if algorithm == "halving_doubling":
        return _halving_doubling(kind, n, wire, share)
    return _others(kind, algorithm, wire, share)


def _both_ways(phase: str, wire: Wire, share: float) -> list[Step]:
    """Blocks go n // 2 positions one way round and n - 1 - n // 2 the other; of even n the last step is one-way."""
    n, m, adds = wire.size, share / wire.size, phase == "reduce_scatter"
    half, other = n // 2, n - 1 - n // 2
    steps = []
    if other:
        steps.append(Step((wire,), (wire.ring(1.0, 1.0),), m, other, reduces=adds, sent=(2 * m,)))
    if half > other:
        steps.append(Step((wire,), (wire.ring(float(adds), float(not adds)),), m, reduces=adds, sent=(m,)))
    return steps


def halving_doubling_messages(kind: str, n: int) -> list[tuple[Ints, Ints, Array]]:
    """(source, target, share of the buffer) of every step over n ranks with equal blocks: those of `flows`.

    The nearest ranks exchange half of the buffer, the next a quarter, ... Of n ranks that are no power of two, the
    extra ones give all they have to a neighbour and get all back; the neighbour owns both blocks, so messages of a
    step are not all equal.
    """
    blocks = np.full(n, 1.0 / n)
    halving = [(s, t, a) for s, t, a in flows.exchanges(blocks)]
    doubling = [(t, s, a) for s, t, a in halving[::-1]]
    steps = {"reduce_scatter": halving, "all_gather": doubling}.get(kind, halving + doubling)
    _, extra, stand_in = flows.core(n)
    if len(extra):
        first = 1.0 / n if kind == "all_gather" else 1.0
        last = {"reduce_scatter": 1.0 / n, "all_gather": (n - 1.0) / n}.get(kind, 1.0)
        given, back = np.full(len(extra), first), np.full(len(extra), last)
        steps = [(extra, stand_in, given), *steps, (stand_in, extra, back)]
    return steps


def _halving_doubling(kind: str, n: int, wire: Wire, share: float) -> list[Step]:
    """The messages as steps: the largest of a step sets its size, the others weigh less on their links."""
    messages = halving_doubling_messages(kind, n)
    sent = np.zeros(n)
    for source, _, amount in messages:
        sent[source] += amount
    busiest = int(np.argmax(sent))
    even = n & (n - 1) == 0
    steps = []
    for i, (source, target, amount) in enumerate(messages):
        largest = float(amount.max())
        if even:
            pattern = wire.shape.exchange(int(source[0] ^ target[0]))
        else:
            pattern = wire.shape.between(source, target, amount / largest)
        adds = i < len(messages) // 2 if kind == "all_reduce" else kind == "reduce_scatter"
        last = i == len(messages) - 1 and not even
        mine = float(amount[source == busiest].sum())
        steps.append(Step((wire,), (pattern,), share * largest, reduces=adds and not last, sent=(share * mine,)))
    return steps


def _others(kind: str, algorithm: str, wire: Wire, share: float) -> list[Step]:
    n = wire.size
    ranks = np.arange(n)
    if algorithm == "in_network":
        row = wire.in_network
        if row is None:
            raise CollectiveError(f"the {wire.kind} fabric does not reduce in the network")
        pattern = wire.shape.shift()
        sent = 1 + 1 / n if kind == "all_reduce" else 1.0
        pattern = replace(pattern, load=pattern.load / row.fraction)
        return [Step((wire,), (pattern,), share * sent, 2, pipelined=True, sent=(share * sent / 2,))]
    if kind in ("gather", "scatter", "point_to_point") or (kind in ("broadcast", "reduce") and algorithm == "direct"):
        others = ranks[1:2] if kind == "point_to_point" else ranks[1:]
        root = np.zeros_like(others)
        inward = kind in ("gather", "reduce")
        pattern = wire.shape.between(others, root) if inward else wire.shape.between(root, others)
        m = share / n if kind in ("gather", "scatter") else share
        return [Step((wire,), (pattern,), m, sent=(m * len(others),), peers=len(others), reduces=kind == "reduce")]
    if algorithm == "ring":  # broadcast and reduce: a chain
        before, after = ranks[:-1], ranks[1:]
        pattern = wire.shape.between(after, before) if kind == "reduce" else wire.shape.between(before, after)
        return [Step((wire,), (pattern,), share, n - 1, pipelined=True, sent=(share / (n - 1),))]
    if algorithm == "tree":  # rings in a node; two trees are for between nodes
        return one_wire(kind, "ring" if wire.level == "scale_up" else "double_binary_tree", wire, share)
    child, parent, hops = _tree_edges(kind, n)
    up, down = wire.shape.between(child, parent, 0.5), wire.shape.between(parent, child, 0.5)
    ways = {"broadcast": (down,), "reduce": (up,)}.get(kind, (up, down))
    twice = [replace(pattern, load=2 * pattern.load) for pattern in ways]
    return [Step((wire,), (p,), share / 2, hops, pipelined=True, sent=(share / hops,)) for p in twice]


def _tree_edges(kind: str, n: int) -> tuple[Ints, Ints, int]:
    """Children and parents in both trees, and the longest way to a root: over all ranks, or from a root over others."""
    if kind in ("broadcast", "reduce"):
        pairs, hops = flows.rooted_trees(n, 0), trees.depth(n - 1) + 1
    else:
        above = trees.double_tree(n)
        pairs, hops = [(c := np.flatnonzero(parent != np.arange(n)), parent[c]) for parent in above], trees.depth(n)
    return np.concatenate([c for c, _ in pairs]), np.concatenate([p for _, p in pairs]), hops


# --- algorithms that treat several dimensions as one ------------------------------------------------------------


def over_all(kind: str, algorithm: str, wires: tuple[Wire, ...]) -> list[Step]:
    """Steps over all dimensions at once, messages going through them inner to outer."""
    check_algorithm(kind, algorithm)
    n = prod(wire.size for wire in wires)
    both = {"all_reduce": ("reduce_scatter", "all_gather")}.get(kind, (kind,))
    if algorithm == "direct" and kind in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
        patterns = []
        for wire in wires:
            pattern = wire.shape.uniform()
            patterns.append(replace(pattern, load=pattern.load * (n / wire.size)))
        sent = tuple((wire.size - 1) / wire.size for wire in wires)
        step = Step(wires, tuple(patterns), 1 / n, sent=sent, peers=n - 1)
        return [replace(step, reduces=phase == "reduce_scatter") for phase in both]
    if algorithm in ("ring", "bidirectional_ring") and kind in ("all_reduce", "reduce_scatter", "all_gather"):
        return [step for phase in both for step in _striped(phase, wires, algorithm == "bidirectional_ring")]
    if algorithm == "halving_doubling":
        raise CollectiveError("halving_doubling goes over one dimension; name it for each: ring+halving_doubling")
    raise CollectiveError(f"{algorithm} of {kind} goes over one dimension; this group crosses {len(wires)}")


def _striped(phase: str, wires: tuple[Wire, ...], twofold: bool) -> list[Step]:
    """Rings over all dimensions that share the work: the share of each dimension is that of the hops which end in it.

    Both ways round, n // 2 of a block's hops go one way and the others the other.
    """
    n = prod(wire.size for wire in wires)
    adds, near = phase == "reduce_scatter", (n // 2 if twofold else n - 1)
    steps, before = [], 1
    for i, wire in enumerate(wires):
        beyond = before * wire.size
        hops = n // before - (n // beyond if i < len(wires) - 1 else 0)  # steps of a ring that end here
        ways = (1.0, (n - 1 - near) / near)
        pattern = wire.ring(*ways) if adds or not twofold else wire.ring(*ways[::-1])
        times = hops - int(i == len(wires) - 1)
        if twofold:
            times = -(-times * near // (n - 1))
        sent = hops / n * (n - 1) / n
        moved = hops / n * near / n
        steps.append(Step((wire,), (pattern,), moved, times, pipelined=True, sent=(sent / max(times, 1),)))
        before = beyond
    return steps


def _rings_and_trees(wires: tuple[Wire, ...]) -> list[Step]:
    """Reduce-scatter rings inner to outer, two trees in the last dimension, all-gather rings back."""
    up: list[Step] = []
    down: list[Step] = []
    share = 1.0
    for wire in wires[:-1]:
        up += one_wire("reduce_scatter", "ring", wire, share)
        down = one_wire("all_gather", "ring", wire, share) + down
        share /= wire.size
    last = "tree" if len(wires) == 1 else "double_binary_tree"
    return [*up, *one_wire("all_reduce", last, wires[-1], share), *down]


# --- sums -------------------------------------------------------------------------------------------------------


def _after(a: Priced, b: Priced) -> Priced:
    """One after the other."""

    def added(x: dict[str, Num], y: dict[str, Num]) -> dict[str, Num]:
        return {name: x.get(name, 0.0) + y.get(name, 0.0) for name in {**x, **y}}

    steps = {name: a.steps.get(name, 0) + b.steps.get(name, 0) for name in {**a.steps, **b.steps}}
    return Priced(a.time + b.time, a.latency + b.latency, added(a.busy, b.busy), added(a.sent, b.sent), steps)


def _times(one: Priced, k: int) -> Priced:
    """k of them, one after the other."""

    def scaled(x: dict[str, Num]) -> dict[str, Num]:
        return {name: k * value for name, value in x.items()}

    steps = {name: k * count for name, count in one.steps.items()}
    return Priced(k * one.time, k * one.latency, scaled(one.busy), scaled(one.sent), steps)


def _only(moving: object, part: Num) -> Num:
    value = np.where(np.asarray(moving), part, 0.0)
    return value if value.ndim else float(value)
