"""A table that the page's script sorts, searches and saves as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from archmodel.quantities import Num, show
from archmodel.report.html.text import markup, rounded
from archmodel.report.words import one_line

MOST_ROWS = 5_000
"""Rows of one table on a page; it says so when it leaves some out."""

Cell = str | tuple[str, float | None]
"""Text, or a number as it is shown and its value."""


@dataclass(frozen=True)
class Table:
    """`columns`: (heading, unit): a unit or "number" for numbers, "" for text. `page`: rows shown at first."""

    name: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    page: int = 25

    def spec(self) -> dict[str, Any]:
        """What the script shows; text as it is, since it is set as text."""
        shown = [[_cell(cell) for cell in row] for row in self.rows[:MOST_ROWS]]
        columns = [{"name": name, "unit": unit} for name, unit in self.columns]
        return {"columns": columns, "rows": shown, "page": self.page, "left_out": max(len(self.rows) - MOST_ROWS, 0)}

    def static(self, most: int = 12) -> str:
        """The first rows as plain HTML, for notebooks."""
        head = "".join(f"<th style='text-align:{_side(unit)}'>{markup(name)}</th>" for name, unit in self.columns)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td style='text-align:{_side(unit)}'>{markup(cell if isinstance(cell, str) else cell[0])}</td>"
                for cell, (_, unit) in zip(row, self.columns, strict=True)
            )
            + "</tr>"
            for row in self.rows[:most]
        )
        more = f"<caption>{len(self.rows) - most:,} more rows</caption>" if len(self.rows) > most else ""
        return f"<table>{more}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _side(unit: str) -> str:
    return "right" if unit else "left"


def _cell(cell: Cell) -> Any:
    if isinstance(cell, str):
        return one_line(cell)
    text, value = cell
    return [text, rounded(value)]


def quantity(value: Num, kind: str) -> Cell:
    """A number with its unit; empty when there is none."""
    number = float(value)
    return ("", None) if number != number else (show(number, kind), number)


def count(value: float) -> Cell:
    """A plain number."""
    return (f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}", float(value))


def share(value: float, digits: int = 0, *, signed: bool = False) -> Cell:
    """A share in percent."""
    sign = "+" if signed else ""
    return (f"{round(100 * value, digits) + 0.0:{sign}.{digits}f} %", float(value))
