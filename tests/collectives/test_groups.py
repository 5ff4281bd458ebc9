"""Groups of any ranks, and kinds with a root: what they are priced at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError, estimate
from archmodel.collectives.kinds import SERVES
from archmodel.network import FullyConnected, build_topology
from tests.collectives.test_estimate import COLLECTIVE, EVERY, price, serves, topology


@pytest.mark.parametrize(("kind", "algorithm"), EVERY)
@pytest.mark.parametrize("fidelity", ["alpha_beta", "protocol"])
def test_a_list_of_all_ranks_is_the_world(kind: str, algorithm: str, fidelity: Any) -> None:
    for local, nodes in ((8, 1), (4, 3), (1, 5)):
        if not serves(algorithm, nodes):
            continue
        t = topology(local, nodes)
        sizes = np.array([0.0, 7.0, 1e5, 1e9])
        named = price(t, kind, algorithm, sizes, fidelity=fidelity)
        listed = price(t, kind, algorithm, sizes, fidelity=fidelity, group=list(range(local * nodes)))
        np.testing.assert_allclose(np.asarray(listed.time), np.asarray(named.time), rtol=1e-12)
        for wire, steps in named.steps.items():
            np.testing.assert_array_equal(listed.steps[wire], steps)
        for wire, sent in named.wire_bytes.items():
            np.testing.assert_allclose(np.asarray(listed.wire_bytes[wire]), np.asarray(sent), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_no_group_beats_its_links(data: st.DataObject, local: int, nodes: int) -> None:
    t = topology(local, nodes)
    ranks = data.draw(st.lists(st.integers(0, local * nodes - 1), min_size=1, max_size=12, unique=True))
    one_node = len({r // local for r in ranks}) == 1
    for kind, algorithm in EVERY:
        if algorithm == "in_network" and not one_node:
            continue
        r = price(t, kind, algorithm, np.array([0.0, 1e3, 1e8]), group=ranks)
        time = np.asarray(r.time)
        assert r.group_size == len(ranks)
        assert time[0] == 0.0
        assert (np.diff(time) >= 0).all()
        assert (time[1:] > 0).all() == (len(ranks) > 1)
        for level in t.levels:
            assert (time >= np.asarray(r.wire_bytes[level.name]) / level.bandwidth * (1 - 1e-12)).all()


def test_tensor_and_data_parallel_groups_overlap() -> None:
    """Rows of four neighbours stay in their node; columns of every fourth rank cross (astra-sim issue 339)."""
    t = topology(8, 4)
    rows = [list(range(r, r + 4)) for r in range(0, 32, 4)]
    columns = [list(range(c, 32, 4)) for c in range(4)]
    row = price(t, "all_reduce", "ring", 1e8, group=rows)
    column = price(t, "all_reduce", "ring", 1e8, group=columns)
    assert (row.group_size, column.group_size) == (4, 8)
    assert row.wire_bytes["scale_out"] == 0.0
    assert float(column.wire_bytes["scale_out"]) > 0
    assert "8 groups" in row.group
    assert price(t, "all_reduce", "ring", 1e8, group=rows[0]).time == row.time
    with pytest.raises(CollectiveError, match="price overlapping ones one by one"):
        price(t, "all_reduce", "ring", 1e8, group=[rows[0], columns[0]])


def test_more_ranks_in_a_group_take_longer_and_say_how_many() -> None:
    """32 and 64 GPUs must not come out alike because the group was one of 8 (SimAI issue 208)."""
    t = topology(8, 8)
    results = [price(t, "all_reduce", "ring", 1e8, group=list(range(n))) for n in (8, 16, 32, 64)]
    assert [r.group_size for r in results] == [8, 16, 32, 64]
    assert (np.diff([float(r.time) for r in results]) > 0).all()


def test_a_pair_of_a_fully_connected_node_has_one_link() -> None:
    t = build_topology(FullyConnected.model_validate({"link_bandwidth": 64e9}), ranks_per_node=8)
    pair = price(t, "all_reduce", "ring", 1e9, group=[2, 5], fidelity="alpha_beta")
    assert pair.time == pytest.approx(1e9 / 64e9)


def test_unequal_nodes_use_what_they_share() -> None:
    """Three ranks on one node and one on another: a ring over all, whose single link out carries everything."""
    t = topology(4, 2, table=False)
    r = price(t, "all_reduce", "ring", 1e8, group=[0, 1, 2, 4], fidelity="alpha_beta")
    assert r.wire_bytes["scale_out"] == pytest.approx(2 * 3 / 4 * 1e8)
    assert r.steps == {"scale_up": 4, "scale_out": 2}


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([], "no ranks"),
        ([0, 99], "there are ranks 0 to 15"),
        ([-1], "there are ranks 0 to 15"),
        ([3, 3], "listed twice"),
        ([0, 1.5], "no group"),
        ([[0, 1], [2, "x"]], "whole numbers"),
        ([[0, 1], [2, 3, 4]], "of 2 and 3 ranks"),
        ([[0, 1], []], "no group"),
    ],
)
def test_groups_that_are_none(group: Any, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        price(topology(8, 2), "all_reduce", "ring", 1.0, group=group)


# --- kinds with a root, and pairs ---


def test_rooted_kinds_move_what_they_must() -> None:
    t = topology(8, 1, latency=0.0, table=False)
    rate = 0.8 * 300e9
    for kind, size, seconds in (
        ("broadcast", 1e9, 1e9 / rate),
        ("reduce", 1e9, 1e9 / rate),
        ("scatter", 8e9, 7e9 / rate),
        ("gather", 1e9, 7e9 / rate),
    ):
        r = price(t, kind, "auto", size, fidelity="alpha_beta")
        assert r.time == pytest.approx(seconds)
        assert r.bus_bandwidth == pytest.approx(rate)
    assert price(t, "broadcast", "direct", 1e9, fidelity="alpha_beta").time == pytest.approx(7e9 / rate)


def test_point_to_point_takes_the_wire_between_its_ends() -> None:
    t = topology(8, 2)
    near = price(t, "point_to_point", "auto", 1e9, group=[0, 1])
    far = price(t, "point_to_point", "auto", 1e9, group=[0, 8])
    assert near.bound == "scale_up"
    assert far.bound == "scale_out"
    assert far.wire_bytes == {"scale_up": 0.0, "scale_out": 1e9}
    with pytest.raises(CollectiveError, match=r"group=\[source, target\]"):
        price(t, "point_to_point", "auto", 1e9)


def test_pairs_in_the_one_call() -> None:
    t = topology(4, 2)
    equal = estimate(t, "all_to_all", pair_bytes=np.full((8, 8), 1e6))
    assert np.asarray(equal.time)[0] == pytest.approx(float(price(t, "all_to_all", "direct", 8e6).time), rel=1e-12)
    hot = np.full((8, 8), 1e6)
    hot[:, 3] = 2e7
    for algorithm in SERVES["all_to_all"]:
        assert np.asarray(estimate(t, "all_to_all", algorithm, pair_bytes=hot).time)[0] > np.asarray(equal.time)[0]
    some = estimate(t, "all_to_all", pair_bytes=np.full((3, 3), 1e6), group=[0, 1, 6])
    assert some.group_size == 3
    assert some.wire_bytes["scale_out"].tolist() == [1e6, 1e6, 2e6]
    with pytest.raises(CollectiveError, match=r"needs \(8, 8\)"):
        estimate(t, "all_to_all", pair_bytes=np.ones((3, 3)))
    with pytest.raises(CollectiveError, match="are for all_to_all"):
        estimate(t, "all_reduce", pair_bytes=np.ones((8, 8)))


@pytest.mark.parametrize("kind", COLLECTIVE)
def test_quantised_wires_carry_fewer_bytes(kind: str) -> None:
    t = topology(8, 2)
    full = price(t, kind, "auto", 64e6)
    half = price(t, kind, "auto", 64e6, dtype="fp32", wire_dtype="fp16")
    for wire, sent in full.wire_bytes.items():
        assert half.wire_bytes[wire] == pytest.approx(float(sent) / 2)
    assert half.time == pytest.approx(float(price(t, kind, "auto", 32e6).time))
    assert price(t, kind, "auto", 64e6, dtype="bf16").time == full.time
    with pytest.raises(CollectiveError, match="no element type is called 'fp61'"):
        price(t, kind, "auto", 1.0, wire_dtype="fp61")
