"""The points of a sweep: any stretch of them can be made at any time, so none is ever stored.

Points have a number and a place. The number counts them in the order of the axes as written (the last one fastest), or
in that of the draw; places are such that points of one design stand together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array
from archmodel.sweep.axes import Axis

Sample = Literal["grid", "list", "random", "latin_hypercube", "sobol"]
SAMPLES: tuple[Sample, ...] = ("grid", "list", "random", "latin_hypercube", "sobol")
SORTED_POINTS = 1_000_000
"""Most drawn or listed points that are put in order of their designs; of more, each chunk is, by itself."""

Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Space:
    """Axes and how points are taken from them. `points`: how many, of what is drawn."""

    axes: tuple[Axis, ...]
    sample: Sample = "grid"
    points: int = 0
    seed: int = 0

    @cached_property
    def total(self) -> int:
        """How many points there are."""
        if self.sample == "grid":
            return math.prod(axis.size or 0 for axis in self.axes)
        return (self.axes[0].size or 0) if self.sample == "list" else self.points

    @cached_property
    def designs(self) -> int:
        """How many different designs they need, at most."""
        sizes = [axis.size for axis in self.axes if not axis.numeric]
        if self.sample == "list" and sizes:
            _, codes = self._sorted
            return 1 + int(np.any(np.diff(codes[:, self._structural], axis=0) != 0, axis=1).sum())
        return min(self.total, math.prod(self.total if size is None else size for size in sizes))

    def rows(self, start: int, stop: int) -> tuple[npt.NDArray[np.int64], Array]:
        """Numbers of the points at places `start` to `stop`, and their codes, (points, axes)."""
        place = np.arange(start, stop, dtype=np.int64)
        if self.sample == "grid":
            return self._grid(place)
        if self._structural and self.total <= SORTED_POINTS:
            number, codes = self._sorted
            return number[start:stop], codes[start:stop]
        return place, self._drawn(place)

    @property
    def _structural(self) -> list[int]:
        return [i for i, axis in enumerate(self.axes) if not axis.numeric]

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.int64], Array]:
        """All points, in order of their designs."""
        codes = self._drawn(np.arange(self.total, dtype=np.int64))
        order = np.lexsort(codes[:, self._structural].T[::-1])
        return order, codes[order]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_sorted"}

    def _drawn(self, number: npt.NDArray[np.int64]) -> Array:
        """Codes of points in a row by their numbers, (points, axes)."""
        if self.sample == "list":
            return np.stack([axis.at(number) for axis in self.axes], axis=-1)
        u = self._unit(number)
        return np.stack([axis.drawn(u[:, i]) for i, axis in enumerate(self.axes)], axis=-1)

    def _grid(self, place: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Array]:
        sizes = [axis.size or 0 for axis in self.axes]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        codes = np.empty((len(place), len(sizes)))
        number = np.zeros_like(place)
        rest = place
        for i in sorted(range(len(sizes)), key=lambda i: (self.axes[i].numeric, i), reverse=True):
            rest, digit = np.divmod(rest, sizes[i])
            codes[:, i] = self.axes[i].at(digit)
            number += digit * strides[i]
        return number, codes

    def _unit(self, place: npt.NDArray[np.int64]) -> Array:
        """Points of the unit cube, (points, axes), from their places alone."""
        if self.sample == "sobol":
            return _sobol(place, len(self.axes), self.seed)
        columns = [_uniform(place, self.seed, 2 * i) for i in range(len(self.axes))]
        if self.sample == "latin_hypercube":
            strata = [_permuted(place, self.points, self.seed, 2 * i + 1) for i in range(len(self.axes))]
            columns = [(s + u) / self.points for s, u in zip(strata, columns, strict=True)]
        return np.minimum(np.stack(columns, axis=-1), np.nextafter(1.0, 0.0))


def _mixed(x: Any) -> Any:
    """The output function of SplitMix64: every bit of 64 depends on every other.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 17.
    """
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _hashed(x: npt.NDArray[np.int64] | Bits, seed: int, stream: int) -> Bits:
    """64 bits for every x, different for every stream of every seed."""
    step = 0x9E3779B97F4A7C15  # the increment of SplitMix64: 2**64 over the golden ratio
    key = _mixed(np.uint64((seed * step + stream + 1) % 2**64))
    with np.errstate(over="ignore"):
        bits: Bits = _mixed((x.astype(np.uint64) + np.uint64(1)) * np.uint64(step) + key)
    return bits


def _uniform(place: npt.NDArray[np.int64], seed: int, stream: int) -> Array:
    """Uniform in [0, 1): the upper 53 bits."""
    return (_hashed(place, seed, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _permuted(place: npt.NDArray[np.int64], count: int, seed: int, stream: int) -> npt.NDArray[np.int64]:
    """Where a permutation of 0 ... count - 1 takes each place: a Feistel network of four rounds, walked until it is
    back in range (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Nothing is stored."""
    half = max(1, -(-(count - 1).bit_length() // 2))
    mask, shift = np.uint64(2**half - 1), np.uint64(half)

    def network(x: Bits) -> Bits:
        left, right = x >> shift, x & mask
        for turn in range(4):
            left, right = right, left ^ (_hashed(right, seed, 1_000_003 * (turn + 1) + stream) & mask)
        return (left << shift) | right

    x = network(place.astype(np.uint64))
    while np.any(out := x >= count):
        x[out] = network(x[out])
    return x.astype(np.int64)


def _sobol(place: npt.NDArray[np.int64], axes: int, seed: int) -> Array:
    """Sobol' points, shifted by a seeded vector modulo 1 (Cranley and Patterson, SIAM Journal on Numerical Analysis 13,
    1976)."""
    if not len(place):
        return np.empty((0, axes))
    from scipy.stats import qmc

    engine = qmc.Sobol(axes, scramble=False)
    engine.fast_forward(int(place[0]) + 1)  # the first point is the corner 0
    u: Array = np.asarray(engine.random(len(place)), dtype=np.float64)
    shift = _uniform(np.arange(axes, dtype=np.int64), seed, 1)
    return np.asarray((u + shift) % 1.0)
