"""Every evaluation of a search, in one SQLite file: what is written there is never lost nor evaluated again.

A row is a point of one model, by the bytes of its codes. Rows are committed as they come in; a process that is killed
loses what it was evaluating. Evaluations depend on designs, knobs and outputs, not on seed, method or budget: another
search over the same ones finds them here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.errors import ArchmodelError, escape
from archmodel.quantities import Array
from archmodel.sweep.job import Columns
from archmodel.sweep.lock import locked

_TABLES = """
create table if not exists about (what text not null);
create table if not exists points (
    family integer not null, codes blob not null, outputs blob, fits integer not null, reason text,
    primary key (family, codes)) without rowid;
create table if not exists plans (
    family integer not null, design blob not null, tables text not null, primary key (family, design)) without rowid;
create table if not exists planned (
    family integer not null, codes blob not null, design blob not null, primary key (family, codes)) without rowid;
"""


class SearchError(ArchmodelError):
    """A search that cannot start or go on; what is evaluated is kept."""


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation: its outputs in the order of the search's outputs, and why it has none."""

    outputs: bytes
    fits: bool
    reason: str | None


class Record:
    """Evaluations by model and codes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, family: int, keys: Sequence[bytes]) -> dict[bytes, Row]:
        """What is known of the points `keys`."""
        found: dict[bytes, Row] = {}
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            marks = ",".join("?" * len(part))
            query = f"select codes, outputs, fits, reason from points where family = ? and codes in ({marks})"
            for codes, outputs, fits, reason in self.connection.execute(query, (family, *part)):
                found[codes] = Row(outputs, bool(fits), reason)
        return found

    def write(
        self,
        family: int,
        keys: Sequence[bytes],
        rows: Sequence[Row],
        plans: Mapping[bytes, str],
        planned: Mapping[bytes, bytes],
    ) -> None:
        """Commits evaluations, plans by their keys, and which plan each point that is planned anew has."""
        with self.connection:
            self.connection.executemany(
                "insert or ignore into points values (?, ?, ?, ?, ?)",
                [(family, key, r.outputs, r.fits, r.reason) for key, r in zip(keys, rows, strict=True)],
            )
            for table, found in (("plans", plans), ("planned", planned)):
                self.connection.executemany(
                    f"insert or ignore into {table} values (?, ?, ?)", [(family, *pair) for pair in found.items()]
                )

    def plan(self, family: int, design: bytes) -> str | None:
        """The plan under a key, JSON of `plan.tables`."""
        found = self.connection.execute(
            "select tables from plans where family = ? and design = ?", (family, design)
        ).fetchone()
        return None if found is None else str(found[0])

    def plan_of(self, family: int, codes: bytes) -> str | None:
        """The plan of a point."""
        found = self.connection.execute(
            "select design from planned where family = ? and codes = ?", (family, codes)
        ).fetchone()
        return None if found is None else self.plan(family, found[0])

    @property
    def count(self) -> int:
        """Evaluations in all."""
        return int(self.connection.execute("select count(*) from points").fetchone()[0])


def rows_of(columns: Columns, outputs: Sequence[str]) -> list[Row]:
    """A worker's columns as rows."""
    table = np.stack([np.asarray(columns[name], dtype=np.float64) for name in outputs], axis=-1)
    return [
        Row(table[i].tobytes(), bool(columns["fits"][i]), columns["reason"][i]) for i in range(len(columns["fits"]))
    ]


def columns_of(rows: Sequence[Row], outputs: Sequence[str]) -> Columns:
    """Rows as columns: outputs, `fits` and `reason`."""
    table: Array = np.frombuffer(b"".join(row.outputs for row in rows), dtype=np.float64).reshape(-1, len(outputs))
    found: Columns = {name: table[:, i] for i, name in enumerate(outputs)}
    found["fits"] = np.array([row.fits for row in rows], dtype=bool)
    found["reason"] = np.array([row.reason for row in rows], dtype=object)
    return found


@contextmanager
def opened(path: Path | None, what: Mapping[str, Any]) -> Iterator[Record]:
    """The record in the file `path`, or one in memory; SearchError when it is of other evaluations than `what`, or
    another process writes it."""
    if path is None:
        with _closing(":memory:") as connection:
            connection.executescript(_TABLES)
            yield Record(connection)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    busy = SearchError(f"{escape(str(path))}: another process is writing this search")
    with locked(Path(f"{path}.lock"), busy), _closing(str(path)) as connection:
        shown = escape(str(path))
        try:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(_TABLES)
            found = connection.execute("select what from about").fetchone()
        except sqlite3.DatabaseError:
            raise SearchError(f"{shown}: is no record of a search; name another file with -o") from None
        if found is None:
            with connection:
                connection.execute("insert into about values (?)", (json.dumps(what),))
        elif json.loads(found[0]) != json.loads(json.dumps(what)):
            old = json.loads(found[0])
            other = ", ".join(
                key.replace("_", " ") for key in what if old.get(key) != json.loads(json.dumps(what[key]))
            )
            raise SearchError(f"{shown}: is of another search; other {other}; name another file with -o, or remove it")
        yield Record(connection)


@contextmanager
def _closing(path: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    try:
        yield connection
    finally:
        connection.close()
