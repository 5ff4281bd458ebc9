"""Accesses as a file has them. Answers are exact for the file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from archmodel.memory import cache_kernels as kernels
from archmodel.memory.access_base import AccessDistribution, AccessFamily, by_lorenz, drawn_by_lorenz
from archmodel.memory.cache import Popularity
from archmodel.memory.cache_exact import CacheSimulator, StackDistances, pin
from archmodel.memory.cache_policy import Policy, check_cache
from archmodel.memory.compiled import fast
from archmodel.memory.trace import Accesses, Ids, TraceError, TraceFile
from archmodel.quantities import Array, Num

_BINS = 4096 + 64 * 52
_CLASSES = 192


@dataclass(frozen=True)
class Profile:
    """What one pass over a trace tells: `counts` per row (as `accesses` numbers them), and its gaps."""

    accesses: Accesses
    counts: npt.NDArray[np.int64]
    gap_count: Array
    gap_total: Array

    @property
    def length(self) -> int:
        """Accesses."""
        return self.accesses.length

    @cached_property
    def unique(self) -> int:
        """Distinct rows."""
        return int(np.count_nonzero(self.counts))

    @cached_property
    def top_counts(self) -> npt.NDArray[np.int64]:
        """Accesses to the 0, 1, 2, ... most accessed rows together."""
        falling = np.sort(self.counts)[::-1][: self.unique]
        return np.concatenate([[0], np.cumsum(falling)])

    @cached_property
    def distances(self) -> StackDistances:
        """LRU stack distances of the whole trace."""
        found = StackDistances(self.accesses.rows)
        for piece in self.accesses.pieces():
            found.feed(piece)
        return found

    @cached_property
    def lorenz(self) -> tuple[Array, Array]:
        """Rows, most accessed first, and their share of the accesses, at some two hundred places, from 0."""
        most = self.unique
        steps = np.unique(np.rint(np.geomspace(64, max(most, 65), _CLASSES)).astype(np.int64))
        place = np.unique(np.concatenate([np.arange(min(most, 64) + 1), steps[steps <= most], [most]]))
        return place.astype(np.float64), self.top_counts[place] / max(self.length, 1)

    def footprint(self, draws: Num) -> Array:
        """Mean distinct rows in a window of `draws` accesses, over all windows of the trace:

            m - sum_t count(t) max(t - n, 0) / (N - n + 1)

        t: accesses from one use of a row to its next, from the start to its first, and from its last to the end (Xiang,
        Bao, Ding, Gao, "Linear-time modeling of program working set in shared cache", PACT 2011).
        """
        n = np.asarray(draws, dtype=np.float64)
        used = self.gap_count > 0
        count, total = self.gap_count[used], self.gap_total[used]
        mean = total / count
        after_count = np.concatenate([np.cumsum(count[::-1])[::-1], [0.0]])
        after_total = np.concatenate([np.cumsum(total[::-1])[::-1], [0.0]])
        first = np.searchsorted(mean, n, side="right")
        outside = (after_total[first] - n * after_count[first]) / np.maximum(self.length - n + 1.0, 1.0)
        return np.asarray(np.clip(self.unique - outside, 0.0, np.minimum(n, self.unique)))


@AccessFamily.register
class Trace(AccessDistribution):
    """Row ids in the order of access, from a file (.npy, .parquet or text), streamed.

    Distinct rows are the mean over all windows of the trace; hit rates are those of a cache that runs it from empty.
    """

    kind: Literal["trace"] = "trace"
    file: str = Field(description="path of the trace, from the working directory")
    column: str | None = Field(default=None, description="column of a .parquet file, when it has several")
    folded: bool = Field(
        default=False, description="whether a smaller table stands for the trace's, with the same popularity curve"
    )

    @property
    def profile(self) -> Profile:
        """What one pass over the file tells; kept until the file changes."""
        path = Path(self.file)
        try:
            status = os.stat(path)
        except OSError as error:
            where = "; a path in a design is taken from the working directory" if not path.is_absolute() else ""
            raise TraceError(self.file, f"{(error.strerror or 'cannot be read').lower()}{where}") from None
        return _profile(path, self.column, status.st_mtime_ns, status.st_size)

    def _of(self, num_embeddings: Num, draws: Num | None = None) -> Profile:
        """The profile, when it can answer for these tables and draws."""
        found = self.profile
        smallest = float(np.min(np.asarray(num_embeddings, dtype=np.float64), initial=np.inf))
        if not self.folded and smallest <= found.accesses.highest:
            raise TraceError(self.file, f"accesses row {found.accesses.highest:,} of a table of {smallest:,.0f} rows")
        most = float(np.max(np.asarray(0.0 if draws is None else draws, dtype=np.float64), initial=0.0))
        if most > found.length:
            raise TraceError(self.file, f"has {found.length:,} accesses; {most:,.0f} are drawn from it")
        return found

    def popularity(self, num_embeddings: Num) -> Popularity:
        return by_lorenz(num_embeddings, *self._of(num_embeddings).lorenz)

    def expected_unique(self, num_embeddings: Num, draws: Num) -> Array:
        """Mean distinct rows in a window of the trace of `draws` accesses."""
        rows, n = np.broadcast_arrays(np.asarray(num_embeddings, dtype=np.float64), np.asarray(draws, dtype=np.float64))
        return np.asarray(np.minimum(self._of(rows, n).footprint(n), rows))

    def hot_share(self, num_embeddings: Num, hot_rows: Num) -> Array:
        """Share of the accesses to the most accessed rows; between whole rows, by their mean."""
        if self.folded:
            return super().hot_share(num_embeddings, hot_rows)
        found = self._of(num_embeddings)
        _, hot = np.broadcast_arrays(np.asarray(num_embeddings), np.asarray(hot_rows, dtype=np.float64))
        upto = found.top_counts
        return np.asarray(np.interp(hot, np.arange(len(upto)), upto) / found.length)

    def hit_rate(
        self,
        num_embeddings: Num,
        cache_rows: Num,
        policy: Policy = "lru",
        ways: int | None = None,
        draws: Num | None = None,
    ) -> Array:
        """Exact: the cache runs the trace, or its first `draws` accesses, from empty. `ideal`: the most accessed rows
        are pinned before. Sizes are rounded down to whole rows (and sets)."""
        check_cache(float(np.max(np.asarray(cache_rows), initial=0.0)), policy, ways)
        if self.folded:
            return super().hit_rate(num_embeddings, cache_rows, policy, ways, draws)
        found = self._of(num_embeddings, draws)
        size, _, first = np.broadcast_arrays(
            np.asarray(cache_rows, dtype=np.float64),
            np.asarray(num_embeddings),
            found.length if draws is None else draws,
        )
        rates = [self._run(found, int(c), policy, ways, int(n)) for c, n in zip(size.flat, first.flat, strict=True)]
        return np.array(rates).reshape(size.shape)

    def _run(self, found: Profile, cache_rows: int, policy: Policy, ways: int | None, first: int) -> float:
        if cache_rows == 0 or first == 0 or (ways is not None and cache_rows < ways):
            return 0.0
        if policy == "lru" and ways is None and first == found.length:
            return float(found.distances.hit_rate(cache_rows))
        pinned = pin(found.counts, cache_rows) if policy == "ideal" else None
        cache = CacheSimulator(found.accesses.rows, cache_rows, policy, ways, pinned)
        for piece in found.accesses.pieces(first):
            cache.feed(piece)
        return cache.hit_rate

    def imbalance(self, num_embeddings: int, draws: float, shards: int, seed: int = 0) -> float:
        """Accesses of the busiest of `shards` contiguous row shards over the mean, counted over the whole trace."""
        found = self._of(float(num_embeddings))
        if self.folded or shards < 1:
            return super().imbalance(num_embeddings, draws, shards, seed)
        ids = np.arange(found.accesses.rows) if found.accesses.ids is None else found.accesses.ids
        edges = np.arange(1, shards) * num_embeddings // shards
        load = np.bincount(np.searchsorted(edges, ids, side="right"), found.counts, shards)
        return float(load.max() / load.mean())

    def sample(self, num_embeddings: int, count: int, rng: np.random.Generator) -> Ids:
        """`count` consecutive accesses from a random place, as popularity ranks; from the popularity curve when
        folded."""
        found = self._of(float(num_embeddings), 0.0 if self.folded else float(count))
        if self.folded:
            return drawn_by_lorenz(num_embeddings, *found.lorenz, count, rng)
        start = int(rng.integers(0, found.length - count + 1))
        rank = np.empty(found.accesses.rows, dtype=np.int64)
        rank[np.argsort(-found.counts, kind="stable")] = np.arange(found.accesses.rows)
        parts, at = [np.zeros(0, dtype=np.int64)], 0
        for piece in found.accesses.pieces(start + count):
            parts.append(rank[piece[max(start - at, 0) :]])
            at += len(piece)
        return np.concatenate(parts)

    def shrunk(self, num_embeddings: int) -> AccessDistribution:
        return self.model_copy(update={"folded": True})


@lru_cache(maxsize=8)
def _profile(path: Path, column: str | None, changed: int, size: int) -> Profile:
    return profile(TraceFile(path, column))


def profile(file: TraceFile) -> Profile:
    """One pass over a trace (two to know its rows)."""
    accesses = Accesses(file)
    counts = np.zeros(accesses.rows, dtype=np.int64)
    last = np.full(accesses.rows, -1, dtype=np.int64)
    gap_count, gap_total = np.zeros(_BINS, dtype=np.int64), np.zeros(_BINS, dtype=np.int64)
    at = 0
    for piece in accesses.pieces():
        counts += np.bincount(piece, minlength=accesses.rows)
        fast(kernels.gaps)(piece, last, at, gap_count, gap_total)
        at += len(piece)
    tail = np.where(last >= 0, at - last, 0)
    tail_bins = _gap_bin(tail[last >= 0])
    gap_count += np.bincount(tail_bins, minlength=_BINS)
    np.add.at(gap_total, tail_bins, tail[last >= 0])
    return Profile(accesses, counts, gap_count.astype(np.float64), gap_total.astype(np.float64))


def _gap_bin(gap: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bins of `cache_kernels.gaps`."""
    octave = np.maximum(np.frexp(gap.astype(np.float64))[1] - 13, 0).astype(np.int64)
    return np.where(gap < 4096, gap, 4096 + octave * 64 + (gap >> (octave + 6)) - 64)
