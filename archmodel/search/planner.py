"""plan(design): the best placement of the embedding tables that the budget finds, judged by the whole estimate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.design import Design, capacities
from archmodel.errors import ArchmodelError
from archmodel.estimate.estimate import estimate
from archmodel.estimate.result import Estimate
from archmodel.interop.plan_file import write_plan
from archmodel.quantities import show
from archmodel.search import own
from archmodel.search.limits import Limits, Restrictions, bind
from archmodel.search.options import NoPlan, Options
from archmodel.search.plan_tables import default_of, draft, tables_of, with_tables, written
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
_TRIALS, _FEWEST, _ALL = 32, 8, 32_000
"""Plans tried without a budget, up to so many tables times ranks; of more, fewer, as the root of their number."""


@dataclass(frozen=True)
class Weights:
    """What a plan is judged by: the weighed sum of its iteration time over the first plan's, of the share of its
    fullest memory that is in use, and of its nodes over the design's. With a weight of nodes, fewer are tried too."""

    time: float = 1.0
    memory: float = 0.0
    nodes: float = 0.0

    def __post_init__(self) -> None:
        given = (self.time, self.memory, self.nodes)
        if not all(np.isfinite(w) and w >= 0 for w in given) or not any(given):
            raise ArchmodelError("weights of time, memory and nodes must be finite, at least 0, and not all 0")

    def score(self, answer: Estimate, seconds: float, nodes: int) -> float:
        """Lower is better. `seconds`, `nodes`: of the plan that others are measured by."""
        fullest = max(m.worst / float(np.min(m.capacity)) for m in answer.memory.values())
        return (
            self.time * float(answer.iteration_time) / seconds
            + self.memory * fullest
            + self.nodes * answer.design.system.nodes / nodes
        )


@dataclass(frozen=True, repr=False)
class Plan(Viewed):
    """The best plan found. `value` is its estimate's iteration time; no plan of these tables on these nodes is below
    `lower_bound`. `score` is what it was judged by: `value` itself unless weights say otherwise."""

    design: Design
    estimate: Estimate
    value: float
    lower_bound: float
    cpu_seconds: float
    tried: tuple[tuple[str, float], ...]
    interrupted: bool = False
    score: float = float("nan")

    def __repr__(self) -> str:
        found, bound = show(self.value, "seconds", 4), show(self.lower_bound, "seconds", 4)
        return f"<Plan for {self.design.name!r}: {found}, at least {bound} (gap {100 * self.gap:.1f} %)>"

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
        write_plan(self.design, Path(path))


def plan(
    design: Design,
    budget: float | None = None,
    *,
    seed: int = 0,
    trials: int | None = None,
    weights: Weights | None = None,
    limits: Limits | Restrictions | None = None,
    progress: Callable[[float, float, float], None] | None = None,
    bounded: bool = True,
) -> Plan:
    """Place every table anew: kind, pieces, tier and ranks; dtypes and optimizers stay as the plan says.

    `budget` in seconds; without one, `trials` plans are tried and the answer is the same every time. Starts
    from the plan as written and from `auto`, so it is never worse than either (where they fit and keep the `limits`).
    `weights`: what to judge by, iteration time alone when left out. `progress` is called with seconds so far, value and
    bound. Not `bounded`: nothing is proven and the bound is 0, which takes less time. Raises NoPlan when nothing fits.
    """
    begin, cpu = time.perf_counter(), time.process_time()
    deadline = begin + budget if budget is not None else np.inf
    weights = weights or Weights()
    if isinstance(limits, Limits):
        limits = bind(limits, design)
    counts = [design.system.nodes]
    while weights.nodes > 0 and counts[-1] > 1:
        counts.append(counts[-1] // 2)
    finds: list[_Search] = []
    interrupted = False
    try:
        for i, nodes in enumerate(counts):
            search = _Search(on_nodes(design, nodes), begin, weights, limits, progress, finds)
            finds.append(search)
            if nodes == design.system.nodes:
                search.consider("as written", design)
            search.consider("auto", with_tables(search.design, {"default": default_of(design)}))
            now = time.perf_counter()
            search.run(now + (deadline - now) / (len(counts) - i), seed, trials, bounded=bounded)
    except KeyboardInterrupt:
        interrupted = True
    found = [s for s in finds if s.best is not None]
    if not found:
        reasons = [f"{name}: {s.refused.get(name, 'does not fit')}" for s in finds for name, _ in s.tried]
        raise NoPlan("no plan that fits was found: " + "; ".join([*_too_large(design), *reasons[:8]]))
    search = min(found, key=lambda s: s.score)
    assert search.best is not None
    chosen, answer = search.best
    if chosen is not design:  # as a file would give it
        chosen = with_tables(search.design, written(chosen))
        answer = estimate(chosen)
    value = float(answer.iteration_time)
    return Plan(
        chosen,
        answer,
        value,
        min(search.bound, value),
        time.process_time() - cpu,
        tuple(t for s in finds for t in s.tried),
        interrupted,
        search.score,
    )


def _too_large(design: Design) -> list[str]:
    """That all memories together do not hold the tables, if so."""
    placement = design.placement
    needed = float(placement.tables.num_embeddings[placement.table] @ placement.home_row_bytes)
    there = sum(capacities(design.system).values()) * design.layout.ranks
    said = f"tables and optimizer state are {show(needed, 'bytes')}, all memories together {show(there, 'bytes')}"
    return [said] if needed > there else []


def on_nodes(design: Design, nodes: int) -> Design:
    """The design on fewer nodes, its tables placed anew."""
    if nodes == design.system.nodes:
        return design
    return design.with_({"system.nodes": nodes, "plan.tables": {"default": default_of(design)}})


class _Search:
    """Plans of one design. `score` of the best one; `refused`: why a plan does not count."""

    def __init__(
        self,
        design: Design,
        begin: float,
        weights: Weights,
        limits: Restrictions | None,
        progress: Callable[[float, float, float], None] | None,
        before: Sequence[_Search],
    ) -> None:
        self.design, self.begin, self.progress = design, begin, progress
        self.weights, self.limits = weights, limits
        self.best: tuple[Design, Estimate] | None = None
        self.score = np.inf
        self.tried: list[tuple[str, float]] = []
        self.refused: dict[str, str] = {}
        self.bound = 0.0
        self.pool: list[dict[str, Any]] = []
        self.first = before[0] if before else self
        self.unit: tuple[float, int] | None = None

    def consider(self, name: str, candidate: Design) -> Estimate:
        """Estimate a candidate and keep it when it fits and is better."""
        answer = estimate(candidate)
        value = float(answer.iteration_time)
        broken = self.limits.broken_by(candidate, answer) if self.limits is not None else ""
        good = answer.fits and not broken
        self.tried.append((name, value if good else np.inf))
        if not good:
            self.refused[name] = broken or "does not fit"
            return answer
        score = self._score(answer)
        if score < self.score:
            self.best, self.score = (candidate, answer), score
            if self.progress is not None:
                self.progress(time.perf_counter() - self.begin, value, self.bound)
        return answer

    def _score(self, answer: Estimate) -> float:
        if self.weights == Weights():
            return float(answer.iteration_time)
        if self.first.unit is None:
            self.first.unit = float(answer.iteration_time), self.first.design.system.nodes
        return self.weights.score(answer, *self.first.unit)

    def run(self, deadline: float, seed: int, trials: int | None = None, *, bounded: bool = True) -> None:
        """Plans for several weights of the terms, then for weights near the best ones."""
        shared, terms, floor = own.options(self.design, bounded=bounded)
        if not shared.names:
            return
        limited = (lambda options: options) if self.limits is None else self.limits.apply
        shared = limited(shared)
        if floor is not None:
            self.bound = replace(floor, options=limited(floor.options)).value
        random = np.random.default_rng(seed)
        best_at, seen = np.ones(5), set()
        best_score = np.inf
        first = [(w, r) for r in range(len(_ROUTES)) for w in _WEIGHTS]
        first.sort(key=lambda x: (_WEIGHTS.index(x[0]) > 0, x[1] > 0))
        best_route = 0
        masks = [np.array([k in kinds for k in shared.kinds]) for kinds in _ROUTES]
        scales = {k: np.array([kind == k for kind in shared.kinds]) for k in ("data_parallel", "row_wise")}
        if trials is None:
            size = max(len(shared.names) * shared.ranks, 1)
            some = max(_FEWEST, min(_TRIALS, round(_TRIALS * (_ALL / size) ** 0.5)))
            trials = some if np.isinf(deadline) else 10**9
        for i in range(trials):
            if time.perf_counter() > deadline:
                return
            route = best_route
            if i >= len(first) and i % 2 and len(self.pool) > 1:
                self._crossed(random)
                continue
            if i < len(first):
                (local, exchange), route = first[i]
                at = np.array([local, exchange, 1.0, 1.0, 1.0])
            else:
                at = best_at * np.exp(random.normal(0.0, 0.5, 5))
            cost = at[0] * terms.local + at[1] * terms.exchange + at[4] * terms.moves
            for weight, mask in zip(at[2:4], scales.values(), strict=True):
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
            answer = self.consider(f"routes {route}, weights " + ", ".join(f"{w:.2f}" for w in at), candidate)
            shared = less_room(shared, answer)
            if self.score < best_score:
                best_score, best_at, best_route = self.score, at, route

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


def less_room(options: Options, answer: Estimate) -> Options:
    """The options with as much less memory as a plan of them turned out to need beyond what there is."""
    over = np.zeros(options.limits.shape[1])
    for k, tier in enumerate(options.tiers):
        need = answer.memory[tier]
        over[k] = max(need.worst - float(np.min(np.asarray(need.capacity))), 0.0)
    return replace(options, limits=np.maximum(options.limits - over, 0.0)) if over.any() else options
