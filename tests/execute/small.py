"""Small designs for the executor's tests, and what every run has to satisfy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archmodel.execute.batch import Samples, draw
from archmodel.execute.check import column_blocks, inputs, relative
from archmodel.execute.compare import compare_buffers, compare_ops
from archmodel.execute.parameters import Parameters, initial
from archmodel.execute.reference import Model
from archmodel.execute.run import Execution, run_plan
from archmodel.execute.settings import Settings
from archmodel.parallel.counts import Observed
from archmodel.parallel.lower import lower
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import resolve
from archmodel.program import Layout
from archmodel.workloads.recommendation import Dcnv2, Dlrm, Recommendation

SHARDINGS = (
    "table_wise",
    "column_wise",
    "row_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_wise",
    "data_parallel",
)
OPTIMIZERS = ("sgd", "rowwise_adagrad", "adagrad", "adam")
LAYOUTS = (Layout(1, 1), Layout(1, 2), Layout(1, 5), Layout(2, 3), Layout(3, 2), Layout(3, 1))
ROOM = {"hbm": 1e18, "ddr": 1e18, "cxl": 1e18, "scm": 1e18, "ssd": 1e18}
TABLES = {
    "t": {
        "num_embeddings": [40, 3, 101, 0, 57],
        "embedding_dim": 8,
        "pooling_factor": [3, 1.5, 0, 2, 1],
        "access": {"kind": "zipf", "alpha": 1.05},
    }
}
"""A long, a tiny, a never used, an empty and a one-hot table."""
MIXED_WIDTHS = {
    "wide": {"num_embeddings": [90, 31], "embedding_dim": 12, "pooling_factor": 2.5},
    "odd": {"num_embeddings": 23, "embedding_dim": 7, "pooling_factor": 4},
    "thin": {"num_embeddings": 50, "embedding_dim": 3, "access": {"kind": "zipf", "alpha": 0.8}},
}


def dot(batch: int = 22, tables: dict | None = None, **more: object) -> Dlrm:
    """DLRM with pairwise dots: one width throughout."""
    fields = {"dense_features": 5, "bottom_mlp": [7, 8], "top_mlp": [9, 4, 1], "interaction": "dot"} | more
    return Dlrm(global_batch=batch, tables=TABLES if tables is None else tables, **fields)


def cat(batch: int = 22, tables: dict | None = None, **more: object) -> Dlrm:
    """DLRM with concatenation: any widths."""
    fields = {"dense_features": 5, "bottom_mlp": [], "top_mlp": [9, 1], "interaction": "cat"} | more
    return Dlrm(global_batch=batch, tables=MIXED_WIDTHS if tables is None else tables, **fields)


def cross(batch: int = 22, tables: dict | None = None, **more: object) -> Dcnv2:
    """DCNv2."""
    fields = {"dense_features": 5, "bottom_mlp": [7, 6], "top_mlp": [9, 4, 1], "cross_layers": 2, "cross_rank": 3}
    return Dcnv2(global_batch=batch, tables=TABLES if tables is None else tables, **(fields | more))


def place(workload: Recommendation, plan: Plan, layout: Layout, room: dict[str, float] = ROOM) -> Placement:
    """Shards, with room for everything."""
    return resolve(plan, workload.table_arrays, layout, workload.global_batch, room)


def batches_of(workload: Recommendation, layout: Layout, steps: int = 2, seed: int = 0) -> list[Samples]:
    """Batches for a run."""
    return [draw(workload, layout.ranks, seed, step) for step in range(steps)]


def reference(workload: Recommendation, plan: Plan, placement: Placement, start: Parameters) -> Model:
    """The unsharded model."""
    return Model(
        workload,
        [t.copy() for t in start.tables],
        {n: v.copy() for n, v in start.dense.items()},
        plan.dense_optimizer,
        placement.optimizer,
        column_blocks(placement),
        frozenset(placement.table[placement.of_scope("replica")].tolist()),
        Settings(),
    )


def differing_counts(
    workload: Recommendation, plan: Plan, placement: Placement, batches: Sequence[Samples], execution: Execution
) -> list[str]:
    """Every count that is not the Program's."""
    programs = [lower(workload, plan, placement, c) for c in Observed.each([b.sparse for b in batches])]
    rows = compare_ops(programs, execution.traffic)
    assert len(rows) == len(programs[0].ops) > 0
    found = [failure for row in rows for failure in row.failures]
    buffers = compare_buffers(programs, execution.traffic)
    return found + [f"{b.buffer}: {b.elements.differs}" for b in buffers if b.elements.differs]


def holds(workload: Recommendation, plan: Plan, layout: Layout, steps: int = 2) -> Execution:
    """Run, and assert that numbers equal the reference's and counts equal the Program's."""
    placement = place(workload, plan, layout)
    batches = batches_of(workload, layout, steps)
    start = initial(workload, 0)
    execution = run_plan(workload, plan, placement, steps=steps, batches=batches, parameters=start)
    assert differing_counts(workload, plan, placement, batches, execution) == []
    model = reference(workload, plan, placement, start)
    for step, batch in enumerate(batches):
        assert relative(execution.predictions[step], model.predict(inputs(batch))) < 1e-12
        if workload.mode == "train":
            assert np.isclose(execution.losses[step], model.step(inputs(batch)), rtol=1e-12)
    names = workload.table_arrays.names
    expected = Parameters(tuple(model.tables), model.dense).named(names)
    found = execution.parameters.named(names)
    assert found.keys() == expected.keys()
    worst = {name: relative(found[name], values) for name, values in expected.items()}
    assert max(worst.values()) < 1e-9, worst
    return execution
