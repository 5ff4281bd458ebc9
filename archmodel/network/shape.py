"""How the links of one dimension run, and what patterns of traffic put on them.

A shape knows its directed links and routes. Regular shapes count in closed form or with arrays of one entry
per rank; only `Graph` (a list of links) searches for paths. Nothing is N x N.

Routes: shortest paths. On a ring the shorter way round, clockwise (towards higher ranks) where both are as
long; on a line straight; on switches up to the lowest switch that joins both ends and down again. All links
are full duplex, `bandwidth` is that of one link in one direction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from archmodel.network.pattern import NOTHING, Pattern
from archmodel.quantities import Array, Num

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape(ABC):
    """`size` ranks 0..size-1. `bandwidth` of one link per direction, `latency` of one link."""

    size: int
    bandwidth: Num
    latency: Num = 0.0

    @abstractmethod
    def uniform(self) -> Pattern:
        """Every rank sends one message to each other rank."""

    @abstractmethod
    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        """Messages of `weight` bytes from `source` to `target` ranks, all at once.

        `row`: which of several equal copies of this shape each message is in (0, 1, ...); the busiest copy counts.
        """

    def shift(self, distance: int = 1) -> Pattern:
        """Rank i sends to rank i + distance (mod size): one step of a ring."""
        if self.size == 1 or distance % self.size == 0:
            return NOTHING
        ranks = np.arange(self.size)
        return self.between(ranks, (ranks + distance) % self.size)

    def both_ways(self) -> Pattern:
        """Half a byte to either neighbour: one step of a ring that is used in both directions."""
        if self.size == 1:
            return NOTHING
        ranks = np.arange(self.size)
        right, left = (ranks + 1) % self.size, (ranks - 1) % self.size
        return self.between(np.concatenate([ranks, ranks]), np.concatenate([right, left]), 0.5)

    def successors(self) -> Array:
        """Share of what a rank sends in rings that goes to each other rank, (size, size): all to the next."""
        return np.roll(np.eye(self.size), 1, axis=1)

    def exchange(self, distance: int) -> Pattern:
        """Ranks i and i xor distance, where both are among the first power of two, send to each other."""
        ranks = np.arange(_power_of_two(self.size))
        return self.between(ranks, ranks ^ distance)

    @abstractmethod
    def rank_bandwidth(self) -> Num:
        """B/s of all links out of a rank together; of the rank with the fewest. Alone, one unused link counts."""

    @abstractmethod
    def bisection(self) -> Num:
        """B/s, per direction, across the narrowest cut into floor(size / 2) and the other ranks."""

    def _pattern(self, load: Num, hops: int, least_hops: int, bandwidth: Num | None = None) -> Pattern:
        """A pattern whose links all have the latency of this shape."""
        return Pattern(
            load=load,
            bandwidth=self.bandwidth if bandwidth is None else bandwidth,
            hops=hops,
            least_hops=least_hops,
            latency=hops * self.latency,
            edge_latency=min(hops, 2) * self.latency,
        )


@dataclass(frozen=True, slots=True)
class Ring(Shape):
    """Rank i has a link to i + 1 and one to i - 1 (mod size). Two ranks share one link, as a line."""

    def uniform(self) -> Pattern:
        half = self.size // 2  # of an even ring the opposite rank is reached clockwise
        return self._pattern(half * (half + 1) / 2, half, min(half, 1))

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        n = self.size
        forward = (target - source) % n
        right = (forward > 0) & (forward <= n // 2)
        left = forward > n // 2
        hops = np.where(right, forward, np.where(left, n - forward, 0))
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), forward.shape)
        at = _rows(row, forward)
        clockwise = _around(source[right], hops[right], w[right], n, at[right])
        # to the left, the links passed are those that end in the ranks target..source - 1
        other = _around(target[left], hops[left], w[left], n, at[left])
        most = int(hops.max(initial=0))
        return self._pattern(_most(clockwise, other), most, min(most, 1))

    def rank_bandwidth(self) -> Num:
        return self.bandwidth * max(_ways(self.size), 1)

    def bisection(self) -> Num:
        return self.bandwidth * _ways(self.size)


@dataclass(frozen=True, slots=True)
class Line(Shape):
    """A ring without the link from the last rank to the first: one dimension of a mesh."""

    def uniform(self) -> Pattern:
        n = self.size
        return self._pattern(float((n // 2) * (n - n // 2)), n - 1, min(n - 1, 1))

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)
        right, left = target > source, target < source
        hops, at = np.abs(target - source), _rows(row, source)
        rising = _around(source[right], hops[right], w[right], self.size, at[right])
        falling = _around(target[left], hops[left], w[left], self.size, at[left])
        most = int(hops.max(initial=0))
        return self._pattern(_most(rising, falling), most, min(most, 1))

    def rank_bandwidth(self) -> Num:
        return self.bandwidth  # the end ranks

    def bisection(self) -> Num:
        return self.bandwidth * min(1, self.size - 1)


@dataclass(frozen=True, slots=True)
class Full(Shape):
    """Every pair of ranks has a link of its own, of `bandwidth` in each direction."""

    def uniform(self) -> Pattern:
        alone = min(self.size - 1, 1)
        return self._pattern(float(alone), alone, alone)

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)
        moving = source != target
        pair = (_rows(row, source) * self.size + source) * self.size + target
        _, place = np.unique(pair[moving], return_inverse=True)
        loads = np.bincount(place, weights=w[moving]) if moving.any() else np.zeros(1)
        return self._pattern(float(loads.max()), *_extremes(moving.astype(np.int64)))

    def rank_bandwidth(self) -> Num:
        return self.bandwidth * max(self.size - 1, 1)

    def bisection(self) -> Num:
        return self.bandwidth * ((self.size // 2) * (self.size - self.size // 2))


@dataclass(frozen=True, slots=True)
class Stage:
    """One level of switches: ranks in groups of `group` share an uplink of `bandwidth` per direction."""

    group: int
    bandwidth: Num


@dataclass(frozen=True, slots=True)
class Switches(Shape):
    """Every rank has one link of `bandwidth` to its switch; levels of switches above it.

    `stages`: uplinks of the switches, inner to outer; none: one switch for all. `core`: B/s that the top
    switch forwards in all; none: whatever its links carry (non-blocking).
    """

    stages: tuple[Stage, ...] = ()
    core: Num | None = None

    def uniform(self) -> Pattern:
        n = self.size
        if n == 1:
            return NOTHING
        loads: list[tuple[Num, Num]] = [(float(n - 1), self.bandwidth)]
        for stage in self.stages:
            full, rest = divmod(n, stage.group)
            crossing = [g * (n - g) for g in (stage.group if full else 0, rest)]
            loads.append((float(max(crossing)), stage.bandwidth))
        if self.core is not None:
            loads.append((float(n * (n - 1)), self.core))
        levels = sum(stage.group < n for stage in self.stages)
        single = sum(stage.group == 1 for stage in self.stages)
        return self._switched(loads, 2 + 2 * levels, 2 + 2 * single)

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        moving = source != target
        if not moving.any():
            return NOTHING
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)[moving]
        at, a, b = _rows(row, source)[moving], source[moving], target[moving]
        loads: list[tuple[Num, Num]] = [(_busiest(a + at * self.size, b + at * self.size, w), self.bandwidth)]
        hops = np.full(a.shape, 2, dtype=np.int64)
        for stage in self.stages:
            up, down = a // stage.group, b // stage.group
            leaves = up != down
            hops += 2 * leaves
            if leaves.any():
                first = at * self.size
                loads.append((_busiest((up + first)[leaves], (down + first)[leaves], w[leaves]), stage.bandwidth))
        if self.core is not None:
            loads.append((float(np.bincount(at, weights=w).max()), self.core))
        return self._switched(loads, *_extremes(hops))

    def _switched(self, loads: Sequence[tuple[Num, Num]], hops: int, least: int) -> Pattern:
        load, bandwidth = loads[0]
        for more, wide in loads[1:]:
            busier = np.greater(np.divide(more, wide), np.divide(load, bandwidth))
            load, bandwidth = _chosen(busier, more, load), _chosen(busier, wide, bandwidth)
        return self._pattern(load, hops, least, bandwidth)

    def rank_bandwidth(self) -> Num:
        return self.bandwidth

    def bisection(self) -> Num:
        """Whole switches on either side, as far as they go."""
        half = self.size // 2
        cut: Num = self.bandwidth * half
        for stage in self.stages:
            whole, rest = divmod(half, stage.group)
            cut = np.minimum(cut, stage.bandwidth * whole + np.minimum(stage.bandwidth, self.bandwidth * rest))
        return cut if self.core is None else np.minimum(cut, self.core / 2)


def _ways(size: int) -> int:
    """Directed links of a ring across a cut, and out of a rank."""
    return (0, 0, 1)[size] if size < 3 else 2


@lru_cache(maxsize=64)
def _power_of_two(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _rows(row: Ints | None, like: Ints) -> Ints:
    return np.zeros(like.shape, dtype=np.int64) if row is None else row


def _around(first: Ints, hops: Ints, weight: Array, n: int, row: Ints) -> Array:
    """Load (rows, n) of each of n links, when message k passes links first_k .. first_k + hops_k - 1 (mod n)."""
    rows = int(row.max(initial=0)) + 1
    wide = 2 * n + 1
    start = row * wide + first
    change: Array = np.bincount(start, weights=weight, minlength=rows * wide).astype(np.float64)
    change = change - np.bincount(start + hops, weights=weight, minlength=rows * wide)
    passed = np.cumsum(change.reshape(rows, wide), axis=1)
    load: Array = passed[:, :n] + passed[:, n : 2 * n]
    return load


def _busiest(up: Ints, down: Ints, weight: Array) -> float:
    """Load of the busiest of the links up from, and down to, numbered switches or ranks."""
    sent = np.bincount(up, weights=weight)
    received = np.bincount(down, weights=weight)
    return float(max(sent.max(), received.max()))


def _most(a: Array, b: Array) -> float:
    return float(max(a.max(initial=0.0), b.max(initial=0.0)))


def _extremes(hops: Ints) -> tuple[int, int]:
    """(most, fewest) links of the messages that move at all."""
    moving = hops[hops > 0]
    return (int(moving.max()), int(moving.min())) if moving.size else (0, 0)


def _chosen(condition: object, a: Num, b: Num) -> Num:
    value = np.where(np.asarray(condition), a, b)
    return value if value.ndim else float(value)
