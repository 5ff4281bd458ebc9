"""What one batch asks of one table: the rows of every bag, and the same lookups sorted by row for the update."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from archmodel.memory.access_base import AccessDistribution, AccessError
from archmodel.quantities import Array

Ints = npt.NDArray[np.int32]
LONGEST_RUN = 32
"""Lookups of one row that one warp adds up; longer runs are shared by several (fbgemm_gpu, max_segment_length)."""
REUSE_EDGES = tuple(float(2**k) for k in range(16))
"""Highest reuse counts of all 17 bins but the last, as AutoShard has them: 1, 2, 4, ..., 32768."""


@dataclass(frozen=True)
class TableBatch:
    """`rows` of the table, `columns` of them (of all, or of a column-wise shard), and per lookup, bag after bag, which
    of the batch's distinct rows it is (`ids`, numbered from 0); bag b has the lookups `offsets[b]` to
    `offsets[b + 1]`."""

    rows: int
    columns: int
    ids: Ints
    offsets: npt.NDArray[np.int64]

    @property
    def batch(self) -> int:
        """Bags."""
        return len(self.offsets) - 1

    @cached_property
    def reuse(self) -> npt.NDArray[np.int64]:
        """Lookups of every distinct row."""
        return np.bincount(self.ids).astype(np.int64)

    @property
    def unique(self) -> int:
        """Distinct rows."""
        return len(self.reuse)

    @property
    def pooling(self) -> float:
        """Mean lookups of a bag."""
        return len(self.ids) / self.batch

    @cached_property
    def bins(self) -> Array:
        """Share of the distinct rows whose lookups in this batch are in (0, 1], (1, 2], (2, 4], ..., above 32768."""
        return reuse_bins(self.reuse)

    @cached_property
    def by_row(self) -> tuple[Ints, npt.NDArray[np.int64]]:
        """The update's stream: for every segment of lookups of one row (32 at most) the bags whose gradients it adds,
        then the row; gradients are numbered from `unique`. And where each segment begins, (segments + 1,)."""
        bag = np.repeat(np.arange(self.batch, dtype=np.int64), np.diff(self.offsets))
        order = np.argsort(self.ids, kind="stable")
        pieces = -(-self.reuse // LONGEST_RUN)
        row = np.repeat(np.arange(self.unique), pieces)
        piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        length = np.minimum(self.reuse[row] - piece * LONGEST_RUN, LONGEST_RUN)
        begin = np.concatenate([[0], np.cumsum(length + 1)])
        stream = np.empty(begin[-1], dtype=np.int32)
        ends = begin[1:] - 1
        stream[ends] = row
        gradients = np.ones(len(stream), dtype=bool)
        gradients[ends] = False
        stream[gradients] = self.unique + bag[order]
        return stream, begin


def reuse_bins(reuse: npt.NDArray[np.int64]) -> Array:
    """Share of rows by how often they are looked up, 17 bins (`REUSE_EDGES`); zeros without rows."""
    bin_ = np.searchsorted(np.asarray(REUSE_EDGES), reuse, side="left")
    return np.asarray(np.bincount(bin_, minlength=len(REUSE_EDGES) + 1) / max(len(reuse), 1))


def table_batch(
    access: AccessDistribution, *, rows: int, columns: int, pooling: float, batch: int, seed: int
) -> TableBatch:
    """One batch drawn from a table's access distribution; bags are as long as `pooling` says, rounded up or down at
    random where it is no whole number. Raises AccessError for a table or batch of nothing."""
    if rows < 1 or columns < 1 or batch < 1 or not pooling > 0:
        raise AccessError(f"{rows} rows of {columns}, {batch} bags of {pooling}: all must be above zero")
    rng = np.random.default_rng(seed)
    whole = int(pooling)
    length = whole + (rng.random(batch) < pooling - whole)
    drawn = access.sample(rows, int(length.sum()), rng)
    ids = np.unique(drawn, return_inverse=True)[1].astype(np.int32)
    return TableBatch(rows, columns, ids, np.concatenate([[0], np.cumsum(length)]))
