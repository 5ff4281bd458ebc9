"""TorchRec's sharding plans and parameter constraints, and table lists as teams keep them.

Plan: {"plan": {module: {table: {sharding_type, compute_kernel, ranks, shards: [{shard_offsets, shard_sizes,
placement}]}}}}, as `ShardingPlan` prints itself. Fields that we do not know are carried along, so nothing is lost.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from archmodel.design import Design
from archmodel.errors import ArchmodelError, suggestion
from archmodel.search.tasks import Constraint

OUR_KIND = {"grid_shard": "grid_wise"}
"""Kinds that have another name here."""
_THEIR_KIND = {v: k for k, v in OUR_KIND.items()}
_TIER = {
    "fused": "hbm",
    "dense": "hbm",
    "fused_uvm": "ddr",
    "fused_uvm_caching": "ddr",
    "fused_triton": "hbm",
    "quant": "hbm",
    "quant_uvm": "ddr",
    "quant_uvm_caching": "ddr",
}
_CACHED = "_caching"
LOAD_FACTOR = 0.2
"""Share of a table that TorchRec caches in HBM when a plan does not say (its planner's constants)."""
_PLACEMENT = re.compile(r"rank:(\d+)/\w+:\d+$")
_COLUMNS = {
    "name": ("name", "table", "table_name"),
    "rows": ("rows", "num_embeddings", "hash_size"),
    "dim": ("dim", "embedding_dim"),
    "pooling": ("pooling", "pooling_factor"),
}


@dataclass(frozen=True)
class Shard:
    """Offsets and sizes (rows, columns), and the rank."""

    offsets: tuple[int, int]
    sizes: tuple[int, int]
    rank: int


@dataclass(frozen=True)
class TableSharding:
    """One table of a plan. `extra`: fields that this version does not know, kept as they are."""

    module: str
    sharding_type: str
    compute_kernel: str
    ranks: tuple[int, ...]
    shards: tuple[Shard, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_plan(document: Mapping[str, Any]) -> dict[str, TableSharding]:
    """Tables by name. Raises ArchmodelError with every entry that is not a plan, or whose shards do not tile it."""
    found: dict[str, TableSharding] = {}
    problems: list[str] = []
    modules = document.get("plan")
    if not isinstance(modules, Mapping):
        raise ArchmodelError('not a TorchRec plan: it has no "plan" mapping of modules')
    for module, tables in modules.items():
        for name, entry in tables.items():
            try:
                if name in found:
                    raise ValueError("is in two modules")
                found[name] = _table(str(module), entry)
                _check_tiles(found[name])
            except (KeyError, TypeError, ValueError) as error:
                reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
                problems.append(f"table {name}: {reason}")
    if problems:
        raise ArchmodelError("\n".join(problems))
    return found


def _table(module: str, entry: Mapping[str, Any]) -> TableSharding:
    shards = []
    for shard in entry.get("shards", ()):
        matched = _PLACEMENT.match(str(shard["placement"]))
        if matched is None:
            raise ValueError(f"placement {shard['placement']!r} is not rank:<rank>/<device>:<index>")
        (r, c), (h, w) = shard["shard_offsets"], shard["shard_sizes"]
        shards.append(Shard((int(r), int(c)), (int(h), int(w)), int(matched[1])))
    known = ("sharding_type", "compute_kernel", "ranks", "shards")
    extra = {k: v for k, v in entry.items() if k not in known}
    ranks = tuple(int(r) for r in entry["ranks"])
    return TableSharding(module, str(entry["sharding_type"]), str(entry["compute_kernel"]), ranks, tuple(shards), extra)


def _check_tiles(table: TableSharding) -> None:
    """Shards cover a rectangle once: their areas add up to it and none overlaps another."""
    if table.sharding_type == "data_parallel":
        return
    if not table.shards:
        raise ValueError("has no shards")
    held = [s for s in table.shards if s.sizes[0] * s.sizes[1] > 0]
    rows = max(s.offsets[0] + s.sizes[0] for s in table.shards)
    columns = max(s.offsets[1] + s.sizes[1] for s in table.shards)
    if sum(s.sizes[0] * s.sizes[1] for s in held) != rows * columns:
        raise ValueError(f"its shards do not tile {rows} x {columns}")
    ordered = sorted(held, key=lambda s: (s.offsets[1], s.offsets[0]))
    for a, b in pairwise(ordered):
        if a.offsets[1] == b.offsets[1] and a.offsets[0] + a.sizes[0] != b.offsets[0]:
            raise ValueError("its shards overlap or leave a hole")


def write_plan(tables: Mapping[str, TableSharding], local_world_size: int, device: str = "cuda") -> dict[str, Any]:
    """The document that `read_plan` reads."""
    modules: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        entry: dict[str, Any] = {
            "sharding_type": table.sharding_type,
            "compute_kernel": table.compute_kernel,
            "ranks": list(table.ranks),
        }
        if table.sharding_type != "data_parallel":
            entry["shards"] = [
                {
                    "shard_offsets": list(s.offsets),
                    "shard_sizes": list(s.sizes),
                    "placement": f"rank:{s.rank}/{device}:{s.rank % local_world_size}",
                }
                for s in table.shards
            ]
        modules.setdefault(table.module, {})[name] = {**entry, **table.extra}
    return {"plan": modules}


def from_design(design: Design, module: str = "ebc") -> dict[str, TableSharding]:
    """A design's placement in TorchRec's words."""
    placement, layout = design.placement, design.layout
    of_table: dict[int, list[int]] = {}
    for s, t in enumerate(placement.table.tolist()):
        of_table.setdefault(t, []).append(s)
    found = {}
    for t, name in enumerate(placement.tables.names):
        kind, rows = placement.sharding[t], int(placement.tables.num_embeddings[t])
        kernel = "dense" if kind == "data_parallel" else "fused" if placement.tier[t] == "hbm" else "fused_uvm"
        if placement.cached[t]:
            kernel += _CACHED
        if placement.caches and len(placement.caches[t]) > 1:
            tiers = " and ".join(c.tier for c in placement.caches[t])
            raise ArchmodelError(f"table {name} is cached in {tiers}; TorchRec knows one cache of a table")
        shards: list[Shard] = []
        for s in of_table[t]:
            first, last, home = int(placement.column_start[s]), int(placement.column_end[s]), int(placement.home[s])
            if kind in ("table_wise", "column_wise", "table_column_wise"):
                ranks = [home]
            elif kind in ("table_row_wise", "grid_wise"):
                ranks = list(range(home * layout.local_size, (home + 1) * layout.local_size))
            else:
                ranks = list(range(layout.ranks))
            block = -(-rows // len(ranks))
            shards += [
                Shard((low := min(block * i, rows), first), (min(block, rows - low), last - first), rank)
                for i, rank in enumerate(ranks)
            ]
        replicated = kind == "data_parallel"
        where = tuple(range(layout.ranks)) if replicated else tuple(s.rank for s in shards)
        found[name] = TableSharding(
            module, _THEIR_KIND.get(kind, kind), kernel, where, () if replicated else tuple(shards)
        )
    return found


def to_tables(plan: Mapping[str, TableSharding], design: Design) -> dict[str, Any]:
    """`plan.tables` of a design. Raises ArchmodelError when tables are missing, unknown or cut as we cannot."""
    names = design.workload.table_arrays.names
    problems = [f"table {n} is not in the plan" for n in names if n not in plan]
    problems += [
        f"table {n} of the plan is not in the workload; {suggestion(n, names)}" for n in plan if n not in names
    ]
    local, assign = design.layout.local_size, {}
    for name, table in plan.items():
        kind = OUR_KIND.get(table.sharding_type, table.sharding_type)
        tier = _TIER.get(table.compute_kernel)
        if tier is None:
            problems.append(
                f"table {name}: compute kernel {table.compute_kernel} has no tier here ({', '.join(_TIER)} have)"
            )
            continue
        entry: dict[str, Any] = {"sharding": kind, "tier": tier}
        if table.compute_kernel.endswith(_CACHED):
            ahead = int(design.plan.prefetch_input)
            entry["cache"] = {"in": "hbm", "size": LOAD_FACTOR, "policy": "lru", "ways": 32, "prefetch": ahead}
        if kind in ("table_wise", "column_wise"):
            entry["ranks"] = [s.rank for s in table.shards]
        elif kind in ("table_row_wise", "grid_wise"):
            entry["nodes"] = list(dict.fromkeys(s.rank // local for s in table.shards))
        elif kind == "table_column_wise":
            entry |= {"nodes": [table.shards[0].rank // local], "column_shards": len(table.shards)}
        assign[name] = entry
    if problems:
        raise ArchmodelError("\n".join(problems))
    default = design.plan.tables.default.model_dump(exclude_none=True)
    return {
        "default": {"sharding": "auto", **{k: default[k] for k in ("dtype", "optimizer") if k in default}},
        "assign": assign,
    }


@dataclass(frozen=True)
class Constraints:
    """ParameterConstraints by table: what a planner obeys, and the fields that are only carried."""

    known: Mapping[str, Constraint]
    extra: Mapping[str, Mapping[str, Any]]


def read_constraints(document: Mapping[str, Mapping[str, Any]]) -> Constraints:
    """{table: {sharding_types, compute_kernels, min_partition, ...}}."""
    known, extra = {}, {}
    for name, entry in document.items():
        lists = [entry[k] for k in ("pooling_factors", "num_poolings", "batch_sizes") if entry.get(k)]
        if len({len(x) for x in lists}) > 1:
            raise ArchmodelError(
                f"constraint for {name}: pooling_factors, num_poolings and batch_sizes differ in length"
            )
        factor = (entry.get("cache_params") or {}).get("load_factor")
        if factor is not None and not 0 < factor < 1:
            raise ArchmodelError(
                f"constraint for {name}: cache load_factor {factor} must lie between 0 and 1, both excluded"
            )
        kinds, kernels = entry.get("sharding_types"), entry.get("compute_kernels")
        known[name] = Constraint(
            None if kinds is None else tuple(kinds),
            None if kernels is None else tuple(kernels),
            entry.get("min_partition"),
            factor,
            bool(entry.get("is_weighted", False)),
        )
        ours = ("sharding_types", "compute_kernels", "min_partition")
        extra[name] = {k: v for k, v in entry.items() if k not in ours}
    return Constraints(known, extra)


def write_constraints(constraints: Constraints) -> dict[str, dict[str, Any]]:
    """The document that `read_constraints` reads."""
    return {
        name: {
            "sharding_types": None if c.sharding_types is None else list(c.sharding_types),
            "compute_kernels": None if c.compute_kernels is None else list(c.compute_kernels),
            "min_partition": c.min_partition,
            **constraints.extra.get(name, {}),
        }
        for name, c in constraints.known.items()
    }


def read_tables(path: Path) -> list[dict[str, Any]]:
    """A table list from CSV or JSON: name, rows, dim, pooling under these or TorchRec's names."""
    text = path.read_text(encoding="utf-8")
    records: Sequence[Mapping[str, Any]]
    if path.suffix.lower() == ".json":
        document = json.loads(text)
        records = document["tables"] if isinstance(document, Mapping) else document
    else:
        records = list(csv.DictReader(io.StringIO(text)))
    result = []
    for i, record in enumerate(records, 1):
        try:
            result.append(
                {
                    "name": str(_column(record, "name")),
                    "rows": int(float(_column(record, "rows"))),
                    "dim": int(float(_column(record, "dim"))),
                    "pooling": float(_column(record, "pooling", "1")),
                }
            )
        except (KeyError, ValueError) as error:
            raise ArchmodelError(f"{path}: table {i}: {error.args[0]}") from None
    return result


def _column(record: Mapping[str, Any], name: str, default: str | None = None) -> Any:
    for key in _COLUMNS[name]:
        if record.get(key) not in (None, ""):
            return record[key]
    if default is None:
        raise KeyError(f"no {name} ({', '.join(_COLUMNS[name])})")
    return default


def write_tables(tables: Sequence[Mapping[str, Any]], path: Path) -> None:
    """What `read_tables` reads: JSON or CSV by the name's ending."""
    if path.suffix.lower() == ".json":
        path.write_text(json.dumps(list(tables), indent=1) + "\n", encoding="utf-8")
        return
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(tables)
    path.write_text(stream.getvalue(), encoding="utf-8")
