"""Shards of embedding tables in a rank's memory: pooled lookup and exact update."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from archmodel.execute.arithmetic import Counted, counted, plain
from archmodel.execute.caches import RowCache, home_of
from archmodel.execute.errors import ExecutionError
from archmodel.execute.optimizers import STEPS, State, new_state
from archmodel.execute.parameters import Parameters
from archmodel.parallel.placement import SCOPES, Placement, Scope
from archmodel.program import IntArray
from archmodel.quantities import Array, Dtype, itemsize

if TYPE_CHECKING:
    from archmodel.execute.machine import Rank

SECTOR = 32
"""Bytes that the smallest access of a row moves."""
STATE_DTYPE = "fp32"


def sector_bytes(bytes_: int) -> int:
    """Bytes that touching one row of `bytes_` moves: whole sectors."""
    return -(-bytes_ // SECTOR) * SECTOR


@dataclass(frozen=True)
class Bags:
    """Row ids of consecutive samples, `lengths` of them for each."""

    lengths: IntArray
    ids: IntArray

    @property
    def bag_of_id(self) -> IntArray:
        """Which sample each id belongs to."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def within(self, start: int, end: int) -> Bags:
        """Only the ids in [start, end); every sample keeps a bag."""
        inside = (self.ids >= start) & (self.ids < end)
        lengths = np.bincount(self.bag_of_id[inside], minlength=len(self.lengths))
        return Bags(lengths, self.ids[inside])


def joined(parts: list[Bags]) -> Bags:
    """Bags of one after the other."""
    return Bags(np.concatenate([p.lengths for p in parts]), np.concatenate([p.ids for p in parts]))


@dataclass
class Shard:
    """Rows [row_start, row_end) and columns [column_start, column_end) of a table. `offset`: first column in the rank's
    pooled vectors of the route."""

    table: int
    row_start: int
    row_end: int
    column_start: int
    column_end: int
    offset: int
    tier: str
    dtype: str
    optimizer: str
    weights: Array
    state: State = field(default_factory=dict)
    cache: RowCache | None = None

    @property
    def read_tier(self) -> str:
        """Tier that lookups and updates read."""
        return self.tier if self.cache is None else self.cache.tier

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its optimizer state beside it."""
        moments = sum(s.shape[1] for s in self.state.values()) * itemsize(STATE_DTYPE)
        return int(self.weights.shape[1] * itemsize(self.dtype) + moments)

    def read(self, name: str, rows: IntArray) -> Array:
        """`weights`, or a moment, of some rows."""
        if self.cache is not None:
            return self.cache.read(name, rows)
        return (self.weights if name == "weights" else self.state[name])[rows]

    def write(self, name: str, rows: IntArray, values: Array) -> None:
        """Change them."""
        if self.cache is not None:
            self.cache.write(name, rows, values)
        else:
            (self.weights if name == "weights" else self.state[name])[rows] = values

    @property
    def width(self) -> int:
        """Columns."""
        return self.column_end - self.column_start

    @property
    def present(self) -> bool:
        """Whether any row is here."""
        return self.row_end > self.row_start

    @property
    def span(self) -> slice:
        """Columns of the pooled vectors that this shard fills."""
        return slice(self.offset, self.offset + self.width)

    @property
    def state_bytes(self) -> int:
        """Bytes of optimizer state."""
        return sum(s.size for s in self.state.values()) * itemsize(STATE_DTYPE)

    @property
    def row_sectors(self) -> int:
        """Bytes that touching one row moves."""
        return sector_bytes(self.weights.shape[1] * itemsize(self.dtype))

    @property
    def state_sectors(self) -> int:
        """Bytes that touching the optimizer state of one row moves."""
        return sector_bytes(sum(s.shape[1] for s in self.state.values()) * itemsize(STATE_DTYPE))

    def local(self, ids: IntArray) -> IntArray:
        """Row numbers inside the shard; ExecutionError for an id that is not here."""
        if ids.size and not (self.row_start <= ids.min() and ids.max() < self.row_end):
            raise ExecutionError(
                f"a shard with rows {self.row_start} to {self.row_end} of table {self.table} was asked for rows "
                f"{ids.min()} to {ids.max()}"
            )
        return ids - self.row_start


def shards_of(placement: Placement, rank: int, parameters: Parameters, train: bool) -> dict[Scope, list[Shard]]:
    """The shards that a rank holds, cut out of the whole tables."""
    result: dict[Scope, list[Shard]] = {scope: [] for scope in SCOPES}
    for scope in SCOPES:
        offset = 0
        for blocks in placement.blocks(scope):
            places = None if scope == "replica" else placement.cache_units(scope, blocks)
            for s, m in np.argwhere((blocks.ranks == rank) | (scope == "replica")).tolist():
                shard = int(blocks.shards[s])
                table = int(placement.table[shard])
                rows = slice(int(blocks.start[s, m]), int(blocks.end[s, m]))
                columns = slice(int(placement.column_start[shard]), int(placement.column_end[shard]))
                weights = parameters.tables[table][rows, columns].copy()
                optimizer = placement.optimizer[table]
                state = new_state(optimizer, weights.shape) if train else {}
                plan, cache = placement.cache[table] if placement.cache else None, None
                if plan is not None and places is not None and places[s, m]:
                    unit, paged = int(placement.unit_rows[shard]), plan.page is not None
                    cache = RowCache(
                        home_of(weights, state), int(places[s, m]), plan.policy, plan.ways, plan.tier, unit, paged
                    )
                result[scope].append(
                    Shard(
                        table, rows.start, rows.stop, columns.start, columns.stop, offset,
                        placement.tier[table], placement.dtype[table], optimizer, weights,
                        state, cache,
                    )
                )  # fmt: skip
                offset += columns.stop - columns.start
    return result


def bag_sums(rows: Counted, lengths: IntArray) -> tuple[IntArray, Array]:
    """Which bags are not empty, and the sum of each one's rows."""
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return filled, np.zeros((0, rows.shape[1]))
    starts = np.cumsum(lengths)[filled] - lengths[filled]
    return filled, plain(np.add.reduceat(rows, starts, axis=0))


def row_sums(gradients: Counted, ids: IntArray) -> tuple[IntArray, Counted]:
    """Distinct ids, ascending, and the sum of the gradients of each: sort, then segment sum."""
    order = np.argsort(ids, kind="stable")
    unique, starts = np.unique(ids[order], return_index=True)
    if not len(unique):
        return unique, counted(gradients[:0], gradients.tally)
    return unique, counted(np.add.reduceat(gradients[order], starts, axis=0), gradients.tally)


def lookup(rank: Rank, shards: list[Shard], bags: list[Bags | None], samples: int, dtype: Dtype) -> Array:
    """Pooled vectors of all samples, (samples, width of the shards), written as `dtype`. A shard without rows leaves
    its columns zero."""
    out = np.zeros((samples, sum(s.width for s in shards)))
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None:
            continue
        ids = shard.local(wanted.ids)
        if shard.cache is not None:
            shard.cache.install()
        filled, sums = bag_sums(rank.counting(shard.read("weights", ids)), wanted.lengths)
        out[filled, shard.span] = sums
        _count_indices(rank, wanted)
        tier = shard.read_tier
        rank.touch(ids.size * shard.row_sectors, tier)
        rank.note(f"row_bytes.{tier}", ids.size * shard.row_sectors)
        rank.note(f"unique_row_bytes.{tier}", len(np.unique(ids)) * shard.row_sectors)
        if tier != "hbm":
            rank.note(f"rows.{tier}", ids.size)
        written = out[:, shard.span].size
        rank.touch(written * itemsize(dtype))
        rank.note("output_elements", written)
    return out


def update(rank: Rank, shards: list[Shard], bags: list[Bags | None], upstream: Array, rate: float, t: int) -> None:
    """Exact update of the rows that the bags touched, from the gradient of the pooled vectors."""
    machine = rank.machine
    element = itemsize(machine.plan.wires.lookup_backward)
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None:
            continue
        _count_indices(rank, wanted)
        pooled = upstream[:, shard.span]
        gathered = pooled[wanted.bag_of_id]
        rank.touch(gathered.size * element)
        rank.note("gradient_bytes", gathered.size * element)
        rank.note("gradient_unique_bytes", pooled.size * element)
        rows, total = row_sums(rank.counting(gathered), shard.local(wanted.ids))
        before = {name: rank.counting(shard.read(name, rows)) for name in shard.state}
        step = STEPS[shard.optimizer]
        old = rank.counting(shard.read("weights", rows))
        weights, state = step(old, total, dict(before), rate, t, machine.settings)
        shard.write("weights", rows, plain(weights))
        for name, values in state.items():
            shard.write(name, rows, plain(values))
        for name, sectors in (("row_bytes", shard.row_sectors), ("state_bytes", shard.state_sectors)):
            moved = 2 * len(rows) * sectors  # read and written
            rank.touch(moved, shard.read_tier)
            rank.note(f"{name}.{shard.read_tier}", moved)
        if shard.read_tier != "hbm":
            rank.note(f"rows.{shard.read_tier}", len(rows))


def probe(rank: Rank, shards: list[Shard], bags: list[Bags | None], wanted_buffer: str) -> None:
    """Pass the rows of a batch by the tags of their caches."""
    index, found = itemsize(rank.machine.plan.wires.index), 0
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None or shard.cache is None:
            continue
        if shard.cache.paged:
            continue
        staged = shard.cache.probe(shard.local(wanted.ids))
        tags = (
            len(staged.wanted) * shard.cache.tags.ways * index if _has_sets(rank, shard) else len(staged.wanted) * index
        )
        rank.touch((wanted.ids.size + len(staged.wanted)) * index + tags)
        rank.note("indices", wanted.ids.size)
        rank.note("rows", len(staged.wanted))
        rank.note("tag_bytes", tags)
        found += len(staged.wanted)
    rank.hold(wanted_buffer, found)


def _has_sets(rank: Rank, shard: Shard) -> bool:
    """Whether a row is looked for in a set; else it has a place in a hash table."""
    plan = rank.machine.placement.cache[shard.table]
    return plan is not None and plan.ways is not None


def fetch(rank: Rank, shards: list[Shard], bags: list[Bags | None]) -> dict[str, float]:
    """Read missing rows from their home: bytes by the tier that takes them. Pages are missed when they are touched."""
    taken: dict[str, float] = {}
    for shard, wanted in zip(shards, bags, strict=True):
        cache = shard.cache
        if cache is None or wanted is None:
            continue
        if cache.paged:
            rank.note("faults", cache.probe(shard.local(wanted.ids)).units)
        units = cache.fetch().units
        _count_move(rank, shard, units)
        taken[cache.tier] = taken.get(cache.tier, 0.0) + units * cache.unit * shard.row_bytes
    return taken


def write_back(rank: Rank, shards: list[Shard]) -> None:
    """Write home what left the caches."""
    for shard in shards:
        if shard.cache is not None and shard.present:
            _count_move(rank, shard, shard.cache.write_back())


def _count_move(rank: Rank, shard: Shard, units: int) -> None:
    """Rows, or pages, that moved between a shard's home and its cache."""
    assert shard.cache is not None
    path, moved = f"{shard.tier}:{shard.cache.tier}", units * shard.cache.unit * shard.row_bytes
    for tier in (shard.tier, shard.cache.tier):
        rank.touch(moved, tier)
    rank.note(f"units.{path}", units)
    rank.note(f"bytes.{path}", moved)


def gradient_rows(shards: list[Shard], bags: list[Bags | None], upstream: Array) -> Array:
    """The gradient of its bag for every index of every shard, shard by shard, flat."""
    parts = [
        upstream[:, shard.span][wanted.bag_of_id].ravel()
        for shard, wanted in zip(shards, bags, strict=True)
        if wanted is not None
    ]
    return np.concatenate([np.zeros(0), *parts])


def scatter_add(rank: Rank, shards: list[Shard], bags: list[Bags | None], rows: Array) -> None:
    """Add rows of gradients, laid out as `gradient_rows` does and scaled already, to the rows of the tables."""
    wires, done = rank.machine.plan.wires, 0
    element = itemsize(rank.machine.plan.precision.parameters)
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None:
            continue
        ids = shard.local(wanted.ids)
        added = rows[done : done + ids.size * shard.width].reshape(ids.size, shard.width)
        done += added.size
        touched, which = np.unique(ids, return_inverse=True)
        weights = shard.read("weights", touched)
        np.add.at(weights, which, added)
        shard.write("weights", touched, weights)
        rank.tally.operations += added.size  # np.add.at
        rank.touch(ids.size * itemsize(wires.index) + added.size * element)
        rank.note("indices", ids.size)
        rank.note("gradient_bytes", added.size * element)
        moved = 2 * shard.row_sectors  # read and written
        tier = shard.read_tier
        rank.touch(ids.size * moved, tier)
        rank.note(f"row_bytes.{tier}", ids.size * moved)
        rank.note(f"unique_row_bytes.{tier}", len(touched) * moved)
        if tier != "hbm":
            rank.note(f"rows.{tier}", ids.size)


def _count_indices(rank: Rank, wanted: Bags) -> None:
    wires = rank.machine.plan.wires
    rank.touch(wanted.ids.size * itemsize(wires.index) + wanted.lengths.size * itemsize(wires.length))
    rank.note("indices", wanted.ids.size)
    rank.note("bags", wanted.lengths.size)
