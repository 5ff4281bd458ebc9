"""A folder of finished chunks: one parquet file each and one manifest.

A chunk's file is written beside its place and renamed into it, so that what stands there is whole, whenever the process
is killed; the files themselves are the record of what is done. The manifest, written first, says of what sweep.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archmodel.errors import escape
from archmodel.sweep.executors import SweepError
from archmodel.sweep.job import Columns
from archmodel.sweep.lock import locked

if TYPE_CHECKING:
    import polars

MANIFEST, LOCK = "manifest.json", ".lock"
_CHUNK = re.compile(r"points-(\d{6,})\.parquet")


def needs_polars() -> Any:
    """The module polars, or a named error."""
    try:
        import polars
    except ImportError:
        raise SweepError("tables need polars: pip install 'archmodel[table]'") from None
    return polars


def series(name: str, column: npt.NDArray[Any]) -> polars.Series:
    """A column for polars. Text, None where there is none, goes as a list: polars reads the type of an object array
    off its first item."""
    pl = needs_polars()
    made: polars.Series = (
        pl.Series(name, column.tolist(), pl.String) if column.dtype == object else pl.Series(name, column)
    )
    return made


def frame(columns: Columns, meta: Mapping[str, Any]) -> polars.DataFrame:
    """Columns as a polars frame, with what they were made by in every row (which parquet stores once)."""
    pl = needs_polars()
    data = {name: series(name, column) for name, column in columns.items()}
    made = {name: pl.lit(str(meta[name])).alias(name) for name in ("design_hash", "git_version", "package_version")}
    table: polars.DataFrame = pl.DataFrame(data).with_columns(**made)
    return table


class Store:
    """The folder of one sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def manifest(self) -> dict[str, Any]:
        """What the folder's sweep is."""
        path = self.folder / MANIFEST
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SweepError(f"{escape(str(self.folder))}: is no folder of a sweep; it has no {MANIFEST}") from None
        except ValueError:
            raise SweepError(f"{escape(str(path))}: is not the manifest of a sweep") from None
        if not isinstance(found, dict) or "fingerprint" not in found:
            raise SweepError(f"{escape(str(path))}: is not the manifest of a sweep")
        return found

    @contextmanager
    def opened(self, manifest: Mapping[str, Any]) -> Iterator[set[int]]:
        """Chunks that are finished, while nobody else may write; SweepError when the folder is not this sweep's."""
        needs_polars()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise SweepError(f"{escape(str(self.folder))}: is a file; a folder is needed") from None
        if not (self.folder / MANIFEST).exists():
            strangers = sorted(p.name for p in self.folder.iterdir() if p.name != LOCK and p.suffix != ".part")
            if strangers:
                what = f"holds {escape(strangers[0])} and no sweep; name a new or empty folder"
                raise SweepError(f"{escape(str(self.folder))}: {what}")
        busy = SweepError(f"{escape(str(self.folder))}: another process is writing this sweep")
        with locked(self.folder / LOCK, busy):
            if (self.folder / MANIFEST).exists():
                self._same(manifest)
            else:
                self._replace(MANIFEST, lambda path: path.write_text(json.dumps(manifest, indent=1), encoding="utf-8"))
            for left in self.folder.glob("*.part"):
                left.unlink()
            yield self.finished()

    def _same(self, manifest: Mapping[str, Any]) -> None:
        old = self.manifest
        if old["fingerprint"] == manifest["fingerprint"]:
            return
        known = ("design_hash", "package_version", "sample", "points", "seed", "outputs", "axes")
        other = [name.replace("_", " ") for name in known if old.get(name) != manifest.get(name)]
        where, what = escape(str(self.folder / MANIFEST)), ", ".join(other) or "chunk sizes"
        hint = "name another folder, or remove this one"
        raise SweepError(f"{where}: is of another sweep of {escape(str(old.get('name')))}; other {what}; {hint}")

    def finished(self) -> set[int]:
        """Chunks whose file is in place."""
        matches = (_CHUNK.fullmatch(path.name) for path in self.folder.iterdir())
        return {int(match[1]) for match in matches if match}

    def write(self, chunk: int, table: polars.DataFrame, notes: Mapping[str, str]) -> None:
        """Puts a finished chunk in its place."""
        self._replace(f"points-{chunk:06}.parquet", lambda path: table.write_parquet(path, metadata=dict(notes)))

    def _replace(self, name: str, write: Any) -> None:
        part = self.folder / f"{name}.part"
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, self.folder / name)

    def files(self) -> list[Path]:
        """Files of the finished chunks, in order."""
        return sorted(path for path in self.folder.iterdir() if _CHUNK.fullmatch(path.name))

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """One column over all finished chunks."""
        pl = needs_polars()
        values: np.ndarray[Any, Any] = pl.read_parquet(self.files(), columns=[name])[name].to_numpy()
        return values
