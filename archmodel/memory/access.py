"""How the rows of an embedding table are accessed: the distribution that batches draw row ids from.

Kinds: `uniform`, `zipf` (here), `reuse_histogram`, `trace`. Everything broadcasts over tables: `num_embeddings` (T,)
and `draws` (T,) give (T,).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from archmodel.memory.access_base import HEAD, AccessDistribution, AccessError, AccessFamily
from archmodel.memory.cache import Popularity, legendre
from archmodel.quantities import Array, Num, Ratio

if TYPE_CHECKING:
    from archmodel.memory.access_histogram import ReuseHistogram
    from archmodel.memory.access_trace import Trace

__all__ = [
    "AccessDistribution",
    "AccessError",
    "AccessFamily",
    "ReuseHistogram",
    "Trace",
    "Uniform",
    "Zipf",
]
_HOMES = {"ReuseHistogram": "access_histogram", "Trace": "access_trace"}
_NODES = 48
"""Of the quadrature of a Zipf tail."""
_ENOUGH = 10
"""Accesses after which a row's place among the most popular ones is trusted, and such rows for a fit."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"archmodel.memory.{_HOMES[name]}"), name)


@AccessFamily.register
class Uniform(AccessDistribution):
    """Every row is equally likely."""

    kind: Literal["uniform"] = "uniform"

    def popularity(self, num_embeddings: Num) -> Popularity:
        rows = np.asarray(num_embeddings, dtype=np.float64)[..., None]
        return Popularity(np.where(rows > 0, 1.0 / np.maximum(rows, 1.0), 0.0), rows)

    def expected_unique(self, num_embeddings: Num, draws: Num) -> Array:
        """R (1 - (1 - 1/R)^n): the occupancy problem (Feller, An Introduction to Probability Theory, vol. 1, IV.2)."""
        rows = np.maximum(np.asarray(num_embeddings, dtype=np.float64), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            unique = -rows * np.expm1(np.asarray(draws, dtype=np.float64) * np.log1p(-1.0 / rows))
        unique = np.where(np.asarray(draws) > 0, np.minimum(unique, draws), 0.0)  # a mean of less than one draw
        return np.where(np.asarray(num_embeddings) > 0, unique, 0.0)

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return rng.integers(0, num_embeddings, size=count, dtype=np.int64)


@AccessFamily.register
class Zipf(AccessDistribution):
    """Row of popularity rank i (from 1) is drawn with probability i^-alpha / H(R, alpha); alpha = 0 is uniform."""

    kind: Literal["zipf"] = "zipf"
    alpha: Ratio

    def popularity(self, num_embeddings: Num) -> Popularity:
        """The first 64 rows one by one, the tail by Gauss-Legendre quadrature in log(rank)."""
        weight, rows, total = self._weights(np.asarray(num_embeddings, dtype=np.float64)[..., None])
        return Popularity(np.where(rows > 0, weight / total, 0.0), rows)

    def expected_unique(self, num_embeddings: Num, draws: Num) -> Array:
        """sum_i 1 - (1 - p_i)^n, the first rows one by one, the tail by Gauss-Legendre quadrature in log(rank)."""
        return super().expected_unique(num_embeddings, draws)

    def hot_share(self, num_embeddings: Num, hot_rows: Num) -> Array:
        """H(hot rows, alpha) / H(R, alpha), both tails by the midpoint rule."""
        rows, hot = np.broadcast_arrays(
            np.asarray(num_embeddings, dtype=np.float64), np.asarray(hot_rows, dtype=np.float64)
        )
        alpha = float(self.alpha)
        rank = np.arange(1.0, HEAD + 1)
        total = self._weights(rows[..., None])[2][..., 0]
        size = np.clip(hot, 0.0, rows)
        head = (np.clip(size[..., None] - (rank - 1.0), 0.0, 1.0) * rank**-alpha).sum(-1)
        start, slope = HEAD + 0.5, 1.0 - alpha
        log_ratio = np.log(np.maximum(size, HEAD) + 0.5) - np.log(start)
        tail = log_ratio if slope == 0.0 else np.expm1(slope * log_ratio) / slope
        return np.asarray(np.minimum((head + start**slope * tail) / total, 1.0))

    def _weights(self, rows: Array) -> tuple[Array, Array, Array]:
        """rank^-alpha and rows of every class, and their sum H(R, alpha); `rows` (..., 1)."""
        alpha = float(self.alpha)
        head = np.arange(1.0, HEAD + 1)
        present = np.clip(rows - head + 1.0, 0.0, 1.0)
        # tail: ranks HEAD + 1/2 .. rows + 1/2 (midpoint rule), substituted by rank = exp(u)
        low, high = np.log(HEAD + 0.5), np.log(np.maximum(rows, HEAD) + 0.5)
        half = (high - low) / 2
        nodes, weights = legendre(_NODES)
        rank = np.exp(low + half * (nodes + 1))
        weight = np.concatenate([np.broadcast_to(head**-alpha, present.shape), rank**-alpha], axis=-1)
        amount = np.concatenate([present, half * weights * rank], axis=-1)
        total = np.maximum((weight * amount).sum(-1, keepdims=True), np.finfo(float).tiny)
        return weight, amount, total

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        weights = np.arange(1.0, num_embeddings + 1) ** -float(self.alpha)
        edges = np.cumsum(weights)
        ranks = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
        return np.asarray(np.minimum(ranks, num_embeddings - 1), dtype=np.int64)

    @classmethod
    def fit(cls, counts: npt.ArrayLike, num_embeddings: int, most: float = 4.0) -> Zipf:
        """The Zipf distribution of a table of `num_embeddings` rows that was accessed `counts` times per row.

        Maximum likelihood over the k rows of 10 accesses or more, whose ranks are known, all others together:

            sum_{i<=k} c_i log p_i + (n - sum c_i) log(1 - sum p_i)

        Zero counts may be left out. Raises AccessError with fewer than 10 such rows.
        """
        count = np.sort(np.asarray(counts, dtype=np.float64))[::-1]
        if count.ndim != 1 or not np.all(np.isfinite(count)) or np.any(count < 0):
            raise AccessError("counts of accesses, one per row, none negative, are needed for a fit")
        if len(count) > num_embeddings and count[num_embeddings] > 0:
            raise AccessError(f"more than {num_embeddings:,} rows were accessed in a table of {num_embeddings:,}")
        trusted = count[count >= _ENOUGH]
        if len(trusted) < _ENOUGH:
            raise AccessError(f"{len(trusted)} rows of {_ENOUGH} or more accesses; {_ENOUGH} are needed for a fit")
        log_rank = np.log(np.arange(1.0, len(trusted) + 1))
        rest = float(count.sum() - trusted.sum())

        def likelihood(alpha: float) -> float:
            one = cls(alpha=alpha)
            total = float(one._weights(np.array([float(num_embeddings)]))[2][0])
            top = float(one.hot_share(float(num_embeddings), float(len(trusted))))
            known = -alpha * float(trusted @ log_rank) - float(trusted.sum()) * np.log(total)
            return float(known + (rest * np.log(max(1.0 - top, 1e-300)) if rest else 0.0))

        low, high = 0.0, most
        for _ in range(6):
            grid = np.linspace(low, high, 17)
            best = int(np.argmax([likelihood(float(alpha)) for alpha in grid]))
            low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 16)])
        return cls(alpha=round((low + high) / 2, 6))
