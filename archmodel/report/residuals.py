"""How well a fitted fabric predicts the collectives it was fitted on, as a terminal shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import numpy as np
from rich.text import Text

from archmodel.report.terminal import console, emit, table
from archmodel.report.words import data, one_line, percent, signed, time, whole

if TYPE_CHECKING:
    from archmodel.calibrate.fabric import FabricCalibration

WORST = 5
"""Rows that are named for being predicted worst."""


def show_residuals(found: FabricCalibration, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints a row for each collective and number of ranks, and the rows that are predicted worst."""
    out = file or sys.stdout
    numbers = ("ranks", "rows", "mean error", "largest", "bias")
    fits = table("collective", *numbers, right=numbers)
    for kind, ranks in dict.fromkeys((row.kind, row.ranks) for row in found.rows):
        errors = np.array([row.error for row in found.rows if (row.kind, row.ranks) == (kind, ranks)])
        fits.add_row(
            kind,
            str(ranks),
            str(len(errors)),
            whole(percent(float(np.abs(errors).mean()), 1)),
            whole(percent(float(np.abs(errors).max()), 1)),
            whole(signed(float(np.median(errors)), 1)),
        )
    worst = table("worst", "ranks", "size", "measured", "error", right=("ranks", "size", "measured", "error"))
    for row in sorted(found.rows, key=lambda row: -abs(row.error))[:WORST]:
        worst.add_row(
            row.kind, str(row.ranks), whole(data(row.size)), whole(time(row.measured)), whole(signed(row.error, 1))
        )
    title = Text(f"{one_line(found.name)}: mean absolute error {percent(found.error, 1)} over {len(found.rows)} rows\n")
    emit(console(out, width), [title, fits, Text(), worst], out)
