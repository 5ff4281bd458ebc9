"""Catalogue fabrics against published measurements that no constant was fitted on."""

from __future__ import annotations

import pytest

from archmodel.collectives import estimate
from tests.collectives.machines import machine


@pytest.mark.parametrize(("gpus", "busbw"), [(5, 414.2e9), (6, 435.6e9), (7, 460.0e9), (8, 473.1e9)])
def test_h200_all_reduce_in_the_switch(gpus: int, busbw: float) -> None:
    """8xH200, 8 GiB, NCCL 2.27.7: stas00/ml-engineering network/README @744d01e. Its NVSwitch is the H100's, and so is
    the aim: 5 %."""
    r = estimate(machine("nvswitch_h100", gpus), "all_reduce", per_rank_input_bytes=2.0**33)
    assert r.algorithm == "in_network"
    assert r.bus_bandwidth == pytest.approx(busbw, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "busbw"), [("all_reduce", 367.2e9), ("all_gather", 361.4e9), ("reduce_scatter", 362.9e9)]
)
def test_h200_rings(kind: str, busbw: float) -> None:
    """8xH200, 16 GiB, the same source."""
    size = 2.0**34 / (8 if kind == "all_gather" else 1)
    r = estimate(machine("nvswitch_h100", 8), kind, "ring", per_rank_input_bytes=size)
    assert r.bus_bandwidth == pytest.approx(busbw, rel=0.05)


def test_h200_of_mlperf() -> None:
    """1,731,821,448 B all-reduce on 8 H200: 6,483 us (MLPerf training v5.0 logs)."""
    r = estimate(machine("nvswitch_h100", 8), "all_reduce", per_rank_input_bytes=1731821448.0)
    assert r.time == pytest.approx(6483e-6, rel=0.02)


@pytest.mark.parametrize(("gpus", "busbw"), [(4, 673.2e9), (5, 677.8e9), (6, 778.2e9), (7, 811.2e9), (8, 838.0e9)])
def test_b200_from_the_speed_of_its_links(gpus: int, busbw: float) -> None:
    """8xB200, 8 GiB, ml-engineering: a generation never fitted, at its line rate with H100's constants."""
    r = estimate(machine("nvswitch_b200", gpus), "all_reduce", per_rank_input_bytes=2.0**33)
    measured = 2 * (gpus - 1) / gpus * 2.0**33 / busbw
    assert r.time == pytest.approx(measured, rel=0.05)
    assert r.algorithm == ("in_network" if gpus > 5 else "ring")


A100_AT_MEBIBYTES = {
    "all_reduce": {1: 47e9, 16: 136e9, 128: 201e9, 512: 222e9},
    "all_to_all": {1: 36e9, 16: 128e9, 128: 183e9, 512: 203e9},
    "all_gather": {1: 34e9, 16: 109e9, 128: 178e9, 512: 205e9},
    "reduce_scatter": {1: 39e9, 16: 119e9, 128: 188e9, 512: 213e9},
}
"""Bus bandwidth of 8 A100 (aiconfigurator); 1 and 16 MiB are not among the fitted sizes."""


def test_a100_over_sizes_and_collectives() -> None:
    """Mean absolute error within the aim for unseen sizes, 6 %."""
    errors = []
    for kind, measured in A100_AT_MEBIBYTES.items():
        for mebibytes, busbw in measured.items():
            size = mebibytes * 2.0**20 / (8 if kind == "all_gather" else 1)
            r = estimate(machine("nvswitch_a100", 8), kind, per_rank_input_bytes=size)
            errors.append(abs(float(r.bus_bandwidth) / busbw - 1))
    assert sum(errors) / len(errors) <= 0.06


@pytest.mark.parametrize(("nodes", "per_node", "busbw"), [(2, 8, 192e9), (2, 4, 86e9), (3, 4, 96e9)])
def test_large_all_reduce_over_hdr(nodes: int, per_node: int, busbw: float) -> None:
    """DGX A100 over 200 Gbit/s interfaces: NCCL issue 812; nccl-tests issues 175 and 119 (peak)."""
    t = machine("nvswitch_a100", 8, nodes, per_node=per_node)
    r = estimate(t, "all_reduce", per_rank_input_bytes=8e9)
    assert r.bus_bandwidth == pytest.approx(busbw, rel=0.12)


def test_large_all_reduce_over_edr() -> None:
    """Two DGX-1 with four 100 Gbit/s interfaces each: 48 GB/s (nccl-tests issue 29)."""
    t = machine("nvlink_v100_dgx1", 8, 2, "ib_edr_100g", "100 Gbit/s", per_node=4)
    assert estimate(t, "all_reduce", per_rank_input_bytes=1e9).bus_bandwidth == pytest.approx(48e9, rel=0.05)


@pytest.mark.parametrize(
    ("node", "nodes", "network", "nic", "low", "high"),
    [
        ("nvswitch_a100", 32, "ib_hdr_200g", "200 Gbit/s", 62e-6, 71e-6),
        ("nvswitch_h100", 16, "ib_ndr_400g", "400 Gbit/s", 62e-6, 77e-6),
    ],
)
def test_latency_of_small_all_reduces(node: str, nodes: int, network: str, nic: str, low: float, high: float) -> None:
    """128 B over 32 and 16 nodes of 8 GPUs: NCCL issues 652 and 1469."""
    r = estimate(machine(node, 8, nodes, network, nic), "all_reduce", per_rank_input_bytes=128.0)
    assert r.algorithm == "tree"
    assert 0.85 * low <= float(r.time) <= 1.15 * high


def test_zionex_reaches_what_neo_publishes() -> None:
    """128 GPUs, 256 MB: all-reduce 60 GB/s of buffer over time, all-to-all 7.0 GB/s
    (the fabric's two efficiencies come from these)."""
    t = machine("nvswitch_a100", 8, 16, "roce_200g")
    reduced = estimate(t, "all_reduce", "hierarchical", per_rank_input_bytes=256e6)
    exchanged = estimate(t, "all_to_all", per_rank_input_bytes=256e6)
    assert 256e6 / float(reduced.time) == pytest.approx(60e9, rel=0.02)
    assert exchanged.bus_bandwidth == pytest.approx(7e9, rel=0.02)
