"""Shards of embedding tables in a rank's memory, and the bags of row ids that are looked up in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from archmodel.execute.caches import Level, RowCache, home_of
from archmodel.execute.errors import ExecutionError
from archmodel.execute.optimizers import State, new_state
from archmodel.execute.parameters import Parameters
from archmodel.parallel.placement import SCOPES, Placement, Scope
from archmodel.program import IntArray
from archmodel.quantities import Array, itemsize

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
            levels = range(0 if scope == "replica" else placement.levels)
            places = [placement.cache_units(scope, blocks, level) for level in levels]
            for s, m in np.argwhere((blocks.ranks == rank) | (scope == "replica")).tolist():
                shard = int(blocks.shards[s])
                table = int(placement.table[shard])
                rows = slice(int(blocks.start[s, m]), int(blocks.end[s, m]))
                columns = slice(int(placement.column_start[shard]), int(placement.column_end[shard]))
                weights = parameters.tables[table][rows, columns].copy()
                optimizer = placement.optimizer[table]
                state = new_state(optimizer, weights.shape) if train else {}
                cache = None
                if places and places[0][s, m]:
                    plans = placement.caches[table]
                    stack = [Level(int(n[s, m]), p.policy, p.ways, p.tier) for n, p in zip(places, plans, strict=False)]
                    unit, paged = int(placement.unit_rows[shard]), plans[0].page is not None
                    cache = RowCache(home_of(weights, state), stack, unit, paged)
                result[scope].append(
                    Shard(
                        table, rows.start, rows.stop, columns.start, columns.stop, offset,
                        placement.tier[table], placement.dtype[table], optimizer, weights,
                        state, cache,
                    )
                )  # fmt: skip
                offset += columns.stop - columns.start
    return result
