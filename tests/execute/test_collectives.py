"""Collectives over real arrays: right sums, and bytes equal to the closed forms of `collectives.volume`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives.volume import all_to_all_bytes, sent_bytes
from archmodel.execute import collectives
from archmodel.execute.errors import ExecutionError
from archmodel.execute.network import Network
from archmodel.program import Group, Layout
from archmodel.quantities import itemsize

LAYOUTS = [
    Layout(1, 1),
    Layout(1, 2),
    Layout(1, 3),
    Layout(1, 8),
    Layout(2, 1),
    Layout(5, 1),
    Layout(2, 3),
    Layout(3, 2),
]


class Counter:
    """A network and what it counted, in bytes."""

    def __init__(self, layout: Layout) -> None:
        self.sent = {link: np.zeros(layout.ranks) for link in ("scale_up", "scale_out")}
        self.network = Network(layout, self.count, lambda values, dtype: values)

    def count(self, rank: int, link: str, elements: int, dtype: str) -> None:
        self.sent[link][rank] += elements * itemsize(dtype)

    def equals(self, claimed: dict[str, np.ndarray], element: int) -> bool:
        assert self.network.quiet
        return all(np.array_equal(self.sent[link], claimed[link] * element) for link in claimed)


def buffers_of(ranks: int, blocks: np.ndarray, members: list[int], seed: int) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = int(blocks[members].sum())
    return {r: rng.normal(size=size) for r in members}


def check(kind: str, algorithm: str, layout: Layout, group: Group, blocks: np.ndarray) -> None:
    counter = Counter(layout)
    for members in layout.members(group).tolist():
        mine = [int(b) for b in blocks[members]]
        buffers = buffers_of(layout.ranks, blocks, members, seed=members[0])
        ends = np.cumsum(mine)
        if kind == "all_gather":
            own = {r: buffers[members[0]][e - b : e] for r, b, e in zip(members, mine, ends, strict=True)}
            result = collectives.all_gather(counter.network, members, own, algorithm, "fp16")
            assert all(np.array_equal(result[r], buffers[members[0]]) for r in members)
            continue
        total = sum(buffers.values())
        if kind == "all_reduce":
            result = collectives.all_reduce(counter.network, members, buffers, mine, algorithm, "fp16")
            assert all(np.allclose(result[r], total, rtol=1e-12, atol=1e-14) for r in members)
            assert all(np.array_equal(result[r], result[members[0]]) for r in members)
        else:
            result = collectives.reduce_scatter(counter.network, members, buffers, mine, algorithm, "fp16")
            for r, b, e in zip(members, mine, ends, strict=True):
                assert np.allclose(result[r], total[e - b : e], rtol=1e-12, atol=1e-14)
    claimed = sent_bytes(kind, algorithm, blocks.astype(float), layout.local_size, group)
    assert counter.equals(claimed, 2), (kind, algorithm, layout, group, counter.sent, claimed)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "hierarchical", "tree"])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_sums_and_bytes(kind: str, algorithm: str, layout: Layout) -> None:
    if algorithm == "tree" and kind != "all_reduce":
        return
    rng = np.random.default_rng(layout.ranks)
    for blocks in (rng.integers(0, 9, layout.ranks), np.full(layout.ranks, 6), np.zeros(layout.ranks, dtype=int)):
        check(kind, algorithm, layout, "world", blocks)
        if algorithm in ("ring", "direct"):
            check(kind, algorithm, layout, "node", blocks)
            check(kind, algorithm, layout, "rail", blocks)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.data(),
    st.sampled_from(["ring", "direct", "hierarchical", "tree"]),
)
@settings(max_examples=30)
def test_any_blocks(nodes: int, local: int, data: st.DataObject, algorithm: str) -> None:
    blocks = np.array(data.draw(st.lists(st.integers(0, 20), min_size=nodes * local, max_size=nodes * local)))
    check("all_reduce", algorithm, Layout(nodes, local), "world", blocks)


@pytest.mark.parametrize("group", ["world", "node", "rail"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_all_to_all(layout: Layout, group: Group) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 5, (layout.ranks, layout.ranks))
    counter = Counter(layout)
    for members in layout.members(group).tolist():
        sent = {
            (i, j): [(rng.normal(size=sizes[i, j]), "fp32"), (np.arange(2), "int64")] for i in members for j in members
        }
        received = collectives.all_to_all(counter.network, members, sent)
        assert received.keys() == sent.keys()
        for pair, messages in sent.items():
            assert all(np.array_equal(a, b) for a, (b, _) in zip(received[pair], messages, strict=True))
    claimed = all_to_all_bytes(sizes * 4.0 + 16.0, layout.local_size, group)
    assert counter.equals({link: sent for link, (sent, _) in claimed.items()}, 1)


def test_what_travels_is_a_rounded_copy() -> None:
    network = Network(Layout(1, 2), lambda *_: None, lambda values, dtype: np.round(values))
    values = np.array([1.4])
    network.send(0, 1, values, "fp32")
    values[:] = 7
    assert network.receive_numbers(0, 1).tolist() == [1.0]
    network.send(0, 1, np.array([3]), "int64")
    assert network.receive(0, 1).dtype == np.int64


def test_ranks_have_nothing_but_what_was_sent() -> None:
    network = Network(Layout(1, 3), lambda *_: None, lambda values, dtype: values)
    with pytest.raises(ExecutionError, match="rank 1 waits for a message from rank 0 that was never sent"):
        network.receive(0, 1)
    with pytest.raises(ExecutionError, match="rank 2 sends to itself"):
        network.send(2, 2, np.zeros(1), "fp32")


def test_what_cannot_serve_is_named() -> None:
    counter = Counter(Layout(2, 2))
    buffers = {r: np.zeros(4) for r in range(4)}
    with pytest.raises(ExecutionError, match=r"no algorithm 'rong' .* did you mean ring"):
        collectives.all_reduce(counter.network, [0, 1, 2, 3], buffers, [1, 1, 1, 1], "rong", "fp32")
    with pytest.raises(ExecutionError, match="spans 2 nodes"):
        collectives.all_reduce(counter.network, [0, 1, 2, 3], buffers, [1, 1, 1, 1], "in_network", "fp32")
    with pytest.raises(ExecutionError, match="4 elements cannot be cut into blocks of 5"):
        collectives.all_reduce(counter.network, [0, 1, 2, 3], buffers, [1, 1, 1, 2], "ring", "fp32")
