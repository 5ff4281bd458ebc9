"""Axes of a sweep: the values that one field of a design takes.

An axis turns positions in the sweep into codes, one float64 per point: the SI value itself, or the index into a list of
values that are no numbers. Codes are what is grouped, sent and evaluated; `column` and `value` turn them back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from archmodel.errors import shown
from archmodel.quantities import DIMENSIONS, Array

Scale = Literal["linear", "log"]


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`, both included, as given: unit text or SI numbers. `count` values in a grid."""

    low: Any
    high: Any
    count: int | None = None
    scale: Scale = "linear"


@dataclass(frozen=True, slots=True)
class Options:
    """Values with names: of one field, or, with `together`, what several fields are set to, by path."""

    values: Mapping[str, Any]
    together: bool = False


def linspace(low: Any, high: Any, count: int) -> Range:
    """`count` values evenly from `low` to `high`: `linspace("1 TB/s", "8 TB/s", 200)`."""
    return Range(low, high, count)


def logspace(low: Any, high: Any, count: int) -> Range:
    """`count` values from `low` to `high` in equal ratios."""
    return Range(low, high, count, "log")


def between(low: Any, high: Any, scale: Scale = "linear") -> Range:
    """Anything from `low` to `high`, for sampled sweeps."""
    return Range(low, high, None, scale)


@dataclass(frozen=True)
class Axis:
    """One resolved axis: either `values`, or everything from `low` to `high`.

    `numeric`: values go into a pass as an array; else each value is a design of its own, compiled once.
    `dimension`: name of the quantity, whose values are SI floats; None for values of any other kind.
    """

    path: str
    dimension: str | None = None
    values: tuple[Any, ...] | None = None
    low: float = 0.0
    high: float = 0.0
    scale: Scale = "linear"
    whole: bool = False
    numeric: bool = False
    names: tuple[str, ...] = ()
    """What its values are called in tables, where they have names of their own."""
    bundle: bool = False
    """Whether a value is a mapping of paths to what they are set to together; `path` is then only a name."""

    @property
    def unit(self) -> str:
        """SI unit of its values, empty for what has none."""
        return DIMENSIONS[self.dimension].unit if self.dimension else ""

    @property
    def size(self) -> int | None:
        """How many values it has; None for a continuum."""
        return None if self.values is None else len(self.values)

    def at(self, index: npt.NDArray[np.int64]) -> Array:
        """Codes of the values at `index`."""
        assert self.values is not None
        if self.dimension is None:
            return self._firsts[index]
        return np.asarray(self.values, dtype=np.float64)[index]

    @cached_property
    def _firsts(self) -> Array:
        """For every value that is no number, where it stands first: equal values are one design."""
        first: dict[tuple[str, str], int] = {}
        keys = [(type(v).__name__, _json(v)) for v in self.values or ()]
        return np.array([first.setdefault(key, i) for i, key in enumerate(keys)], dtype=np.float64)

    def drawn(self, u: Array) -> Array:
        """Codes for `u` in [0, 1): uniform over the values, or over the range on its scale."""
        if self.values is not None:
            return self.at(np.minimum((u * len(self.values)).astype(np.int64), len(self.values) - 1))
        if self.whole and self.scale == "linear":
            return np.floor(self.low + u * (self.high - self.low + 1))
        log = self.scale == "log"
        codes = self.low * (self.high / self.low) ** u if log else self.low + u * (self.high - self.low)
        return np.clip(np.rint(codes) if self.whole else codes, self.low, self.high)

    def value(self, code: float) -> Any:
        """What the design's field is set to."""
        if self.dimension is None and self.values is not None:
            return self.values[int(code)]
        return int(code) if self.whole else float(code)

    def changes(self, code: float) -> dict[str, Any]:
        """What the design is changed to, by path."""
        value = self.value(code)
        return dict(value) if self.bundle else {self.path: value}

    def column(self, codes: Array) -> npt.NDArray[Any]:
        """The values at `codes` as a column of the table: numbers, truth values or labels."""
        if self.dimension is not None or self.values is None:
            return codes.astype(np.int64) if self.whole else codes
        return np.asarray(self.labels)[codes.astype(np.int64)]

    @property
    def labels(self) -> Sequence[Any]:
        """`values` as cells of one column: as they are when all are numbers or truth values, else text."""
        assert self.values is not None
        if self.names:
            return self.names
        for kind in (bool, int, float):
            if all(type(v) is kind for v in self.values):
                return self.values
        if all(type(v) in (int, float) for v in self.values):
            return [float(v) for v in self.values]
        short = [_label(v) for v in self.values]
        return short if len(set(short)) == len(short) else [_json(v) for v in self.values]

    def described(self) -> dict[str, Any]:
        """What it is, for a manifest."""
        answer: dict[str, Any] = {"path": self.path, "unit": self.unit, "numeric": self.numeric}
        if self.values is not None:
            called = {"names": list(self.names)} if self.names else {}
            return {**answer, **called, "values": json.loads(_json(list(self.values)))}
        return {**answer, "from": self.low, "to": self.high, "scale": self.scale, "whole": self.whole}


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return str(value["name"])
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=shown)
