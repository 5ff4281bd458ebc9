"""What a search wants and what it must keep to: objectives and constraints over outputs of the estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array
from archmodel.sweep.job import Columns
from archmodel.sweep.outputs import OP, OUTPUTS, TIER, Output, output

RACK = "peak_power_per_rack"
"""Known to a search that says how many nodes a rack has: that many times `peak_power_per_node`."""

UNKNOWN_EXCESS = 1.0
"""By how much a constraint counts as missed whose output is not known, because the point does not fit."""

FAILED_EXCESS = 1e6
"""By how much a point that cannot be evaluated misses: more than any other."""

FALLING = (
    "iteration_time", "latency", "exposed_communication", "energy_per_sample", "power", "usd_per_million_samples",
    "hbm_need", "ddr_need", "nodes", "ranks", "price", "peak_power", "peak_power_per_node", RACK,
)  # fmt: skip
"""Outputs that are better when they are smaller; the others are better when they are larger."""


def smaller_is_better(name: str) -> bool:
    """The sense of an output when nobody says."""
    if name.startswith(TIER):
        return not name.endswith(".lifetime_days")
    return name in FALLING or name.startswith(OP)


@dataclass(frozen=True)
class Quantity:
    """An output by name, of one of several models or (`family` None) of all of them together."""

    name: str
    family: str | None = None

    @property
    def label(self) -> str:
        """As a file writes it: `throughput`, or `dcnv2.throughput`."""
        return f"{self.family}.{self.name}" if self.family else self.name

    @property
    def column(self) -> str:
        """The output that it is read off."""
        return "peak_power_per_node" if self.name == RACK else self.name

    @property
    def unit(self) -> str:
        """SI unit."""
        return described(self.name).unit


def described(name: str) -> Output:
    """Unit and meaning of an output."""
    if name == RACK:
        node = OUTPUTS["peak_power_per_node"]
        return Output("W", "power of a full rack when all of its devices are busy", node.read, True, True)
    return output(name)


@dataclass(frozen=True)
class Objective:
    """A quantity to have as much of as possible, or as little."""

    of: Quantity
    largest: bool

    def small(self, values: Array) -> Array:
        """Values as something to be small."""
        return -values if self.largest else values


@dataclass(frozen=True)
class Constraint:
    """A quantity that is at most, or at least, a limit (SI)."""

    of: Quantity
    limit: float
    at_most: bool

    def excess(self, values: Array) -> Array:
        """By which share of the limit each value misses it; 0 or less where it is kept, `UNKNOWN_EXCESS` for NaN."""
        over = values - self.limit if self.at_most else self.limit - values
        scaled = over / abs(self.limit) if self.limit else over
        return np.where(np.isnan(values), UNKNOWN_EXCESS, scaled)

    def used(self, value: float) -> float:
        """How much of the limit a value that keeps to it takes, 1 being all of it."""
        if self.at_most:
            return value / self.limit if self.limit else 1.0
        return self.limit / value if value else 1.0


@dataclass(frozen=True)
class Aims:
    """Objectives and constraints of a search over `families` (models), whose columns are called `family.output`, or
    just `output` when there is one model."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    families: tuple[str, ...] = ("",)
    nodes_per_rack: int = 1

    def outputs(self) -> tuple[str, ...]:
        """Outputs that every model is evaluated for: what is asked about, and whether it fits."""
        asked = [of.column for of in (*(o.of for o in self.objectives), *(c.of for c in self.constraints))]
        return tuple(dict.fromkeys([*asked, "hbm_need", "hbm_capacity", "ddr_need", "ddr_capacity"]))

    def read(self, of: Quantity, columns: Columns) -> Array:
        """A quantity of every point: of several models the geometric mean, unless it names one."""
        times = self.nodes_per_rack if of.name == RACK else 1
        each = [np.asarray(columns[key], dtype=np.float64) * times for key in self._columns(of)]
        if len(each) == 1:
            return each[0]
        with np.errstate(all="ignore"):
            mean: Array = np.exp(np.mean(np.log(np.stack(each)), axis=0))
        return mean

    def _columns(self, of: Quantity) -> list[str]:
        families = self.families if of.family is None else (of.family,)
        return [named(family, of.column) for family in families]

    def values(self, columns: Columns) -> Array:
        """Every objective as something to be small, (points, objectives); NaN where it is not known."""
        return np.stack([o.small(self.read(o.of, columns)) for o in self.objectives], axis=-1)

    def excesses(self, columns: Columns) -> Array:
        """By how much each point misses each constraint, memory of every model first: (points, constraints)."""
        found = []
        for family in self.families:
            worst = np.zeros(len(columns["point"]))
            for tier in ("hbm", "ddr"):
                need, capacity = (columns[named(family, f"{tier}_{part}")] for part in ("need", "capacity"))
                with np.errstate(all="ignore"):
                    worst = np.fmax(worst, need / capacity - 1.0)
            fits = columns[named(family, "fits")].astype(bool)
            found.append(np.where(fits, np.minimum(worst, 0.0), np.maximum(worst, np.finfo(float).tiny)))
            found[-1] = np.where(~fits & np.isnan(columns[named(family, "hbm_need")]), FAILED_EXCESS, found[-1])
        for constraint in self.constraints:
            names = self.families if constraint.of.family is None else (constraint.of.family,)
            each = [self.read(Quantity(constraint.of.name, family), columns) for family in names]
            found.append(np.max([constraint.excess(values) for values in each], axis=0))
        return np.stack(found, axis=-1)

    def feasible(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Points that fit, keep to every constraint and have every objective."""
        kept, known = self.excesses(columns) <= 0, np.isfinite(self.values(columns))
        found: npt.NDArray[np.bool_] = np.all(kept, axis=1) & np.all(known, axis=1)
        return found


def named(family: str, column: str) -> str:
    """The name of a model's column."""
    return f"{family}.{column}" if family else column
