"""Predicted against published, as a terminal shows it and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.table import Table
from rich.text import Text

from archmodel.quantities import show
from archmodel.report.as_json import finite
from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, percent, signed, whole
from archmodel.validation import summary
from archmodel.validation.facts import DIMENSION

if TYPE_CHECKING:
    from archmodel.validation import Row

KEYS = ("id", "group", "quantity", "published", "predicted", "error", "calibrated", "source")


def to_list(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A mapping per fact, in SI units; `error` is predicted over published, less 1."""
    return [finite({key: getattr(row, key) for key in KEYS}, row.id) for row in rows]


def show_scoreboard(rows: Sequence[Row], *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints a row per fact by group, then how large the errors are, calibrated and held out apart."""
    out = file or sys.stdout
    emit(console(out, width), [_facts(rows), Text(), _errors(rows)], out)


def _facts(rows: Sequence[Row]) -> Table:
    numbers = ("published", "predicted", "error")
    board = table("fact", "quantity", *numbers, "", right=numbers, whole=numbers)
    for group in dict.fromkeys(row.group for row in rows):
        board.add_row(Text(one_line(group), "bold"))
        for row in rows:
            if row.group == group:
                board.add_row(
                    Text(f"  {one_line(row.id)}"),
                    row.quantity,
                    whole(show(row.published, DIMENSION[row.quantity])),
                    whole(show(row.predicted, DIMENSION[row.quantity])),
                    whole(signed(row.error, 1)),
                    Text("calibrated" if row.calibrated else "", "dim"),
                )
    return board


def _errors(rows: Sequence[Row]) -> Table:
    """Absolute errors by group."""
    numbers = ("facts", "median", "mean", "worst")
    board = table("errors", "", *numbers, "of", right=numbers)
    for line in summary(rows):
        board.add_row(
            Text(one_line(line.group)),
            "calibrated" if line.calibrated else "held out",
            str(line.count),
            whole(percent(line.median, 1)),
            whole(percent(line.mean, 1)),
            whole(signed(line.worst, 1)),
            Text(one_line(line.worst_id), "dim"),
        )
    return board
