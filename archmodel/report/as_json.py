"""An estimate as one JSON object in SI units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.report.ranks import on_rank, parts_on, slowest_rank

if TYPE_CHECKING:
    from archmodel.estimate.memory import MemoryNeed
    from archmodel.estimate.result import Bound, Cost, Energy, Estimate, OpEstimate, Phase


def to_dict(estimate: Estimate) -> dict[str, Any]:
    """Everything a report says about `estimate`, in seconds, bytes, FLOP, joules and dollars (one design point)."""
    from archmodel import __version__

    first = min((float(np.min(op.start)) for op in estimate.ops), default=0.0)
    answer: dict[str, Any] = finite(
        {
            "name": estimate.design.name,
            "version": __version__,
            "ranks": estimate.program.ranks,
            "global_batch": estimate.samples,
            "iteration_time": estimate.iteration_time,
            "throughput": estimate.throughput,
            "latency": estimate.latency,
            "exposed_communication": estimate.exposed_communication,
            "fits": estimate.fits,
            "bound": _bound(estimate.bound),
            "phases": [_phase(phase) for phase in estimate.phases],
            "ops": [_op(op, first) for op in estimate.ops],
            "memory": {tier: _memory(need) for tier, need in estimate.memory.items()},
            "elasticities": dict(estimate.elasticities),
            "energy": estimate.energy and _energy(estimate.energy),
            "cost": estimate.cost and _cost(estimate.cost),
            "published": estimate.published,
            **_tiers(estimate),
        }
    )
    return answer


def _tiers(estimate: Estimate) -> dict[str, Any]:
    """Memories of a node and caches of rows, where a design has any; days are null where nothing wears out."""
    found: dict[str, Any] = {}
    if estimate.tiers:
        found["tiers"] = {
            name: {
                "read": use.read,
                "read_moved": use.read_moved,
                "written": use.written,
                "written_moved": use.written_moved,
                "busy": use.busy,
                "lifetime_days": use.lifetime_days if np.all(np.isfinite(use.lifetime_days)) else None,
            }
            for name, use in estimate.tiers.items()
        }
    if estimate.caches:
        found["stall"] = estimate.stall
        found["caches"] = {
            route: {
                "indices": use.indices,
                "rows": use.rows,
                "fetched": use.fetched,
                "written": use.written,
                "row_hit_rate": use.row_hit_rate,
                "hit_rate": use.hit_rate,
                "levels": {
                    tier: {
                        "asked": level.asked,
                        "fetched": level.fetched,
                        "written": level.written,
                        "hit_rate": level.hit_rate,
                    }
                    for tier, level in use.levels.items()
                },
            }
            for route, use in estimate.caches.items()
        }
    return found


def _bound(bound: Bound) -> dict[str, Any]:
    return {
        "resource": bound.resource,
        "op": bound.op,
        "rank": bound.rank,
        "shares": dict(bound.shares),
        "compute_idle": bound.compute_idle,
    }


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "phase": phase.phase,
        "streams": phase.stream.split("+"),
        "ops": list(phase.ops),
        "slowest": phase.slowest,
        "exposed": phase.exposed,
        "median": phase.median,
        "bound": phase.bound,
    }


def _op(op: OpEstimate, first: float) -> dict[str, Any]:
    """Amounts, parts, start and end are those of the rank on which the op takes longest; the iteration starts at
    `first`."""
    rank = slowest_rank(op)
    work = op.op.work
    return {
        "name": op.name,
        "phase": op.op.phase,
        "kind": type(work).__name__,
        "streams": list(op.op.streams),
        "slowest": op.slowest,
        "median": op.median,
        "bound": op.bound,
        "rank": rank,
        "start": on_rank(op.start, rank) - first,
        "end": on_rank(op.end, rank) - first,
        "parts": parts_on(op, rank),
        "flops": on_rank(work.flops(), rank),
        "memory_bytes": {tier: on_rank(amount, rank) for tier, amount in work.memory_bytes().items()},
        "wire_bytes": {link: on_rank(amount, rank) for link, amount in work.wire_bytes().items()},
    }


def _memory(need: MemoryNeed) -> dict[str, Any]:
    rank = need.worst_rank
    return {
        "need": need.worst,
        "capacity": on_rank(need.capacity, rank),
        "rank": rank,
        "parts": {role: on_rank(amount, rank) for role, amount in need.parts.items()},
    }


def _energy(energy: Energy) -> dict[str, Any]:
    return {
        "iteration": energy.iteration,
        "per_sample": energy.per_sample,
        "power": energy.power,
        "parts": dict(energy.parts),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "per_million_samples": cost.per_million_samples,
        "capital": cost.capital,
        "electricity": cost.electricity,
    }


def finite(value: Any, path: str = "") -> Any:
    """`value` in plain JSON types; an `ArchmodelError` names a number that is not finite, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): finite(item, f"{path}.{key}" if path else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, np.ndarray):
        return finite(value.tolist(), path)
    if isinstance(value, np.generic):
        return finite(value.item(), path)
    if isinstance(value, float) and not math.isfinite(value):
        raise ArchmodelError(f"{path} came out as {value}, which is no answer")
    return value
