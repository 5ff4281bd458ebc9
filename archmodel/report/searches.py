"""A search as a terminal shows it: how far it is, and the front that came out."""

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
from archmodel.report.as_json import finite
from archmodel.report.sweeps import SHOWN_REASONS, worded
from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, plural, whole
from archmodel.search.found import spread

if TYPE_CHECKING:
    from archmodel.search.found import Found
    from archmodel.search.search import Progress as Tell
    from archmodel.search.search import State

SHOWN = 16
"""Points of a front that a terminal shows; the file and `--json` have them all."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Tell]:
    """A bar on standard error with points, rate, time left, and what the front is; nothing when that is no terminal."""
    screen = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=screen, disable=quiet or not screen.is_terminal) as bar:
        task = bar.add_task("", total=1.0, words="")

        def tell(state: State) -> None:
            elapsed = time.monotonic() - began
            rate = (state.done - state.before) / elapsed if elapsed else 0.0
            of = f" of {state.total:,}" if state.total is not None else ""
            words = (
                f"{state.done:,}{of} points  {rate:,.0f}/s  front {state.front:,}, {state.hypervolume:.1%} of its box"
            )
            share = state.spent if state.total is None else max(state.spent, state.done / max(state.total, 1))
            bar.update(task, completed=min(share, 1.0), words=words)

        yield tell


def summary(found: Found) -> dict[str, Any]:
    """What a search came to, in plain JSON types and SI units."""
    front = [
        {name: None if value != value else value for name, value in row.items()} for row in found.rows(found.front)
    ]
    for row, numbers in zip(found.front.tolist(), front, strict=True):
        numbers.update(_bindings(found, row) if len(found.front) <= SHOWN else {})
    answer: dict[str, Any] = finite(
        {
            **found.meta,
            "points": len(found.points.codes),
            "feasible": len(found.feasible),
            "objectives": {o.of.label: "max" if o.largest else "min" for o in found.asked.aims.objectives},
            "reference": dict(found.reference),
            "hypervolume": found.hypervolume,
            "hypervolume_share": found.share,
            "units": {name: unit for name, unit in found.units.items() if unit},
            "reasons": found.reasons,
            "front": front,
        }
    )
    return answer


def _bindings(found: Found, row: int) -> dict[str, Any]:
    each = found.binding(row)
    return {
        "bound_by": [{"resource": b.resource, "share": b.share} for b in each],
        "nearest_limit": [{"limit": b.constraint, "used": b.used} for b in each],
    }


def show_search(found: Found, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints the front with what binds each point, how much it holds, and why points have no answer."""
    out = file or sys.stdout
    aims, meta = found.asked.aims, found.meta
    rows = spread(found.front, SHOWN)
    how = "every point of the space" if found.complete else f"{meta['method']}, seed {meta['seed']}"
    counts = f"{plural(len(found.points.codes), 'point')} evaluated ({how}), {len(found.feasible):,} feasible"
    lines: list[Any] = [Text(one_line(meta["name"])), Text(f"{counts}; front of {plural(len(found.front), 'point')}")]
    if len(rows):
        lines += [*_same(found), Text(), _front(found, rows), Text(), _binding(found, rows)]
    if len(rows) < len(found.front):
        lines.append(Text(f"{len(rows)} of {len(found.front):,} shown"))
    if len(found.front):
        corner = ", ".join(f"{o.of.label} {worded(found.reference[o.of.label], o.of.unit)}" for o in aims.objectives)
        lines.append(Text(f"\nhypervolume {found.hypervolume:.6g} ({found.share:.1%} of its box) from {corner}"))
    reasons = found.reasons
    if reasons:
        why = table("points", "without an answer because", right=("points",))
        for text, count in list(reasons.items())[:SHOWN_REASONS]:
            why.add_row(f"{count:,}", escape(text))
        if len(reasons) > SHOWN_REASONS:
            why.add_row("", f"and {len(reasons) - SHOWN_REASONS:,} more reasons")
        lines += [Text(), why]
    if found.interrupted:
        lines.append(Text("\ninterrupted; this is the front so far"))
    emit(console(out, width), lines, out)


def _varying(found: Found) -> list[str]:
    """Knobs that stand differently on the front."""
    return [n for n in found.knobs if len(found.front) == 1 or len(set(found.column(n)[found.front].tolist())) > 1]


def _same(found: Found) -> list[Text]:
    """A line with the knobs that stand alike on the whole front."""
    varying = _varying(found)
    alike = [name for name in found.knobs if name not in varying]
    if not alike:
        return []
    first = int(found.front[0])
    short = _short(list(found.knobs))
    cells = [f"{short[n]} {worded(found.column(n)[first].item(), found.units.get(n, ''))}" for n in alike]
    return [Text(f"on the whole front: {', '.join(cells)}")]


def _front(found: Found, rows: Any) -> Any:
    """Objectives and knobs of every point, a head word a line."""
    objectives = {o.of.label: "max" if o.largest else "min" for o in found.asked.aims.objectives}
    knobs, short = _varying(found), _short(list(found.knobs))
    goals = ["\n".join([*name.split("."), sense]) for name, sense in objectives.items()]
    block = table("point", *goals, *("\n".join(short[k].split(".")) for k in knobs), right=("point", *goals))
    for row in rows.tolist():
        cells = [worded(found.column(n)[row].item(), found.units.get(n, "")) for n in (*objectives, *knobs)]
        block.add_row(f"{found.points.columns['point'][row]:,}", *(whole(cell) for cell in cells))
    return block


def _binding(found: Found, rows: Any) -> Any:
    """What binds every point: of each model, what most of its critical path waits for; and the nearest limit."""
    names = found.asked.aims.families
    several = len(names) > 1
    heads = [f"{name} waits for" if several else "waits for" for name in names]
    block = table("point", *heads, "nearest limit", "used", right=("point", "used"))
    for row in rows.tolist():
        each = found.binding(row)
        near = max(each, key=lambda b: b.used)
        cells = [whole(f"{b.resource} {b.share:.0%}") for b in each]
        number = f"{found.points.columns['point'][row]:,}"
        block.add_row(number, *cells, whole(near.constraint), f"{near.used:.0%}")
    return block


def _short(paths: list[str]) -> dict[str, str]:
    """The last words of each path that tell it from the others."""
    found = {}
    for path in paths:
        parts = path.split(".")
        for count in range(1, len(parts) + 1):
            tail = parts[-count:]
            if sum(p.split(".")[-count:] == tail for p in paths) == 1:
                break
        found[path] = ".".join(tail)
    return found
