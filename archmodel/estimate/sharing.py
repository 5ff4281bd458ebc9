"""When ops run that slow each other down, and collectives that are taken last in, first out.

A fluid simulation of a few iterations: an op has work of its time alone, done at a rate that depends on what runs
beside it on its rank. A kernel beside a collective runs at t_alone / t_left, its time on the whole device over that on
what the endpoint leaves; a collective beside a kernel at the share of memory bandwidth that it gets. Rates change when
an op starts or ends, and nowhere else, so times are exact for the model.

Ranks are simulated together, one for all that are alike: that take the same times, alone and beside each other, and
wait for the same ranks. Design points go one at a time, or together where ranks are alike at every one
(`archmodel.estimate.sharing_points`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel.estimate.timeline import Dependencies, Timeline
from archmodel.program import Group, Program
from archmodel.quantities import Array

Ints = npt.NDArray[np.int64]
ITERATIONS = (4, 12)  # fewest, most
SETTLED = 1e-9


@dataclass(frozen=True)
class Shared:
    """Seconds and slow-downs. `alone[i]` (..., ranks) or (..., 1), leading axes design points. `slowed[i][j]`: times
    longer that kernel i takes beside collective j; `starved[j][i]`: collective j beside kernel i; absent: not at all.
    """

    alone: tuple[Array, ...]
    slowed: dict[int, dict[int, Array]] = field(default_factory=dict)
    starved: dict[int, dict[int, Array]] = field(default_factory=dict)
    takes_turns: bool = False

    def over(self, points: tuple[int, ...]) -> Shared:
        """The same with every array over all `points`, which become one axis."""

        def law(x: Array) -> Array:
            wanted = (*points, x.shape[-1])
            return (x if x.shape == wanted else np.broadcast_to(x, wanted)).reshape(-1, x.shape[-1])

        return self._each(law)

    def at(self, points: Any) -> Shared:
        """One or some of the points of `over`."""
        return self._each(lambda x: x[points])

    @property
    def alike(self) -> bool:
        """Whether all ranks are at every point."""
        tables = [*self.slowed.values(), *self.starved.values()]
        rows = [*self.alone, *(x for table in tables for x in table.values())]
        return all(x.shape[-1] == 1 or bool((x == x[..., :1]).all()) for x in rows)

    def _each(self, law: Callable[[Array], Array]) -> Shared:
        def table(rows: dict[int, dict[int, Array]]) -> dict[int, dict[int, Array]]:
            return {i: {j: law(x) for j, x in row.items()} for i, row in rows.items()}

        return replace(
            self, alone=tuple(law(x) for x in self.alone), slowed=table(self.slowed), starved=table(self.starved)
        )


@dataclass(frozen=True)
class SharedTimeline(Timeline):
    """A timeline whose ops took `times`, longer than alone where they shared; starts are given op by op."""

    starts: tuple[Array, ...] = ()
    previous_ends: tuple[Array, ...] = ()

    @property
    def start(self) -> tuple[Array, ...]:
        return self.starts

    @property
    def previous_end(self) -> tuple[Array, ...]:
        return self.previous_ends


def simulate(program: Program, shared: Shared, *, lifo: bool = False, iterations: int | None = None) -> SharedTimeline:
    """Timeline of one design point. `iterations`: exactly so many, in place of as many as it takes to settle."""
    run = Run(program, shared, lifo)
    if iterations is not None:
        run.play(iterations)
        last = iterations - 1
        return run.timeline(last, float(max(run.end[last].max(initial=0.0), 0.0)) / iterations)
    count, most = ITERATIONS
    while True:
        run = Run(program, shared, lifo)
        run.play(count)
        growth = [float((run.end[k] - run.end[k - 1]).max(initial=0.0)) for k in range(1, count)]
        settled = abs(growth[-2] - growth[-3 if count > 3 else 0]) <= SETTLED * max(growth[-2], 1e-30)
        if settled or count >= most:
            break
        count = most
    last = count - 2  # the very last has nothing after it to share with
    period = growth[last - 1] if settled else float(average_growth(np.array(growth), last))
    return run.timeline(last, period)


def average_growth(growth: Array, last: int) -> Array:
    """Of iterations that have not settled: the mean over the second half, (iterations - 1, ...) -> (...)."""
    mean: Array = growth[len(growth) // 2 : last].mean(axis=0)
    return mean


def _alike(shared: Shared, groups: set[Group | None], ranks: int) -> tuple[Ints, Ints]:
    """Ranks that stand for all that are alike, and which of them stands for each rank."""
    tables = [*shared.slowed.values(), *shared.starved.values()]
    rows = [*shared.alone, *(row for table in tables for row in table.values())]
    columns = np.stack([np.broadcast_to(row, ranks) for row in rows]) if rows else np.zeros((1, ranks))
    _, first, of = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    if len(first) > 1 and not groups <= {None, "world"}:
        return np.arange(ranks), np.arange(ranks)  # ranks that are alike may wait for others that are not
    return first, of.reshape(-1)


class Run:
    """State of a simulation. Lanes are ranks, one for all that are alike."""

    def __init__(self, program: Program, shared: Shared, lifo: bool) -> None:
        self.program = program
        self.shared = shared
        queued = ("scale_up", "scale_out") if lifo else ()
        self.d = Dependencies.of(program, queued)
        self.ranks = max((len(a) for a in shared.alone), default=1)
        self.lane_rank, self.lane_of = _alike(shared, set(self.d.op_groups), self.ranks)
        self.lanes = len(self.lane_rank)
        self.ops = len(program.ops)
        alone = [np.broadcast_to(a, self.ranks)[self.lane_rank] for a in shared.alone]
        self.alone = np.stack(alone) if self.ops else np.zeros((0, 1))
        self.streams = [self._streams(i) for i in range(self.ops)]
        self.members = [self._groups(i) for i in range(self.ops)]
        self.start: list[Array] = []
        self.end: list[Array] = []

    def _streams(self, i: int) -> tuple[str, ...]:
        streams: tuple[str, ...] = self.program.ops[i].streams
        network = self.d.op_groups[i] is not None
        return (*streams, "compute") if network and self.shared.takes_turns and "compute" not in streams else streams

    def _groups(self, i: int) -> list[list[int]]:
        """Lanes that start op i together."""
        group = self.d.op_groups[i]
        if group is None or self.lanes == 1:
            return [[lane] for lane in range(self.lanes)]
        if group == "world":
            return [list(range(self.lanes))]
        return [[int(r) for r in row] for row in self.program.layout.members(group)]

    # --- the simulation ---------------------------------------------------------------------------------------

    def play(self, iterations: int) -> None:
        n, lanes = self.ops, self.lanes
        self.start = [np.full((n, lanes), np.nan) for _ in range(iterations)]
        self.end = [np.full((n, lanes), np.nan) for _ in range(iterations)]
        waiting, followers = self.waits(iterations)
        groups = [{lane: g for g, members in enumerate(rows) for lane in members} for rows in self.members]
        missing = [[[len(m) for m in self.members[i]] for i in range(n)] for _ in range(iterations)]
        ready: set[tuple[int, int, int]] = set()  # iteration, op, group
        busy: list[set[str]] = [set() for _ in range(lanes)]
        active: list[dict[tuple[int, int], list[float]]] = [{} for _ in range(lanes)]  # [left, rate, since]
        version: dict[tuple[int, int, int], int] = {}
        events: list[tuple[float, int, int, int, int]] = []
        now = 0.0

        def free_of_waits(k: int, i: int, lane: int) -> None:
            g = groups[i][lane]
            missing[k][i][g] -= 1
            if not missing[k][i][g]:
                ready.add((k, i, g))

        def refresh(lane: int) -> None:
            """Rates of what runs on a lane, and when it will end."""
            for (k, i), job in active[lane].items():
                left = max(job[0] - job[1] * (now - job[2]), 0.0)
                job[:] = [left, self._rate(i, lane, active[lane]), now]
                v = version[(k, i, lane)] = version.get((k, i, lane), 0) + 1
                heapq.heappush(events, (now + left / job[1], k, i, lane, v))

        def begin() -> None:
            """Start what can start: the last issued first among collectives that wait."""
            touched: set[int] = set()
            for k, i, g in sorted(ready, reverse=True):
                members, streams = self.members[i][g], self.streams[i]
                if any(not busy[lane].isdisjoint(streams) for lane in members):
                    continue
                ready.discard((k, i, g))
                for lane in members:
                    busy[lane].update(streams)
                    self.start[k][i, lane] = now
                    active[lane][(k, i)] = [float(self.alone[i, lane]), 1.0, now]
                    touched.add(lane)
            for lane in touched:
                refresh(lane)

        for k in range(iterations):
            for i in range(n):
                if not waiting[k][i]:
                    for lane in range(lanes):
                        free_of_waits(k, i, lane)
        left = {(k, i): [waiting[k][i]] * lanes for k in range(iterations) for i in range(n)}
        begin()
        while events:
            now = events[0][0]
            while events and events[0][0] <= now:
                _, k, i, lane, v = heapq.heappop(events)
                if version.get((k, i, lane)) != v:
                    continue
                del active[lane][(k, i)]
                version[(k, i, lane)] = -1
                self.end[k][i, lane] = now
                busy[lane].difference_update(self.streams[i])
                for kk, j in followers[k][i]:
                    counts = left[(kk, j)]
                    counts[lane] -= 1
                    if not counts[lane]:
                        free_of_waits(kk, j, lane)
                refresh(lane)
            begin()

    def waits(self, iterations: int) -> tuple[list[list[int]], list[list[list[tuple[int, int]]]]]:
        """How many ops each op waits for, and who waits for it, over all iterations."""
        waiting = [[0] * self.ops for _ in range(iterations)]
        followers: list[list[list[tuple[int, int]]]] = [[[] for _ in range(self.ops)] for _ in range(iterations)]
        for k in range(iterations):
            for i in range(self.ops):
                sources = [(k, j) for j in self.d.op_here[i]]
                sources += [(k - 1, j) for j in self.d.op_previous[i] if k]
                waiting[k][i] = len(sources)
                for kk, j in sources:
                    followers[kk][j].append((k, i))
        return waiting, followers

    def _rate(self, i: int, lane: int, active: dict[tuple[int, int], list[float]]) -> float:
        """Share of its speed alone that op i has beside what else runs: slow-downs beyond 1 add up."""
        table = self.shared.slowed.get(i) or self.shared.starved.get(i)
        if not table:
            return 1.0
        slower = 1.0
        for _, j in sorted(active):
            if j != i and j in table:
                values = table[j]
                slower += float(values[self.lane_rank[lane] if len(values) > 1 else 0]) - 1.0
        return 1.0 / slower

    # --- the answer ---------------------------------------------------------------------------------------------

    def timeline(self, k: int, period: float) -> SharedTimeline:
        """Iteration `k` as a timeline."""
        start, end = self.start[k], self.end[k]
        before = self.end[k - 1] if k else np.zeros_like(end)
        even = [len(a) == 1 for a in self.shared.alone]

        def rows(values: npt.NDArray[np.float64]) -> tuple[Array, ...]:
            values = values[:, self.lane_of]
            return tuple(row[:1] if one and self.ranks == 1 else row for row, one in zip(values, even, strict=True))

        latency = float(end.max(initial=0.0) - start.min(initial=np.inf)) if self.ops else 0.0
        return SharedTimeline(
            period=np.asarray(period),
            latency=np.asarray(latency),
            dependencies=self.d,
            times=rows(end - start),
            starts_of_runs=(),
            previous_starts_of_runs=(),
            starts=rows(start),
            previous_ends=rows(before),
        )


def stacked(timelines: Sequence[SharedTimeline], points: tuple[int, ...]) -> SharedTimeline:
    """Timelines of all design points as one, in the order of `points`."""
    if not points:
        return timelines[0]

    def together(rows: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
        return tuple(np.stack(list(x)) for x in zip(*rows, strict=True))

    joined = replace(
        timelines[0],
        period=np.array([float(t.period) for t in timelines]),
        latency=np.array([float(t.latency) for t in timelines]),
        times=together([t.times for t in timelines]),
        starts=together([t.starts for t in timelines]),
        previous_ends=together([t.previous_ends for t in timelines]),
    )
    return shaped(joined, points)


def shaped(timeline: SharedTimeline, points: tuple[int, ...]) -> SharedTimeline:
    """A timeline of design points along one axis, over the axes of `points`."""

    def over(rows: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(x.reshape(*points, x.shape[-1]) for x in rows)

    return replace(
        timeline,
        period=timeline.period.reshape(points),
        latency=timeline.latency.reshape(points),
        times=over(timeline.times),
        starts=over(timeline.starts),
        previous_ends=over(timeline.previous_ends),
    )
