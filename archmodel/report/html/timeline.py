"""The timeline of one iteration: a row per stream of the slowest and the median rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.quantities import show
from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, seconds_axis
from archmodel.report.html.text import label, lines
from archmodel.report.ranks import busiest_and_median, on_rank, parts_on
from archmodel.report.words import STREAMS, data, percent, shares, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate, OpEstimate

ROW, GAP = 26, 14
"""Pixels of a row, and between ranks."""


def timeline(estimate: Estimate, laws: Mapping[str, str] | None = None) -> Figure:
    """Bars from the estimate's own starts and ends; `laws`: by op, what is also told when it is pointed at."""
    slowest, median = busiest_and_median(estimate)
    ranks = {median: "median", slowest: "slowest"} if estimate.program.ranks > 1 else {slowest: ""}
    used = list(dict.fromkeys(str(s) for op in estimate.ops for s in op.op.streams))
    used.sort(key=lambda s: list(STREAMS).index(s) if s in STREAMS else len(STREAMS))
    origin = min((float(np.min(op.start)) for op in estimate.ops), default=0.0)
    rows = {(rank, stream): 0.0 for rank in (slowest, median) if rank in ranks for stream in used}
    at = 0.0
    for i, key in enumerate(rows):
        at += 1.0 + (GAP / ROW if i and i % len(used) == 0 else 0.0)
        rows[key] = at
    traces = [
        trace
        for phase in dict.fromkeys(op.op.phase for op in estimate.ops)
        for trace in _phase(estimate, phase, rows, origin, laws or {})
    ]
    names = {
        at: f"rank {rank}{f' ({ranks[rank]})' if ranks[rank] else ''}, {label(STREAMS.get(stream, stream))}"
        for (rank, stream), at in rows.items()
    }
    brief = {at: f"{rank} {label(STREAMS.get(stream, stream), 10)}" for (rank, stream), at in rows.items()}
    axis = {
        "tickvals": list(names),
        "ticktext": list(names.values()),
        "range": [at + 0.6, 0.4],
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
    }
    end = float(estimate.latency)
    layout = {
        "barmode": "overlay",
        "xaxis": {**seconds_axis(), "range": [0.0, end], "zeroline": False},
        "yaxis": axis,
        "uniformtext": {"mode": "hide", "minsize": 9},
        "hovermode": "closest",
    }
    return Figure(
        "timeline",
        "Timeline",
        _takeaway(estimate, slowest, used),
        traces,
        layout,
        height=round(70 + ROW * (at + 0.6)),
        narrow={"yaxis.ticktext": list(brief.values()), "yaxis.tickfont.size": 10},
        note="One iteration in steady state. Drag to zoom, double-click to go back; point at a bar for its parts and "
        "the inputs of its law, click it for the law. Pale bars: the iteration before, where it is still at work.",
    )


def _phase(
    estimate: Estimate, phase: str, rows: Mapping[tuple[int, str], float], origin: float, laws: Mapping[str, str]
) -> Iterable[dict[str, Any]]:
    now: list[tuple[float, float, float, str, str, str]] = []
    before: list[tuple[float, float, float, str, str, str]] = []
    for op in estimate.ops:
        if op.op.phase != phase:
            continue
        for rank in dict.fromkeys(rank for rank, _ in rows):
            seconds = on_rank(op.time, rank)
            if seconds <= 0:
                continue
            told = hover(op, rank, origin, laws.get(op.name, ""))
            start, past = on_rank(op.start, rank) - origin, on_rank(op.timeline.previous_end[op.index], rank) - origin
            for stream in op.op.streams:
                bar = (rows[rank, stream], start, seconds, label(op.name), told, op.name)
                now.append(bar)
                if past > 0:
                    shown = min(seconds, past)
                    before.append((bar[0], past - shown, shown, "", f"{told}<br>of the iteration before", op.name))
    for bars, opacity in ((before, 0.35), (now, 1.0)):
        if bars:
            y, base, x, text, hovertext, ops = map(list, zip(*bars, strict=True))
            yield {
                "type": "bar",
                "orientation": "h",
                "name": phase,
                "legendgroup": phase,
                "showlegend": opacity == 1.0,
                "y": y,
                "base": base,
                "x": x,
                "width": 0.86,
                "text": text,
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "hovertext": hovertext,
                "hoverinfo": "text",
                "customdata": ops,
                "opacity": opacity,
                "marker": {"color": palette.phase(phase), "line": {"width": 0.5, "color": "rgba(255,255,255,0.4)"}},
            }


def hover(op: OpEstimate, rank: int, origin: float, law: str) -> str:
    """Time, parts, amounts and law of an op on a rank."""
    work, parts = op.op.work, parts_on(op, rank)
    flops = on_rank(work.flops(), rank)
    memory = [f"{tier} {data(on_rank(amount, rank))}" for tier, amount in work.memory_bytes().items()]
    wire = [f"{link} {data(on_rank(amount, rank))}" for link, amount in work.wire_bytes().items()]
    amounts = [show(flops, "flops")] if flops else []
    return lines(
        f"<b>{label(op.name, 60)}</b>  {type(work).__name__}, {label(op.op.phase)}",
        f"rank {rank}: {time(on_rank(op.time, rank))} from {time(on_rank(op.start, rank) - origin)}",
        f"time goes to {label(shares(parts).replace(chr(0xE000), ' '), 90)}",
        label(" · ".join([*amounts, *memory, *wire]), 90),
        law,
    )


def _takeaway(estimate: Estimate, rank: int, streams: list[str]) -> str:
    period = float(estimate.iteration_time)
    busy = {s: on_rank(estimate.busy(s), rank) / period for s in streams}
    most = max(reversed(streams), key=lambda s: round(busy[s], 6), default="compute")  # of equals, the outermost link
    longest = max(estimate.ops, key=lambda op: float(op.slowest))
    said = ", ".join(f"{STREAMS.get(s, s)} {percent(share)}" for s, share in busy.items() if share >= 0.005)
    return (
        f"An iteration takes {time(period)}; busiest on rank {rank} is the {STREAMS.get(most, most)} ({said} of the "
        f"time). The longest op is {longest.name}, {time(longest.slowest)}."
    )
