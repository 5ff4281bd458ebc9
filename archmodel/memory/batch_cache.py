"""Misses of caches whose accesses come batch by batch: every distinct row of a batch is one access.

What a software-managed cache of embedding rows sees. A batch draws n rows independently; the row with probability p is
among them with q = 1 - (1 - p)^n, and u(m) = sum 1 - (1 - p)^(n m) are the distinct rows of m batches. Rows of a batch
are accessed in the order of their ids, so between two accesses of a row m batches apart lie u(m) distinct rows.

A cache below another is accessed by the misses of that one. The same laws hold, for rows that come back otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archmodel.memory.cache import Popularity, _set_sizes, characteristic
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


@dataclass(frozen=True)
class Accesses:
    """What batches ask a cache for: classes of `rows` rows (..., K), each in a batch with chance `rate`.

    `quiet`: logarithm of the chance that a row is not in a batch once `gap` (..., 1) batches have passed since the last
    that had it; within them it is in none. `gap` None: batches are independent, rate = 1 - exp(quiet).
    """

    rows: Array
    rate: Array
    quiet: Array
    table: Array
    """Rows of all classes that are ever drawn, (...)."""
    gap: Array | None = None

    @classmethod
    def of_draws(cls, popularity: Popularity, draws: Array) -> Accesses:
        """Of batches of `draws` draws each: rate = 1 - (1 - p)^n. Fewer than a double's square can hold are none."""
        quiet = popularity._log_missed(np.where(draws > np.sqrt(np.finfo(float).tiny), draws, 0.0))
        rows = np.where(popularity.probability > 0, popularity.rows, 0.0)
        return cls(rows, -np.expm1(quiet), quiet, popularity.reachable)

    @classmethod
    def of_misses(cls, rows: Array, rate: Array, gap: Array, table: Array) -> Accesses:
        """Of what a cache lets pass that remembers a row for `gap` batches: the time between two misses of a row is
        taken to be the gap and a geometric rest, whose mean is what is left of it:

            1 / h = 1 / rate - gap,   quiet = log(1 - h)
        """
        left = np.maximum(1.0 - rate * np.where(np.isfinite(gap), gap, 0.0), rate)
        h = np.where(rate > 0, rate / np.where(left > 0, left, 1.0), 0.0)
        return cls(rows, rate, np.log1p(-np.minimum(h, 1.0 - 1e-16)), table, gap)

    @property
    def distinct(self) -> Array:
        """Rows of a batch, (...)."""
        return np.asarray((self.rows * self.rate).sum(-1))

    @property
    def reachable(self) -> Array:
        """Rows that are ever in one, (...)."""
        return np.asarray(np.where(self.rate > 0, self.rows, 0.0).sum(-1))

    def seen(self, batches: Num) -> Array:
        """Chance that a row is in any of `batches` consecutive ones, (..., K), with S(i) = P(more than i batches
        between two that have it):

            rate x sum over i < m of S(i) = rate (min(m, gap) + (1 - exp(quiet (m - gap))) / h)
        """
        m = np.asarray(batches, dtype=np.float64)[..., None]
        if self.gap is None:
            with np.errstate(invalid="ignore"):
                return -np.expm1(np.where(self.rate > 0, m * self.quiet, 0.0))
        h = np.maximum(-np.expm1(self.quiet), 1e-300)
        rest = -np.expm1(self.quiet * np.maximum(m - self.gap, 0.0)) / h
        return np.minimum(self.rate * (np.minimum(m, self.gap) + rest), 1.0)

    def unique(self, batches: Num) -> Array:
        """Distinct rows of `batches` consecutive ones, (...)."""
        return np.asarray((self.rows * self.seen(batches)).sum(-1))

    def renewals(self, batches: Array) -> Array:
        """Batches that have a row among the `batches` (..., 1) after one that has it, (..., K): of a renewal process in
        the long run m rate + (c^2 - 1 + rate) / 2 (Feller, vol. 1, XIII.11), c the coefficient of variation of the time
        between two; at least the chance of one."""
        if self.gap is None:
            return self.rate * batches
        varied = np.exp(self.quiet) * (1.0 - self.rate * self.gap) ** 2
        once = -np.expm1(self.quiet * np.maximum(batches - self.gap, 0.0))
        return np.maximum(self.rate * batches + (varied - 1.0 + self.rate) / 2, once)


@dataclass(frozen=True)
class Moves:
    """Rows that a batch moves in the long run. `fetched`: into every level of caches, from the top down, each from the
    next level or the home below the last. `written`, when batches change their rows: by (level that they leave, level
    that takes them), counted from the top; the home has the number of the levels."""

    fetched: tuple[Array, ...]
    written: dict[tuple[int, int], Array]


def batch_misses(
    popularity: Popularity, cache_rows: Num, draws: Num, policy: Policy = "lru", ways: int | None = None
) -> Array:
    """Expected rows of a batch of `draws` draws that a cache of `cache_rows` rows does not hold, in the long run.

    Broadcasts as `cache.hit_rate` does. Between 0 and the distinct rows of a batch; never rises as the cache grows.
    `policy`: lru, lfu or fifo. Probabilities need not add up to 1: a part of a table's rows is a cache of its own.
    """
    return batch_moves(popularity, [cache_rows], draws, [(policy, ways)]).fetched[0]


def batch_moves(
    popularity: Popularity, cache_rows: Sequence[Num], draws: Num, kinds: Sequence[tuple[Policy, int | None]]
) -> Moves:
    """Expected moves of a batch of `draws` draws through caches above one another, the top first: their `cache_rows`,
    and (policy, ways) of each.

    Broadcasts as `batch_misses` does. A level is accessed by the misses of the one above (`Accesses.of_misses`), as in
    Martina, Garetto, Leonardi, "A unified approach to the performance analysis of caching systems", INFOCOM 2014,
    section V, with the least time between two misses of a row kept.
    """
    first = asked = Accesses.of_draws(popularity, np.asarray(draws, dtype=np.float64))
    fetched: list[Array] = []
    lost: list[Array] = []
    above: Array = np.zeros((1, 1))
    for size, (policy, ways) in zip(cache_rows, kinds, strict=True):
        for extreme in (np.max, np.min):
            check_cache(float(extreme(np.asarray(size), initial=0.0)), policy, ways)
        level = _LAWS[policy](asked, np.asarray(size, dtype=np.float64), ways)
        fetched.append(np.minimum((level.rows * level.rate).sum(-1), fetched[-1] if fetched else asked.distinct))
        if len(fetched) > 1:
            not_found = _not_found(policy, first, asked, level, above)
            lost.append(np.clip(not_found, 0.0, np.minimum(fetched[-2], fetched[-1])))
        gap = level.gap if asked.gap is None else np.maximum(asked.gap, level.gap)
        asked = Accesses.of_misses(level.rows, level.rate, gap, asked.table)
        above = level.held if len(fetched) == 1 else np.maximum(above.mean(0), level.held.mean(0))[None]
    return Moves(tuple(fetched), _written(fetched, lost))


@dataclass(frozen=True)
class _Level:
    """What a cache lets pass: of every class the `rows` that it may lack, and the chance `rate` that a batch wants one
    that it lacks. It remembers a row for `gap` (..., 1) whole batches; `held` (sizes, ..., 1): for so many as its sets
    have room for, counted from the place in its batch at which the row came."""

    rows: Array
    rate: Array
    gap: Array
    held: Array


def _not_found(policy: Policy, first: Accesses, asked: Accesses, level: _Level, above: Array) -> Array:
    """Of the rows that leave the levels above, those that this one holds no more, (...).

    A row stays `above` for T batches, and longer when batches ask for it again before, which has the chance
    c = 1 - (1 - q)^T; longer by E = 1 / rate - 1 / q - T in the mean, then taken to be exponential. An LRU cache holds
    it for D batches more than T. Rows are written when a batch is over, so of those that stay for T alone the share
    min(D, 1) is found; and of the others those that left before their turn in a batch that wants them, for f = T - [T]:

        P(not found) = 1 - min(D, 1) (1 - c exp(-D c / E)) - q min(f, 1 - D),   D > 0

    FIFO holds it as long after it was missed here too, else for what is left of that, any part as likely. LFU never
    lets go of what it holds, and has held nothing else.
    """
    if policy == "lfu":
        return np.asarray((level.rows * level.rate).sum(-1))
    pairs = 5 * np.arange(len(above)) % len(above) if len(above) == len(level.held) else slice(None)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # sizes of sets of both levels, every one with another
        more = np.where(np.isfinite(level.held), np.maximum(level.held - above[pairs], 0.0), np.inf)
        remembered = np.zeros(1) if asked.gap is None else asked.gap
        again = first.seen(remembered[..., 0])
        longer = np.where(asked.rate > 0, 1.0 / asked.rate - 1.0 / first.rate - remembered, 0.0)
        comes = (longer > 1e-9) & (again > 0)
        over = np.where(comes, again * np.exp(-more * again / np.maximum(longer, 1e-9)), 0.0)
        part = np.clip(np.where(np.isfinite(above), above, 0.0) - remembered, 0.0, 1.0)[pairs]
        turned = first.rate * np.minimum(part, np.maximum(1.0 - more, 0.0)) * np.minimum(level.held, 1.0)
        lost = 1.0 - np.minimum(more, 1.0) * (1.0 - over) - turned
        if policy == "fifo":
            missed = np.where(asked.rate > 0, level.rate / asked.rate, 0.0)
            left = np.minimum((above[pairs] + np.maximum(longer, 0.0)) / np.maximum(level.held, 1e-300), 1.0)
            left = np.where(np.isfinite(level.held), left, 0.0)
            lost = missed * lost + (1.0 - missed) * left
    return np.asarray(np.where(asked.rate > 0, asked.rows * asked.rate * lost.mean(0), 0.0).sum(-1))


def _written(fetched: Sequence[Array], lost: Sequence[Array]) -> dict[tuple[int, int], Array]:
    """Rows that go from every level to those below, `lost` (of every level but the top) being those that it no longer
    held. As many rows leave the first levels as come to them, so level a sends `fetched` - `lost` of them, and each
    goes to the next level that has it."""
    levels = len(fetched)
    found: dict[tuple[int, int], Array] = {}
    for above in range(levels):
        left = fetched[above] - (lost[above - 1] if above else 0.0)
        for below in range(above + 1, levels + 1):
            passed = np.zeros(())
            if below < levels:
                before = fetched[below - 1]
                passed = left * np.where(before > 0, lost[below - 1] / np.where(before > 0, before, 1.0), 0.0)
            found[above, below] = np.asarray(left - passed)
            left = passed
    return found


def _level(asked: Accesses, size: Array, rows: Array, rate: Array, gap: Array, held: Array) -> _Level:
    """A cache of `size` rows: it never lets more pass than it is asked for, and nothing once it has the whole table."""
    all_fits, nothing = (x[..., None] for x in (size >= asked.table * (1 - 1e-12), size <= 0))
    kept = np.where(all_fits, 0.0, np.where(nothing, asked.rate, np.minimum(rate, asked.rate)))
    return _Level(
        np.where(nothing, asked.rows, rows),
        kept,
        np.asarray(gap)[..., None],
        np.where(all_fits, np.inf, held[..., None]),
    )


def _sizes(size: Array, ways: int | None) -> Array:
    """Fully associative sizes that stand for a cache's sets, (sizes, ...)."""
    return np.stack(np.broadcast_arrays(*([size] if ways is None else _set_sizes(size, ways, _SIZES))))


def _lru(asked: Accesses, size: Array, ways: int | None) -> _Level:
    """A row is still there m batches later when the u(m) distinct rows since fit, so with T batches that fit

        misses = u(T + 1) - u(T),   u(T) = cache rows

    T a whole number: for small T the chance H_m that u(m) rows fit, a normal variable's,

        misses = sum_m (u(m + 1) - u(m)) (H_m - H_(m+1))

    and for large T the mean over where in the step the cache lies, u(T + 1/2) - u(T - 1/2).
    """
    sizes = _sizes(size, ways)
    batches = characteristic(asked.unique, asked.rate, asked.reachable, sizes, asked.distinct)
    far = np.where(np.isfinite(batches), batches, 0.0)
    smooth = asked.seen(far + 0.5) - asked.seen(np.maximum(far - 0.5, 0.0))
    smooth = np.where(np.isfinite(batches)[..., None], smooth, 0.0)
    last = asked.seen(np.asarray(_STEPS + 0.5)) - asked.seen(np.asarray(_STEPS - 0.5))
    few, whole, held = _few_batches(asked, sizes)
    more = (asked.rows * few).sum(-1) > (asked.rows * last).sum(-1)
    rate = np.where((batches >= _STEPS)[..., None], smooth, np.where(more[..., None], few, last))
    gap = np.where(batches >= _STEPS, np.maximum(far - 0.5, 0.0), whole).mean(0)
    return _level(asked, size, asked.rows, rate.mean(0), gap, np.where(batches >= _STEPS, batches, held))


def _few_batches(asked: Accesses, size: Array) -> tuple[Array, Array, Array]:
    """The sum over m of `_lru` for every class; the mean T; and T with the part of a batch that does not fit whole."""
    from scipy.special import ndtr

    before, fits, total, whole, held = np.zeros(1), np.ones(()), np.zeros(()), np.zeros(()), np.zeros(())
    for m in range(1, 2 * _STEPS):
        seen = asked.seen(np.asarray(float(m)))
        distinct, further = (asked.rows * seen).sum(-1), (asked.rows * (seen - before)).sum(-1)
        spread = np.sqrt((asked.rows * seen * (1.0 - seen)).sum(-1))
        within = (size + 0.5 - distinct) / np.maximum(spread, 1e-9)
        fits_next = np.minimum(ndtr(within), fits) if m < 2 * _STEPS - 1 else np.zeros_like(size)
        total = total + (seen - before) * (fits - fits_next)[..., None]
        whole = whole + fits_next
        held = held + np.clip(1.0 - (distinct - size) / np.maximum(further, 1e-300), 0.0, 1.0)
        before, fits = seen, fits_next
    return np.asarray(total), np.asarray(whole), np.asarray(held)


def _fifo(asked: Accesses, size: Array, ways: int | None) -> _Level:
    """A row stays K batches, while as many others come as the cache has places, and is missed once in K + 1/q:

        misses = M = sum q / (1 + q E[K]),   E[K] = sum over m of P(rows that come in m batches <= cache rows)

    these rows a normal variable of mean m M and variance m sum x (1 - x), x = q / (1 + q E[K]). For many batches E[K]
    is cache rows / M - 1/2. Several M can keep themselves up; a cache that was empty reaches the largest, which chance
    lets it leave where the batches vary: in sets of S more than in one cache, by S times the variance. The other part
    of what makes sets differ, sum q^2 of sum q, is the popularity of their rows: it spreads their sizes.

    Where rows come back otherwise than by chance, q E[K] are the batches among K that have the row.
    """
    from scipy.special import ndtr

    rows = asked.rows
    sets = np.ones_like(size) if ways is None else np.maximum(np.floor(size / ways), 1.0)
    spread = _sizes(size, ways)
    mean = spread.mean(0)
    batches = np.zeros(np.broadcast_shapes(spread.shape, asked.rate.shape[:-1]))
    for _ in range(_ROUNDS):
        comes = asked.rate / (1.0 + asked.renewals(batches[..., None]))
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
    rate = (asked.rate / (1.0 + asked.renewals(batches[..., None]))).mean(0)
    return _level(asked, size, rows, rate, batches.mean(0), sizes / missed)


def _lfu(asked: Accesses, size: Array, ways: int | None) -> _Level:
    """In the long run the rows that most batches ask for are inside: misses = sum of q over all others."""
    order = np.argsort(-asked.rate, axis=-1, kind="stable")
    rows = np.take_along_axis(np.broadcast_to(asked.rows, asked.rate.shape), order, -1)
    inside = np.clip(_sizes(size, ways)[..., None] - (np.cumsum(rows, axis=-1) - rows), 0.0, rows).mean(0)
    outside = asked.rows - np.take_along_axis(inside, np.argsort(order, axis=-1), -1)
    none = np.zeros(np.shape(size))
    return _level(asked, size, outside, asked.rate, none, none[None])


_LAWS = {"lru": _lru, "fifo": _fifo, "lfu": _lfu}
