"""The page of a sweep or a search: trade-offs, axes, and the points behind them, all linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.quantities import show
from archmodel.report.html import palette
from archmodel.report.html.figure import Figure
from archmodel.report.html.front import front
from archmodel.report.html.opening import kind_of
from archmodel.report.html.page import Page, Section
from archmodel.report.html.table import Cell, Table
from archmodel.report.html.text import labels, markup, rounded
from archmodel.report.words import one_line, percent, plural
from archmodel.sweep.results import LOWER_IS_BETTER

if TYPE_CHECKING:
    from archmodel.quantities import Array
    from archmodel.sweep.results import Results

MOST_POINTS = 4_000
"""Points that a page holds; of more, those on the front, the best ones and an even choice of the rest."""

MOST_AXES = 12
BEST = 0.05
"""Share of the points that is called the best."""

_SECOND = ("usd_per_million_samples", "energy_per_sample", "power", "exposed_communication", "hbm_need")


@dataclass(frozen=True)
class View:
    """A table as the page shows it: columns that vary, what is wanted of each, and the rows that have an answer."""

    results: Results

    @cached_property
    def objectives(self) -> dict[str, bool]:
        """Columns to trade against each other, and whether more is better: the search's own, else throughput and the
        output that it is traded for."""
        found = _stated(self.results.meta.get("objectives"))
        found = {name: up for name, up in found.items() if name in self.results.names and self.varies(name)}
        for name in ("throughput", "iteration_time", *self.results.outputs):
            if not found and name in self.results.outputs and self.varies(name):
                found[name] = more_is_better(name)
        if len(found) == 1:
            second = self._traded(*next(iter(found.items())))
            found |= {second: more_is_better(second)} if second else {}
        for name in self.results.inputs:
            if len(found) < 2 and name not in found and self.numeric(name) and self.varies(name):
                found[name] = more_is_better(name)
        return found

    def _traded(self, first: str, up: bool) -> str:
        """The output of which most points are on a front with the first; the earlier in `_SECOND` of equals."""
        y = np.asarray(self.results[first], dtype=np.float64)
        sizes = {
            name: int(front(self.results[name], y, x_up=more_is_better(name), y_up=up).sum())
            for name in _SECOND
            if name in self.results.outputs and name != first and self.varies(name)
        }
        return max(sizes, key=lambda name: sizes[name], default="")

    def numeric(self, name: str) -> bool:
        """Whether a column holds numbers."""
        return bool(self.results[name].dtype.kind in "iuf")

    def varies(self, name: str) -> bool:
        """Whether a column has more than one value."""
        column = self.results[name]
        if self.numeric(name):
            column = column[np.isfinite(column.astype(np.float64))]
        return len(column) > 1 and bool(np.any(column != column[0]))

    @cached_property
    def columns(self) -> list[str]:
        """What is shown: inputs, then outputs that vary."""
        return [n for n in (*self.results.inputs, *self.results.outputs) if self.numeric(n) or n in self.results.inputs]

    @cached_property
    def answered(self) -> Any:
        """Indices of the rows with a value of the first two objectives, and of any output."""
        goals = list(self.objectives)[:2]
        known = [np.isfinite(self.results[n].astype(np.float64)) for n in self.results.outputs if self.numeric(n)]
        good = np.any(known, axis=0) if known else np.ones(len(self.results["point"]), dtype=bool)
        for name in goals:
            good = good & np.isfinite(self.results[name].astype(np.float64))
        return np.flatnonzero(good)

    @cached_property
    def on_front(self) -> Any:
        """Which of the answered rows no other beats in the first two objectives."""
        if len(self.objectives) < 2:
            return np.zeros(len(self.answered), dtype=bool)
        (y, y_up), (x, x_up) = list(self.objectives.items())[:2]
        return front(self.column(x), self.column(y), x_up=x_up, y_up=y_up)

    def column(self, name: str) -> Array:
        """Numbers of the answered rows."""
        return np.asarray(self.results[name][self.answered], dtype=np.float64)

    @cached_property
    def shown(self) -> Any:
        """Indices of the rows that the page holds, the best of the first objective first."""
        rows = self.answered
        for name, up in list(self.objectives.items())[:1]:
            rows = rows[np.argsort(-self.column(name) if up else self.column(name), kind="stable")]
        return rows[np.isin(rows, self.answered[self._kept])]

    @cached_property
    def _kept(self) -> Any:
        rows = self.answered
        if len(rows) <= MOST_POINTS:
            return np.ones(len(rows), dtype=bool)
        kept = np.zeros(len(rows), dtype=bool)
        kept[np.flatnonzero(self.on_front)[: MOST_POINTS // 2]] = True
        for name, up in self.objectives.items():
            kept[np.argsort(-self.column(name) if up else self.column(name), kind="stable")[: MOST_POINTS // 10]] = True
        rest = np.flatnonzero(~kept)
        room = max(MOST_POINTS - int(kept.sum()), 0)
        kept[rest[np.linspace(0, len(rest) - 1, room).astype(int)] if room else []] = True
        return kept


def _stated(given: Any) -> dict[str, bool]:
    """Objectives as a search writes them: names, {name: "min" | "max"}, or a list of {name, goal}."""
    if isinstance(given, Mapping):
        return {str(name): _up(str(name), goal) for name, goal in given.items()}
    found: dict[str, bool] = {}
    for item in given if isinstance(given, list | tuple) else ():
        if isinstance(item, Mapping):
            name = str(item.get("name", item.get("output", item.get("quantity", ""))))
            found[name] = _up(name, item.get("goal", item.get("direction", item.get("sense"))))
        elif isinstance(item, str):
            sign, name = (item[0], item[1:]) if item[:1] in "+-" else ("", item)
            found[name] = _up(name, {"+": "max", "-": "min"}.get(sign))
    return found


def _up(name: str, goal: Any) -> bool:
    text = str(goal).lower()
    return True if text.startswith("max") else False if text.startswith("min") else more_is_better(name)


def more_is_better(name: str) -> bool:
    """Of an output or input without a stated goal."""
    return not (name in LOWER_IS_BETTER or name.startswith("op.") or name.endswith(("_need", "price", "power")))


def sweep(results: Results) -> Page:
    """Everything about a table of a sweep or a search."""
    view = View(results)
    names = list(results.names)
    name = str(results.meta.get("name") or "sweep")
    failed = int(np.sum(~np.isin(np.arange(len(results["point"])), view.answered)))
    total = len(results["point"])
    subtitle = (
        f"{plural(total, 'point')} over {', '.join(one_line(n) for n in results.inputs)}; {failed:,} without an answer"
    )
    figures = [_pareto(view), _parallel(view), _heat(view)]
    picked = _points(view)
    sections = [
        Section("trade", "Trade-offs", [_CHOICE, figures[0]]),
        Section("axes", "All axes", [figures[1]]),
        Section("map", "Two axes", [_MAP, figures[2]]),
        Section("points", "Points", [_COUNT, picked]),
    ]
    if "reason" in names and failed:
        sections.append(Section("reasons", "Points without an answer", [_reasons(results)]))
    if not len(view.answered):
        sections = [
            Section("reasons", "No point has an answer", [_reasons(results)] if "reason" in results.held else [])
        ]
    extra = {"sweep": _data(view)} if len(view.answered) else {}
    return Page(name, subtitle, _cards(view), sections, extra, "sweep.js")


_CHOICE = (
    '<div class="bar"><label>up <select id="pareto-y"></select></label>'
    '<label>across <select id="pareto-x"></select></label><label>colour <select id="pareto-c"></select></label>'
    '<button type="button" id="clear">clear selection</button></div>'
)
_MAP = (
    '<div class="bar"><label>across <select id="heat-x"></select></label>'
    '<label>up <select id="heat-y"></select></label><label>best <select id="heat-z"></select></label></div>'
)
_COUNT = '<p class="note" id="selected"></p>'


def _data(view: View) -> dict[str, Any]:
    """Columns of the shown rows; those that hold no numbers as places in their list of labels."""
    results, rows = view.results, view.shown
    columns = []
    for name in view.columns:
        values = results[name][rows]
        unit = results.units.get(name, "")
        entry: dict[str, Any] = {
            "name": one_line(name),
            "label": labels([name], 48)[0],
            "unit": markup(unit),
            "input": name in results.inputs,
            "up": view.objectives.get(name, more_is_better(name)),
        }
        if view.numeric(name):
            entry["values"] = rounded(values.astype(np.float64))
        else:
            texts = [one_line(str(value)) for value in values]
            kinds = list(dict.fromkeys(texts))
            entry |= {"values": [kinds.index(text) for text in texts], "kinds": labels(kinds, 32)}
        columns.append(entry)
    order = [one_line(name) for name in view.objectives]
    axes = [n for n in results.inputs if view.varies(n)][:2]
    return {
        "columns": columns,
        "objectives": order[:2],
        "axes": [one_line(n) for n in axes],
        "palette": {"point": palette.SERIES[0], "front": palette.BAD, "grey": palette.NEUTRAL},
        "sequential": palette.SEQUENTIAL,
        "all": len(view.answered),
    }


def _empty(name: str, title: str, takeaway: str, height: int, note: str = "") -> Figure:
    """A figure that the page's script fills and redraws."""
    return Figure(name, title, takeaway, [], {}, height, note=note)


def _worded(results: Results, name: str, value: float) -> str:
    kind = kind_of(results.units.get(name, ""))
    if kind:
        return show(value, kind)
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.4g}"


def _pareto(view: View) -> Figure:
    said = "There are no two quantities to trade."
    if len(view.objectives) >= 2 and len(view.answered):
        y, x = list(view.objectives)[:2]
        ends = []
        for name in (y, x):
            values = view.column(name)[view.on_front]
            spread = [_worded(view.results, name, float(v)) for v in (values.min(), values.max())]
            reach = spread[0] if spread[0] == spread[1] else f"from {spread[0]} to {spread[1]}"
            ends.append(f"{one_line(name)} {reach}")
        count = int(view.on_front.sum())
        verb = "is" if count == 1 else "are"
        said = f"{count:,} of {plural(len(view.answered), 'point')} {verb} on the front: {', '.join(ends)}."
    held = len(view.shown)
    fewer = (
        f" The page holds {held:,} of {len(view.answered):,} points: the front, the best and an even choice."
        if held < len(view.answered)
        else ""
    )
    note = f"Red: points that no other beats in both. Drag over points to select them in all figures.{fewer}"
    return _empty("pareto", "Trade-offs", said, 460, note)


def _ranks(values: Array) -> Array:
    return np.asarray(np.argsort(np.argsort(values, kind="stable"), kind="stable"), dtype=np.float64)


def _parallel(view: View) -> Figure:
    said = "Every point is one line."
    if view.objectives and len(view.answered) > 2:
        goal, up = next(iter(view.objectives.items()))
        values = view.column(goal)
        numeric = [n for n in view.results.inputs if n != goal and view.numeric(n) and view.varies(n)]
        linked = {}
        for name in numeric:
            column = view.column(name)
            if np.ptp(column) > 0 and np.ptp(values) > 0:
                linked[name] = float(np.corrcoef(_ranks(column), _ranks(values))[0, 1])
        if linked:
            top = max(linked, key=lambda name: abs(linked[name]))
            few = max(int(np.ceil(BEST * len(values))), 1)
            best = np.argsort(-values if up else values, kind="stable")[:few]
            ends = [
                _worded(view.results, top, float(v))
                for v in (view.column(top)[best].min(), view.column(top)[best].max())
            ]
            reach = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
            said = (
                f"{one_line(goal)} follows {one_line(top)} most (rank correlation {linked[top]:+.2f}); the best "
                f"{percent(BEST)} of the points have {reach} of it."
            )
    return _empty(
        "parallel",
        "All axes",
        said,
        420,
        "Drag along an axis to select points in all figures, click it to let go. Colour: the last axis.",
    )


def _heat(view: View) -> Figure:
    axes = [n for n in view.results.inputs if view.varies(n)]
    said = "Only one axis varies." if axes else "No axis varies."
    if len(axes) >= 1 and view.objectives and len(view.answered):
        goal, up = next(iter(view.objectives.items()))
        values = view.column(goal)
        effect = {}
        for name in axes[:MOST_AXES]:
            column = view.results[name][view.answered]
            kinds = np.unique(column.astype(str)) if column.dtype.kind not in "iuf" else np.unique(column)
            if len(kinds) > 24:
                continue
            text = column.astype(str) if column.dtype.kind not in "iuf" else column
            tops = [values[text == kind].max() if up else values[text == kind].min() for kind in kinds]
            low, high = float(min(tops)), float(max(tops))
            effect[name] = high / low if low > 0 else np.inf
        if effect:
            ranked = sorted(effect, key=lambda name: -effect[name])[:2]
            parts = [f"{effect[name]:.3g} times along {one_line(name)}" for name in ranked]
            said = f"The best {one_line(goal)} changes by {' and '.join(parts)}."
    return _empty("heat", "Two axes", said, 420, "The best of all points in a cell; click a cell to select its points.")


def _points(view: View) -> Table:
    """Shown rows, the best of the first objective first."""
    results, rows = view.results, view.shown
    body: list[list[Cell]] = []
    for row in rows:
        cells: list[Cell] = []
        for name in view.columns:
            value = results[name][row]
            if view.numeric(name):
                number = float(value)
                cells.append(("", None) if number != number else (_worded(results, name, number), number))
            else:
                cells.append(str(value))
        body.append(cells)
    columns = [(name, (results.units.get(name) or "number") if view.numeric(name) else "") for name in view.columns]
    return Table("points", columns, body, page=20)


def _reasons(results: Results) -> Table:
    counted: list[list[Cell]] = [[(f"{n:,}", float(n)), reason] for reason, n in results.reasons.items()]
    return Table("reasons", [("points", "number"), ("reason", "")], counted, page=20)


def _brief(path: str) -> str:
    return ".".join(path.split(".")[-2:])


def _cards(view: View) -> str:
    from archmodel.report.html.headline import Card, as_html

    found: list[Card] = []
    results = view.results
    for goal, up in list(view.objectives.items())[:3]:
        values = view.column(goal)
        if len(values):
            at = int(values.argmax() if up else values.argmin())
            row = view.answered[at]
            where = ", ".join(
                f"{_brief(name)} {_worded(results, name, float(results[name][row]))}"
                if view.numeric(name)
                else f"{_brief(name)} {results[name][row]}"
                for name in results.inputs[:4]
            )
            best = _worded(results, goal, float(values[at]))
            found.append((f"{'most' if up else 'least'} {goal.replace('_', ' ')}", best, one_line(where), ""))
    return as_html(found) if found else ""
