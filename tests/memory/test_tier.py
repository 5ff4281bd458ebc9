"""Memory tiers."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.memory.tier import MemoryTier


def tier(**fields: object) -> MemoryTier:
    return MemoryTier.model_validate({"capacity": 1e9, "bandwidth": 100e9, **fields})


def test_reads_and_writes_share_one_bandwidth_unless_told_apart() -> None:
    assert tier().update_bandwidth == 100e9
    assert tier(write_bandwidth=100e9).update_bandwidth == pytest.approx(100e9)


def test_slow_writes_slow_an_update() -> None:
    """Of 2 GB, 1 GB is read at 100 GB/s and 1 GB written at 25: 50 ms."""
    assert 2e9 / tier(write_bandwidth=25e9).update_bandwidth == pytest.approx(1e9 / 100e9 + 1e9 / 25e9)


def test_over_design_points() -> None:
    rates = np.array([[25e9], [100e9]])
    assert np.allclose(tier(write_bandwidth=rates).update_bandwidth, [[40e9], [100e9]])


@pytest.mark.parametrize("field", ["capacity", "bandwidth", "write_bandwidth", "access_granularity"])
def test_nothing_of_a_memory_may_be_zero(field: str) -> None:
    with pytest.raises(ValueError, match="zero"):
        tier(**{field: 0.0})
