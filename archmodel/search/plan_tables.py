"""`plan.tables`: a placement or an assignment written out, every table by name, and put into designs."""

from __future__ import annotations

from typing import Any

import numpy as np

from archmodel.design import Design
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import TablesPlan
from archmodel.search.options import NODE, RANK, Assignment, Options, memory_entry


def default_of(design: Design) -> dict[str, Any]:
    """The automatic placement with the dtype and optimizer that tables have where no rule says more."""
    given = design.plan.tables.default.model_dump(exclude_none=True)
    return {"sharding": "auto", **{k: given[k] for k in ("dtype", "optimizer") if k in given}}


def draft(design: Design, tables: dict[str, Any]) -> Design:
    """The design with other `plan.tables`, unchecked as a file: for judging proposals quickly."""
    plan = design.plan.model_copy(update={"tables": TablesPlan.model_validate(tables)})
    return Design(design.spec.model_copy(update={"plan": plan}), design.tree, design.path)


def with_tables(design: Design, tables: dict[str, Any]) -> Design:
    """The design with `plan.tables` replaced."""
    return design.with_({"plan.tables": tables})


def tables_of(design: Design, options: Options, assignment: Assignment) -> dict[str, Any]:
    """An assignment as `plan.tables`."""
    base = design.placement
    assign: dict[str, Any] = {}
    for t, name in enumerate(options.names):
        slot, homes = int(assignment.slot[t]), assignment.homes[t]
        entry: dict[str, Any] = {"sharding": options.kinds[slot]}
        if options.scope[slot] == RANK:
            entry["ranks"] = list(homes)
        elif options.scope[slot] == NODE:
            entry["nodes"] = list(homes)
        entry |= memory_entry(options.kernels[slot])
        entry |= {"dtype": base.dtype[t], "optimizer": base.optimizer[t]}
        assign[name] = entry
    return {"default": default_of(design), "assign": assign}


def _cache(placement: Placement, t: int) -> dict[str, Any] | list[dict[str, Any]]:
    """A table's caches as a plan writes them: of an entry of its own, so by their share of the table."""
    found = []
    for cache, share in zip(placement.caches[t], placement.shares_of(t), strict=True):
        given: dict[str, Any] = {"in": cache.tier, "size": f"{100 * share!r} %", "policy": cache.policy}
        given |= {"ways": cache.ways, "prefetch": cache.prefetch}
        found.append(given if cache.page is None else {**given, "page": f"{float(np.max(cache.page))!r} B"})
    return found[0] if len(found) == 1 else found


def written(design: Design) -> dict[str, Any]:
    """A design's placement as `plan.tables` with every table by name: what `auto` and rules came to."""
    placement = design.placement
    homes: dict[int, list[int]] = {}
    for table, home in zip(placement.table.tolist(), placement.home.tolist(), strict=True):
        homes.setdefault(table, []).append(home)
    assign: dict[str, Any] = {}
    for t, name in enumerate(placement.tables.names):
        kind = placement.sharding[t]
        entry: dict[str, Any] = {"sharding": kind}
        if kind in ("table_wise", "column_wise"):
            entry["ranks"] = homes[t]
        elif kind in ("table_row_wise", "grid_wise"):
            entry["nodes"] = homes[t]
        elif kind == "table_column_wise":
            entry |= {"nodes": [homes[t][0] // design.layout.local_size], "column_shards": len(homes[t])}
        entry |= {"tier": placement.tier[t], "dtype": placement.dtype[t], "optimizer": placement.optimizer[t]}
        if placement.cached[t]:
            entry["cache"] = _cache(placement, t)
        assign[name] = entry
    return {"default": default_of(design), "assign": assign}
