"""What one percent more of each resource buys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, listing_axis
from archmodel.report.html.text import label, labels, lines
from archmodel.report.words import one_line, signed

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

MOST = 16
LEAST = 0.005
"""Elasticities below it round to nothing."""


def elasticities(estimate: Estimate) -> Figure:
    """A tornado: the largest effect on top, bars to the left shorten the iteration."""
    found = {name: slope for name, slope in estimate.elasticities.items() if abs(slope) >= LEAST}
    shown = dict(list(found.items())[:MOST])
    names = [name.removeprefix("system.") for name in shown]
    slopes = list(shown.values())
    colours = [palette.of_path(name) for name in shown]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": slopes,
        "y": list(range(len(names))),
        "text": [signed(slope / 100, 2) for slope in slopes],
        "textposition": "auto",
        "cliponaxis": False,
        "hovertext": [
            lines(f"<b>{label(name, 80)}</b>", f"1 % more of it changes the iteration by {signed(slope / 100, 3)}")
            for name, slope in shown.items()
        ],
        "hoverinfo": "text",
        "marker": {"color": colours},
        "showlegend": False,
    }
    reach = 1.15 * max((abs(s) for s in slopes), default=1.0)
    low = -reach if min(slopes, default=0.0) < 0 else -0.05 * reach
    high = reach if max(slopes, default=0.0) > 0.2 * reach else 0.25 * reach
    layout = {
        "xaxis": {"ticksuffix": " %", "title": {"text": "change of the iteration time"}, "range": [low, high]},
        "yaxis": listing_axis(labels(names, 44)),
    }
    return Figure(
        "elasticities",
        "What one percent more buys",
        _takeaway(shown),
        [trace],
        layout,
        height=90 + 22 * max(len(names), 1),
        narrow={
            "xaxis.range": [1.2 * low, max(high, 0.5 * reach)],
            "yaxis.ticktext": labels(names, 22),
            "yaxis.tickfont.size": 10,
        },
        note="Logarithmic derivative of the iteration time to each rate and latency of the system.",
    )


def _takeaway(shown: dict[str, float]) -> str:
    if not shown:
        return "No single rate or latency changes the iteration."
    gain = min(shown, key=lambda name: shown[name])
    if shown[gain] >= 0:
        return "More of any rate buys nothing; shorter latencies do."
    said = (
        f"1 % more of {one_line(gain.removeprefix('system.'))} changes the iteration by {signed(shown[gain] / 100, 2)}"
    )
    others = [name for name in shown if name != gain]
    if not others:
        return f"{said}; nothing else matters."
    after = max(others, key=lambda name: abs(shown[name]))
    return f"{said}; next is {one_line(after.removeprefix('system.'))}, {signed(shown[after] / 100, 2)}."
