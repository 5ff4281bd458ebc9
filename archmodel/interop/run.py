"""Planning from files to files: what `archmodel plan` prints and writes."""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archmodel.design import Design
from archmodel.errors import ArchmodelError

if TYPE_CHECKING:
    from archmodel.search.planner import Weights

Progress = Callable[[float, float, float], None]
_EXACT_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """A summary for --json, the text of the plan file, and (name, value) rows for people."""

    summary: dict[str, Any]
    text: str
    rows: tuple[tuple[str, str], ...]
    unit: str
    design: Design | None = None


def peak_memory() -> int:
    """Most bytes that this process has held; on Linux its own record, since getrusage counts what its parent held when
    it was forked."""
    status = Path("/proc/self/status")
    if status.exists():
        held = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if held is not None:
            return int(held.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def read_json(path: Path) -> Any:
    """A JSON file; ArchmodelError with place when it is not one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ArchmodelError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ArchmodelError(f"{path}: is not UTF-8 text") from None


def plan_task(
    file: Path,
    name: str,
    planner: str,
    budget: float | None,
    seed: int,
    min_partition: int | None,
    constraints: Path | None,
    progress: Progress | None,
    exact: bool = False,
) -> Answer:
    """One task under TorchRec's cost. `exact`: a fixed search, then the exact programme for the budget or a minute."""
    from archmodel.interop.torchrec import read_constraints
    from archmodel.search import tasks
    from archmodel.search.baselines import baseline
    from archmodel.search.bound import lower_bound
    from archmodel.search.exact import finish
    from archmodel.search.narrow import solve_task
    from archmodel.search.solver import Effort

    document = read_json(file)
    cpu = time.process_time()
    settings: dict[str, Any] = {}
    if min_partition is not None:
        settings["min_partition"] = min_partition
    if constraints is not None:
        settings["constraints"] = read_constraints(read_json(constraints)).known
    task = tasks.read(document, name, **settings)
    interrupted = False
    if planner == "search":
        effort = Effort(budget=None if exact else budget, seed=seed, progress=progress)
        narrow = min_partition is None and constraints is None
        task, options, solution = solve_task(task, effort, narrow=narrow)
        if exact and not solution.interrupted:
            solution = finish(solution, _EXACT_SECONDS if budget is None else budget)
        assignment, bound, interrupted = solution.assignment, solution.lower_bound, solution.interrupted
    else:
        options = tasks.options(task)
        assignment = baseline(planner, task, options, seed)
        bound = lower_bound(options.that_fit()).value
    value, feasible = assignment.value(options), assignment.fits(options)
    plan = tasks.to_plan(task, options, assignment)
    spent = time.process_time() - cpu
    summary = {
        "value": value,
        "lower_bound": min(bound, value),
        "gap": (value - min(bound, value)) / value if value > 0 else 0.0,
        "unit": "ms",
        "cpu_seconds": spent,
        "peak_memory": peak_memory(),
        "feasible": feasible,
        "interrupted": interrupted,
        "min_partition": task.min_partition,
        "plan": plan,
    }
    text = json.dumps({"plan": {"": plan}}, indent=1) + "\n"
    kinds: dict[str, int] = {}
    for entry in plan.values():
        key = f"{entry['sharding_type']} ({entry['compute_kernel']})"
        kinds[key] = kinds.get(key, 0) + 1
    return Answer(summary, text, tuple((f"{v} tables", k) for k, v in sorted(kinds.items(), key=lambda x: -x[1])), "ms")


def plan_design(
    design: Design,
    budget: float | None,
    seed: int,
    limits: Path | None,
    weights: Weights | None,
    progress: Progress | None,
    restarts: int = 1,
    workers: int = 1,
    scheduler: str | None = None,
) -> Answer:
    """A design under its own estimate: the best plan of `restarts` seeds."""
    from archmodel.interop.plan_file import plan_text
    from archmodel.search.limits import read_limits
    from archmodel.search.planner import plan

    bound = read_limits(limits, design) if limits is not None else None
    if restarts == 1 and scheduler is None:
        found = plan(design, budget, seed=seed, weights=weights, limits=bound, progress=progress)
    else:
        from archmodel.search.restarts import restarted

        found = restarted(
            design, restarts, budget, seed=seed, weights=weights, limits=bound, workers=workers, scheduler=scheduler,
            progress=progress,
        )  # fmt: skip
    tables = found.tables()
    summary = {
        "value": found.value,
        "lower_bound": found.lower_bound,
        "gap": found.gap,
        "unit": "s",
        "cpu_seconds": found.cpu_seconds,
        "peak_memory": peak_memory(),
        "feasible": found.fits,
        "interrupted": found.interrupted,
        "nodes": found.design.system.nodes,
        "plan": tables,
    }
    kinds: dict[str, int] = {}
    for entry in tables["assign"].values():
        key = f"{entry['sharding']} in {entry['tier']}"
        kinds[key] = kinds.get(key, 0) + 1
    rows = [(f"{v} table{'s' * (v > 1)}", k) for k, v in sorted(kinds.items(), key=lambda x: -x[1])]
    if weights is not None:
        summary["score"] = found.score
        rows += [("nodes", str(found.design.system.nodes)), ("score", f"{found.score:.4f}")]
    rows += [
        (name, f"{1e3 * value:.4f} ms" if math.isfinite(value) else "does not fit, or breaks the limits")
        for name, value in found.tried
        if name in ("as written", "auto")
    ]
    return Answer(summary, plan_text(found.design), tuple(rows), "s", found.design)
