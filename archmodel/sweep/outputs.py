"""What a sweep writes down of each point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.errors import ArchmodelError, suggestion
from archmodel.program import Tier

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate
    from archmodel.program import Program

OP = "op."
TIER = "tier."
TIER_FIELDS = {
    "busy": ("", "share of the time that it is at work, on the busiest node"),
    "lifetime_days": ("day", "until its writes wear it out"),
    "read_moved": ("B", "bytes that its medium reads in an iteration, on the busiest node"),
    "written_moved": ("B", "bytes that its medium writes in an iteration, on the busiest node"),
}
"""What `tier.NAME.FIELD` is, by field."""


@dataclass(frozen=True)
class Output:
    """A column: SI unit, meaning, and how it is read off an estimate (None where the estimate has no such thing)."""

    unit: str
    meaning: str
    read: Callable[[Estimate], Any]
    always: bool = False
    """Whether it is also known of points that do not fit."""
    asked: bool = False
    """Whether a table has it only when asked to."""


def _need(tier: Tier) -> Callable[[Estimate], Any]:
    return lambda e: e.memory[tier].worst if tier in e.memory else None


def _capacity(tier: Tier) -> Callable[[Estimate], Any]:
    def read(e: Estimate) -> Any:
        capacity = np.asarray(e.memory[tier].capacity) if tier in e.memory else None
        return capacity[..., 0] if capacity is not None and capacity.ndim else capacity

    return read


def _node_power(e: Estimate) -> Any:
    node = e.design.system.node
    return None if node.device.busy_power is None else node.device.busy_power * node.gpus + node.other_power


def _peak_power(e: Estimate) -> Any:
    power = _node_power(e)
    return None if power is None else points_of(power) * e.design.system.nodes


OUTPUTS: dict[str, Output] = {
    "iteration_time": Output("s", "from one iteration's end to the next one's", lambda e: e.iteration_time),
    "throughput": Output("sample/s", "samples per second of the whole system", lambda e: e.throughput),
    "latency": Output("s", "from the first start to the last end of one iteration", lambda e: e.latency),
    "exposed_communication": Output("s", "in which compute waits for the network", lambda e: e.exposed_communication),
    "energy_per_sample": Output("J/sample", "energy of a sample", lambda e: e.energy and e.energy.per_sample),
    "power": Output("W", "mean power of the system", lambda e: e.energy and e.energy.power),
    "usd_per_million_samples": Output("USD", "cost of 1e6 samples", lambda e: e.cost and e.cost.per_million_samples),
    "hbm_need": Output("B", "device memory needed on the worst rank", _need("hbm"), always=True),
    "hbm_capacity": Output("B", "device memory of a rank", _capacity("hbm"), always=True),
    "ddr_need": Output("B", "host memory needed by the worst rank", _need("ddr"), always=True),
    "ddr_capacity": Output("B", "host memory of a rank", _capacity("ddr"), always=True),
    "nodes": Output("", "nodes of the system", lambda e: e.design.system.nodes, always=True, asked=True),
    "ranks": Output("", "devices of the system", lambda e: e.design.system.ranks, always=True, asked=True),
    "price": Output("USD", "price of the system, its network included", lambda e: e.design.system.price, True, True),
    "peak_power": Output("W", "power of the system when all of its devices are busy", _peak_power, True, True),
    "peak_power_per_node": Output(
        "W", "power of a node when all of its devices are busy", lambda e: points_of(_node_power(e)), True, True
    ),
}

DEFAULT = tuple(name for name, output in OUTPUTS.items() if not output.asked)
"""What a table has when nobody says."""


def points_of(value: Any) -> Any:
    """A field over design points without its trailing rank axis."""
    return value[..., 0] if isinstance(value, np.ndarray) and value.ndim else value


def output(name: str) -> Output:
    """The output called `name`; `op.NAME` is the time of an op on its slowest rank, `tier.NAME.FIELD` what an iteration
    asks of a node's memory."""
    if name.startswith(TIER):
        _, tier, field = name.split(".")
        unit, meaning = TIER_FIELDS[field]
        return Output(unit, f"{tier}: {meaning}", lambda e: getattr(e.tiers[tier], field) if tier in e.tiers else None)
    if name.startswith(OP):
        return Output("s", f"{name[len(OP) :]} on the slowest rank", lambda e: _op_time(e, name[len(OP) :]))
    return OUTPUTS[name]


def _op_time(estimate: Estimate, name: str) -> Any:
    return next((op.slowest for op in estimate.ops if op.name == name), None)


def unknown(name: str, program: Program) -> str:
    """What is wrong with an output's name, or nothing."""
    if name.startswith(OP):
        ops = [OP + op.name for op in program.ops]
        return "" if name in ops else f"is no op of the design; {suggestion(name, ops)}"
    if name.startswith(TIER):
        tiers = {t for op in program.ops for t in op.work.memory_bytes() if t != "hbm"}
        fields = [f"{TIER}{tier}.{field}" for tier in sorted(tiers) for field in TIER_FIELDS]
        return "" if name in fields else f"is nothing of a memory that the design uses; {suggestion(name, fields)}"
    return "" if name in OUTPUTS else f"is no output; {suggestion(name, [*OUTPUTS, OP + 'NAME', TIER + 'NAME.FIELD'])}"


def one_line(error: Exception) -> str:
    """Why a point failed, in one line."""
    problems = getattr(error, "problems", ())
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        first = problems[0]
        return " ".join(part for part in (first.field, first.value, first.message) if part) + more
    text = " ".join(str(error).split())
    return text if isinstance(error, ArchmodelError) else f"{type(error).__name__}: {text}"
