"""Chunks of hierarchical collectives: inside their bracket, and the best number of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError, estimate
from archmodel.collectives.pipeline import MOST, Phase, optimal, pipelined
from archmodel.network import Nic, RailClos, Switch, Topology, build_topology
from tests.collectives.test_estimate import topology

dimensions = st.lists(
    st.tuples(st.floats(1e-9, 1e-3) | st.just(0.0), st.floats(1e-9, 1.0) | st.just(0.0)), min_size=1, max_size=5
)


def phases(dims: list[tuple[float, float]]) -> Any:
    return lambda k: [Phase(a + 0.0 * np.asarray(k), b / np.asarray(k)) for a, b in dims]


@settings(max_examples=200, deadline=None)
@given(dimensions, st.integers(1, 4096))
def test_the_bracket(dims: list[tuple[float, float]], k: int) -> None:
    """k max_d T_d <= T <= (k - 1) max_d T_d + sum_d T_d, for any latencies: nothing ever waits for ever."""
    totals = [a + b / k for a, b in dims]
    time = float(pipelined(phases(dims), k).time)
    assert time <= ((k - 1) * max(totals) + sum(totals)) * (1 + 1e-12)
    assert time >= k * max(totals) * (1 - 1e-12)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0), st.integers(1, 40), st.integers(1, 12))
def test_chunks_in_flight_by_simulation(latency: float, each: float, chunks: int, in_flight: int) -> None:
    """One dimension that serves bytes one chunk at a time and has room for so many: chunk j starts when the bytes of
    the one before it are through and chunk j - m is done. By Little's law no faster; what the simulation saves by
    starting with all rooms free is less than the time of one chunk."""
    done: list[float] = []
    sent = 0.0
    for j in range(chunks):
        start = max(sent, done[j - in_flight] if j >= in_flight else 0.0)
        sent = start + each
        done.append(sent + latency)
    law = float(pipelined(lambda k: [Phase(latency, each)], chunks, in_flight).time)
    assert done[-1] <= law * (1 + 1e-12)
    assert law <= done[-1] + latency + each
    if in_flight == 1 or in_flight * each >= latency + each:
        assert law == pytest.approx(done[-1], rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(dimensions, st.integers(1, 4096), st.integers(1, 64))
def test_more_in_flight_is_never_slower(dims: list[tuple[float, float]], k: int, m: int) -> None:
    one, some, many = (float(pipelined(phases(dims), k, n).time) for n in (1, m, np.inf))
    assert many * (1 - 1e-12) <= some <= one * (1 + 1e-12)
    latency, each, most = (sum(a for a, _ in dims), sum(b for _, b in dims), max(b for _, b in dims))
    assert many == pytest.approx(latency + each / k + (1 - 1 / k) * most, rel=1e-9, abs=1e-15)


@settings(max_examples=100, deadline=None)
@given(dimensions)
def test_the_best_number_is_the_best_of_all(dims: list[tuple[float, float]]) -> None:
    found = optimal(phases(dims))
    every = np.arange(1.0, MOST + 1)
    times = np.asarray(pipelined(phases(dims), 1).time) * 0 + [
        float(pipelined(phases(dims), int(k)).time) for k in every[:64]
    ]
    geometric = [float(pipelined(phases(dims), int(k)).time) for k in np.unique(np.geomspace(64, MOST, 60).astype(int))]
    assert float(found.time) <= min(*times, *geometric) * (1 + 1e-12)
    assert float(found.chunks) == int(found.chunks)
    assert 1 <= float(found.chunks) <= MOST


def test_cutting_one_dimension_only_costs_latency() -> None:
    """The bytes take as long; latency is paid for each chunk (so more splits are slower: astra-sim issue 155)."""
    t = topology(8, 1, table=False)
    whole, cut = (
        estimate(t, "all_reduce", a, per_rank_input_bytes=1e8, fidelity="alpha_beta", chunks=k)
        for a, k in (("ring", 1), ("ring", 5))
    )
    assert cut.parts["bandwidth"] == pytest.approx(whole.parts["bandwidth"])
    assert cut.parts["latency"] == pytest.approx(5 * float(whole.parts["latency"]))
    alone = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=1e8, fidelity="alpha_beta", chunks=5)
    assert alone.time == pytest.approx(float(cut.time))


def test_two_dimensions_gain_from_chunks_up_to_a_number() -> None:
    t = topology(8, 16, nic=100e9)

    def at(chunks: Any) -> float:
        r = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=64e6, fidelity="alpha_beta", chunks=chunks)
        assert r.chunks == chunks or chunks == "auto"
        return float(r.time)

    best = at("auto")
    assert at(1) > best
    assert at(4096) > best
    assert min(at(k) for k in range(1, 200)) == pytest.approx(best, rel=1e-12)


def two_rings(latency: float, size: float, chunks: int) -> float:
    """8 x 8 ranks on links of 50 GiB/s each way, seconds."""
    switch = Switch.model_validate({"bandwidth": 50 * 2.0**30, "latency": latency})
    nic = Nic.model_validate({"bandwidth": 50 * 2.0**30})
    clos = RailClos.model_validate({"latency": latency})
    t = build_topology(switch, ranks_per_node=8, nodes=8, nic=nic, scale_out=clos)
    r = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=size, fidelity="alpha_beta", chunks=chunks)
    return float(r.time)


@pytest.mark.parametrize(
    ("size", "chunks", "simulated"),
    [(2.0**20, 1, 52475), (2.0**24, 1, 629289), (2.0**24, 4, 574904), (2.0**24, 16, 659040)],
)
def test_published_simulator_on_two_rings(size: float, chunks: int, simulated: int) -> None:
    """ASTRA-sim 518bd513, unaware backend, 8 x 8 rings of 50 GiB/s and 500 ns, endpoint delay 1 ns. One chunk is the
    sum of phases; more are between the two bounds, of which this model takes the upper one."""
    upper = two_rings(501e-9, size, chunks)
    assert simulated * 1e-9 <= upper * 1.001
    if chunks == 1:
        assert upper == pytest.approx(simulated * 1e-9, rel=2e-3)
    else:
        assert simulated * 1e-9 >= 0.83 * upper


@pytest.mark.parametrize("latencies", [(0.0, 0.0), (500e-9, 50e-6), (50e-6, 0.0)])
def test_any_latencies_finish(latencies: tuple[float, float]) -> None:
    """Asymmetric and zero latencies (astra-sim issues 74, 137 and 370)."""
    t = build_topology(
        Switch.model_validate({"bandwidth": 1e11, "latency": latencies[0]}),
        ranks_per_node=4,
        nodes=4,
        nic=Nic.model_validate({"bandwidth": 1e10}),
        scale_out=RailClos.model_validate({"latency": latencies[1]}),
    )
    for chunks in (1, 7, "auto"):
        r = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=np.array([0.0, 1.0, 1e9]), chunks=chunks)
        assert np.isfinite(np.asarray(r.time)).all()
        assert np.asarray(r.time)[0] == 0.0


def test_arrays_equal_one_by_one() -> None:
    sizes = np.geomspace(1e4, 1e9, 7)
    t: Topology = topology(8, 4)
    for chunks in (3, "auto"):
        whole = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=sizes, chunks=chunks)
        for i, size in enumerate(sizes):
            one = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=float(size), chunks=chunks)
            assert np.asarray(whole.time)[i] == pytest.approx(float(one.time), rel=1e-12)


@pytest.mark.parametrize("chunks", [0, -1, 1.5, True, "many"])
def test_numbers_of_chunks_that_are_none(chunks: Any) -> None:
    with pytest.raises(CollectiveError, match="whole number from 1 on, or 'auto'"):
        estimate(topology(), "all_reduce", "ring", per_rank_input_bytes=1.0, chunks=chunks)
