"""The scoreboard as a plain Markdown page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archmodel.quantities import show
from archmodel.validation.facts import DIMENSION
from archmodel.validation.score import ALL, Row, Summary, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def to_markdown(rows: Sequence[Row]) -> str:
    """Tables of errors per group and of every fact, with sources and notes below."""
    lines = summary(rows)
    parts = [
        "## Errors by group",
        "Median, and mean (MAPE), of the absolute errors.",
        _table(("group", "facts", "count", "median", "mean", "worst"), map(_summary_cells, lines)),
        "## Held-out rows beyond 20 %, and what is known of each",
        _table(("fact", "error", "reason"), map(_miss_cells, misses(rows))) or "None.",
    ]
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        parts += [
            f"## {_safe(group)}",
            _table(("fact", "published", "predicted", "error", "used for calibration"), map(_cells, mine)),
            _remarks(mine),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


FAR = 0.20
"""Error from which a row needs a reason."""


def misses(rows: Sequence[Row]) -> list[Row]:
    """Held-out rows whose prediction is off by more than 20 %, the worst first."""
    return sorted((r for r in rows if not r.calibrated and abs(r.error) > FAR), key=lambda r: -abs(r.error))


def _miss_cells(row: Row) -> tuple[str, ...]:
    return row.id, f"{row.error:+.1%}", row.note or "not known"


def _summary_cells(line: Summary) -> tuple[str, ...]:
    kind = "calibrated" if line.calibrated else "held out"
    group = "all" if line.group == ALL else line.group
    return (
        group,
        kind,
        str(line.count),
        f"{line.median:.1%}",
        f"{line.mean:.1%}",
        f"{line.worst:+.1%} ({line.worst_id})",
    )


def _cells(row: Row) -> tuple[str, ...]:
    dimension = DIMENSION[row.quantity]
    return (
        row.id,
        show(row.published, dimension),
        show(row.predicted, dimension),
        f"{row.error:+.1%}",
        "yes" if row.calibrated else "no",
    )


def _remarks(rows: Sequence[Row]) -> str:
    """Sources and notes, each once, with the facts that they belong to."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for text in (f"source: {row.source}", row.note):
            if text:
                said.setdefault(text, []).append(row.id)
    return "\n".join(
        f"- {_safe(text)}" + ("" if len(ids) == len(rows) else f" ({', '.join(map(_safe, ids))})")
        for text, ids in said.items()
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = ["| " + " | ".join(_safe(cell) for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([body[0], "|" + "---|" * len(head), *body[1:]])


def _safe(text: str) -> str:
    """Text that cannot break out of a cell or become markup."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(re.sub(r"([\\|`*_\[\]])", r"\\\1", text).split())
