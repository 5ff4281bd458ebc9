"""Plans on the terminal: a progress line while the planner searches, and what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from archmodel.errors import escape
from archmodel.interop.run import Answer
from archmodel.quantities import DIMENSIONS
from archmodel.quantities import show as quantity
from archmodel.search.compare import Comparison
from archmodel.search.explain import Alternative, Explanation, TableReason

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


@contextmanager
def counting(*, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A line on standard error with alternatives done; nothing when it is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    try:
        yield lambda done, of: click.echo(f"\rtrying alternatives  {done + 1} of {of}", nl=False, err=True)
    finally:
        click.echo("", err=True)


def _time(seconds: float) -> str:
    return quantity(seconds, DIMENSIONS["seconds"])


def _bytes(amount: float) -> str:
    return quantity(amount, DIMENSIONS["bytes"])


def _as_cut(kind: str, pieces: int, tier: str) -> str:
    return f"{kind}{f' in {pieces}' if pieces > 1 else ''}, {tier}"


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int) -> None:
    """A terminal table whose first `left` columns, and the last, are text."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < left or i == len(header) - 1 else "right")
    for row in rows:
        table.add_row(*(Text(escape(cell)) for cell in row))
    Console().print(table)


def show_explanation(explanation: Explanation) -> None:
    """Why every table is cut so, and what binds the ranks."""
    now = float(explanation.estimate.iteration_time)
    click.echo(f"iteration {_time(now)}; each alternative moves one table and leaves the others")
    for reason in explanation.tables:
        click.echo()
        click.echo(_heading(reason))
        _table("", ("  instead", "iteration", "why not"), [_row(a) for a in reason.alternatives], 1)
    click.echo()
    groups: dict[tuple[str, ...], list[int]] = {}
    tiers = list(explanation.ranks[0].memory)
    for r in explanation.ranks:
        key = _time(r.tables), _time(r.compute), _time(r.idle), *(f"{r.memory[t]:.0%}" for t in tiers), r.binds
        groups.setdefault(key, []).append(r.rank)
    rows = [(_ranks(v), *key) for key, v in groups.items()]
    _table("", ("rank", "tables", "compute", "idle", *tiers, "binds"), rows[:_MOST_GROUPS], 1)
    if len(rows) > _MOST_GROUPS:
        click.echo(f"and {len(rows) - _MOST_GROUPS} more groups of ranks (--json has all)")


_MOST_GROUPS, _MOST_TABLES = 24, 40


def _heading(reason: TableReason) -> str:
    place = "nodes" if reason.sharding in ("table_row_wise", "grid_wise", "table_column_wise") else "ranks"
    homes = f" on {place} {_ranks(reason.homes)}" if reason.homes else ""
    text = f"{reason.name}: {_as_cut(reason.sharding, reason.pieces, reason.tier)}{homes}"
    return escape(f"{text}, {_bytes(reason.bytes)}")


def _row(a: Alternative) -> tuple[str, str, str]:
    cut = f"  {_as_cut(a.sharding, a.pieces, a.tier)}"
    return cut, _time(a.iteration_time), a.why_not or "faster: a longer search would find it"


def _ranks(ranks: Sequence[int]) -> str:
    """Ranks as ranges: "0-3, 6"."""
    parts: list[list[int]] = []
    for r in sorted(ranks):
        if parts and r == parts[-1][-1] + 1:
            parts[-1][1:] = [r]
        else:
            parts.append([r])
    return ", ".join("-".join(map(str, p)) for p in parts)


def show_comparison(c: Comparison, names: tuple[str, str]) -> None:
    """Two plans, differences first."""
    a, b = (float(e.iteration_time) for e in (c.first, c.second))
    better = names[0] if a <= b else names[1]
    click.echo(escape(f"{better} is {max(a, b) / min(a, b) - 1:.1%} faster" if a != b else "equally fast"))
    rows: list[tuple[str, ...]] = [("iteration", _time(a), _time(b), f"{b / a - 1:+.1%}")]
    rows += [
        (f"{tier} of the fullest rank", _bytes(x), _bytes(y), f"{y / x - 1:+.1%}" if x else "")
        for tier, (x, y) in c.memory.items()
    ]
    rows += [
        (phase, _time(x), _time(y), f"{1e3 * (y - x):+.3f} ms")
        for phase, (x, y) in c.phases.items()
        if abs(y - x) > 1e-3 * min(a, b)
    ]
    fits = [e.fits for e in (c.first, c.second)]
    if not all(fits):
        rows.append(("fits", *("yes" if f else "no" for f in fits), ""))
    _table("", ("on the slowest rank", *names, "change"), rows, 1)
    click.echo(f"\n{len(c.tables)} of {len(c.tables) + c.same} tables are held otherwise")
    if c.tables:
        shown = [(d.name, _entry(d.first, d.second), _entry(d.second, d.first)) for d in c.tables[:_MOST_TABLES]]
        _table("", ("table", *names), shown, 3)
    if len(c.tables) > _MOST_TABLES:
        click.echo(f"and {len(c.tables) - _MOST_TABLES} more (--json has all)")


def _entry(entry: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """How a table is held; what both plans say of its rows only where they differ."""
    homes = entry.get("ranks") or entry.get("nodes")
    where = f" on {'ranks' if 'ranks' in entry else 'nodes'} {_ranks(homes)}" if homes else ""
    rest = [str(entry[k]) for k in ("tier", "dtype", "optimizer") if entry[k] != other[k]]
    return ", ".join([f"{entry['sharding']}{where}", *rest])
