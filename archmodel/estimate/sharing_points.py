"""The simulation of `archmodel.estimate.sharing` for many design points at once, whose ranks are all alike.

Every point has a clock of its own. A step takes each of them to its next event, with the same arithmetic in the same
order as the simulation of one point, so that results are equal. What runs is held by stream: an op takes the place of
its first stream, of which there is never more than one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from archmodel.estimate.sharing import ITERATIONS, SETTLED, Run, Shared, SharedTimeline, average_growth
from archmodel.program import Program
from archmodel.quantities import Array

Ints = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]
AT_ONCE = 256
"""Design points that are followed together: more cost memory and save nothing."""


def simulate_points(
    program: Program, shared: Shared, lifo: bool = False, iterations: int | None = None
) -> SharedTimeline:
    """Timelines of `shared`, whose arrays are (points, ranks) or (points, 1). `iterations`: of exactly so many, from a
    standing start."""
    count = len(shared.alone[0])
    parts = []
    for first in range(0, count, AT_ONCE):
        some = shared if count <= AT_ONCE else shared.at(slice(first, first + AT_ONCE))
        parts.append(_settled(program, some, lifo) if iterations is None else _first(program, some, lifo, iterations))
    start, end, before, period = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
    run = _alone(program, shared, lifo)

    def rows(values: Array) -> tuple[Array, ...]:
        return tuple(np.broadcast_to(row[:, None], (count, run.ranks)) for row in values)

    return SharedTimeline(
        period=period,
        latency=end.max(axis=0, initial=0.0) - start.min(axis=0, initial=np.inf),
        dependencies=run.d,
        times=rows(end - start),
        starts_of_runs=(),
        previous_starts_of_runs=(),
        starts=rows(start),
        previous_ends=rows(before),
    )


def _settled(program: Program, shared: Shared, lifo: bool) -> tuple[Array, ...]:
    """(start, end, end one iteration before) (ops, points) of an iteration in the steady state, and its period."""
    count, most = ITERATIONS
    found, still = _iteration(program, shared, lifo, count)
    if not still.all():
        longer, _ = _iteration(program, shared.at(~still), lifo, most)
        for whole, part in zip(found, longer, strict=True):
            whole[..., ~still] = part
    return found


def _first(program: Program, shared: Shared, lifo: bool, count: int) -> tuple[Array, ...]:
    """The same of the last of `count` iterations, and the mean time of all."""
    start, end = _Points(program, shared, lifo).play(count)
    before = end[-2] if count > 1 else np.zeros_like(end[-1])
    return start[-1], end[-1], before, end[-1].max(axis=0, initial=0.0) / count


def _iteration(program: Program, shared: Shared, lifo: bool, count: int) -> tuple[tuple[Array, ...], Truth]:
    """The same of the last iteration but one of `count` (the very last has nothing after it to share with), and which
    points have settled by then."""
    start, end = _Points(program, shared, lifo).play(count)
    growth = np.diff(end, axis=0).max(axis=1, initial=0.0)  # (iterations - 1, points)
    last = count - 2
    still = np.abs(growth[-2] - growth[-3]) <= SETTLED * np.maximum(growth[-2], 1e-30)
    period = np.where(still, growth[last - 1], average_growth(growth, last))
    return (start[last], end[last], end[last - 1], period), still


def _alone(program: Program, shared: Shared, lifo: bool) -> Run:
    """What a simulation of one point knows of the program: its streams, what waits for what, the number of ranks."""
    return Run(program, Shared(tuple(a[0] for a in shared.alone), takes_turns=shared.takes_turns), lifo)


class _Points:
    """State of all points. Job = iteration x ops + op; job -1 and the entry behind the last op are none."""

    def __init__(self, program: Program, shared: Shared, lifo: bool) -> None:
        run = _alone(program, shared, lifo)
        names = sorted({name for streams in run.streams for name in streams})
        bit = {name: 1 << s for s, name in enumerate(names)}
        self.run, self.ops, self.streams = run, run.ops, len(names)
        self.points = len(shared.alone[0])
        self.mask = np.array([*(sum(bit[s] for s in streams) for streams in run.streams), 0])
        self.slot = np.array([names.index(streams[0]) for streams in run.streams])
        self.alone = np.stack([a[:, 0] for a in shared.alone])  # (ops, points)
        self._beside(shared)

    def _beside(self, shared: Shared) -> None:
        """`pair[i, j]`: row of `more` (pairs + 1, points), what op j beside op i adds to its time; the last is 0."""
        rows: list[Array] = []
        self.pair = np.full((self.ops + 1, self.ops + 1), -1)
        for table in (shared.starved, shared.slowed):
            for i, row in table.items():
                for j, values in row.items():
                    if i != j and np.any(values != 1.0):
                        self.pair[i, j] = len(rows)
                        rows.append(values[:, 0] - 1.0)
        self.more = np.stack([*rows, np.zeros(self.points)])

    def play(self, iterations: int) -> tuple[Array, Array]:
        """Starts and ends, (iterations, ops, points)."""
        n, jobs, points = self.ops, self.ops * iterations, self.points
        followers, first, waits = self._waits(iterations)
        left_to_wait = np.repeat(waits[:, None], points, axis=1)
        start, end = (np.full((jobs, points), np.nan) for _ in range(2))
        job = np.full((self.streams, points), -1)
        left, rate = np.zeros(job.shape), np.ones(job.shape)
        until = np.full(job.shape, np.inf)
        since, now = np.zeros(points), np.zeros(points)
        busy = np.zeros(points, dtype=np.int64)
        free = np.flatnonzero(waits == 0)
        ready = (np.repeat(free, points), np.tile(np.arange(points), len(free)))  # job, point

        def finish(s: Ints, p: Ints) -> tuple[Ints, Ints]:
            """Jobs that end now; those, with their points, that nothing keeps waiting any more."""
            done = job[s, p]
            end[done, p] = now[p]
            job[s, p], until[s, p] = -1, np.inf
            counts = first[done + 1] - first[done]
            rows = np.repeat(first[done] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            f, q = followers[rows], np.repeat(p, counts)
            np.subtract.at(left_to_wait, (f, q), 1)
            some = left_to_wait[f, q] == 0
            both = np.unique(f[some] * points + q[some])
            return both // points, both % points

        def begin(ready: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
            """Of every point's ready jobs the last issued that finds its streams free, until there is none."""
            j, p = ready
            while j.size:
                can = (self.mask[j % n] & busy[p]) == 0
                if not can.any():
                    break
                best = np.full(points, -1)
                np.maximum.at(best, p[can], j[can])
                q = np.flatnonzero(best >= 0)
                i, s = best[q] % n, self.slot[best[q] % n]
                job[s, q], left[s, q], start[best[q], q] = best[q], self.alone[i, q], now[q]
                busy[q] |= self.mask[i]
                others = best[p] != j
                j, p = j[others], p[others]
            return j, p

        def refresh() -> None:
            rate[:] = self._rates(job)
            until[:] = np.where(job >= 0, now + left / rate, np.inf)

        ready = begin(ready)
        refresh()
        while True:
            coming = until.min(axis=0)
            going = coming < np.inf
            if not going.any():
                break
            np.copyto(now, coming, where=going)
            left[:] = np.where(job >= 0, np.maximum(left - rate * (now - since), 0.0), left)
            np.copyto(since, now)
            ending = (until <= now) & going
            while ending.any():
                j, p = finish(*np.nonzero(ending))
                ready = np.concatenate([ready[0], j]), np.concatenate([ready[1], p])
                ending = (job >= 0) & (now + left <= now) & going
                if ending.any():  # what has so little left that it ends at the same time, if its rate is no less than 1
                    refresh()
                    ending = (until <= now) & going
            busy[:] = np.bitwise_or.reduce(self.mask[np.where(job >= 0, job % n, n)], axis=0)
            ready = begin(ready)
            refresh()
        return start.reshape(iterations, n, points), end.reshape(iterations, n, points)

    def _rates(self, job: Ints) -> Array:
        """Share of its speed alone that each op has beside what else runs, (streams, points)."""
        op = np.where(job >= 0, job % self.ops, self.ops)
        slower = np.ones(job.shape)
        columns = np.arange(job.shape[1])
        if len(self.more) > 1:
            for other in np.sort(job, axis=0) if self.streams > 2 else job:
                which = np.where(other >= 0, other % self.ops, self.ops)
                slower += self.more[self.pair[op, which], columns]
        return 1.0 / slower

    def _waits(self, iterations: int) -> tuple[Ints, Ints, Ints]:
        """Followers of all jobs one after the other, where each job's begin, and how many jobs each waits for."""
        waiting, followers = self.run.waits(iterations)
        rows = [[k * self.ops + i for k, i in found] for of_iteration in followers for found in of_iteration]
        first = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        flat = np.array([j for row in rows for j in row], dtype=np.int64)
        return flat, first, np.array(waiting).reshape(-1)
