"""What each kind of memory says, by hand and against published figures; endurance and power."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import ValidationError

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.errors import DesignError
from archmodel.memory.block import BlockTier
from archmodel.memory.endurance import DAY, Endurance
from archmodel.memory.tier import MEMORIES, MemoryTier, TierError

GB = 1e9


class Shelf(Component):
    """A memory of any kind, as a file holds it."""

    tier: Annotated[MemoryTier, MEMORIES.field(default="memory")]


def read(name: str) -> Any:
    tree = source.read(catalogue.find(f"memories/{name}.yaml"), catalogue=catalogue.directory())
    return source.validate(MEMORIES.resolve(tree["kind"]), tree)


def memory(**fields: Any) -> MemoryTier:
    return MemoryTier.model_validate({"capacity": 1e12, "bandwidth": 100e9, "access_granularity": 64.0, **fields})


def drive(**fields: Any) -> BlockTier:
    plain = {"capacity": 1e12, "bandwidth": 2e9, "latency": 100e-6, "access_granularity": 4096.0, "read_iops": 4e5}
    return BlockTier.model_validate({**plain, "queue_depth": 32.0, **fields})


# --- byte-addressable ---------------------------------------------------------------------------------------


def test_bandwidth_or_latency_bounds_it() -> None:
    """A million rows of 128 B: 1.28 ms of 100 GB/s; with 10 in flight at 100 ns, 10 ms."""
    assert memory().read_time(128e6, 1e6) == pytest.approx(1.28e-3)
    assert memory(latency=100e-9, outstanding=10.0).read_time(128e6, 1e6) == pytest.approx(10e-3)


def test_one_access_takes_its_latency_and_a_fraction_its_share() -> None:
    tier = memory(latency=100e-9, outstanding=10.0)
    assert tier.read_time(64.0, 1.0) == pytest.approx(100e-9)
    assert tier.read_time(640.0, 10.0) == pytest.approx(100e-9)
    assert tier.read_time(32.0, 0.5) == pytest.approx(50e-9)


def test_writes_have_their_own_figures() -> None:
    tier = memory(write_bandwidth=25e9, latency=100e-9, write_latency=400e-9, outstanding=10.0)
    assert tier.write_time(64e6, 1e6) == pytest.approx(40e-3)
    assert tier.write_time(6400e6, 1e6) == pytest.approx(6400e6 / 25e9)
    assert tier.update_time(64e6, 1e6) == tier.read_time(64e6, 1e6) + tier.write_time(64e6, 1e6)


def test_a_link_bounds_bandwidth_and_adds_latency() -> None:
    tier = memory(latency=100e-9, outstanding=10.0, link_bandwidth=32e9, link_latency=140e-9)
    assert tier.access_latency() == pytest.approx(240e-9)
    assert tier.read_time(64.0, 1.0) == pytest.approx(240e-9)
    assert tier.peak_read_bandwidth == tier.peak_write_bandwidth == 32e9
    assert tier.read_time(64e9, 1e6) == pytest.approx(2.0)


def test_persistent_memory_moves_256_bytes() -> None:
    """Random reads of 64 B reach a quarter of what 256 B do, as arXiv 1903.05714 reports for its modules."""
    tier = read("optane_pmm_6x256gb")
    small, whole = 64e9 / tier.read_time(64e9, 1e9), 256e9 / tier.read_time(256e9, 1e9)
    assert whole == pytest.approx(39.4 * GB)
    assert whole / small == pytest.approx(4.0)
    assert 256e9 / tier.write_time(256e9, 1e9) == pytest.approx(13.9 * GB)


# --- drives -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "rate"), [(1, 1e4), (8, 8e4), (40, 4e5), (400, 4e5)])
def test_littles_law(depth: float, rate: float) -> None:
    tier = drive(queue_depth=1e3)
    assert tier.ideal_request_rate(depth) == pytest.approx(rate)
    assert tier.request_rate(depth) <= rate * (1 + 1e-12)


def test_bandwidth_bounds_large_blocks() -> None:
    tier = drive(bandwidth=0.4e9)
    assert tier.ideal_request_rate(32.0) == pytest.approx(0.4e9 / 4096)
    assert tier.read_time(4096e6, 1e6) == pytest.approx(4096e6 / 0.4e9)


def test_queue_depth_is_the_drives_not_the_callers() -> None:
    tier = drive()
    assert tier.request_rate(1e6) == tier.request_rate(32.0)


def test_a_row_longer_than_a_block_takes_several() -> None:
    tier = drive(bandwidth=1e8)
    assert tier.moved_bytes(5000e3, 1e3) == 8192e3
    assert tier.read_time(5000e3, 1e3) == pytest.approx(8192e3 / 1e8)


def test_the_rated_rate_is_reached_at_the_rated_depth() -> None:
    tier = drive(rated_queue_depth=128.0, queue_depth=512.0)
    assert tier.request_rate(128.0) == pytest.approx(4e5)
    assert tier.request_rate(127.0) < 4e5
    assert tier.request_rate(512.0) == pytest.approx(4e5)


def test_a_rated_depth_that_little_forbids_means_that_no_read_waits() -> None:
    tier = drive(rated_queue_depth=16.0, queue_depth=64.0)
    assert tier.channels() == np.inf
    assert tier.request_rate(16.0) == pytest.approx(16 / 100e-6)


def test_latency_by_depth_and_by_load() -> None:
    tier = drive(service_variation=1.0)
    assert tier.latency_at_depth(1.0) == pytest.approx(100e-6)
    assert tier.latency_at_depth(32.0) == pytest.approx(32.0 / tier.request_rate(32.0))
    assert tier.mean_latency(0.0) == pytest.approx(100e-6)
    assert tier.mean_latency(2e5) == pytest.approx(200e-6)
    assert tier.latency_percentile(2e5) == pytest.approx(200e-6 * np.log(100.0))
    assert np.array_equal(tier.mean_latency(np.array([4e5, 5e5])), [np.inf, np.inf])
    assert tier.latency_percentile(4e5) == np.inf


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_loads_that_are_none(bad: float) -> None:
    with pytest.raises(TierError):
        drive().mean_latency(bad)
    with pytest.raises(TierError):
        drive().latency_percentile(bad)
    with pytest.raises(TierError):
        drive().latency_percentile(1.0, share=bad)


def test_p4800x_as_measured() -> None:
    """108.3 kIOPS at queue depth 1 went in; 584.8 at depth 16 are 6 % above the 550 specified, which bound us."""
    tier = read("optane_p4800x")
    assert tier.request_rate(1.0) == pytest.approx(108.3e3, rel=1e-3)
    assert tier.request_rate(16.0) == pytest.approx(584.8e3, rel=0.065)
    assert tier.latency_at_depth(16.0) == pytest.approx(25.5e-6, rel=0.15)
    assert 5 < tier.channels() < 8


@pytest.mark.parametrize("name", ["optane_p4800x", "optane_p5800x"])
def test_small_blocks_are_worth_it_for_rows(name: str) -> None:
    rows = 128e6
    whole, small = read(name), read(f"{name}_512b")
    assert whole.amplification(rows, 1e6) == 32.0
    assert small.amplification(rows, 1e6) == 4.0
    assert small.read_time(rows, 1e6) <= whole.read_time(rows, 1e6)


# --- wear and power -----------------------------------------------------------------------------------------


def test_lifetime_by_drive_writes_a_day() -> None:
    """At the rated 30 writes of 375 GB a day a P4800X lasts its 5 years."""
    tier = read("optane_p4800x")
    assert tier.lifetime_days(30 * 375 * GB / DAY) == pytest.approx(5 * 365)
    assert tier.lifetime(0.0) == np.inf
    assert np.allclose(tier.lifetime_days(np.array([1e8, 2e8])), tier.lifetime_days(1e8) / np.array([1, 2]))


def test_lifetime_by_bytes_written() -> None:
    tier = read("optane_pmm_6x256gb")
    assert tier.lifetime(13.9 * GB) == pytest.approx(2160e15 / 13.9e9)
    assert memory().lifetime(1e9) == np.inf


def test_write_amplification_shortens_life() -> None:
    rated = {"drive_writes_per_day": 1.0, "warranty": 5 * 365 * DAY}
    once = drive(endurance=rated)
    thrice = drive(endurance={**rated, "write_amplification": 3.0})
    assert once.lifetime(1e8) == pytest.approx(3 * thrice.lifetime(1e8))


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"drive_writes_per_day": 1.0}, {"warranty": 1.0}, {"written": 1.0, "warranty": 1.0}, {"written": 0.0},
        {"written": 1.0, "drive_writes_per_day": 1.0, "warranty": 1.0}, {"written": -1.0},
        {"written": 1.0, "write_amplification": 0.0}, {"drive_writes_per_day": np.nan, "warranty": 1.0},
    ],
)  # fmt: skip
def test_one_rating_of_endurance(fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Endurance.model_validate(fields)


def test_power_between_idle_and_active() -> None:
    tier = memory(idle_power=5.0, active_power=13.0)
    assert tier.power(0.0) == 5.0
    assert tier.power(np.array([0.5, 1.0])).tolist() == [9.0, 13.0]
    for bad in (1.1, -0.1, np.nan):
        with pytest.raises(TierError):
            tier.power(bad)
    with pytest.raises(TierError, match="idle_power"):
        memory().power(0.5)


# --- files --------------------------------------------------------------------------------------------------


def test_a_file_without_a_kind_is_a_plain_memory(tmp_path: Any) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("source: s\ntier: {capacity: 80 GB, bandwidth: 2 TB/s}\n")
    tier = source.validate(Shelf, source.read(file)).tier
    assert type(tier) is MemoryTier
    assert tier.capacity == 80e9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("read_iops: 550", "no unit"),
        ("read_iops: 550 kIOPS", "IO/s"),
        ("read_iops: 0 kIO/s", "zero"),
        ("queue_depth: 0", "zero"),
        ("access_granularity: 0 B", "zero"),
        ("latency: -1 us", "negative"),
        ("bandwidth: 2 GB", "amount of data"),
        ("service_variation: 1.5", "above 1"),
        ("kind: tape", "block"),
        ("iops: 5 kIO/s", "read_iops"),
        ("endurance: {written: 1 PB, warranty: 5 year}", "drive_writes_per_day"),
    ],
)
def test_a_bad_drive_says_where(tmp_path: Any, line: str, message: str) -> None:
    plain = {
        "kind": "block", "capacity": "1 TB", "bandwidth": "2 GB/s", "access_granularity": "4 KiB", "latency": "80 us",
        "read_iops": "400 kIO/s", "queue_depth": "32",
    }  # fmt: skip
    field, _, value = line.partition(": ")
    text = "".join(f"  {name}: {said}\n" for name, said in {**plain, field: value}.items())
    file = tmp_path / "x.yaml"
    file.write_text(f"source: s\ntier:\n{text}")
    with pytest.raises(DesignError, match=message) as caught:
        source.validate(Shelf, source.read(file))
    assert f"x.yaml:{3 + list({**plain, field: value}).index(field)}" in str(caught.value)
