"""The planner from several seeds at once, in processes of this machine or on a Dask cluster, and the best of the plans.

What each seed finds does not depend on where it ran, and of equal plans the one of the lowest seed is taken: the answer
is the same wherever it was found, unless a time ends the search.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

from archmodel import __version__
from archmodel.design import Design
from archmodel.estimate.estimate import estimate
from archmodel.search.limits import Limits, Restrictions, bind
from archmodel.search.options import NoPlan
from archmodel.search.plan_tables import with_tables, written
from archmodel.search.planner import Plan, Weights, on_nodes, plan
from archmodel.search.record import SearchError
from archmodel.sweep.executors import mapped


def restarted(
    design: Design,
    restarts: int,
    budget: float | None = None,
    *,
    seed: int = 0,
    trials: int | None = None,
    weights: Weights | None = None,
    limits: Limits | Restrictions | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Callable[[float, float, float], None] | None = None,
) -> Plan:
    """The best plan of the seeds `seed` to `seed + restarts - 1`; `budget` seconds each. See `planner.plan`.

    `workers`: processes; `scheduler`: address of a Dask scheduler to use in their place. Raises NoPlan when no seed
    finds a plan, SearchError and SweepError for what cannot run.
    """
    if restarts < 1:
        raise SearchError(f"{restarts} restarts: at least 1 is needed")
    if isinstance(limits, Limits):
        limits = bind(limits, design)
    begin = time.perf_counter()
    job = pickle.dumps((design, budget, trials, weights, limits), protocol=pickle.HIGHEST_PROTOCOL)
    finds: list[dict[str, Any]] = []
    best = float("inf")
    for found in mapped(_restart, [(job, seed + i) for i in range(restarts)], workers, scheduler):
        if found["version"] != __version__:
            raise SearchError(f"a worker runs archmodel {found['version']}, this is {__version__}")
        finds.append(found)
        if progress is not None and found.get("value", best) < best:
            best = found["value"]
            progress(time.perf_counter() - begin, best, found["lower_bound"])
    good = [found for found in finds if "score" in found]
    if not good:
        raise NoPlan(finds[0]["reason"])
    first = min(good, key=lambda found: (found["score"], found["seed"]))
    chosen = with_tables(on_nodes(design, first["nodes"]), first["tables"])
    answer = estimate(chosen)
    value = float(answer.iteration_time)
    bound = max(found["lower_bound"] for found in good if found["nodes"] == first["nodes"])
    return Plan(
        chosen,
        answer,
        value,
        min(bound, value),
        sum(found["cpu_seconds"] for found in good),
        tuple(tried for found in good for tried in found["tried"]),
        any(found["interrupted"] for found in good),
        first["score"],
    )


def _restart(job: bytes, seed: int) -> dict[str, Any]:
    """What one seed finds, in whichever process."""
    design, budget, trials, weights, limits = pickle.loads(job)
    try:
        found: Plan = plan(design, budget, seed=seed, trials=trials, weights=weights, limits=limits)
    except NoPlan as error:
        return {"version": __version__, "seed": seed, "reason": str(error)}
    return {
        "version": __version__,
        "seed": seed,
        "score": found.score,
        "value": found.value,
        "lower_bound": found.lower_bound,
        "cpu_seconds": found.cpu_seconds,
        "tried": found.tried,
        "interrupted": found.interrupted,
        "nodes": found.design.system.nodes,
        "tables": written(found.design),
    }
