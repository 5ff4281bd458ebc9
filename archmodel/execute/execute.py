"""`archmodel.execute(design)`: run a design's own Program at its own size."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.execute.machine import WireMode
from archmodel.execute.optimizers import STATE_NAMES
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


MOST_BYTES = 8e9
"""Memory that `execute` may need unless it is allowed more."""


def memory_needed(design: Designed) -> float:
    """Bytes, about, that a run holds in float64: whole tables and their shards, moments, ids, and all buffers."""
    program, placement, tables = design.program, design.placement, design.workload.table_arrays
    replicated = set(placement.table[placement.of_scope("replica")].tolist())
    elements = 0.0
    for t in range(len(tables)):
        copies = program.ranks if t in replicated else 1
        moments = len(STATE_NAMES[placement.optimizer[t]]) if placement.optimizer[t] != "rowwise_adagrad" else 0
        elements += float(tables.num_embeddings[t]) * float(tables.embedding_dim[t]) * (2 + copies * (1 + moments))
    ids = float(tables.pooling_factor.sum()) * design.workload.global_batch
    buffers = [b for b in program.buffers.values() if b.dtype != "uint8"]
    held = sum(float(np.broadcast_to(b.elements, (program.ranks,)).sum()) for b in buffers)
    return 8.0 * (elements + 2 * ids + held)


def execute(
    design: Designed, *, steps: int = 3, seed: int = 0, wires: WireMode = "exact", most_bytes: float = MOST_BYTES
) -> Execution:
    """Run `steps` iterations in numpy on simulated ranks, with batches and parameters drawn from `seed`.

    Everything is held in float64 in this process: meant for small designs (`archmodel.check` shrinks big ones).
    `wires`: "exact", or "planned" to round what travels to the plan's formats. Raises ExecutionError, also when the
    design would need more than `most_bytes` of memory.
    """
    needed = memory_needed(design)
    if needed > most_bytes:
        raise ExecutionError(
            f"running this design at its own size takes about {needed / 1e9:,.0f} GB, and most_bytes allows "
            f"{most_bytes / 1e9:,.3g} GB; archmodel.check runs a shrunk one"
        )
    return run_plan(
        design.workload, design.plan, design.placement, steps=steps, seed=seed, wires=wires, program=design.program
    )
