"""Plans on the terminal: a progress line while the planner searches, and what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from archmodel.errors import escape
from archmodel.interop.run import Answer

_MS = {"ms": 1.0, "s": 1e3}


@contextmanager
def progress(unit: str, *, quiet: bool) -> Iterator[Callable[[float, float, float], None] | None]:
    """A line on standard error with value, bound and gap; nothing when it is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return

    def tell(seconds: float, value: float, bound: float) -> None:
        gap = (value - bound) / value if value > 0 else 0.0
        line = f"{seconds:6.1f} s  best {value * _MS[unit]:.4f} ms  bound {bound * _MS[unit]:.4f} ms  gap {gap:.1%}"
        click.echo(f"\r{line}", nl=False, err=True)

    try:
        yield tell
    finally:
        click.echo("", err=True)


def show(answer: Answer) -> None:
    """Value, bound, gap and what the tables came to be."""
    s, scale = answer.summary, _MS[answer.unit]
    rows = [
        ("largest rank" if answer.unit == "ms" else "iteration", f"{s['value'] * scale:.4f} ms"),
        ("lower bound", f"{s['lower_bound'] * scale:.4f} ms (gap {s['gap']:.2%})"),
        ("planned in", f"{s['cpu_seconds']:.2f} CPU s, {s['peak_memory'] / 2**20:.0f} MiB"),
        *answer.rows,
    ]
    if s["interrupted"]:
        rows.append(("interrupted", "this is the best so far"))
    width = max(len(a) for a, _ in rows)
    for name, value in rows:
        click.echo(f"{escape(name):<{width}}  {escape(value)}")
