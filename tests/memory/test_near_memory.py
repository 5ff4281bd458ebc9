"""The tier whose memory sums rows: the law of its units over its channels, its bounds, and what a file may say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel import catalogue, source
from archmodel.errors import DesignError
from archmodel.memory.nmp import PooledLookups
from archmodel.memory.nmp.tier import NearMemoryTier
from archmodel.memory.tier import MemoryTier, TierError

FILE = "memories/recnmp_4x4x2.yaml"


def tier(**changes: Any) -> NearMemoryTier:
    tree = source.read(catalogue.find(FILE), catalogue=catalogue.directory())
    return source.validate(NearMemoryTier, tree).model_copy(update=changes)


RECNMP = tier()


def amounts(sums: float, pooling: float, row: float = 128.0) -> tuple[float, float, float, float]:
    """Bytes of rows, rows, sums, bytes of sums of fp32 rows and sums."""
    return sums * pooling * row, sums * pooling, sums, sums * row


@pytest.mark.parametrize(("sums", "pooling", "row"), [(256.0, 80.0, 128.0), (64.0, 20.0, 64.0), (8.0, 40.0, 256.0)])
@pytest.mark.parametrize("hits", [0.0, 0.4])
def test_every_channel_serves_its_part(sums: float, pooling: float, row: float, hits: float) -> None:
    part = PooledLookups(sums / 4, pooling, row / 4)
    cost = RECNMP.unit.serve(part, RECNMP.channel, hit_rate=hits)
    found = tier(hit_rate=hits)
    assert found.sum_time(*amounts(sums, pooling, row)) == pytest.approx(float(cost.time.total), rel=1e-12)
    assert found.sum_energy(*amounts(sums, pooling, row)) == pytest.approx(4 * float(cost.total_energy), rel=1e-12)


def test_rows_in_eight_bits_are_shorter_than_their_sums() -> None:
    """32 numbers of one byte with scale and bias, summed in fp32."""
    part = PooledLookups(64.0, 80.0, 32.0, element_bytes=1.0, row_overhead=8.0)
    cost = RECNMP.unit.serve(part, RECNMP.channel)
    assert RECNMP.sum_time(256 * 80 * 40.0, 256 * 80.0, 256.0, 256 * 128.0) == pytest.approx(float(cost.time.total))


def test_arrays_give_what_scalars_give() -> None:
    sums = np.array([0.0, 1.0, 64.0, 4096.0])
    together = RECNMP.sum_time(*amounts(sums, 80.0))  # type: ignore[arg-type]
    assert together.tolist() == [RECNMP.sum_time(*amounts(float(s), 80.0)) for s in sums]  # type: ignore[union-attr]
    assert together[0] == 0.0  # type: ignore[index]


@given(
    st.floats(1.0, 1e5),
    st.floats(1.0, 200.0),
    st.sampled_from([64.0, 128.0, 256.0]),
    st.integers(1, 4),
    st.sampled_from([1, 2, 4]),
)
def test_no_sum_beats_its_ranks_or_its_wires(
    sums: float, pooling: float, row: float, dimms: int, channels: int
) -> None:
    unit = RECNMP.unit.model_copy(update={"dimms": dimms, "cache": None})
    one = tier(unit=unit, channels=channels)
    peak = float(one.channel.peak_bandwidth)
    rows, _, _, out = amounts(sums, pooling, row)
    assert one.sum_time(*amounts(sums, pooling, row)) >= max(
        rows / (unit.ranks * channels * peak), out / (channels * peak)
    ) * (1 - 1e-12)


@given(st.floats(1.0, 1e5), st.floats(1.0, 200.0))
def test_more_of_anything_is_never_slower(sums: float, pooling: float) -> None:
    before = RECNMP.sum_time(*amounts(sums, pooling)) * (1 + 1e-12)
    timing = RECNMP.channel.timing.model_copy(update={"clock": 1.6e9})
    assert (
        tier(channel=RECNMP.channel.model_copy(update={"timing": timing})).sum_time(*amounts(sums, pooling)) <= before
    )
    assert tier(hit_rate=0.5).sum_time(*amounts(sums, pooling)) <= before
    assert RECNMP.sum_time(*amounts(sums, pooling + 1.0)) >= RECNMP.sum_time(*amounts(sums, pooling)) * (1 - 1e-12)


def test_plain_reads_are_those_of_the_channels() -> None:
    plain = MemoryTier(capacity=1e12, bandwidth=RECNMP.bandwidth, latency=90e-9, access_granularity=64.0)
    assert RECNMP.read_time(1e9, 1e6) == plain.read_time(1e9, 1e6)
    assert RECNMP.sums_rows
    assert not plain.sums_rows


def test_what_cannot_be_summed_is_named() -> None:
    with pytest.raises(TierError, match="have bytes, and a sum"):
        RECNMP.sum_time(1280.0, 10.0, 0.0, 0.0)
    with pytest.raises(TierError, match="negative"):
        RECNMP.sum_time(1280.0, 10.0, -1.0, 128.0)
    with pytest.raises(TierError, match="sums no rows; one of kind near_memory does"):
        MemoryTier(capacity=1e12, bandwidth=1e9).sum_time(*amounts(1.0, 10.0))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("bandwidth", "614.4 GB/s", "more than the 76.8 GB/s of 4 such channels"),
        ("hit_rate", 1.5, "is above 1"),
        ("channels", 0, "channels"),
        ("unit", {"kind": "rank_npm"}, "rank_nmp"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(field: str, value: object, message: str) -> None:
    tree = source.read(catalogue.find(FILE), catalogue=catalogue.directory())
    tree[field] = value
    with pytest.raises(DesignError, match=message):
        source.validate(NearMemoryTier, tree)
