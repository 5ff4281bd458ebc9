"""What a trace of row ids says about caches: hit rate against size, reuse distance, hot rows; as text, JSON, a page."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.text import Text

from archmodel.memory.access import Zipf
from archmodel.memory.access_base import AccessError
from archmodel.memory.access_trace import Profile, profile
from archmodel.memory.cache_exact import CacheSimulator
from archmodel.memory.cache_policy import Policy
from archmodel.memory.trace import TraceFile
from archmodel.report.terminal import console, emit, table
from archmodel.report.words import one_line, percent, plural, whole

HOT = (0.0001, 0.001, 0.01, 0.1)
"""Shares of the rows whose accesses are reported."""

WAYS = 32
"""Rows of a set in set-associative caches: what embedding caches on GPUs use."""

_SIZES = 7
_MEMORY, _PER_ROW = 1 << 30, 24
_BAR = 30


@dataclass(frozen=True)
class Locality:
    """Exact figures of one trace, caches empty at first. `curves`: hit rates by policy at `sizes` rows."""

    path: str
    accesses: int
    unique: int
    highest: int
    sizes: tuple[int, ...]
    curves: dict[str, list[float]]
    reuse: list[tuple[int, int, float]]
    """(from, to, share of the accesses): distinct rows since the last access to the same row, by powers of two."""
    hot: list[tuple[float, int, float]]
    """(share of the rows, rows, share of the accesses that go to them)."""
    footprint: list[tuple[int, float]]
    """(accesses, mean distinct rows among them)."""
    alpha: float | None
    """Exponent of the Zipf distribution nearest to it; None when no row is used often enough to tell."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "trace": self.path,
            "accesses": self.accesses,
            "unique_rows": self.unique,
            "highest_row": self.highest,
            "first_accesses": self.unique / self.accesses,
            "zipf_alpha": self.alpha,
            "cache_rows": list(self.sizes),
            "hit_rate": self.curves,
            "reuse_distance": [{"from": a, "to": b, "share": share} for a, b, share in self.reuse],
            "hot_rows": [{"share_of_rows": s, "rows": n, "share_of_accesses": a} for s, n, a in self.hot],
            "unique_in_window": [{"accesses": n, "unique_rows": u} for n, u in self.footprint],
        }


def locality(path: Path, column: str | None = None) -> Locality:
    """Reads a trace a few times, a piece at a time, and runs caches of a ladder of sizes over it."""
    found = profile(TraceFile(path, column))
    sizes = _ladder(found.unique)
    histogram = found.distances.histogram
    top = max(int(np.max(np.flatnonzero(histogram), initial=1)), 1)
    edges = [0, 1]
    while edges[-1] < top:
        edges.append(2 * edges[-1])
    reuse = [
        (low + 1, high, float(histogram[low + 1 : high + 1].sum()) / found.length)
        for low, high in itertools.pairwise(edges)
    ]
    hot_rows = [(share, max(1, round(share * found.unique))) for share in HOT]
    hot = [(share, rows, float(found.top_counts[rows]) / found.length) for share, rows in hot_rows]
    windows = [n for n in (10**k for k in range(1, 13)) if n < found.length] + [found.length]
    return Locality(
        path=str(path),
        accesses=found.length,
        unique=found.unique,
        highest=found.accesses.highest,
        sizes=tuple(sizes),
        curves=_curves(found, sizes),
        reuse=reuse,
        hot=hot,
        footprint=[(n, float(found.footprint(float(n)))) for n in windows],
        alpha=_alpha(found),
    )


def _ladder(unique: int) -> list[int]:
    """Cache sizes from a thousandth of the rows to all of them."""
    rungs = np.geomspace(max(unique / 1000, 1.0), unique, _SIZES)
    return [int(size) for size in np.unique(np.rint(rungs))]


def _curves(found: Profile, sizes: list[int]) -> dict[str, list[float]]:
    rows = found.accesses.rows
    exact = {"ideal": [float(found.top_counts[size]) / found.length for size in sizes]}
    exact["lru"] = [float(rate) for rate in found.distances.hit_rate(sizes)]
    wanted: list[tuple[str, Policy, int | None]] = [("lfu", "lfu", None), ("fifo", "fifo", None)]
    wanted.append((f"lru_{WAYS}_way", "lru", WAYS))
    at_once = max(1, _MEMORY // (_PER_ROW * max(rows, 1)))
    for name, policy, ways in wanted:
        exact[name] = [0.0] * len(sizes)
        for start in range(0, len(sizes), at_once):
            caches = {
                i: CacheSimulator(rows, sizes[i], policy, ways and min(ways, sizes[i]))
                for i in range(start, min(start + at_once, len(sizes)))
            }
            for piece in found.accesses.pieces():
                for cache in caches.values():
                    cache.feed(piece)
            for i, cache in caches.items():
                exact[name][i] = cache.hit_rate
    return exact


def _alpha(found: Profile) -> float | None:
    try:
        return float(Zipf.fit(found.counts, found.accesses.rows).alpha)
    except AccessError:
        return None


def show_locality(found: Locality, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints the figures of a trace."""
    out = file or sys.stdout
    first = found.unique / found.accesses
    law = f" · nearest Zipf exponent {found.alpha:.2f}" if found.alpha is not None else ""
    title = Text(
        f"{one_line(found.path)}  {plural(found.accesses, 'access')} to {plural(found.unique, 'row')} · "
        f"first accesses {percent(first, 1)}{law}\n"
    )
    names = [name.replace("_", " ") for name in found.curves]
    rates = table("cache rows", "of the rows", *names, right=("cache rows", "of the rows", *names))
    for index, size in enumerate(found.sizes):
        cells = [whole(percent(curve[index], 1)) for curve in found.curves.values()]
        rates.add_row(f"{size:,}", whole(percent(size / found.unique, 1)), *cells)
    hot = table("hot rows", "of the rows", "of the accesses", right=("hot rows", "of the rows", "of the accesses"))
    for share, rows, accesses in found.hot:
        hot.add_row(f"{rows:,}", whole(percent(share, 2)), whole(percent(accesses, 1)))
    reuse = table("reuse distance", "of the accesses", "", right=("reuse distance", "of the accesses"))
    most = max((share for *_, share in found.reuse), default=0.0)
    for low, high, share in found.reuse:
        reach = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        reuse.add_row(reach, whole(percent(share, 1)), "#" * (round(_BAR * share / most) if most else 0))
    note = "\nhit rates are exact, from an empty cache; reuse distance: distinct rows since a row's last access"
    emit(console(out, width), [title, rates, Text(), hot, Text(), reuse, Text(note, "dim")], out)
