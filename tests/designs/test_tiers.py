"""Designs of the catalogue that need more than HBM: what makes them fit, and in which order they come out."""

from __future__ import annotations

import pytest

import archmodel as am
from archmodel import catalogue
from archmodel.estimate.estimate import estimate

NEO_F = "neo_f_zionex_16x8.yaml"
XLARGE = {
    "all in HBM": "nvidia_dlrm_xlarge_8xa100_amp.yaml",
    "cached": "nvidia_dlrm_xlarge_1xa100_cached_amp.yaml",
    "hybrid": "nvidia_dlrm_xlarge_1xa100_hybrid_amp.yaml",
    "processors": "nvidia_dlrm_xlarge_2xepyc7742.yaml",
    "paged": "nvidia_dlrm_xlarge_1xa100_uvm_amp.yaml",
}


def load(name: str) -> am.Design:
    return am.load(catalogue.find(name))


@pytest.mark.parametrize(
    ("dtype", "optimizer", "fits"),
    [
        ("fp32", "adagrad", False),
        ("fp32", "rowwise_adagrad", False),
        ("fp16", "adagrad", False),
        ("fp16", "rowwise_adagrad", True),
    ],
)
def test_neo_model_f_fits_only_in_half_precision_with_one_moment_a_row(dtype: str, optimizer: str, fits: bool) -> None:
    """12e12 x (4 + 4) B = 96 TB shrink to 12e12 x 2 B + 4 B a row = 24.2 TB; HBM and host memory are 29.1 TB."""
    design = load(NEO_F).with_({"plan.tables.default.dtype": dtype, "plan.tables.default.optimizer": optimizer})
    answer = estimate(design)
    assert answer.fits is fits
    assert {"hbm", "ddr"} == set(design.placement.tier)


def test_neo_model_f_needs_host_memory() -> None:
    answer = estimate(load(NEO_F).with_({"plan.tables.default.tier": "hbm"}))
    assert not answer.memory["hbm"].fits


@pytest.mark.parametrize(
    "name", ["neo_f_zionex_16x8_cached.yaml", "neo_f_zionex_4x8_ssd.yaml", "neo_f_zionex_4x8_cascade.yaml"]
)
def test_neo_model_f_with_caches_fits(name: str) -> None:
    answer = estimate(load(name))
    assert answer.fits
    assert answer.caches["row"].hit_rate > 0.9


def test_caching_host_memory_helps_model_f() -> None:
    plain, cached = estimate(load(NEO_F)), estimate(load("neo_f_zionex_16x8_cached.yaml"))
    assert cached.throughput > plain.throughput
    assert plain.bound.shares["host_link"] > 0.2 > cached.bound.shares.get("host_link", 0.0)


def test_a_cache_in_host_memory_spares_the_drives_of_model_f() -> None:
    """They bound both, so throughput rises as fetched rows fall, and the drives wear out no sooner for it."""
    one, both = (estimate(load(f"neo_f_zionex_4x8_{name}.yaml")) for name in ("ssd", "cascade"))
    assert one.bound.resource == both.bound.resource == "ssd"
    fewer = one.caches["row"].fetched / both.caches["row"].fetched
    assert 0.8 * fewer < both.throughput / one.throughput < fewer
    assert both.tiers["ssd"].lifetime_days >= one.tiers["ssd"].lifetime_days


def test_the_113b_model_from_hbm_to_pages() -> None:
    rates = {name: estimate(load(file)).throughput for name, file in XLARGE.items()}
    assert list(XLARGE) == sorted(rates, key=lambda name: -rates[name])
    assert all(estimate(load(file)).fits for file in XLARGE.values())
