"""Closed forms of a drive's channels against an event simulator, exact results and measured drives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.memory.queueing import (
    channels_for,
    closed_response,
    closed_throughput,
    open_percentile,
    open_wait,
)
from tests.memory.drive import closed, opened

MEAN = 10e-6


@pytest.mark.parametrize("channels", [1, 4, 16])
@pytest.mark.parametrize("depth", [1, 4, 16, 64])
def test_exponential_service_is_exact(depth: int, channels: int) -> None:
    rate, time = closed(depth, channels, MEAN, 1.0)
    assert closed_throughput(depth, MEAN, channels, 1.0) == pytest.approx(rate, rel=0.025)
    assert MEAN * closed_response(depth, channels, 1.0) == pytest.approx(time, rel=0.03)


@pytest.mark.parametrize("variation", [0.0, 0.5])
@pytest.mark.parametrize("channels", [1, 4, 16])
@pytest.mark.parametrize("depth", [1, 4, 16, 64])
def test_steadier_service_is_within_three_percent(depth: int, channels: int, variation: float) -> None:
    rate, _ = closed(depth, channels, MEAN, variation)
    assert closed_throughput(depth, MEAN, channels, variation) == pytest.approx(rate, rel=0.03)


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_latency_under_load(share: float, variation: float) -> None:
    """Pollaczek and Khinchine's mean; the 99th percentile is exact for exponential service, up to 17 % high else."""
    channels = 8
    load = share * channels / MEAN
    spent = opened(load, channels, MEAN, variation)
    assert MEAN + open_wait(load, MEAN, channels, variation) == pytest.approx(spent.mean(), rel=0.04)
    percentile = open_percentile(load, MEAN, channels, variation, 0.99)
    assert percentile == pytest.approx(np.quantile(spent, 0.99), rel=0.05 if variation == 1 else 0.2)


@given(
    depth=st.floats(1.0, 1e4), channels=st.floats(1.0, 1e4), variation=st.floats(0.0, 1.0), more=st.floats(1.0, 10.0)
)
def test_bounds_and_directions(depth: float, channels: float, variation: float, more: float) -> None:
    rate = closed_throughput(depth, MEAN, channels, variation)
    assert rate <= min(depth, channels) / MEAN * (1 + 1e-12)
    assert closed_throughput(depth * more, MEAN, channels, variation) >= rate * (1 - 1e-12)
    assert closed_throughput(depth, MEAN, channels * more, variation) >= rate * (1 - 1e-12)
    assert closed_throughput(depth, MEAN, channels, 1.0) <= rate * (1 + 1e-12)
    assert closed_throughput(1.0, MEAN, channels, variation) == pytest.approx(1.0 / MEAN)


@given(depth=st.floats(1.5, 1e3), channels=st.floats(1.0, 1e3), variation=st.floats(0.0, 1.0))
def test_channels_from_a_rate_and_back(depth: float, channels: float, variation: float) -> None:
    rate = closed_throughput(depth, MEAN, channels, variation)
    found = channels_for(rate, depth, MEAN, variation)
    assert closed_throughput(depth, MEAN, found, variation) == pytest.approx(rate, rel=1e-9)
    if rate < channels / MEAN:
        assert found == pytest.approx(channels, rel=1e-6)


def test_no_finite_number_of_channels_beats_littles_law() -> None:
    assert channels_for(2e5, 2.0, MEAN, 0.5) == np.inf
    assert closed_throughput(2.0, MEAN, np.inf, 0.5) == pytest.approx(2e5)


@given(variation=st.floats(0.0, 1.0), low=st.floats(0.0, 0.99), high=st.floats(0.0, 0.99))
def test_latency_never_falls_with_load(variation: float, low: float, high: float) -> None:
    loads = np.sort([low, high]) * 8 / MEAN
    assert np.diff(open_wait(loads, MEAN, 8.0, variation))[0] >= 0
    percentile = open_percentile(loads, MEAN, 8.0, variation, 0.99)
    assert np.diff(percentile)[0] >= -1e-12
    assert np.all(percentile >= MEAN * (1.0 - variation))


def test_a_saturated_drive_never_answers() -> None:
    assert open_wait(8.1 / MEAN, MEAN, 8.0, 0.0) == np.inf
    assert open_percentile(9.0 / MEAN, MEAN, 8.0, 1.0, 0.5) == np.inf


def test_exponential_queue_has_an_exponential_answer() -> None:
    """M/M/1: S / (1 - rho) ln 100."""
    assert open_percentile(0.5 / MEAN, MEAN, 1.0, 1.0, 0.99) == pytest.approx(2 * MEAN * np.log(100.0))


MEASURED = {
    # most reads/s, at queue depth 1, 99th percentile and mean there, at queue depth 16
    "Intel P3700 800 GB": (460e3, 12.8e3, 96 / 77.9, 167.2e3),
    "Micron 9100 MAX 2.4 TB": (750e3, 9.2e3, 117 / 107.7, 135.7e3),
}
"""Reads/s of 4 KiB, specified (P3700: Tom's Hardware 36420; 9100: not checked) and measured (AnandTech 11209)."""


@pytest.mark.parametrize("name", MEASURED)
def test_queue_depth_16_of_measured_drives_from_queue_depth_1(name: str) -> None:
    most, alone, tail, measured = MEASURED[name]
    variation = (tail - 1.0) / (np.log(100.0) - 1.0)
    predicted = closed_throughput(16.0, 1.0 / alone, most / alone, variation)
    assert predicted == pytest.approx(measured, rel=0.03)
    assert closed_throughput(16.0, 1.0 / alone, most / alone, 1.0) < 0.93 * measured
