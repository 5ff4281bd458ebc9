"""Memories of a node: several equal ones, and several devices that share them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.memory.host_tier import HostTier, contended
from archmodel.memory.tier import MemoryTier

ONE = MemoryTier(capacity=1e12, bandwidth=2e9, write_bandwidth=1e9, latency=1e-5, outstanding=8.0)


def test_several_are_one_with_each_a_part() -> None:
    four = HostTier(memory=ONE, count=4)
    assert four.capacity == 4e12
    assert four.bandwidth == 8e9
    assert four.read_time(4e9, 4e6) == pytest.approx(ONE.read_time(1e9, 1e6))
    assert four.write_time(4e9, 4e6) == pytest.approx(ONE.write_time(1e9, 1e6))
    assert four.moved_bytes(1e6, 1e4) == ONE.moved_bytes(1e6, 1e4)
    assert np.isinf(four.lifetime_days(1e9))


def test_one_request_gains_nothing_from_more() -> None:
    assert HostTier(memory=ONE, count=64).read_time(4096.0, 1.0) == ONE.read_time(4096.0, 1.0)


@given(st.floats(0, 1e12), st.floats(1, 1e9), st.integers(1, 64))
def test_never_above_peak_nor_slower_with_more(bytes_: float, requests: float, count: int) -> None:
    tier = HostTier(memory=ONE, count=count)
    assert tier.read_time(bytes_, requests) >= bytes_ / float(tier.bandwidth) * (1 - 1e-12)
    assert tier.read_time(bytes_, requests) <= ONE.read_time(bytes_, requests) * (1 + 1e-12)


def test_channels_carry_whole_granules_of_their_own_at_their_own_peak() -> None:
    ddr = HostTier(memory=MemoryTier(capacity=1e12, bandwidth=100e9, write_bandwidth=50e9, access_granularity=64.0))
    assert ddr.channel_time(65e6, 1e6) == pytest.approx(128e6 / 100e9)
    assert ddr.channel_time(65e6, 1e6, write=True) == pytest.approx(128e6 / 50e9)
    assert HostTier(memory=ddr.memory, count=2).channel_time(64e6, 1e6) == pytest.approx(32e6 / 100e9)


@given(st.lists(st.floats(0, 1e6), min_size=4, max_size=4))
def test_a_shared_memory_serves_fairly(amounts: list[float]) -> None:
    """Two nodes of two devices against a simulation in small steps of equal shares."""
    served = contended(np.array(amounts), 2, every_rank=True)
    for node in (0, 2):
        own, other = amounts[node], amounts[node + 1]
        assert served[node] == pytest.approx(min(own, other) + own)
        assert max(served[node : node + 2]) == pytest.approx(own + other)


def test_alike_ranks_and_unknown_axes_are_multiplied() -> None:
    assert contended(np.array([3.0]), 8, every_rank=True).tolist() == [24.0]
    assert contended(np.array([1.0, 5.0, 2.0]), 2, every_rank=False).tolist() == [2.0, 10.0, 4.0]
