"""What a worker needs to evaluate any stretch of a sweep, and the evaluation itself."""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from archmodel import __version__
from archmodel.design import Design
from archmodel.errors import ArchmodelError
from archmodel.estimate.estimate import estimate
from archmodel.estimate.memory import MemoryNeed
from archmodel.quantities import DIMENSIONS, Array, show
from archmodel.source import split
from archmodel.sweep.follow import Follow, followed
from archmodel.sweep.outputs import Output, one_line, output
from archmodel.sweep.space import Space

Column = npt.NDArray[Any]
Columns = dict[str, Column]

PASS_NUMBERS = 131_072
"""Numbers of one array in a pass: 1 MiB, so that what one op touches stays in the second-level cache of a core."""

PASS_POINTS = 8_192
"""Most points of a pass; above it the fixed cost of a pass is a tenth of the whole and memory is all that grows."""

CHUNK_PASSES = 8
"""Most passes of a chunk, which is what one worker takes at a time and one file holds."""

CHUNKS = 32
"""A sweep is cut into at least so many chunks, if passes allow."""

CHUNK_DESIGNS = 16
"""Most designs that a chunk compiles, on average."""

COMPILED = 32
"""Compiled designs that a worker keeps."""

KEPT_JOBS = 4
"""Jobs that a worker process keeps."""


PLAN, PLAN_OF = "plan", "plan_of"
"""Columns of the tables' plans and of their keys, where designs are planned anew."""


@dataclass(frozen=True)
class Replan:
    """How the tables of every design are placed anew: by so many tried plans, or for so many seconds (which another
    machine, or the same one on another day, uses for other plans), and for so many values of its numeric axes."""

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0
    cells: int = 1


@dataclass(frozen=True)
class Job:
    """A base design, the points, and what is written down of each; `pass_points` and `chunk_points` cut the work.

    `follows`: fields that follow the axes. `replan`: each design's tables are placed anew, once for the values that the
    base design has of numeric axes, and once for each combination of `anchors`: (axis, codes) of the numeric axes that
    plans depend on. A point takes the faster of two plans, the first and that for the anchors nearest to it.
    """

    design: Design
    space: Space
    outputs: tuple[str, ...]
    pass_points: int = 1
    chunk_points: int = 1
    follows: tuple[Follow, ...] = ()
    replan: Replan | None = None
    anchors: tuple[tuple[int, tuple[float, ...]], ...] = ()

    def cells(self, codes: Array) -> Array:
        """The anchors nearest to points, (points, anchored axes): by ratio, or by difference where one is not above
        zero; of two as near, the lower."""
        found = np.empty((len(codes), len(self.anchors)))
        for i, (axis, values) in enumerate(self.anchors):
            at, grid = codes[:, axis, None], np.array(values)
            above = (grid > 0).all() and (at > 0).all()
            away = np.abs(np.log(at / grid)) if above else np.abs(at - grid)
            found[:, i] = grid[away.argmin(1)]
        return found

    def plan_keys(self, codes: Array) -> list[tuple[bytes, bytes]]:
        """Of each point, the keys of the two plans that it may take."""
        first, cells = codes[:, self.structural], self.cells(codes)
        return [(a.tobytes(), a.tobytes() + b.tobytes()) for a, b in zip(first, cells, strict=True)]

    @property
    def structural(self) -> list[int]:
        """Which axes make designs of their own."""
        return [i for i, axis in enumerate(self.space.axes) if not axis.numeric]

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.space.total // self.chunk_points)

    def bounds(self, chunk: int) -> tuple[int, int]:
        """Places of the points of a chunk."""
        return chunk * self.chunk_points, min((chunk + 1) * self.chunk_points, self.space.total)


def sizes(space: Space, width: int) -> tuple[int, int]:
    """Points of a pass and of a chunk, for times of `width` ranks: of the sweep alone, so that a sweep that is taken up
    again, by whatever workers, has the same chunks."""
    in_pass = max(16, min(PASS_POINTS, PASS_NUMBERS // width))
    passes = max(1, min(CHUNK_PASSES, space.total // (CHUNKS * in_pass)))
    of_design = max(1, space.total // max(1, space.designs))
    return in_pass, max(1, min(in_pass * passes, CHUNK_DESIGNS * of_design))


class Piece(NamedTuple):
    """Points that are given one by one: their codes, (points, axes) float64 as bytes, and plans that are known of their
    designs, as (key, JSON of `plan.tables`)."""

    number: int
    codes: bytes
    plans: tuple[tuple[bytes, str], ...] = ()


Chunk = int | Piece
"""What a worker takes at a time: a chunk of the space by its number, or given points."""


@dataclass
class Worker:
    """Evaluates chunks of one job and keeps the designs that it compiled."""

    job: Job
    compiled: OrderedDict[bytes, Design | str] = field(default_factory=OrderedDict)
    plans: dict[bytes, str] = field(default_factory=dict)

    def chunk(self, chunk: Chunk) -> Columns:
        """The columns of a chunk, its points in the order of their numbers."""
        job = self.job
        if isinstance(chunk, Piece):
            codes = np.frombuffer(chunk.codes, dtype=np.float64).reshape(-1, len(job.space.axes))
            self.plans |= dict(chunk.plans)
            return self.rows(np.arange(len(codes), dtype=np.int64), codes)
        return self.rows(*job.space.rows(*job.bounds(chunk)))

    def rows(self, number: npt.NDArray[np.int64], codes: Array) -> Columns:
        """The columns of points by their numbers and codes, in the order of their numbers."""
        job = self.job
        table = _Table.of(len(number), job.outputs, planned=job.replan is not None)
        for rows in _groups(codes[:, job.structural]):
            if job.replan is None:
                self.fill(table, self.design(codes[rows[0]]), codes, rows)
                continue
            for part in _groups(job.cells(codes[rows])):
                self.replanned(table, codes, rows[part])
        order = np.argsort(number, kind="stable")
        columns: Columns = {"point": number[order]}
        for i, axis in enumerate(job.space.axes):
            columns[axis.path] = axis.column(codes[order, i])
        for name, column in table.columns.items():
            columns[name] = column[order]
        return columns

    def fill(self, table: _Table, base: Design | str, codes: Array, rows: npt.NDArray[np.int64]) -> None:
        """Points of one design, a pass at a time."""
        if isinstance(base, str):
            table.fail(rows, base)
            return
        for begin in range(0, len(rows), self.job.pass_points):
            self.evaluate(table, base, codes, rows[begin : begin + self.job.pass_points])

    def replanned(self, table: _Table, codes: Array, rows: npt.NDArray[np.int64]) -> None:
        """Points of one design and cell, each under the faster of its plans."""
        codes, every = codes[rows], np.arange(len(rows), dtype=np.int64)
        texts: list[str | None] = []
        for key, cell in zip(self.job.plan_keys(codes[:1])[0], (None, self.job.cells(codes[:1])[0]), strict=True):
            base = self.design(codes[0], key, cell)
            text = self.plans.get(key)
            if texts and (text is None or text in texts):
                break
            texts.append(text)
            trial = _Table.of(len(rows), self.job.outputs, planned=True)
            self.fill(trial, base, codes, every)
            trial.columns[PLAN][:], trial.columns[PLAN_OF][:] = text, None if text is None else key
            table.take(rows, trial, every if cell is None else np.flatnonzero(trial.period < table.period[rows]))

    def design(self, codes: Array, key: bytes | None = None, cell: Array | None = None) -> Design | str:
        """The compiled design of a point, or why there is none; planned anew for the numbers of the base design, or of
        a `cell`, under `key`."""
        structural = self.job.structural
        named = codes[structural].tobytes() if key is None else key
        if named in self.compiled:
            self.compiled.move_to_end(named)
            return self.compiled[named]
        found: Design | str
        try:
            found = designed(self.job, structural, codes)
            if key is not None:
                found = self.planned(key, found, cell)
            found.program  # noqa: B018  lowered here, once
        except Exception as error:  # whatever a point's model trips over is that point's result
            found = one_line(error)
        self.compiled[named] = found
        if len(self.compiled) > COMPILED:
            self.compiled.popitem(last=False)
        return found

    def planned(self, key: bytes, design: Design, cell: Array | None) -> Design:
        """The design with its tables placed anew, or as `plans` knows it."""
        from archmodel.search.planner import plan, with_tables

        job, how = self.job, self.job.replan
        assert how is not None
        if key not in self.plans:
            numbers: dict[str, Any] = {}
            if cell is not None:
                axes = (job.space.axes[axis] for axis, _ in job.anchors)
                numbers = {axis.path: float(code) for axis, code in zip(axes, cell, strict=True)}
            numbers |= followed(job.follows, design.spec, numbers)
            changed = design.with_(numbers) if numbers else design
            found = plan(changed, how.seconds, seed=how.seed, trials=how.trials, bounded=False)
            if found.interrupted:
                raise KeyboardInterrupt
            self.plans[key] = json.dumps(found.tables())
        return with_tables(design, json.loads(self.plans[key]))

    def evaluate(self, table: _Table, base: Design, codes: Array, rows: npt.NDArray[np.int64]) -> None:
        """One pass over `rows`, points of one design; when it fails, its halves, down to the points that fail."""
        axes = [(i, axis) for i, axis in enumerate(self.job.space.axes) if axis.numeric]
        try:
            changes: dict[str, Any] = {axis.path: codes[rows, i] for i, axis in axes}
            if len(rows) == 1:
                changes = {axis.path: float(codes[rows[0], i]) for i, axis in axes}
            changes |= followed(self.job.follows, base.spec, changes)
            design = base.with_(changes) if changes else base
            if len(rows) > 1 and changes and design.__dict__.get("program") is not base.program:
                raise _OtherLayoutError
            with np.errstate(all="ignore"):
                self.write(table, design, rows)
        except Exception as error:  # as above
            if len(rows) == 1 or not axes:
                table.fail(rows, one_line(error))
                return
            middle = len(rows) // 2
            self.evaluate(table, base, codes, rows[:middle])
            self.evaluate(table, base, codes, rows[middle:])

    def write(self, table: _Table, design: Design, rows: npt.NDArray[np.int64]) -> None:
        """Evaluates `design`, which holds the points `rows`, into the table."""
        answer = estimate(design)
        fits = np.broadcast_to(np.asarray(answer.fits), len(rows))
        period = np.broadcast_to(np.asarray(answer.iteration_time), len(rows))
        finite = np.isfinite(period) & (period > 0)
        found = {name: table.outputs[name].read(answer) for name in self.job.outputs}
        for name, value in found.items():
            known = np.True_ if table.outputs[name].always else fits & finite
            table.columns[name][rows] = np.nan if value is None else np.where(known, value, np.nan)
        table.columns["fits"][rows] = fits & finite
        table.period[rows] = np.where(fits & finite, period, np.inf)
        if not fits.all():
            why = "; ".join(_overflow(need) for need in answer.memory.values() if not np.all(need.fits))
            table.columns["reason"][rows[~fits]] = f"does not fit: {why}"
        if not finite.all():
            table.columns["reason"][rows[fits & ~finite]] = "iteration_time came out as no positive number"


def designed(job: Job, axes: list[int], codes: Array) -> Design:
    """The base design with `axes` as the codes of a point have them: what holds others first."""
    changes: dict[str, Any] = {}
    for i in axes:
        changes |= job.space.axes[i].changes(codes[i])
    return job.design.with_(dict(sorted(changes.items(), key=lambda c: len(split(c[0]))))) if changes else job.design


class _OtherLayoutError(ArchmodelError):
    """A pass whose points are laid out differently."""


def _overflow(need: MemoryNeed) -> str:
    capacity = float(np.min(np.asarray(need.capacity)))
    least = DIMENSIONS["bytes"]
    return f"{need.tier} of rank {need.worst_rank} needs {show(need.worst, least)} of {show(capacity, least)}"


def _groups(codes: Array) -> Iterator[npt.NDArray[np.int64]]:
    """Rows with equal codes, group by group."""
    if not codes.shape[1] or not len(codes):
        yield from ([np.arange(len(codes))] if len(codes) else [])
        return
    order = np.lexsort(codes.T[::-1])
    changes = np.any(codes[order][1:] != codes[order][:-1], axis=1)
    yield from np.split(order, np.flatnonzero(changes) + 1)


@dataclass
class _Table:
    """Output columns under construction."""

    outputs: dict[str, Output]
    columns: Columns
    period: Array

    @classmethod
    def of(cls, points: int, names: tuple[str, ...], *, planned: bool = False) -> _Table:
        columns: Columns = {name: np.full(points, np.nan) for name in names}
        columns["fits"] = np.zeros(points, dtype=bool)
        for name in ("reason", PLAN, PLAN_OF) if planned else ("reason",):
            columns[name] = np.full(points, None, dtype=object)
        return cls({name: output(name) for name in names}, columns, np.full(points, np.inf))

    def take(self, rows: npt.NDArray[np.int64], other: _Table, which: npt.NDArray[np.int64]) -> None:
        """Takes the points `which` of another table of `rows`."""
        for name, column in self.columns.items():
            column[rows[which]] = other.columns[name][which]
        self.period[rows[which]] = other.period[which]

    def fail(self, rows: npt.NDArray[np.int64], reason: str) -> None:
        self.columns["reason"][rows] = reason


# --- in a worker process -------------------------------------------------------------------------------------

_WORKERS: OrderedDict[str, Worker] = OrderedDict()


def packed(job: Job) -> bytes:
    """A job as bytes that travel with every chunk; a worker unpacks them once."""
    return pickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL)


def run_chunk(key: str, job: bytes, chunk: Chunk) -> tuple[str, Chunk, Columns]:
    """A chunk of the packed job `key`, in whichever process; and the version of archmodel that evaluated it."""
    worker = _WORKERS.get(key)
    if worker is None:
        worker = _WORKERS[key] = Worker(pickle.loads(job))
        while len(_WORKERS) > KEPT_JOBS:
            _WORKERS.popitem(last=False)
    return __version__, chunk, worker.chunk(chunk)
