"""What a search found: the front, every point it evaluated, and how much of what is possible the front holds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archmodel.design import Design
from archmodel.errors import ArchmodelError
from archmodel.quantities import Array
from archmodel.search.aims import RACK, Objective, Quantity, named
from archmodel.search.file import Asked
from archmodel.search.pareto import front, hypervolume
from archmodel.search.record import Record
from archmodel.sweep.follow import followed
from archmodel.sweep.job import Columns, designed
from archmodel.sweep.outputs import output

if TYPE_CHECKING:
    import polars

BOUND = 64
"""Most points of a front of which a written table says what binds them: each is an estimate of its own."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Points:
    """Codes (points, axes) and, in the same order, the columns of outputs."""

    codes: Array
    columns: Columns


@dataclass(frozen=True)
class Binding:
    """What holds a point back: the resource that most of its critical path waits for, and the constraint that it comes
    nearest to, with the share of its limit that is used. By model, where there are several."""

    resource: str
    share: float
    constraint: str
    used: float


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """A search's answer.

    `points`: every evaluated point, in the order asked. `front`: rows of it that no other feasible point dominates,
    the best of the first objective first. `hypervolume`: of the front within `reference` (by objective, SI), in the
    product of the objectives' units; `share`: of the box between `reference` and the best value of each objective.
    `meta`: hashes of designs, versions, seed, method, and whether every point was evaluated (`complete`).
    """

    asked: Asked
    points: Points
    front: Rows
    hypervolume: float
    share: float
    reference: Mapping[str, float]
    meta: Mapping[str, Any]
    plans: Mapping[int, tuple[str | None, ...]]
    _bindings: dict[int, tuple[Binding, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Found: {len(self.points.codes):,} points over {', '.join(self.knobs)}; front of {len(self.front):,}>"

    @property
    def complete(self) -> bool:
        """Whether every point of the space was evaluated, so that the front is exact."""
        return bool(self.meta["complete"])

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt ended it."""
        return bool(self.meta["interrupted"])

    @cached_property
    def feasible(self) -> Rows:
        """Rows of points that fit and keep to every constraint."""
        return np.flatnonzero(self.asked.aims.feasible(self.points.columns)) if len(self.points.codes) else _none()

    @property
    def knobs(self) -> tuple[str, ...]:
        """Names of the knobs."""
        return tuple(axis.path for axis in self.asked.axes)

    @cached_property
    def units(self) -> dict[str, str]:
        """SI unit of every knob and output, by column."""
        units = {axis.path: axis.unit for axis in self.asked.axes}
        for family in self.asked.aims.families:
            units |= {named(family, name): output(name).unit for name in self.asked.jobs[0].outputs}
        return units | {name: of.unit for name, of in self._derived.items()}

    @cached_property
    def _derived(self) -> dict[str, Quantity]:
        """Aims that are no column of their own: of a rack, or of several models together."""
        aims = self.asked.aims
        asked = [*(o.of for o in aims.objectives), *(c.of for c in aims.constraints)]
        several = len(aims.families) > 1
        return {of.label: of for of in asked if of.name == RACK or (several and of.family is None)}

    def column(self, name: str) -> npt.NDArray[Any]:
        """A knob, an output or an aim of every point, by name."""
        if name in self._derived:
            return self.asked.aims.read(self._derived[name], self.points.columns)
        for i, axis in enumerate(self.asked.axes):
            if axis.path == name:
                return axis.column(self.points.codes[:, i])
        return self.points.columns[name]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Columns of a table: the point's number, knobs, outputs, whether it fits and why not."""
        families = self.asked.aims.families
        outputs = [named(f, name) for f in families for name in self.asked.jobs[0].outputs]
        ends = [named(f, name) for f in families for name in ("fits", "reason")]
        return tuple(dict.fromkeys(["point", *self.knobs, *self._derived, *outputs, *ends]))

    @property
    def _measured(self) -> set[str]:
        """Columns with a unit that are no knobs."""
        return set(self.units) - set(self.knobs)

    def table(self, rows: Rows) -> Columns:
        """Some points with all their columns."""
        return {name: self.column(name)[rows] for name in self.names} if len(self.points.codes) else {}

    def rows(self, rows: Rows) -> list[dict[str, Any]]:
        """The same, a mapping for each point."""
        table = {name: column.tolist() for name, column in self.table(rows).items()}
        return [{name: column[i] for name, column in table.items()} for i in range(len(rows))]

    @property
    def reasons(self) -> dict[str, int]:
        """Why points have no answer, and how many, the most frequent first."""
        found: Counter[str] = Counter()
        for family in self.asked.aims.families:
            found.update(text for text in self.points.columns.get(named(family, "reason"), ()) if text is not None)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    # --- points as designs -----------------------------------------------------------------------------------

    def design(self, row: int, family: str | None = None) -> Design:
        """The design of a point, by its row (those of `front` are rows): knobs turned, what follows them set, and its
        tables placed as they were for it. `family`: of which model."""
        families = self.asked.aims.families
        index = 0 if family is None else families.index(family)
        job, codes = self.asked.jobs[index], self.points.codes[row]
        base = designed(job, list(range(len(job.space.axes))), codes)
        if job.follows:
            base = base.with_(followed(job.follows, base.spec, {}))
        text = self.plans.get(int(row), (None,) * len(families))[index]
        return base if text is None else base.with_({"plan.tables": json.loads(text)})

    def binding(self, row: int) -> tuple[Binding, ...]:
        """What holds a point back, for each model."""
        if row not in self._bindings:
            self._bindings[row] = self._bound(row)
        return self._bindings[row]

    def _bound(self, row: int) -> tuple[Binding, ...]:
        from archmodel.estimate.estimate import estimate

        aims, columns = self.asked.aims, {name: c[[row]] for name, c in self.points.columns.items()}
        found = []
        for family in aims.families:
            bound = estimate(self.design(row, family or None)).bound
            used = {}
            for tier in ("hbm", "ddr"):
                need, capacity = (float(columns[named(family, f"{tier}_{part}")][0]) for part in ("need", "capacity"))
                if capacity > 0:
                    used[f"{tier} capacity"] = need / capacity
            for constraint in aims.constraints:
                if constraint.of.family in (None, family):
                    value = float(aims.read(Quantity(constraint.of.name, family), columns)[0])
                    used[constraint.of.label] = constraint.used(value)
            nearest = max(used, key=lambda k: used[k], default="")
            share = bound.shares.get(bound.resource, 0.0)
            found.append(Binding(bound.resource, share, nearest, used.get(nearest, 0.0)))
        return tuple(found)

    # --- files -----------------------------------------------------------------------------------------------

    def to_polars(self, rows: Rows | None = None) -> polars.DataFrame:
        """The front (or other rows) as a polars frame, with hashes and versions in every row. Needs `table`."""
        from archmodel.sweep.store import needs_polars, series

        pl = needs_polars()
        table = self.table(self.front if rows is None else rows)
        data = {name: series(name, column) for name, column in table.items()}
        made = {name: pl.lit(str(self.meta[name])).alias(name) for name in ("package_version", "git_version", "seed")}
        made["design_hash"] = pl.lit(" ".join(self.meta["designs"].values())).alias("design_hash")
        frame: polars.DataFrame = pl.DataFrame(data).with_columns(**made)
        return frame

    def write(self, path: Path) -> list[Path]:
        """Writes the front to `path` (parquet), all points beside it, and the plans of planned points as plan files
        into a folder there; says which files."""
        from archmodel.interop.plan_file import plan_text
        from archmodel.sweep.store import needs_polars

        pl = needs_polars()
        if path.suffix != ".parquet":
            raise ArchmodelError(f"{path}: the front is written as parquet; name it so, e.g. front.parquet")
        frame = self.to_polars()
        chosen = set(spread(self.front, BOUND).tolist())
        bindings = [self.binding(int(row)) if int(row) in chosen else () for row in self.front]
        words = [" / ".join(f"{b.resource} {b.share:.0%}" for b in each) or None for each in bindings]
        near = [" / ".join(f"{b.constraint} {b.used:.0%}" for b in each) or None for each in bindings]
        extra = {"bound_by": words, "nearest_limit": near}
        written = [path]
        folder = path.with_name(f"{path.stem}.plans")
        if folder.is_dir() and all(f.name.startswith("point-") and f.suffix == ".yaml" for f in folder.iterdir()):
            shutil.rmtree(folder)
        if self.asked.jobs[0].replan is not None:
            folder.mkdir(exist_ok=True)
            names: list[str | None] = []
            for row in self.front.tolist():
                of = []
                for family in self.asked.aims.families:
                    name = f"point-{int(self.points.columns['point'][row]):06}{'-' + family if family else ''}.yaml"
                    (folder / name).write_text(plan_text(self.design(row, family or None)), encoding="utf-8")
                    of.append(f"{folder.name}/{name}")
                names.append(" ".join(of))
            extra["plan"] = names
            written.append(folder)
        frame = frame.with_columns(**{name: pl.Series(name, column, dtype=pl.String) for name, column in extra.items()})
        told = {
            **self.meta, "units": self.units, "outputs": [name for name in self.names if name in self._measured],
            "objectives": {o.of.label: "max" if o.largest else "min" for o in self.asked.aims.objectives},
            "reference": dict(self.reference), "hypervolume": self.hypervolume, "share": self.share,
        }  # fmt: skip
        notes = {"archmodel": json.dumps(told)}
        every = path.with_name(f"{path.stem}.points.parquet")
        frame.write_parquet(path, metadata=notes)
        self.to_polars(np.arange(len(self.points.codes))).write_parquet(every, metadata=notes)
        return [*written, every]


def _none() -> Rows:
    return np.empty(0, dtype=np.int64)


def spread(rows: Rows, most: int) -> Rows:
    """At most so many of the rows, evenly, both ends among them."""
    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).round().astype(np.int64))]


def found_of(asked: Asked, points: Points, meta: Mapping[str, Any], record: Record) -> Found:
    """The front of the points that were evaluated."""
    aims = asked.aims
    rows, values = _none(), np.empty((0, len(aims.objectives)))
    reference: dict[str, float] = dict(asked.reference or {})
    volume = share = 0.0
    if len(points.codes):
        all_values = aims.values(points.columns)
        feasible = np.flatnonzero(aims.feasible(points.columns))
        if len(feasible):
            values = all_values[feasible]
            mask = front(values)
            if not reference:
                reference = _natural(aims.objectives, values.max(0))
            corner = np.array([_small(o, reference[o.of.label]) for o in aims.objectives])
            rows, values = feasible[mask], values[mask]
            order = np.lexsort(values.T[::-1])
            rows, values = rows[order], values[order]
            volume = hypervolume(values, corner)
            box = float(np.prod(corner - values.min(0)))
            share = volume / box if box > 0 else 0.0
    plans: dict[int, tuple[str | None, ...]] = {}
    if asked.jobs[0].replan is not None:
        for row in rows.tolist():
            plans[row] = tuple(record.plan_of(f, points.codes[row].tobytes()) for f in range(len(asked.jobs)))
    return Found(asked, points, rows, volume, share, reference, meta, plans)


def _small(objective: Objective, value: float) -> float:
    return -value if objective.largest else value


def _natural(objectives: Sequence[Objective], corner: Array) -> dict[str, float]:
    return {o.of.label: float(_small(o, v)) for o, v in zip(objectives, corner, strict=True)}
