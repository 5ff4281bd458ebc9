"""Why a plan is as it is: what the tables would cost otherwise, and what binds every rank.

Alternatives are judged as plans are, by the whole estimate with that one table moved, so the answer holds overlap and
waiting. Which rank a moved shard goes to: those with the least compute time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from archmodel.design import Design
from archmodel.errors import ArchmodelError, suggestion
from archmodel.estimate.estimate import estimate
from archmodel.estimate.result import Estimate
from archmodel.parallel.placement import ROUTES
from archmodel.parallel.sparse import ShardSizes
from archmodel.quantities import Array
from archmodel.search import own
from archmodel.search.options import NODE, RANK, Options, home_of, kernel, memory_entry
from archmodel.search.plan_tables import draft, written


@dataclass(frozen=True)
class Alternative:
    """One table otherwise: `iteration_time` seconds of the whole design, `why_not` in words."""

    sharding: str
    pieces: int
    tier: str
    iteration_time: float
    fits: bool
    why_not: str


@dataclass(frozen=True)
class TableReason:
    """Why a table is cut as it is. `bytes` of rows and optimizer state, `local` and `exchange` seconds of one shard on
    each rank that it touches, as the planner weighs them; alternatives by iteration time, best first."""

    name: str
    sharding: str
    pieces: int
    tier: str
    homes: tuple[int, ...]
    bytes: float
    local: float
    exchange: float
    alternatives: tuple[Alternative, ...]

    @property
    def improvable(self) -> bool:
        """Whether some alternative would be faster: a plan that a longer search would find."""
        return any(not a.why_not for a in self.alternatives)


@dataclass(frozen=True)
class RankReason:
    """One rank: seconds of compute in `tables` and in all, of the wait for others, bytes by tier over capacity, and
    what binds it: compute, exchanges, or waiting for busier ranks; and memories that are full."""

    rank: int
    tables: float
    compute: float
    idle: float
    memory: Mapping[str, float]
    binds: str


@dataclass(frozen=True)
class Explanation:
    """`ranks` (all), `tables` (those asked for), and the plan's own estimate."""

    estimate: Estimate
    tables: tuple[TableReason, ...]
    ranks: tuple[RankReason, ...]


FULL = 0.95
"""Share of a memory from which it binds a rank."""
BUSY = 0.98
"""Share of the busiest rank's compute from which a rank counts as busy, and of the iteration from which that binds."""


def explain(
    design: Design,
    tables: list[str] | None = None,
    *,
    most: int = 12,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Explain a design's plan. `tables`: names; left out, the `most` that weigh most. `progress(done, of)` per
    alternative. Raises ArchmodelError for an unknown name."""
    answer = estimate(design)
    options, terms, _ = own.options(design)
    placed = written(design)["assign"]
    names = list(options.names)
    unknown = [n for n in tables or () if n not in names]
    if unknown:
        raise ArchmodelError(f"no table {unknown[0]}; {suggestion(unknown[0], names)}")
    slots = [_slot(options, t, placed[n]) for t, n in enumerate(names)]
    weight = np.array([0.0 if s is None else options.work[t, s] for t, s in enumerate(slots)])
    chosen = (
        [names.index(n) for n in tables] if tables is not None else np.argsort(-weight, kind="stable")[:most].tolist()
    )
    jobs = [(t, o) for t in chosen for o in _others(options, t, slots[t])]
    found: dict[int, list[Alternative]] = {t: [] for t in chosen}
    for done, (t, o) in enumerate(jobs):
        if progress is not None:
            progress(done, len(jobs))
        found[t].append(_alternative(design, answer, options, t, o, placed))
    reasons = []
    for t in chosen:
        entry, s = placed[names[t]], slots[t]
        reasons.append(
            TableReason(
                names[t],
                entry["sharding"],
                1 if s is None else int(options.count[t, s]),
                entry["tier"],
                tuple(entry.get("ranks") or entry.get("nodes") or ()),
                _held(design, t),
                np.nan if s is None else float(terms.local[t, s]),
                np.nan if s is None else float(terms.exchange[t, s]),
                tuple(sorted(found[t], key=lambda a: (not a.fits, a.iteration_time))),
            )
        )
    return Explanation(answer, tuple(reasons), _ranks(answer))


def _slot(options: Options, t: int, entry: Mapping[str, Any]) -> int | None:
    """The option that a table has; None when it is cut in a way that the planner does not propose."""
    pieces = int(entry.get("column_shards", len(entry.get("ranks") or entry.get("nodes") or [0])))
    kinds, tiers = np.array(options.kinds), np.array(options.kernels)
    cache = entry.get("cache")
    if isinstance(cache, list):
        return None
    share = float(str(cache["size"]).removesuffix("%")) / 100 if cache else 0.0
    held = tiers == kernel(entry["tier"], share)
    if not held.any():  # a cache of a size that is not proposed, as the nearest that is
        held = np.array([home_of(k) == entry["tier"] and (k != home_of(k)) == bool(cache) for k in options.kernels])
    same = (kinds == entry["sharding"]) & held & (options.count[t] == pieces)
    return int(same.argmax()) if same.any() else None


def _others(options: Options, t: int, slot: int | None) -> list[int]:
    """Of every kind and tier, the cheapest option that the table does not have now."""
    best: dict[tuple[str, str], int] = {}
    for o in range(len(options.kinds)):
        key = options.kinds[o], options.kernels[o]
        usable = o != slot and np.isfinite(options.cost[t, o])
        if usable and (key not in best or options.work[t, o] < options.work[t, best[key]]):
            best[key] = o
    return list(best.values())


def _alternative(
    design: Design, answer: Estimate, options: Options, t: int, o: int, placed: Mapping[str, Any]
) -> Alternative:
    name, kind, tier, count = options.names[t], options.kinds[o], options.kernels[o], int(options.count[t, o])
    entry: dict[str, Any] = {"sharding": kind, **memory_entry(tier)}
    entry |= {k: placed[name][k] for k in ("dtype", "optimizer")}
    busy = np.broadcast_to(np.asarray(answer.busy("compute"), dtype=np.float64), options.ranks)
    if options.scope[o] == RANK:
        entry["ranks"] = np.argsort(busy, kind="stable")[:count].tolist()
    elif options.scope[o] == NODE:
        nodes = busy[: options.nodes * options.local].reshape(options.nodes, options.local).max(1)
        entry["nodes"] = np.argsort(nodes, kind="stable")[:count].tolist()
    tables = {**written(design), "assign": {**placed, name: entry}}
    other = estimate(draft(design, tables))
    seconds, now = float(other.iteration_time), float(answer.iteration_time)
    why = ""
    if not other.fits:
        tier_over = next(k for k, m in other.memory.items() if not np.all(m.fits))
        need = other.memory[tier_over]
        over = (need.worst - float(np.min(need.capacity))) / 1e9
        why = f"{tier_over} of rank {need.worst_rank} would be {over:.1f} GB too small"
    elif seconds >= now * (1 - 1e-9):
        why = f"{1e3 * (seconds - now):+.3f} ms: {_reason(answer, other)}"
    return Alternative(kind, count, tier, seconds, bool(other.fits), why)


def _reason(now: Estimate, other: Estimate) -> str:
    """The op whose slowest rank grew most."""
    before = {o.name: float(np.max(o.time)) for o in now.ops}
    grown = {o.name: float(np.max(o.time)) - before.get(o.name, 0.0) for o in other.ops}
    name = max(grown, key=lambda k: grown[k], default="")
    if not name or grown[name] <= 0:
        return "nothing grows; it waits for the same"
    route = next((r for r in ROUTES.values() if name.startswith(f"{r}.")), "")
    new = name not in before
    return f"{name} {'is one more op' if new and route else f'grows by {1e3 * grown[name]:.3f} ms'}"


def _held(design: Design, t: int) -> float:
    placement = design.placement
    shards = np.flatnonzero(placement.table == t)
    size = ShardSizes.of(placement, shards)
    rows = float(placement.tables.num_embeddings[t])
    return float((rows * (size.columns * size.element + size.state_bytes)).sum())


def _ranks(answer: Estimate) -> tuple[RankReason, ...]:
    ranks = answer.program.ranks
    compute = np.broadcast_to(np.asarray(answer.busy("compute"), dtype=np.float64), ranks)
    sparse: Array = np.zeros(ranks)
    for op in answer.ops:
        if "compute" in op.op.streams and op.name.startswith(tuple(f"{r}." for r in ROUTES.values())):
            sparse = sparse + op.time
    period, top = float(answer.iteration_time), float(compute.max(initial=0.0))
    used = {k: np.broadcast_to(m.need / np.asarray(m.capacity), ranks) for k, m in answer.memory.items()}
    result = []
    for r in range(ranks):
        share = {k: float(v[r]) for k, v in used.items()}
        full = [k for k, v in share.items() if v >= FULL]
        if compute[r] >= BUSY * top:
            binds = "compute" if top >= BUSY * period else "exchanges"
        else:
            binds = "waiting for busier ranks"
        binds += "".join(f", {k} full" for k in full)
        result.append(
            RankReason(r, float(sparse[r]), float(compute[r]), max(period - float(compute[r]), 0.0), share, binds)
        )
    return tuple(result)
