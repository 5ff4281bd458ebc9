"""Every registered kind of memory keeps the bounds and directions of random accesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from archmodel.components.base import dimensions
from archmodel.errors import ArchmodelError
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.nmp import RankNmp
from archmodel.memory.tier import MEMORIES, MemoryTier, TierError
from tests.memory.parts_of_memory import part

KINDS = sorted(MEMORIES.kinds())
RANGES = {
    "bytes": (1.0, 1e5),
    "bandwidth": (1e8, 1e13),
    "seconds": (1e-9, 1e-3),
    "request_rate": (1e3, 1e8),
    "ratio": (0.5, 1e4),
    "fraction": (0.0, 1.0),
    "watts": (1.0, 100.0),
    "joules_per_byte": (1e-12, 1e-10),
    "usd": (1.0, 1e4),
}
RESOURCES = {"outstanding", "queue_depth"}
"""Besides every bandwidth and rate of requests."""
SLACK = 1.0 + 1e-9
PARTS: dict[str, dict[str, Any]] = {
    "near_memory": {
        "channel": part(DramChannel, "ddr4_2400_recnmp"),
        "unit": part(RankNmp, "recnmp"),
        "channels": 1000,  # as fast as any bandwidth that is drawn
    }
}
"""Fields that are no amounts."""
PLAIN: dict[str, dict[str, Any]] = {
    "memory": {"capacity": 1e12, "bandwidth": 1e11, "latency": 1e-7, "access_granularity": 64.0, "outstanding": 10.0},
    "block": {
        "capacity": 1e12, "bandwidth": 2e9, "latency": 1e-4, "access_granularity": 4096.0, "read_iops": 4e5,
        "write_iops": 1e5, "write_bandwidth": 1e9, "queue_depth": 32.0,
    },
    "near_memory": {"capacity": 1e12, "bandwidth": 1e11, "latency": 1e-7, **PARTS["near_memory"]},
}  # fmt: skip
TIERS = {kind: MEMORIES.resolve(kind).model_validate(values) for kind, values in PLAIN.items()}


def resources(kind: str) -> list[str]:
    found = dimensions(MEMORIES.resolve(kind)).items()
    return sorted(name for name, dim in found if dim in ("bandwidth", "request_rate") or name in RESOURCES)


@st.composite
def tiers(draw: st.DrawFn, kind: str) -> MemoryTier:
    cls = MEMORIES.resolve(kind)
    values: dict[str, Any] = dict(PARTS.get(kind, {}))
    for name, dim in dimensions(cls).items():
        if dim is not None and (cls.model_fields[name].is_required() or draw(st.booleans())):
            low, high = RANGES[dim]
            values[name] = draw(st.floats(low, high))
    return cls.model_validate(values)


ROW = st.floats(0.01, 1e5)
COUNT = st.one_of(st.integers(0, 10**7).map(float), st.floats(0.0, 1e7))
EVERY = pytest.mark.parametrize("kind", KINDS)
TIMES = ("read_time", "write_time")


def test_all_kinds_are_here_and_the_plain_one_needs_no_name() -> None:
    assert {"block", "memory", "near_memory"} <= set(KINDS)
    assert MemoryTier.model_validate({"capacity": 1.0, "bandwidth": 1.0}).kind == "memory"


@EVERY
@given(data=st.data(), row=ROW, count=COUNT)
def test_nothing_beats_its_peak(kind: str, data: st.DataObject, row: float, count: float) -> None:
    tier = data.draw(tiers(kind))
    size = row * count
    moved = tier.moved_bytes(size, count)
    assert moved >= size
    assert tier.amplification(size, count) >= 1.0
    for write, name in enumerate(TIMES):
        time = getattr(tier, name)(size, count)
        assert time * SLACK >= moved / (tier.peak_write_bandwidth if write else tier.peak_read_bandwidth)
        assert time * SLACK >= min(count, 1.0) * tier.access_latency(bool(write))
        if kind == "block":
            assert time * SLACK >= count / tier.peak_iops(bool(write)) * (count > 1)
            assert tier.request_rate(count + 1.0, bool(write)) <= tier.peak_iops(bool(write)) * SLACK
        if np.isfinite(tier.in_flight):
            floor = count * tier.access_latency(bool(write)) / max(tier.in_flight, 1.0)
            assert time * SLACK >= floor


@EVERY
@given(data=st.data(), row=ROW, count=COUNT, more=st.floats(1.0, 100.0))
@settings(max_examples=200)
def test_more_of_a_resource_is_never_slower(
    kind: str, data: st.DataObject, row: float, count: float, more: float
) -> None:
    tier = data.draw(tiers(kind))
    name = data.draw(st.sampled_from(resources(kind)))
    value = getattr(tier, name)
    if value is None:
        return
    better = tier.model_copy(update={name: value * more})
    for time in TIMES:
        assert getattr(better, time)(row * count, count) <= getattr(tier, time)(row * count, count) * SLACK


@EVERY
@given(data=st.data(), row=ROW, count=COUNT, less=st.floats(0.01, 1.0))
def test_less_latency_is_never_slower(kind: str, data: st.DataObject, row: float, count: float, less: float) -> None:
    tier = data.draw(tiers(kind))
    quick = {name: getattr(tier, name) for name in ("latency", "write_latency", "link_latency")}
    better = tier.model_copy(update={name: value and value * less for name, value in quick.items()})
    for time in TIMES:
        assert getattr(better, time)(row * count, count) <= getattr(tier, time)(row * count, count) * SLACK


@EVERY
@given(data=st.data(), row=ROW, count=COUNT, more=st.floats(1.0, 100.0))
def test_more_work_is_never_faster(kind: str, data: st.DataObject, row: float, count: float, more: float) -> None:
    tier = data.draw(tiers(kind))
    for time in (getattr(tier, name) for name in TIMES):
        base = time(row * count, count)
        assert time(row * more * count, count) * SLACK >= base
        assert time(row * count * more, count * more) * SLACK >= base
        assert time(0.0, count) == 0.0
        assert time(0.0, 0.0) == 0.0


@EVERY
@given(data=st.data(), rows=st.lists(ROW, min_size=1, max_size=4), counts=st.lists(COUNT, min_size=1, max_size=3))
def test_arrays_are_scalars_side_by_side(
    kind: str, data: st.DataObject, rows: list[float], counts: list[float]
) -> None:
    tier = data.draw(tiers(kind))
    count = np.array(counts)[:, None]
    size = np.array(rows) * count
    for name in ("moved_bytes", "amplification", "read_time", "write_time", "update_time"):
        law = getattr(tier, name)
        found = law(size, count)
        assert found.shape == size.shape
        alone = [[law(float(size[i, j]), counts[i]) for j in range(len(rows))] for i in range(len(counts))]
        assert all(type(one) is float for line in alone for one in line)
        assert np.array_equal(found, alone)


@EVERY
@given(data=st.data(), factor=st.floats(1.0, 10.0))
def test_over_design_points(kind: str, data: st.DataObject, factor: float) -> None:
    tier = data.draw(tiers(kind))
    for name in resources(kind):
        value = getattr(tier, name)
        if value is None:
            continue
        points = tier.model_copy(update={name: np.array([value, value * factor])})
        alone = [tier.model_copy(update={name: value * by}).read_time(1e6, 1e3) for by in (1.0, factor)]
        assert np.allclose(points.read_time(1e6, 1e3), alone, rtol=1e-12)


@given(
    row=st.integers(1, 10_000), granularity=st.sampled_from([32, 64, 100, 256, 512, 4096]), count=st.integers(1, 10**9)
)
def test_whole_granules_as_counted_by_hand(row: int, granularity: int, count: int) -> None:
    tier = MemoryTier.model_validate({"capacity": 1.0, "bandwidth": 1.0, "access_granularity": float(granularity)})
    assert tier.moved_bytes(float(row * count), float(count)) == -(-row // granularity) * granularity * count


@given(count=st.floats(1e-6, 1e9), rows=st.integers(1, 64))
def test_expected_misses_round_no_row_up(count: float, rows: int) -> None:
    """Fractions of requests: bytes / requests is a row up to rounding, and moves the row's granules."""
    tier = MemoryTier.model_validate({"capacity": 1.0, "bandwidth": 1.0, "access_granularity": 64.0})
    assert tier.moved_bytes(count * 64 * rows, count) == pytest.approx(count * 64 * rows, rel=1e-9)


# --- refused ------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, np.array([1.0, -1.0]), np.array([np.nan])])
def test_amounts_that_are_none(kind: str, bad: Any) -> None:
    tier = TIERS[kind]
    for law in (tier.moved_bytes, tier.read_time, tier.write_time, tier.update_time, tier.amplification):
        with pytest.raises(TierError, match=r"negative|finite"):
            law(bad, 1.0)
        with pytest.raises(TierError, match=r"negative|finite"):
            law(1.0, bad)
    with pytest.raises(TierError, match=r"negative|finite"):
        tier.lifetime(bad)


@EVERY
def test_values_that_are_no_numbers_and_shapes_that_do_not_match(kind: str) -> None:
    with pytest.raises(TierError, match="not a number"):
        TIERS[kind].read_time("64 B", 1.0)
    with pytest.raises(TierError, match="not a number"):
        TIERS[kind].read_time([[1.0], [1.0, 2.0]], 1.0)
    with pytest.raises(TierError, match="do not match"):
        TIERS[kind].read_time(np.ones(3), np.ones(2))


@EVERY
def test_bytes_without_requests(kind: str) -> None:
    with pytest.raises(TierError, match="bytes without requests"):
        TIERS[kind].read_time(np.array([0.0, 64.0]), 0.0)
    with pytest.raises(ArchmodelError, match="queue of more than 0"):
        TIERS[kind].request_rate(0.0)


@EVERY
@pytest.mark.parametrize("field", ["capacity", "bandwidth", "access_granularity", "outstanding", "link_bandwidth"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, np.array([1.0, 0.0]), "64 FLOP", None, "fast"])
def test_fields_that_are_no_amounts(kind: str, field: str, value: Any) -> None:
    optional = field in ("outstanding", "link_bandwidth")
    if value is None and optional:
        value = 0.0
    with pytest.raises(ValidationError):
        type(TIERS[kind]).model_validate({**PLAIN[kind], field: value})


@pytest.mark.parametrize("field", ["queue_depth", "rated_queue_depth", "read_iops", "write_iops", "latency"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_a_drive_needs_depth_rate_and_latency(field: str, value: float) -> None:
    with pytest.raises(ValidationError):
        type(TIERS["block"]).model_validate({**PLAIN["block"], field: value})
