"""Reads what the programs of nccl-tests print, with whatever else a run leaves in the same file.

A row of results looks like

       1048576        262144     float     sum      -1    66.20   15.84   27.72      0    65.80   15.94   27.89      0

(bytes, elements, type, reduction, root; microseconds, GB/s, GB/s of bus bandwidth and wrong values, out of place and in
place). Older versions leave out the root, or reduction and root. The text in front of a row (`[1,0]<stdout>:` and the
like) and all lines that hold no row are passed over, but read for the collective, the ranks and the hosts.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from archmodel.calibrate.network import CalibrationError, Measurements
from archmodel.errors import escape

PROGRAMS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
"""Collectives by the programs' names."""

BYTES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "f8e4m3": 1,
    "f8e5m2": 1,
}
"""Element types, and their bytes."""

_PREFIX = re.compile(r"^\s*(?:\[\d+,\s*\d+\]<std\w+>:|\d+:(?=\s)|[\w.-]+:(?=\s))*")
_ROW = re.compile(rf"^\s*(\d+)\s+(\d+)\s+({'|'.join(BYTES)})(\s.*|)$")
_PROGRAM = re.compile(r"(all_reduce|all_gather|reduce_scatter|alltoall)(?:_perf)?(?![a-z])")
_OTHER_PROGRAM = re.compile(r"\b(broadcast|reduce|gather|scatter|sendrecv|hypercube)_perf\b")
_RANK = re.compile(r"#\s*Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device\s+\d+\s*(?:\[[^\]]*\])?\s*(.*)$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MOST_BYTES = 64 * 2**20
"""Largest log that is read."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of results: bytes of the full buffer, seconds out of place and in place (NaN: not measured), and bus
    bandwidth over bandwidth."""

    line: int
    size: float
    dtype: str
    time: tuple[float, ...]
    ratio: float


@dataclass(slots=True)
class Log:
    """What one file says. `ranks` by rank number: (host, device name)."""

    path: str
    program: str | None = None
    ranks: dict[int, tuple[str, str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The collective that ran."""
        assert self.program is not None
        return PROGRAMS[self.program]

    @property
    def nodes(self) -> int:
        """Hosts that ranks ran on; 1 when the log does not list them."""
        return max(len({host for host, _ in self.ranks.values()}), 1)

    @property
    def device(self) -> str:
        """Name of the first rank's device; empty when the log does not list them."""
        return self.ranks[min(self.ranks)][1] if self.ranks else ""

    def size(self) -> int:
        """Ranks: those listed, or those that the ratio of the two bandwidths gives."""
        if self.ranks:
            return self._listed()
        ratio = max((row.ratio for row in self.rows[-3:]), default=math.nan)
        share = ratio / 2 if self.program == "all_reduce" else ratio
        if not 0.4 < share < 0.999:
            raise CalibrationError(
                f"{self.path}  lists no ranks (# Rank 0 ... on host device ...), and they cannot be told"
            )
        return round(1.0 / (1.0 - share))

    def _listed(self) -> int:
        """Ranks of the list, which must be whole and spread evenly."""
        n = max(self.ranks) + 1
        missing = sorted(set(range(n)) - set(self.ranks))
        if missing:
            raise CalibrationError(f"{self.path}  lists ranks 0 to {n - 1}, but not rank {missing[0]}")
        if n == 1:
            raise CalibrationError(f"{self.path}  is a run of one rank, which sends nothing to anybody")
        if n % self.nodes:
            raise CalibrationError(f"{self.path}  has {n} ranks on {self.nodes} hosts, unevenly; that cannot be fitted")
        return n


def read_logs(paths: Iterable[str | Path], *, in_place: bool = False) -> tuple[Measurements, list[Log]]:
    """All rows of several logs; sizes of 0 are left out. Raises `CalibrationError` naming file, line and reason."""
    logs = [read_log(path) for path in paths]
    first: dict[str, str] = {}
    for log in logs:
        for _, device in log.ranks.values():
            first.setdefault(device, log.path)
    if len(first) > 1:
        (a, where), (b, other) = list(first.items())[:2]
        raise CalibrationError(f"{other}  ran on {escape(b)}, {where} on {escape(a)}; fit each device by itself")
    kinds: list[str] = []
    ranks: list[int] = []
    sizes: list[float] = []
    times: list[float] = []
    for log in logs:
        n = log.size()
        for row in log.rows:
            column = 1 if in_place else 0
            if column >= len(row.time) or math.isnan(row.time[column]):
                name, other = ("in-place", "without") if in_place else ("out-of-place", "with")
                raise CalibrationError(f"{log.path}:{row.line}  has no {name} time; try {other} --in-place")
            if row.size > 0:
                kinds.append(log.kind)
                ranks.append(n)
                sizes.append(row.size)
                times.append(row.time[column])
    if not kinds:
        raise CalibrationError("there are no measurements in these logs")
    return Measurements(tuple(kinds), np.array(ranks), np.array(sizes), np.array(times)), logs


def read_log(path: str | Path) -> Log:
    """One file. Raises `CalibrationError`."""
    file = Path(path)
    log = Log(escape(str(path)))
    try:
        if file.stat().st_size > MOST_BYTES:
            raise CalibrationError(f"{log.path}  is larger than {MOST_BYTES // 2**20} MiB")
        data = file.read_bytes()
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell redirects
        text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    except OSError as error:
        raise CalibrationError(f"{log.path}  cannot be read: {error.strerror or error}") from None
    for number, raw in enumerate(text.splitlines(), start=1):
        _read_line(log, number, raw)
    named = _PROGRAM.search(file.name)
    if log.program is None and named:
        log.program = named.group(1)
    if not log.rows:
        raise CalibrationError(_no_rows(log, text))
    if log.program is None:
        raise CalibrationError(
            f"{log.path}:{log.rows[0].line}  does not say which collective it measured; keep the line with the "
            f"command, or put its name into that of the file ({', '.join(f'{name}_perf.log' for name in PROGRAMS)})"
        )
    return log


def _read_line(log: Log, number: int, raw: str) -> None:
    line = _PREFIX.sub("", _COLOUR.sub("", raw))
    found = _ROW.match(line)
    if found:
        log.rows.append(_row(log, number, found))
        return
    rank = _RANK.search(line)
    if rank:
        which = int(rank.group(1))
        if which in log.ranks:
            raise CalibrationError(
                f"{log.path}:{number}  lists rank {which} again: a second run, or processes that did not find each "
                "other (a program built without MPI); give each run a file of its own"
            )
        log.ranks[which] = (rank.group(2), rank.group(3).strip())
        return
    named = _PROGRAM.search(line)
    if named and not log.rows and (line.lstrip().startswith("#") or "_perf" in line):
        if log.program not in (None, named.group(1)):
            raise CalibrationError(
                f"{log.path}:{number}  speaks of {named.group(1)} after {log.program}; give each run a file of its own"
            )
        log.program = named.group(1)
    elif log.rows and named and "_perf" in line and named.group(1) != log.program:
        raise CalibrationError(f"{log.path}:{number}  begins a second run; give each run a file of its own")
    other = _OTHER_PROGRAM.search(line)
    if other and not named:
        raise CalibrationError(f"{log.path}:{number}  measures {other.group(1)}; {', '.join(PROGRAMS)} can be fitted")


def _row(log: Log, number: int, found: re.Match[str]) -> Row:
    size, _, dtype, rest = found.groups()
    words = rest.split()
    if words and not _is_number(words[0]) and words[0] != "N/A":
        words = words[1:]  # the reduction
    if words and (words[0].startswith("-") or len(words) % 2):
        words = words[1:]  # the root
    width = len(words) // 2 if len(words) in (6, 8) else len(words)
    if width not in (3, 4):
        raise CalibrationError(
            f"{log.path}:{number}  {escape(found.group(0).strip())!r} has {len(words)} numbers after type, reduction "
            "and root; 8 are due (time, two bandwidths and wrong values, out of place and in place), or 6 "
            "without the check"
        )
    times, ratio = [], math.nan
    for start in range(0, len(words), width):
        group = words[start : start + width]
        if group[0] == "N/A":
            times.append(math.nan)
            continue
        values = [_number(log, number, word) for word in group[:3]]
        wrong = group[3] if width == 4 else "0"
        if wrong not in ("N/A", "0") and _number(log, number, wrong) > 0:
            raise CalibrationError(f"{log.path}:{number}  found {wrong} wrong values: this run did not work")
        if values[0] <= 0 and float(size) > 0:
            raise CalibrationError(f"{log.path}:{number}  takes {group[0]} us; a time is above 0")
        times.append(values[0] * 1e-6)
        if values[1] > 0:
            ratio = values[2] / values[1]
    if all(map(math.isnan, times)):
        raise CalibrationError(f"{log.path}:{number}  has no time")
    return Row(number, float(size), dtype, tuple(times), ratio)


def _number(log: Log, number: int, word: str) -> float:
    if not _is_number(word):
        raise CalibrationError(f"{log.path}:{number}  {escape(repr(word))} is no number where one is due")
    return float(word)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _no_rows(log: Log, text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return f"{log.path}  is empty"
    telling = next(
        (line for line in reversed(lines) if re.search(r"error|fail|abort|warn", line, re.IGNORECASE)), lines[-1]
    )
    number = text.splitlines().index(telling) + 1
    return f"{log.path}:{number}  the log holds no results; this line may say why: {escape(telling.strip()[:200])!r}"
