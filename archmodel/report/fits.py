"""How well fitted constants predict what was measured, as a terminal shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, percent, signed, time, whole

if TYPE_CHECKING:
    from archmodel.calibrate.gpu import Calibration

WORST = 3
"""Rows of each kernel that are named for being predicted worst."""


def show_fits(found: Calibration, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints a row per kernel with its errors, and the rows that are predicted worst."""
    out = file or sys.stdout
    numbers = ("rows", "fitted", "error there", "on the others", "median", "90 %", "bias")
    fits = table("kernel", *numbers, right=numbers)
    for row in found.residuals():
        others = row["error_left_out"]
        fits.add_row(
            row["kernel"],
            f"{row['rows']:,}",
            f"{row['fitted_rows']:,}",
            whole(percent(row["error"], 1)),
            "" if others is None else whole(percent(others, 1)),
            whole(percent(row["median_error"], 1)),
            whole(percent(row["p90_error"], 1)),
            whole(signed(row["bias"], 1)),
        )
    worst = table("worst", "shape", "dtype", "measured", "error", right=("measured", "error"))
    for fit in found.fits:
        for measured, error in fit.worst(WORST):
            shape = " x ".join(f"{size:,.0f}" for size in measured.shape)
            worst.add_row(fit.kernel, shape, measured.dtype, whole(time(measured.seconds)), whole(signed(error, 1)))
    title = Text(f"{one_line(found.gpu.name or 'GPU')}, mean absolute errors\n")
    emit(console(out, width), [title, fits, Text(), worst], out)
