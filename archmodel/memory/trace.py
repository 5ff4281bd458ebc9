"""Files of row ids, read piece by piece: .npy, .parquet, or text. What is wrong with one is a TraceError."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from archmodel.errors import ArchmodelError, escape, listed

PIECE: Final = 1 << 22
"""Accesses that are in memory at a time."""

TEXT: Final = (".txt", ".csv", ".tsv", ".trace", ".ids")
MOST: Final = 2**63 - 1

Ids = npt.NDArray[np.int64]
_COMMENT = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_GAP = re.compile(rb"(^|,)[ \t]*,", re.MULTILINE)
_END = b"\n"
_PLAIN = b"0123456789, \t\r\n\v\f"
_LOWEST, _HIGHEST = "row ids are 0 or more", "the highest row id is 2^63 - 1"
_MARK = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""
_DIGITS = 18
"""Of numbers that are below 2^63 whatever they are."""
_SPARSE = 4
"""Ids this many times above the number of accesses are numbered anew."""


class TraceError(ArchmodelError, ValueError):
    """A trace that cannot be used; says which file and where in it."""

    def __init__(self, path: str | os.PathLike[str], message: str) -> None:
        super().__init__(path, message)
        self.path, self.message = str(path), message

    def __str__(self) -> str:
        return f"{escape(self.path)}: {self.message}"


@dataclass(frozen=True)
class TraceFile:
    """A file of row ids in the order of access.

    .npy: one row of integers. .parquet: a column of integers (`column` when there are several). Text (UTF-8): integers
    apart by white space or commas; a line that starts with # is a comment.
    """

    path: Path
    column: str | None = None

    def pieces(self, size: int = PIECE) -> Iterator[Ids]:
        """The ids, `size` at most at a time; never an empty piece. Raises TraceError; also for an empty file."""
        suffix = self.path.suffix.lower()
        reader = {".npy": _npy, ".parquet": _parquet, ".pq": _parquet}.get(suffix, _text if suffix in TEXT else None)
        if reader is None:
            known = listed((".npy", ".parquet", *TEXT))
            raise TraceError(self.path, f"a trace is one of {known}, not {escape(suffix) or 'a file without suffix'}")
        if self.path.is_dir():
            raise TraceError(self.path, "is a folder; a file of row ids is needed")
        if self.path.exists() and not self.path.is_file():
            raise TraceError(self.path, "is no regular file; a trace is read more than once")
        seen = 0
        try:
            for piece in reader(self, size):
                yield self._checked(piece, seen)
                seen += len(piece)
        except FileNotFoundError:
            raise TraceError(self.path, "there is no such file") from None
        except PermissionError:
            raise TraceError(self.path, "may not be read") from None
        if not seen:
            raise TraceError(self.path, "is empty; a trace has at least one access")

    def _checked(self, piece: npt.NDArray[Any], seen: int) -> Ids:
        if piece.dtype.kind == "f":
            if np.isnan(piece).any():
                raise TraceError(self.path, f"access {seen + int(np.argmax(np.isnan(piece)))} is NaN")
            raise TraceError(self.path, f"holds {piece.dtype}; row ids are integers")
        if piece.dtype.kind not in "iu":
            raise TraceError(self.path, f"holds {piece.dtype}; row ids are integers")
        bad = piece < 0 if piece.dtype.kind == "i" else piece > MOST
        if bad.any():
            first = int(np.argmax(bad))
            why = _LOWEST if piece.dtype.kind == "i" else _HIGHEST
            raise TraceError(self.path, f"access {seen + first} is to row {piece[first]}; {why}")
        return piece.astype(np.int64, copy=False)


def _npy(trace: TraceFile, size: int) -> Iterator[npt.NDArray[Any]]:
    try:
        array = np.load(trace.path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise TraceError(trace.path, f"is no whole .npy file ({_short(error)})") from None
    if not isinstance(array, np.ndarray) or array.ndim != 1:
        shape = getattr(array, "shape", None)
        raise TraceError(trace.path, f"holds an array of shape {shape}; one row of ids is needed")
    for start in range(0, len(array), size):
        yield np.asarray(array[start : start + size])


def _parquet(trace: TraceFile, size: int) -> Iterator[npt.NDArray[Any]]:
    try:
        import polars
    except ImportError:
        raise TraceError(trace.path, "parquet needs polars: pip install 'archmodel[table]'") from None
    if not trace.path.exists():
        raise FileNotFoundError
    try:
        frame = polars.scan_parquet(trace.path)
        names = frame.collect_schema().names()
        column = trace.column or (names[0] if len(names) == 1 else None)
        if column is None or column not in names:
            asked = f"has no column {escape(repr(column))}" if column else "has several columns; one must be named"
            raise TraceError(trace.path, f"{asked}: {escape(listed(names))}")
        total = frame.select(polars.len()).collect().item()
        for start in range(0, total, size):
            series = frame.select(column).slice(start, size).collect().to_series()
            if series.null_count():
                gap = start + int(np.argmax(series.is_null().to_numpy()))
                raise TraceError(trace.path, f"access {gap} has no row id")
            yield series.to_numpy()
    except polars.exceptions.PolarsError as error:
        raise TraceError(trace.path, f"is no whole parquet file ({_short(error)})") from None


def _text(trace: TraceFile, size: int) -> Iterator[npt.NDArray[Any]]:
    line, rest = 1, b""
    with trace.path.open("rb") as file:
        start = file.read(len(_MARK))
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise TraceError(trace.path, "is text in UTF-16; UTF-8 is needed")
        rest = b"" if start == _MARK else start
        while True:
            read = file.read(8 * size)
            block = rest + read
            apart = b"\n" if b"#" in block else b"\n," if b"," in block else b"\n "  # no comment nor gap in two pieces
            cut = max(block.rfind(mark) for mark in (apart[:1], apart[-1:])) + 1 if read else len(block)
            block, rest = block[:cut], block[cut:]
            if len(rest) > size * 64:
                raise TraceError(trace.path, f"line {line}: no end of a row id or comment in {len(rest):,} bytes")
            ids = _words(trace, block, line)
            line += block.count(b"\n")
            if len(ids):
                yield ids
            if not read:
                return


def _words(trace: TraceFile, block: bytes, line: int) -> Ids:
    """The numbers of a piece of text that starts on line `line`."""
    plain = _COMMENT.sub(b"", block) if b"#" in block else block
    gap = _GAP.search(plain) if b"," in plain else None
    if gap is not None:
        raise TraceError(trace.path, f"line {line + plain.count(_END, 0, gap.start())}: no row id before a comma")
    words = plain.replace(b",", b" ").split()
    if not words:
        return np.zeros(0, dtype=np.int64)
    if max(map(len, words)) <= _DIGITS and not plain.translate(None, _PLAIN):
        return np.array(words, dtype="S").astype(np.int64)
    for number, text in enumerate(plain.split(_END), line):
        _blame(trace, text.replace(b",", b" ").split(), number)
    return np.array([int(word) for word in words], dtype=np.int64)


def _blame(trace: TraceFile, fields: list[bytes], line: int) -> None:
    """Raises TraceError for the first field that is no row id."""
    for field in fields:
        word = escape(field[:40].decode("ascii", "backslashreplace"))
        digits = field[1:] if field[:1] in (b"-", b"+") else field
        if not digits.isdigit():
            what = "is NaN" if digits.lower() == b"nan" else "is no row id"
            raise TraceError(trace.path, f"line {line}: {word} {what}")
        if field[:1] == b"-" and digits.strip(b"0"):
            raise TraceError(trace.path, f"line {line}: row {word}; {_LOWEST}")
        if len(digits.lstrip(b"0")) > _DIGITS + 1 or int(digits) > MOST:
            raise TraceError(trace.path, f"line {line}: row {word}; {_HIGHEST}")


class Accesses:
    """The accesses of a trace as the simulators take them: int32 ids in [0, rows), in pieces, read as often as needed.

    Ids are taken as they are when they are dense; else (hashed ids) they are numbered in rising order of `ids`.
    `length`: accesses; `highest`: highest id of the file.
    """

    def __init__(self, file: TraceFile) -> None:
        self.file = file
        self.length, self.highest = 0, -1
        for piece in file.pieces():
            self.length += len(piece)
            self.highest = max(self.highest, int(piece.max()))
        self.ids: Ids | None = None
        if self.highest + 1 > min(max(_SPARSE * self.length, 1 << 20), 2**31 - 1):
            self.ids = np.zeros(0, dtype=np.int64)
            for piece in file.pieces():
                self.ids = np.union1d(self.ids, piece)
        self.rows = self.highest + 1 if self.ids is None else len(self.ids)

    def pieces(self, first: int | None = None) -> Iterator[npt.NDArray[np.int32]]:
        """The accesses, or the `first` of them."""
        left = self.length if first is None else first
        for piece in self.file.pieces():
            some = piece[:left]
            left -= len(some)
            yield (some if self.ids is None else np.searchsorted(self.ids, some)).astype(np.int32)
            if left <= 0:
                return


def _short(error: BaseException) -> str:
    return escape(str(error).strip().split("\n", 1)[0][:120])
