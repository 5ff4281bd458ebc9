"""CSV files with a header, cell by cell with its place: all problems of a file at once, with line and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from archmodel.errors import DesignError, Problem, shown, suggestion

LARGEST_FILE = 256 * 2**20
MOST_PROBLEMS = 100
LARGEST = 1e15
"""No number in these files is above this."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell, and where it begins."""

    column: str
    text: str
    line: int
    at: int


@dataclass
class CsvFile:
    """A file's header and rows, and the problems found in them; `done` raises those."""

    path: Path
    header: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def rows(self, check: Callable[[Sequence[str]], Iterator[tuple[str, str]]]) -> Iterator[dict[str, Cell]]:
        """Rows by column; `check` yields (column, message) of what is wrong with the header. Blank lines are left out.

        Raises DesignError when the file cannot be read or its header will not do.
        """
        lines = _text(self.path).splitlines()
        if not lines or not lines[0].strip():
            raise DesignError(Problem("header", "is empty; a header and rows are needed", None, str(self.path), 1))
        cells = list(_cells(lines[0]))
        self.header = tuple(text for text, _ in cells)
        places = dict(cells)
        found = [*check(self.header)]
        found += [(n, "appears twice") for n in dict.fromkeys(self.header) if self.header.count(n) > 1]
        if found:
            raise DesignError(
                Problem("header", message, shown(name) if name else None, str(self.path), 1, places.get(name))
                for name, message in found
            )
        for line, text in enumerate(lines[1:], start=2):
            if not text.strip(" \t,"):
                continue
            row = list(_cells(text))
            if len(row) != len(self.header):
                self.refuse(Cell("", "", line, 1), f"has {len(row)} cells under a header of {len(self.header)}")
                continue
            yield {name: Cell(name, one, line, at) for name, (one, at) in zip(self.header, row, strict=True)}

    def refuse(self, cell: Cell, message: str, value: str | None = None) -> None:
        """Notes a problem; raises all of them when there are too many to go on."""
        quoted = value if value is not None else shown(cell.text) if cell.column else None
        self.problems.append(Problem(cell.column, message, quoted, str(self.path), cell.line, cell.at))
        if len(self.problems) >= MOST_PROBLEMS:
            raise DesignError(self.problems)

    def number(self, cell: Cell, *, least: float = 0.0, above: bool = False, whole: bool = False) -> float:
        """A finite number of at least (or above) `least`; NaN after noting what is wrong with it."""
        try:
            value = float(cell.text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.refuse(cell, "is not a finite number")
            return math.nan
        if value > LARGEST:
            self.refuse(cell, f"must be at most {LARGEST:g}")
            return math.nan
        if value < least or (above and value == least) or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            self.refuse(cell, f"must be {kind} {'above' if above else 'of at least'} {least:g}")
            return math.nan
        return value

    def done(self) -> None:
        """Raises DesignError with all problems noted."""
        if self.problems:
            raise DesignError(self.problems)


def unknown(header: Sequence[str], known: Sequence[str], what: str) -> Iterator[tuple[str, str]]:
    """Problems of columns that are not among `known`."""
    for name in header:
        if name not in known:
            yield name, f"is no column of {what}; {suggestion(name, known)}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise DesignError(Problem("", f"cannot be read: {error.strerror or error}", None, str(path))) from None
    if len(raw) > LARGEST_FILE:
        raise DesignError(Problem("", f"is larger than the {LARGEST_FILE >> 20} MiB that are read", None, str(path)))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DesignError(Problem("", "is no UTF-8 text", None, str(path))) from None


def _cells(line: str) -> Iterator[tuple[str, int]]:
    """Texts of a line's cells without blanks around them, and the column where each begins (from 1)."""
    if '"' not in line:
        at = 1
        for text in line.split(","):
            yield text.strip(), at + len(text) - len(text.lstrip())
            at += len(text) + 1
        return
    starts, quoted = [0], False
    for i, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            starts.append(i + 1)
    values = next(csv.reader([line]), [])
    for i, text in enumerate(values):
        yield text.strip(), (starts[i] if i < len(starts) else len(line)) + 1
