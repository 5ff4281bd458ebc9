"""How well a learned cost of sets of tables predicts, as a terminal shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, percent, signed, time, whole

if TYPE_CHECKING:
    from archmodel.calibrate.tables import TablesCalibration


def show_set_costs(found: TablesCalibration, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints errors of the learned cost and of two simpler ones on sets fitted and left out, and the sets worst off."""
    out = file or sys.stdout
    numbers = ("sets", "mean error", "bias", "MSE (ms²)", "Spearman", "Kendall")
    rows = table("sets", "cost", *numbers[1:], right=numbers[1:])
    for where, by_model in found.scores.items():
        for name, s in by_model.items():
            ranks = (f"{s.spearman:.3f}", f"{s.kendall:.3f}") if s.sets else ("", "")
            rows.add_row(
                f"{s.sets:,} {where.replace('_', ' ')}",
                name,
                whole(percent(s.mape, 1)) if s.sets else "",
                whole(signed(s.bias, 1)) if s.sets else "",
                f"{s.mse_ms2:.3g}" if s.sets else "",
                *ranks,
            )
    worst = table("worst", "measured", "error", right=("measured", "error"))
    sets = found.sets
    for at, error in found.worst():
        names = [found.tables.names[t] for t in sets.member[sets.start[at] : sets.start[at + 1]]]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        worst.add_row(one_line(shown), whole(time(float(sets.seconds[at]))), whole(signed(error, 1)))
    title = Text(f"{len(found.tables):,} tables, {len(found.sets):,} sets; errors on sets of two tables and more\n")
    emit(console(out, width), [title, rows, Text(), worst], out)
