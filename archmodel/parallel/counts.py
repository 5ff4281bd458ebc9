"""How many indices and distinct rows each shard sees in a batch: in expectation, or counted in a given batch.

The same lowering serves both, so the executor's counts on a concrete batch can be compared with a Program exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from archmodel.memory.batch_cache import batch_moves, paged
from archmodel.memory.cache import Popularity
from archmodel.parallel.placement import Blocks, Placement, Scope
from archmodel.program import IntArray, OuterTraffic, PairTraffic, Traffic
from archmodel.quantities import Array
from archmodel.workloads.tables import Tables

_AT_ONCE = 1024
"""Caches whose misses are worked out together, which bounds memory."""


class Counts(Protocol):
    """Access counts of one batch."""

    def indices(self, placement: Placement, blocks: Blocks) -> Array:
        """Indices that fall in every row block over the global batch, (shards, members)."""
        ...

    def unique(self, placement: Placement, blocks: Blocks) -> Array:
        """Distinct rows among them, (shards, members)."""
        ...

    def local_indices(self, placement: Placement, shards: IntArray) -> Array:
        """Indices of each rank's own samples in replicated tables, (ranks, shards)."""
        ...

    def local_unique(self, placement: Placement, shards: IntArray) -> Array:
        """Distinct rows among them, (ranks, shards)."""
        ...

    def sample_indices(self) -> Array:
        """Indices of each rank's own samples in all tables together, (ranks,)."""
        ...

    def input_traffic(self, placement: Placement, scope: Scope, index_bytes: int, length_bytes: int) -> Traffic:
        """Bytes of indices and lengths from every rank to every rank for the shards of a scope."""
        ...

    def moved(self, placement: Placement, scope: Scope, blocks: Blocks, train: bool) -> Moved:
        """Rows (or pages) that the caches of every block move."""
        ...


@dataclass(frozen=True)
class Moved:
    """Rows, or pages, that the caches of blocks move, all (shards, members) and 0 where there is no cache: `fetched`
    into every level, from the top down, (levels, shards, members); `written` by (level that they leave, level that
    takes them), a table's home having the number of its caches."""

    fetched: Array
    written: dict[tuple[int, int], Array]


@dataclass(frozen=True)
class Expected:
    """Expectations from the tables' access distributions. `local_batch` (ranks,) sums to the global batch."""

    tables: Tables
    local_batch: IntArray

    @cached_property
    def _unique(self) -> Array:
        return self.tables.expected_unique(float(self.local_batch.sum()))

    def _share(self, placement: Placement, blocks: Blocks) -> Array:
        rows = placement.tables.num_embeddings[placement.table[blocks.shards]][:, None]
        return np.asarray(blocks.rows / np.maximum(rows, 1))

    def indices(self, placement: Placement, blocks: Blocks) -> Array:
        pooling = self.tables.pooling_factor[placement.table[blocks.shards]][:, None]
        return float(self.local_batch.sum()) * pooling * self._share(placement, blocks)

    def unique(self, placement: Placement, blocks: Blocks) -> Array:
        return self._unique[placement.table[blocks.shards]][:, None] * self._share(placement, blocks)

    def local_indices(self, placement: Placement, shards: IntArray) -> Array:
        table = placement.table[shards]
        pooling = np.where(self.tables.num_embeddings[table] > 0, self.tables.pooling_factor[table], 0.0)
        return np.asarray(self.local_batch[:, None] * pooling)

    def local_unique(self, placement: Placement, shards: IntArray) -> Array:
        batches, of_rank = np.unique(self.local_batch, return_inverse=True)
        by_batch = np.stack([self.tables.expected_unique(float(b), placement.table[shards]) for b in batches])
        return np.asarray(by_batch[of_rank])

    def moved(self, placement: Placement, scope: Scope, blocks: Blocks, train: bool) -> Moved:
        """In the long run. Training changes every row that it reads, so each that comes sends a changed one down."""
        share = self._share(placement, blocks)
        levels = range(placement.levels)
        size = np.stack([placement.cache_units(scope, blocks, level).astype(np.float64) for level in levels])
        table = np.broadcast_to(self._alike(placement)[placement.table[blocks.shards]][:, None], share.shape)
        unit = np.broadcast_to(placement.unit_rows[blocks.shards][:, None], share.shape)
        cached = size[0] > 0
        key = np.stack([table[cached].astype(np.float64), share[cached], unit[cached], *size[:, cached]])
        distinct, which = np.unique(key, axis=1, return_inverse=True)
        t, part, page = distinct[:3]
        moves = self._moves(placement, t, part, page, distinct[3:])
        spread = {path: np.zeros(share.shape) for path in moves}
        for path, amount in moves.items():
            spread[path][cached] = amount[np.reshape(which, -1)]
        fetched = np.stack([spread.pop((level + 1, level)) for level in levels])
        return Moved(fetched, spread if train else {})

    def _alike(self, placement: Placement) -> IntArray:
        """The first table that caches see as each, (T,): of as many rows and lookups, drawn and kept alike."""
        tables, first = self.tables, dict[tuple[object, ...], int]()
        kept = [tuple((c.policy, c.ways) for c in caches) for caches in placement.caches] or [()] * len(tables)
        drawn = (tables.num_embeddings.tolist(), tables.pooling_factor.tolist(), tables.distribution_of.tolist())
        return np.array([first.setdefault(k, i) for i, k in enumerate(zip(*drawn, kept, strict=True))], dtype=np.int64)

    def _moves(
        self, placement: Placement, table: Array, share: Array, unit: Array, size: Array
    ) -> dict[tuple[int, int], Array]:
        """Expected rows by (level that they leave, level that they reach) of blocks that have a `share` of the rows of
        a `table` and caches of `size` (levels, blocks) units, each of `unit` rows."""
        t = table.astype(np.int64)
        kinds = [
            (tuple((c.policy, c.ways) for c in placement.caches[i]), int(self.tables.distribution_of[i])) for i in t
        ]
        batch = float(self.local_batch.sum())
        found = {(level + 1, level): np.zeros(len(t)) for level in range(placement.levels)}
        for kind in dict.fromkeys(kinds):
            all_of_it = np.flatnonzero([k == kind for k in kinds])
            for first in range(0, len(all_of_it), _AT_ONCE):
                mine = all_of_it[first : first + _AT_ONCE]
                policies, distribution = kind
                whole = self.tables.distributions[distribution].popularity(
                    self.tables.num_embeddings[t[mine]].astype(np.float64)
                )
                part = paged(Popularity(whole.probability, whole.rows * share[mine][:, None]), unit[mine])
                draws = self.tables.pooling_factor[t[mine]] * batch
                moves = batch_moves(part, list(size[: len(policies), mine]), draws, policies)
                up = {(level + 1, level): amount for level, amount in enumerate(moves.fetched)}
                for key, amount in (up | moves.written).items():
                    found.setdefault(key, np.zeros(len(t)))[mine] = amount
        return found

    def sample_indices(self) -> Array:
        pooling = self.tables.pooling_factor[self.tables.num_embeddings > 0].sum()
        return np.asarray(self.local_batch * pooling, dtype=np.float64)

    def input_traffic(self, placement: Placement, scope: Scope, index_bytes: int, length_bytes: int) -> Traffic:
        wanted = np.zeros(placement.layout.ranks)
        for blocks in placement.blocks(scope):
            pooling = self.tables.pooling_factor[placement.table[blocks.shards]][:, None]
            per_sample = (
                np.where(blocks.rows > 0, length_bytes, 0) + pooling * self._share(placement, blocks) * index_bytes
            )
            wanted += placement.per_rank(scope, blocks, per_sample)
        return OuterTraffic(send=self.local_batch.astype(np.float64), receive=wanted)


@dataclass(frozen=True)
class Batch:
    """A concrete batch: for every table the indices per sample (global_batch,) and the row ids, sample by sample."""

    local_batch: IntArray
    lengths: Sequence[IntArray]
    ids: Sequence[IntArray]

    @cached_property
    def sample_start(self) -> IntArray:
        """First sample of every rank, and the end, (ranks + 1,)."""
        return np.concatenate([[0], np.cumsum(self.local_batch)])

    @cached_property
    def rank_of_id(self) -> list[IntArray]:
        """Rank whose sample each id belongs to, per table."""
        owner = np.repeat(np.arange(len(self.local_batch)), self.local_batch)
        return [np.repeat(owner, lengths) for lengths in self.lengths]


@dataclass(frozen=True)
class Observed:
    """Exact counts of one batch. For small designs: loops over shards.

    `before`: the batches before it, oldest first, which decide what caches hold; none: they are empty.
    """

    batch: Batch
    before: Sequence[Batch] = ()

    @classmethod
    def each(cls, batches: Sequence[Batch]) -> list[Observed]:
        """Counts of consecutive batches, caches empty at first."""
        return [cls(batch, tuple(batches[:i])) for i, batch in enumerate(batches)]

    def moved(self, placement: Placement, scope: Scope, blocks: Blocks, train: bool) -> Moved:
        """By exact caches that run every distinct row of each batch once, in the order of ids."""
        from archmodel.memory.cache_exact import CacheSimulator  # only counts of a given batch need them
        from archmodel.memory.cascade import BatchMoves, CascadeSimulator

        size = np.stack([placement.cache_units(scope, blocks, level) for level in range(placement.levels)])
        fetched, written = np.zeros(size.shape), dict[tuple[int, int], Array]()
        for s, m in np.argwhere(size[0] > 0):
            t = int(placement.table[blocks.shards[s]])
            rows, first = int(blocks.rows[s, m]), int(blocks.start[s, m])
            unit = int(placement.unit_rows[blocks.shards[s]])
            levels = [
                CacheSimulator(
                    -(-rows // unit), int(n), plan.policy, None if plan.ways is None else min(plan.ways, int(n))
                )
                for plan, n in zip(placement.caches[t], size[:, s, m], strict=False)
            ]
            cascade, moves = CascadeSimulator(levels), BatchMoves((0,) * len(levels))
            for batch in (*self.before, self.batch):
                ids = batch.ids[t]
                moves = cascade.feed(np.unique((ids[(ids >= first) & (ids < first + rows)] - first) // unit))
            fetched[: len(levels), s, m] = moves.fetched
            for path, units in moves.written.items() if train else ():
                written.setdefault(path, np.zeros(size.shape[1:]))[s, m] = units
        return Moved(fetched, written)

    def _inside(self, placement: Placement, blocks: Blocks, s: int, m: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        ids = self.batch.ids[int(placement.table[blocks.shards[s]])]
        return ids, (ids >= blocks.start[s, m]) & (ids < blocks.end[s, m])

    def indices(self, placement: Placement, blocks: Blocks) -> Array:
        return self._each(placement, blocks, lambda ids: len(ids))

    def unique(self, placement: Placement, blocks: Blocks) -> Array:
        return self._each(placement, blocks, lambda ids: len(np.unique(ids)))

    def _each(self, placement: Placement, blocks: Blocks, count: Callable[[IntArray], int]) -> Array:
        result = np.zeros(blocks.start.shape)
        for s, m in np.ndindex(*blocks.start.shape):
            ids, inside = self._inside(placement, blocks, s, m)
            result[s, m] = count(ids[inside])
        return result

    def local_indices(self, placement: Placement, shards: IntArray) -> Array:
        return self._local(placement, shards, lambda ids: len(ids))

    def local_unique(self, placement: Placement, shards: IntArray) -> Array:
        return self._local(placement, shards, lambda ids: len(np.unique(ids)))

    def _local(self, placement: Placement, shards: IntArray, count: Callable[[IntArray], int]) -> Array:
        ranks = placement.layout.ranks
        result = np.zeros((ranks, len(shards)))
        for r, i in np.ndindex(ranks, len(shards)):
            t = int(placement.table[shards[i]])
            result[r, i] = count(self.batch.ids[t][self.batch.rank_of_id[t] == r])
        return result

    def sample_indices(self) -> Array:
        ranks = len(self.batch.local_batch)
        return np.asarray(sum((np.bincount(r, minlength=ranks) for r in self.batch.rank_of_id), np.zeros(ranks)))

    def input_traffic(self, placement: Placement, scope: Scope, index_bytes: int, length_bytes: int) -> Traffic:
        ranks = placement.layout.ranks
        pairs = np.zeros((ranks, ranks))
        for blocks in placement.blocks(scope):
            for s, m in np.ndindex(*blocks.start.shape):
                if blocks.rows[s, m] == 0:
                    continue
                t, to = int(placement.table[blocks.shards[s]]), int(blocks.ranks[s, m])
                _, inside = self._inside(placement, blocks, s, m)
                sent = np.bincount(self.batch.rank_of_id[t][inside], minlength=ranks)
                pairs[:, to] += sent * index_bytes + self.batch.local_batch * length_bytes
        return PairTraffic(pairs)
