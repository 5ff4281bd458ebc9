"""The catalogue as a terminal shows it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line

if TYPE_CHECKING:
    from archmodel.catalogue import Entry

_NO_END = 100_000
"""Columns of a line that a program reads."""


def show_catalogue(entries: Iterable[Entry], *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints one line per file: the path that `use:` takes, its title, its source; cut where a terminal ends."""
    out = file or sys.stdout
    if width is None and not out.isatty():
        width = _NO_END
    rows = table("path", "title", "source", whole=("path", "title", "source"))
    for column in rows.columns[1:]:
        column.overflow = "ellipsis"
    for entry in entries:
        rows.add_row(Text(one_line(entry.path)), Text(one_line(entry.title)), Text(one_line(entry.source), "dim"))
    emit(console(out, width), [rows], out)
