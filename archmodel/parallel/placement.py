"""Placement: a plan resolved into shards, as arrays over shards (S,) and tables (T,).

A shard is a range of columns of one table, held by the members of its *scope*: one rank, the ranks of one node, all
ranks (rows cut evenly over the members, block = ceil(rows / members)), or a replica on every rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from archmodel.program import IntArray, Layout
from archmodel.quantities import Array
from archmodel.workloads.tables import Tables

Scope = Literal["rank", "node", "world", "replica"]
SCOPES: tuple[Scope, ...] = ("rank", "node", "world", "replica")
ROUTES: dict[Scope, str] = {"rank": "table", "node": "node_row", "world": "row", "replica": "replicated"}
"""Name of the exchange that shards of each scope use."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
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
