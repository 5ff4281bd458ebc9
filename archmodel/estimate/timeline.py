"""When each op of a Program runs: in-order streams, reads after writes, collectives that wait for the slowest rank.

A max-plus recurrence over ops. Everything per op is an array (..., ranks) or (..., 1): leading axes are design points,
the trailing one is ranks, so one pass serves all ranks and all points. The same iteration is repeated until its period
settles, because prefetched buffers are written one iteration before they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from archmodel.program import AllToAll, Collective, Group, HostIssue, Layout, Op, Program, RowMove, Stream
from archmodel.quantities import Array

_FEWEST, _MOST = 2, 24  # iterations to simulate
_SETTLED = 1e-12


@dataclass(frozen=True)
class Dependencies:
    """What each op waits for: ops of this iteration and of the previous one, those implied by others left out, and the
    group it waits with. `runs`: ops that follow each other with nothing between them to wait for or be waited for, and
    the same three over runs; `last` and `first`: the runs that end and begin every stream."""

    op_here: tuple[tuple[int, ...], ...]
    op_previous: tuple[tuple[int, ...], ...]
    op_groups: tuple[Group | None, ...]
    runs: tuple[tuple[int, ...], ...]
    here: tuple[tuple[int, ...], ...]
    previous: tuple[tuple[int, ...], ...]
    groups: tuple[Group | None, ...]
    last: tuple[int, ...]
    first: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, program: Program, queued: tuple[Stream, ...] = (), single: bool = False) -> Dependencies:
        """Read-after-write, write-after-read, write-after-write, and order within each stream.

        A reader of a prefetched buffer waits for the *previous* iteration's write, and its writer for the previous
        iteration's readers of the other half. Ops of phase "input" that prefetch work on one batch, the next: they
        wait for each other's writes in this iteration (and a writer for none of them: the half that it overwrites was
        read an iteration earlier still, before work that its other readers have waited for). What is not prefetched
        of phase "input" starts when the previous iteration is over.

        `queued`: streams whose ops wait in a queue for their turn, in place of the order in which they are issued.
        `single`: every op is a run of its own.
        """
        ops = program.ops
        writers: dict[str, list[int]] = {}
        readers: dict[str, list[int]] = {}
        on_stream: dict[str, list[int]] = {}
        for i, op in enumerate(ops):
            for b in op.writes:
                writers.setdefault(b, []).append(i)
            for b in op.reads:
                readers.setdefault(b, []).append(i)
            for s in op.streams:
                on_stream.setdefault(s, []).append(i)
        here: list[set[int]] = [set() for _ in ops]
        previous: list[set[int]] = [set() for _ in ops]

        def after_last(i: int, candidates: list[int]) -> None:
            """Op i waits for the last candidate before it, else for the previous iteration's last one."""
            before = [j for j in candidates if j < i]
            if before:
                here[i].add(before[-1])
            elif candidates:
                previous[i].add(candidates[-1])

        def after_readers(i: int, buffer: str) -> None:
            """Op i overwrites `buffer`: it waits for everyone who reads what stands there."""
            written = writers[buffer]
            last = max((j for j in written if j < i), default=None)
            here[i].update(j for j in readers.get(buffer, []) if (last is None or j > last) and j < i)
            if last is None:
                previous[i].update(j for j in readers.get(buffer, []) if j > written[-1])

        def prefetched(buffer: str) -> bool:
            return buffer in program.buffers and program.buffers[buffer].prefetched

        for i, op in enumerate(ops):
            for s in op.streams:
                if s not in queued:
                    after_last(i, on_stream[s])
            for b in op.reads:
                if prefetched(b) and op.phase != "input":
                    previous[i].update(writers.get(b, [])[-1:])
                else:
                    after_last(i, writers.get(b, []))
            for b in op.writes:
                if prefetched(b):
                    previous[i].update(j for j in readers.get(b, []) if ops[j].phase != "input")
                else:
                    after_readers(i, b)
                    after_last(i, writers[b])
            if op.phase == "input" and not any(prefetched(b) for b in op.writes):
                previous[i].update(last[-1] for last in on_stream.values())
        kept_here, kept_previous = _reduced(here, previous)
        groups = tuple(op.work.group if isinstance(op.work, AllToAll | Collective) else None for op in ops)
        runs = tuple((i,) for i in range(len(ops))) if single else _runs(kept_here, kept_previous, groups)
        run_of = {i: r for r, ops_of_run in enumerate(runs) for i in ops_of_run}
        return cls(
            tuple(kept_here),
            tuple(kept_previous),
            groups,
            runs,
            tuple(tuple(run_of[j] for j in kept_here[r[0]]) for r in runs),
            tuple(tuple(run_of[j] for j in kept_previous[r[0]]) for r in runs),
            tuple(groups[r[0]] for r in runs),
            tuple(sorted({run_of[on[-1]] for on in on_stream.values()})),
            tuple(sorted({run_of[on[0]] for on in on_stream.values()})),
        )


def _reduced(
    here: Sequence[set[int]], previous: Sequence[set[int]]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Transitive reduction over two iterations: without waits that another wait implies.

    Nodes 0..n-1 are the previous iteration's ops, n..2n-1 this one's; sets of nodes are bits of an integer.
    """
    n = len(here)
    before = [0] * (2 * n)
    kept: list[list[int]] = []
    for node in range(2 * n):
        i = node % n
        waits = [j + (n if node >= n else 0) for j in here[i]] + ([*previous[i]] if node >= n else [])
        implied = 0
        for w in waits:
            implied |= before[w]
        before[node] = implied
        for w in waits:
            before[node] |= 1 << w
        kept.append([w for w in waits if not implied >> w & 1])
    now = kept[n:]
    return (
        [tuple(sorted(w - n for w in k if w >= n)) for k in now],
        [tuple(sorted(w for w in k if w < n)) for k in now],
    )


def _runs(
    here: Sequence[tuple[int, ...]],
    previous: Sequence[tuple[int, ...]],
    groups: Sequence[Group | None],
) -> tuple[tuple[int, ...], ...]:
    """Chains of ops: each but the first waits only for its predecessor, which nothing else waits for."""
    waited_for = Counter(j for waits in (*here, *previous) for j in waits)
    runs: list[list[int]] = []
    tail: dict[int, int] = {}
    for i, waits in enumerate(here):
        alone = len(waits) == 1 and not previous[i] and groups[i] is None
        if alone and waits[0] in tail and waited_for[waits[0]] == 1:
            run = tail.pop(waits[0])
            runs[run].append(i)
        else:
            run = len(runs)
            runs.append([i])
        tail[i] = run
    return tuple(tuple(r) for r in runs)


@dataclass(frozen=True)
class Timeline:
    """The last simulated iteration. `period` (...,): seconds between the ends of successive iterations in steady state.
    `latency` (...,): from the first start to the last end of one iteration."""

    period: Array
    latency: Array
    dependencies: Dependencies
    times: tuple[Array, ...]
    starts_of_runs: tuple[Array, ...]
    previous_starts_of_runs: tuple[Array, ...]

    @cached_property
    def start(self) -> tuple[Array, ...]:
        """Start of every op, (..., ranks) or (..., 1), seconds."""
        return self._each(self.starts_of_runs)

    @cached_property
    def end(self) -> tuple[Array, ...]:
        """End of every op."""
        return tuple(s + t for s, t in zip(self.start, self.times, strict=True))

    @cached_property
    def previous_end(self) -> tuple[Array, ...]:
        """End of every op one iteration before."""
        starts = self._each(self.previous_starts_of_runs)
        return tuple(s + t for s, t in zip(starts, self.times, strict=True))

    def _each(self, starts: tuple[Array, ...]) -> tuple[Array, ...]:
        result: list[Array] = [np.zeros(1)] * len(self.times)
        for ops, start in zip(self.dependencies.runs, starts, strict=True):
            for i in ops:
                result[i] = start
                start = start + self.times[i]
        return tuple(result)


def everyone(ready: Array, group: Group | None, layout: Layout) -> Array:
    """When all members of each group are ready: maximum over the group, back on every rank."""
    if group is None or ready.shape[-1] == 1:
        return ready
    if group == "world":
        return latest(ready)[..., None]
    grid = ready.reshape(*ready.shape[:-1], layout.nodes, layout.local_size)
    axis = -1 if group == "node" else -2
    return np.broadcast_to(grid.max(axis, keepdims=True), grid.shape).reshape(ready.shape)


def run(
    program: Program,
    times: Sequence[Array],
    points: tuple[int, ...] = (),
    issue: Sequence[Array] | None = None,
) -> Timeline:
    """Simulate iterations of `program` whose op i takes `times[i]` seconds, until the period settles.

    `points`: shape of the design points, for results to have even where no time depends on them. `issue`: seconds that
    the host takes to issue op i, one after the other and ahead of the device as far as it gets; where the host waits
    for the device (`HostIssue`), it goes on from there. None: a captured graph, all is issued at once.

    Every stream of every rank settles into a constant or cyclic increment, and the largest is the period (Baccelli et
    al., Synchronization and Linearity, ch. 3: the growth rate of a max-plus linear system). Streams that have not
    settled after 24 iterations count with their mean increment over the second half.
    """
    d = Dependencies.of(program, single=issue is not None)
    host = np.zeros(1)
    durations = [sum((times[i] for i in ops[1:]), times[ops[0]]) for ops in d.runs]
    previous_starts: list[Array] = []
    starts: list[Array] = []
    ends: list[Array] = []
    finished: list[list[Array]] = []
    zero = np.zeros(1)
    while len(finished) < _MOST and not (len(finished) > _FEWEST and _settled(finished)):
        previous_starts, starts = starts, []
        current: list[Array] = []
        for i, (here, previous, group, duration) in enumerate(
            zip(d.here, d.previous, d.groups, durations, strict=True)
        ):
            ready = zero
            if issue is not None and not isinstance(program.ops[i].work, HostIssue):
                ready = host = host + issue[i]
            for r in here:
                ready = np.maximum(ready, current[r])
            if ends:
                for r in previous:
                    ready = np.maximum(ready, ends[r])
            ready = everyone(ready, group, program.layout)
            starts.append(ready)
            current.append(ready + duration)
            if issue is not None and isinstance(program.ops[i].work, HostIssue):
                host = np.maximum(host, current[-1])
        ends = current
        finished.append([ends[r] for r in d.last])
    half = len(finished) // 2 if len(finished) == _MOST else len(finished) - 2
    count = len(finished) - 1 - half
    period = _latest_of([latest((e - f) / count) for e, f in zip(finished[-1], finished[half], strict=True)])
    first = -_latest_of([latest(-starts[r]) for r in d.first])
    latency = _latest_of([latest(e) for e in finished[-1]]) - first
    shape = np.broadcast_shapes(period.shape, points)
    return Timeline(
        np.broadcast_to(period, shape),
        np.broadcast_to(latency, shape),
        d,
        tuple(times),
        tuple(starts),
        tuple(previous_starts),
    )


def _settled(finished: list[list[Array]]) -> bool:
    """Whether no stream of any rank grew otherwise than in the iteration before."""
    return all(
        bool(np.all(np.abs((c - b) - (b - a)) <= _SETTLED * np.maximum(c, 1e-30)))
        for a, b, c in zip(finished[-3], finished[-2], finished[-1], strict=True)
    )


def latest(times: Array) -> Array:
    """Maximum over the trailing axis, by halving it: numpy reduces short trailing axes element by element."""
    while (width := times.shape[-1]) > 1:
        half = width // 2
        top = np.maximum(times[..., :half], times[..., half : 2 * half])
        times = np.concatenate([top, times[..., 2 * half :]], axis=-1) if width % 2 else top
    return times[..., 0]


def _latest_of(values: Sequence[Array]) -> Array:
    result = values[0] if values else np.zeros(())
    for value in values[1:]:
        result = np.maximum(result, value)
    return result


@dataclass(frozen=True)
class Step:
    """One stretch of the critical path: an op on a rank, or (op = None) nothing running."""

    op: int
    rank: int
    seconds: float


def critical_path(program: Program, timeline: Timeline) -> list[Step]:
    """The chain of ops that sets the end of the last iteration, latest first, back over one period.

    For a scalar evaluation (no design-point axes). At each op, step to the dependency that ended last; at a
    collective, step to the rank that came last.
    """
    ranks = program.ranks
    now = [np.broadcast_to(e.reshape(-1)[-_size(e, ranks) :], ranks) for e in timeline.end]
    before = [np.broadcast_to(e.reshape(-1)[-_size(e, ranks) :], ranks) for e in timeline.previous_end]
    deps = timeline.dependencies
    if not now:
        return []
    ends = [e.max() for e in now]
    if not _never_idle(program, timeline, "host"):  # what trails into the next iteration then holds nothing up
        ends = [-np.inf if _trails(o) else e for o, e in zip(program.ops, ends, strict=True)]
    op = int(np.argmax(ends))
    rank = int(now[op].argmax())
    finish, end, in_last = float(now[op][rank]), float(now[op][rank]), True
    horizon = finish - float(np.max(timeline.period))
    path: list[Step] = []
    while end > horizon:
        candidates = [(now[j] if in_last else before[j], j, in_last) for j in deps.op_here[op]]
        if in_last and before:
            candidates += [(before[j], j, False) for j in deps.op_previous[op]]
        members = _members(deps.op_groups[op], rank, program.layout)
        reached, j, rank_of, layer = max(
            ((float(e[m]), j, m, layer) for e, j, layer in candidates for m in members),
            default=(horizon, -1, rank, False),
            key=lambda c: c[0],
        )
        path.append(Step(op, rank, end - max(reached, horizon)))
        if j < 0:
            break
        op, rank, end, in_last = j, rank_of, reached, layer
    return path


def _trails(op: Op) -> bool:
    """Whether an op ends an iteration without any op of it waiting: rows that are written home."""
    return isinstance(op.work, RowMove) and op.work.write_back


def _never_idle(program: Program, timeline: Timeline, stream: Stream) -> bool:
    """Whether a stream of some rank is at work all the time."""
    busy: Array = np.zeros(1)
    for op, time in zip(program.ops, timeline.times, strict=True):
        if stream in op.streams:
            busy = busy + time
    return bool(np.max(busy) >= float(np.max(timeline.period)) * (1 - 1e-6))


def _size(e: Array, ranks: int) -> int:
    return 1 if e.shape[-1] == 1 else ranks


def _members(group: Group | None, rank: int, layout: Layout) -> list[int]:
    if group is None:
        return [rank]
    rows = layout.members(group)
    return [int(m) for m in rows[np.flatnonzero((rows == rank).any(1))[0]]]
