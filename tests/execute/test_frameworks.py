"""What frameworks do beside the model's arithmetic changes bytes and kernels, never results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from archmodel.execute.embedding import gradient_rows
from archmodel.execute.run import run_plan
from archmodel.execute.shards import Bags, Shard
from archmodel.parallel.lower import lower
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import PlanError
from archmodel.program import EmbeddingScatterAdd, HostIssue, Layout
from tests.execute.small import LAYOUTS, SHARDINGS, batches_of, cat, cross, dot, holds, place

PYTORCH = {
    "sparse_update": "rows", "cast_after_lookup": True, "loss_scaling": True, "host_waits": True, "fused_loss": False,
    "fused_epilogues": False, "copy_buckets": True, "bottom_mlp": {"rank": 0, "sliced": True},
    "precision": {"compute": "fp16", "parameters": "fp32", "cast_parameters": True},
    "wires": {"lookup_forward": "fp16", "lookup_backward": "fp16"},
}  # fmt: skip
TENSORFLOW = {"sparse_update": "rows_compiled", "cast_after_lookup": True, "wires": {"lookup_forward": "bf16"}}


def plan_of(sharding: str = "table_wise", **more: Any) -> Plan:
    default: dict[str, Any] = {"sharding": sharding, "optimizer": "sgd"}
    if sharding == "column_wise":
        default["column_shards"] = 3
    return Plan(tables={"default": default}, **more)


@pytest.mark.parametrize("framework", [PYTORCH, TENSORFLOW], ids=["pytorch", "tensorflow"])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_sharding(sharding: str, framework: dict[str, Any]) -> None:
    holds(dot(), plan_of(sharding, **framework), Layout(2, 2), steps=3)


@pytest.mark.parametrize("workload", [dot(), cross(), cat()], ids=["dot", "cross", "cat"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_layout(layout: Layout, workload: Any) -> None:
    holds(workload, plan_of(**PYTORCH), layout)


def test_rows_leave_what_the_exact_update_leaves() -> None:
    workload, layout = dot(), Layout(1, 3)
    exact, rows = plan_of(), plan_of(sparse_update="rows")
    placement, batches = place(workload, exact, layout), batches_of(workload, layout)
    a, b = (run_plan(workload, p, placement, steps=2, batches=batches).parameters for p in (exact, rows))
    for one, other in zip(a.tables, b.tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_only_sgd_adds_rows() -> None:
    plan = Plan(tables={"default": {"sharding": "table_wise", "optimizer": "adagrad"}}, sparse_update="rows")
    with pytest.raises(PlanError, match=r"plan\.sparse_update: rows adds gradients to rows: sgd, not adagrad"):
        place(dot(), plan, Layout(1, 2))


def test_one_row_of_gradients_for_every_index() -> None:
    shard = Shard(0, 0, 9, 0, 2, 1, "hbm", "fp32", "sgd", np.zeros((9, 2)))
    upstream = np.array([[9.0, 1.0, 2.0], [9.0, 3.0, 4.0]])
    bags = Bags(np.array([2, 1]), np.array([5, 7, 5]))
    assert gradient_rows([shard, shard], [bags, None], upstream).tolist() == [1, 2, 1, 2, 3, 4]


def ops_of(layout: Layout, **more: Any) -> list[str]:
    workload, plan = dot(tables={"t": {"num_embeddings": [50, 60], "embedding_dim": 8}}), plan_of(**more)
    return [op.name for op in lower(workload, plan, place(workload, plan, layout)).ops]


def test_passes_over_rows() -> None:
    """A copy when formats differ or nothing travels; unscaling of a scaled loss; scaling, unless the copy does it."""
    alone, two = Layout(1, 1), Layout(1, 2)
    passes = ("table.gradient_rows", "table.unscale_rows", "table.scale_rows", "table.scatter_add")

    def found(layout: Layout, **more: Any) -> list[str]:
        return [name.removeprefix("table.") for name in ops_of(layout, **more) if name in passes]

    half = {"lookup_backward": "fp16"}
    assert found(alone, sparse_update="rows") == ["gradient_rows", "scale_rows", "scatter_add"]
    assert found(two, sparse_update="rows") == ["gradient_rows", "scatter_add"]  # scaled while it is read
    assert found(two, sparse_update="rows", wires=half) == ["gradient_rows", "scale_rows", "scatter_add"]
    assert found(two, sparse_update="rows", wires=half, loss_scaling=True) == [
        "gradient_rows", "unscale_rows", "scale_rows", "scatter_add",
    ]  # fmt: skip
    assert found(two, sparse_update="rows_compiled", wires=half) == ["gradient_rows", "scatter_add"]


def test_bytes_of_a_scatter_add() -> None:
    workload, plan = dot(tables={"t": {"num_embeddings": 50, "embedding_dim": 8}}), plan_of(sparse_update="rows")
    (work,) = (
        op.work
        for op in lower(workload, plan, place(workload, plan, Layout(1, 1))).ops
        if isinstance(op.work, EmbeddingScatterAdd)
    )
    n = float(workload.global_batch * workload.table_arrays.pooling_factor[0])
    assert work.memory_bytes()["hbm"].tolist() == [n * (8 + 8 * 4 + 2 * 32)]  # index, gradient, a sector both ways
    assert work.flops().tolist() == [n * 8]


def test_where_the_device_waits_for_its_host() -> None:
    workload, plan = dot(), plan_of(**PYTORCH)
    ops = lower(workload, plan, place(workload, plan, Layout(1, 2))).ops
    assert [op.name for op in ops if isinstance(op.work, HostIssue)] == ["host.begin", "host.step"]
    assert ops[0].name == "host.begin"
    assert all(op.streams == ("compute", "host") for op in ops if isinstance(op.work, HostIssue))
    names = [op.name for op in ops]
    assert names.index("table.gradient_rows") < names.index("host.step") < names.index("dense.update_0")
    assert names.index("dense.update_0") < names.index("table.scatter_add")


@pytest.mark.parametrize(("scaled", "last"), [(True, True), (False, False)])
def test_pageable_batches_are_copied_when_the_thread_is_free(scaled: bool, last: bool) -> None:
    """After the step when the host had to wait for the gradients, else while the device computes."""
    framework = PYTORCH | {"loss_scaling": scaled, "copy_input": True, "prefetch_input": True, "pageable_input": True}
    names = [op.name for op in lower(dot(), plan_of(**framework), place(dot(), plan_of(), Layout(1, 2))).ops]
    assert (names.index("input.copy") > names.index("table.scatter_add")) is last
    assert names.index("host.fetch") + 1 == names.index("input.copy") < names.index("table.input_all_to_all")
    holds(dot(), plan_of(**framework), Layout(1, 2), steps=3)
