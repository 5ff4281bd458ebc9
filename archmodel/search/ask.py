"""Which points to evaluate next: all of them, or those that a genetic algorithm breeds from what it was told.

Everybody is asked for a batch of codes (points, axes) and told the batch's objectives (to be small) and excesses (0 or
less where kept) before the next is asked, so what is asked does not depend on who evaluates it, or how fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from archmodel.quantities import Array
from archmodel.search.pareto import front
from archmodel.search.record import SearchError
from archmodel.sweep.axes import Axis
from archmodel.sweep.space import Space

ENUMERATED = 200_000
"""Most points that are all evaluated when nobody says how."""

ENUMERATED_DESIGNS = 2_000
"""Most designs, each lowered once, of those."""

ENUMERATED_PLANS = 64
"""Most designs when each is planned anew."""

BATCH = 4_096
"""Points of a batch of an enumeration."""

POPULATION = 48
"""Points of a generation."""

LEAST_STEP = 1e-3
"""Share of a range below which steps along it are not worth a point."""

BRED = 0.6
"""Share of the points that generations take; the rest go to neighbours of the front."""


FRESH, STALE = 0.25, 3
"""After so many generations in a row with less than this share of new points, no more are bred."""


class Asker(Protocol):
    """Says which points to evaluate next."""

    def ask(self) -> Array | None:
        """Codes of the next batch, (points, axes); None when there is nothing left."""

    def tell(self, codes: Array, values: Array, excesses: Array) -> None:
        """What the batch came to."""


def size(axes: Sequence[Axis]) -> tuple[int, int] | None:
    """How many points and designs there are; None when an axis is a continuum."""
    sizes = [axis.size for axis in axes]
    known = [s for s in sizes if s is not None]
    if len(known) < len(sizes):
        return None
    return math.prod(known), math.prod(s for s, axis in zip(known, axes, strict=True) if not axis.numeric)


class Enumeration:
    """Every point once, design by design; designs in an order drawn by the seed, for who does not come to the end."""

    def __init__(self, axes: tuple[Axis, ...], seed: int) -> None:
        self.space = Space(axes, "grid")
        known = size(axes)
        assert known is not None
        total, designs = known
        self.each = total // designs  # points of one design, which stand together
        self.order: list[int] = np.random.default_rng(seed).permutation(designs).tolist()
        self.at = 0

    def ask(self) -> Array | None:
        if not self.order:
            return None
        if self.each > BATCH:
            start = self.order[0] * self.each + self.at
            stop = min(start + BATCH, (self.order[0] + 1) * self.each)
            self.at += stop - start
            if self.at == self.each:
                self.at = 0
                self.order.pop(0)
            return self.space.rows(start, stop)[1]
        count = max(1, BATCH // self.each)
        now, self.order = self.order[:count], self.order[count:]
        return np.concatenate([self.space.rows(d * self.each, (d + 1) * self.each)[1] for d in now])

    def numbers(self, keys: Sequence[bytes]) -> list[int]:
        """The numbers of points in the order of the knobs as written, the last one fastest."""
        number, codes = self.space.rows(0, self.space.total)
        found: dict[bytes, int] = {}
        for n, row in sorted(zip(number.tolist(), codes, strict=True), key=lambda pair: pair[0]):
            found.setdefault(row.tobytes(), n)
        return [found[key] for key in keys]

    def tell(self, codes: Array, values: Array, excesses: Array) -> None:
        """An enumeration learns nothing."""


class Genetic:
    """optuna's NSGA-II (Deb et al., IEEE Trans. Evolutionary Computation 6(2), 2002), a generation at a time.

    Every knob is one number: the index of a value, or where in its range it stands. `first`: codes to begin with.
    """

    def __init__(
        self, axes: tuple[Axis, ...], objectives: int, seed: int, population: int, crossover: float, first: Array | None
    ) -> None:
        try:
            import optuna
        except ImportError:
            what = "is too large to evaluate every point of it, and a search that does not needs optuna"
            raise SearchError(f"this space {what}: pip install 'archmodel[search]'") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.NSGAIISampler(population_size=population, seed=seed, crossover_prob=crossover)
        self.study: Any = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
        self.axes, self.population = axes, population
        self.trials: list[Any] = []
        if first is not None:
            self.study.enqueue_trial(self._params(first))

    def _params(self, codes: Array) -> dict[str, float | int]:
        """A point as the algorithm sees it."""
        params: dict[str, float | int] = {}
        for i, axis in enumerate(self.axes):
            if axis.size is None:
                low, high = axis.low, axis.high
                span = math.log(high / low) if axis.scale == "log" else high - low
                part = math.log(codes[i] / low) if axis.scale == "log" else codes[i] - low
                params[f"knob{i}"] = min(max(part / span if span else 0.0, 0.0), 1.0)
            elif axis.size > 1:
                grid = axis.at(np.arange(axis.size))
                params[f"knob{i}"] = int(np.argmin(np.abs(grid - codes[i])))
        return params

    def ask(self) -> Array | None:
        self.trials = [self.study.ask() for _ in range(self.population)]
        return np.array([[self._code(trial, i) for i in range(len(self.axes))] for trial in self.trials])

    def _code(self, trial: Any, i: int) -> float:
        axis = self.axes[i]
        if axis.size is None:
            u = np.array([trial.suggest_float(f"knob{i}", 0.0, 1.0)])
            return float(axis.drawn(np.minimum(u, np.nextafter(1.0, 0.0)))[0])
        index = trial.suggest_int(f"knob{i}", 0, axis.size - 1) if axis.size > 1 else 0
        return float(axis.at(np.array([index]))[0])

    def tell(self, codes: Array, values: Array, excesses: Array) -> None:
        known = np.where(np.isfinite(values), values, 0.0)  # what misses a constraint is not judged by these
        for trial, value, excess in zip(self.trials, known.tolist(), excesses.tolist(), strict=True):
            for i, part in enumerate(excess):
                trial.set_constraint(str(i), part)
            self.study.tell(trial, value)


class Neighbours:
    """Points that differ in one knob from one on the front so far: the next value up or down, or any other of a knob
    whose values are of no order; in a continuum, its ends and a step, which halves when it finds nothing better."""

    def __init__(self, axes: tuple[Axis, ...], most: int, seed: int) -> None:
        self.axes, self.most = axes, most
        self.random = np.random.default_rng(seed)
        self.seen: set[bytes] = set()
        self.codes: list[Array] = []
        self.values: list[Array] = []
        self.step = 0.1

    def tell(self, codes: Array, values: Array, excesses: Array) -> None:
        kept = np.all(excesses <= 0, axis=1) & np.isfinite(values).all(axis=1)
        self.seen.update(row.tobytes() for row in codes)
        if kept.any():
            all_codes = np.concatenate([*self.codes, codes[kept]])
            all_values = np.concatenate([*self.values, values[kept]])
            mask = front(all_values)
            if self.codes and mask[: len(self.codes[0])].all() and not mask[len(self.codes[0]) :].any():
                self.step /= 2
            self.codes, self.values = [all_codes[mask]], [all_values[mask]]

    def ask(self) -> Array | None:
        while self.codes:
            found: dict[bytes, Array] = {}
            for row in self.codes[0]:
                for i, axis in enumerate(self.axes):
                    for code in self._beside(axis, row[i]):
                        near = row.copy()
                        near[i] = code
                        if near.tobytes() not in self.seen:
                            found.setdefault(near.tobytes(), near)
            if found:
                return self.random.permutation(np.stack(list(found.values())))[: self.most]
            if all(axis.size is not None for axis in self.axes) or self.step < LEAST_STEP:
                return None
            self.step /= 2
        return None

    def _beside(self, axis: Axis, code: float) -> list[float]:
        if axis.size is None:
            return self._along(axis, code)
        grid = np.unique(axis.at(np.arange(axis.size)))
        if axis.dimension is None and not _ordered(axis):
            return [float(c) for c in grid if c != code]
        at = int(np.searchsorted(grid, code))
        return [float(grid[j]) for j in (at - 1, at + 1) if 0 <= j < len(grid)]

    def _along(self, axis: Axis, code: float) -> list[float]:
        if axis.scale == "log":
            ratio = (axis.high / axis.low) ** self.step
            ends = [code / ratio, code * ratio]
        else:
            ends = [code - self.step * (axis.high - axis.low), code + self.step * (axis.high - axis.low)]
        inside = [min(max(e, axis.low), axis.high) for e in (*ends, axis.low, axis.high)]
        return [float(round(e)) if axis.whole else e for e in inside]


def _ordered(axis: Axis) -> bool:
    """Whether values that are no quantities are counts, from small to large."""
    values = axis.values or ()
    return all(type(v) is int for v in values) and list(values) == sorted(values)


class Bred:
    """Generations for a share of the search, then neighbours of the front, then generations again where those end.

    `spent`: the share of points or time that is used up, and how many points are left.
    """

    def __init__(self, genetic: Genetic, neighbours: Neighbours, spent: Callable[[], tuple[float, int]]) -> None:
        self.genetic, self.neighbours, self.spent = genetic, neighbours, spent
        self.last: Asker = genetic
        self.stale = 0

    def ask(self) -> Array | None:
        share, left = self.spent()
        breeds = self.stale < STALE and left >= self.genetic.population
        if not (breeds and share < BRED):
            self.last = self.neighbours
            found = self.neighbours.ask()
            if found is not None:
                return found[:left]
        if not breeds:
            return None
        self.last = self.genetic
        return self.genetic.ask()

    def tell(self, codes: Array, values: Array, excesses: Array) -> None:
        before = len(self.neighbours.seen)
        self.neighbours.tell(codes, values, excesses)
        if self.last is self.genetic:
            fresh = len(self.neighbours.seen) - before
            self.stale = self.stale + 1 if fresh < FRESH * self.genetic.population else 0
            self.genetic.tell(codes, values, excesses)
