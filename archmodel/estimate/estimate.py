"""estimate(design): price every op, run the timeline, add memory, energy and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archmodel.estimate.contention import machine_of, sharing
from archmodel.estimate.elasticity import points
from archmodel.estimate.memory import needs
from archmodel.estimate.price import price
from archmodel.estimate.result import Cost, Energy, Estimate, OpEstimate
from archmodel.estimate.timeline import Timeline, run
from archmodel.program import AllToAll, Collective, Program, Tier
from archmodel.quantities import Array, Num
from archmodel.system import System

if TYPE_CHECKING:
    from archmodel.design import Design


def estimate(design: Design) -> Estimate:
    """Time, memory, energy and cost of one iteration of `design`, and what bounds it.

    A plan that does not fit still gets an answer; `fits` says so and `memory` names the overflow.
    """
    return evaluate(design, design.system)


def evaluate(design: Design, system: System) -> Estimate:
    """`design` on a `system` of the same shape whose fields may hold arrays over design points (points, 1)."""
    program = design.program
    machine = machine_of(program, system)
    prices = [price(op.work, machine) for op in program.ops]
    if system.node.endpoint is None and design.plan.collective_order == "fifo":
        timeline = run(program, [np.atleast_1d(np.asarray(p.total)) for p in prices], points(system))
    else:
        prices, timeline = sharing(design, system, prices)
    ops = tuple(OpEstimate(op, p, timeline, i) for i, (op, p) in enumerate(zip(program.ops, prices, strict=True)))
    energy = _energy(system, program, ops, timeline)
    return Estimate(
        design,
        program,
        timeline,
        ops,
        needs(program, _capacity(system), {"hbm": system.node.reserved_memory}),
        energy,
        _cost(system, program, energy, timeline.period),
    )


def _capacity(system: System) -> dict[Tier, Num]:
    """Bytes of each tier of one rank."""
    capacity: dict[Tier, Num] = {"hbm": system.gpu.memory.capacity}
    if system.node.host is not None:
        capacity["ddr"] = np.asarray(system.node.host.ddr.capacity) / system.node.gpus
    return capacity


def _energy(system: System, program: Program, ops: tuple[OpEstimate, ...], timeline: Timeline) -> Energy | None:
    """Devices draw busy power while their compute stream runs and idle power else; endpoints theirs while they drive a
    collective; the rest of a node is constant.

    None when the device states no power.
    """
    device = system.gpu
    if device.busy_power is None or device.idle_power is None:
        return None
    period = timeline.period
    busy_ranks: Array = np.zeros(())
    for o in ops:
        if "compute" in o.op.streams:
            busy_ranks = busy_ranks + o.time.sum(-1) * (program.ranks if o.time.shape[-1] == 1 else 1)
    idle, full = _points(device.idle_power), _points(device.busy_power)
    endpoint = system.node.endpoint
    driving: dict[str, Num] = {}
    if endpoint is not None and endpoint.power is not None:
        working: Array = np.zeros(())
        for o in ops:
            if isinstance(o.op.work, AllToAll | Collective):
                working = working + o.time.sum(-1) * (program.ranks if o.time.shape[-1] == 1 else 1)
        driving["endpoints"] = _points(endpoint.power) * working
    return Energy(
        {
            **driving,
            "device idle": idle * period * program.ranks,
            "device busy": (full - idle) * busy_ranks,
            "rest of the nodes": _points(system.node.other_power) * period * system.nodes,
        },
        period,
        round(float(np.broadcast_to(program.local_batch, program.ranks).sum())),
    )


def _cost(system: System, program: Program, energy: Energy | None, period: Array) -> Cost | None:
    """Capital written off linearly over the lifetime plus electricity; None without prices or a lifetime."""
    economics = system.economics
    if economics is None or system.node.price is None or energy is None:
        return None
    price_of_all = (_points(system.node.price) + _points(economics.network_price)) * system.nodes
    return Cost(
        capital=price_of_all * period / _points(economics.lifetime),
        electricity=energy.iteration * _points(economics.facility_overhead) * _points(economics.electricity),
        samples=energy.samples,
    )


def _points(value: Num) -> Num:
    """A field over design points without its trailing rank axis."""
    return value[..., 0] if isinstance(value, np.ndarray) and value.ndim else value
