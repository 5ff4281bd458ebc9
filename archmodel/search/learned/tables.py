"""Tables as a cost model sees them: AutoShard's features, from a CSV file or from an access distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from archmodel.errors import ArchmodelError, suggestion
from archmodel.memory.access_base import AccessDistribution
from archmodel.quantities import Array, Num
from archmodel.search.learned.csv_file import CsvFile, unknown
from archmodel.search.options import IntArray

BINS = 17
BIN_COLUMNS = tuple(f"bin_{b}" for b in range(BINS))
EDGES = tuple(float(2**k) for k in range(BINS - 1))
PLAIN = ("log_rows", "log_dim", "log_pooling", "log_size", "gathered")
_SLACK = 0.02
"""Shares may be rounded to three digits in each of 17 bins."""


@dataclass(frozen=True)
class TableFeatures:
    """Tables (T,): rows (hash size), columns, mean lookups of a bag, and with `bins` (T, 17) the share of the distinct
    rows of a batch that are looked up in (0, 1], (1, 2], (2, 4], ..., above 32768 times."""

    names: tuple[str, ...]
    rows: IntArray
    dim: IntArray
    pooling: Array
    bins: Array | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        return PLAIN if self.bins is None else (*PLAIN, *BIN_COLUMNS)

    @cached_property
    def matrix(self) -> Array:
        """Features (T, F): logarithms of rows, dim, pooling and size (rows x dim), elements gathered per sample
        (dim x pooling), and the bins. AutoShard has the first four and the bins, all unlogged."""
        rows, dim = self.rows.astype(np.float64), self.dim.astype(np.float64)
        plain = [np.log(rows), np.log(dim), np.log(self.pooling), np.log(rows * dim), dim * self.pooling]
        shares = [] if self.bins is None else [self.bins]
        return np.concatenate([np.stack(plain, axis=1), *shares], axis=1)

    def of(self, which: IntArray) -> TableFeatures:
        """Some of them."""
        return TableFeatures(
            tuple(self.names[t] for t in which.tolist()),
            self.rows[which],
            self.dim[which],
            self.pooling[which],
            None if self.bins is None else self.bins[which],
        )

    def index(self, names: Sequence[str]) -> list[int]:
        """Where the names stand; ArchmodelError for one that is not there."""
        missing = [n for n in names if n not in self._at]
        if missing:
            raise ArchmodelError(f"no table {missing[0]}; {suggestion(missing[0], self.names)}")
        return [self._at[n] for n in names]

    @cached_property
    def _at(self) -> dict[str, int]:
        return {name: t for t, name in enumerate(self.names)}


def read_tables(path: str | Path) -> TableFeatures:
    """A CSV file with a header: `name`, `rows`, `dim`, `pooling`, and either all of `bin_0` to `bin_16` or none.

    Raises DesignError with every problem by line and column.
    """
    file = CsvFile(Path(path))
    known = ("name", "rows", "dim", "pooling", *BIN_COLUMNS)

    def check(header: Sequence[str]) -> Iterator[tuple[str, str]]:
        yield from unknown(header, known, "a list of tables")
        for name in known[:4]:
            if name not in header:
                yield "", f"needs the column {name}"
        have = [b for b in BIN_COLUMNS if b in header]
        if have and len(have) < BINS:
            yield "", f"needs all of bin_0 to bin_{BINS - 1}, or none; it has {len(have)}"

    names: list[str] = []
    numbers: list[list[float]] = []
    bins: list[list[float]] = []
    seen: dict[str, int] = {}
    for row in file.rows(check):
        name = row["name"]
        if not name.text or ";" in name.text:
            file.refuse(name, "must be a name without ';'")
        elif name.text in seen:
            file.refuse(name, f"stands in line {seen[name.text]} too")
        seen.setdefault(name.text, name.line)
        names.append(name.text)
        numbers.append(
            [
                file.number(row["rows"], least=1, whole=True),
                file.number(row["dim"], least=1, whole=True),
                file.number(row["pooling"], above=True),
            ]
        )
        if BIN_COLUMNS[0] in row:
            shares = [file.number(row[b]) for b in BIN_COLUMNS]
            if abs(sum(shares) - 1.0) > _SLACK:
                file.refuse(row[BIN_COLUMNS[0]], f"and the other bins add up to {sum(shares):.3f}, not to 1")
            bins.append(shares)
    file.done()
    if not names:
        raise ArchmodelError(f"{path}:2: has no tables")
    table = np.array(numbers, dtype=np.float64)
    return TableFeatures(
        tuple(names),
        table[:, 0].astype(np.int64),
        table[:, 1].astype(np.int64),
        table[:, 2],
        np.array(bins) if bins else None,
    )


def expected_bins(access: AccessDistribution, rows: Num, draws: Num) -> Array:
    """Expected share of the distinct rows of `draws` draws in each bin of reuse, (..., 17).

    A row of probability p is looked up Poisson(p n) times. Rows that are not looked up are in no bin.
    """
    from scipy.special import gammaincc

    spread = access.popularity(np.asarray(rows, dtype=np.float64))
    mean = spread.probability * np.asarray(draws, dtype=np.float64)[..., None]
    zero = np.exp(-mean)
    upto = [zero, *(gammaincc(edge + 1.0, mean) for edge in EDGES), np.ones_like(mean)]
    share = np.diff(np.stack(upto, axis=-2), axis=-2)
    counted = share * np.where(mean > 0, spread.rows, 0.0)[..., None, :]
    found = counted.sum(-1)
    return np.asarray(found / np.maximum(found.sum(-1, keepdims=True), 1e-300))
