"""`archmodel plan --cost learned`: whole tables on ranks under a learned cost of the set on each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.interop.run import Answer, Progress, peak_memory, read_json
from archmodel.quantities import Array
from archmodel.search import tasks
from archmodel.search.baselines import BASELINES, baseline
from archmodel.search.learned.file import load
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.place import place
from archmodel.search.learned.tables import BINS, TableFeatures
from archmodel.search.options import Assignment, NoPlan, Options


def features_of(task: tasks.Task, entry: Mapping[str, Any]) -> TableFeatures:
    """Features of a task's tables; each may carry `bins`, 17 shares of its distinct rows by reuse. All or none do."""
    given = [table.get("bins") for table in entry["tables"]]
    if all(one is None for one in given):
        return TableFeatures(task.names, task.rows, task.dim, task.pooling)
    for name, one in zip(task.names, given, strict=True):
        numbers = isinstance(one, list) and all(isinstance(v, int | float) and 0 <= v <= 1 for v in one)
        if not numbers or len(one) != BINS or abs(sum(one) - 1.0) > 0.02:
            raise ArchmodelError(f"table {name}: bins must be {BINS} shares that add up to 1, for all tables or none")
    return TableFeatures(task.names, task.rows, task.dim, task.pooling, np.array(given, dtype=np.float64))


def whole_tables(task: tasks.Task, cost: Array) -> Options:
    """The options of a task that leave tables whole and in HBM, with another cost (T,)."""
    every = tasks.options(task, ["table_wise"])
    slot = every.kernels.index("fused")
    return replace(
        every,
        kinds=every.kinds[slot : slot + 1],
        kernels=every.kernels[slot : slot + 1],
        scope=every.scope[slot : slot + 1],
        count=every.count[:, slot : slot + 1],
        columns=every.columns[:, slot : slot + 1],
        cost=np.where(np.isfinite(every.cost[:, slot]), cost, np.inf)[:, None],
        memory=every.memory[:, slot : slot + 1],
    )


def plan_learned(
    file: Path,
    name: str,
    model_file: Path,
    planner: str = "search",
    budget: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Answer:
    """One task under a learned cost. Bytes are those of TorchRec's planner, as with `--cost torchrec`."""
    document = read_json(file)
    model = load(model_file)
    cpu = time.process_time()
    task = tasks.read(document, name)
    tables = features_of(task, next(t for t in document["tasks"] if str(t.get("name")) == name))
    _same_batch(model, task, model_file)
    parts = model.parts(tables)
    options = whole_tables(task, 1e3 * model.of(parts))
    interrupted = False
    if planner == "search":
        starts = []
        for other in BASELINES:
            try:
                chosen = baseline(other, task, options, seed)
            except NoPlan:
                continue
            starts.append(np.array([h[0] for h in chosen.homes], dtype=np.int64))
        found = place(
            model, tables, options.ranks, options.memory[:, 0], options.limits,
            seed=seed, budget=budget, starts=starts, progress=_in_ms(progress),
        )  # fmt: skip
        home, interrupted = found.home, found.interrupted
    else:
        home = np.array([h[0] for h in baseline(planner, task, options, seed).homes], dtype=np.int64)
    assignment = Assignment(np.zeros(len(home), dtype=np.int64), tuple((int(h),) for h in home))
    sums = np.stack([parts[home == rank].sum(0) for rank in range(options.ranks)])
    cost = 1e3 * model.of(sums)
    value = float(cost.max(initial=0.0))
    bound = min(1e3 * model.lower_bound(parts, options.ranks), value)
    outside = model.outside(tables)
    plan = tasks.to_plan(task, options, assignment)
    summary = {
        "value": value,
        "lower_bound": bound,
        "gap": (value - bound) / value if value > 0 else 0.0,
        "unit": "ms",
        "cpu_seconds": time.process_time() - cpu,
        "peak_memory": peak_memory(),
        "feasible": assignment.fits(options),
        "interrupted": interrupted,
        "rank_costs": cost.tolist(),
        "sum_of_singles": float(max(options.cost[home == rank, 0].sum() for rank in range(options.ranks))),
        "extrapolated": outside,
        "plan": plan,
    }
    rows = [
        ("fastest rank", f"{cost.min():.4f} ms (min/max {cost.min() / max(value, 1e-300):.1%})"),
        ("sums of singles", f"{summary['sum_of_singles']:.4f} ms at most"),
        ("cost model", str(model.about.get("fitted_on", ""))),
    ]
    if outside:
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        rows.append(("extrapolated", f"beyond all tables fitted: {', '.join(outside[:3])}{more}"))
    return Answer(summary, json.dumps({"plan": {"": plan}}, indent=1) + "\n", tuple(rows), "ms")


def _same_batch(model: SetCost, task: tasks.Task, model_file: Path) -> None:
    batch = task.batch * task.topology.world_size
    if model.batch is not None and model.batch != batch:
        raise ArchmodelError(
            f"{model_file} is the cost of batches of {model.batch:,}; task {task.name} has {batch:,} "
            f"({task.batch:,} on each of {task.topology.world_size} ranks)"
        )


def _in_ms(progress: Progress | None) -> Progress | None:
    return None if progress is None else lambda seconds, value, bound: progress(seconds, 1e3 * value, 1e3 * bound)
