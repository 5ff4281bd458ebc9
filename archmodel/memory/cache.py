"""Hit rates of caches in closed form, for rows that are drawn independently with fixed popularity.

Every law takes a `Popularity` and broadcasts: its arrays end in an axis of classes, `cache_rows` and `draws` have the
shape before it. What an access finds depends on how many draws fit into the cache's memory of the past, so everything
rests on two sums over rows with probabilities p:

    unique(n) = sum_i 1 - (1 - p_i)^n          distinct rows among n draws
    fresh(n)  = sum_i p_i (1 - p_i)^n          probability that draw n + 1 is to a row not among them
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from archmodel.memory.cache_policy import Policy, check_cache
from archmodel.quantities import Array, Num

if TYPE_CHECKING:
    from collections.abc import Callable

_HALVINGS = 44
_LONGEST = 80.0
"""Logarithm of the most draws that are looked at."""
_FAR = 64.0
"""A count that a row which is hardly ever drawn does not reach."""
_MIXED = 24
"""Sizes that stand for the spread of a set-associative cache's sets."""
_NODES = 12


@lru_cache
def legendre(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    return np.polynomial.legendre.leggauss(nodes)


@dataclass(frozen=True)
class Popularity:
    """How the accesses to a table spread: classes of `rows` rows with `probability` each, most popular first, (..., K).

    `rows` need not be whole: a class may stand for a stretch of a smooth distribution.
    """

    probability: Array
    rows: Array

    @property
    def reachable(self) -> Array:
        """Rows that are ever accessed, (...)."""
        return np.asarray(np.where(self.probability > 0, self.rows, 0.0).sum(-1))

    def _log_missed(self, draws: Num) -> Array:
        """n log(1 - p) of every class, (..., K); `draws` may be infinite."""
        log_not = np.log1p(-np.minimum(self.probability, 1.0 - 1e-16))
        with np.errstate(invalid="ignore"):
            found = np.asarray(draws, dtype=np.float64)[..., None] * log_not
        return np.where(self.probability > 0, found, 0.0)

    def unique(self, draws: Num) -> Array:
        """Expected distinct rows among `draws` draws."""
        return np.asarray((self.rows * -np.expm1(self._log_missed(draws))).sum(-1))

    def fresh(self, draws: Num) -> Array:
        """Probability that the draw after `draws` draws is to a row not among them."""
        return np.asarray((self.rows * self.probability * np.exp(self._log_missed(draws))).sum(-1))

    def top_share(self, cache_rows: Num) -> Array:
        """Share of the accesses that go to the `cache_rows` most popular rows."""
        size = np.asarray(cache_rows, dtype=np.float64)[..., None]
        before = np.cumsum(self.rows, axis=-1) - self.rows
        return np.asarray((np.clip(size - before, 0.0, self.rows) * self.probability).sum(-1))


def hit_rate(
    popularity: Popularity,
    cache_rows: Num,
    policy: Policy = "lru",
    ways: int | None = None,
    draws: Num | None = None,
    top_share: Callable[[Num], Array] | None = None,
) -> Array:
    """Share of accesses that hit a cache of `cache_rows` rows: in the long run, or over the first `draws` from empty.

    The policies are `ideal` (the most popular rows are pinned, over `draws` draws those that these use most; they need
    no first access), `lru`, `fifo` and `lfu`, fully associative, or in sets of `ways` rows. In [0, 1]; never falls as
    the cache grows. With one row a set FIFO is LRU; between one way and many, FIFO's law is corrected by 1 / ways of
    the difference. `top_share` replaces the popularity's own.
    """
    check_cache(float(np.max(np.asarray(cache_rows), initial=0.0)), policy, ways)
    check_cache(float(np.min(np.asarray(cache_rows), initial=0.0)), policy, ways)
    top = top_share if top_share is not None else popularity.top_share
    size = np.asarray(cache_rows, dtype=np.float64)
    law = {"ideal": _ideal, "lru": _lru, "fifo": _fifo, "lfu": _lfu}[policy]
    if ways is None:
        found = law(popularity, size, draws, top)
    else:
        spread = _set_sizes(size, ways)
        found = np.mean([law(popularity, one, draws, top) for one in spread], axis=0)
        if policy == "fifo":
            recent = np.mean([_lru(popularity, one, draws, top) for one in spread], axis=0)
            found = found + (recent - found) / ways
    return np.clip(np.where(size > 0, found, 0.0), 0.0, 1.0)


def characteristic_draws(popularity: Popularity, cache_rows: Num) -> Array:
    """T with unique(T) = cache rows: how many draws back an LRU cache remembers; infinite when it holds everything.

    Che, Tung, Wang, "Hierarchical Web caching systems", IEEE JSAC 20(7), 2002.
    """
    return characteristic(popularity.unique, popularity.probability, popularity.reachable, cache_rows)


def characteristic(
    occupancy: Callable[[Num], Array], chance: Array, reachable: Array, cache_rows: Num, steepest: Num = 1.0
) -> Array:
    """n with occupancy(n) = cache rows, by bisection in log(n), infinite where they are all that is `reachable`.

    occupancy(n) <= n x `steepest`, which bounds n from below; the least `chance` (..., K) above 0 does from above.
    """
    size, everything = np.broadcast_arrays(np.asarray(cache_rows, dtype=np.float64), reachable)
    least = np.where(chance > 0, chance, np.inf).min(-1)
    low = np.log(np.maximum(size / np.maximum(steepest, 1e-300), 1e-12))
    high = np.clip(np.log(1e15) - np.log(np.minimum(least, 1.0)), low, np.maximum(low, _LONGEST))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        under = occupancy(np.exp(middle)) < size
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray(np.where(size >= everything * (1 - 1e-12), np.inf, np.exp((low + high) / 2)))


def _set_sizes(size: Array, ways: int, count: int = _MIXED) -> list[Array]:
    """Fully associative sizes whose mean hit rate is that of a set-associative cache.

    A row stays while fewer than `ways` others of its set come. Of d others, Poisson(d / S) fall in its set of S, so the
    d at which it goes is S times a Gamma(ways) variable, and

        h(S sets of W ways) = E[h(S X)],   X ~ Gamma(W)

    (A. J. Smith, "Cache Memories", Computing Surveys 14(3), 1982, section 2.2, has the binomial form; one set takes
    all, hence the spread shrinks by sqrt(1 - 1/S), and no size is below that of one set). The Gamma variable by its
    quantiles, as a ratio to its mean.
    """
    from scipy.special import gammaincinv

    ratio = gammaincinv(float(ways), (np.arange(count) + 0.5) / count) / ways
    ratio /= ratio.mean()
    sets = np.maximum(np.floor(size / ways), 1.0)
    narrower = np.sqrt(1.0 - 1.0 / sets)
    whole = np.minimum(sets * ways, size)
    return [np.maximum(whole * (1.0 + (float(r) - 1.0) * narrower), np.minimum(size, float(ways))) for r in ratio]


def _ideal(popularity: Popularity, size: Array, draws: Num | None, top: Callable[[Num], Array]) -> Array:
    """The share of the most popular rows: no policy does better under independent draws without knowing them
    (Aho, Denning, Ullman, "Principles of optimal page replacement", JACM 18(1), 1971).

    Of n draws, the rows that these use most, which chance made popular too: with Poisson(p n) counts,

        h = sum p P(count >= k - 1),   sum P(count >= k) = cache rows

    linear in the cache's rows between whole k.
    """
    if draws is None:
        return top(size)
    from scipy.special import gammainc

    p, rows = popularity.probability, popularity.rows
    mean = p * np.asarray(draws, dtype=np.float64)[..., None]

    def above(k: Array) -> Array:
        return np.where(k[..., None] > 0, gammainc(np.maximum(k, 1.0)[..., None], mean), 1.0)

    low = np.zeros(np.broadcast_shapes(np.shape(size), mean.shape[:-1]))
    high = low + np.ceil(2.0 * mean.max(-1) + 64.0)
    for _ in range(int(np.ceil(np.log2(high.max(initial=2.0)))) + 1):  # k: most rows that still fit have it
        middle = np.floor((low + high) / 2)
        many = (rows * above(middle)).sum(-1) > size
        low, high = np.where(many, middle, low), np.where(many, high, middle)
    some, more = (rows * above(high)).sum(-1), (rows * above(high - 1.0)).sum(-1)
    share = np.clip((size - some) / np.maximum(more - some, 1e-300), 0.0, 1.0)
    least, next_ = ((rows * p * above(np.maximum(k, 0.0))).sum(-1) for k in (high - 1.0, high - 2.0))
    full = high <= 1.0  # everything drawn fits
    return np.where(np.asarray(draws) > 0, np.where(full, 1.0, least + share * (next_ - least)), 0.0)


def _after_filling(popularity: Popularity, filled: Array, steady: Array, draws: Num | None) -> Array:
    """From empty, every distinct row misses once until the cache is full after `filled` draws:

    misses(n) = max(unique(min(n, filled)) + (n - filled) (1 - h), unique(n))

    since in any cache the first access to a row misses.
    """
    if draws is None:
        return steady
    n = np.asarray(draws, dtype=np.float64)
    first = np.minimum(n, filled)
    misses = popularity.unique(first) + np.maximum(n - first, 0.0) * (1.0 - steady)
    misses = np.maximum(misses, popularity.unique(n))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, 1.0 - misses / n, 0.0)


def _lru(popularity: Popularity, size: Array, draws: Num | None, top: Callable[[Num], Array]) -> Array:
    """Che's approximation: h = 1 - fresh(T), unique(T) = cache rows."""
    memory = characteristic_draws(popularity, size)
    return _after_filling(popularity, memory, 1.0 - popularity.fresh(memory), draws)


def _fifo(popularity: Popularity, size: Array, draws: Num | None, top: Callable[[Num], Array]) -> Array:
    """h = 1 - sum p / (1 + p T), where sum p T / (1 + p T) = cache rows; random replacement has the same law.

    Martina, Garetto, Leonardi, "A unified approach to the performance analysis of caching systems", INFOCOM 2014.
    """
    p, rows = popularity.probability, popularity.rows

    def occupancy(time: Num) -> Array:
        load = p * np.asarray(time)[..., None]
        return np.asarray((rows * (load / (1.0 + load))).sum(-1))

    time = characteristic(occupancy, p, popularity.reachable, size)
    with np.errstate(invalid="ignore"):
        missing = np.where(p > 0, rows * p / (1.0 + p * time[..., None]), 0.0).sum(-1)
    return _after_filling(popularity, characteristic_draws(popularity, size), 1.0 - missing, draws)


def _lfu(popularity: Popularity, size: Array, draws: Num | None, top: Callable[[Num], Array]) -> Array:
    """In the long run the most popular rows. After t draws, those with the highest counts, which are Poisson(p t):

        h(t) = sum p P(count >= k),   sum P(count >= k) = cache rows

    averaged over t, never more than what has been seen; until the cache is full everything seen is inside. The count's
    distribution by Wilson and Hilferty's cube root (PNAS 17, 1931), which makes the threshold k a real number.
    """
    if draws is None:
        return top(size)
    n = np.asarray(draws, dtype=np.float64)
    filled = np.minimum(characteristic_draws(popularity, size), n)
    span = np.log(np.maximum(n, 1e-9) / np.maximum(filled, 1e-9))
    misses = popularity.unique(filled)
    for node, weight in zip(*legendre(_NODES), strict=True):
        time = np.exp(np.log(np.maximum(filled, 1e-9)) + span * (node + 1) / 2)
        missing = np.maximum(1.0 - _most_counted(popularity, size, time), popularity.fresh(time))
        misses = misses + weight / 2 * span * time * missing
    misses = np.maximum(misses, popularity.unique(n))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, 1.0 - misses / n, 0.0)


def _most_counted(popularity: Popularity, size: Array, time: Array) -> Array:
    """Share of accesses to the `size` rows of the highest counts after `time` draws."""
    from scipy.special import ndtr

    p, rows = popularity.probability, popularity.rows
    mean = p * np.asarray(time)[..., None]
    most = mean.max(-1)
    low, high = np.zeros(np.shape(mean.sum(-1))), np.log(most + 10.0 * np.sqrt(most) + _FAR)
    inside = np.ones_like(mean)
    for _ in range(30):
        middle = (low + high) / 2
        k = np.exp(middle)[..., None]
        inside = ndtr(3.0 * np.sqrt(k) * (np.cbrt(mean / k) - 1.0 + 1.0 / (9.0 * k)))
        many = (rows * inside).sum(-1) > size
        low, high = np.where(many, middle, low), np.where(many, high, middle)
    held = (rows * inside).sum(-1)
    share = np.minimum(size / np.maximum(held, 1e-300), 1.0)  # where no k is high enough, of equals some
    return np.asarray((rows * p * inside).sum(-1) * share)


# --- one cache below many tables ----------------------------------------------------------------------------


def shared_misses(
    popularities: list[Popularity], draws: Array, row_bytes: Array, cache_bytes: Num, *, interleaved: bool = True
) -> Array:
    """Expected misses of each table in an LRU cache that several tables share, empty at first, (T,).

    What a processor's last-level cache leaves of a kernel's lookups: table t draws n_t rows of b_t bytes. Interleaved
    lookups fill the cache together at a share s of the way,

        sum_t b_t unique_t(s n_t) = cache bytes,   misses_t = unique_t(s n_t) + (1 - s) n_t fresh_t(s n_t)

    (Che's approximation with one time for all). Tables one after the other each have the whole cache.
    """
    count, size = np.asarray(draws, dtype=np.float64), np.asarray(row_bytes, dtype=np.float64)
    if not interleaved:
        rates = [
            hit_rate(one, float(cache_bytes) / b, "lru", draws=n)
            for one, n, b in zip(popularities, count, size, strict=True)
        ]
        return count * (1.0 - np.asarray(rates, dtype=np.float64))
    low, high = 0.0, 1.0

    def distinct(share: float) -> Array:
        return np.array([float(one.unique(share * n)) for one, n in zip(popularities, count, strict=True)])

    if float(size @ distinct(1.0)) <= float(cache_bytes):
        return distinct(1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(size @ distinct(middle)) < float(cache_bytes) else (low, middle)
    fresh = np.array([float(one.fresh(low * n)) for one, n in zip(popularities, count, strict=True)])
    return np.asarray(distinct(low) + (1.0 - low) * count * fresh)
