"""The page of predicted against published: every fact, calibrated and held-out ones apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.quantities import show
from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, si_axis
from archmodel.report.html.page import Page, Section
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.report.html.text import label, labels, lines
from archmodel.report.words import one_line, percent, plural, signed
from archmodel.validation import summary
from archmodel.validation.facts import DIMENSION

if TYPE_CHECKING:
    from archmodel.validation import Row

BAND = 0.2
"""Relative error that the band shows."""

_KINDS = ((False, "held out", palette.HELD_OUT, "circle"), (True, "calibrated", palette.CALIBRATED, "diamond-open"))
_UNITS = {"sample_rate": ("throughput", "sample/s"), "seconds": ("time", "s")}


def scoreboard(rows: Sequence[Row]) -> Page:
    """Everything about `rows`, as `archmodel.validation.scoreboard` gives them."""
    kinds = [kind for kind in _UNITS if any(DIMENSION[row.quantity] == kind for row in rows)]
    figures = [against([row for row in rows if DIMENSION[row.quantity] == kind], kind) for kind in kinds]
    held = [row for row in rows if not row.calibrated]
    subtitle = f"{plural(len(rows), 'fact')}, {len(held):,} held out and {len(rows) - len(held):,} used for calibration"
    sections = [
        Section("groups", "By group", [by_group(rows), errors(rows)]),
        Section("facts", "Every fact", figures, beside=len(figures) > 1),
        Section("table", "Table", [facts(rows)]),
    ]
    return Page("Predicted against published", subtitle, "", sections)


def against(rows: Sequence[Row], kind: str) -> Figure:
    """Predicted over published, both logarithmic, with the line of equality and the band."""
    name, unit = _UNITS[kind]
    published = np.array([row.published for row in rows])
    predicted = np.array([row.predicted for row in rows])
    low, high = 0.6 * min(published.min(), predicted.min()), 1.6 * max(published.max(), predicted.max())
    grey = {"color": palette.NEUTRAL, "width": 1.5}
    ends = [low, high]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "x": [*ends, *ends[::-1]], "hoverinfo": "skip", "fill": "toself",
            "y": [low * (1 - BAND), high * (1 - BAND), high * (1 + BAND), low * (1 + BAND)],
            "line": {"width": 0}, "fillcolor": palette.faint(palette.NEUTRAL, 0.18), "name": f"within {percent(BAND)}",
        },
        {"type": "scatter", "mode": "lines", "x": ends, "y": ends, "line": grey, "hoverinfo": "skip", "name": "equal"},
    ]  # fmt: skip
    for calibrated, said, colour, symbol in _KINDS:
        mine = [row for row in rows if row.calibrated is calibrated]
        if mine:
            traces.append(_points(mine, "published", "predicted", said, colour, symbol))
    inside = sum(abs(row.error) <= BAND for row in rows)
    worst = max(rows, key=lambda row: abs(np.log(row.predicted / row.published)))
    takeaway = (
        f"{inside} of {plural(len(rows), 'fact')} lie within {percent(BAND)}; the farthest is {one_line(worst.id)}, "
        f"{signed(worst.error, 1)}."
    )
    axis = {"type": "log", **si_axis(unit), "dtick": 1, "range": [np.log10(low), np.log10(high)]}
    layout = {
        "xaxis": {**axis, "title": {"text": f"published {name}"}},
        "yaxis": {**axis, "title": {"text": f"predicted {name}"}},
        "hovermode": "closest",
    }
    return Figure(f"against-{name}", f"Predicted against published {name}", takeaway, traces, layout, height=460)


def _points(rows: Sequence[Row], x: str, y: str, name: str, colour: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [getattr(row, x) for row in rows],
        "y": [getattr(row, y) for row in rows],
        "marker": {
            "color": colour,
            "symbol": symbol,
            "size": 9,
            "opacity": 0.85,
            "line": {"width": 1.5, "color": colour},
        },
        "hovertext": [_hover(row) for row in rows],
        "hoverinfo": "text",
    }


def _hover(row: Row) -> str:
    kind = DIMENSION[row.quantity]
    return lines(
        f"<b>{label(row.id, 60)}</b>",
        label(row.group, 60),
        f"published {show(row.published, kind)}, predicted {show(row.predicted, kind)}, {signed(row.error, 1)}",
        label(row.source, 80),
        label(row.note, 80),
    )


def by_group(rows: Sequence[Row]) -> Figure:
    """A line of points for every group: predicted over published."""
    names = list(dict.fromkeys(row.group for row in rows))
    traces: list[dict[str, Any]] = []
    for calibrated, said, colour, symbol in _KINDS:
        mine = [row for row in rows if row.calibrated is calibrated]
        if mine:
            trace = _points(mine, "published", "predicted", said, colour, symbol)
            spread = [0.0 if len(mine) < 2 else 0.22 * ((i * 7) % 5 - 2) / 2 for i in range(len(mine))]
            trace["x"] = [row.predicted / row.published for row in mine]
            trace["y"] = [names.index(row.group) + s for row, s in zip(mine, spread, strict=True)]
            traces.append(trace)
    reach = max(1.1 * max(row.predicted / row.published for row in rows), 1 + 1.5 * BAND)
    band = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": 1 - BAND, "x1": 1 + BAND, "layer": "below"}
    line = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 1, "x1": 1, "layer": "below"}
    low = min(min(row.predicted / row.published for row in rows) / 1.1, 1 - 1.5 * BAND)
    ticks = [v for v in (0.1, 0.2, 0.3, 0.5, 0.8, 1, 1.2, 1.5, 2, 3, 5, 10) if low <= v <= reach]
    layout = {
        "xaxis": {
            "type": "log", "range": [np.log10(low), np.log10(reach)], "title": {"text": "predicted / published"},
            "tickvals": ticks, "ticktext": [f"{v:g}" for v in ticks],
        },
        "yaxis": {
            "tickvals": list(range(len(names))), "ticktext": labels(names, 40), "range": [len(names) - 0.4, -0.6],
            "fixedrange": True, "zeroline": False,
        },
        "shapes": [
            {**band, "fillcolor": palette.faint(palette.NEUTRAL, 0.18), "line": {"width": 0}},
            {**line, "line": {"color": palette.NEUTRAL, "width": 1.5}},
        ],
        "hovermode": "closest",
    }  # fmt: skip
    return Figure(
        "by-group",
        "Predicted over published, by group",
        _takeaway(rows),
        traces,
        layout,
        height=110 + 46 * len(names),
        narrow={
            "yaxis.ticktext": labels(names, 18),
            "yaxis.tickfont.size": 10,
            "xaxis.tickangle": 0,
            "xaxis.tickfont.size": 8,
        },
        note=f"The band is {percent(BAND)} to either side. Filled points are held out: no constant was fitted on them.",
    )


def _takeaway(rows: Sequence[Row]) -> str:
    held = [abs(row.error) for row in rows if not row.calibrated]
    fitted = [abs(row.error) for row in rows if row.calibrated]
    said = []
    for errors_of, name in ((held, "held-out"), (fitted, "calibrated")):
        if errors_of:
            mean, median = percent(float(np.mean(errors_of)), 1), percent(float(np.median(errors_of)), 1)
            said.append(f"{plural(len(errors_of), name + ' fact')}: mean absolute error {mean}, median {median}")
    return "; ".join(said) + "."


def errors(rows: Sequence[Row]) -> Table:
    """A row per group, calibrated and held-out facts apart."""
    body: list[list[Cell]] = []
    for line in summary(rows):
        kind = "calibrated" if line.calibrated else "held out"
        figures = [share(line.mean, 1), share(line.median, 1), share(line.worst, 1, signed=True)]
        body.append([line.group, kind, count(line.count), *figures, line.worst_id])
    columns = [
        ("group", ""), ("facts", ""), ("count", "number"), ("MAPE", "fraction"), ("median", "fraction"),
        ("worst", "fraction"), ("of", ""),
    ]  # fmt: skip
    return Table("errors", columns, body, page=60)


def facts(rows: Sequence[Row]) -> Table:
    """A row per fact."""
    body: list[list[Cell]] = []
    for row in rows:
        kind = DIMENSION[row.quantity]
        body.append(
            [
                row.id, row.group, row.quantity.replace("_", " "), quantity(row.published, kind),
                quantity(row.predicted, kind), share(row.error, 1, signed=True),
                "calibrated" if row.calibrated else "held out", row.source, row.note,
            ]
        )  # fmt: skip
    columns = [
        ("fact", ""), ("group", ""), ("quantity", ""), ("published", "SI"), ("predicted", "SI"), ("error", "fraction"),
        ("used for", ""), ("source", ""), ("note", ""),
    ]  # fmt: skip
    return Table("facts", columns, body, page=100)
