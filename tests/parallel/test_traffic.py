"""All-to-all volumes: factored and full matrices agree, and what is sent is received."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.collectives.volume import all_to_all_bytes
from archmodel.program import Group, Layout, OuterTraffic, PairTraffic

GROUPS: tuple[Group, ...] = ("world", "node", "rail")


@st.composite
def outers(draw: st.DrawFn) -> tuple[Layout, OuterTraffic]:
    layout = Layout(draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    factors = st.lists(st.integers(0, 1000), min_size=layout.ranks, max_size=layout.ranks)
    return layout, OuterTraffic(np.array(draw(factors), float), np.array(draw(factors), float))


@given(outers(), st.sampled_from(GROUPS))
def test_outer_and_pair_traffic_agree(case: tuple[Layout, OuterTraffic], group: Group) -> None:
    layout, outer = case
    pair = PairTraffic(np.outer(outer.send, outer.receive))
    assert outer.split(layout, group).keys() == pair.split(layout, group).keys()
    for link, (sent, received) in outer.split(layout, group).items():
        assert np.array_equal(sent, pair.split(layout, group)[link][0])
        assert np.array_equal(received, pair.split(layout, group)[link][1])
    for a, b in zip(outer.totals(layout, group), pair.totals(layout, group), strict=True):
        assert np.array_equal(a, b)


@given(outers(), st.sampled_from(GROUPS))
def test_the_same_as_the_collectives_count(case: tuple[Layout, OuterTraffic], group: Group) -> None:
    layout, outer = case
    claimed = all_to_all_bytes(np.outer(outer.send, outer.receive), layout.local_size, group)
    for link, (sent, received) in outer.split(layout, group).items():
        assert np.array_equal(sent, claimed[link][0])
        assert np.array_equal(received, claimed[link][1])


@given(outers(), st.sampled_from(GROUPS))
def test_what_is_sent_is_received_and_the_rest_stays(case: tuple[Layout, OuterTraffic], group: Group) -> None:
    layout, outer = case
    split, (total, arrived) = outer.split(layout, group), outer.totals(layout, group)
    for sent, received in split.values():
        assert sent.sum() == received.sum()
        assert (sent >= 0).all()
        assert (received >= 0).all()
    kept = outer.send * outer.receive
    assert np.array_equal(sum(sent for sent, _ in split.values()) + kept, total)
    assert np.array_equal(sum(received for _, received in split.values()) + kept, arrived)


@pytest.mark.parametrize("layout", [Layout(1, 6), Layout(6, 1), Layout(2, 3)], ids=str)
def test_groups_partition_the_ranks(layout: Layout) -> None:
    for group in GROUPS:
        members = layout.members(group)
        assert sorted(members.ravel().tolist()) == list(range(6))
    assert layout.members("node").shape == (layout.nodes, layout.local_size)
    assert layout.members("rail").shape == (layout.local_size, layout.nodes)
    assert all(len(set(layout.node_of[row])) == 1 for row in layout.members("node"))
