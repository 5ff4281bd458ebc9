"""The page of a trace of row ids: what caches of any size hit, how far apart uses of a row are, and the hot rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archmodel.report.html.charts import curves
from archmodel.report.html.figure import Figure
from archmodel.report.html.page import Page, Section
from archmodel.report.html.table import Cell, Table, count, share
from archmodel.report.words import one_line, percent

if TYPE_CHECKING:
    from archmodel.report.locality import Locality

SHARES = {"tickformat": ".0%", "range": [0, 1.02]}


def locality_page(found: Locality) -> Page:
    """Everything that `archmodel locality` prints, drawn."""
    law = f", nearest Zipf exponent {found.alpha:.2f}" if found.alpha is not None else ""
    subtitle = f"{found.accesses:,} accesses to {found.unique:,} rows{law}"
    sections = [
        Section("hits", "Hit rates of caches", [_hits(found), _hit_table(found)]),
        Section("reuse", "Reuse", [_reuse(found), _hot(found)], beside=True),
        Section("numbers", "In numbers", [_reuse_table(found), _hot_table(found), _window_table(found)]),
    ]
    return Page(one_line(found.path), subtitle, "", sections)


def _name(policy: str) -> str:
    return policy.replace("_", " ")


def _hits(found: Locality) -> Figure:
    half = min(range(len(found.sizes)), key=lambda i: abs(found.curves["lru"][i] - 0.5))
    said = (
        f"A cache of {found.sizes[half]:,} rows, {percent(found.sizes[half] / found.unique, 1)} of all, hits "
        f"{percent(found.curves['lru'][half])} as LRU and {percent(found.curves['ideal'][half])} at best."
    )
    series = {_name(policy): (list(found.sizes), curve) for policy, curve in found.curves.items()}
    x = {"type": "log", "title": {"text": "rows of the cache"}}
    return curves("hit-rates", "Hit rate by size", said, series, x, {**SHARES, "title": {"text": "hit rate"}})


def _hit_table(found: Locality) -> Table:
    rows: list[list[Cell]] = [
        [count(size), share(size / found.unique, 1), *(share(curve[i], 1) for curve in found.curves.values())]
        for i, size in enumerate(found.sizes)
    ]
    columns = [("cache rows", "number"), ("of the rows", "fraction"), *((_name(p), "fraction") for p in found.curves)]
    return Table("hit-table", columns, rows)


def _reuse(found: Locality) -> Figure:
    upto = np.cumsum([part for *_, part in found.reuse]).tolist()
    reach = [high for _, high, _ in found.reuse]
    first = found.unique / found.accesses
    said = (
        f"{percent(first, 1)} of the accesses are the first to their row; the others come back within "
        f"{reach[-1]:,} distinct rows."
    )
    x = {"type": "log", "title": {"text": "distinct rows since the last access"}}
    return curves("reuse-distance", "Reuse distance", said, {"within the distance": (reach, upto)}, x, SHARES)


def _hot(found: Locality) -> Figure:
    part, rows, accesses = found.hot[len(found.hot) // 2]
    said = f"The hottest {rows:,} rows, {percent(part, 2)} of all, get {percent(accesses, 1)} of the accesses."
    series = {"hottest rows": ([n for _, n, _ in found.hot], [a for *_, a in found.hot])}
    x = {"type": "log", "title": {"text": "rows"}}
    return curves("hot-rows", "Share of the accesses", said, series, x, SHARES)


def _reuse_table(found: Locality) -> Table:
    rows: list[list[Cell]] = [[count(low), count(high), share(part, 2)] for low, high, part in found.reuse]
    columns = [("reuse distance from", "number"), ("to", "number"), ("of the accesses", "fraction")]
    return Table("reuse-table", columns, rows, page=8)


def _hot_table(found: Locality) -> Table:
    rows: list[list[Cell]] = [[count(n), share(part, 2), share(accesses, 1)] for part, n, accesses in found.hot]
    columns = [("hot rows", "number"), ("of the rows", "fraction"), ("of the accesses", "fraction")]
    return Table("hot-table", columns, rows)


def _window_table(found: Locality) -> Table:
    rows: list[list[Cell]] = [[count(n), count(unique)] for n, unique in found.footprint]
    return Table("window-table", [("accesses in a row", "number"), ("distinct rows", "number")], rows)
