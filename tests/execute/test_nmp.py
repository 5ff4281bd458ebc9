"""Near-memory units run for real: sums against plain ones, counts against the model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from archmodel.execute.errors import ExecutionError
from archmodel.execute.nmp import Bag, PlainRows, QuantisedRows, by_table, hot_rows, lane_of, run_lookups
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.nmp import ColumnNmp, DimmNmp, PooledLookups, RankNmp
from tests.memory.parts_of_memory import changed, part

CHANNEL = part(DramChannel, "ddr4_2400_recnmp")
RECNMP = part(RankNmp, "recnmp")
UNITS = {
    "recnmp": RECNMP,
    "recnmp_base": part(RankNmp, "recnmp_base"),
    "coloured": changed(RECNMP, page_colouring=True),
    "tensordimm": part(ColumnNmp, "tensordimm"),
    "chameleon_like": part(DimmNmp, "chameleon_like"),
}
EVERY = pytest.mark.parametrize("name", UNITS)
ROWS, TABLES, POOLING = 300, 3, 20


def tables(elements: int = 32) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=(ROWS, elements)) for _ in range(TABLES)]


def bags(count: int = 40, weighted: bool = False, seed: int = 5) -> list[Bag]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        rows = np.minimum(rng.zipf(1.3, POOLING) - 1, ROWS - 1)
        found.append(Bag(number % TABLES, rows, rng.normal(size=POOLING) if weighted else None))
    return found


def plain_sum(bag: Bag, table: np.ndarray) -> np.ndarray:
    """Row after row."""
    total = np.zeros(table.shape[1])
    for position, row in enumerate(bag.rows.tolist()):
        total = total + (table[row] if bag.weights is None else table[row] * bag.weights[position])
    return total


def lane_sum(bag: Bag, table: np.ndarray, unit: RankNmp) -> np.ndarray:
    """Row after row within each lane, then lane after lane."""
    lanes = lane_of(unit, bag.table, bag.rows)
    parts = [
        plain_sum(
            Bag(bag.table, bag.rows[lanes == lane], None if bag.weights is None else bag.weights[lanes == lane]), table
        )
        for lane in np.unique(lanes)
    ]
    total = parts[0]
    for piece in parts[1:]:
        total = total + piece
    return total


@EVERY
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_bit_equal_in_the_same_order(name: str, weighted: bool) -> None:
    unit, values, wanted = UNITS[name], tables(), bags(weighted=weighted)
    run = run_lookups(unit, CHANNEL, [PlainRows(v) for v in values], wanted)
    in_order = name in ("coloured", "tensordimm")  # one lane holds what it sums: the plain order
    for got, bag in zip(run.sums, wanted, strict=True):
        table = values[bag.table]
        assert (got == (plain_sum(bag, table) if in_order else lane_sum(bag, table, unit))).all()
        largest = np.abs(table[bag.rows] * (1 if bag.weights is None else bag.weights[:, None])).sum(axis=0)
        assert (np.abs(got - plain_sum(bag, table)) <= 2 * POOLING * np.finfo(float).eps * largest).all()


@EVERY
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quantised", [False, True])
def test_counts_equal_the_models(name: str, weighted: bool, quantised: bool) -> None:
    unit, values, wanted = UNITS[name], tables(), bags(weighted=weighted)
    stored = [QuantisedRows.of(v) if quantised else PlainRows(v) for v in values]
    run = run_lookups(unit, CHANNEL, stored, wanted)
    extra = {"element_bytes": 1.0, "row_overhead": 8.0} if quantised else {}
    work = PooledLookups(len(wanted), POOLING, 32, weighted=weighted, **extra)
    model = unit.counts(work, CHANNEL, hits=run.counts.cache_hits, partials=run.partials)
    for field in dataclasses.fields(model):
        assert float(getattr(run.counts, field.name)) == float(getattr(model, field.name)), field.name
    assert run.packets == -(-len(wanted) // unit.packet)


def test_rows_in_8_bits_are_off_by_half_a_step_at_most() -> None:
    values, wanted = tables(), bags()
    stored = [QuantisedRows.of(v) for v in values]
    run = run_lookups(RECNMP, CHANNEL, stored, wanted)
    for got, bag in zip(run.sums, wanted, strict=True):
        bound = (stored[bag.table].scale[bag.rows] / 2).sum()
        assert np.abs(got - plain_sum(bag, values[bag.table])).max() <= bound * (1 + 1e-12)
    assert np.abs(run.sums).max() > 0


def test_a_table_of_equal_numbers_is_quantised_exactly() -> None:
    stored = QuantisedRows.of(np.full((2, 8), 0.3))
    assert (stored.fetch(1)[0] == 0.3).all()


def test_the_cache_changes_what_is_read_and_nothing_else() -> None:
    values, wanted = [PlainRows(v) for v in tables()], bags()
    small = changed(RECNMP, cache=changed(RECNMP.cache, capacity=1024.0, ways=2))
    runs = [run_lookups(unit, CHANNEL, values, wanted) for unit in (UNITS["recnmp_base"], small, RECNMP)]
    assert (runs[0].sums == runs[1].sums).all()
    assert (runs[0].sums == runs[2].sums).all()
    hits = [run.counts.cache_hits for run in runs]
    assert hits[0] == 0 < hits[1] < hits[2]
    distinct = sum(len(np.unique(np.concatenate([b.rows for b in wanted if b.table == t]))) for t in range(TABLES))
    assert hits[2] == len(wanted) * POOLING - distinct  # the large cache keeps everything


def test_scheduling_by_table_and_profiling_raise_the_hit_rate_of_a_small_cache() -> None:
    values, wanted = [PlainRows(v) for v in tables()], bags(120)
    small = changed(RECNMP, cache=changed(RECNMP.cache, capacity=512.0, ways=0))
    plain = run_lookups(small, CHANNEL, values, wanted)
    sorted_ = run_lookups(small, CHANNEL, values, wanted, schedule=by_table(wanted))
    profiled = run_lookups(
        small, CHANNEL, values, wanted, schedule=by_table(wanted), hot=hot_rows(wanted, values, at_least=8)
    )
    assert plain.counts.cache_hits < sorted_.counts.cache_hits < profiled.counts.cache_hits
    assert profiled.counts.cache_accesses < sorted_.counts.cache_accesses == len(wanted) * POOLING
    assert (plain.sums == profiled.sums).all()


def test_the_busiest_lane_of_every_packet_is_counted() -> None:
    unit = UNITS["recnmp_base"]
    run = run_lookups(unit, CHANNEL, [PlainRows(v) for v in tables()], bags())
    assert run.lane_rows.sum() == run.counts.activates
    assert run.busiest_rows >= run.lane_rows.max()
    assert run.counts.activates / unit.lanes <= run.busiest_rows <= run.counts.activates


def test_an_empty_bag_gives_zeros_and_no_bags_give_nothing() -> None:
    values = [PlainRows(v) for v in tables()]
    empty = run_lookups(RECNMP, CHANNEL, values, [Bag(0, np.zeros(0, np.int64))])
    assert not empty.sums.any()
    assert empty.counts.dram_bytes == 0
    assert run_lookups(RECNMP, CHANNEL, values, []).sums.shape == (0, 32)


def test_a_cache_smaller_than_a_row_never_hits() -> None:
    tiny = changed(RECNMP, cache=changed(RECNMP.cache, capacity=64.0))
    assert run_lookups(tiny, CHANNEL, [PlainRows(v) for v in tables()], bags()).counts.cache_hits == 0


@pytest.mark.parametrize(
    ("bag", "message"),
    [
        (Bag(0, np.array([0, ROWS])), f"table 0, which has {ROWS}"),
        (Bag(1, np.array([-1])), "table 1"),
        (Bag(TABLES, np.array([0])), "table 3 of 3"),
        (Bag(0, np.array([0]), np.array([np.nan])), "finite weight"),
        (Bag(0, np.array([0, 1]), np.array([1.0])), "finite weight"),
    ],
)
def test_lookups_that_make_no_sense_are_named(bag: Bag, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        run_lookups(RECNMP, CHANNEL, [PlainRows(v) for v in tables()], [bag])


def test_rows_longer_than_an_instruction_reads_are_refused() -> None:
    with pytest.raises(ExecutionError, match="longer than one instruction"):
        run_lookups(RECNMP, CHANNEL, [PlainRows(np.zeros((2, 256)))], [])


def test_tables_of_two_widths_are_refused() -> None:
    with pytest.raises(ExecutionError, match="one size"):
        run_lookups(RECNMP, CHANNEL, [PlainRows(np.zeros((2, 8))), PlainRows(np.zeros((2, 16)))], [])
