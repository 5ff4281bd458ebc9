"""Misses of a cache whose accesses come batch by batch: every distinct row of a batch is one access.

What a software-managed cache of embedding rows sees. A batch draws n rows independently; the row with probability p is
among them with q = 1 - (1 - p)^n, and u(m) = sum 1 - (1 - p)^(n m) are the distinct rows of m batches. Rows of a batch
are accessed in the order of their ids, so between two accesses of a row m batches apart lie u(m) distinct rows.
"""

from __future__ import annotations

import numpy as np

from archmodel.memory.cache import Popularity, _set_sizes, _solve, characteristic_draws
from archmodel.memory.cache_policy import Policy, check_cache
from archmodel.quantities import Array, Num


def paged(popularity: Popularity, rows_per_page: Num) -> Popularity:
    """Popularity of pages of consecutive rows, when ids are no order of popularity.

    With R rows on R/k pages, the R/k most popular rows are each taken to be on a page of their own, with an even part
    of all other accesses: right for rows alike and for few hot rows, a little too even in between.
    """
    k = np.asarray(rows_per_page, dtype=np.float64)
    pages = popularity.rows.sum(-1) / k
    before = np.cumsum(popularity.rows, axis=-1) - popularity.rows
    first = np.clip(pages[..., None] - before, 0.0, popularity.rows)
    rest = ((popularity.rows - first) * popularity.probability).sum(-1) / np.maximum(pages, 1e-300)
    return Popularity(popularity.probability + np.where(k > 1, rest, 0.0)[..., None], first)


_SIZES = 12
"""Sizes that stand for the spread of a set-associative cache's sets."""
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
    law = {"lru": _lru, "fifo": _fifo, "lfu": _lfu}[policy]
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
    with np.errstate(invalid="ignore", divide="ignore"):
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


def _fifo(popularity: Popularity, size: Array, n: Array) -> Array:
    """A row stays while as many others come as the cache has places, T batches, and is missed once in T + 1/q:

        misses = sum q / (1 + q T'),   sum q T / (1 + q T) = cache rows

    with T' the whole batches in T (for large T less half of one, their mean). Several T can keep themselves up; a cache
    that was empty reaches the smallest. After Martina, Garetto, Leonardi, INFOCOM 2014, whose references come singly.
    """
    q = -np.expm1(popularity._log_missed(n))
    rows = np.where(popularity.probability > 0, popularity.rows, 0.0)

    def occupancy(time: Num) -> Array:
        load = q * np.asarray(time)[..., None]
        return np.asarray((rows * (load / (1.0 + load))).sum(-1))

    def missed(time: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(q > 0, rows * q / (1.0 + q * time[..., None]), 0.0).sum(-1))

    time = np.zeros(np.broadcast_shapes(size.shape, q.shape[:-1]))
    for _ in range(2 * _STEPS):
        time = np.floor(size / np.maximum(missed(time), 1e-300) + 1e-9)
    whole = np.where(time >= _STEPS, _solve(Popularity(q, rows), size, occupancy, least_time=1e-12) - 0.5, time)
    return np.where(np.isfinite(whole), missed(np.where(np.isfinite(whole), whole, 0.0)), 0.0)


def _lfu(popularity: Popularity, size: Array, n: Array) -> Array:
    """In the long run the rows that most batches have are inside: misses = sum of q over all others."""
    q = -np.expm1(popularity._log_missed(n))
    before = np.cumsum(popularity.rows, axis=-1) - popularity.rows
    inside = np.clip(size[..., None] - before, 0.0, popularity.rows)
    return np.asarray(((popularity.rows - inside) * q).sum(-1))
