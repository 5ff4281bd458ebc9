"""Near-memory units: laws against brute force, rules that every kind keeps, and the simulator against the formula."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from archmodel.memory.access import Uniform, Zipf
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.nmp import ColumnNmp, DimmNmp, HostGather, PooledLookups, RankNmp, most_loaded
from archmodel.memory.nmp.instruction import command_share, ranks_fed
from archmodel.memory.nmp.locality import reused_share
from archmodel.memory.nmp.simulate import simulate_packets
from archmodel.memory.nmp.unit import host_energy, host_time
from tests.memory.parts_of_memory import changed, part

CHANNEL = part(DramChannel, "ddr4_2400_recnmp")
RECNMP = part(RankNmp, "recnmp")
BASE = part(RankNmp, "recnmp_base")
UNITS = {
    "recnmp": RECNMP,
    "recnmp_base": BASE,
    "coloured": changed(BASE, page_colouring=True),
    "tensordimm": part(ColumnNmp, "tensordimm"),
    "chameleon_like": part(DimmNmp, "chameleon_like"),
}
EVERY = pytest.mark.parametrize("name", UNITS)
WORK = PooledLookups(poolings=256, pooling_factor=80, elements=32)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("lookups", [16, 80, 640])
def test_the_busiest_rank_is_as_busy_as_in_drawn_loads(ranks: int, lookups: int) -> None:
    drawn = np.random.default_rng(0).multinomial(lookups, [1 / ranks] * ranks, size=20_000).max(axis=1).mean()
    assert float(most_loaded(lookups, ranks)) == pytest.approx(drawn, rel=0.015)


def test_the_busiest_of_few_lookups_has_no_more_than_all() -> None:
    assert most_loaded(np.array([0.0, 1.0]), 8).tolist() == [0.0, 1.0]


@EVERY
def test_parts_sum_and_nothing_beats_its_bound(name: str) -> None:
    unit = UNITS[name]
    cost = unit.serve(WORK, CHANNEL, hit_rate=0.3)
    assert float(cost.time.total) == pytest.approx(sum(float(np.max(part)) for part in cost.time.parts.values()))
    assert all(np.min(part) >= 0 for part in cost.time.parts.values())
    lanes = unit.lanes * CHANNEL.peak_bandwidth
    assert float(cost.time.total) >= float(np.max(cost.counts.dram_bytes)) / lanes
    assert min(float(np.min(joules)) for joules in cost.energy.values()) >= 0


@EVERY
def test_twice_the_poolings_take_twice_as_long(name: str) -> None:
    unit = UNITS[name]
    once, twice = (float(unit.serve(changed_work(poolings=p), CHANNEL).time.total) for p in (256, 512))
    assert twice == pytest.approx(2 * once, rel=2e-3)


def changed_work(**fields: float) -> PooledLookups:
    return PooledLookups(**({"poolings": 256, "pooling_factor": 80, "elements": 32} | fields))


@EVERY
def test_more_dimms_are_never_slower_and_never_more_than_in_proportion(name: str) -> None:
    times = [
        float(changed(UNITS[name], dimms=d).serve(changed_work(elements=128), CHANNEL).time.total) for d in (1, 2, 4)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[2] <= 4.0 * 1.01


def test_hits_save_time_and_energy_and_a_unit_without_cache_has_none() -> None:
    costs = [RECNMP.serve(WORK, CHANNEL, hit_rate=h, cached_share=1.0) for h in (0.0, 0.3, 0.9, 1.0)]
    times, joules = [float(c.time.total) for c in costs], [float(np.max(c.total_energy)) for c in costs]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(times))
    assert joules == sorted(joules, reverse=True)
    assert costs[-1].counts.dram_bytes == 0
    assert float(BASE.serve(WORK, CHANNEL, hit_rate=0.9).counts.cache_hits) == 0


def test_a_hit_rate_may_be_a_function_of_the_capacity() -> None:
    seen = []

    def rate(capacity: float) -> float:
        seen.append(capacity)
        return 0.5

    given = RECNMP.serve(WORK, CHANNEL, hit_rate=rate).time.total
    assert seen == [128 * 1024]
    assert given == RECNMP.serve(WORK, CHANNEL, hit_rate=0.5).time.total


def test_poolings_of_a_packet_are_bounded_by_its_tags() -> None:
    assert RECNMP.instruction.bits == 79
    assert RECNMP.instruction.tags == 16
    assert changed(RECNMP, poolings_per_packet=100).packet == 16


def test_commands_of_64_bytes_fill_three_quarters_of_the_bus_and_instructions_feed_eight_ranks() -> None:
    assert float(command_share(CHANNEL)) == 0.75
    assert float(ranks_fed(CHANNEL, RECNMP.instruction)) == 8.0
    assert float(command_share(CHANNEL, 4.0)) == 6 / 16
    assert float(ranks_fed(CHANNEL, RECNMP.instruction, 16.0)) == 64.0  # two instructions of eight bursts


def test_instructions_bound_more_ranks_than_they_feed() -> None:
    many = changed(BASE, dimms=32, poolings_per_packet=16)
    parts = many.serve(changed_work(elements=16), CHANNEL).time.parts
    assert float(parts["dispatch"]) > float(parts["dram"])


def test_column_split_loads_are_even_and_short_rows_waste_bursts() -> None:
    unit = UNITS["tensordimm"]
    for elements in (16, 128):
        moved = float(unit.serve(changed_work(elements=elements), CHANNEL).counts.dram_bytes)
        assert moved == 256 * 80 * 8 * 64  # a burst of each of eight ranks, whether the row has 64 or 512 bytes
    assert float(unit.lane_rows(640.0)) == 640.0


def test_a_larger_cache_answers_no_sooner() -> None:
    cycles = RECNMP.cache.cycles(np.array([8.0, 128.0, 512.0, 2048.0]) * 1024)
    assert cycles.tolist() == pytest.approx([1, 1, 2, 4])


def test_the_reused_share_lies_between_the_ideal_hit_rate_and_twice_it() -> None:
    rng = np.random.default_rng(1)
    rows, draws = 20_000, 5_000
    for access in (Uniform(), Zipf(alpha=0.9), Zipf(alpha=1.2)):
        share = float(reused_share(access, np.array(rows), np.array(draws)))
        ideal = 1 - float(access.expected_unique(np.array(float(rows)), np.array(float(draws)))) / draws
        assert ideal <= share <= min(1.0, 2 * ideal)
        ids = access.sample(rows, draws, rng)
        counts = np.bincount(ids, minlength=rows)
        assert share == pytest.approx(counts[counts > 1].sum() / draws, abs=0.02)


def test_energy_of_a_row_without_cache() -> None:
    """64 B: 2.1 nJ + 512 bit x 14 pJ in the chips; the host pays 512 bit x 22 pJ more, the unit 79 bit and a share of
    the sum."""
    work = PooledLookups(1, 80, 16)
    host = sum(float(v) for v in host_energy(work, CHANNEL).values())
    assert host == pytest.approx(80 * (2.1e-9 + 512 * 36e-12))
    used = BASE.serve(work, CHANNEL).energy
    assert float(used["activate"] + used["read"]) == pytest.approx(80 * (2.1e-9 + 512 * 14e-12))
    assert float(used["instructions"]) == pytest.approx(80 * 79 * 22e-12)
    assert float(used["output"]) == pytest.approx(512 * 22e-12)


def test_a_channel_without_energies_gives_none() -> None:
    assert BASE.serve(WORK, part(DramChannel, "ddr4_2400_8gb_x8")).energy == {}


def test_rows_in_8_bits_move_fewer_bytes_and_cost_a_multiplication() -> None:
    plain, small = changed_work(elements=64), changed_work(elements=64, element_bytes=1, row_overhead=8)
    full, packed = (BASE.counts(work, CHANNEL) for work in (plain, small))
    assert packed.dram_bytes == full.dram_bytes / 2  # 72 B are two bursts, 256 B four
    assert packed.multiplies == 256 * 80 * 64
    assert full.multiplies == 0


def test_threads_share_a_bandwidth_that_saturates() -> None:
    host = part(HostGather, "skylake_gather")
    found = host.bandwidth(np.arange(1.0, 200.0))
    assert (np.diff(found) > 0).all()
    assert found[-1] < host.saturated
    assert float(host.bandwidth(1)) == pytest.approx(host.per_thread, rel=0.06)


def test_the_law_broadcasts_over_pooling_factors_and_hit_rates() -> None:
    work = PooledLookups(256, np.array([20.0, 80.0]), 32)
    cost = RECNMP.serve(work, CHANNEL, hit_rate=np.array([[0.1], [0.4]]))
    assert np.shape(cost.time.total) == (2, 2)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_long_packets_with_enough_registers_are_as_the_formula_says(ranks: int) -> None:
    unit = changed(BASE, dimms=ranks // 2, poolings_per_packet=8)
    formula = float(host_time(WORK, CHANNEL) / unit.serve(WORK, CHANNEL).time.total)
    assert simulate_packets(unit, CHANNEL, WORK).speedup == pytest.approx(formula, rel=0.10)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_formula_is_optimistic_for_random_ranks_with_few_registers(ranks: int) -> None:
    """The rank-load term alone, which knows no registers; the first instruction for a full rank holds up the others."""
    unit = changed(BASE, dimms=ranks // 2, poolings_per_packet=8)
    formula = 640 / float(most_loaded(640, ranks))
    found = [simulate_packets(unit, CHANNEL, WORK, registers=depth).speedup for depth in (2, 4, 8, 16)]
    assert found == sorted(found)
    assert found[0] < 0.4 * formula
    assert found[1] < 0.65 * formula


def test_it_is_optimistic_for_short_packets_whatever_the_registers() -> None:
    unit = changed(BASE, poolings_per_packet=1)
    formula = float(host_time(WORK, CHANNEL) / unit.serve(WORK, CHANNEL).time.total)
    run = simulate_packets(unit, CHANNEL, WORK, registers=256)
    assert 0.7 * formula < run.speedup < 0.85 * formula
    assert run.busiest_rows / 256 == pytest.approx(float(most_loaded(80, 8)), rel=0.03)


def test_colours_and_no_barrier_are_faster_and_staggered_refresh_slower() -> None:
    unit = changed(BASE, poolings_per_packet=1)
    plain = simulate_packets(unit, CHANNEL, WORK).speedup
    assert simulate_packets(unit, CHANNEL, WORK, barrier=False).speedup > plain
    assert simulate_packets(changed(unit, page_colouring=True), CHANNEL, WORK).speedup > 2 * plain
    assert simulate_packets(unit, CHANNEL, WORK, staggered=True).speedup < 0.8 * plain
