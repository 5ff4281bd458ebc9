"""The timeline as Chrome trace events, which Perfetto opens: a process per rank, a thread per stream.

Format: "Trace Event Format" (Google, 2016), complete events ("ph": "X"); times in microseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from archmodel.program import Stream
from archmodel.report.as_json import finite
from archmodel.report.ranks import busiest_and_median, on_rank, parts_on

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate, OpEstimate
    from archmodel.quantities import Array

MOST_EVENTS = 50_000
"""Events of one trace; with more ranks than that allows, some are left out and the trace says so."""

STREAMS: tuple[str, ...] = get_args(Stream)
MICRO = 1e6


def to_dict(estimate: Estimate, *, most_events: int = MOST_EVENTS) -> dict[str, Any]:
    """One steady-state iteration of `estimate` (one design point) as a trace.

    All ranks when they fit into `most_events`; else the slowest, the median and the first few. `otherData` says which.
    """
    ranks, note = chosen_ranks(estimate, most_events)
    slowest, median = busiest_and_median(estimate)
    labels = {median: "median", slowest: "slowest"}
    origin = min((float(np.min(op.start)) for op in estimate.ops), default=0.0)
    rows = [_Row.of(op) for op in estimate.ops]
    events: list[dict[str, Any]] = []
    for rank in ranks:
        events += _titles(estimate, rank, labels.get(rank, ""))
        for row in rows:
            events += row.events(rank, origin)
    trace: dict[str, Any] = finite(
        {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {
                "design": estimate.design.name,
                "iteration_time_us": estimate.iteration_time * MICRO,
                "ranks": estimate.program.ranks,
                "slowest_rank": slowest,
                "median_rank": median,
                "shown": note,
            },
        }
    )
    return trace


def write(estimate: Estimate, path: Path) -> str:
    """Writes the trace to `path` (compressed when it ends in .gz); returns which ranks it shows."""
    trace = to_dict(estimate)
    text = json.dumps(trace, allow_nan=False, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return str(trace["otherData"]["shown"])


def chosen_ranks(estimate: Estimate, most_events: int) -> tuple[list[int], str]:
    """Ranks to show, in order, and a sentence about them."""
    total = estimate.program.ranks
    per_rank = sum(len(op.op.streams) for op in estimate.ops) + len(STREAMS) + 1
    room = max(most_events // per_rank, 1)
    if total <= room:
        return list(range(total)), f"all {total} ranks"
    first = [*busiest_and_median(estimate), *range(total)]
    ranks = sorted(list(dict.fromkeys(first))[:room])
    return ranks, f"{room} of {total} ranks: the slowest, the median and the first ones"


def _titles(estimate: Estimate, rank: int, label: str) -> list[dict[str, Any]]:
    used = [stream for stream in STREAMS if any(stream in op.op.streams for op in estimate.ops)]
    title = f"rank {rank} ({label})" if label else f"rank {rank}"
    return [
        _title("process_name", rank, 0, title),
        *(_title("thread_name", rank, STREAMS.index(stream), stream) for stream in used),
    ]


def _title(what: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": rank, "tid": thread, "args": {"name": name}}


@dataclass(frozen=True, slots=True)
class _Row:
    """An op with its per-rank amounts, worked out once for all ranks."""

    op: OpEstimate
    flops: Array
    memory: Mapping[str, Array]
    wires: Mapping[str, Array]

    @classmethod
    def of(cls, op: OpEstimate) -> _Row:
        work = op.op.work
        return cls(
            op, work.flops(), {str(tier): amount for tier, amount in work.memory_bytes().items()}, work.wire_bytes()
        )

    def events(self, rank: int, origin: float) -> list[dict[str, Any]]:
        """The op on one rank: one event on each stream that it occupies."""
        start, end = on_rank(self.op.start, rank), on_rank(self.op.end, rank)
        args = {
            "kind": type(self.op.op.work).__name__,
            "flops": on_rank(self.flops, rank),
            "memory_bytes": {tier: on_rank(amount, rank) for tier, amount in self.memory.items()},
            "wire_bytes": {link: on_rank(amount, rank) for link, amount in self.wires.items()},
            "parts_us": {name: _micro(seconds) for name, seconds in parts_on(self.op, rank).items()},
        }
        return [
            {
                "ph": "X",
                "name": self.op.name,
                "cat": self.op.op.phase,
                "pid": rank,
                "tid": STREAMS.index(stream),
                "ts": _micro(start - origin),
                "dur": _micro(end - start),
                "args": args,
            }
            for stream in self.op.op.streams
        ]


def _micro(seconds: float) -> float:
    return round(seconds * MICRO, 4)
