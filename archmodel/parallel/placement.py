"""Placement: a plan resolved into shards, as arrays over shards (S,) and tables (T,).

A shard is a range of columns of one table, held by the members of its *scope*: one rank, the ranks of one node, all
ranks (rows cut evenly over the members, block = ceil(rows / members)), or a replica on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from archmodel.parallel.plan import CachePlan
from archmodel.program import IntArray, Layout
from archmodel.quantities import Array, itemsize
from archmodel.workloads.tables import Tables

Scope = Literal["rank", "node", "world", "replica"]
SCOPES: tuple[Scope, ...] = ("rank", "node", "world", "replica")
ROUTES: dict[Scope, str] = {"rank": "table", "node": "node_row", "world": "row", "replica": "replicated"}
"""Name of the exchange that shards of each scope use."""
_CHUNK = 1 << 20
STATE_BYTES_PER_ELEMENT = {"sgd": 0.0, "rowwise_adagrad": 0.0, "adagrad": 4.0, "adam": 8.0}
"""Optimizer state is kept in fp32 whatever the rows are in: Adagrad one moment per element, Adam two."""
STATE_BYTES_PER_ROW = {"sgd": 0.0, "rowwise_adagrad": 4.0, "adagrad": 0.0, "adam": 0.0}


@dataclass(frozen=True, repr=False)
class Placement:
    """All shards. `scope` indexes SCOPES; `home` is the rank (rank scope) or node (node scope), else 0."""

    tables: Tables
    layout: Layout
    table: IntArray
    column_start: IntArray
    column_end: IntArray
    scope: IntArray
    home: IntArray
    tier: tuple[str, ...]  # over tables
    dtype: tuple[str, ...]
    optimizer: tuple[str, ...]
    sharding: tuple[str, ...]
    caches: tuple[tuple[CachePlan, ...], ...] = ()
    """Over tables: each one's caches, the top first; empty: no table has any."""
    entry: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Which entry of the plan each table has, (T,): caches of so many bytes are for all tables of an entry."""
    tiers: tuple[str, ...] = ("hbm", "ddr")
    """Tiers of the system, the fastest first."""

    def __repr__(self) -> str:
        return f"<Placement of {len(self.tables):,} tables: {len(self.table):,} shards on {self.layout.ranks:,} ranks>"

    @cached_property
    def cached(self) -> npt.NDArray[np.bool_]:
        """Which tables have a cache, (T,)."""
        return np.array([bool(c) for c in self.caches] or [False] * len(self.tables), dtype=bool)

    @cached_property
    def levels(self) -> int:
        """Most caches above one another that a table has."""
        return max(map(len, self.caches), default=0)

    def level(self, number: int, table: IntArray) -> list[CachePlan | None]:
        """Of the given tables, the caches of one level, 0 the top."""
        found = [self.caches[t] if self.caches else () for t in table.tolist()]
        return [caches[number] if number < len(caches) else None for caches in found]

    @cached_property
    def chain(self) -> npt.NDArray[np.str_]:
        """Tiers that the rows of every table pass on their way down, (levels + 1, T): of each cache, then the home,
        then "" where there is nothing further."""
        width = self.levels + 1
        chains = [
            [*(c.tier for c in caches), home, *[""] * (width - 1 - len(caches))]
            for caches, home in zip(self.caches or [()] * len(self.tier), self.tier, strict=True)
        ]
        return np.array(chains, dtype=str).reshape(len(self.tier), width).T

    @cached_property
    def read_tier(self) -> tuple[str, ...]:
        """Tier that lookups and updates of every table read: that of its top cache, else its home."""
        return tuple(self.chain[0].tolist()) if self.levels else self.tier

    @cached_property
    def prefetch(self) -> int:
        """Batches ahead that caches fetch; 0 without caches."""
        return max((c.prefetch or 0 for caches in self.caches for c in caches), default=0)

    @cached_property
    def element(self) -> Array:
        """Bytes of an element of every table, (T,)."""
        return by_word(self.dtype, itemsize)

    @cached_property
    def state_bytes(self) -> tuple[Array, Array]:
        """Bytes of optimizer state of every table, for each element and for each row, both (T,)."""
        return (
            by_word(self.optimizer, STATE_BYTES_PER_ELEMENT.__getitem__),
            by_word(self.optimizer, STATE_BYTES_PER_ROW.__getitem__),
        )

    @cached_property
    def home_row_bytes(self) -> Array:
        """Bytes of a row of every shard with its optimizer state beside it, (S,)."""
        per_element, per_row = self.state_bytes
        return np.asarray(self.columns * (self.element + per_element)[self.table] + per_row[self.table])

    @cached_property
    def unit_rows(self) -> IntArray:
        """Rows that move together to and from the caches of every shard, (S,): 1, or those of a page."""
        pages = [max((float(np.max(c.page or 0.0)) for c in caches), default=0.0) for caches in self.caches]
        page = np.array(pages or np.zeros(len(self.tables)))[self.table]
        return np.maximum(np.floor(page / np.maximum(self.home_row_bytes, 1.0)), 1.0).astype(np.int64)

    def asked_share(self, blocks: Blocks, level: int = 0) -> Array:
        """Share of the rows of every block that the plan asks its cache of a level to hold, (shards, members); 0
        without one.

        Bytes on a rank are shared by all blocks there of tables of one entry, in proportion to their size.
        """
        table = self.table[blocks.shards]
        plans = self.level(level, table)
        unit = np.array([p.size.unit if p else "" for p in plans], dtype="<U5").reshape(-1, 1)
        amount = np.array([p.size.amount if p else 0.0 for p in plans], dtype=np.float64).reshape(-1, 1)
        whole = np.maximum(self.tables.num_embeddings[table][:, None], 1)
        share = np.where(unit == "share", amount, amount / whole)
        if (unit == "bytes").any():
            held = np.maximum(self._entry_bytes[level, self.entry[table][:, None], blocks.ranks], 1.0)
            share = np.where(unit == "bytes", amount / held, share)
        return np.asarray(share)

    def cache_units(self, scope: Scope, blocks: Blocks, level: int = 0) -> IntArray:
        """Rows, or pages, that the cache of every block holds on a level, 0 the top, (shards, members): whole sets, at
        least one of a block that has any rows, at most all; 0 without a cache."""
        plans = self.level(level, self.table[blocks.shards])
        share, there = self.asked_share(blocks, level), np.array([[p is not None] for p in plans]).reshape(-1, 1)
        ways = np.array([(p.ways or 1) if p else 1 for p in plans], dtype=np.int64).reshape(-1, 1)
        unit_rows = self.unit_rows[blocks.shards][:, None]
        wanted = np.floor(share * blocks.rows.astype(np.float64) * (1 + 1e-12)).astype(np.int64) // unit_rows
        size = np.minimum(wanted, -(-blocks.rows // unit_rows))
        size = np.where(size >= ways, size // ways * ways, size)
        return np.asarray(np.where((blocks.rows > 0) & there, np.maximum(size, 1), 0), dtype=np.int64)

    @cached_property
    def cache_share(self) -> Array:
        """Share of the rows of every table that its caches hold, (levels, T), the top first."""
        held, rows = np.zeros((self.levels, len(self.tables))), np.zeros(len(self.tables))
        for scope in SCOPES[:-1]:
            for b in self.blocks(scope):
                table = self.table[b.shards]
                for level in range(self.levels):
                    held[level] += np.bincount(table, self.cache_units(scope, b, level).sum(1), len(rows))
                rows += np.bincount(table, (-(-b.rows // self.unit_rows[b.shards][:, None])).sum(1), len(rows))
        return np.asarray(held / np.maximum(rows, 1.0))

    def shares_of(self, t: int) -> list[float]:
        """`cache_share` of one table as a plan may write it: whole sets may make a lower cache hold less than the one
        above it, which asked for no more."""
        return [float(share) for share in np.maximum.accumulate(self.cache_share[: len(self.caches[t]), t])]

    @cached_property
    def _entry_bytes(self) -> Array:
        """Bytes of the tables of every entry that have a cache of a level, on every rank: (levels, entries, ranks)."""
        total = np.zeros((self.levels, int(self.entry.max(initial=-1)) + 1, self.layout.ranks))
        depth = np.array([len(caches) for caches in self.caches])
        for scope in SCOPES[:-1]:
            for b in self.blocks(scope):
                table = self.table[b.shards]
                size = b.rows * self.home_row_bytes[b.shards][:, None]
                entry = np.broadcast_to(self.entry[table][:, None], b.rows.shape)
                for level in range(self.levels):
                    np.add.at(total[level], (entry, b.ranks), size * (depth[table] > level)[:, None])
        return total

    @property
    def columns(self) -> IntArray:
        """Width of every shard, (S,)."""
        return np.asarray(self.column_end - self.column_start)

    def of_scope(self, scope: Scope) -> IntArray:
        """Indices of the shards of one scope."""
        return np.flatnonzero(self.scope == SCOPES.index(scope))

    def members(self, scope: Scope) -> int:
        """Ranks that share the rows of a shard of this scope."""
        return {"rank": 1, "node": self.layout.local_size, "world": self.layout.ranks, "replica": 1}[scope]

    def blocks(self, scope: Scope) -> Iterator[Blocks]:
        """Row blocks of all shards of a scope, in chunks that bound memory; replicas count once, at rank 0."""
        shards, members = self.of_scope(scope), self.members(scope)
        step = max(1, _CHUNK // members)
        for i in range(0, len(shards), step):
            yield self.blocks_of(shards[i : i + step], scope)

    def blocks_of(self, shards: IntArray, scope: Scope) -> Blocks:
        """Row blocks of the given shards, all of one scope."""
        members = self.members(scope)
        rows = self.tables.num_embeddings[self.table[shards]][:, None]
        block = -(-rows // members)
        start = np.minimum(block * np.arange(members), rows)
        end = np.minimum(start + block, rows)
        if scope == "world":
            ranks = np.broadcast_to(np.arange(members), start.shape)
        else:
            ranks = self.home[shards][:, None] * members + np.arange(members)
        return Blocks(shards, ranks, start, end)

    def per_rank(self, scope: Scope, blocks: Blocks, values: Array) -> Array:
        """Sum of `values` (shards, members) over the shards that each rank holds, (ranks,)."""
        if scope == "world":
            return np.asarray(values.sum(0))
        return np.asarray(np.bincount(blocks.ranks.ravel(), values.ravel(), self.layout.ranks), dtype=np.float64)


@dataclass(frozen=True)
class Blocks:
    """Row blocks [start, end) of shards (S,) on their members: all arrays (S, members)."""

    shards: IntArray
    ranks: IntArray
    start: IntArray
    end: IntArray

    @property
    def rows(self) -> IntArray:
        """Rows of every block."""
        return np.asarray(self.end - self.start)


def split_evenly(total: int, parts: int) -> IntArray:
    """`total` things over `parts`, larger parts first: (parts,)."""
    base, rest = divmod(total, parts)
    return np.asarray(base + (np.arange(parts) < rest), dtype=np.int64)


def by_word(words: npt.NDArray[np.str_] | Sequence[str], value: Callable[[str], float]) -> Array:
    """`value` of every word, (T,); of thousands of words a few are distinct."""
    listed: Sequence[str] = words.tolist() if isinstance(words, np.ndarray) else words
    known = {word: value(word) for word in set(listed)}
    return np.array([known[word] for word in listed], dtype=np.float64)
