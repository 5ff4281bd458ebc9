"""How the rows of an embedding table are accessed: the distribution that batches draw row ids from.

Everything broadcasts over tables: `num_embeddings` (T,) and `draws` (T,) give (T,).
Popularity ranks are mapped to row ids by a fixed random permutation, so a contiguous block of rows holds its share of
hot rows; row shards therefore see indices in proportion to their rows.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from archmodel.components.base import Component, Family
from archmodel.quantities import Array, Ratio

_HEAD = 64  # most popular rows that are summed one by one
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


class AccessDistribution(Component):
    """Base of all distributions of row ids; a kind implements `popularity_exponent` or overrides the methods."""

    def expected_unique(self, num_embeddings: Array, draws: Array) -> Array:
        """Expected distinct rows among `draws` independent draws, shape of the broadcast arguments."""
        raise NotImplementedError

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`count` popularity ranks in [0, num_embeddings), 0 the most popular."""
        raise NotImplementedError


AccessFamily: Family[AccessDistribution] = Family("access")


@AccessFamily.register
class Uniform(AccessDistribution):
    """Every row is equally likely."""

    kind: Literal["uniform"] = "uniform"

    def expected_unique(self, num_embeddings: Array, draws: Array) -> Array:
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

    def expected_unique(self, num_embeddings: Array, draws: Array) -> Array:
        """sum_i 1 - (1 - p_i)^n, the first rows one by one, the tail by Gauss-Legendre quadrature in log(rank)."""
        rows, n = np.broadcast_arrays(
            np.asarray(num_embeddings, dtype=np.float64)[..., None],
            np.asarray(draws, dtype=np.float64)[..., None],
        )
        alpha = float(self.alpha)
        head = np.arange(1.0, _HEAD + 1)
        present = head <= rows
        # tail: ranks _HEAD + 1/2 .. rows + 1/2 (midpoint rule), substituted by rank = exp(u)
        low, high = np.log(_HEAD + 0.5), np.log(np.maximum(rows, _HEAD) + 0.5)
        half = (high - low) / 2
        rank = np.exp(low + half * (_NODES + 1))
        measure = half * _WEIGHTS * rank
        mass = np.where(present, head**-alpha, 0.0).sum(-1, keepdims=True)
        tail_mass = (measure * rank**-alpha).sum(-1, keepdims=True)
        total = np.maximum(mass + tail_mass, np.finfo(float).tiny)
        seen_head = np.where(present, _seen(head**-alpha / total, n), 0.0).sum(-1)
        seen_tail = (measure * _seen(rank**-alpha / total, n)).sum(-1)
        unique = np.minimum(np.minimum(seen_head + seen_tail, rows[..., 0]), n[..., 0])
        return np.asarray(np.where(rows[..., 0] > 0, unique, 0.0))

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        weights = np.arange(1.0, num_embeddings + 1) ** -float(self.alpha)
        edges = np.cumsum(weights)
        ranks = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
        return np.asarray(ranks, dtype=np.int64)


def _seen(p: Array, draws: Array) -> Array:
    """Probability that a row of probability p is drawn at least once: 1 - (1 - p)^n."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = -np.expm1(draws * np.log1p(-np.minimum(p, 1.0)))
    return np.where(draws > 0, seen, 0.0)
