"""What went wrong, where, and what would be accepted.

Everything archmodel refuses ends up as an `ArchmodelError`. A bad design file is a `DesignError`: all of its
problems at once, each with file, line, column and field, ready to print.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SHOWN_PROBLEMS = 50
"""How many problems a `DesignError` prints; all of them stay in `.problems`."""

_WIDEST_COLUMN = 56
_LONGEST_VALUE = 48


class ArchmodelError(Exception):
    """Base of every error archmodel raises on purpose."""


class DoesNotFit(ArchmodelError):  # noqa: N818
    """The design is well formed, but its plan needs more of some memory than the machine has."""


class QuantityError(ArchmodelError, ValueError):
    """A value that is not the quantity asked for; `message` reads on after the value."""

    def __init__(self, message: str, value: str | None = None) -> None:
        super().__init__(message, value)
        self.message = message
        self.value = value

    def __str__(self) -> str:
        return self.message if self.value is None else f"{self.value} {self.message}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a design: the field's dotted path, what is wrong, the value, the place."""

    field: str
    message: str
    value: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def where(self) -> str:
        """`file:line:column`, as far as known."""
        parts = (self.file, self.line, self.column)
        return escape(":".join(str(part) for part in parts if part is not None))

    def __str__(self) -> str:
        cells = (self.where, escape(self.field), None if self.value is None else escape(self.value))
        return "  ".join([cell for cell in cells if cell] + [escape(self.message)])


class DesignError(ArchmodelError):
    """A design that cannot be evaluated; `problems` holds every reason, sorted by file and line."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        found = [problems] if isinstance(problems, Problem) else list(problems)
        self.problems: tuple[Problem, ...] = tuple(sorted(dict.fromkeys(found), key=_place))
        super().__init__(self.problems)

    def __str__(self) -> str:
        shown, count = self.problems[:SHOWN_PROBLEMS], len(self.problems)
        lines = aligned(shown)
        if count > len(shown):
            lines.append(f"... and {count - len(shown):,} more")
        lines.append(f"{count:,} problem{'' if count == 1 else 's'}; nothing was evaluated.")
        return "\n".join(lines)


def aligned(problems: Sequence[Problem]) -> list[str]:
    """One line per problem, with place, field and value in columns."""
    rows = [
        (problem.where, escape(problem.field), escape(problem.value or ""), escape(problem.message))
        for problem in problems
    ]
    where, field, value = (
        max((len(row[column]) for row in rows if len(row[column]) <= _WIDEST_COLUMN), default=0) for column in range(3)
    )
    lines = []
    for row in rows:
        cells = [row[0].ljust(where), row[1].ljust(field)]
        cells.append(f"{row[2].ljust(value)}  {row[3]}" if row[2] else row[3])
        lines.append("  ".join(cell for cell in cells if cell).rstrip())
    return lines


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """The candidates most like `name`, the best first; none when nothing is alike."""
    if len(name) > 200:
        return []
    known = list(dict.fromkeys(candidates))
    lower = name.lower()
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    close = difflib.get_close_matches(lower, list(folded), n=count, cutoff=0.6)
    return [folded[match] for match in close]


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """`did you mean embedding_dim?`, or what is known when nothing is near, or nothing at all."""
    known = list(dict.fromkeys(candidates))
    close = nearest(name, known, count=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {listed(known)}" if known else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """`a, b, c`, or the first `most` of them and `...`."""
    known = list(names)
    return ", ".join(known[:most]) + (", ..." if len(known) > most else "")


def escape(text: str) -> str:
    """`text` with everything unprintable (control, direction, zero-width characters) spelled out."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _spelled(character) for character in text)


def shown(value: object) -> str:
    """A value as a message quotes it: short, escaped, strings in quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        cut = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
        return escape(json.dumps(cut, ensure_ascii=False))
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge integer"
    if isinstance(value, int | float):
        return str(value)
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"an array of shape {shape}"


def _spelled(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _place(problem: Problem) -> tuple[str, int, int]:
    return problem.file or "", problem.line or 0, problem.column or 0
