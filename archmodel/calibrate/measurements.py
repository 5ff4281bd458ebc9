"""Tables of measured kernel times: one row per kernel, shape, element type and time."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from archmodel.errors import DesignError, Problem, QuantityError, shown, suggestion
from archmodel.quantities import DTYPES, parse

SHAPES: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k", "batch"),
    "copy": ("bytes",),
    "lookup": ("demanded_bytes", "unique_bytes", "streamed_bytes"),
    "update": ("indices", "gradient_bytes", "gradient_unique_bytes", "row_bytes", "streamed_bytes"),
    "launch": ("graph",),
}
"""Kernels that can be calibrated, and what makes up their shapes: the arguments of the device's method. `bytes` of a
copy: read plus written. `graph`: 1 for a kernel of a captured graph, 0 for one launched by the framework."""

OPTIONAL = {"batch": 1.0}
TIMES = {"time": None, "time_us": 1e-6, "time_ms": 1e-3, "time_s": 1.0}
"""Columns that hold the time: with its unit, or in the unit that the column names."""

LARGEST_FILE = 64 * 2**20
MOST_ROWS = 1_000_000
MOST_PROBLEMS = 100

_PAIR = re.compile(r"\s*([a-z_]+)\s*=\s*([^\s,;]+)\s*[,;]?")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured kernel: `shape` by name, in the order of `SHAPES`; `seconds` of one kernel."""

    kernel: str
    shape: tuple[float, ...]
    dtype: str
    seconds: float
    gpu: str
    line: int


def read(path: str | Path) -> list[Measurement]:
    """The rows of a csv file with a header. Columns, in any order:

        kernel   one of `SHAPES`; gemm if there is no such column
        shape    `m=4096 n=1024 k=512`; or a column for each name
        dtype    element type; bf16 if there is no such column
        time     `12.3 us`; or `time_us`, `time_ms`, `time_s` with plain numbers
        gpu      optional: what was measured

    Raises `DesignError` with every problem by line.
    """
    file = Path(path)
    text = _text(file)
    rows = csv.reader(text.splitlines())
    try:
        header = [name.strip() for name in next(rows)]
    except StopIteration:
        raise _refused(file, 1, "", "is empty; a header and rows are needed") from None
    _check_header(file, header)
    found: list[Measurement] = []
    problems: list[Problem] = []
    for line, cells in enumerate(rows, start=2):
        if line > MOST_ROWS + 1:
            raise _refused(file, line, "", f"is one row more than the {MOST_ROWS:,} that are read")
        if not any(cell.strip() for cell in cells):
            continue
        try:
            found.append(_row(header, cells, line))
        except _CellError as bad:
            problems.append(Problem(bad.field, bad.message, bad.value, str(file), line))
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise DesignError(problems)
    if not found:
        raise _refused(file, 2, "", "has no rows")
    return found


class _CellError(Exception):
    def __init__(self, field: str, message: str, value: str | None = None) -> None:
        self.field, self.message, self.value = field, message, value


def _refused(file: Path, line: int | None, field: str, message: str, value: str | None = None) -> DesignError:
    return DesignError(Problem(field, message, value, str(file), line))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _refused(file, None, "", f"cannot be read: {error.strerror or error}") from None
    if len(raw) > LARGEST_FILE:
        raise _refused(file, None, "", f"is larger than the {LARGEST_FILE >> 20} MiB that are read")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(file, None, "", "is no UTF-8 text") from None


def _check_header(file: Path, header: Sequence[str]) -> None:
    names = {name for shape in SHAPES.values() for name in shape}
    known = ["kernel", "shape", "dtype", "gpu", *TIMES, *sorted(names)]
    problems = [
        Problem(
            "header", f"is no column of a table of measurements; {suggestion(name, known)}", shown(name), str(file), 1
        )
        for name in header
        if name not in known
    ]
    problems += [
        Problem("header", "appears twice", shown(name), str(file), 1) for name in set(header) if header.count(name) > 1
    ]
    if len([name for name in header if name in TIMES]) != 1:
        problems.append(Problem("header", f"needs one column of {', '.join(TIMES)}", None, str(file), 1))
    if "shape" not in header and not names & set(header):
        problems.append(Problem("header", "needs the column shape, or one for each of m, n, k", None, str(file), 1))
    if problems:
        raise DesignError(problems)


def _row(header: Sequence[str], cells: Sequence[str], line: int) -> Measurement:
    if len(cells) != len(header):
        raise _CellError("", f"has {len(cells)} cells under a header of {len(header)}")
    row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    kernel = row.get("kernel", "gemm")
    if kernel not in SHAPES:
        raise _CellError("kernel", f"is no kernel that can be calibrated; {suggestion(kernel, SHAPES)}", shown(kernel))
    dtype = row.get("dtype") or "bf16"
    if dtype not in DTYPES:
        raise _CellError("dtype", f"is no element type; {suggestion(dtype, DTYPES)}", shown(dtype))
    return Measurement(kernel, _shape(kernel, row), dtype, _seconds(row), row.get("gpu", ""), line)


def _shape(kernel: str, row: Mapping[str, str]) -> tuple[float, ...]:
    given = {name: row[name] for name in SHAPES[kernel] if row.get(name)}
    text = row.get("shape", "")
    pairs = _PAIR.findall(text)
    if _PAIR.sub("", text).strip():
        raise _CellError("shape", "cannot be read; write it as m=4096 n=1024 k=512", shown(text))
    for name, value in pairs:
        if name not in SHAPES[kernel]:
            raise _CellError("shape", f"has no {name} in a {kernel}; {suggestion(name, SHAPES[kernel])}", shown(text))
        given[name] = value
    missing = [name for name in SHAPES[kernel] if name not in given and name not in OPTIONAL]
    if missing:
        raise _CellError("shape", f"of a {kernel} lacks {', '.join(missing)}", shown(text) if text else None)
    return tuple(_amount(name, given[name]) if name in given else OPTIONAL[name] for name in SHAPES[kernel])


def _amount(name: str, text: str) -> float:
    number = _number(name, text)
    if name in SHAPES["gemm"] and (number < 1 or number != int(number)):
        raise _CellError(name, "is no whole number of 1 or more", shown(text))
    if number < 0:
        raise _CellError(name, "is negative", shown(text))
    return number


def _seconds(row: Mapping[str, str]) -> float:
    (column,) = (name for name in TIMES if name in row)
    unit = TIMES[column]
    if unit is None:
        try:
            seconds = parse(row[column], "seconds")
        except QuantityError as error:
            raise _CellError(column, error.message, shown(row[column])) from None
    else:
        seconds = _number(column, row[column]) * unit
    if not seconds > 0:
        raise _CellError(column, "is no time above zero", shown(row[column]))
    return seconds


def _number(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise _CellError(field, "is not a number", shown(text)) from None
    if not math.isfinite(number):
        raise _CellError(field, "is not a finite number", shown(text))
    return number


def of_one_gpu(rows: Iterable[Measurement], gpu: str | None, file: str | Path) -> list[Measurement]:
    """The rows of `gpu`; of the only one there is, when none is asked for. Raises `DesignError`."""
    found = list(rows)
    names = sorted({row.gpu for row in found})
    if gpu is None:
        if len(names) > 1:
            raise _refused(Path(file), None, "gpu", f"holds several GPUs, choose one: {', '.join(names)}")
        return found
    chosen = [row for row in found if row.gpu == gpu]
    if not chosen:
        raise _refused(Path(file), None, "gpu", f"is not in the table; {suggestion(gpu, names)}", shown(gpu))
    return chosen
