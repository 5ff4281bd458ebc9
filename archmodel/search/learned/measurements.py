"""Measured (or simulated) sets of tables: which tables ran in one fused kernel, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.errors import ArchmodelError, QuantityError, shown, suggestion
from archmodel.quantities import Array, parse
from archmodel.search.learned.csv_file import Cell, CsvFile, unknown
from archmodel.search.learned.tables import TableFeatures
from archmodel.search.options import IntArray

TIMES = {"time": None, "time_us": 1e-6, "time_ms": 1e-3, "time_s": 1.0}


@dataclass(frozen=True)
class TableSets:
    """Sets (S,) of tables: `member[start[s] : start[s + 1]]` are the tables of set s, by number; `seconds` (S,).

    `tables`: how many tables there are to choose from. `batch`: samples of every measurement, when it is known.
    """

    member: IntArray
    start: IntArray
    seconds: Array
    tables: int
    batch: int | None = None

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def counts(self) -> IntArray:
        """Tables of each set (S,)."""
        return np.diff(self.start)

    @cached_property
    def matrix(self) -> Any:
        """Which tables are in which set, sparse (S, T)."""
        from scipy.sparse import csr_array

        return csr_array((np.ones(len(self.member)), self.member, self.start), shape=(len(self), self.tables))

    def of(self, which: IntArray) -> TableSets:
        """Some of the sets."""
        chosen = [self.member[self.start[s] : self.start[s + 1]] for s in which.tolist()]
        return of_lists(chosen, self.seconds[which], self.tables, self.batch)


def of_lists(sets: Sequence[Any], seconds: Any, tables: int, batch: int | None = None) -> TableSets:
    """Sets from lists of table numbers."""
    start = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    member = np.concatenate([np.asarray(s, dtype=np.int64) for s in sets]) if sets else np.zeros(0, dtype=np.int64)
    return TableSets(member, start, np.asarray(seconds, dtype=np.float64), tables, batch)


def read_measurements(path: str | Path, tables: TableFeatures) -> TableSets:
    """A CSV file with a header: `tables` (names with ';' between them), the time (`time` with a unit, or `time_us`,
    `time_ms`, `time_s` with plain numbers), and, if wanted, `batch` (samples; the same in every row).

    Raises DesignError with every problem by line and column.
    """
    file = CsvFile(Path(path))

    def check(header: Sequence[str]) -> Iterator[tuple[str, str]]:
        yield from unknown(header, ("tables", "batch", *TIMES), "a table of measured sets")
        if "tables" not in header:
            yield "", "needs the column tables"
        if len([name for name in header if name in TIMES]) != 1:
            yield "", f"needs one column of {', '.join(TIMES)}"

    index = {name: t for t, name in enumerate(tables.names)}
    sets: list[list[int]] = []
    seconds: list[float] = []
    batch: int | None = None
    for row in file.rows(check):
        sets.append(_members(file, row["tables"], index))
        (column,) = (name for name in TIMES if name in row)
        seconds.append(_seconds(file, row[column]))
        if "batch" in row:
            given = file.number(row["batch"], least=1, whole=True)
            if batch is not None and given == given and given != batch:
                file.refuse(row["batch"], f"differs from the {batch} of the rows before; one model is of one batch")
            elif given == given:
                batch = int(given)
    file.done()
    if not sets:
        raise ArchmodelError(f"{path}:2: has no measurements")
    return of_lists(sets, seconds, len(tables), batch)


def _members(file: CsvFile, cell: Cell, index: dict[str, int]) -> list[int]:
    found: list[int] = []
    at = cell.at
    for part in cell.text.split(";"):
        name = part.strip()
        here = Cell(cell.column, name, cell.line, at + len(part) - len(part.lstrip()))
        at += len(part) + 1
        if name not in index:
            file.refuse(here, f"is no table of the list; {suggestion(name, index)}")
        elif index[name] in found:
            file.refuse(here, "is in this set twice")
        else:
            found.append(index[name])
    return found


def _seconds(file: CsvFile, cell: Cell) -> float:
    unit = TIMES[cell.column]
    if unit is not None:
        return unit * file.number(cell, above=True)
    try:
        value = parse(cell.text, "seconds")
    except QuantityError as error:
        file.refuse(cell, error.message)
        return float("nan")
    if not value > 0:
        file.refuse(cell, "is no time above zero", shown(cell.text))
    return value
