"""What a worker needs to evaluate any stretch of a sweep, and the evaluation itself."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel import __version__
from archmodel.design import Design
from archmodel.errors import ArchmodelError
from archmodel.estimate.estimate import estimate
from archmodel.estimate.memory import MemoryNeed
from archmodel.quantities import DIMENSIONS, Array, show
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


@dataclass(frozen=True)
class Job:
    """A base design, the points, and what is written down of each; `pass_points` and `chunk_points` cut the work."""

    design: Design
    space: Space
    outputs: tuple[str, ...]
    pass_points: int = 1
    chunk_points: int = 1

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


@dataclass
class Worker:
    """Evaluates chunks of one job and keeps the designs that it compiled."""

    job: Job
    compiled: OrderedDict[tuple[float, ...], Design | str] = field(default_factory=OrderedDict)

    def chunk(self, chunk: int) -> Columns:
        """The columns of a chunk, its points in the order of their numbers."""
        job = self.job
        number, codes = job.space.rows(*job.bounds(chunk))
        table = _Table.of(len(number), job.outputs)
        structural = [i for i, axis in enumerate(job.space.axes) if not axis.numeric]
        for rows in _groups(codes[:, structural]):
            base = self.design(structural, codes[rows[0]])
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
        key = tuple(float(codes[i]) for i in structural)
        if key in self.compiled:
            self.compiled.move_to_end(key)
            return self.compiled[key]
        axes = self.job.space.axes
        found: Design | str
        try:
            base = self.job.design
            found = base.with_({axes[i].path: axes[i].value(codes[i]) for i in structural}) if structural else base
            found.program  # noqa: B018  lowered here, once
        except Exception as error:  # whatever a point's model trips over is that point's result
            found = one_line(error)
        self.compiled[key] = found
        if len(self.compiled) > COMPILED:
            self.compiled.popitem(last=False)
        return found

    def evaluate(self, table: _Table, base: Design, codes: Array, rows: npt.NDArray[np.int64]) -> None:
        """One pass over `rows`, points of one design; when it fails, its halves, down to the points that fail."""
        axes = [(i, axis) for i, axis in enumerate(self.job.space.axes) if axis.numeric]
        try:
            changes: dict[str, Any] = {axis.path: codes[rows, i] for i, axis in axes}
            if len(rows) == 1:
                changes = {axis.path: float(codes[rows[0], i]) for i, axis in axes}
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


def run_chunk(key: str, job: bytes, chunk: int) -> tuple[str, int, Columns]:
    """A chunk of the packed job `key`, in whichever process; and the version of archmodel that evaluated it."""
    worker = _WORKERS.get(key)
    if worker is None:
        worker = _WORKERS[key] = Worker(pickle.loads(job))
        while len(_WORKERS) > 2:
            _WORKERS.popitem(last=False)
    return __version__, chunk, worker.chunk(chunk)
