"""All-to-all of unequal messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError, all_to_all_bytes, all_to_all_v, estimate
from archmodel.network import Topology
from tests.collectives.test_estimate import topology


@pytest.mark.parametrize(("local", "nodes"), [(1, 1), (2, 1), (8, 1), (1, 3), (8, 2), (5, 3)])
@pytest.mark.parametrize("group", ["world", "node", "rail"])
def test_equal_messages_cost_what_the_even_all_to_all_costs(local: int, nodes: int, group: str) -> None:
    t = topology(local, nodes)
    inner, outer = t.extent(group)
    for message in (10.0, 1e4, 1e7):
        uneven = all_to_all_v(
            t,
            scale_up_send=message * (inner - 1),
            scale_up_receive=message * (inner - 1),
            scale_out_send=message * (inner * outer - inner),
            scale_out_receive=message * (inner * outer - inner),
            kept=message,
            group=group,
        )
        even = estimate(t, "all_to_all", per_rank_input_bytes=message * inner * outer, group=group)
        assert np.shape(uneven.time) == (1,)
        assert np.asarray(uneven.time)[0] == pytest.approx(float(even.time), rel=1e-12)
        assert np.asarray(uneven.bus_bandwidth)[0] == pytest.approx(float(even.bus_bandwidth), rel=1e-12)


def from_pairs(t: Topology, pairs: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    wires = all_to_all_bytes(pairs, t.local_size)
    (up_send, up_receive), (out_send, out_receive) = wires["scale_up"], wires["scale_out"]
    r = all_to_all_v(
        t,
        scale_up_send=up_send,
        scale_up_receive=up_receive,
        scale_out_send=out_send,
        scale_out_receive=out_receive,
    )
    assert np.allclose(sum(r.parts.values()), r.time)
    return np.asarray(r.time)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 4))
def test_no_rank_beats_its_links(seed: int, local: int, nodes: int) -> None:
    t = topology(local, nodes)
    pairs = np.random.default_rng(seed).exponential(1e6, (t.ranks, t.ranks))
    time = from_pairs(t, pairs)
    for d in t.dimensions:
        for amount in all_to_all_bytes(pairs, local)[d.name]:
            assert (time >= amount / d.bandwidth).all()


def test_one_busy_receiver_holds_everyone_up() -> None:
    t = topology(4, 2)
    even = np.full((8, 8), 1e6)
    hot = even.copy()
    hot[:, 3] *= 20
    assert from_pairs(t, hot)[0] > 5 * from_pairs(t, even)[0]


def test_dimensions_overlap() -> None:
    """Grouped sends run in one kernel: the slower of the node's links and the interface sets the rate."""
    t = topology(8, 2, table=False, latency=0.0)
    up, out = (
        all_to_all_v(t, scale_up_send=a, scale_up_receive=a, scale_out_send=b, scale_out_receive=b)
        for a, b in ((1e9, 1.0), (1.0, 1e9))
    )
    both = all_to_all_v(t, scale_up_send=1e9, scale_up_receive=1e9, scale_out_send=1e9, scale_out_receive=1e9)
    assert up.bound == "scale_up"
    assert out.bound == "scale_out"
    np.testing.assert_allclose(np.asarray(both.time), np.maximum(np.asarray(up.time), np.asarray(out.time)))


def test_nothing_sent_takes_no_time() -> None:
    assert np.asarray(all_to_all_v(topology(8, 2), scale_up_send=np.zeros(16)).time).tolist() == [0.0]


def test_design_points_broadcast() -> None:
    t = topology(8, 1, bandwidth=np.array([[100e9], [300e9]]))
    sends = np.arange(8) * 1e6
    r = all_to_all_v(t, scale_up_send=sends, scale_up_receive=sends[::-1])
    assert np.shape(r.time) == (2, 1)
    assert np.asarray(r.time)[1, 0] < np.asarray(r.time)[0, 0]


def test_bytes_must_have_a_wire() -> None:
    with pytest.raises(CollectiveError, match="over scale_out, which this group does not cross"):
        all_to_all_v(topology(8, 1), scale_out_send=1.0)
    with pytest.raises(CollectiveError, match="end in 8 ranks"):
        all_to_all_v(topology(8, 1), scale_up_send=np.ones(5))
    with pytest.raises(CollectiveError, match="finite"):
        all_to_all_v(topology(8, 1), scale_up_send=-1.0)
