"""Every algorithm over any ranks: right results, and bytes equal to those that `collectives.flows` claims."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import flows
from archmodel.collectives.kinds import SERVES
from archmodel.execute import collectives, rooted
from archmodel.execute.errors import ExecutionError
from archmodel.execute.formats import rounded
from archmodel.execute.network import Network
from archmodel.program import Layout

EQUALS = [(kind, name) for kind in ("all_reduce", "reduce_scatter", "all_gather") for name in SERVES[kind]]
ROOTED = [(kind, name) for kind in ("broadcast", "reduce", "gather", "scatter") for name in SERVES[kind]]
WIRES = ("scale_up", "scale_out")
Blocks = np.ndarray[tuple[int], np.dtype[np.int64]]


class Run:
    """One collective of `members` (in any order) on nodes of `local_size`, with `blocks[p]` owned by member p."""

    def __init__(self, members: list[int], local_size: int, blocks: list[int]) -> None:
        self.members, self.blocks = members, blocks
        self.layout = Layout(max(members) // local_size + 1, local_size)
        self.sent = {wire: np.zeros(self.layout.ranks) for wire in WIRES}
        self.net = Network(self.layout, self.count, lambda values, dtype: values)
        rng = np.random.default_rng(len(members))
        self.data = {r: rng.integers(-9, 10, sum(blocks)).astype(float) for r in members}
        self.total = np.sum(list(self.data.values()), axis=0)
        self.ends = np.cumsum(blocks)[:-1]

    def count(self, rank: int, wire: str, elements: int, dtype: str) -> None:
        self.sent[wire][rank] += elements

    def check_bytes(self, kind: str, algorithm: str) -> None:
        assert self.net.quiet
        order = np.argsort(self.members)
        ranks = np.array(self.members)[order]
        root = int(np.flatnonzero(ranks == self.members[0])[0])
        blocks, node = np.array(self.blocks)[order], ranks // self.layout.local_size
        claimed = flows.group_bytes(kind, algorithm, blocks.astype(float), node, root)
        for wire in WIRES:
            np.testing.assert_array_equal(
                self.sent[wire][ranks], claimed[wire][0], err_msg=f"{kind} {algorithm} {wire}"
            )
            assert self.sent[wire].sum() == claimed[wire][0].sum()

    def equals(self, kind: str, algorithm: str) -> None:
        own = dict(zip(self.members, np.split(self.total, self.ends), strict=True))
        if kind == "all_gather":
            result = collectives.all_gather(self.net, self.members, own, algorithm, "fp32")
            wanted = dict.fromkeys(self.members, self.total)
        elif kind == "reduce_scatter":
            result = collectives.reduce_scatter(self.net, self.members, self.data, self.blocks, algorithm, "fp32")
            wanted = own
        else:
            result = collectives.all_reduce(self.net, self.members, self.data, self.blocks, algorithm, "fp32")
            wanted = dict.fromkeys(self.members, self.total)
        assert result.keys() == wanted.keys()
        for rank, values in wanted.items():
            np.testing.assert_array_equal(result[rank], values)
        self.check_bytes(kind, algorithm)

    def with_root(self, kind: str, algorithm: str) -> None:
        ordered, root = sorted(self.members), self.members[0]
        parts = dict(zip(self.members, np.split(self.data[root], self.ends), strict=True))
        if kind == "broadcast":
            result = rooted.broadcast(self.net, ordered, self.data[root], root, algorithm, "fp32")
            assert all(np.array_equal(result[r], self.data[root]) for r in ordered)
        elif kind == "reduce":
            np.testing.assert_array_equal(
                rooted.reduce(self.net, ordered, self.data, root, algorithm, "fp32"), self.total
            )
        elif kind == "gather":
            whole = np.concatenate([parts[r] for r in ordered])
            np.testing.assert_array_equal(rooted.gather(self.net, ordered, parts, root, "fp32"), whole)
        else:
            result = rooted.scatter(self.net, ordered, [parts[r] for r in ordered], root, "fp32")
            assert all(np.array_equal(result[r], parts[r]) for r in ordered)
        self.check_bytes(kind, algorithm)

    def every(self) -> None:
        one_node = len({r // self.layout.local_size for r in self.members}) == 1
        for kind, algorithm in EQUALS + ROOTED:
            if algorithm == "in_network" and not one_node:
                continue
            fresh = Run(self.members, self.layout.local_size, self.blocks)
            (fresh.equals if (kind, algorithm) in EQUALS else fresh.with_root)(kind, algorithm)


@pytest.mark.parametrize("n", range(1, 34))
def test_any_number_of_ranks(n: int) -> None:
    """One node, a rank a node, and nodes of three; blocks of 0 to 4 elements."""
    blocks = np.random.default_rng(n).integers(0, 5, n).tolist()
    for local_size in {n, 1, 3}:
        Run(list(range(n)), local_size, blocks).every()


@pytest.mark.parametrize("size", [0, 1, 2, 7, 31])
@pytest.mark.parametrize("n", [2, 3, 6, 8])
def test_any_size(n: int, size: int) -> None:
    """Buffers cut as evenly as they go: [ceil, ..., floor]."""
    blocks = [size * (i + 1) // n - size * i // n for i in range(n)]
    for local_size in (n, 2):
        Run(list(range(n)), local_size, blocks).every()


@st.composite
def groups(draw: st.DrawFn) -> Run:
    """Any distinct ranks of a machine, in any order."""
    local_size, nodes = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    members = draw(st.lists(st.integers(0, local_size * nodes - 1), min_size=1, max_size=12, unique=True))
    blocks = draw(st.lists(st.integers(0, 9), min_size=len(members), max_size=len(members)))
    return Run(members, local_size, blocks)


@settings(max_examples=40, deadline=None)
@given(groups())
def test_any_group(run: Run) -> None:
    run.every()


@settings(max_examples=60, deadline=None)
@given(groups(), st.integers(0, 2**31))
def test_all_to_all_in_two_exchanges(run: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    members = sorted(run.members)
    sizes = rng.integers(0, 5, (len(members), len(members)))
    for algorithm, exchange in (("direct", collectives.all_to_all), ("hierarchical", collectives.two_level_all_to_all)):
        fresh = Run(members, run.layout.local_size, [1] * len(members))
        messages = {
            (a, b): [(rng.normal(size=sizes[i, j]), "fp32"), (np.arange(3), "int64")]
            for i, a in enumerate(members)
            for j, b in enumerate(members)
        }
        received = exchange(fresh.net, members, messages)
        assert received.keys() == messages.keys()
        for pair, parts in messages.items():
            assert all(np.array_equal(a, b) for a, (b, _) in zip(received[pair], parts, strict=True))
        node = np.array(members) // run.layout.local_size
        claimed = flows.exchange_bytes(sizes + 3.0, node, algorithm)
        for wire in WIRES:
            np.testing.assert_array_equal(fresh.sent[wire][members], claimed[wire][0])


def test_overlapping_groups_take_turns() -> None:
    """Two ways of parallelism: sums over rows of ranks, then over columns, are the sum over all."""
    run = Run(list(range(12)), 4, [1] * 12)
    values = run.data
    for members_of in (lambda r: range(r // 4 * 4, r // 4 * 4 + 4), lambda r: range(r % 4, 12, 4)):
        for members in {tuple(members_of(r)) for r in range(12)}:
            part = {r: values[r] for r in members}
            cut = [3] * len(members) if len(members) == 4 else [4] * len(members)
            values = values | collectives.all_reduce(run.net, members, part, cut, "halving_doubling", "fp32")
    for found in values.values():
        np.testing.assert_array_equal(found, run.total)


def test_point_to_point() -> None:
    run = Run([5, 2], 4, [3, 0])
    np.testing.assert_array_equal(rooted.point_to_point(run.net, 5, 2, run.data[5], "fp32"), run.data[5])
    assert run.sent["scale_out"][5] == 3.0


@pytest.mark.parametrize(("kind", "algorithm"), EQUALS)
def test_quantised_wires_round_what_travels(kind: str, algorithm: str) -> None:
    """fp16 on the wire: the sum is off by roundings of partial sums, a gathered block by its own, and half the bytes of
    fp32 are counted."""
    n = 6
    sent = np.zeros(n)

    def count(rank: int, wire: str, elements: int, dtype: str) -> None:
        sent[rank] += elements * {"fp16": 2, "fp32": 4}[dtype]

    rng = np.random.default_rng(0)
    members, blocks = list(range(n)), [4] * n
    data = {r: rng.uniform(1, 2, 4 * n) for r in members}
    total, counted = np.sum(list(data.values()), axis=0), {}
    for dtype in ("fp32", "fp16"):
        sent[:] = 0
        net = Network(Layout(1, n), count, rounded)
        if kind == "all_gather":
            own = {r: total[4 * r : 4 * r + 4] for r in members}
            result = collectives.all_gather(net, members, own, algorithm, dtype)
        else:
            run = collectives.all_reduce if kind == "all_reduce" else collectives.reduce_scatter
            result = run(net, members, data, blocks, algorithm, dtype)
        counted[dtype] = sent.copy()
        for r in members:
            wanted = total[4 * r : 4 * r + 4] if kind == "reduce_scatter" else total
            error = np.abs(result[r] / wanted - 1).max()
            assert error < (n + 1) * 2.0 ** (-11 if dtype == "fp16" else -24)
            assert error > 0
    np.testing.assert_array_equal(counted["fp32"], 2 * counted["fp16"])


def test_what_cannot_serve_is_named() -> None:
    run = Run([0, 1, 2, 3], 2, [1] * 4)
    with pytest.raises(ExecutionError, match="rank 7 cannot be the root"):
        rooted.broadcast(run.net, [0, 1], run.data[0], 7, "ring", "fp32")
    with pytest.raises(ExecutionError, match=r"no algorithm 'rnig' .* did you mean ring"):
        rooted.reduce(run.net, [0, 1], run.data, 0, "rnig", "fp32")
    with pytest.raises(ExecutionError, match="spans 2 nodes"):
        rooted.broadcast(run.net, [0, 2], run.data[0], 0, "in_network", "fp32")
