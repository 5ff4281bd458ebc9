"""A sweep as a terminal shows it: how far it is, and what came out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from archmodel.errors import escape
from archmodel.quantities import DIMENSIONS, show
from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, plural, whole

if TYPE_CHECKING:
    from archmodel.sweep.results import Results
    from archmodel.sweep.sweep import Progress as Tell

SHOWN_REASONS = 5
"""How many different reasons are shown; `--json` has them all."""


@contextmanager
def progress(total: int) -> Iterator[Tell]:
    """A bar on standard error with points, rate and time left, and one line at the end; only the line when that is no
    terminal. Points that an earlier run finished count as done and not for the rate."""
    screen = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} points", markup=False),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=total, rate="")
        first: list[int] = []
        began = time.monotonic()

        def tell(done: int, of: int, before: int) -> None:
            if not first:
                first.append(before)
                bar.reset(task, total=of, completed=before)
            elapsed = time.monotonic() - began
            rate = f"{(done - before) / elapsed:,.0f} points/s" if elapsed and done > before else ""
            bar.update(task, completed=done, total=of, rate=rate)

        yield tell
    before = first[0] if first else 0
    elapsed = time.monotonic() - began
    resumed = f", {before:,} of them from before" if before else ""
    screen.print(f"{total:,} points in {elapsed:,.1f} s{resumed}")


def summary(results: Results) -> dict[str, Any]:
    """What a sweep came to, in plain JSON types and SI units."""
    reasons = results.reasons
    best = results.best() if "throughput" in results.outputs else None
    return {
        "name": results.meta["name"],
        "points": results.points,
        "answered": results.points - sum(reasons.values()),
        "reasons": reasons,
        "units": {name: unit for name, unit in results.units.items() if unit},
        "ranges": {name: list(ends) for name, ends in results.ranges().items()},
        "best": best and {name: None if value != value else value for name, value in best.items()},
        "folder": None if results.folder is None else str(results.folder),
        "design_hash": results.meta["design_hash"],
        "package_version": results.meta["package_version"],
        "git_version": results.meta["git_version"],
    }


def show_sweep(
    results: Results, found: dict[str, Any], *, file: TextIO | None = None, width: int | None = None
) -> None:
    """Prints the best point, the range of every output, and why points have no answer."""
    out = file or sys.stdout
    axes = ", ".join(one_line(name) for name in results.inputs)
    failed = found["points"] - found["answered"]
    lines = [
        Text(one_line(found["name"] or "design")),
        Text(f"{plural(found['points'], 'point')} over {axes}; {failed:,} without an answer\n"),
    ]
    rows = table("", "least", "largest", "with most throughput", right=("least", "largest", "with most throughput"))
    best = found["best"] or {}
    for name in (*results.inputs, *results.outputs):
        low, high = found["ranges"].get(name, (None, None))
        if low is None and best.get(name) is None:
            continue
        cells = [whole(worded(value, results.units[name])) for value in (low, high, best.get(name))]
        rows.add_row(one_line(name), *cells)
    blocks: list[Any] = [*lines, rows]
    if failed:
        why = table("points", "without an answer because", right=("points",))
        for text, count in list(found["reasons"].items())[:SHOWN_REASONS]:
            why.add_row(f"{count:,}", escape(text))
        if len(found["reasons"]) > SHOWN_REASONS:
            why.add_row("", f"and {len(found['reasons']) - SHOWN_REASONS:,} more reasons")
        blocks += [Text(), why]
    if found["folder"]:
        blocks += [Text(), Text(f"table: {escape(found['folder'])}/points-*.parquet, described by manifest.json")]
    emit(console(out, width), blocks, out)


def worded(value: Any, unit: str) -> str:
    """A cell for a reader: a quantity with its unit, anything else as it is."""
    if value is None:
        return ""
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return one_line(str(value))
    known = next((d for d in DIMENSIONS.values() if d.unit == unit and unit), None)
    return show(value, known) if known else f"{value:,}" if isinstance(value, int) else f"{value:g}"
