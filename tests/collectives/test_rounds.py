"""The low-latency protocol in rounds, and the exposed chunk of the simple one, by hand and within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.collectives import estimate
from archmodel.network import Switch, Topology, build_topology
from tests.collectives.machines import machine

LINE = 4096.0
ROUND = 24 * LINE / 200e9
"""Seconds of a round at half of 400 GB/s."""


def node(n: int, row: dict[str, object]) -> Topology:
    fabric = {"bandwidth": 400e9, "latency": 1e-6, "protocols": {"only": {"base": 5e-6, "direct_base": 7e-6, **row}}}
    return build_topology(Switch.model_validate(fabric), ranks_per_node=n)


LL = {"line": LINE, "channels": 24, "fraction": 0.5, "first_round": 0.6, "widening": 2e-6, "gather_round": 0.5}


@pytest.mark.parametrize(
    ("block", "channels", "first", "more"),
    [(1024, 1, 0.25, 0), (4096, 1, 1.0, 0), (8192, 2, 1.0, 0), (24 * 4096, 24, 1.0, 0), (25 * 4096, 24, 1.0, 1)],
)
@pytest.mark.parametrize("n", [2, 8])
def test_rings_by_hand(n: int, block: float, channels: int, first: float, more: int) -> None:
    start = 5e-6 + 2e-6 * (1 - 1 / channels)
    rounds = more + 0.6 * first
    scatter = start + (n - 1) * 1e-6 + n * ROUND * rounds
    found = estimate(node(n, LL), "reduce_scatter", per_rank_input_bytes=block * n).time
    assert found == pytest.approx(scatter, rel=1e-9)
    gather = scatter + (n - 1) * 0.5 * ROUND * (more + first)
    assert estimate(node(n, LL), "all_gather", per_rank_input_bytes=block).time == pytest.approx(gather, rel=1e-9)


def test_time_is_flat_while_channels_fill() -> None:
    """From two channels to all, only the start of more channels is added."""
    blocks = LINE * np.array([2.0, 4.0, 12.0, 24.0])
    times = np.asarray(estimate(node(8, LL), "reduce_scatter", per_rank_input_bytes=8 * blocks).time)
    assert np.ptp(times) < 1e-6


def test_small_all_to_alls_use_a_channel_a_peer() -> None:
    found = estimate(node(4, LL), "all_to_all", per_rank_input_bytes=4 * 3 * LINE).time
    assert found == pytest.approx(7e-6 + 1e-6 + 3 * ROUND, rel=1e-9)


def test_a_broadcast_passes_bytes_on_as_they_arrive() -> None:
    """n - 1 hops, and every byte once: not once for each rank."""
    size = 24 * LINE * 70
    found = estimate(node(8, LL), "broadcast", per_rank_input_bytes=size).time
    assert found <= 5e-6 + 2e-6 + 7 * 1e-6 + size / 200e9 + 7 * ROUND


def test_the_exposed_chunk_by_hand() -> None:
    row = {"exposed": 0.5, "chunk": 1e6}
    for block, waits in ((4e5, 4e5), (4e6, 1e6)):
        found = estimate(node(4, row), "reduce_scatter", per_rank_input_bytes=4 * block).time
        assert found == pytest.approx(5e-6 + 3e-6 + 3 * block / 400e9 + 0.5 * waits / 400e9, rel=1e-9)


@given(
    st.sampled_from(["nvswitch_a100", "nvswitch_h100", "nvswitch_b200"]),
    st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]),
    st.integers(2, 8),
    st.floats(1, 1e10),
)
def test_never_below_the_links(fabric: str, kind: str, n: int, size: float) -> None:
    t = machine(fabric, n)
    result = estimate(t, kind, per_rank_input_bytes=size)
    assert float(result.time) >= float(result.wire_bytes["scale_up"]) / float(t.scale_up.bandwidth)


FITTED_OR_NOT = [
    (name, n) for name in ("nvswitch_a100", "nvswitch_h100", "nvswitch_b200", "pcie_gen4") for n in (2, 3, 4, 8)
]
KINDS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


@pytest.mark.parametrize(("fabric", "n"), FITTED_OR_NOT)
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_were_never_fitted(fabric: str, n: int, kind: str) -> None:
    """512 B to 8 GiB, hardly any a power of two: more is never faster, never above the wire, and between two choices of
    the library (algorithm, protocol, one round more of its channels) time grows no faster than size."""
    t = machine(fabric, n)
    sizes = np.unique(np.round(np.geomspace(512, 2.0**33, 1500)))
    r = estimate(t, kind, per_rank_input_bytes=sizes)
    time = np.asarray(r.time)
    assert (np.diff(time) >= 0).all()
    assert (np.asarray(r.wire_bytes["scale_up"]) / float(t.scale_up.bandwidth) <= time).all()
    chosen = np.stack([np.broadcast_to(np.asarray(x), time.shape) for x in (r.algorithm, r.protocol)])
    block = np.asarray(r.wire_bytes["scale_up"]) / np.maximum(np.asarray(r.steps["scale_up"]), 1)
    rounds = np.where(chosen[1] == "ll", np.ceil(block / (24 * LINE)), 0)
    same = (chosen[:, 1:] == chosen[:, :-1]).all(0) & (rounds[1:] == rounds[:-1])
    growth = time[1:] / time[:-1] / (sizes[1:] / sizes[:-1])
    assert (growth[same] <= 1 + 1e-12).all()
    switches = (chosen[:, 1:] != chosen[:, :-1]).any(0)
    assert switches.sum() <= 4  # each choice holds over one range of sizes
    assert same.mean() > 0.95


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_sizes_between_nodes(kind: str, nodes: int) -> None:
    """p4de: the same over four interfaces a node."""
    t = machine("nvswitch_a100", 8, nodes, "efa_400g", "100 Gbit/s", per_node=4)
    assert t.scale_out is not None
    sizes = np.unique(np.round(np.geomspace(1, 2.0**33, 1500)))
    r = estimate(t, kind, per_rank_input_bytes=sizes)
    time = np.asarray(r.time)
    assert (np.diff(time) >= 0).all()
    for d in t.dimensions:
        assert (np.asarray(r.wire_bytes[d.name]) / float(d.bandwidth) <= time * (1 + 1e-12)).all()
    growth = time[1:] / time[:-1] / (sizes[1:] / sizes[:-1])
    assert np.quantile(growth, 0.99) <= 1
