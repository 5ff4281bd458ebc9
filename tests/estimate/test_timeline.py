"""The timeline against closed forms and against a plain event-by-event simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.estimate.timeline import critical_path, run
from archmodel.program import (
    AllToAll,
    Buffer,
    Elementwise,
    HostCopy,
    HostIssue,
    Layout,
    Op,
    OuterTraffic,
    Phase,
    Program,
)

ONE = np.ones(1)
NODE = Layout(1, 2)


def compute(name: str, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> Op:
    return Op(name, "forward", Elementwise("copy", ONE, ONE, ONE, "fp32"), ("compute",), reads, writes)


def exchange(name: str, reads: tuple[str, ...] = (), writes: tuple[str, ...] = (), phase: Phase = "forward") -> Op:
    work = AllToAll("world", OuterTraffic(np.ones(2), np.ones(2)), "fp32", NODE)
    return Op(name, phase, work, ("scale_up",), reads, writes)


def program(*ops: Op, layout: Layout = NODE, prefetched: tuple[str, ...] = ()) -> Program:
    names = {b for op in ops for b in (*op.reads, *op.writes)}
    buffers = {n: Buffer(n, "activation", ONE, "fp32", prefetched=n in prefetched) for n in names}
    return Program(ops, buffers, layout, ONE)


def test_one_stream_adds_up() -> None:
    timeline = run(program(compute("a"), compute("b"), compute("c")), [np.array([x]) for x in (1.0, 2.0, 4.0)])
    assert timeline.period == pytest.approx(7.0)
    assert timeline.latency == pytest.approx(7.0)


def test_an_exchange_hides_behind_independent_compute() -> None:
    ops = (
        compute("lookup", (), ("p",)),
        exchange("a2a", ("p",), ("f",)),
        compute("bottom"),
        compute("top", ("f",), ()),
    )
    timeline = run(program(*ops), [np.array([x]) for x in (1.0, 3.0, 2.0, 5.0)])
    assert timeline.period == pytest.approx(1 + max(3, 2) + 5)


def test_a_collective_waits_for_the_slowest_rank() -> None:
    ops = (compute("lookup", (), ("p",)), exchange("a2a", ("p",), ("f",)), compute("top", ("f",), ()))
    timeline = run(program(*ops), [np.array([1.0, 4.0]), np.array([0.5]), np.array([1.0])])
    assert np.broadcast_to(timeline.start[1], 2) == pytest.approx([4.0 + timeline.start[0][0]] * 2)
    assert timeline.period == pytest.approx(5.5)


def test_node_groups_wait_only_for_their_own_node() -> None:
    layout = Layout(2, 2)
    work = AllToAll("node", OuterTraffic(np.ones(4), np.ones(4)), "fp32", layout)
    ops = (compute("lookup", (), ("p",)), Op("a2a", "forward", work, ("scale_up",), ("p",), ("f",)))
    timeline = run(program(*ops, layout=layout), [np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0])])
    looked_up, exchanged = timeline.end[0], timeline.start[1]
    assert exchanged == pytest.approx(np.array([max(looked_up[:2])] * 2 + [max(looked_up[2:])] * 2))


def test_a_prefetched_exchange_leaves_the_critical_path() -> None:
    ops = (exchange("input", (), ("i",), "input"), compute("lookup", ("i",), ()), compute("rest"))
    times = [np.array([3.0]), np.array([1.0]), np.array([4.0])]
    assert run(program(*ops), times).period == pytest.approx(8.0)
    assert run(program(*ops, prefetched=("i",)), times).period == pytest.approx(5.0)
    slow = [np.array([30.0]), *times[1:]]
    assert run(program(*ops, prefetched=("i",)), slow).period == pytest.approx(30.0)


def test_prefetched_input_is_one_chain_ahead_of_its_iteration() -> None:
    """Copy and exchange of the next batch follow each other; the period is the longer of each of them and the rest."""
    copy = Op("copy", "input", HostCopy(ONE), ("host",), (), ("s", "d"))
    ops = (
        copy,
        exchange("input", ("s",), ("i",), "input"),
        compute("lookup", ("i",), ()),
        compute("bottom", ("d",), ()),
        exchange("a2a", (), ()),
    )
    for times in ((3.0, 2.0, 4.0, 1.0, 2.5), (9.0, 2.0, 4.0, 1.0, 2.5), (3.0, 8.0, 4.0, 1.0, 0.5)):
        ahead = run(program(*ops, prefetched=("s", "d", "i")), [np.array([t]) for t in times])
        assert ahead.period == pytest.approx(max(times[0], times[2] + times[3], times[1] + times[4]))
        assert ahead.start[1] >= ahead.end[0] - 1e-12  # the exchange sends what this copy brought
        assert ahead.start[2] >= ahead.previous_end[1] - 1e-12
        assert ahead.start[3] >= ahead.previous_end[0] - 1e-12
        exposed = run(program(*ops[:4]), [np.array([t]) for t in times[:4]])
        assert exposed.period == pytest.approx(sum(times[:4]))


def test_points_and_ranks_broadcast() -> None:
    ops = (compute("a", (), ("x",)), exchange("b", ("x",), ("y",)), compute("c", ("y",), ()))
    points = np.array([[1.0], [2.0], [3.0]])
    together = run(program(*ops), [points * np.array([1.0, 2.0]), points, points * np.ones(2)]).period
    for i, p in enumerate((1.0, 2.0, 3.0)):
        alone = run(program(*ops), [p * np.array([1.0, 2.0]), np.array([p]), p * np.ones(2)]).period
        assert together[i] == pytest.approx(alone)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, list[np.ndarray]]:
    names = [f"b{i}" for i in range(4)]
    ops, times = [], []
    for i in range(draw(st.integers(1, 8))):
        reads = tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
        writes = tuple(draw(st.lists(st.sampled_from(names), max_size=1)))
        make = exchange if draw(st.booleans()) else compute
        ops.append(make(f"op{i}", reads, writes))
        low = st.floats(0.0, 5.0)
        times.append(np.array([draw(low), draw(low)]) if make is compute else np.array([draw(low)]))
    return program(*ops), times


def event_by_event(p: Program, times: list[np.ndarray], iterations: int) -> list[float]:
    """Ends of iterations: every op of every rank starts when all it needs is over; plain Python."""
    free: dict[tuple[str, int], float] = {}
    written: dict[tuple[str, int], float] = {}
    read: dict[tuple[str, int], float] = {}
    finishes = []
    for _ in range(iterations):
        latest = 0.0
        for op, time in zip(p.ops, times, strict=True):
            ready = []
            for r in range(p.ranks):
                needs = [free.get((s, r), 0.0) for s in op.streams] + [written.get((b, r), 0.0) for b in op.reads]
                needs += [max(written.get((b, r), 0.0), read.get((b, r), 0.0)) for b in op.writes]
                ready.append(max(needs))
            if isinstance(op.work, AllToAll):
                ready = [max(ready)] * p.ranks
            for r in range(p.ranks):
                end = ready[r] + float(np.broadcast_to(time, p.ranks)[r])
                latest = max(latest, end)
                for s in op.streams:
                    free[s, r] = end
                for b in op.reads:
                    read[b, r] = max(read.get((b, r), 0.0), end)
                for b in op.writes:
                    written[b, r] = end
        finishes.append(latest)
    return finishes


@settings(max_examples=150, deadline=None)
@given(programs())
def test_matches_a_plain_simulation(case: tuple[Program, list[np.ndarray]]) -> None:
    p, times = case
    finishes = event_by_event(p, times, 60)
    period = (finishes[-1] - finishes[29]) / 30
    assert run(p, times).period == pytest.approx(period, rel=0.03, abs=1e-9)
    busiest = max(
        float(np.max(sum((t for op, t in zip(p.ops, times, strict=True) if s in op.streams), np.zeros(1))))
        for s in ("compute", "scale_up")
    )
    assert busiest - 1e-9 <= run(p, times).period <= sum(float(np.max(t)) for t in times) + 1e-9


@settings(max_examples=100, deadline=None)
@given(programs())
def test_the_critical_path_covers_the_period(case: tuple[Program, list[np.ndarray]]) -> None:
    p, times = case
    timeline = run(p, times)
    path = critical_path(p, timeline)
    assert sum(s.seconds for s in path) == pytest.approx(float(timeline.period), rel=0.35, abs=1e-9)
    for step, following in itertools.pairwise(path):
        assert step.seconds >= -1e-12 and following.seconds >= -1e-12


def waits(name: str) -> Op:
    return Op(name, "input", HostIssue(iterations=1.0), ("compute",))


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=12))
def test_a_host_that_waits_issues_ahead_within_an_iteration(pairs: list[tuple[float, float]]) -> None:
    """end[i] = max(end[i-1], issued[i]) + work[i], from the end of the last iteration and the time to begin one."""
    work, issue = zip(*pairs, strict=True)
    ops = (waits("begin"), *(compute(f"op{i}") for i in range(len(work))))
    times = [np.array([1.5]), *(np.array([w]) for w in work)]
    timeline = run(program(*ops), times, issue=[np.zeros(1), *(np.array([x]) for x in issue)])
    end = issued = 1.5
    for w, x in zip(work, issue, strict=True):
        issued += x
        end = max(end, issued) + w
    assert timeline.period == pytest.approx(end)
    assert timeline.period >= max(sum(work), sum(issue)) + 1.5 - 1e-9
    assert timeline.period <= sum(max(w, x) for w, x in zip(work, issue, strict=True)) + 1.5 + max(work) + 1e-9


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=12))
def test_a_host_that_never_waits_is_the_bound_or_hidden(pairs: list[tuple[float, float]]) -> None:
    work, issue = zip(*pairs, strict=True)
    ops = tuple(compute(f"op{i}") for i in range(len(work)))
    timeline = run(program(*ops), [np.array([w]) for w in work], issue=[np.array([x]) for x in issue])
    assert timeline.period == pytest.approx(max(sum(work), sum(issue)), rel=0.35)
    assert timeline.period >= max(sum(work), sum(issue)) * (1 - 1e-6)
