"""Link loads and the executor move the same bytes over the same ordered pairs of ranks: every kind, algorithm, number
of ranks from 1 to 33, random groups on real machines, and all-to-alls of unequal messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError
from archmodel.collectives.groups import Group, placements
from archmodel.collectives.kinds import ROOTED, SERVES
from archmodel.collectives.link_load import Law, Step
from archmodel.collectives.link_load_pairs import steps_of_pairs
from archmodel.collectives.link_load_shared import Request, flows_of, members_of
from archmodel.collectives.link_load_wires import Members, Wire, nested, wires_of
from archmodel.execute import collectives, endpoint, rooted
from archmodel.execute.network import Network
from archmodel.network import SCALE_UP, Topology, build_topology
from archmodel.network.pattern import Pattern
from archmodel.network.shape import Ints, Shape
from archmodel.program import Layout
from archmodel.quantities import Array
from tests.collectives.machines import machine
from tests.collectives.test_link_load import one

CASES = [(kind, name) for kind, names in SERVES.items() for name in names if name != "in_network"]
"""In the switch there are no pairs."""

STAGED = ("tree", "hierarchical")


@dataclass(frozen=True)
class Told(Pattern):
    """A pattern that remembers who sends to whom, per byte of a message, when `load` was 1."""

    pairs: Array


class Listening(Shape):
    """Links that remember what is put on them."""

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        pairs = np.zeros((self.size, self.size))
        np.add.at(pairs, (source, target), np.broadcast_to(np.asarray(weight, dtype=float), source.shape))
        return Told(1.0, 1.0, 1, 1, 0.0, 0.0, pairs)

    def uniform(self) -> Pattern:
        raise AssertionError("members have their own")

    rank_bandwidth = bisection = uniform  # type: ignore[assignment]


def listening(topology: Topology, wires: Iterable[Wire]) -> tuple[Wire, ...]:
    """The same, heard rank by rank."""
    whole = Listening(topology.ranks, 1.0)
    places = [w.shape.places if isinstance(w.shape, Members) else members_of(topology, w.name) for w in wires]
    return tuple(replace(w, shape=Members(whole, p)) for w, p in zip(wires, places, strict=True))


def total(steps: Iterable[Step], ranks: int, full: float) -> Array:
    found = np.zeros((ranks, ranks))
    for step in steps:
        rounds = 1 if step.pipelined else step.times
        for pattern in step.patterns:
            assert isinstance(pattern, Told)
            found += rounds * step.share * full * pattern.load * pattern.pairs
    return found


def loaded(topology: Topology, kind: str, algorithm: str, group: Group, block: int) -> Array:
    """Bytes (sender, receiver) that link_load puts on its links."""
    groups = placements(topology, group)
    wires = listening(topology, wires_of(topology, groups, kind))
    levels = listening(topology, nested(topology, groups)) if algorithm in STAGED else wires
    law = Law(kind, wires, levels)
    phases = law.phases(algorithm)
    steps = law.flat(algorithm) if phases is None else [step for _, phase in phases for step in phase]
    return total(steps, topology.ranks, float(groups[0].size * block))


class Counting(Network):
    """Elements over every ordered pair."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(Layout(topology.nodes, topology.local_size), lambda *_: None, lambda values, _: values)
        self.sent = np.zeros((topology.ranks, topology.ranks))

    def send(self, source: int, target: int, values: Array, dtype: str) -> None:  # type: ignore[override]
        self.sent[source, target] += values.size
        super().send(source, target, values, dtype)


EXCHANGE = {"direct": collectives.all_to_all, "hierarchical": collectives.two_level_all_to_all}


def counted(topology: Topology, kind: str, algorithm: str, groups: Sequence[Sequence[int]], block: int) -> Array:
    """Bytes (sender, receiver) of the executor's messages, a byte an element; the first rank of a group is its root."""
    net = Counting(topology)
    for group in groups:
        members, root, n = sorted(group), group[0], len(group)
        whole = {r: np.arange(n * block, dtype=float) for r in members}
        own = {r: np.arange(block, dtype=float) for r in members}
        if kind == "all_reduce":
            collectives.all_reduce(net, members, whole, [block] * n, algorithm, "int8")
        elif kind == "reduce_scatter":
            collectives.reduce_scatter(net, members, whole, [block] * n, algorithm, "int8")
        elif kind == "all_gather":
            collectives.all_gather(net, members, own, algorithm, "int8")
        elif kind == "all_to_all":
            messages = {(i, j): [(np.zeros(block), "int8")] for i in members for j in members}
            EXCHANGE[algorithm](net, members, messages)  # type: ignore[arg-type]
        elif kind == "broadcast":
            rooted.broadcast(net, members, whole[root], root, algorithm, "int8")
        elif kind == "reduce":
            rooted.reduce(net, members, whole, root, algorithm, "int8")
        elif kind == "gather":
            rooted.gather(net, members, own, root, "int8")
        elif kind == "scatter":
            rooted.scatter(net, members, [own[r] for r in members], root, "int8")
        else:
            rooted.point_to_point(net, root, group[1], whole[root], "int8")
    return net.sent


def check(topology: Topology, kind: str, algorithm: str, group: Group, lists: Sequence[Sequence[int]]) -> None:
    n = len(lists[0])
    if kind == "point_to_point" and n != 2:
        return
    block = 2 * prod({p.local for p in placements(topology, group)})  # divides into stripes and halves
    ours, theirs = loaded(topology, kind, algorithm, group, block), counted(topology, kind, algorithm, lists, block)
    name = f"{kind} {algorithm} over {group}"
    if algorithm in ("ring", "direct") and kind in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
        brought = float(block * (1 if kind == "all_gather" else n))
        shared = np.zeros_like(ours)
        for source, target, amount in flows_of(topology, Request(kind, algorithm, brought, group)):
            np.add.at(shared, (source, target), amount)
        np.testing.assert_allclose(shared, theirs, rtol=1e-12, atol=1e-9, err_msg=f"{name}, together with others")
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-9, err_msg=name)
    assert (theirs.sum() > 0) == (n > 1)


@pytest.mark.parametrize("n", range(1, 34))
def test_every_ordered_pair(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one switch; n random ranks of six nodes of eight, in random order; and where they fit two such groups."""
    switch, nodes = one("switch", n), machine("nvswitch_a100", 8, nodes=6)
    links = nodes.routes()
    monkeypatch.setattr(Topology, "routes", lambda _: links)
    ranks = np.random.default_rng(n).permutation(nodes.ranks).tolist()
    for kind, algorithm in CASES:
        check(switch, kind, algorithm, "world", [range(n)])
        check(nodes, kind, algorithm, ranks[:n], [ranks[:n]])
        if 2 * n <= len(ranks):
            both = [ranks[:n], ranks[n : 2 * n]]
            alike = len({p.local for p in placements(nodes, both)}) == 1
            if alike or algorithm not in STAGED:
                check(nodes, kind, algorithm, both, both)
            else:
                with pytest.raises(CollectiveError, match="price each by itself"):
                    loaded(nodes, kind, algorithm, both, 1)


def on_rails(pairs: Array, local: int) -> Array:
    """What leaves a node, on the rail that it leaves by: which interface it enters a node by is not told."""
    nodes = len(pairs) // local
    grid = pairs.reshape(nodes, local, nodes, local)
    found = np.zeros_like(grid)
    for m in range(nodes):
        found[m, :, m, :] = grid[m, :, m, :]
        for away in set(range(nodes)) - {m}:
            found[m, range(local), away, range(local)] = grid[m, :, away, :].sum(1)
    return found.reshape(pairs.shape)


def through_dimensions(pairs: Array, local: int) -> Array:
    """Messages that go to their place in the node first, then along its rail."""
    found = np.zeros_like(pairs)
    source, target = np.indices(pairs.shape)
    via = source // local * local + target % local
    for a, b in ((source, via), (via, target)):
        np.add.at(found, (a, b), np.where(a == b, 0.0, pairs))
    return found


@pytest.mark.parametrize(("nodes", "local"), [(2, 8), (3, 4), (4, 2), (5, 3)])
@pytest.mark.parametrize("fabric", ["nvswitch_h100", "nvlink_v100_dgx1"])
def test_named_groups_of_real_machines(nodes: int, local: int, fabric: str) -> None:
    topology = machine(fabric, local, nodes=nodes)
    for kind, algorithm in CASES:
        check(topology, kind, algorithm, "node", members_of(topology, "node").tolist())
        check(topology, kind, algorithm, "rail", members_of(topology, "rail").tolist())
    block = 2 * local
    world = [list(range(topology.ranks))]
    for kind, algorithm in CASES:
        if kind in (*ROOTED, "point_to_point") or algorithm in ("double_binary_tree", "halving_doubling"):
            with pytest.raises(CollectiveError, match="goes over one dimension"):
                loaded(topology, kind, algorithm, "world", block)
            continue
        ours = loaded(topology, kind, algorithm, "world", block)
        theirs = counted(topology, kind, algorithm, world, block)
        project = {"ring": on_rails, "bidirectional_ring": on_rails, "direct": through_dimensions}.get(algorithm)
        expected = theirs if project is None else project(theirs, local)
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-9, err_msg=f"{kind} {algorithm}")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), named=st.booleans(), algorithm=st.sampled_from(["direct", "hierarchical"]))
def test_unequal_messages(seed: int, named: bool, algorithm: str) -> None:
    rng = np.random.default_rng(seed)
    local, nodes = int(rng.integers(1, 9)), int(rng.integers(2, 5))
    topology = machine("nvswitch_h100", local, nodes=nodes)
    ranks = np.arange(topology.ranks)
    if not named:
        ranks = np.sort(rng.permutation(ranks)[: rng.integers(1, topology.ranks + 1)])
    group: Group = "world" if named else ranks.tolist()
    pairs = rng.integers(0, 9, (len(ranks), len(ranks))) * rng.integers(0, 2, (len(ranks), 1))
    groups = placements(topology, group)
    found = nested(topology, groups) if algorithm == "hierarchical" else wires_of(topology, groups)
    ours = total(steps_of_pairs(listening(topology, found), algorithm, pairs.astype(float)), topology.ranks, 1.0)
    net, members = Counting(topology), ranks.tolist()
    messages = {(a, b): [(np.zeros(pairs[i, j]), "int8")] for i, a in enumerate(members) for j, b in enumerate(members)}
    EXCHANGE[algorithm](net, members, messages)  # type: ignore[arg-type]
    expected = through_dimensions(net.sent, local) if named and algorithm == "direct" else net.sent
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("sizes", [(4, 2, 2), (4, 4, 2), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_hierarchical_over_a_torus(kind: str, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Dimension by dimension: the executor of endpoints hands everything to the next rank of a row."""
    ranks = prod(sizes)
    torus = SCALE_UP.resolve("torus").model_validate({"sizes": list(sizes), "link_bandwidth": 1e9})
    topology = build_topology(torus, ranks_per_node=ranks)
    sent = np.zeros((ranks, ranks))

    def heard(phase: Any) -> Any:
        def run(row: list[int], held: Any, spans: Any, counted: Any, memory: Any) -> None:
            before = counted.sent.copy()
            phase(row, held, spans, counted, memory)
            sent[row, np.roll(row, -1)] += (counted.sent - before)[row]

        return run

    monkeypatch.setattr(endpoint, "_PHASES", {name: heard(phase) for name, phase in endpoint._PHASES.items()})
    block = 2
    buffers = [np.ones(block * ranks) for _ in range(ranks)]
    if kind == "all_reduce":
        endpoint.all_reduce(buffers, sizes)
    elif kind == "reduce_scatter":
        endpoint.reduce_scatter(buffers, sizes)
    else:
        endpoint.all_gather([np.ones(block) for _ in range(ranks)], sizes)
    ours = loaded(topology, kind, "hierarchical", "world", block)
    np.testing.assert_allclose(ours, sent, rtol=1e-12, atol=1e-9)
    assert sent.sum() > 0
