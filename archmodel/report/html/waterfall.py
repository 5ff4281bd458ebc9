"""Where the time goes: compute, then communication that nothing hides, up to the iteration; hidden work apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, listing_axis, seconds_axis
from archmodel.report.html.text import labels, lines
from archmodel.report.ranks import busiest_and_median, on_rank
from archmodel.report.words import on, percent, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

LEAST = 0.004
"""Share of the iteration below which compute of a group is shown together with others."""

MOST_COMPUTE, MOST_EXCHANGES = 18, 8
"""With more groups of ops, bars are kinds of work; with more exchanges, the longest have bars of their own."""


@dataclass(frozen=True)
class Stretch:
    """A part of the iteration: `kind` is compute, exposed, waiting or hidden."""

    name: str
    kind: str
    seconds: float
    colour: str
    where: str


def stretches(estimate: Estimate) -> list[Stretch]:
    """Parts that sum to the iteration time, seen from the rank that computes most, then what is hidden beside them.

    Compute is that of the rank. An exchange counts with the time in which the rank does not compute; two that wait at
    the same time make `waiting` negative by what was counted twice.
    """
    rank, _ = busiest_and_median(estimate)
    period = float(estimate.iteration_time)
    compute: list[Stretch] = []
    small = 0.0
    outside: list[Stretch] = []
    hidden: list[Stretch] = []
    for phase in estimate.phases:
        streams = tuple(phase.stream.split("+"))
        if "compute" in streams:
            seconds = sum(on_rank(estimate.op(name).time, rank) for name in phase.ops)
            if seconds >= LEAST * period:
                name = f"{phase.name} ({phase.phase})"
                compute.append(Stretch(name, "compute", seconds, palette.colour("compute"), on(phase.stream)))
            else:
                small += seconds
            continue
        exposed = float(phase.exposed or 0.0)
        whole = sum(float(np.max(estimate.op(name).time)) for name in phase.ops)
        colour = palette.of_streams(streams)
        if exposed > 0:
            outside.append(Stretch(phase.name, "exposed", exposed, colour, on(phase.stream)))
        if whole - exposed > LEAST * period:
            hidden.append(Stretch(phase.name, "hidden", whole - exposed, colour, on(phase.stream)))
    if len(compute) > MOST_COMPUTE:
        compute, small = _by_kind(estimate, rank), 0.0
    outside, hidden = _joined(outside, "other exchanges"), _joined(hidden, "other exchanges")
    if small > 0:
        compute.append(Stretch("other compute", "compute", small, palette.colour("compute"), on("compute")))
    shown = compute + outside
    rest = period - sum(s.seconds for s in shown)
    if abs(rest) > 1e-6 * period:
        name = "waits for other ranks" if rest > 0 else "counted twice: waits that overlap"
        shown.append(Stretch(name, "waiting", rest, palette.NEUTRAL, ""))
    return shown + hidden


def _by_kind(estimate: Estimate, rank: int) -> list[Stretch]:
    """Compute by phase and kind of work, for models of many layers: `Gemm (backward)`."""
    found: dict[str, float] = {}
    for op in estimate.ops:
        if "compute" in op.op.streams:
            name = f"{type(op.op.work).__name__} ({op.op.phase})"
            found[name] = found.get(name, 0.0) + on_rank(op.time, rank)
    colour, where = palette.colour("compute"), on("compute")
    return [Stretch(name, "compute", seconds, colour, where) for name, seconds in found.items() if seconds > 0]


def _largest(parts: list[Stretch], most: int) -> tuple[list[Stretch], list[Stretch]]:
    """The `most` longest, in their order, and the others."""
    kept = {id(s) for s in sorted(parts, key=lambda s: -s.seconds)[:most]}
    return [s for s in parts if id(s) in kept], [s for s in parts if id(s) not in kept]


def _joined(parts: list[Stretch], name: str) -> list[Stretch]:
    """The longest exchanges, and the others together by where they run."""
    kept, rest = _largest(parts, MOST_EXCHANGES)
    together: dict[str, Stretch] = {}
    for s in rest:
        seconds = s.seconds + (together[s.where].seconds if s.where in together else 0.0)
        together[s.where] = Stretch(f"{name} on {s.where}", s.kind, seconds, s.colour, s.where)
    return [*kept, *together.values()]


def waterfall(estimate: Estimate) -> Figure:
    """Horizontal bars, each beginning where the one above ends."""
    period = float(estimate.iteration_time)
    parts = stretches(estimate)
    shown = [s for s in parts if s.kind != "hidden"]
    hidden = [s for s in parts if s.kind == "hidden"]
    names = [*(s.name for s in shown), "iteration", *(f"{s.name}, hidden" for s in hidden)]
    ticks, brief = labels(names, 38), labels(names, 20)
    starts = np.concatenate([[0.0], np.cumsum([s.seconds for s in shown])])[: len(shown)]
    groups: dict[tuple[str, str], list[tuple[int, float, Stretch]]] = {}
    for i, (s, start) in enumerate(zip(shown, starts, strict=True)):
        groups.setdefault((s.kind, s.colour), []).append((i, float(start), s))
    for i, s in enumerate(hidden, len(shown) + 1):
        groups.setdefault(("hidden", s.colour), []).append((i, 0.0, s))
    traces = [_bars(kind, colour, bars, period) for (kind, colour), bars in groups.items()]
    total = Stretch("iteration", "iteration", period, palette.NEUTRAL, "")
    traces.append(_bars("iteration", palette.NEUTRAL, [(len(shown), 0.0, total)], period))
    seen: set[str] = set()
    for trace in traces:
        trace["showlegend"] = trace["name"] not in seen and trace["name"] != "iteration"
        seen.add(str(trace["name"]))
    layout = {
        "barmode": "overlay",
        "xaxis": {**seconds_axis(), "zeroline": True},
        "yaxis": listing_axis(ticks),
        "hovermode": "closest",
    }
    return Figure(
        "waterfall",
        "Where the time goes",
        _takeaway(parts, period),
        traces,
        layout,
        height=90 + 22 * len(names),
        narrow={"yaxis.ticktext": brief, "yaxis.tickfont.size": 10},
        note="Seen from the rank that computes most. Exposed: the rank does not compute meanwhile. Hidden: under "
        "compute, or ahead of time; it does not lengthen the iteration.",
    )


def _bars(kind: str, colour: str, bars: list[tuple[int, float, Stretch]], period: float) -> dict[str, Any]:
    where = next((s.where for *_, s in bars if s.where), "")
    name = {"compute": "compute", "waiting": "waiting", "iteration": "iteration"}.get(
        kind, f"{where.split(' + ')[-1]}, {kind}"
    )
    marker: dict[str, Any] = {"color": colour}
    if kind == "hidden":
        marker = {"color": palette.faint(colour), "line": {"width": 1, "color": colour}}
    return {
        "type": "bar",
        "orientation": "h",
        "name": labels([name])[0],
        "y": [i for i, *_ in bars],
        "base": [start for _, start, _ in bars],
        "x": [s.seconds for *_, s in bars],
        "text": [time(s.seconds) for *_, s in bars],
        "textposition": "auto",
        "cliponaxis": False,
        "hovertext": [
            lines(
                f"<b>{labels([s.name], 60)[0]}</b>",
                f"{time(s.seconds)}, {percent(s.seconds / period, 1)}",
                kind,
                s.where,
            )
            for *_, s in bars
        ],
        "hoverinfo": "text",
        "marker": marker,
    }


def _takeaway(parts: list[Stretch], period: float) -> str:
    of = {kind: [s for s in parts if s.kind == kind] for kind in ("compute", "exposed", "hidden")}
    total = {kind: sum(s.seconds for s in members) for kind, members in of.items()}
    largest = max((s for s in parts if s.kind != "hidden"), key=lambda s: s.seconds)
    said = f"Compute takes {percent(total['compute'] / period)} of {time(period)}"
    if of["exposed"]:
        said += f", exposed communication {percent(total['exposed'] / period)}"
    if of["hidden"]:
        said += f"; {time(total['hidden'])} more of communication is hidden"
    return f"{said}. The largest part is {largest.name}, {time(largest.seconds)}."
