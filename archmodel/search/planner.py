"""plan(design): the best placement of the embedding tables that the budget finds, judged by the whole estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.design import Design
from archmodel.estimate.estimate import estimate
from archmodel.estimate.result import Estimate
from archmodel.parallel.plan import TablesPlan
from archmodel.search import own
from archmodel.search.bound import lower_bound
from archmodel.search.options import NODE, RANK, Assignment, NoPlan, Options
from archmodel.search.solver import Effort, solve
from archmodel.views import Viewed

_WEIGHTS = ((1.0, 1.0), (1.0, 0.5), (1.0, 0.0), (0.5, 1.0))
"""Shares of local work and of exchange that the first plans balance: overlap hides some of either."""
_RANK_KINDS, _NODE_KINDS = ("table_wise", "column_wise"), ("table_row_wise", "grid_wise")
_ROUTES: tuple[tuple[str, ...], ...] = (
    (*_RANK_KINDS, *_NODE_KINDS, "row_wise", "data_parallel"),
    (*_RANK_KINDS, "data_parallel"),
    (*_NODE_KINDS, "data_parallel"),
    (*_RANK_KINDS, "row_wise", "data_parallel"),
    (*_RANK_KINDS, *_NODE_KINDS),
    (*_NODE_KINDS, *_RANK_KINDS, "data_parallel"),
)
"""Kinds that the first plans may use: every further route costs exchanges and kernels of its own."""
_TRIALS = 32
"""Plans tried without a budget."""


@dataclass(frozen=True)
class Plan(Viewed):
    """The best plan found. `value` is its estimate's iteration time; no plan of these tables is below `lower_bound`."""

    design: Design
    estimate: Estimate
    value: float
    lower_bound: float
    cpu_seconds: float
    tried: tuple[tuple[str, float], ...]
    interrupted: bool = False

    @property
    def gap(self) -> float:
        """(value - lower bound) / value."""
        return (self.value - self.lower_bound) / self.value if self.value > 0 else 0.0

    @property
    def fits(self) -> bool:
        """Whether it fits."""
        return bool(self.estimate.fits)

    def tables(self) -> dict[str, Any]:
        """`plan.tables` as a design file writes it: every table by name."""
        return written(self.design)

    def write(self, path: str | Path) -> None:
        """A plan file, for `plan: {use: ...}` of a design."""
        from archmodel.interop.plan_file import write_plan

        write_plan(self.design, Path(path))


def plan(
    design: Design,
    budget: float | None = None,
    *,
    seed: int = 0,
    progress: Callable[[float, float, float], None] | None = None,
) -> Plan:
    """Place every table anew: kind, pieces, tier and ranks; dtypes and optimizers stay as the plan says.

    `budget` in seconds; without one, a fixed number of plans is tried and the answer is the same every time. Starts
    from the plan as written and from `auto`, so it is never worse than either (where they fit). `progress` is called
    with seconds so far, value and bound. Raises NoPlan when nothing fits.
    """
    begin, cpu = time.perf_counter(), time.process_time()
    search = _Search(design, begin, progress)
    interrupted = False
    try:
        search.consider("as written", design)
        search.consider("auto", with_tables(design, {"default": _default(design)}))
        search.run(begin + budget if budget is not None else np.inf, seed)
    except KeyboardInterrupt:
        interrupted = True
    if search.best is None:
        raise NoPlan("no plan that fits was found: " + "; ".join(f"{name}: does not fit" for name, _ in search.tried))
    chosen, answer = search.best
    if chosen is not design:  # as a file would give it
        chosen = with_tables(design, written(chosen))
        answer = estimate(chosen)
    value = float(answer.iteration_time)
    return Plan(
        chosen, answer, value, min(search.bound, value), time.process_time() - cpu, tuple(search.tried), interrupted
    )


class _Search:
    def __init__(self, design: Design, begin: float, progress: Callable[[float, float, float], None] | None) -> None:
        self.design, self.begin, self.progress = design, begin, progress
        self.best: tuple[Design, Estimate] | None = None
        self.tried: list[tuple[str, float]] = []
        self.bound = 0.0
        self.pool: list[dict[str, Any]] = []

    def consider(self, name: str, candidate: Design) -> None:
        """Estimate a candidate and keep it when it fits and is better."""
        answer = estimate(candidate)
        value = float(answer.iteration_time)
        self.tried.append((name, value if answer.fits else np.inf))
        if answer.fits and (self.best is None or value < float(self.best[1].iteration_time)):
            self.best = candidate, answer
            if self.progress is not None:
                self.progress(time.perf_counter() - self.begin, value, self.bound)

    def run(self, deadline: float, seed: int) -> None:
        """Plans for several weights of the terms, then for weights near the best ones."""
        shared, floor, terms = own.options(self.design)
        if not shared.names:
            return
        self.bound = lower_bound(floor).value
        random = np.random.default_rng(seed)
        best_at, seen = np.array([1.0, 1.0, 1.0, 1.0]), set()
        best_value = np.inf
        first = [(w, r) for r in range(len(_ROUTES)) for w in _WEIGHTS]
        first.sort(key=lambda x: (_WEIGHTS.index(x[0]) > 0, x[1] > 0))
        best_route = 0
        masks = [np.array([k in kinds for k in shared.kinds]) for kinds in _ROUTES]
        scales = {k: np.array([kind == k for kind in shared.kinds]) for k in ("data_parallel", "row_wise")}
        trials = _TRIALS if np.isinf(deadline) else 10**9
        for i in range(trials):
            if time.perf_counter() > deadline:
                return
            route = best_route
            if i >= len(first) and i % 2 and len(self.pool) > 1:
                self._crossed(random)
                continue
            if i < len(first):
                (local, exchange), route = first[i]
                at = np.array([local, exchange, 1.0, 1.0])
            else:
                at = best_at * np.exp(random.normal(0.0, 0.5, 4))
            cost = at[0] * terms.local + at[1] * terms.exchange
            for weight, mask in zip(at[2:], scales.values(), strict=True):
                cost = np.where(mask, cost * weight, cost)
            weighed = replace(
                shared, cost=np.where(np.isfinite(shared.cost) & masks[route], np.maximum(cost, 1e-12), np.inf)
            )
            if not np.isfinite(weighed.cost).any(1).all():
                continue
            left = None if np.isinf(deadline) else max(deadline - time.perf_counter(), 0.0)
            try:
                found = solve(weighed, Effort(budget=left, rounds=8, seed=seed + i))
            except NoPlan:
                continue
            key = found.assignment.slot.tobytes() + repr(found.assignment.homes).encode()
            if key in seen:
                continue
            seen.add(key)
            self.pool.append(tables_of(self.design, shared, found.assignment))
            candidate = draft(self.design, self.pool[-1])
            self.consider(f"routes {route}, weights " + ", ".join(f"{w:.2f}" for w in at), candidate)
            if self.tried[-1][1] < best_value:
                best_value, best_at, best_route = self.tried[-1][1], at, route

    def _crossed(self, random: np.random.Generator) -> None:
        """The best plan with a few tables as another plan has them."""
        assert self.best is not None or self.pool
        base = written(self.best[0]) if self.best is not None else self.pool[0]
        other = self.pool[int(random.integers(len(self.pool)))]["assign"]
        names = [n for n, entry in base["assign"].items() if entry != other[n]]
        if not names:
            return
        picked = random.choice(names, min(len(names), int(random.integers(1, 4))), replace=False).tolist()
        tables = {**base, "assign": {**base["assign"], **{n: other[n] for n in picked}}}
        self.consider("crossed " + ", ".join(picked), draft(self.design, tables))


def _default(design: Design) -> dict[str, Any]:
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
        entry |= {"tier": options.kernels[slot], "dtype": base.dtype[t], "optimizer": base.optimizer[t]}
        assign[name] = entry
    return {"default": _default(design), "assign": assign}


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
        assign[name] = entry
    return {"default": _default(design), "assign": assign}
