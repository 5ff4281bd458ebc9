"""What every distribution of row ids answers: distinct rows, hit rates, bytes per tier, imbalance, samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from archmodel.components.base import Component, Family
from archmodel.errors import ArchmodelError
from archmodel.memory.cache import Popularity, hit_rate
from archmodel.memory.cache_policy import Policy
from archmodel.quantities import Array, Num

HEAD = 64
"""Most popular rows that stand one by one."""

_DEALT = 256
_HOT = 2048


class AccessError(ArchmodelError, ValueError):
    """Accesses that no table has, or a question that a distribution cannot answer."""


class AccessDistribution(Component):
    """Base of all distributions of row ids; a kind implements `popularity` and `sample`.

    Everything broadcasts over tables: `num_embeddings` (T,) and `draws` (T,) give (T,). Popularity ranks are mapped to
    row ids by a fixed random permutation, so a contiguous block of rows holds its share of hot rows.
    """

    def popularity(self, num_embeddings: Num) -> Popularity:
        """How accesses spread over the rows, arrays of shape (T, classes)."""
        raise NotImplementedError

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """`count` popularity ranks in [0, num_embeddings), 0 the most popular."""
        raise NotImplementedError

    def expected_unique(self, num_embeddings: Num, draws: Num) -> Array:
        """Expected distinct rows among `draws` independent draws, shape of the broadcast arguments."""
        rows, n = np.broadcast_arrays(np.asarray(num_embeddings, dtype=np.float64), np.asarray(draws, dtype=np.float64))
        return np.asarray(np.minimum(np.minimum(self.popularity(rows).unique(n), rows), n))

    def hot_share(self, num_embeddings: Num, hot_rows: Num) -> Array:
        """Share of the accesses that go to the `hot_rows` most popular rows."""
        return self.popularity(num_embeddings).top_share(hot_rows)

    def hit_rate(
        self,
        num_embeddings: Num,
        cache_rows: Num,
        policy: Policy = "lru",
        ways: int | None = None,
        draws: Num | None = None,
    ) -> Array:
        """Share of accesses that hit a cache of `cache_rows` rows, in the long run or over the first `draws` from
        empty.

        `policy`: ideal (most popular rows pinned), lru, lfu or fifo; `ways`: rows of a set, None for fully associative.
        In [0, 1]; never falls as the cache grows.
        """

        def top(size: Num) -> Array:
            return self.hot_share(num_embeddings, size)

        found = hit_rate(self.popularity(num_embeddings), cache_rows, policy, ways, draws, top)
        return np.where(np.asarray(num_embeddings) > 0, found, 0.0)

    def bytes_per_tier(
        self,
        num_embeddings: Num,
        draws: Num,
        row_bytes: Num,
        cache_rows: npt.ArrayLike,
        policy: Policy = "lru",
        ways: int | None = None,
        cold: bool = False,
    ) -> Array:
        """Bytes that each tier of a hierarchy serves, (..., tiers): caches of `cache_rows` rows (the last axis, fastest
        first) above the home of the table, which comes last. They add up to draws x row bytes.

        A row is served by the first tier that holds it; the tiers hold different rows, as LRU tiers do that demote what
        they evict, so the first k of them hit as one cache of their rows together.
        """
        sizes = np.cumsum(np.asarray(cache_rows, dtype=np.float64), axis=-1)
        n = np.asarray(draws, dtype=np.float64)
        rates = [
            self.hit_rate(num_embeddings, sizes[..., k], policy, ways, n if cold else None)
            for k in range(sizes.shape[-1])
        ]
        upto = np.stack(np.broadcast_arrays(0.0, *rates, np.ones_like(n)), axis=-1)
        return np.asarray(np.diff(upto, axis=-1) * (n * np.asarray(row_bytes))[..., None])

    def imbalance(self, num_embeddings: int, draws: float, shards: int, seed: int = 0) -> float:
        """Expected load of the busiest of `shards` equal row shards over the mean load, in a batch of `draws` draws.

        The hottest rows are dealt to shards 256 times by a seeded generator; all others, and the chance of the draws,
        give every shard a normal share of variance n/W (1 - 1/W) (1 + (n - 1) sum p^2), the sum over the rows not
        dealt.
        """
        if shards < 1:
            raise AccessError(f"{shards} shards: 1 or more are needed")
        n = float(draws)
        if shards == 1 or n <= 0 or num_embeddings <= 0:
            return 1.0
        rng = np.random.default_rng(seed)
        spread = self.popularity(float(num_embeddings))
        edges = np.concatenate([[0.0], np.cumsum(spread.rows)])
        mass = np.concatenate([[0.0], np.cumsum(spread.rows * spread.probability)])
        hot = min(_HOT, int(num_embeddings))
        each = np.diff(np.interp(np.arange(hot + 1), edges, mass))
        rest = max(1.0 - float(each.sum()), 0.0)
        square = max(float((spread.rows * spread.probability**2).sum() - (each**2).sum()), 0.0)
        shard = rng.integers(0, shards, (_DEALT, hot)) + np.arange(_DEALT)[:, None] * shards
        dealt = np.bincount(shard.ravel(), np.tile(each, _DEALT), _DEALT * shards).reshape(_DEALT, shards)
        load = n * (dealt + rest / shards)
        noise = np.sqrt(load + n * n * square / shards * (1.0 - 1.0 / shards))
        load = load + noise * rng.standard_normal(load.shape)
        return float(np.clip(load.max(-1).mean() / (n / shards), 1.0, shards))

    def shrunk(self, num_embeddings: int) -> AccessDistribution:
        """The same distribution for a smaller table of a design that is run at reduced size."""
        return self


def by_lorenz(num_embeddings: Num, rows: Array, mass: Array) -> Popularity:
    """The popularity whose share of accesses to the first rows is the curve `mass` over `rows` (both from 0, rising).

    A table with fewer rows than the curve has has the same curve over its rows; one with more has rows that are never
    accessed. The first 64 rows stand one by one, so that no row has more than its share.
    """
    table = np.asarray(num_embeddings, dtype=np.float64)[..., None]
    scale = rows[-1] / np.maximum(np.minimum(table, rows[-1]), 1e-300)
    first = np.minimum(np.arange(HEAD + 1.0), table)
    classes = np.clip(rows[1:] / scale, np.minimum(HEAD, table), table)
    edge = np.concatenate([first, classes], axis=-1)
    amount = np.diff(edge, axis=-1)
    share = np.diff(np.interp(edge * scale, rows, mass), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        probability = np.where(amount > 0, share / np.where(amount > 0, amount, 1.0), 0.0)
    return Popularity(probability, amount)


AccessFamily: Family[AccessDistribution] = Family(
    "access", {"reuse_histogram": "archmodel.memory.access_histogram", "trace": "archmodel.memory.access_trace"}
)


def drawn_by_lorenz(
    num_embeddings: int, rows: Array, mass: Array, count: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Popularity ranks drawn from the curve of `by_lorenz`."""
    scale = rows[-1] / min(num_embeddings, rows[-1])
    position = np.interp(rng.random(count) * mass[-1], mass, rows) / scale
    return np.asarray(np.minimum(position.astype(np.int64), num_embeddings - 1))
