"""What the studies share: pages made of figures, tables and the paragraph that every study owes its reader.

Not a study. A study builds a `Study` and hands it to `main`, which prints it, writes its page and says where that is.
The page is one of `archmodel.report.html`: the same palette, themes, sortable tables and offline script as a report.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archmodel.report.html.charts import bars
from archmodel.report.html.figure import Figure
from archmodel.report.html.page import Block, Page, Section
from archmodel.report.html.table import Cell, Table, share
from archmodel.report.html.text import markup
from archmodel.report.words import percent, signed


@dataclass(frozen=True)
class Claim:
    """What was published, what we predict, and why the two differ: a paragraph each, plain text."""

    published: str
    predicted: str
    why: str

    def html(self) -> str:
        """The three beside each other's names."""
        rows = (("Published", self.published), ("Predicted", self.predicted), ("Why they differ", self.why))
        inner = "".join(f"<h4>{name}</h4><p class='takeaway'>{markup(text)}</p>" for name, text in rows)
        return f'<div class="block">{inner}</div>'


@dataclass(frozen=True)
class Study:
    """`takeaway`: one sentence computed from the results, the same every time. `parts`: sections of the page."""

    title: str
    takeaway: str
    claims: Sequence[Claim]
    parts: Sequence[Section]

    def page(self) -> Page:
        """The page; the takeaway is its description, where the gallery finds it."""
        first = Section("claims", "What is claimed", [c.html() for c in self.claims])
        return Page(self.title, self.takeaway, "", [first, *self.parts])

    def lines(self) -> list[str]:
        """The study in lines of text: claims, then what every figure says."""
        said = [self.title, self.takeaway]
        for claim in self.claims:
            said += ["", f"published: {claim.published}", f"predicted: {claim.predicted}", f"why: {claim.why}"]
        for part in self.parts:
            said += ["", part.title]
            said += [f"  {b.title}: {b.takeaway}" for b in part.blocks if isinstance(b, Figure)]
            said += [line for b in part.blocks if isinstance(b, Table) for line in _rows(b)]
        return said


def _rows(table: Table) -> list[str]:
    """A table as text; long cells are cut."""
    body = [[c if isinstance(c, str) else c[0] for c in row] for row in table.rows]
    rows = [[name for name, _ in table.columns], *body]
    width = [min(max(len(row[i]) for row in rows), 44) for i in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell[:w].rjust(w) if unit else cell[:w].ljust(w)
            for cell, w, (_, unit) in zip(row, width, table.columns, strict=True)
        ).rstrip()
        for row in rows
    ]


def main(
    describe: str | None, build: Callable[..., Study], name: str, arguments: Sequence[str] | None = None, **options: Any
) -> int:
    """The command line of a study: builds it, prints it, writes its page. `options`: further arguments of `build` that
    the command takes, with their defaults."""
    parser = argparse.ArgumentParser(description=(describe or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path(f"{name}.html"), help="the page to write")
    for option, default in options.items():
        parser.add_argument(f"--{option}", type=type(default), default=default)
    chosen = vars(parser.parse_args(arguments))
    output = chosen.pop("output")
    study = build(**chosen)
    print("\n".join(study.lines()))
    study.page().write(output)
    print(f"\nfigures in {output}")
    return 0


def section(name: str, title: str, *blocks: Block, note: str = "", beside: bool = False) -> Section:
    """A section of a page."""
    return Section(name, title, blocks, beside, note)


# --- figures of a paper beside ours -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what comes out here, and what is published, if anything is."""

    target: str
    case: str
    predicted: float
    published: float | None = None
    source: str = ""
    note: str = ""

    @property
    def error(self) -> float | None:
        """Signed relative error."""
        return None if self.published is None else self.predicted / self.published - 1.0


def mean_error(found: Sequence[Row]) -> str:
    """`mean error 3.2 %, largest +11.3 % (8 ranks)`; empty where nothing is published."""
    known = [(row.error, row.case) for row in found if row.error is not None]
    if not known:
        return ""
    worst, case = max(known, key=lambda item: abs(item[0]))
    mean = sum(abs(error) for error, _ in known) / len(known)
    if not mean:
        return "as published"
    return f"mean error {percent(mean, 1)}, largest {signed(worst, 1)} ({case})"


def compared(name: str, title: str, found: Sequence[Row], said: str = "", note: str = "") -> Section:
    """Rows of one target as bars, predicted and published, and as a table."""
    error = mean_error(found)
    takeaway = said or (f"{error[0].upper()}{error[1:]}." if error else "")
    names = [row.case for row in found]
    if error:
        series = {"predicted": [row.predicted for row in found]}
        series["published"] = [row.published if row.published is not None else float("nan") for row in found]
    else:
        names, series = _by_last_part(found)
    figure = bars(name, title, takeaway, names, series, {"title": {"text": found[0].target}})
    cells: list[list[Cell]] = [
        [
            row.case, (f"{row.predicted:.3f}", row.predicted),
            ("", None) if row.published is None else (f"{row.published:.3f}", row.published),
            ("", None) if row.error is None else share(row.error, 1, signed=True), row.note, row.source,
        ]
        for row in found
    ]  # fmt: skip
    columns = [
        ("", ""), ("predicted", "number"), ("published", "number"), ("error", "fraction"), ("note", ""), ("source", ""),
    ]  # fmt: skip
    sources = {row.source for row in found if row.published is not None}
    if len(sources) == 1:  # said once
        note = f"{note} Published: {sources.pop()}.".strip()
        cells = [[*row[:-1], ""] for row in cells]
    empty = [i for i in range(len(columns)) if all(row[i] in ("", ("", None)) for row in cells)]
    columns = [c for i, c in enumerate(columns) if i not in empty]
    cells = [[c for i, c in enumerate(row) if i not in empty] for row in cells]
    return section(name, title, figure, Table(f"{name}-rows", columns, cells, page=6), note=note)


def _by_last_part(found: Sequence[Row]) -> tuple[list[str], dict[str, list[float]]]:
    """Names and series of bars: cases `a, b` with every b for each a are groups of a with a colour for each b."""
    parts = [row.case.rpartition(", ")[::2] for row in found]
    firsts, lasts = list(dict.fromkeys(a for a, _ in parts)), list(dict.fromkeys(b for _, b in parts))
    value = {part: row.predicted for part, row in zip(parts, found, strict=True)}
    if len(lasts) in range(2, 9) and len(firsts) > 1 and len(value) == len(firsts) * len(lasts) == len(found):
        return firsts, {b: [value[a, b] for a in firsts] for b in lasts}
    return [row.case for row in found], {"predicted": [row.predicted for row in found]}
