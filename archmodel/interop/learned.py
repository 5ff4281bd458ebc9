"""`archmodel plan --cost learned`: whole tables on ranks under a learned cost of the set on each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.design import Design
from archmodel.errors import ArchmodelError
from archmodel.interop.run import Answer, Progress, peak_memory, read_json
from archmodel.quantities import Array
from archmodel.search import tasks
from archmodel.search.baselines import BASELINES, baseline
from archmodel.search.learned.cuts import place_cut, shards_of
from archmodel.search.learned.file import load
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.place import place
from archmodel.search.learned.tables import BINS, PLAIN, TableFeatures, expected_bins
from archmodel.search.options import Assignment, IntArray, NoPlan, Options


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
    return one_slot(every, every.kernels.index("fused"), cost)


def one_slot(every: Options, slot: int, cost: Array) -> Options:
    """One option for every table, with another cost (T,); inf where there was none."""
    only = slice(slot, slot + 1)
    return replace(
        every,
        kinds=every.kinds[only],
        kernels=every.kernels[only],
        scope=every.scope[only],
        count=every.count[:, only],
        columns=every.columns[:, only],
        cost=np.where(np.isfinite(every.cost[:, only]), cost[:, None], np.inf),
        memory=every.memory[:, only],
    )


def plan_learned(
    file: Path,
    name: str,
    model_file: Path,
    planner: str = "search",
    budget: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    min_partition: int | None = None,
) -> Answer:
    """One task under a learned cost. Bytes are those of TorchRec's planner, as with `--cost torchrec`. Tables stay
    whole, or with `min_partition` are cut into column-wise shards of at least so many columns."""
    document = read_json(file)
    model = load(model_file)
    cpu = time.process_time()
    task = tasks.read(document, name, **({} if min_partition is None else {"min_partition": min_partition}))
    tables = features_of(task, next(t for t in document["tasks"] if str(t.get("name")) == name))
    ranks = task.topology.world_size
    _same_batch(model, task.batch * ranks, f"task {name} has {task.batch:,} on each of {ranks} ranks", model_file)
    alone = 1e3 * model.of(model.parts(tables))
    options = whole_tables(task, alone)
    homes = _published(task, options, seed)
    if planner != "search":
        assignment, interrupted = baseline(planner, task, options, seed), False
        plan = tasks.to_plan(task, options, assignment)
    elif min_partition is None:
        starts = list(homes.values())
        assignment, interrupted = _searched(model, tables, options, seed, budget, starts, progress)
        plan = tasks.to_plan(task, options, assignment)
    else:
        every = tasks.options(task, ["table_wise", "column_wise"])
        cut = place_cut(
            model, tables, ranks, lambda pieces: every.memory[_pieced(every, pieces)], options.limits,
            least=min_partition, seed=seed, budget=budget, starts=list(homes.values()), progress=_in_ms(progress),
        )  # fmt: skip
        tables, of = shards_of(tables, cut.pieces)
        placed, interrupted = cut.placed.home.tolist(), cut.placed.interrupted
        where = tuple(tuple(placed[s] for s in np.flatnonzero(of == t).tolist()) for t in range(len(task.names)))
        plan = tasks.to_plan(task, every, Assignment(_pieced(every, cut.pieces)[1], where))
        options = _as_tables(
            options, tables, 1e3 * model.of(model.parts(tables)), every.memory[_pieced(every, cut.pieces)][of]
        )
        assignment, homes = Assignment(np.zeros(len(of), dtype=np.int64), tuple((h,) for h in placed)), {}
    summary, rows = _told(model, tables, options, assignment, homes)
    summary |= {
        "cpu_seconds": time.process_time() - cpu,
        "peak_memory": peak_memory(),
        "interrupted": interrupted,
        "plan": plan,
    }
    return Answer(summary, json.dumps({"plan": {"": plan}}, indent=1) + "\n", rows, "ms")


def _pieced(every: Options, pieces: IntArray) -> tuple[IntArray, IntArray]:
    """(table, slot) of each table in so many column-wise pieces, in HBM."""
    fused = np.array([k == "fused" for k in every.kernels])
    found = (every.count == pieces[:, None]) & np.isfinite(every.cost) & fused
    return np.arange(len(pieces)), found.argmax(1)


def _as_tables(whole: Options, shards: TableFeatures, cost: Array, memory: Array) -> Options:
    """Options of shards that are placed like whole tables."""
    one = np.ones((len(shards), 1), dtype=np.int64)
    return replace(
        whole, names=shards.names, count=one, columns=shards.dim[:, None], cost=cost[:, None], memory=memory[:, None]
    )


def plan_design_learned(
    design: Design,
    model_file: Path,
    budget: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Answer:
    """A design's tables, whole and in HBM, under a learned cost; the whole estimate of the plan stands beside it.

    Bins of reuse are those expected of each table's access distribution. Bytes and limits are the design's own. Raises
    NoPlan when whole tables do not fit.
    """
    from archmodel.estimate.estimate import estimate
    from archmodel.interop.plan_file import plan_text
    from archmodel.search import own
    from archmodel.search.planner import tables_of, with_tables, written

    model = load(model_file)
    cpu = time.process_time()
    batch = design.workload.global_batch
    _same_batch(model, batch, "the design's global batch", model_file)
    tables = features_of_design(design, bins=len(model.columns) > len(PLAIN))
    every = own.options(design)[0]
    slot = [
        i for i, (k, t) in enumerate(zip(every.kinds, every.kernels, strict=True)) if (k, t) == ("table_wise", "hbm")
    ]
    options = one_slot(every, slot[0], 1e3 * model.of(model.parts(tables)))
    assignment, interrupted = _searched(model, tables, options, seed, budget, [], progress)
    chosen = with_tables(design, tables_of(design, options, assignment))
    answer = estimate(chosen)
    summary, rows = _told(model, tables, options, assignment, {})
    summary |= {
        "feasible": bool(answer.fits),
        "iteration_time": float(answer.iteration_time),
        "cpu_seconds": time.process_time() - cpu,
        "peak_memory": peak_memory(),
        "interrupted": interrupted,
        "plan": written(chosen),
    }
    rows = (("whole estimate", f"{1e3 * float(answer.iteration_time):.4f} ms an iteration"), *rows)
    return Answer(summary, plan_text(chosen), rows, "ms")


def features_of_design(design: Design, *, bins: bool) -> TableFeatures:
    """Features of a design's tables (T,); with `bins`, by their access distributions and the global batch."""
    tables = design.workload.table_arrays
    draws = tables.pooling_factor * design.workload.global_batch
    shares = None
    if bins:
        shares = np.zeros((len(tables), BINS))
        for d, access in enumerate(tables.distributions):
            mine = tables.distribution_of == d
            shares[mine] = expected_bins(access, tables.num_embeddings[mine].astype(np.float64), draws[mine])
    return TableFeatures(
        tables.names, tables.num_embeddings, tables.embedding_dim, np.asarray(tables.pooling_factor), shares
    )


def _published(task: tasks.Task, options: Options, seed: int) -> dict[str, IntArray]:
    """Plans of the published planners (T,), of those that find one."""
    found = {}
    for name in BASELINES:
        try:
            found[name] = _homes(baseline(name, task, options, seed))
        except NoPlan:
            continue
    return found


def _homes(assignment: Assignment) -> IntArray:
    return np.array([h[0] for h in assignment.homes], dtype=np.int64)


def _searched(
    model: SetCost,
    tables: TableFeatures,
    options: Options,
    seed: int,
    budget: float | None,
    starts: Sequence[IntArray],
    progress: Progress | None,
) -> tuple[Assignment, bool]:
    found = place(
        model,
        tables,
        options.ranks,
        options.memory[:, 0],
        options.limits,
        seed=seed,
        budget=budget,
        starts=starts,
        progress=_in_ms(progress),
    )
    homes = tuple((int(h),) for h in found.home)
    return Assignment(np.zeros(len(homes), dtype=np.int64), homes), found.interrupted


def _told(
    model: SetCost,
    tables: TableFeatures,
    options: Options,
    assignment: Assignment,
    published: Mapping[str, IntArray],
) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """What --json says of a plan under the learned cost, in ms, and rows for people."""
    parts = model.parts(tables)

    def costs(home: IntArray) -> Array:
        return 1e3 * model.of(np.stack([parts[home == rank].sum(0) for rank in range(options.ranks)]))

    home = _homes(assignment)
    cost = costs(home)
    value = float(cost.max(initial=0.0))
    bound = min(1e3 * model.lower_bound(parts, options.ranks), value)
    outside = model.outside(tables)
    added = max(float(options.cost[home == rank, 0].sum()) for rank in range(options.ranks))
    summary: dict[str, Any] = {
        "value": value,
        "lower_bound": bound,
        "gap": (value - bound) / value if value > 0 else 0.0,
        "unit": "ms",
        "feasible": assignment.fits(options),
        "rank_costs": cost.tolist(),
        "sum_of_singles": added,
        "published_planners": {name: float(costs(other).max()) for name, other in published.items()},
        "extrapolated": outside,
    }
    rows = [
        ("fastest rank", f"{cost.min():.4f} ms (min/max {cost.min() / max(value, 1e-300):.1%})"),
        ("sums of singles", f"{added:.4f} ms at most"),
        *((f"by {name}", f"{v:.4f} ms") for name, v in summary["published_planners"].items()),
        ("cost model", str(model.about.get("fitted_on", ""))),
    ]
    if outside:
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        rows.append(("extrapolated", f"beyond all tables fitted: {', '.join(outside[:3])}{more}"))
    return summary, tuple(rows)


def _same_batch(model: SetCost, batch: int, what: str, model_file: Path) -> None:
    if model.batch is not None and model.batch != batch:
        raise ArchmodelError(f"{model_file} is the cost of batches of {model.batch:,}, not of {batch:,} ({what})")


def _in_ms(progress: Progress | None) -> Progress | None:
    return None if progress is None else lambda seconds, value, bound: progress(seconds, 1e3 * value, 1e3 * bound)
