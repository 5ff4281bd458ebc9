from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from archmodel import Estimate, estimate, load
from archmodel.report.trace import STREAMS, to_dict, write

Interval = tuple[float, float]


@pytest.fixture(scope="module")
def answer(two_node_design: Path) -> Estimate:
    return estimate(load(two_node_design))


def tracks(trace: dict[str, list[dict[str, object]]]) -> dict[tuple[int, int], list[Interval]]:
    """Intervals in microseconds by (rank, stream)."""
    found: dict[tuple[int, int], list[Interval]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    return found


def test_every_op_is_on_each_of_its_streams_of_every_rank(answer: Estimate) -> None:
    found = sum(len(intervals) for intervals in tracks(to_dict(answer)).values())
    assert found == answer.program.ranks * sum(len(op.op.streams) for op in answer.ops)


def test_nothing_overlaps_on_a_stream(answer: Estimate) -> None:
    for intervals in tracks(to_dict(answer)).values():
        ordered = sorted(intervals)
        for (_, end), (start, _) in pairwise(ordered):
            assert start >= end - 2e-3


def test_it_starts_at_zero_and_lasts_one_iteration(answer: Estimate) -> None:
    intervals = [interval for track in tracks(to_dict(answer)).values() for interval in track]
    assert min(start for start, _ in intervals) == 0
    assert max(end for _, end in intervals) == pytest.approx(answer.latency * 1e6, rel=1e-6, abs=1e-3)


def test_ranks_and_streams_have_titles(answer: Estimate) -> None:
    titles = [event for event in to_dict(answer)["traceEvents"] if event["ph"] == "M"]
    names = {event["args"]["name"] for event in titles if event["name"] == "process_name"}
    assert len(names) == answer.program.ranks
    assert any(name.endswith("(slowest)") for name in names)
    assert {e["args"]["name"] for e in titles if e["name"] == "thread_name"} <= set(STREAMS)


def test_parts_of_an_event_sum_to_its_duration(answer: Estimate) -> None:
    for event in to_dict(answer)["traceEvents"]:
        if event["ph"] == "X":
            assert sum(event["args"]["parts_us"].values()) == pytest.approx(event["dur"], rel=1e-4, abs=1e-2)


@pytest.mark.parametrize("most", [1, 200, 500])
def test_a_trace_of_many_ranks_is_cut_and_says_so(answer: Estimate, most: int) -> None:
    trace = to_dict(answer, most_events=most)
    about, shown = trace["otherData"], {event["pid"] for event in trace["traceEvents"]}
    assert about["slowest_rank"] in shown
    assert len(shown) < answer.program.ranks
    assert len(trace["traceEvents"]) <= most or len(shown) == 1
    assert about["shown"].startswith(f"{len(shown)} of {answer.program.ranks} ranks")


def test_the_same_estimate_gives_the_same_bytes(answer: Estimate, tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.json.gz" for index in range(2)]
    for path in paths:
        write(answer, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
