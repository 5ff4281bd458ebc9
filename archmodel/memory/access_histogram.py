"""Rows by how often a batch reuses them, as published with open traces of production tables."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from archmodel.memory.access_base import AccessDistribution, AccessFamily, by_lorenz, drawn_by_lorenz
from archmodel.memory.cache import Popularity
from archmodel.quantities import Array, Num, PositiveRatio

_PER_OCTAVE = 4
_ROUNDING = 5e-4
"""Half of the last digit that shares are published with."""

EDGES = tuple(float(2**k) for k in range(16))
"""Highest reuse counts of all bins but the last, which is open: 1, 2, 4, ..., 32768."""


@AccessFamily.register
class ReuseHistogram(AccessDistribution):
    """The distribution under which a batch reuses its rows as a published histogram says.

    `row_share[b]` of the distinct rows of a batch, with `index_share[b]` of its indices, are used more than
    `edges[b-1]` and at most `edges[b]` times; the last bin is open. A row of probability p is used Poisson(p n) times
    in a batch of n draws; rows are spread over a grid of p so that the expected histogram is the published one
    (non-negative least squares). Rows that the batch did not touch are part of it as far as the rows that it touched
    once imply them.
    """

    kind: Literal["reuse_histogram"] = "reuse_histogram"
    indices: PositiveRatio = Field(description="indices of the batch, all tables together")
    unique_rows: PositiveRatio = Field(description="distinct rows of the batch, all tables together")
    tables: PositiveRatio = Field(default=1.0, description="tables that the figures are the sum of")
    edges: tuple[float, ...] = Field(default=EDGES, description="highest reuse count of every bin but the last")
    row_share: tuple[float, ...] = Field(description="share of the distinct rows in each bin")
    index_share: tuple[float, ...] = Field(description="share of the indices in each bin")

    @model_validator(mode="after")
    def _agrees(self) -> ReuseHistogram:
        bins = len(self.edges) + 1
        for name in ("row_share", "index_share"):
            share = getattr(self, name)
            if len(share) != bins:
                raise ValueError(f"{name} has {len(share)} bins; {bins} are needed, one more than edges")
            if any(not 0 <= one <= 1 for one in share):
                raise ValueError(f"{name} has a share outside 0 to 1")
            if abs(sum(share) - 1) > 2 * _ROUNDING * bins:
                raise ValueError(f"{name} adds up to {sum(share):.3f}, not to 1")
        if any(b <= a for a, b in zip((0.0, *self.edges), self.edges, strict=False)):
            raise ValueError("edges must rise")
        if self.unique_rows > self.indices:
            raise ValueError(f"unique_rows {self.unique_rows:,.0f} are more than the {self.indices:,.0f} indices")
        return self

    @property
    def classes(self) -> tuple[Array, Array]:
        """Mean reuse in a batch, and rows of one table with it, most reused first."""
        shares = (self.edges, self.row_share, self.index_share)
        mean, rows = _fit(*shares, float(self.indices / self.unique_rows))
        return mean, rows * float(self.unique_rows / self.tables)

    @property
    def lorenz(self) -> tuple[Array, Array]:
        """Rows of one table, most popular first, and their share of the accesses, both summed up from 0."""
        mean, rows = self.classes
        mass = np.concatenate([[0.0], np.cumsum(mean * rows)])
        return np.concatenate([[0.0], np.cumsum(rows)]), mass / mass[-1]

    def popularity(self, num_embeddings: Num) -> Popularity:
        """That of an average table. One with fewer rows than are accessed there has the same curve over its own; in a
        larger one further rows are never accessed."""
        return by_lorenz(num_embeddings, *self.lorenz)

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return drawn_by_lorenz(num_embeddings, *self.lorenz, count, rng)

    def expected_histogram(self) -> tuple[Array, Array]:
        """`row_share` and `index_share` that a batch of the published size is expected to have."""
        mean, rows = _fit(self.edges, self.row_share, self.index_share, float(self.indices / self.unique_rows))
        by_row, by_index = _bins(mean, self.edges)
        unique, indices = by_row @ rows, by_index @ rows
        return unique / unique.sum(), indices / indices.sum()


def _bins(mean: Array, edges: tuple[float, ...]) -> tuple[Array, Array]:
    """P(count in bin) and E[count; count in bin] of Poisson counts, (bins, classes)."""
    from scipy.special import gammaincc

    edge = np.asarray(edges)[:, None]
    upto = np.concatenate([np.exp(-mean)[None], gammaincc(edge + 1, mean), np.ones((1, len(mean)))])
    below = np.concatenate([np.zeros((1, len(mean))), gammaincc(edge, mean), np.ones((1, len(mean)))])
    return np.diff(upto, axis=0), mean * np.diff(below, axis=0)


@lru_cache(maxsize=64)
def _fit(
    edges: tuple[float, ...], row_share: tuple[float, ...], index_share: tuple[float, ...], reuse: float
) -> tuple[Array, Array]:
    """Mean counts, falling, and rows with them per distinct row of the batch."""
    from scipy.optimize import nnls

    octaves = np.log2(edges[-1]) + 2.0
    mean = 2.0 ** np.arange(-2.0, octaves, 1.0 / _PER_OCTAVE)[::-1]
    by_row, by_index = _bins(mean, edges)
    want_rows, want_indices = np.asarray(row_share), np.asarray(index_share)
    want_rows, want_indices = want_rows / want_rows.sum(), want_indices / want_indices.sum()
    # rows of a bin are known to the last digit of their share, and from its indices within a factor of two
    row_error = np.maximum(_ROUNDING, 1e-3 * want_rows)
    index_error = np.maximum(_ROUNDING, 1e-3 * want_indices)
    total_error = 1e-5
    system = np.concatenate(
        [
            by_row / row_error[:, None],
            by_index / reuse / index_error[:, None],
            by_row.sum(0)[None] / total_error,
            by_index.sum(0)[None] / reuse / total_error,
        ]
    )
    wanted = np.concatenate(
        [want_rows / row_error, want_indices / index_error, [1.0 / total_error], [1.0 / total_error]]
    )
    scale = 1.0 / np.linalg.norm(system, axis=0)
    rows = nnls(system * scale, wanted)[0] * scale
    kept = rows > 0
    return mean[kept], rows[kept]
