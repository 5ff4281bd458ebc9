"""Planning tasks under TorchRec's cost: tables, batch and topology in; options out; plans back in TorchRec's words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel.errors import ArchmodelError, suggestion
from archmodel.quantities import Array
from archmodel.search import torchrec as tr
from archmodel.search.options import NODE, RANK, WORLD, Assignment, IntArray, NoPlan, Options

KERNELS = ("fused", "fused_uvm", "fused_uvm_caching")
_SCOPE = {"row_wise": WORLD, "data_parallel": WORLD, "table_row_wise": NODE, "grid_shard": NODE}


@dataclass(frozen=True)
class Constraint:
    """What a table may be: None means anything."""

    sharding_types: tuple[str, ...] | None = None
    compute_kernels: tuple[str, ...] | None = None
    min_partition: int | None = None
    load_factor: float | None = None
    is_weighted: bool = False


@dataclass(frozen=True)
class Task:
    """Tables (T,), the batch of one rank, and the machine."""

    name: str
    names: tuple[str, ...]
    rows: IntArray
    dim: IntArray
    pooling: Array
    batch: int
    topology: tr.Topology
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    min_partition: int = tr.MIN_COLUMNS
    weighted: bool = False
    element: float = 4.0
    optimizer: float = 0.0
    reserved: float = tr.RESERVED_SHARE

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise ArchmodelError("\n".join(problems[:50]))


def _problems(task: Task) -> list[str]:
    found = []
    known: set[str] = set()
    for t, name in enumerate(task.names):
        if name in known:
            found.append(f"table {name}: the name is used twice")
        known.add(name)
        rows, dim, pooling = int(task.rows[t]), int(task.dim[t]), float(task.pooling[t])
        if rows < 0:
            found.append(f"table {name}: rows {rows} is negative")
        if dim < 1:
            found.append(f"table {name}: dim {dim} must be at least 1")
        if not math.isfinite(pooling) or pooling < 0:
            found.append(f"table {name}: pooling {pooling} must be a finite number, at least 0")
    if task.batch < 1:
        found.append(f"batch_per_rank {task.batch} must be at least 1")
    topology = task.topology
    if topology.world_size < 1 or topology.local_world_size < 1:
        found.append("world_size and local_world_size must be at least 1")
    if not task.names:
        found.append(f"task {task.name} has no tables")
    for name, constraint in task.constraints.items():
        if name not in known:
            found.append(f"constraint for {name}: no such table; {suggestion(name, task.names)}")
        for value in constraint.sharding_types or ():
            if value not in tr.KINDS:
                found.append(f"constraint for {name}: sharding type {value} is unknown; {suggestion(value, tr.KINDS)}")
        for value in constraint.compute_kernels or ():
            if value not in (*KERNELS, "dense"):
                near = suggestion(value, (*KERNELS, "dense"))
                found.append(f"constraint for {name}: compute kernel {value} is not planned for; {near}")
    return found


def read(document: Mapping[str, Any], name: str, **settings: Any) -> Task:
    """One task of a file {"tasks": [{name, tables: [{name, rows, dim, pooling}], batch_per_rank, topology}]}."""
    entries = document.get("tasks") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(t, Mapping) for t in entries):
        raise ArchmodelError('a file of tasks is {"tasks": [{"name": ...}, ...]}; see docs/planner.md')
    tasks = {str(t.get("name")): t for t in entries}
    if name not in tasks:
        raise ArchmodelError(f"no task {name} in the file; {suggestion(name, list(tasks))}")
    return from_dict(tasks[name], **settings)


def from_dict(entry: Mapping[str, Any], **settings: Any) -> Task:
    """A task from its entry."""
    try:
        tables: Sequence[Mapping[str, Any]] = entry["tables"]
        machine = entry["topology"]
        topology = tr.Topology(
            int(machine["world_size"]),
            int(machine.get("local_world_size", machine["world_size"])),
            float(machine.get("hbm_cap", 32 * 1024**3)),
            float(machine.get("ddr_cap", 128 * 1024**3)),
            str(machine.get("compute_device", "cuda")),
        )
        rows, dims = [int(t["rows"]) for t in tables], [int(t["dim"]) for t in tables]
        pooling = [float(t.get("pooling", 1.0)) for t in tables]
        batch, names = int(entry["batch_per_rank"]), tuple(str(t["name"]) for t in tables)
    except (KeyError, TypeError, ValueError) as error:
        raise ArchmodelError(f"task {entry.get('name')}: {type(error).__name__} {error}; see docs/planner.md") from None
    return Task(
        str(entry.get("name", "task")),
        names,
        np.array(rows, dtype=np.int64),
        np.array(dims, dtype=np.int64),
        np.array(pooling, dtype=np.float64),
        batch,
        topology,
        **settings,
    )


@dataclass(frozen=True)
class _Slot:
    kind: str
    kernel: str
    columns: IntArray  # (T,), width of each shard
    count: IntArray
    valid: npt.NDArray[np.bool_]


def _slots(task: Task, kinds: Sequence[str]) -> list[tuple[str, IntArray, IntArray, npt.NDArray[np.bool_]]]:
    """(kind, columns (T,), shards (T,), valid (T,)) of every cut."""
    topology = task.topology
    least = [task.min_partition] * len(task.names)
    index = {n: t for t, n in enumerate(task.names)}
    for name, constraint in task.constraints.items():
        if constraint.min_partition is not None:
            least[index[name]] = constraint.min_partition
    one = np.ones(len(task.names), dtype=np.int64)
    whole_host = topology.world_size >= topology.local_world_size
    by_key: dict[tuple[int, int], list[int]] = {}
    splits = []
    for t, d in enumerate(task.dim.tolist()):
        key = (d, least[t])
        if key not in by_key:
            by_key[key] = tr.column_splits(*key)
        splits.append(by_key[key])
    result = []
    for kind in kinds:
        if kind in ("table_row_wise", "grid_shard") and not whole_host:
            continue
        if kind in ("column_wise", "table_column_wise", "grid_shard"):
            for j in range(max(map(len, splits))):
                width = np.array([s[j] if j < len(s) else 0 for s in splits], dtype=np.int64)
                valid = width > 0
                columns = np.where(valid, width, task.dim)
                count = task.dim // columns
                if kind == "grid_shard":
                    valid &= count <= topology.world_size // topology.local_world_size
                if kind == "table_column_wise":
                    valid &= count <= topology.local_world_size
                if valid.any():
                    result.append((kind, columns, count, valid))
        else:
            result.append((kind, task.dim, one, one > 0))
    return result


def options(task: Task, kinds: Sequence[str] | None = None) -> Options:
    """Every option of every table with its cost and bytes. Table-column-wise shards cost what column-wise ones do and
    may sit on fewer ranks, so they are offered only to tables whose constraint does not allow column-wise."""
    wanted = list(kinds or (k for k in tr.KINDS if k != "table_column_wise" or _named(task, k)))
    topology, tables = task.topology, len(task.names)
    rows, dim = task.rows.astype(np.float64), task.dim.astype(np.float64)
    cpu = topology.compute_device == "cpu"
    model_parallel = ("fused",) if cpu else KERNELS
    caching, weighted = _cached_and_weighted(task)
    slots, costs, bytes_ = [], [], []
    for kind, columns, count, valid in _slots(task, wanted):
        kernels = ("dense",) if kind == "data_parallel" else model_parallel
        rates = np.stack([np.broadcast_to(tr.bandwidth(k, topology.compute_device, caching), tables) for k in kernels])
        members = {WORLD: topology.world_size, NODE: topology.local_world_size, RANK: 1}[_SCOPE.get(kind, RANK)]
        if kind == "data_parallel":
            members = 1
        block, wide = np.ceil(rows / members), columns.astype(np.float64)
        perf = tr.perf(
            kind,
            topology,
            task.batch,
            rows,
            wide,
            task.pooling,
            kernel_bandwidth=rates,
            element=task.element,
            weighted=weighted,
        ).total
        io = tr.shard_io(kind, topology, task.batch, wide, task.pooling, task.element)
        for k, kernel in enumerate(kernels):
            held = tr.storage(
                kernel,
                io,
                block,
                wide,
                rows,
                dim,
                element=task.element,
                optimizer=task.optimizer,
                device=topology.compute_device,
                caching=caching,
            )
            slots.append(_Slot(kind, kernel, columns, count, valid))
            costs.append(np.where(valid, perf[k], np.inf))
            bytes_.append(np.stack([held.hbm, held.ddr], axis=-1))
    cost = np.stack(costs, axis=1)
    if "table_column_wise" in wanted:
        asked = {n for n, c in task.constraints.items() if c.sharding_types}
        unasked = [t for t, n in enumerate(task.names) if n not in asked]
        for o, slot in enumerate(slots):
            if slot.kind == "table_column_wise":
                cost[unasked, o] = np.inf
    _constrain(task, slots, cost)
    limit = [tr.usable_hbm(topology, task.batch, task.pooling, task.reserved), topology.ddr_cap]
    if limit[0] < 0 or (limit[0] == 0 and not cpu):
        gib = 1024.0**3
        raise NoPlan(
            f"no hbm is left for tables: {topology.hbm_cap / gib:.2f} GiB less {task.reserved:.0%} and "
            f"{tr.INPUT_COPIES} copies of the input leaves {limit[0] / gib:.2f} GiB; raise hbm_cap or lower the batch"
        )
    return Options(
        task.names,
        topology.world_size,
        min(topology.local_world_size, topology.world_size),
        tuple(s.kind for s in slots),
        tuple(s.kernel for s in slots),
        np.array([_SCOPE.get(s.kind, RANK) for s in slots], dtype=np.int64),
        np.stack([s.count for s in slots], axis=1) if slots else np.zeros((tables, 0), dtype=np.int64),
        np.stack([s.columns for s in slots], axis=1),
        cost,
        np.stack(bytes_, axis=1),
        np.broadcast_to(np.array(limit), (topology.world_size, 2)).copy(),
    )


def _cached_and_weighted(task: Task) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Share of every table that a cache of it holds, and whether its lookups have weights, (T,)."""
    none = Constraint()
    of = [task.constraints.get(name, none) for name in task.names]
    caching = [tr.CACHING_RATIO if c.load_factor is None else c.load_factor for c in of]
    return np.array(caching, dtype=np.float64), np.array([task.weighted or c.is_weighted for c in of], dtype=bool)


def _constrain(task: Task, slots: Sequence[_Slot], cost: Array) -> None:
    if not task.constraints:
        return
    index = {n: t for t, n in enumerate(task.names)}
    for name, constraint in task.constraints.items():
        t = index[name]
        for o, slot in enumerate(slots):
            kinds, kernels = constraint.sharding_types, constraint.compute_kernels
            if (kinds is not None and slot.kind not in kinds) or (kernels is not None and slot.kernel not in kernels):
                cost[t, o] = np.inf
        if not np.isfinite(cost[t]).any():
            asked = " or ".join(constraint.sharding_types or ("any kind",))
            through = " or ".join(constraint.compute_kernels or ("any kernel",))
            raise NoPlan(
                f"table {name}: nothing on {task.topology.compute_device} is {asked} with {through}; there are "
                f"{', '.join(sorted({f'{s.kind} ({s.kernel})' for s in slots}))}"
            )


def _named(task: Task, kind: str) -> bool:
    """Whether a constraint asks for a kind."""
    return any(kind in (c.sharding_types or ()) for c in task.constraints.values())


def to_plan(task: Task, options: Options, assignment: Assignment) -> dict[str, dict[str, Any]]:
    """{table: {sharding_type, compute_kernel, ranks, shards}} as TorchRec writes plans; shards tile their table."""
    plan: dict[str, dict[str, Any]] = {}
    local = task.topology.local_world_size
    for t, name in enumerate(task.names):
        slot, homes = int(assignment.slot[t]), assignment.homes[t]
        rows, width = int(task.rows[t]), int(options.columns[t, slot])
        scope = options.scope[slot]
        entry: dict[str, Any] = {"sharding_type": options.kinds[slot], "compute_kernel": options.kernels[slot]}
        if scope == WORLD:
            ranks = list(range(options.ranks))
        elif scope == NODE:
            ranks = [h * local + i for h in homes for i in range(local)]
        else:
            ranks = list(homes)
        entry["ranks"] = ranks
        if options.kinds[slot] != "data_parallel":
            members = 1 if scope == RANK else options.ranks if scope == WORLD else local
            block = -(-rows // members)
            entry["shards"] = [
                {
                    "shard_offsets": [first := min(block * (i % members), rows), width * (i // members)],
                    "shard_sizes": [min(block, rows - first), width],
                    "placement": f"rank:{rank}/{task.topology.compute_device}:{rank % local}",
                }
                for i, rank in enumerate(ranks)
            ]
        plan[name] = entry
    return plan
