"""Tables of a design's page: phases, ops, embedding tables, published figures, and every value with its source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archmodel.parallel.placement import SCOPES
from archmodel.quantities import itemsize
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.report.ranks import on_rank, parts_of, parts_on, slowest_rank
from archmodel.report.sources import FACTS, place, written
from archmodel.report.words import DIMENSION, NO_BREAK, on, shares

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.estimate.result import Estimate

_ITEM = re.compile(r"\[\d+\]$")
_SHOWN_RANKS = 8


def _shares(parts: dict[str, float], most: int = 3) -> str:
    return shares(parts, most=most).replace(NO_BREAK, " ")


def _some(value: float, kind: str) -> Cell:
    """A number with its unit; zero is left blank."""
    return quantity(value, kind) if value else ("", 0.0)


def phases(estimate: Estimate) -> Table:
    """A row per group of ops."""
    rows: list[list[Cell]] = []
    for phase in estimate.phases:
        parts = parts_of(estimate.op(name) for name in phase.ops)
        exposed: Cell = quantity(phase.exposed, "seconds") if phase.exposed else ("", 0.0)
        times = [quantity(phase.slowest, "seconds"), quantity(phase.median, "seconds")]
        rows.append([phase.phase, phase.name, *times, exposed, on(phase.stream), _shares(parts)])
    columns = [
        ("phase", ""), ("ops", ""), ("slowest", "s"), ("median", "s"), ("exposed", "s"), ("on", ""),
        ("time goes to", ""),
    ]  # fmt: skip
    return Table("phases", columns, rows, page=40)


def ops(estimate: Estimate) -> Table:
    """A row per op, on the rank where it takes longest."""
    rows: list[list[Cell]] = []
    for op in estimate.ops:
        rank, work = slowest_rank(op), op.op.work
        memory = sum(on_rank(amount, rank) for amount in work.memory_bytes().values())
        wire = sum(on_rank(amount, rank) for amount in work.wire_bytes().values())
        rows.append(
            [
                op.name, op.op.phase, type(work).__name__, quantity(op.slowest, "seconds"),
                quantity(op.median, "seconds"), on("+".join(op.op.streams)), _shares(parts_on(op, rank), 2),
                _some(on_rank(work.flops(), rank), "flops"), _some(memory, "bytes"), _some(wire, "bytes"),
            ]
        )  # fmt: skip
    columns = [
        ("op", ""), ("phase", ""), ("kind", ""), ("slowest", "s"), ("median", "s"), ("on", ""), ("time goes to", ""),
        ("operations", "FLOP"), ("memory", "B"), ("wire", "B"),
    ]  # fmt: skip
    return Table("ops", columns, rows)


def plan(design: Design) -> Table:
    """A row per embedding table: its sizes, and where the plan puts it."""
    p, tables = design.placement, design.placement.tables
    order = np.argsort(p.table, kind="stable")
    ends = np.searchsorted(p.table[order], np.arange(len(tables) + 1))
    rows: list[list[Cell]] = []
    for t in range(len(tables)):
        shards = order[ends[t] : ends[t + 1]]
        n, dim = float(tables.num_embeddings[t]), float(tables.embedding_dim[t])
        rows.append(
            [
                tables.names[t],
                count(n),
                count(dim),
                count(float(tables.pooling_factor[t])),
                quantity(n * dim * itemsize(p.dtype[t]), "bytes"),
                p.dtype[t],
                p.sharding[t],
                p.tier[t].upper(),
                count(len(shards)),
                _ranks(design, shards),
            ]
        )
    rows.sort(key=lambda row: -float(row[4][1] or 0.0))
    columns = [
        ("table", ""), ("rows", "number"), ("columns", "number"), ("pooling", "number"), ("size", "B"), ("type", ""),
        ("sharding", ""), ("tier", ""), ("shards", "number"), ("ranks", ""),
    ]  # fmt: skip
    return Table("plan", columns, rows)


def _ranks(design: Design, shards: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    """`17`, `nodes 0, 3`, `all`, `all, replicated`."""
    p = design.placement
    if not len(shards):
        return ""
    scope, homes = SCOPES[int(p.scope[shards[0]])], sorted({int(h) for h in p.home[shards]})
    if scope == "world":
        return "all, by rows"
    if scope == "replica":
        return "all, replicated"
    said = ", ".join(map(str, homes[:_SHOWN_RANKS])) + (", …" if len(homes) > _SHOWN_RANKS else "")
    return said if scope == "rank" else f"node{'s' if len(homes) > 1 else ''} {said}"


def tiers(estimate: Estimate) -> Table:
    """A row per memory of a node: what an iteration moves there on the busiest node, and how long it lasts."""
    rows: list[list[Cell]] = []
    for use in estimate.tiers.values():
        days = float(np.min(use.lifetime_days))
        moved = (use.read, use.read_moved, use.written, use.written_moved)
        lasts: Cell = count(round(days)) if np.isfinite(days) else ("", None)
        rows.append([use.tier.upper(), *(_some(x, "bytes") for x in moved), share(float(np.max(use.busy))), lasts])
    columns = [
        ("node memory", ""), ("read", "B"), ("medium reads", "B"), ("written", "B"), ("medium writes", "B"),
        ("busy", "fraction"), ("days until worn out", "number"),
    ]  # fmt: skip
    return Table("tiers", columns, rows)


def caches(estimate: Estimate) -> Table:
    """A row per route with caches, of all ranks together; and, of several tiers of caches, one for each."""
    rows: list[list[Cell]] = []
    for use in estimate.caches.values():
        counts = (use.indices, use.rows, use.fetched, use.written)
        rates = [share(use.row_hit_rate, 1), share(use.hit_rate, 1)]
        rows.append([use.route, *(count(round(x)) for x in counts), *rates])
        for level in use.levels.values() if len(use.levels) > 1 else ():
            moved = (count(round(x)) for x in (level.asked, level.fetched, level.written))
            rows.append(
                [f"{use.route} in {level.tier.upper()}", ("", None), *moved, share(level.hit_rate, 1), ("", None)]
            )
    columns = [
        ("cache", ""), ("indices", "number"), ("distinct rows", "number"), ("fetched", "number"),
        ("written home", "number"), ("hits of rows", "fraction"), ("hits of indices", "fraction"),
    ]  # fmt: skip
    return Table("caches", columns, rows)


def published(estimate: Estimate) -> Table:
    """A row per published figure of the design."""
    rows: list[list[Cell]] = []
    for name, row in estimate.published.items():
        kind = DIMENSION.get(name, "ratio")
        rows.append(
            [
                name.replace("_", " "), quantity(row["published"], kind), quantity(row["predicted"], kind),
                share(row["error"], 1, signed=True), "calibrated" if row["calibrated"] else "held out",
                row["source"] or "",
            ]
        )  # fmt: skip
    columns = [
        ("quantity", ""), ("published", "SI"), ("predicted", "SI"), ("error", "fraction"), ("used for", ""),
        ("source", ""),
    ]  # fmt: skip
    return Table("published", columns, rows)


def inputs(design: Design) -> Table:
    """A row per fact of the system and the workload: value, status, source, place; those that no source backs first."""
    rows: list[list[Cell]] = []
    seen: set[str] = set()
    for path, origin in design.provenance.items():
        short = _ITEM.sub("", path)
        if not path.startswith(FACTS) or short in seen:
            continue
        seen.add(short)
        value = written(design, short)
        status = origin.status or ("stated" if origin.source else "assumed")
        said = "; ".join(text for text in (origin.source, origin.note) if text)
        rows.append([short, value, status, said, place(origin)])
    rows.sort(key=lambda row: (row[2] != "assumed", ""))
    columns = [("field", ""), ("value", ""), ("status", ""), ("source", ""), ("where", "")]
    return Table("inputs", columns, rows)


def leaves(design: Design) -> dict[str, str]:
    """Every value of a design as written, by path; lists whole."""
    found: dict[str, str] = {}
    for path in (*design.provenance, "name"):
        short = _ITEM.sub("", path)
        if short not in found:
            try:
                found[short] = written(design, short)
            except (KeyError, IndexError, TypeError):
                found[short] = ""
    return found
