"""Bytes on the wire: closed forms against messages counted one by one, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError, all_to_all_bytes, sent_bytes, trees, volume
from archmodel.collectives.kinds import SERVES
from archmodel.collectives.schedule import even
from archmodel.quantities import Array
from tests.collectives import stepwise

LAYOUTS = [(1, 1), (1, 2), (1, 3), (1, 8), (2, 1), (5, 1), (2, 2), (3, 2), (2, 3), (3, 4), (4, 3), (5, 2)]
BLOCK_KINDS = ("all_reduce", "reduce_scatter", "all_gather")


@pytest.mark.parametrize(("nodes", "local"), LAYOUTS)
@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "tree", "direct"])
def test_all_reduce_counts_equal_messages(algorithm: str, nodes: int, local: int) -> None:
    rng = np.random.default_rng(nodes * 100 + local)
    for blocks in (
        rng.integers(0, 7, nodes * local),
        np.full(nodes * local, 5),
        np.zeros(nodes * local, dtype=int),
    ):
        counted = stepwise.all_reduce(algorithm, blocks.tolist(), local, rng)
        claimed = sent_bytes("all_reduce", algorithm, blocks.astype(float), local)
        for name in ("scale_up", "scale_out"):
            np.testing.assert_array_equal(claimed[name], counted[name], err_msg=f"{name} {blocks}")


@pytest.mark.parametrize("n", range(1, 34))
def test_ring_counts_equal_messages_for_any_number_of_ranks(n: int) -> None:
    rng = np.random.default_rng(n)
    blocks = rng.integers(0, 4, n)
    counted = stepwise.all_reduce("ring", blocks.tolist(), n, rng)
    claimed = sent_bytes("all_reduce", "ring", blocks.astype(float), n)
    np.testing.assert_array_equal(claimed["scale_up"], counted["scale_up"])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Array, int]:
    """Whole-number blocks, local size."""
    nodes, local = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    blocks = draw(st.lists(st.integers(0, 1000), min_size=nodes * local, max_size=nodes * local))
    return np.array(blocks, dtype=float), local


@settings(max_examples=100, deadline=None)
@given(worlds(), st.sampled_from(["ring", "direct", "hierarchical"]), st.sampled_from(["world", "node", "rail"]))
def test_all_reduce_is_reduce_scatter_and_all_gather(world: tuple[Array, int], algorithm: str, group: str) -> None:
    blocks, local = world
    one = sent_bytes("all_reduce", algorithm, blocks, local, group)
    first, second = (sent_bytes(k, algorithm, blocks, local, group) for k in ("reduce_scatter", "all_gather"))
    for name in one:
        np.testing.assert_array_equal(one[name], first[name] + second[name])


@settings(max_examples=100, deadline=None)
@given(worlds(), st.sampled_from(["world", "node", "rail"]))
def test_rings_send_the_least_that_a_gather_can(world: tuple[Array, int], group: str) -> None:
    """All-gather must bring everyone all other blocks: n T - T elements in all; so must any algorithm here."""
    blocks, local = world
    grid = volume.partition(blocks, local, group)
    size = grid.shape[-1] * grid.shape[-2]
    wanted = (size - 1) * blocks.sum()
    for algorithm in ("ring", "direct", "hierarchical"):
        sent = sent_bytes("all_gather", algorithm, blocks, local, group)
        assert sent["scale_up"].sum() + sent["scale_out"].sum() == wanted


@settings(max_examples=50, deadline=None)
@given(worlds(), st.sampled_from(["ring", "tree", "direct", "hierarchical"]))
def test_groups_stay_on_their_wires(world: tuple[Array, int], algorithm: str) -> None:
    blocks, local = world
    assert not sent_bytes("all_reduce", algorithm, blocks, local, "node")["scale_out"].any()
    assert not sent_bytes("all_reduce", algorithm, blocks, local, "rail")["scale_up"].any()
    if blocks.size == local:
        assert not sent_bytes("all_reduce", algorithm, blocks, local)["scale_out"].any()


@pytest.mark.parametrize("kind", BLOCK_KINDS)
@pytest.mark.parametrize("group", ["world", "node", "rail"])
@pytest.mark.parametrize(("nodes", "local"), LAYOUTS)
def test_even_forms_are_the_busiest_rank_of_even_blocks(kind: str, group: str, nodes: int, local: int) -> None:
    """Two ways to the same number: closed forms in the buffer's size, and counts block by block."""
    inner, outer = (1 if group == "rail" else local), (1 if group == "node" else nodes)
    block = 2.0 * local * 12  # divides into stripes and halves
    blocks = np.full(nodes * local, block)
    for algorithm in SERVES[kind]:
        if algorithm == "in_network" and outer > 1:
            continue
        counted = sent_bytes(kind, algorithm, blocks, local, group)
        closed = even(kind, algorithm, block * inner * outer, inner, outer)
        for name, amount in counted.items():
            assert closed.sent.get(name, 0.0) == pytest.approx(amount.max(), rel=1e-12)  # type: ignore[call-overload]


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_leading_axes_are_separate_collectives(world: tuple[Array, int]) -> None:
    blocks, local = world
    both = np.stack([blocks, blocks[::-1]])
    for algorithm in ("ring", "tree", "hierarchical", "direct"):
        together = sent_bytes("all_reduce", algorithm, both, local)
        for i, one in enumerate(both):
            alone = sent_bytes("all_reduce", algorithm, one, local)
            for name in alone:
                np.testing.assert_array_equal(together[name][i], alone[name])


def test_in_network_sends_the_buffer_and_one_block_more() -> None:
    blocks = np.array([3.0, 0.0, 5.0])
    assert sent_bytes("all_reduce", "in_network", blocks, 3)["scale_up"].tolist() == [11.0, 8.0, 13.0]
    with pytest.raises(CollectiveError, match="spans 3 nodes"):
        sent_bytes("all_reduce", "in_network", blocks, 1)


@pytest.mark.parametrize("n", range(1, 34))
def test_trees_reach_everyone_and_share_the_work(n: int) -> None:
    first, second = trees.double_tree(n)
    for parent in (first, second):
        assert (parent == np.arange(n)).sum() == 1
        reached = np.arange(n)
        for _ in range(trees.depth(n)):
            reached = parent[reached]
        assert len(set(reached.tolist())) == 1
    assert trees.messages(n).sum() == 2 * 2 * (n - 1)
    assert trees.messages(n).sum(axis=0).max() <= 4
    assert trees.depth(n) <= np.ceil(np.log2(n)) + 1


def test_stripes_tile_the_block() -> None:
    lengths = np.array([0.0, 1.0, 7.0, 8.0, 1e15])
    for parts in (1, 3, 8):
        cut = volume.stripes(lengths, parts)
        np.testing.assert_array_equal(cut.sum(axis=-1), lengths)
        assert (cut == np.floor(cut)).all()


@settings(max_examples=50, deadline=None)
@given(worlds(), st.sampled_from(["world", "node", "rail"]), st.sampled_from(["direct", "hierarchical"]))
def test_all_to_all_sends_what_is_received(world: tuple[Array, int], group: str, algorithm: str) -> None:
    blocks, local = world
    pairs = np.random.default_rng(0).integers(0, 50, (blocks.size, blocks.size)).astype(float)
    wires = all_to_all_bytes(pairs, local, group, algorithm)
    for sent, received in wires.values():
        assert sent.shape == received.shape == blocks.shape
        assert sent.sum() == received.sum()


def test_all_to_all_over_two_levels_crosses_the_network_as_often() -> None:
    """2D all-to-all moves the same bytes between nodes, more within."""
    pairs = np.random.default_rng(1).integers(1, 50, (12, 12)).astype(float)
    direct = all_to_all_bytes(pairs, 4)
    two_level = all_to_all_bytes(pairs, 4, algorithm="hierarchical")
    assert direct["scale_out"][0].sum() == two_level["scale_out"][0].sum()
    assert direct["scale_up"][0].sum() < two_level["scale_up"][0].sum()
    even_pairs = np.full((12, 12), 7.0)
    for algorithm in ("direct", "hierarchical"):
        closed = even("all_to_all", algorithm, 7.0 * 12, 4, 3)
        counted = all_to_all_bytes(even_pairs, 4, algorithm=algorithm)
        assert closed.sent["scale_up"] == pytest.approx(counted["scale_up"][0].max())
        assert closed.sent["scale_out"] == pytest.approx(counted["scale_out"][0].max())


def test_what_does_not_serve_is_named() -> None:
    blocks = np.ones(4)
    with pytest.raises(CollectiveError, match="did you mean all_reduce"):
        sent_bytes("all_redcue", "ring", blocks, 2)
    with pytest.raises(CollectiveError, match="did you mean ring"):
        sent_bytes("all_reduce", "rnig", blocks, 2)
    with pytest.raises(CollectiveError, match="does not carry out all_gather"):
        sent_bytes("all_gather", "tree", blocks, 2)
    with pytest.raises(CollectiveError, match="did you mean world"):
        sent_bytes("all_reduce", "ring", blocks, 2, "wolrd")
    with pytest.raises(CollectiveError, match="whole number of nodes"):
        sent_bytes("all_reduce", "ring", blocks, 3)
    with pytest.raises(CollectiveError, match="all_to_all_bytes"):
        sent_bytes("all_to_all", "direct", blocks, 2)
