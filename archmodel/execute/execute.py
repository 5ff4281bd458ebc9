"""`archmodel.execute(design)`: run a design's own Program at its own size."""

from __future__ import annotations

from typing import Protocol

from archmodel.execute.machine import WireMode
from archmodel.execute.run import Execution, run_plan
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.program import Program
from archmodel.workloads.recommendation import Workload


class Designed(Protocol):
    """What a design has to offer."""

    @property
    def workload(self) -> Workload: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def placement(self) -> Placement: ...

    @property
    def program(self) -> Program: ...


def execute(design: Designed, *, steps: int = 3, seed: int = 0, wires: WireMode = "exact") -> Execution:
    """Run `steps` iterations in numpy on simulated ranks, with batches and parameters drawn from `seed`.

    Everything is held in float64 in this process: meant for small designs (`archmodel.check` shrinks big ones).
    `wires`: "exact", or "planned" to round what travels to the plan's formats. Raises ExecutionError.
    """
    return run_plan(
        design.workload, design.plan, design.placement, steps=steps, seed=seed, wires=wires, program=design.program
    )
