"""Misses of a cache whose accesses come batch by batch: every distinct row of a batch is one access.

What a software-managed cache of embedding rows sees. A batch draws n rows independently; the row with probability p is
among them with q = 1 - (1 - p)^n, and u(m) = sum 1 - (1 - p)^(n m) are the distinct rows of m batches. Rows of a batch
are accessed in the order of their ids, so between two accesses of a row m batches apart lie u(m) distinct rows.
"""

from __future__ import annotations

import numpy as np

from archmodel.memory.cache import Popularity, _set_sizes, characteristic_draws
from archmodel.memory.cache_policy import Policy, check_cache
from archmodel.quantities import Array, Num


def paged(popularity: Popularity, rows_per_page: Num) -> Popularity:
    """Popularity of pages of consecutive rows, when ids are no order of popularity.

    Of R / k pages, those whose hottest row is of class j are (G_j^k - G_(j+1)^k) R / k, with G_j the share of the rows
    that are of class j or colder; the k - 1 others on such a page are of these, with their mean popularity. What that
    is off in sum is spread in proportion.
    """
    k = np.maximum(np.asarray(rows_per_page, dtype=np.float64), 1.0)[..., None]
    rows, mass = popularity.rows, popularity.rows * popularity.probability
    all_rows = rows.sum(-1, keepdims=True)
    colder = np.flip(np.cumsum(np.flip(rows, -1), -1), -1)
    of_them = np.flip(np.cumsum(np.flip(mass, -1), -1), -1)
    upto = (colder / np.maximum(all_rows, 1e-300)) ** k
    hottest = np.concatenate([upto[..., :-1] - upto[..., 1:], upto[..., -1:]], axis=-1)
    pages = np.where(k > 1, all_rows / k * hottest, rows)
    rest = of_them / np.maximum(colder, 1e-300)
    share = popularity.probability + np.where(k > 1, k - 1.0, 0.0) * rest
    total = (pages * share).sum(-1, keepdims=True)
    right = np.where(k > 1, mass.sum(-1, keepdims=True) / np.maximum(total, 1e-300), 1.0)
    return Popularity(share * right, pages)


_SIZES = 12
"""Sizes that stand for the spread of a set-associative cache's sets."""
_ROUNDS = 60
"""Steps in which the misses of a FIFO cache settle."""
_STEPS = 8
"""Batches that a cache remembers from which on whole ones are not told apart."""


def batch_misses(
    popularity: Popularity, cache_rows: Num, draws: Num, policy: Policy = "lru", ways: int | None = None
) -> Array:
    """Expected rows of a batch of `draws` draws that a cache of `cache_rows` rows does not hold, in the long run.

    Broadcasts as `cache.hit_rate` does. Between 0 and the distinct rows of a batch; never rises as the cache grows.
    `policy`: lru, lfu or fifo. Probabilities need not add up to 1: a part of a table's rows is a cache of its own.
    """
    check_cache(float(np.max(np.asarray(cache_rows), initial=0.0)), policy, ways)
    check_cache(float(np.min(np.asarray(cache_rows), initial=0.0)), policy, ways)
    size = np.asarray(cache_rows, dtype=np.float64)
    n = np.asarray(draws, dtype=np.float64)
    if policy == "fifo":
        found = _fifo(popularity, size, n, ways)
    else:
        law = {"lru": _lru, "lfu": _lfu}[policy]
        sizes = np.stack(np.broadcast_arrays(*([size] if ways is None else _set_sizes(size, ways, _SIZES))))
        found = law(popularity, sizes, n).mean(0)
    everything = popularity.unique(n)
    found = np.where(size >= popularity.reachable * (1 - 1e-12), 0.0, found)
    return np.clip(np.where(size > 0, found, everything), 0.0, everything)


def _lru(popularity: Popularity, size: Array, n: Array) -> Array:
    """A row is still there m batches later when the u(m) distinct rows since fit, so with T batches that fit

        misses = u(T + 1) - u(T),   u(T) = cache rows

    T a whole number: for small T the chance H_m that u(m) rows fit, a normal variable's,

        misses = sum_m (u(m + 1) - u(m)) (H_m - H_(m+1))

    and for large T the mean over where in the step the cache lies, u(T + 1/2) - u(T - 1/2).
    """
    drawn = characteristic_draws(popularity, size)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        batches = np.where(n > 0, drawn / np.maximum(n, 1e-300), np.inf)
    far = np.where(np.isfinite(drawn), drawn, 0.0)
    smooth = popularity.unique(far + n / 2) - popularity.unique(np.maximum(far - n / 2, 0.0))
    smooth = np.where(np.isfinite(drawn), smooth, 0.0)
    last = popularity.unique((_STEPS + 0.5) * n) - popularity.unique((_STEPS - 0.5) * n)
    return np.asarray(np.where(batches >= _STEPS, smooth, np.maximum(_few_batches(popularity, size, n), last)))


def _few_batches(popularity: Popularity, size: Array, n: Array) -> Array:
    """The sum over m of `_lru`."""
    from scipy.special import ndtr

    before, fits, total = np.zeros(()), np.ones(()), np.zeros(())
    for m in range(1, 2 * _STEPS):
        distinct = popularity.unique(m * n)
        absent = np.exp(popularity._log_missed(m * n))
        present = np.where(popularity.probability > 0, popularity.rows, 0.0)
        spread = np.sqrt((present * absent * (1.0 - absent)).sum(-1))
        fits_next = np.minimum(ndtr((size + 0.5 - distinct) / np.maximum(spread, 1e-9)), fits)
        if m == 2 * _STEPS - 1:
            fits_next = np.zeros_like(fits_next)
        total = total + (distinct - before) * (fits - fits_next)
        before, fits = distinct, fits_next
    return np.asarray(total)


def _fifo(popularity: Popularity, size: Array, n: Array, ways: int | None = None) -> Array:
    """A row stays K batches, while as many others come as the cache has places, and is missed once in K + 1/q:

        misses = M = sum q / (1 + q E[K]),   E[K] = sum over m of P(rows that come in m batches <= cache rows)

    these rows a normal variable of mean m M and variance m sum x (1 - x), x = q / (1 + q E[K]). For many batches E[K]
    is cache rows / M - 1/2. Several M can keep themselves up; a cache that was empty reaches the largest, which chance
    lets it leave where the batches vary: in sets of S more than in one cache, by S times the variance. The other part
    of what makes sets differ, sum q^2 of sum q, is the popularity of their rows: it spreads their sizes.
    """
    from scipy.special import ndtr

    q = -np.expm1(popularity._log_missed(n))
    rows = np.where(popularity.probability > 0, popularity.rows, 0.0)
    sets = np.ones_like(size) if ways is None else np.maximum(np.floor(size / ways), 1.0)
    spread = np.stack(np.broadcast_arrays(*([size] if ways is None else _set_sizes(size, ways, _SIZES))))
    mean = spread.mean(0)
    batches = np.zeros(np.broadcast_shapes(spread.shape, q.shape[:-1]))
    for _ in range(_ROUNDS):
        comes = q / (1.0 + q * batches[..., None])
        there = comes * (1.0 + batches[..., None])
        fixed = (rows * there**2).sum(-1) / np.maximum((rows * there).sum(-1), 1e-300)
        sizes = mean + (spread - mean) * np.sqrt(fixed)
        missed = np.maximum((rows * comes).sum(-1), 1e-300)
        deviation = np.sqrt(np.maximum((rows * comes * (1.0 - comes)).sum(-1) * sets, 1e-18))
        few = sum(
            (ndtr((sizes - 0.5 * sets - m * missed) / (np.sqrt(m) * deviation)) for m in range(1, 2 * _STEPS)),
            np.zeros(()),
        )
        batches = np.where(sizes / missed > _STEPS, sizes / missed - 0.5, few)
    return np.asarray((rows * q / (1.0 + q * batches[..., None])).sum(-1).mean(0))


def _lfu(popularity: Popularity, size: Array, n: Array) -> Array:
    """In the long run the rows that most batches have are inside: misses = sum of q over all others."""
    q = -np.expm1(popularity._log_missed(n))
    before = np.cumsum(popularity.rows, axis=-1) - popularity.rows
    inside = np.clip(size[..., None] - before, 0.0, popularity.rows)
    return np.asarray(((popularity.rows - inside) * q).sum(-1))
