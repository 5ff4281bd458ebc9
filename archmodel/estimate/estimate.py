"""estimate(design): price every op, run the timeline, add memory, energy and cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from archmodel.estimate.contention import issued_ahead, machine_of, sharing
from archmodel.estimate.knobs import points
from archmodel.estimate.memory import needs
from archmodel.estimate.price import kernels_of, price
from archmodel.estimate.result import Cost, Energy, Estimate, OpEstimate
from archmodel.estimate.timeline import Timeline, run
from archmodel.estimate.use import asked
from archmodel.memory.host_tier import HostTier
from archmodel.memory.tier import MemoryTier
from archmodel.program import AllToAll, Collective, HostIssue, Program, Tier
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
    ahead = issued_ahead(program, system, design.plan)
    machine = machine_of(program, system, ahead=ahead)
    prices = [price(op.work, machine) for op in program.ops]
    if system.node.endpoint is None and design.plan.collective_order == "fifo":
        issue = None
        if ahead:
            each = np.atleast_1d(np.asarray(machine.device.launch_overhead(False)))
            issue = [kernels_of(op.work, machine.device) * each for op in program.ops]
        timeline = run(program, [np.atleast_1d(np.asarray(p.total)) for p in prices], points(system), issue)
    else:
        prices, timeline = sharing(design, system, prices)
    ops = tuple(OpEstimate(op, p, timeline, i) for i, (op, p) in enumerate(zip(program.ops, prices, strict=True)))
    energy = _energy(system, program, ops, timeline)
    return Estimate(
        design,
        program,
        timeline,
        ops,
        needs(program, system.capacities(), {"hbm": system.node.reserved_memory}),
        energy,
        _cost(system, program, energy, timeline.period),
        partial(_period, design),
    )


def _period(design: Design, system: System) -> Array:
    return evaluate(design, system).timeline.period


def _energy(system: System, program: Program, ops: tuple[OpEstimate, ...], timeline: Timeline) -> Energy | None:
    """Devices draw busy power while their compute stream runs and idle power else; endpoints theirs while they drive a
    collective; the rest of a node is constant.

    Of what busy devices draw above idle, memory accesses take bytes demanded x energy per byte (at most all of it).
    Accesses to host memory come on top. None when the device states no power.
    """
    device, host = system.gpu, system.node.host
    if device.busy_power is None or device.idle_power is None:
        return None
    period = timeline.period
    idle, full = _points(device.idle_power), _points(device.busy_power)
    computing = [o for o in ops if "compute" in o.op.streams and not isinstance(o.op.work, HostIssue)]
    busy = (full - idle) * _over_ranks([o.time for o in computing], program)
    accesses = np.minimum(_access_energy("hbm", device.memory, ops, program), busy)
    parts: dict[str, Num] = {
        "device idle": idle * period * program.ranks,
        "device compute": busy - accesses,
        "device memory": accesses,
        "rest of the nodes": _points(system.node.other_power) * period * system.nodes,
    }
    if host is not None:
        parts["host memory"] = _access_energy("ddr", host.ddr, ops, program)
        for name, tier in host.tiers.items():
            parts[name] = tier_energy(name, tier, ops, program, system, period)
    endpoint = system.node.endpoint
    if endpoint is not None and endpoint.power is not None:
        driven = [o.time for o in ops if isinstance(o.op.work, AllToAll | Collective)]
        parts["endpoints"] = _points(endpoint.power) * _over_ranks(driven, program)
    samples = round(float(np.broadcast_to(program.local_batch, program.ranks).sum()))
    return Energy(parts, period, samples)


def _access_energy(tier: Tier, memory: MemoryTier, ops: tuple[OpEstimate, ...], program: Program) -> Num:
    """Joules of all bytes that an iteration demands of a tier; 0 where its energy per byte is not known."""
    if memory.energy_per_byte is None:
        return 0.0
    demanded = [b[tier] for o in ops if tier in (b := o.op.work.memory_bytes())]
    return _points(memory.energy_per_byte) * _over_ranks(demanded, program)


def tier_energy(
    name: Tier, tier: HostTier, ops: tuple[OpEstimate, ...], program: Program, system: System, period: Array
) -> Num:
    """Joules of a further memory of all nodes in one iteration: its stated power,

        E = (idle + busy (active - idle)) x period x memories

    with `busy` the share of the time that it moves bytes at its peak; else bytes moved x energy per byte; else what the
    units of one that sums rows say of their sums; else none.
    """
    one = tier.memory
    moved = _over_ranks(
        [
            np.atleast_1d(np.asarray(tier.moved_bytes(*amounts[:2])))
            for op in ops
            for (t, _), amounts in asked(op.op.work, system.node.host).items()
            if t == name
        ],
        program,
    )
    count = tier.count * system.nodes
    if one.idle_power is not None and one.active_power is not None:
        peak = _points(tier.memory.peak_read_bandwidth) * count
        busy = np.minimum(moved / (peak * period), 1.0)
        idle, active = _points(one.idle_power), _points(one.active_power)
        return (idle + busy * (active - idle)) * period * count
    if one.energy_per_byte is not None:
        return _points(one.energy_per_byte) * moved
    if one.sums_rows:
        sums = [
            np.atleast_1d(np.asarray(one.sum_energy(*amounts)))
            for op in ops
            for (t, way), amounts in asked(op.op.work, system.node.host).items()
            if (t, way) == (name, "sum")
        ]
        return _over_ranks(sums, program)
    return 0.0


def _over_ranks(amounts: list[Array], program: Program) -> Array:
    """Sum over ranks of per-rank amounts (..., ranks) or (..., 1): (...)."""
    total: Array = np.zeros(())
    for amount in amounts:
        total = total + amount.sum(-1) * (program.ranks if amount.shape[-1] == 1 else 1)
    return total


def _cost(system: System, program: Program, energy: Energy | None, period: Array) -> Cost | None:
    """Capital written off linearly over the lifetime plus electricity; None without prices or a lifetime."""
    economics, price = system.economics, system.price
    if economics is None or price is None or energy is None:
        return None
    return Cost(
        capital=price * period / _points(economics.lifetime),
        electricity=energy.iteration * _points(economics.facility_overhead) * _points(economics.electricity),
        samples=energy.samples,
    )


def _points(value: Num) -> Num:
    """A field over design points without its trailing rank axis."""
    return value[..., 0] if isinstance(value, np.ndarray) and value.ndim else value
