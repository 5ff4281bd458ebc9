"""From a plan as written to a `Placement`: the entry that holds for each table, automatic choices, homes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from archmodel.errors import suggestion
from archmodel.parallel.automatic import kinds_and_pieces, tiers
from archmodel.parallel.homes import homes
from archmodel.parallel.placement import (
    SCOPES,
    STATE_BYTES_PER_ELEMENT,
    STATE_BYTES_PER_ROW,
    Placement,
    Scope,
    by_word,
)
from archmodel.parallel.plan import CachePlan, Plan, TablePlan
from archmodel.program import IntArray, Layout, sectors
from archmodel.quantities import Array, itemsize
from archmodel.workloads.tables import Tables

SCOPE_OF: dict[str, Scope] = {
    "table_wise": "rank",
    "column_wise": "rank",
    "table_column_wise": "rank",
    "row_wise": "world",
    "table_row_wise": "node",
    "grid_wise": "node",
    "data_parallel": "replica",
}


class PlanError(Exception):
    """A plan that the workload or the system cannot follow: [(field path, message)], all of them."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {message}" for path, message in problems))
        self.problems = problems


@dataclass(frozen=True)
class _Entries:
    """Distinct table plans, where each is written, and which one holds for each table (T,)."""

    plans: list[TablePlan]
    paths: list[str]
    of_table: IntArray

    def column(self, name: str) -> npt.NDArray[np.object_]:
        """One field of every table's entry, (T,) objects."""
        values = np.empty(len(self.plans), dtype=object)
        values[:] = [getattr(p, name) for p in self.plans]
        return values[self.of_table]


def resolve(
    plan: Plan,
    tables: Tables,
    layout: Layout,
    global_batch: int,
    capacity: dict[str, float],
    other_load: Array | None = None,
) -> Placement:
    """Shards of every table. `capacity`: bytes of each tier per rank. `other_load` (ranks,): bytes that other work than
    tables moves in an iteration. Raises PlanError with every problem found."""
    problems: list[tuple[str, str]] = []
    alone = plan.bottom_mlp.rank
    if alone is not None and alone >= layout.ranks:
        problems.append(("plan.bottom_mlp.rank", f"{alone} does not exist; there are {layout.ranks} ranks, from 0"))
    if plan.wires.index == "int32" and len(tables) and tables.num_embeddings.max() > 2**31:
        longest = tables.names[int(tables.num_embeddings.argmax())]
        problems.append(("plan.wires.index", f"int32 cannot name every row of table {longest}; int64 can"))
    if plan.all_reduce == "in_network" and (layout.nodes > 1 or layout.in_network == 0):
        why = "needs one node; there are several" if layout.nodes > 1 else "needs a switch that reduces (`in_network`)"
        problems.append(("plan.all_reduce", f"in_network {why}; auto, ring and hierarchical do not"))
    entries = _fetching_ahead(plan, _entries(plan, tables, problems))
    _check_tiers(entries, capacity, problems)
    _check_prefetch(plan, entries, problems)
    sharding = entries.column("sharding").astype(str)
    dtype = entries.column("dtype").astype(str)
    optimizer = entries.column("optimizer").astype(str)
    _check_entries(entries, tables, layout, problems)
    other = optimizer[optimizer != "sgd"]
    if plan.sparse_update != "exact" and len(other):
        problems.append(("plan.sparse_update", f"{plan.sparse_update} adds gradients to rows: sgd, not {other[0]}"))
    if problems:
        raise PlanError(problems)

    width = tables.embedding_dim.astype(np.float64)
    element = by_word(dtype, itemsize)
    size = parameter_bytes(tables, width, element, optimizer)
    wire = itemsize(plan.wires.lookup_forward)
    cost = global_batch * (tables.pooling_factor * sectors(width * element) + width * wire)
    written = entries.column("tier")
    kept = _kept(entries, size, written, layout)
    free = 1.0 - float(plan.memory_reserve)
    tier = tiers(written, sharding, size, cost, layout, {**capacity, "hbm": capacity["hbm"] * free}, kept)
    caches = _caches(entries, tier, capacity)
    pieces = _pieces(entries, sharding, layout)
    usable = by_word(tier, capacity.__getitem__) * free
    sharding, pieces = kinds_and_pieces(sharding, pieces, tables, tier, size, cost, usable, layout, global_batch)
    load = np.zeros(layout.ranks) if other_load is None else other_load
    placement = _shards(entries, tables, layout, sharding, pieces, tier, dtype, optimizer, size, cost, usable, load)
    placement = replace(placement, caches=caches, entry=entries.of_table, tiers=tuple(capacity))
    _check_cascades(placement, entries)
    return placement


def parameter_bytes(tables: Tables, columns: Array, element: Array, optimizer: npt.NDArray[np.str_]) -> Array:
    """Bytes of rows plus optimizer state of every table when `columns` of its width are held, (T,)."""
    per_element = element + by_word(optimizer, STATE_BYTES_PER_ELEMENT.__getitem__)
    per_row = by_word(optimizer, STATE_BYTES_PER_ROW.__getitem__)
    return np.asarray(tables.num_embeddings * (columns * per_element + per_row))


def _entries(plan: Plan, tables: Tables, problems: list[tuple[str, str]]) -> _Entries:
    default = plan.tables.default
    base = _over(TablePlan(sharding="auto", dtype="fp32", optimizer="sgd"), default)
    plans, paths = [base], ["plan.tables.default"]
    of_table = np.zeros(len(tables), dtype=np.int64)
    unset = np.ones(len(tables), dtype=bool)
    for i, rule in enumerate(plan.tables.rules):
        mask = rule.match.tables(tables)
        if not mask.any():
            near = f"; {suggestion(rule.match.name, tables.names)}" if rule.match.name else ""
            problems.append((f"plan.tables.rules[{i}].match", f"matches no table{near}"))
        of_table[mask & unset] = len(plans)
        unset &= ~mask
        plans.append(_over(base, rule))
        paths.append(f"plan.tables.rules[{i}]")
    index = {name: i for i, name in enumerate(tables.names)} if plan.tables.assign else {}
    for name, entry in plan.tables.assign.items():
        if name not in index:
            problems.append(
                (
                    f"plan.tables.assign.{name}",
                    f"is no table of the workload; {suggestion(name, tables.names)}",
                )
            )
            continue
        of_table[index[name]] = len(plans)
        plans.append(_over(base, entry))
        paths.append(f"plan.tables.assign.{name}")
    return _Entries(plans, paths, of_table)


def _over(base: TablePlan, entry: TablePlan) -> TablePlan:
    """`base` with every field that `entry` gives."""
    names = ("sharding", "ranks", "nodes", "column_shards", "tier", "cache", "dtype", "optimizer")
    given = {n: v for n in names if (v := getattr(entry, n)) is not None}
    return base.model_copy(update=given)


def _check_entries(entries: _Entries, tables: Tables, layout: Layout, problems: list[tuple[str, str]]) -> None:
    """Ranks and nodes exist, pieces agree with what the sharding can use."""
    used = set(entries.of_table.tolist())
    for i, (entry, path) in enumerate(zip(entries.plans, entries.paths, strict=True)):
        for name, limit in (("ranks", layout.ranks), ("nodes", layout.nodes)):
            bad = [r for r in getattr(entry, name) or [] if not 0 <= r < limit]
            if bad:
                problems.append((f"{path}.{name}", f"{bad[0]} does not exist; there are {limit} {name}, from 0"))
        kind = entry.sharding
        takes = {
            "table_wise": "ranks",
            "column_wise": "ranks",
            "table_column_wise": "nodes",
            "table_row_wise": "nodes",
            "grid_wise": "nodes",
        }.get(str(kind))
        for name in ("ranks", "nodes"):
            if getattr(entry, name) is not None and takes != name:
                problems.append(
                    (f"{path}.{name}", f"{kind} takes no {name}" + (f"; it takes {takes}" if takes else ""))
                )
        homes = entry.ranks if takes == "ranks" else entry.nodes
        single = kind in {"table_wise", "table_row_wise", "table_column_wise"}
        if homes is not None and takes and single and len(homes) > 1:
            problems.append((f"{path}.{takes}", f"{kind} places a table on one of the {takes}, {len(homes)} are named"))
        if kind == "data_parallel" and entry.tier not in (None, "auto", "hbm"):
            problems.append(
                (f"{path}.tier", f"data_parallel keeps its replicas in hbm; every other sharding can use {entry.tier}")
            )
        if kind == "data_parallel" and entry.cache:
            problems.append((f"{path}.cache", "data_parallel keeps its replicas in hbm and has nothing to cache"))
        pieces = entry.column_shards
        if pieces is not None and kind in {"table_wise", "row_wise", "table_row_wise", "data_parallel"}:
            problems.append((f"{path}.column_shards", f"{kind} does not cut columns"))
        if pieces is not None and homes is not None and not single and len(homes) != pieces:
            problems.append((f"{path}.{takes}", f"names {len(homes)} {takes} for {pieces} column shards"))
        if kind == "table_column_wise" and pieces is not None and pieces > layout.local_size:
            problems.append((f"{path}.column_shards", f"{pieces} pieces on a node of {layout.local_size} ranks"))
        if pieces is None and homes is not None and not single:
            pieces = len(homes)
        if pieces is not None and i in used:
            narrow = (entries.of_table == i) & (tables.embedding_dim < pieces)
            if narrow.any():
                t = int(np.flatnonzero(narrow)[0])
                problems.append(
                    (
                        f"{path}.column_shards",
                        f"{pieces} pieces of table {tables.names[t]}, which has {tables.embedding_dim[t]} columns",
                    )
                )


def _check_tiers(entries: _Entries, capacity: dict[str, float], problems: list[tuple[str, str]]) -> None:
    """Every tier named is there, and a cache is in a faster one than its table's home."""
    order = list(capacity)
    for entry, path in zip(entries.plans, entries.paths, strict=True):
        levels = _levels(entry, path)
        for tier, where in ((entry.tier, f"{path}.tier"), *((c.tier, f"{at}.in") for c, at in levels)):
            if tier is None or (tier == "auto" and where.endswith(".tier")) or tier in capacity:
                continue
            what = "but the node has no host" if order == ["hbm"] else suggestion(tier, [*order, "auto"])
            problems.append((where, f"no memory of the system is called {tier}; {what}"))
        for cache, at in levels:
            if entry.tier not in capacity or cache.tier not in capacity:
                continue
            if cache.tier == entry.tier:
                problems.append((f"{at}.in", f"{entry.tier} is where the rows are already; a cache is elsewhere"))
            elif order.index(cache.tier) > order.index(str(entry.tier)):
                faster = ", ".join(order[: order.index(str(entry.tier))]) or "no other tier is"
                problems.append(
                    (f"{at}.in", f"{cache.tier} is slower than {entry.tier}, where the rows are; {faster} is not")
                )
        for (above, _), (cache, at) in pairwise(levels):
            if cache.tier == above.tier:
                problems.append((f"{at}.in", f"{cache.tier} is where the cache above is already; list each tier once"))
            elif {above.tier, cache.tier} <= set(order) and order.index(cache.tier) < order.index(above.tier):
                problems.append(
                    (
                        f"{at}.in",
                        f"{cache.tier} is faster than {above.tier}, the cache above it; list the fastest first",
                    )
                )
        for cache, at in levels:
            if cache.page is not None and len(levels) > 1:
                problems.append((f"{at}.page", "pages come from the home, through no other cache; leave page out"))


def _levels(entry: TablePlan, path: str) -> list[tuple[CachePlan, str]]:
    """An entry's caches, the top first, and where each is written."""
    caches = entry.cache or ()
    return [(c, f"{path}.cache" if len(caches) == 1 else f"{path}.cache[{i}]") for i, c in enumerate(caches)]


def _check_cascades(placement: Placement, entries: _Entries) -> None:
    """A cache below another holds at least as many rows of every block. Raises PlanError."""
    problems: dict[str, str] = {}
    for level in range(1, placement.levels):
        for scope in SCOPES[:-1]:
            for b in placement.blocks(scope):
                share = [placement.asked_share(b, at) for at in (level - 1, level)]
                above, below = (np.minimum(np.maximum(s * b.rows, 1.0), b.rows) for s in share)
                small = (share[1] > 0) & (below < above * (1 - 1e-9))
                for s in np.flatnonzero(small.any(1)).tolist():
                    t = int(placement.table[b.shards[s]])
                    path, m = entries.paths[entries.of_table[t]], int(small[s].argmax())
                    what = f"holds {below[s, m]:,.0f} rows of table {placement.tables.names[t]} on a rank"
                    problems.setdefault(
                        f"{path}.cache[{level}].size",
                        f"{what}, fewer than the {above[s, m]:,.0f} of the cache above it",
                    )
    if problems:
        raise PlanError(list(problems.items()))


def _fetching_ahead(plan: Plan, entries: _Entries) -> _Entries:
    """Caches that do not say how far ahead they fetch do as the others."""
    caches = [c for i in sorted(set(entries.of_table.tolist())) for c in entries.plans[i].cache or ()]
    said = [c.prefetch for c in caches if c.prefetch is not None]
    paged = any(c.page is not None for c in caches)
    depth = said[0] if said else int(plan.prefetch_input and not paged)

    def completed(entry: TablePlan) -> TablePlan:
        told = [c if c.prefetch is not None else c.model_copy(update={"prefetch": depth}) for c in entry.cache or ()]
        return entry.model_copy(update={"cache": tuple(told)}) if told else entry

    return replace(entries, plans=[completed(entry) for entry in entries.plans])


def _check_prefetch(plan: Plan, entries: _Entries, problems: list[tuple[str, str]]) -> None:
    """Rows are fetched when their indices are known, all caches' as far ahead."""
    depths: dict[int, str] = {}
    used = set(entries.of_table.tolist())
    written = zip(entries.plans, entries.paths, strict=True)
    for cache, at in [level for i, (e, path) in enumerate(written) if i in used for level in _levels(e, path)]:
        depth = cache.prefetch or 0
        if depth and not plan.prefetch_input:
            problems.append(
                (
                    f"{at}.prefetch",
                    f"{_batches(depth)} ahead needs their indices; set plan.prefetch_input: true, or prefetch: 0",
                )
            )
        if depth and cache.page is not None:
            problems.append(
                (f"{at}.prefetch", f"{_batches(depth)} ahead, but pages come when the device faults; set prefetch: 0")
            )
        depths.setdefault(depth, at)
    if len(depths) > 1:
        (_, one), (depth, other) = list(depths.items())[:2]
        one = one.removesuffix(".cache")
        problems.append((f"{other}.prefetch", f"is {depth}; all caches of a plan fetch as far ahead as {one}"))


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def _kept(entries: _Entries, size: Array, written: npt.NDArray[np.object_], layout: Layout) -> dict[str, float]:
    """Bytes per rank that caches of tables without a tier of their own may take in each tier, at most."""
    kept: dict[str, float] = {}
    free = np.array([t in (None, "auto") for t in written], dtype=bool)
    for i, entry in enumerate(entries.plans):
        mine = (entries.of_table == i) & free if entry.cache else free[:0]
        whole = float(size[mine].sum()) / layout.ranks if mine.any() else 0.0
        for cache in entry.cache or () if mine.any() else ():
            amount, unit = cache.size.amount, cache.size.unit
            wanted = {"bytes": amount, "share": amount * whole, "rows": 0.0}[unit]
            kept[cache.tier] = kept.get(cache.tier, 0.0) + min(wanted, whole)
    return kept


def _caches(
    entries: _Entries, tier: npt.NDArray[np.str_], capacity: dict[str, float]
) -> tuple[tuple[CachePlan, ...], ...]:
    """The caches of every table; none in the tier in which it was placed, or a slower one."""
    order = list(capacity)
    kept: dict[tuple[int, str], tuple[CachePlan, ...]] = {}
    for i, t in set(zip(entries.of_table.tolist(), tier.tolist(), strict=True)):
        kept[i, t] = tuple(c for c in entries.plans[i].cache or () if order.index(c.tier) < order.index(t))
    return tuple(kept[key] for key in zip(entries.of_table.tolist(), tier.tolist(), strict=True))


def _pieces(entries: _Entries, sharding: npt.NDArray[np.str_], layout: Layout) -> IntArray:
    """Column pieces as written or implied: every rank of the node, every node, each named rank; 0: to be chosen."""
    pieces = np.array([0 if p is None else p for p in entries.column("column_shards")], dtype=np.int64)
    named = np.array([len(r) if r else 0 for r in entries.column("ranks")], dtype=np.int64)
    nodes = np.array([len(r) if r else 0 for r in entries.column("nodes")], dtype=np.int64)
    pieces = np.where((pieces == 0) & (sharding == "column_wise"), named, pieces)
    pieces = np.where((pieces == 0) & (sharding == "grid_wise"), np.where(nodes > 0, nodes, layout.nodes), pieces)
    return np.where((pieces == 0) & (sharding == "table_column_wise"), layout.local_size, pieces)


def _shards(
    entries: _Entries,
    tables: Tables,
    layout: Layout,
    sharding: npt.NDArray[np.str_],
    pieces: IntArray,
    tier: npt.NDArray[np.str_],
    dtype: npt.NDArray[np.str_],
    optimizer: npt.NDArray[np.str_],
    size: Array,
    cost: Array,
    usable: Array,
    other_load: Array,
) -> Placement:
    """Cut columns into pieces (multiples of four where the width allows) and give every shard a home."""
    cuts = np.isin(sharding, ["column_wise", "table_column_wise", "grid_wise"])
    count = np.where(cuts, np.minimum(pieces, np.maximum(tables.embedding_dim, 1)), 1)
    table = np.repeat(np.arange(len(tables)), count)
    piece = np.arange(len(table)) - np.repeat(np.cumsum(count) - count, count)
    unit = np.where((tables.embedding_dim % 4 == 0) & (tables.embedding_dim // 4 >= count), 4, 1)[table]
    units = tables.embedding_dim[table] // unit
    base, rest = units // count[table], units % count[table]
    start = unit * (piece * base + np.minimum(piece, rest))
    end = unit * ((piece + 1) * base + np.minimum(piece + 1, rest))
    scope = by_word(sharding, lambda kind: SCOPES.index(SCOPE_OF[kind])).astype(np.int64)[table]
    if layout.ranks == 1:
        scope = np.zeros_like(scope)  # on one rank every cut is the whole table
    fraction = (end - start) / np.maximum(tables.embedding_dim[table], 1)
    home = homes(
        entries.column("ranks"),
        entries.column("nodes"),
        layout,
        sharding[table],
        table,
        piece,
        scope,
        size[table] * fraction,
        cost[table] * fraction,
        usable[table],
        other_load,
    )
    return Placement(
        tables,
        layout,
        table,
        start,
        end,
        scope,
        home,
        tuple(tier.tolist()),
        tuple(dtype.tolist()),
        tuple(optimizer.tolist()),
        tuple(sharding.tolist()),
    )
