"""Iterations of several designs on top of each other: phases of compute, exposed communication by link, waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, listing_axis, seconds_axis
from archmodel.report.html.text import label, lines
from archmodel.report.html.waterfall import stretches
from archmodel.report.ranks import busiest_and_median, on_rank
from archmodel.report.words import percent, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

Pieces = dict[tuple[str, str], float]


def pieces(estimate: Estimate) -> Pieces:
    """Seconds by (name, colour): compute of each phase, exposed communication of each kind of link, and waits. They sum
    to the iteration time."""
    rank, _ = busiest_and_median(estimate)
    found: Pieces = {}
    for op in estimate.ops:
        if "compute" in op.op.streams:
            key = (op.op.phase, palette.phase(op.op.phase))
            found[key] = found.get(key, 0.0) + on_rank(op.time, rank)
    for stretch in stretches(estimate):
        if stretch.kind in ("exposed", "waiting"):
            waits = "waiting" if stretch.seconds > 0 else "counted twice: waits that overlap"
            name = f"exposed {stretch.where.split(' + ')[-1]}" if stretch.kind == "exposed" else waits
            found[name, stretch.colour] = found.get((name, stretch.colour), 0.0) + stretch.seconds
    return found


def stack(named: Sequence[tuple[str, Estimate]]) -> Figure:
    """One bar for each design."""
    made = [pieces(estimate) for _, estimate in named]
    keys = list(dict.fromkeys(key for one in made for key in one))
    traces: list[dict[str, Any]] = []
    for name, colour in keys:
        seconds = [one.get((name, colour), 0.0) for one in made]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label(name),
                "x": seconds,
                "y": list(range(len(named))),
                "marker": {"color": colour},
                "hovertext": [
                    lines(
                        f"<b>{label(tag, 60)}</b>", f"{label(name)}: {time(s)}, {percent(s / float(e.iteration_time))}"
                    )
                    for (tag, e), s in zip(named, seconds, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    tags = [label(tag, 30) for tag, _ in named]
    layout = {
        "barmode": "relative",
        "xaxis": seconds_axis(),
        "yaxis": listing_axis(tags),
        "hovermode": "closest",
    }
    return Figure(
        "stack",
        "The iteration, phase by phase",
        _takeaway(named, made),
        traces,
        layout,
        height=110 + 46 * len(named),
        narrow={"yaxis.ticktext": [tag.split(":")[0] for tag in tags]},
    )


def _takeaway(named: Sequence[tuple[str, Estimate]], made: list[Pieces]) -> str:
    first, rest = made[0], made[1:]
    best = min(range(len(named)), key=lambda i: float(named[i][1].iteration_time))
    letters = [tag.split(":")[0] for tag, _ in named]
    said = f"{letters[best]} has the shortest iteration, {time(named[best][1].iteration_time)}"
    changes = {
        (i, name): one.get((name, colour), 0.0) - first.get((name, colour), 0.0)
        for i, one in enumerate(rest, 1)
        for name, colour in {*one, *first}
    }
    moved = {key: change for key, change in changes.items() if abs(change) > 1e-9}
    if not moved:
        return f"{said}; no phase differs."
    i, name = max(sorted(moved), key=lambda key: abs(moved[key]))
    change = moved[i, name]
    much = f"{time(abs(change))} {'longer' if change > 0 else 'shorter'}"
    return f"{said}. The largest change is {name} of {letters[i]}, {much} than that of {letters[0]}."
