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
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archmodel.components.breakdown import Breakdown
from archmodel.components.device import Device
from archmodel.components.endpoint import left_for_compute
from archmodel.estimate.driving import driven
from archmodel.estimate.knobs import points
from archmodel.estimate.price import Machine, price
from archmodel.estimate.sharing import Shared, SharedTimeline, shaped, simulate, stacked
from archmodel.program import AllToAll, Collective, Program
from archmodel.quantities import Array
from archmodel.system import System

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.parallel.plan import Plan

TOGETHER = 8
"""Design points from which on following them together is faster than one by one (`benchmarks/endpoints.py`)."""


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
    program = design.program
    shared = shares(program, system, prices)
    if np.prod(shape) >= TOGETHER and shared.alike and all(op.streams for op in program.ops):
        from archmodel.estimate.sharing_points import simulate_points

        timeline = shaped(simulate_points(program, shared.over(shape), lifo), shape)
    else:
        each = shared.over(shape) if shape else shared
        count = int(np.prod(shape)) if shape else 1
        timelines = [simulate(program, each.at(i) if shape else each, lifo=lifo) for i in range(count)]
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


def _memory_bytes(program: Program, system: System) -> dict[int, Array]:
    """Bytes of memory that collectives take beside compute, (..., ranks) or (..., 1)."""
    endpoint = system.node.endpoint
    if endpoint is None or endpoint.occupies_compute:
        return {}
    machine = machine_of(program, system)
    works = {j: op.work for j, op in enumerate(program.ops) if isinstance(op.work, AllToAll | Collective)}
    return {j: np.atleast_1d(driven(work, machine, endpoint).memory_bytes) for j, work in works.items()}


def shares(program: Program, system: System, prices: Sequence[Breakdown] | None = None) -> Shared:
    """Times alone and slow-downs, over all design points. `prices`: of the ops, where they are known already."""
    machine = machine_of(program, system)
    if prices is None:
        prices = [price(op.work, machine) for op in program.ops]
    alone = tuple(np.atleast_1d(np.asarray(p.total)) for p in prices)
    endpoint = system.node.endpoint
    if endpoint is None:
        return Shared(alone)
    if endpoint.occupies_compute:
        return Shared(alone, takes_turns=True)
    taken = _memory_bytes(program, system)
    used = {j: _ratio(bytes_, alone[j], 0.0) for j, bytes_ in taken.items()}  # B/s on average over its time
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
    whole = np.asarray(machine.device.memory.bandwidth)
    columns = list(used)
    taken = np.stack(np.broadcast_arrays(*used.values()))  # (collectives, ..., ranks) or (collectives, ..., 1)
    rows, which = np.unique(taken.reshape(len(columns), -1), axis=0, return_inverse=True)
    distinct, which = rows.reshape(-1, *taken.shape[1:]), np.reshape(which, -1)
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
        ratio = np.maximum(ratio, 1.0) + np.zeros((len(distinct), *[1] * (distinct.ndim - 1)))
        slowed[i] = {j: ratio[which[c]] for c, j in enumerate(columns)}
        if competes:
            for c, j in enumerate(columns):
                starved[j][i] = over[which[c]]
    return Shared(alone, slowed, starved if competes else {})
