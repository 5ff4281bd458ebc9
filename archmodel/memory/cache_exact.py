"""Caches run access by access: what an LRU, FIFO, LFU or pinned cache really holds.

cache = CacheSimulator(rows=1_000_000, cache_rows=50_000, policy="lru", ways=32)
found = cache.feed(ids)            # which accesses hit; state carries on, so traces may come in pieces
cache.hits, cache.accesses

curve = StackDistances(rows=1_000_000)     # every LRU size at once
curve.feed(ids)
curve.hit_rate([1_000, 10_000])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from archmodel.memory import cache_kernels as kernels
from archmodel.memory.cache_policy import CacheError, Policy, check_cache
from archmodel.memory.compiled import fast
from archmodel.quantities import Array

MOST_ROWS: Final = 2**31 - 1
_PIECE: Final = 1 << 16
"""Accesses that are sifted at a time, few enough to stay in a processor's cache."""
_LOOK: Final = 1 << 20
_ONE_IN: Final = 256
_SPARE: Final = 8
"""Accesses per row of the table between two renumberings."""

Ids = npt.NDArray[np.int32]
Found = npt.NDArray[np.uint8]


def set_of(ids: npt.ArrayLike, sets: int) -> npt.NDArray[np.int64]:
    """The set of every row: a 32-bit mixing hash h, scaled: floor(h sets / 2^32)."""
    h = np.asarray(ids).astype(np.uint64)
    for _ in range(2):
        h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x45D9F3B)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(16)
    return ((h * np.uint64(sets)) >> np.uint64(32)).astype(np.int64)


def checked(ids: npt.ArrayLike, rows: int) -> Ids:
    """Row ids as the loops take them. Raises CacheError at the first that is not in [0, rows)."""
    array = np.asarray(ids)
    if array.size == 0:
        return np.zeros(0, dtype=np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise CacheError(f"row ids are needed as one row of integers, not {array.dtype} of shape {array.shape}")
    if array.min() < 0 or array.max() >= rows:
        where = int(np.argmax((array < 0) | (array >= rows)))
        raise CacheError(f"access {where} is to row {array[where]} of a table of {rows:,} rows")
    return np.ascontiguousarray(array, dtype=np.int32)


def _checked_rows(rows: int) -> int:
    if not 0 <= rows <= MOST_ROWS:
        raise CacheError(f"a table of {rows} rows: 0 to {MOST_ROWS:,} can be run")
    return int(rows)


class CacheSimulator:
    """One cache of one table, empty at first. `ways=None`: fully associative.

    A cache of `cache_rows` rows and `ways` ways has floor(cache_rows / ways) sets. `pinned`: for policy "ideal", the
    rows that stay (the most popular ones; `pin` finds them).
    """

    def __init__(
        self,
        rows: int,
        cache_rows: int,
        policy: Policy = "lru",
        ways: int | None = None,
        pinned: npt.ArrayLike | None = None,
    ) -> None:
        check_cache(cache_rows, policy, ways)
        self.rows = _checked_rows(rows)
        self.cache_rows = int(cache_rows)
        self.policy: Policy = policy
        self.ways = ways
        self.hits = 0
        self.accesses = 0
        held = min(self.cache_rows, self.rows)
        self._state = np.zeros(4, dtype=np.int64)
        self._last: Ids
        if ways is not None and 0 < self.cache_rows < ways:
            raise CacheError(f"a cache of {self.cache_rows} rows has less than one set of {ways} ways")
        if (policy == "ideal") != (pinned is not None):
            raise CacheError("the pinned rows are needed for policy 'ideal', and for no other")
        if held == 0:
            return
        if pinned is not None:
            stay = checked(pinned, self.rows)
            if len(stay) > self.cache_rows:
                raise CacheError(f"{len(stay):,} rows are pinned in a cache of {self.cache_rows:,}")
            self._inside = np.zeros(self.rows, dtype=np.uint8)
            self._inside[stay] = 1
        elif ways is not None:
            self._tags = np.full((self.cache_rows // ways, ways), -1, dtype=np.int32)
            self._fill = np.zeros(len(self._tags), dtype=np.int32)
            self._count = np.zeros(self.rows if policy == "lfu" else 0, dtype=np.int64)
        elif policy == "lru":
            self._last = np.full(self.rows, -1, dtype=np.int32)
            self._stale = np.zeros(held + max(_SPARE * self.rows, 1 << 12) + 4, dtype=np.uint8)
        elif policy == "fifo":
            self._inside = np.zeros(self.rows, dtype=np.uint8)
            self._queue = np.zeros(held, dtype=np.int32)
        else:
            self._count = np.zeros(self.rows, dtype=np.int64)
            self._bucket_of = np.full(self.rows, -1, dtype=np.int32)
            self._before = np.full(self.rows, -1, dtype=np.int32)
            self._after = np.full(self.rows, -1, dtype=np.int32)
            self._bucket = np.full((5, held + 2), -1, dtype=np.int64)
            self._free = np.arange(held + 2, dtype=np.int64)
            self._state[:2] = -1, held + 2

    @property
    def hit_rate(self) -> float:
        """Share of the accesses so far that hit; 0 before the first."""
        return self.hits / self.accesses if self.accesses else 0.0

    @property
    def held(self) -> int:
        """Rows in the cache now."""
        most = min(self.cache_rows, self.rows)
        if most == 0:
            return 0
        if self.policy == "ideal":
            return int(self._inside.sum(dtype=np.int64))
        if self.ways is not None:
            return int(self._fill.sum())
        return int(self._state[1 if self.policy == "fifo" else 2])

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Which rows are in the cache now, (rows,)."""
        if min(self.cache_rows, self.rows) == 0:
            return np.zeros(self.rows, dtype=bool)
        if self.ways is not None:
            found = np.zeros(self.rows, dtype=bool)
            found[self._tags[np.arange(self.ways) < self._fill[:, None]]] = True
            return found
        if self.policy == "lru":
            return np.asarray(self._last >= self._state[1])
        return np.asarray(self._bucket_of >= 0 if self.policy == "lfu" else self._inside == 1)

    def feed(self, ids: npt.ArrayLike) -> Found:
        """Runs more accesses: 1 where the row was in the cache, else 0."""
        some = checked(ids, self.rows)
        found = np.zeros(len(some), dtype=np.uint8)
        if min(self.cache_rows, self.rows) > 0:
            self.hits += self._run(some, found)
        self.accesses += len(some)
        return found

    def _run(self, ids: Ids, found: Found) -> int:
        held = min(self.cache_rows, self.rows)
        if self.policy == "ideal":
            found[:] = self._inside[ids]
            return int(found.sum(dtype=np.int64))
        if self.ways is not None:
            which = {"lru": kernels.LRU, "fifo": kernels.FIFO, "lfu": kernels.LFU}[self.policy]
            return int(fast(kernels.sets)(ids, found, self._tags, self._fill, self._count, which))
        if self.policy == "fifo":
            return int(fast(kernels.fifo)(ids, found, self._inside, self._queue, self._state, held))
        if self.policy == "lfu":
            arrays = (self._count, self._bucket_of, self._before, self._after, self._bucket, self._free)
            return int(fast(kernels.lfu)(ids, found, *arrays, self._state, held))
        return self._run_lru(ids, found, held)

    def _run_lru(self, ids: Ids, found: Found, held: int) -> int:
        hits, start = 0, 0
        while start < len(ids):
            room = len(self._stale) - 4 - int(self._state[0])
            if room <= 0:
                self._renumber()
                continue
            stop = min(start + room, len(ids))
            hits += int(
                fast(kernels.lru)(ids[start:stop], found[start:stop], self._last, self._stale, self._state, held)
            )
            start = stop
        return hits

    def _renumber(self) -> None:
        """Positions of what is inside become 0, 1, ..., in order."""
        head, tail = int(self._state[0]), int(self._state[1])
        place = np.cumsum(self._stale[tail:head] == 0, dtype=np.int32) - np.int32(1)
        inside = self._last >= tail
        self._last[inside] = place[self._last[inside] - tail]
        self._last[~inside] = -1
        self._state[:2] = (int(place[-1]) + 1 if len(place) else 0), 0
        self._stale[:] = 0


def pin(counts: npt.ArrayLike, cache_rows: int) -> Ids:
    """The `cache_rows` rows of the highest counts, of equals the first; rows never accessed are not worth pinning."""
    array = np.asarray(counts)
    order = np.argsort(-array, kind="stable")[: int(cache_rows)]
    return order[array[order] > 0].astype(np.int32)


class StackDistances:
    """LRU stack distances of a trace: the hit rate of every LRU size in one pass.

    `histogram[0]`: first accesses; `histogram[d]`: accesses with d distinct rows, the row itself included, since the
    last one to the same row; LRU caches of d rows or more hit (Mattson et al., IBM Systems Journal 9(2), 1970).
    """

    def __init__(self, rows: int) -> None:
        self.rows = _checked_rows(rows)
        self.accesses = 0
        self.histogram = np.zeros(self.rows + 1, dtype=np.int64)
        positions = (max(4 * self.rows, 1 << 12) // kernels.BLOCK + 1) * kernels.BLOCK
        wide = np.int32 if positions < 2**31 else np.int64
        self._last: kernels.Ints = np.full(self.rows, -1, dtype=wide)
        self._bits = np.zeros(positions // kernels.WORD, dtype=np.uint32)
        self._tree = np.zeros(positions // kernels.BLOCK, dtype=np.int32)
        self._state = np.zeros(4, dtype=np.int64)
        self._positions = positions

    def feed(self, ids: npt.ArrayLike) -> None:
        """Adds more accesses."""
        some = checked(ids, self.rows)
        self.accesses += len(some)
        start = 0
        while start < len(some):
            room = self._positions - 1 - int(self._state[0])
            if room <= 0:
                self._renumber()
                continue
            stop = min(start + room, len(some))
            fast(kernels.distances)(some[start:stop], self._last, self._bits, self._tree, self._state, self.histogram)
            start = stop

    def _renumber(self) -> None:
        """Last accesses get the positions 0, 1, ..., in order; the bit map and its tree follow."""
        marks = int(fast(kernels.renumber)(self._last, self._bits, np.zeros(len(self._bits), dtype=np.int64)))
        self._state[2] = _mark(self._bits, self._tree, marks)
        self._state[0] = marks

    @property
    def unique(self) -> int:
        """Distinct rows so far."""
        return int(self.histogram[0])

    def hits(self, cache_rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Hits of LRU caches of these sizes, empty at first."""
        upto = np.cumsum(self.histogram[1:])
        size = np.minimum(np.asarray(cache_rows, dtype=np.int64), self.rows)
        if np.any(size < 0):
            raise CacheError("a cache has 0 rows or more")
        return np.where(size > 0, upto[np.maximum(size, 1) - 1] if self.rows else 0, 0).astype(np.int64)

    def hit_rate(self, cache_rows: npt.ArrayLike) -> Array:
        """Hit rates of LRU caches of these sizes, empty at first; 0 for an empty trace."""
        return np.asarray(self.hits(cache_rows) / max(self.accesses, 1))


class SampledDistances:
    """LRU hit rates from a sample of the rows, in the manner of SHARDS (Waldspurger, Park, Garthwaite, Ahmad, FAST
    2015).

    A stack distance among a share `rate` of the rows, over that share, estimates the distance among all. Which of the
    few hottest rows are sampled would decide everything, so `hot` of them are all there, of whose accesses one in 64 is
    looked at, and the others are sampled at even steps of their popularity. Popularity is that of the first accesses (2
    million of the first piece); it only steers the choice of rows, so later changes cost accuracy, not truth.
    """

    def __init__(self, rows: int, rate: float = 1 / 128, hot: int = 512, seed: int = 0) -> None:
        if not 0 < rate <= 1:
            raise CacheError(f"a sampling rate of {rate}: more than 0, at most 1 is needed")
        if hot < 0:
            raise CacheError(f"{hot} hot rows: 0 or more are needed")
        self.rows = _checked_rows(rows)
        self.rate = rate
        self.accesses = 0
        self._hot_rows = min(hot, self.rows)
        self._seed = seed
        self._which: Ids | None = None

    def _choose(self, ids: Ids) -> None:
        counts = np.bincount(ids[:_LOOK], minlength=self.rows)
        seen = np.flatnonzero(counts)
        seen = seen[np.argsort(-np.minimum(counts[seen], 2**15 - 1).astype(np.int16), kind="stable")]
        generator = np.random.default_rng(self._seed)
        hot = seen[: self._hot_rows] if len(seen) >= self._hot_rows else np.arange(self._hot_rows)
        cold = np.setdiff1d(seen, hot, assume_unique=True) if len(seen) < self._hot_rows else seen[self._hot_rows :]
        unseen = np.flatnonzero(counts == 0)
        unseen = np.setdiff1d(unseen, hot, assume_unique=True) if len(seen) < self._hot_rows else unseen
        cold = np.concatenate([cold, unseen])
        steps = np.arange(0, len(cold), 1 / self.rate)
        places = (steps + generator.random(len(steps)) / self.rate).astype(np.int64)
        places = places[places < len(cold)]
        self._which = np.zeros(self.rows, dtype=np.int32)
        self._which[hot] = np.arange(1, self._hot_rows + 1)
        self._which[cold[places]] = -1
        self._wanted = (self._which != 0).view(np.uint8)
        self._weight = len(cold) / max(len(places), 1)
        positions = (max(2 * len(places), 1 << 16) // kernels.BLOCK + 1) * kernels.BLOCK
        self._positions = positions
        self._last = np.full(self.rows, -1, dtype=np.int32)
        self._seen_at = np.full(self.rows, -1, dtype=np.int64)
        self._bits = np.zeros(positions // kernels.WORD, dtype=np.uint32)
        self._tree = np.zeros(positions // kernels.BLOCK, dtype=np.int32)
        self._hot_at = np.full(self._hot_rows, -1, dtype=np.int64)
        self._hot_head = np.zeros(self._hot_rows, dtype=np.int64)
        self._state = np.array([0, 0, 0, 0, self._seed + 1, 0], dtype=np.int64)
        self._hot = np.zeros(self.rows + 1, dtype=np.int64)
        self._cold = np.zeros(self.rows + 1, dtype=np.int64)

    def feed(self, ids: npt.ArrayLike) -> None:
        """Adds more accesses."""
        some = checked(ids, self.rows)
        if self._which is None and len(some):
            self._choose(some)
        kept = np.empty(min(len(some), _PIECE), dtype=np.int32)
        for start in range(0, len(some), _PIECE):
            piece = some[start : start + _PIECE]
            self._feed(kept[: int(fast(kernels.keep)(piece, self._wanted, kept))])
        self.accesses += len(some)

    def _feed(self, ids: Ids) -> None:
        assert self._which is not None
        arrays = (self._which, self._last, self._seen_at, self._bits, self._tree, self._hot_at, self._hot_head)
        start = 0
        while start < len(ids):
            room = self._positions - 1 - int(self._state[0])
            if room <= 0:
                self._renumber()
                continue
            stop = min(start + room, len(ids))
            fast(kernels.sampled)(
                ids[start:stop], *arrays, self._state, self._hot, self._cold, self._weight, 2**31 // _ONE_IN
            )
            start = stop

    def _renumber(self) -> None:
        seen = np.flatnonzero(self._last >= 0)
        order = seen[np.argsort(self._last[seen])]
        self._hot_head[:] = np.searchsorted(self._last[order], self._hot_head)
        self._last[order] = np.arange(len(order), dtype=np.int32)
        self._state[2] = _mark(self._bits, self._tree, len(order))
        self._state[0] = len(order)

    def hit_rate(self, cache_rows: npt.ArrayLike) -> Array:
        """Estimated hit rates of LRU caches of these sizes, empty at first."""
        size = np.minimum(np.asarray(cache_rows, dtype=np.int64), self.rows)
        if self._which is None:
            return np.zeros(size.shape)
        hots = float(self._state[5])
        again, looked = hots - float(self._hot[0]), float(self._hot[1:].sum())
        colds, met = self.accesses - hots, float(self._cold.sum())
        hits = np.zeros(self.rows + 1)
        hits[1:] = np.cumsum(self._hot[1:]) * (again / max(looked, 1.0))
        hits[1:] += np.cumsum(self._cold[1:]) * (colds / max(met, 1.0))
        return np.asarray(np.clip(hits[size] / max(self.accesses, 1), 0.0, 1.0))


def _mark(bits: kernels.Ints, tree: kernels.Ints, marks: int) -> int:
    """Marks the positions 0 to `marks` - 1 of a bit map and its tree: how many marks the open block has."""
    bits[:] = 0
    whole, rest = divmod(marks, kernels.WORD)
    bits[:whole] = 0xFFFFFFFF
    if rest:
        bits[whole] = (1 << rest) - 1
    blocks, inside = divmod(marks, kernels.BLOCK)
    each = np.zeros(len(tree) + 1, dtype=np.int64)
    each[1 : blocks + 1] = kernels.BLOCK
    upto = np.cumsum(each)
    leaf = np.arange(1, len(tree) + 1)
    tree[:] = upto[leaf] - upto[leaf - (leaf & -leaf)]
    return inside


def simulate(
    pieces: Iterable[npt.ArrayLike],
    rows: int,
    cache_rows: int,
    policy: Policy = "lru",
    ways: int | None = None,
    pinned: npt.ArrayLike | None = None,
) -> CacheSimulator:
    """A cache after all pieces of a trace."""
    cache = CacheSimulator(rows, cache_rows, policy, ways, pinned)
    for piece in pieces:
        cache.feed(piece)
    return cache
