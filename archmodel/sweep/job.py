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


PLAN = "plan"
"""Column of the tables' plans, where designs are planned anew."""


@dataclass(frozen=True)
class Replan:
    """How the tables of every design are placed anew: by so many tried plans, or for so many seconds (which another
    machine, or the same one on another day, uses for other plans)."""

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Job:
    """A base design, the points, and what is written down of each; `pass_points` and `chunk_points` cut the work.

    `follows`: fields that follow the axes. `replan`: each design's tables are placed anew, for the values that the base
    design has of numeric axes.
    """

    design: Design
    space: Space
    outputs: tuple[str, ...]
    pass_points: int = 1
    chunk_points: int = 1
    follows: tuple[Follow, ...] = ()
    replan: Replan | None = None

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
    designs, as (structural codes as bytes, JSON of `plan.tables`)."""

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
        table = _Table.of(len(number), job.outputs)
        if job.replan is not None:
            table.columns[PLAN] = np.full(len(number), None, dtype=object)
        structural = job.structural
        for rows in _groups(codes[:, structural]):
            base = self.design(structural, codes[rows[0]])
            if job.replan is not None:
                table.columns[PLAN][rows] = self.plans.get(codes[rows[0], structural].tobytes())
            if isinstance(base, str):
                table.fail(rows, base)
                continue
            for begin in range(0, len(rows), job.pass_points):
                self.evaluate(table, base, codes, rows[begin : begin + job.pass_points])
        order = np.argsort(number, kind="stable")
        columns: Columns = {"point": number[order]}
        for i, axis in enumerate(job.space.axes):
            columns[axis.path] = axis.column(codes[order, i])
        for name, column in table.columns.items():
            columns[name] = column[order]
        return columns

    def design(self, structural: list[int], codes: Array) -> Design | str:
        """The compiled design of a point, or why there is none."""
        key = codes[structural].tobytes()
        if key in self.compiled:
            self.compiled.move_to_end(key)
            return self.compiled[key]
        found: Design | str
        try:
            found = designed(self.job, structural, codes)
            if self.job.replan is not None:
                found = self.planned(key, found)
            found.program  # noqa: B018  lowered here, once
        except Exception as error:  # whatever a point's model trips over is that point's result
            found = one_line(error)
        self.compiled[key] = found
        if len(self.compiled) > COMPILED:
            self.compiled.popitem(last=False)
        return found

    def planned(self, key: bytes, design: Design) -> Design:
        """The design with its tables placed anew, or as `plans` knows it."""
        from archmodel.search.planner import plan, with_tables

        how = self.job.replan
        assert how is not None
        if key not in self.plans:
            as_it_is = followed(self.job.follows, design.spec, {})
            found = plan(design.with_(as_it_is), how.seconds, seed=how.seed, trials=how.trials)
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

    @classmethod
    def of(cls, points: int, names: tuple[str, ...]) -> _Table:
        columns: Columns = {name: np.full(points, np.nan) for name in names}
        columns["fits"] = np.zeros(points, dtype=bool)
        columns["reason"] = np.full(points, None, dtype=object)
        return cls({name: output(name) for name in names}, columns)

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
