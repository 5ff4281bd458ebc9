"""A small design that takes every route of a big one: fewer ranks, tables, rows, samples and columns, the same kinds.

What is kept: several nodes stay several nodes; one table at least of every class (sharding, tier, dtype, optimizer,
width class, empty or not, pooled evenly or not); which widths are equal, and whether they divide by four; an uneven
batch stays uneven; the number of gradient buckets; wires, precisions, optimizers, copies and prefetch; a bottom MLP on
one rank.
"""

from __future__ import annotations

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.execute.shrinking import ROOM, Small, changed, layouts_line, narrowed, small_layout
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import BottomMlpPlan, CachePlan, CacheSize, Plan, TablePlan, TablesPlan
from archmodel.parallel.resolve import resolve
from archmodel.program import Layout
from archmodel.workloads.layered import Layered
from archmodel.workloads.recommendation import Recommendation, Workload
from archmodel.workloads.tables import TableGroup

MOST_TABLES = 24
MOST_ROWS = 1000
MOST_POOLING = 32
MOST_CROSS_LAYERS = 4
LEAST_CACHED = 4
"""Rows of a cache that a table of as many has, at least."""
MOST_WAYS = 4
MOST_PAGE = 512.0
"""Bytes of a page."""
SAMPLES = 48
"""Samples of the shrunk batch, at least."""


def shrink(workload: Workload, plan: Plan, placement: Placement) -> Small:
    """The small design. Raises ExecutionError for workloads that it cannot cut."""
    if isinstance(workload, Layered):
        from archmodel.execute.listed.shrink import shrink_listed

        return shrink_listed(workload, plan, placement)
    if not isinstance(workload, Recommendation):
        raise ExecutionError(f"workloads of kind {getattr(workload, 'kind', '?')} cannot be shrunk and checked")
    layout = small_layout(placement.layout)
    tables = workload.table_arrays
    chosen = chosen_tables(placement)
    narrow = narrowed(_widths(workload))
    rows = {t: _rows(int(tables.num_embeddings[t]), i) for i, t in enumerate(chosen)}
    pooling = {t: _pooling(float(tables.pooling_factor[t])) for t in chosen}
    groups = {
        tables.names[t]: TableGroup(
            num_embeddings=rows[t],
            embedding_dim=narrow[int(tables.embedding_dim[t])],
            pooling_factor=pooling[t],
            access=tables.distributions[int(tables.distribution_of[t])].shrunk(rows[t]),
        )
        for t in chosen
    }
    batch = _batch(workload.global_batch, placement.layout.ranks, layout.ranks)
    small = changed(
        workload,
        tables=groups,
        global_batch=batch,
        dense_features=narrow[workload.dense_features],
        bottom_mlp=[narrow[w] for w in workload.bottom_mlp],
        top_mlp=[narrow[w] for w in workload.top_mlp],
        **({"cross_rank": narrow[workload.cross_rank]} if hasattr(workload, "cross_rank") else {}),
        **(
            {"cross_layers": min(workload.cross_layers, MOST_CROSS_LAYERS)} if hasattr(workload, "cross_layers") else {}
        ),
    )
    bucket = float(np.max(plan.gradient_bucket)) * small.dense_parameters / workload.dense_parameters
    pieces = np.bincount(placement.table, minlength=len(tables))

    caches = {
        t: tuple(
            _cache(c, share, rows[t]) for c, share in zip(placement.caches[t], placement.shares_of(t), strict=True)
        )
        for t in chosen
        if placement.cached[t]
    }

    def place(on: Layout) -> tuple[Plan, Placement]:
        assign = {
            tables.names[t]: TablePlan(
                sharding=placement.sharding[t],  # type: ignore[arg-type]
                tier=placement.tier[t],
                cache=caches.get(t),
                dtype=placement.dtype[t],  # type: ignore[arg-type]
                optimizer=placement.optimizer[t],  # type: ignore[arg-type]
                column_shards=_pieces(placement.sharding[t], int(pieces[t]), groups[tables.names[t]], on),
            )
            for t in chosen
        }
        alone = plan.bottom_mlp.rank
        smaller = changed(
            plan,
            tables=TablesPlan(assign=assign),
            gradient_bucket=bucket,
            memory_reserve=0.0,
            bottom_mlp=BottomMlpPlan(rank=None if alone is None else min(alone, on.ranks - 1)),
        )
        return smaller, resolve(smaller, small.table_arrays, on, batch, dict.fromkeys(placement.tiers, ROOM["hbm"]))

    small_plan, small_placement = place(layout)
    notes = _notes(workload, small, placement.layout, layout, rows, pooling)
    if caches:
        sizes = f"at least {LEAST_CACHED} rows, in sets of at most {MOST_WAYS}, pages of at most {MOST_PAGE:.0f} B"
        notes = (*notes, f"caches: the same share of the rows of their tables, {sizes}")
    return Small(small, small_plan, small_placement, notes, place)


def chosen_tables(placement: Placement) -> list[int]:
    """At least one table of every class, then further ones of each in turn up to MOST_TABLES, in table order."""
    classes: dict[tuple[object, ...], list[int]] = {}
    for t in range(len(placement.tables)):
        classes.setdefault(table_class(placement, t), []).append(t)
    chosen: list[int] = [members[0] for members in classes.values()]
    turn = 1
    while len(chosen) < min(MOST_TABLES, len(placement.tables)):
        further = [members[turn] for members in classes.values() if turn < len(members)]
        chosen += further[: MOST_TABLES - len(chosen)]
        turn += 1
    return sorted(chosen)


def table_class(placement: Placement, t: int) -> tuple[object, ...]:
    """What decides the way that a table takes through the Program."""
    tables = placement.tables
    dim, pooling = int(tables.embedding_dim[t]), float(tables.pooling_factor[t])
    return (
        placement.sharding[t],
        placement.tier[t],
        placement.dtype[t],
        placement.optimizer[t],
        dim.bit_length(),
        dim % 4 == 0,
        str([c.model_dump(exclude={"size"}) for c in placement.caches[t]]) if placement.caches else "",
        tables.num_embeddings[t] == 0,
        pooling == 0,
        pooling % 1 == 0,
    )


def _widths(workload: Recommendation) -> list[int]:
    dims = [int(d) for d in workload.table_arrays.embedding_dim]
    rank = [workload.cross_rank] if hasattr(workload, "cross_rank") else []
    return [*dims, workload.dense_features, *workload.bottom_mlp, *workload.top_mlp, *rank]


def _rows(rows: int, i: int) -> int:
    """Large tables get row counts of their own that few rank counts divide."""
    return rows if rows <= MOST_ROWS else MOST_ROWS - 3 - 7 * (i % MOST_TABLES)


def _pooling(pooling: float) -> float:
    return pooling if pooling <= MOST_POOLING else MOST_POOLING + pooling % 1


def _batch(batch: int, ranks: int, small_ranks: int) -> int:
    """Even if it was, uneven if it was, less than one sample per rank if it was."""
    if batch < ranks:
        return max(1, min(batch, small_ranks - 1))
    even = small_ranks * -(-SAMPLES // small_ranks)
    uneven = even + min(3, small_ranks - 1)
    return min(batch, even if batch % ranks == 0 else uneven)


def _cache(cache: CachePlan, share: float, rows: int) -> CachePlan:
    """The same kind of cache for the same share of a smaller table."""
    ways = None if cache.ways is None else min(cache.ways, MOST_WAYS)
    size = CacheSize(min(max(share, LEAST_CACHED / max(rows, 1)), 1.0), "share")
    page = None if cache.page is None else min(float(np.max(cache.page)), MOST_PAGE)
    return cache.model_copy(update={"size": size, "ways": ways, "page": page})


def _pieces(sharding: str, pieces: int, table: TableGroup, layout: Layout) -> int | None:
    """Column pieces on the small layout; None where the kind cuts none."""
    most = {
        "column_wise": max(layout.ranks, 2),
        "grid_wise": max(layout.nodes, 2),
        "table_column_wise": layout.local_size,
    }
    if sharding not in most:
        return None
    return min(pieces, most[sharding], int(np.min(table.embedding_dim)))


def _notes(
    before: Recommendation,
    after: Recommendation,
    old: Layout,
    new: Layout,
    rows: dict[int, int],
    pooling: dict[int, float],
) -> tuple[str, ...]:
    """What was made smaller."""
    tables = before.table_arrays
    notes = layouts_line(old, new)
    if len(tables) != len(rows):
        notes.append(f"tables: {len(tables):,} -> {len(rows)}, with one at least of every class of table")
    if any(tables.num_embeddings[t] != r for t, r in rows.items()):
        notes.append(f"rows: tables of more than {MOST_ROWS:,} cut to at most that")
    if any(tables.pooling_factor[t] != p for t, p in pooling.items()):
        notes.append(f"pooling factors: at most {MOST_POOLING}")
    if before.global_batch != after.global_batch:
        notes.append(f"global batch: {before.global_batch:,} -> {after.global_batch}")
    smaller = {a: b for a, b in narrowed(_widths(before)).items() if a != b}
    if smaller:
        notes.append(
            "widths: "
            + ", ".join(f"{a:,} -> {b}" for a, b in list(smaller.items())[:8])
            + (", ..." if len(smaller) > 8 else "")
        )
    if getattr(before, "cross_layers", 0) != getattr(after, "cross_layers", 0):
        notes.append(f"cross layers: {before.cross_layers} -> {after.cross_layers}")  # type: ignore[attr-defined]
    return tuple(notes) or ("nothing: the design is small enough to run as it is",)
