"""Bars and curves of named series, for pages that show plain results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, listing_axis
from archmodel.report.html.text import label, labels

LOGARITHMIC = {"dtick": "D2", "tickformat": "~s"}
"""Ticks of a logarithmic axis at 1, 2 and 5."""

MARKERS = (("diamond-open", palette.CALIBRATED), ("square-open", palette.NEUTRAL))
"""Of points beside curves: the first series, the second."""


def bars(
    name: str, title: str, takeaway: str, names: Sequence[str], series: Mapping[str, Sequence[float]],
    axis: Mapping[str, Any], *, stacked: bool = False, marks: Mapping[str, float] | None = None, note: str = "",
    colours: Mapping[str, str] | None = None, hover: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """Bars that lie, one group for each of `names`, a colour for each of `series`. `marks`: values drawn across as
    dotted lines, by what they are. `hover`: what is told of each name besides, plain text."""
    at = list(range(len(names)))
    thick = 26 if stacked else 14 * len(series) + 10
    given = colours or {}
    data = [
        {
            "type": "bar", "orientation": "h", "name": label(key), "x": list(values), "y": at,
            "marker": {"color": given.get(key, palette.SERIES[i % len(palette.SERIES)])},
            **({"customdata": [label(text, 200) for text in hover]} if hover else {}),
            "hovertemplate": "%{x:.4~s}" + str(axis.get("ticksuffix", "")) + ("<br>%{customdata}" if hover else "")
            + f"<extra>{label(key)}</extra>",
        }
        for i, (key, values) in enumerate(series.items())
    ]  # fmt: skip
    layout: dict[str, Any] = {
        "barmode": "relative" if stacked else "group",
        "showlegend": len(series) > 1,
        "xaxis": ticked(axis),
        "yaxis": listing_axis(labels(list(names), 46)),
        **across(marks or {}, "x", log=axis.get("type") == "log"),
    }  # fmt: skip
    narrow = {"yaxis.ticktext": labels(list(names), 26), "yaxis.tickfont.size": 9}
    height = 120 + (26 if marks else 0) + max(thick, 24) * len(names)
    return Figure(name, title, takeaway, data, layout, height=height, narrow=narrow, note=note)


def curves(
    name: str, title: str, takeaway: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: Mapping[str, Any], y: Mapping[str, Any], *, marks: Mapping[str, float] | None = None, note: str = "",
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None, height: int = 360,
) -> Figure:  # fmt: skip
    """Lines with markers by name, each (x, y); `points`: published ones, drawn as open diamonds."""
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": label(key), "x": list(a), "y": list(b),
            "line": {"color": palette.SERIES[i % len(palette.SERIES)], "width": 2},
        }
        for i, (key, (a, b)) in enumerate(series.items())
    ]  # fmt: skip
    data += [
        {
            "type": "scatter", "mode": "markers", "name": label(key), "x": list(a), "y": list(b),
            "marker": {"symbol": symbol, "size": 12, "color": colour, "line": {"width": 2.5}},
        }
        for (key, (a, b)), (symbol, colour) in zip((points or {}).items(), MARKERS, strict=False)
    ]  # fmt: skip
    layout: dict[str, Any] = {"xaxis": ticked(x), "yaxis": ticked(y), "hovermode": "closest", "showlegend": True}
    layout |= across(marks or {}, log=y.get("type") == "log")
    return Figure(name, title, takeaway, data, layout, height=height, note=note)


def ticked(axis: Mapping[str, Any]) -> dict[str, Any]:
    """An axis whose ticks do not run into each other; on a logarithmic one plotly writes units at decades only, so the
    title has them."""
    if axis.get("type") != "log" or "tickvals" in axis:
        return dict(axis)
    unit, title = str(axis.get("ticksuffix", "")).strip(), axis.get("title", {}).get("text", "")
    named = {"title": {"text": f"{title} [{unit}]".strip()}, "ticksuffix": ""} if unit else {}
    return {**LOGARITHMIC, **axis, **named}


def across(marks: Mapping[str, float], axis: str = "y", *, log: bool = False) -> dict[str, Any]:
    """Dotted lines at values of an axis, with their names. On a logarithmic axis plotly takes the place of
    a line as it is and that of a text as its logarithm."""
    if not marks:
        return {}
    other = "y" if axis == "x" else "x"
    line = {"type": "line", f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
    shapes = [
        {**line, f"{axis}0": v, f"{axis}1": v, "line": {"color": palette.NEUTRAL, "width": 1.5, "dash": "dot"}}
        for v in marks.values()
    ]
    notes = []
    for i, (k, v) in enumerate((k, v) for k, v in marks.items() if k):
        left = axis == "y" and i % 2 == 1  # names of lines that are near each other stand apart
        anchor = "center" if axis == "x" else "left" if left else "right"
        notes.append(
            {
                axis: math.log10(v) if log else v, other: 0 if left else 1, f"{other}ref": "paper",
                "showarrow": False, "yanchor": "bottom", "xanchor": anchor, "text": label(k), "font": {"size": 11},
            }
        )  # fmt: skip
    return {"shapes": shapes, "annotations": notes}
