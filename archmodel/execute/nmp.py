"""Near-memory units run for real: packets, partial sums, caches beside ranks, rows stored in 8 bits.

What is counted here is counted as it happens, without the formulas of `archmodel.memory.nmp`; tests hold the two equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from archmodel.execute.errors import ExecutionError
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.nmp import ColumnNmp, NmpCounts, NmpUnit, RankCache
from archmodel.program import IntArray
from archmodel.quantities import Array

SCALE_AND_BIAS = 8
"""Bytes beside a row stored in 8 bits: two fp32 numbers."""
LEVELS = 255


class StoredRows(Protocol):
    """A table as the DRAM holds it."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers of a row."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored row."""

    def fetch(self, row: int) -> tuple[Array, int, int]:
        """The row as numbers, and the multiplications and additions that took."""


@dataclass(frozen=True)
class PlainRows:
    """Rows as they are, (rows, elements), stored in `element_bytes` each."""

    values: Array
    element_bytes: int = 4

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def row_bytes(self) -> int:
        return int(self.values.shape[1]) * self.element_bytes

    def fetch(self, row: int) -> tuple[Array, int, int]:
        return self.values[row], 0, 0


@dataclass(frozen=True)
class QuantisedRows:
    """Rows in 8 bits, with a scale and a bias each: value = code scale + bias, at most scale / 2 off."""

    codes: npt.NDArray[np.uint8]
    scale: Array
    bias: Array

    @classmethod
    def of(cls, values: Array) -> QuantisedRows:
        """Rounds each row to 256 levels between its smallest and its largest number."""
        low, high = values.min(axis=1), values.max(axis=1)
        scale = np.where(high > low, (high - low) / LEVELS, 1.0)
        codes = np.rint((values - low[:, None]) / scale[:, None]).astype(np.uint8)
        return cls(codes, scale, low)

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def row_bytes(self) -> int:
        return int(self.codes.shape[1]) + SCALE_AND_BIAS

    def fetch(self, row: int) -> tuple[Array, int, int]:
        elements = int(self.codes.shape[1])
        return self.codes[row] * self.scale[row] + self.bias[row], elements, elements


@dataclass(frozen=True)
class Bag:
    """One pooling: rows of a table, in order, each with a weight if there are any."""

    table: int
    rows: IntArray
    weights: Array | None = None


@dataclass
class _Cache:
    """Least recently used rows of a rank, in sets of `ways`."""

    sets: list[OrderedDict[tuple[int, int], None]]
    ways: int

    @classmethod
    def of(cls, cache: RankCache, row_bytes: int) -> _Cache:
        lines = int(cache.capacity // row_bytes)
        ways = min(cache.ways or lines, lines)
        return cls([OrderedDict() for _ in range(lines // ways if ways else 0)], ways)

    def ask(self, table: int, row: int) -> bool:
        """Whether the row is there; afterwards it is."""
        if not self.sets:
            return False
        held = self.sets[(row + 7919 * table) % len(self.sets)]
        hit = (table, row) in held
        if hit:
            held.move_to_end((table, row))
        else:
            if len(held) == self.ways:
                held.popitem(last=False)
            held[table, row] = None
        return hit


@dataclass
class NmpRun:
    """Sums of all bags (poolings, elements), what was counted, and the rows that each lane read from its DRAM."""

    sums: Array
    counts: NmpCounts
    partials: int
    lane_rows: IntArray
    busiest_rows: int
    packets: int


@dataclass
class _Tally:
    instructions: int = 0
    activates: int = 0
    dram_bytes: int = 0
    asked: int = 0
    hits: int = 0
    adds: int = 0
    multiplies: int = 0
    output_bytes: int = 0
    partials: int = 0
    lane_rows: list[int] = field(default_factory=list)


def lane_of(unit: NmpUnit, table: int, rows: IntArray, seed: int = 0) -> IntArray:
    """Which lane holds each row: the table's own with page colouring, else one by chance, the same on every call."""
    if unit.page_colouring:
        return np.full(len(rows), table % unit.lanes, dtype=np.int64)
    start = 0x9E3779B97F4A7C15 * (1 + table + (seed << 20)) & 0xFFFFFFFFFFFFFFFF
    mixed = rows.astype(np.uint64) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64 (Steele et al., 2014)
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(unit.lanes)).astype(np.int64)


def by_table(bags: Sequence[Bag]) -> IntArray:
    """Table-aware schedule: bags of one table after the other, else as they came."""
    return np.argsort([bag.table for bag in bags], kind="stable")


def hot_rows(bags: Sequence[Bag], tables: Sequence[StoredRows], at_least: int = 2) -> list[npt.NDArray[np.bool_]]:
    """Profile: for each table, which rows are looked up `at_least` times."""
    counts = [np.zeros(table.shape[0], dtype=np.int64) for table in tables]
    for bag in bags:
        np.add.at(counts[bag.table], bag.rows, 1)
    return [count >= at_least for count in counts]


def run_lookups(
    unit: NmpUnit,
    channel: DramChannel,
    tables: Sequence[StoredRows],
    bags: Sequence[Bag],
    *,
    schedule: IntArray | None = None,
    hot: Sequence[npt.NDArray[np.bool_]] | None = None,
    seed: int = 0,
) -> NmpRun:
    """Sums every bag on the unit, in packets, in float64.

    `schedule` is the order in which bags are sent; `hot` marks the rows whose instruction lets them use the cache (all
    without it). Raises ExecutionError for rows that a table does not have, weights that are no numbers, tables of
    different widths, and rows longer than one instruction reads.
    """
    elements, row_bytes = _checked(unit, channel, tables, bags)
    split = isinstance(unit, ColumnNmp)
    lanes = unit.lanes
    columns = np.array_split(np.arange(elements), lanes) if split else [np.arange(elements)] * lanes
    caches = [_Cache.of(unit.cache, row_bytes) for _ in range(lanes)] if unit.cache is not None else None
    tally = _Tally(lane_rows=[0] * lanes)
    sums = np.zeros((len(bags), elements))
    order = np.arange(len(bags)) if schedule is None else schedule
    busiest = 0
    slice_bytes = -(-row_bytes // lanes) if split else row_bytes
    burst = int(channel.burst_bytes)
    read = -(-slice_bytes // burst) * burst
    for start in range(0, len(order), unit.packet):
        packet = order[start : start + unit.packet]
        registers = np.zeros((lanes, len(packet), elements))
        used = np.zeros((lanes, len(packet)), dtype=bool)
        before = list(tally.lane_rows)
        for tag, index in enumerate(packet.tolist()):
            bag = bags[index]
            places = lane_of(unit, bag.table, bag.rows, seed).tolist()
            for position, (row, place) in enumerate(zip(bag.rows.tolist(), places, strict=True)):
                tally.instructions += 1
                hit = False
                if caches is not None and (hot is None or hot[bag.table][row]):
                    tally.asked += 1
                    hit = caches[place].ask(bag.table, row)
                    tally.hits += hit
                values, multiplies, adds = tables[bag.table].fetch(row)
                tally.multiplies += multiplies
                tally.adds += adds
                if bag.weights is not None:
                    values = values * bag.weights[position]
                    tally.multiplies += elements
                for lane in range(lanes) if split else (place,):
                    if not hit:
                        tally.activates += 1
                        tally.dram_bytes += read
                        tally.lane_rows[lane] += 1
                    mine = columns[lane]
                    registers[lane, tag, mine] += values[mine]
                    tally.adds += len(mine)
                    used[lane, tag] = True
        for tag, index in enumerate(packet.tolist()):
            sums[index] = _collected(registers[:, tag], used[:, tag], split, tally)
            tally.output_bytes += -(-elements * 4 // burst) * burst
        busiest += max(now - then for now, then in zip(tally.lane_rows, before, strict=True))
    counts = NmpCounts(
        instructions=float(tally.instructions),
        instruction_bytes=tally.instructions * unit.instruction.bits / 8,
        activates=float(tally.activates),
        dram_bytes=float(tally.dram_bytes),
        cache_accesses=float(tally.asked),
        cache_hits=float(tally.hits),
        adds=float(tally.adds),
        multiplies=float(tally.multiplies),
        output_bytes=float(tally.output_bytes),
    )
    packets = -(-len(bags) // unit.packet)
    return NmpRun(sums, counts, tally.partials, np.array(tally.lane_rows), busiest, packets)


def _collected(registers: Array, used: npt.NDArray[np.bool_], split: bool, tally: _Tally) -> Array:
    """The sum of one pooling from what the lanes hold: slices side by side, or partial sums added lane after lane."""
    if split or not used.any():
        tally.partials += 1
        return np.asarray(registers.sum(axis=0))  # slices of other lanes are zero
    total: Array | None = None
    for lane in np.flatnonzero(used):
        tally.partials += 1
        if total is None:
            total = registers[lane].copy()
        else:
            total += registers[lane]
            tally.adds += total.size
    assert total is not None
    return total


def _checked(unit: NmpUnit, channel: DramChannel, tables: Sequence[StoredRows], bags: Sequence[Bag]) -> tuple[int, int]:
    """Numbers and bytes of a row, the same in all tables."""
    kinds = {(table.shape[1], table.row_bytes) for table in tables}
    if len(kinds) != 1:
        raise ExecutionError(f"tables on one near-memory channel need rows of one size; these have {sorted(kinds)}")
    elements, row_bytes = kinds.pop()
    bursts = int(channel.bursts(float(row_bytes)))
    if bursts > unit.instruction.largest_row_bursts:
        largest = int(unit.instruction.largest_row_bursts * channel.burst_bytes)
        raise ExecutionError(f"a row of {row_bytes} B is longer than one instruction reads ({largest} B)")
    for number, bag in enumerate(bags):
        if not 0 <= bag.table < len(tables):
            raise ExecutionError(f"pooling {number} asks for table {bag.table} of {len(tables)}")
        rows = tables[bag.table].shape[0]
        if len(bag.rows) and not (bag.rows.min() >= 0 and bag.rows.max() < rows):
            raise ExecutionError(
                f"pooling {number} asks for rows {bag.rows.min()} to {bag.rows.max()} of table {bag.table}, "
                f"which has {rows}"
            )
        if bag.weights is not None and (bag.weights.shape != bag.rows.shape or not np.isfinite(bag.weights).all()):
            raise ExecutionError(f"pooling {number} needs a finite weight for each of its {len(bag.rows)} rows")
    return elements, row_bytes
