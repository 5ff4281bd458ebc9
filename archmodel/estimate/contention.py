"""What kernels and collectives cost each other on one device, priced: how much slower each runs beside the other.

Kernel i beside collective j runs on what the endpoint leaves: without its cores, and without the memory bandwidth that
collective j uses,

    slowed_ij = t_i(device less cores, bandwidth - used_j) / t_i(device)

An endpoint with a share of memory of its own is not starved. One that competes for memory gets, beside a kernel that
asks for a_i, its part of the whole: if a_i + used_j exceeds the bandwidth B,

    starved_ji = (a_i + used_j) / B,   and the kernel keeps  B a_i / (a_i + used_j)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from archmodel.components.breakdown import Breakdown
from archmodel.components.device import Device
from archmodel.components.endpoint import left_for_compute
from archmodel.estimate.driving import driven
from archmodel.estimate.knobs import points
from archmodel.estimate.price import Machine, price
from archmodel.estimate.sharing import Shared, SharedTimeline, simulate, stacked
from archmodel.program import AllToAll, Collective, Program
from archmodel.quantities import Array
from archmodel.system import System

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.parallel.plan import Plan


def issued_ahead(program: Program, system: System, plan: Plan) -> bool:
    """Whether kernels are issued one by one by a host that runs ahead of the device, which the timeline then knows of;
    beside an endpoint or with collectives out of order, each kernel's price holds its issue instead."""
    return not program.graph_capture and system.node.endpoint is None and plan.collective_order == "fifo"


def machine_of(program: Program, system: System, device: Device | None = None, ahead: bool = False) -> Machine:
    """What prices need to know of a system; an endpoint that reserves leaves its device less, always. `ahead`: the
    timeline knows when kernels are issued, so that they are priced as queued."""
    node = system.node
    if device is None:
        device = system.gpu
        if node.endpoint is not None and node.endpoint.reserved:
            share = node.endpoint.memory_share
            device = left_for_compute(device, node.endpoint.cores_taken, 0.0 if share is None else share)
    graph = program.graph_capture or ahead
    return Machine(device, system.topology(), node.host, node.gpus, graph, node.endpoint, every_rank=True)


def sharing(design: Design, system: System, prices: list[Breakdown]) -> tuple[list[Breakdown], SharedTimeline]:
    """Prices with what sharing adds to them (part "contention"), and the timeline, over all design points."""
    shape = points(system)
    lifo = design.plan.collective_order == "lifo"
    known = _priced(design.program, system, prices)
    timelines = []
    for index in np.ndindex(shape):
        here = known.at(index, shape)
        timelines.append(
            simulate(design.program, shares(design.program, at_point(system, index, shape), here), lifo=lifo)
        )
    timeline = stacked(timelines, shape)
    longer = []
    for own, took in zip(prices, timeline.times, strict=True):
        added = np.maximum(took - np.asarray(own.total), 0.0)
        some = np.any(added > 1e-12 * took)
        longer.append(Breakdown({**own.parts, "contention": added}) if some else own)
    return longer, timeline


def simulate_point(design: Design, system: System, iterations: int | None = None) -> SharedTimeline:
    """The timeline of one design point; `iterations`: of exactly so many, from a standing start."""
    program = design.program
    shared = shares(program, system)
    return simulate(program, shared, lifo=design.plan.collective_order == "lifo", iterations=iterations)


def makespan(design: Design, iterations: int = 2) -> float:
    """Seconds that `iterations` iterations take from a standing start to the last op's end (scalar designs)."""
    timeline = simulate_point(design, design.system, iterations)
    return float(timeline.period) * iterations


@dataclass(frozen=True)
class Priced:
    """Seconds of every op alone, and bytes of memory that the collectives among them take, (..., ranks) or (..., 1)."""

    alone: tuple[Array, ...]
    memory_bytes: dict[int, Array]

    def at(self, index: tuple[int, ...], shape: tuple[int, ...]) -> Priced:
        """Those of one design point."""

        def one(values: Array) -> Array:
            return np.asarray(np.broadcast_to(values, (*shape, values.shape[-1]))[index])

        return Priced(tuple(one(a) for a in self.alone), {j: one(x) for j, x in self.memory_bytes.items()})


def _priced(program: Program, system: System, prices: Sequence[Breakdown]) -> Priced:
    """Over all design points at once."""
    endpoint = system.node.endpoint
    taken = {}
    if endpoint is not None and not endpoint.occupies_compute:
        machine = machine_of(program, system)
        works = {j: op.work for j, op in enumerate(program.ops) if isinstance(op.work, AllToAll | Collective)}
        taken = {j: np.atleast_1d(driven(work, machine, endpoint).memory_bytes) for j, work in works.items()}
    return Priced(tuple(np.atleast_1d(np.asarray(p.total)) for p in prices), taken)


def shares(program: Program, system: System, priced: Priced | None = None) -> Shared:
    """Times alone and slow-downs of a scalar system. `priced`: where its ops have been priced already."""
    machine = machine_of(program, system)
    if priced is None:
        priced = _priced(program, system, [price(op.work, machine) for op in program.ops])
    alone = priced.alone
    endpoint = system.node.endpoint
    if endpoint is None:
        return Shared(alone)
    if endpoint.occupies_compute:
        return Shared(alone, takes_turns=True)
    used = {j: _ratio(taken, alone[j], 0.0) for j, taken in priced.memory_bytes.items()}  # B/s on average over its time
    if endpoint.reserved:
        used = {j: np.zeros(1) for j in used}  # what it takes is gone already
    if not any(np.any(u) for u in used.values()) and not (endpoint.cores_taken and not endpoint.reserved):
        return Shared(alone)
    kernels = [i for i, op in enumerate(program.ops) if "compute" in op.streams]
    cores = 0 if endpoint.reserved else endpoint.cores_taken
    competes = endpoint.memory_share is None
    return _slow_downs(program, machine, alone, kernels, used, cores, competes)


def _ratio(a: Array, b: Array, otherwise: float) -> Array:
    """a / b, and `otherwise` where b is no time at all."""
    result = np.full(np.broadcast_shapes(a.shape, b.shape), otherwise)
    np.divide(a, b, out=result, where=b > 0)
    return result


def _slow_downs(
    program: Program,
    machine: Machine,
    alone: tuple[Array, ...],
    kernels: list[int],
    used: dict[int, Array],
    cores: int,
    competes: bool,
) -> Shared:
    """All kernels beside all collectives: kernel by kernel, collectives as an axis of the device's bandwidth."""
    whole = float(np.max(machine.device.memory.bandwidth))
    columns = list(used)
    width = max(len(u) for u in used.values())
    taken = np.stack([np.broadcast_to(used[j], width) for j in columns])  # (collectives, ranks) or (collectives, 1)
    distinct, which = np.unique(taken, axis=0, return_inverse=True)
    which = np.reshape(which, -1)
    slowed: dict[int, dict[int, Array]] = {}
    starved: dict[int, dict[int, Array]] = {j: {} for j in columns}
    for i in kernels:
        op = program.ops[i]
        asked = _ratio(np.asarray(op.work.memory_bytes().get("hbm", np.zeros(1))), alone[i], 0.0)
        over = np.maximum((asked + distinct) / whole, 1.0)
        left_out = whole - asked / over if competes else None
        takes = np.where(over > 1.0, left_out, 0.0) if left_out is not None else distinct
        device = left_for_compute(machine.device, cores, takes)
        beside = replace(machine, device=device, endpoint=None)
        longer = np.asarray(price(op.work, beside).total)
        ratio = _ratio(longer, alone[i], 1.0)
        ratio = np.broadcast_to(np.maximum(ratio, 1.0), (len(distinct), ratio.shape[-1]))
        slowed[i] = {j: ratio[which[c]] for c, j in enumerate(columns)}
        if competes:
            for c, j in enumerate(columns):
                starved[j][i] = np.broadcast_to(over, (len(distinct), over.shape[-1]))[which[c]]
    return Shared(alone, slowed, starved if competes else {})


def at_point(part: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """A copy of `part` with every array over design points replaced by its value at one of them."""
    if not shape or not isinstance(part, BaseModel):
        return part
    changed: dict[str, Any] = {}
    for name, value in part.__dict__.items():
        new = _value_at(value, index, shape)
        if new is not value:
            changed[name] = new
    return part.model_copy(update=changed) if changed else part


def _value_at(value: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if isinstance(value, BaseModel):
        return at_point(value, index, shape)
    if isinstance(value, np.ndarray) and value.ndim:
        return float(np.broadcast_to(value, (*shape, value.shape[-1]))[index][0])
    if isinstance(value, dict):
        found = {key: _value_at(item, index, shape) for key, item in value.items()}
        return found if any(found[key] is not item for key, item in value.items()) else value
    if isinstance(value, tuple | list):
        each = [_value_at(item, index, shape) for item in value]
        return type(value)(each) if any(a is not b for a, b in zip(each, value, strict=True)) else value
    return value
