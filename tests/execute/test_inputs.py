"""Copies from host memory and a bottom MLP on one rank, run: results equal the reference's, counts the Program's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.execute import check as check_module
from archmodel.execute.check import check_plan, relative
from archmodel.execute.run import run_plan
from archmodel.execute.shrink import shrink
from archmodel.parallel.lower import lower
from archmodel.parallel.plan import Plan
from archmodel.program import HostCopy, Layout, Program
from tests.execute.small import LAYOUTS, SHARDINGS, batches_of, cat, cross, differing_counts, dot, holds, place
from tests.execute.test_run import designs

WORKLOADS = {"dot": dot, "cat": lambda **more: cat(bottom_mlp=[6, 5], **more), "cross": cross}
EAGER: dict[str, Any] = {
    "fused_epilogues": False,
    "precision": {"compute": "fp16"},
    "wires": {"lookup_forward": "fp16", "lookup_backward": "bf16", "index": "int32"},
    "dense_optimizer": "adam",
    "gradient_bucket": 100.0,
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("more", [{}, EAGER], ids=["fused", "eager"])
def test_one_rank_runs_the_bottom_mlp(sharding: str, layout: Layout, more: dict[str, Any]) -> None:
    number = SHARDINGS.index(sharding) + LAYOUTS.index(layout) + len(more)
    workload = list(WORKLOADS.values())[number % 3]()
    rank = number % layout.ranks
    holds(workload, Plan(tables=sharding, bottom_mlp={"rank": rank}, **more), layout)


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_batches_are_copied(sharding: str, prefetch: bool) -> None:
    for layout in (Layout(1, 1), Layout(2, 2)):
        for mode in ("train", "inference"):
            execution = holds(
                cross(mode=mode), Plan(tables=sharding, copy_input=True, prefetch_input=prefetch), layout, steps=3
            )
            for traffic in execution.traffic:
                assert (traffic.memory["input.copy"]["ddr"] > 0).all()


@pytest.mark.parametrize("batch", [1, 3, 7])
def test_few_samples_and_no_tables(batch: int) -> None:
    plan = Plan(bottom_mlp={"rank": 4}, copy_input=True, prefetch_input=True)
    holds(cross(batch=batch), plan, Layout(2, 3), steps=3)
    holds(dot(batch=batch), plan, Layout(2, 3))
    holds(cross(batch=batch, tables={}), plan, Layout(2, 3))


@pytest.mark.parametrize("rank", [None, 1])
def test_copies_and_their_prefetch_change_no_bit(rank: int | None) -> None:
    workload, layout = dot(), Layout(2, 2)
    plans = [
        Plan(bottom_mlp={"rank": rank}, copy_input=c, prefetch_input=p) for c in (False, True) for p in (False, True)
    ]
    runs = [run_plan(workload, plan, place(workload, plan, layout), steps=4, seed=5) for plan in plans]
    assert len({run.digest for run in runs}) == 1


@st.composite
def with_inputs(draw: Any) -> tuple[Any, Plan, Layout]:
    workload, plan, layout = draw(designs())
    changes = {
        "copy_input": draw(st.booleans()),
        "fused_epilogues": draw(st.booleans()),
        "bottom_mlp": {"rank": draw(st.integers(0, layout.ranks - 1))},
        "precision": {"compute": draw(st.sampled_from(["fp32", "fp16", "tf32"]))},
    }
    kept = {name: getattr(plan, name) for name in Plan.model_fields}
    return workload, Plan(**(kept | changes)), layout


@given(with_inputs())
@settings(max_examples=40)
def test_any_design(design: tuple[Any, Plan, Layout]) -> None:
    holds(*design)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_narrow_wires_round_its_output_too(kind: str) -> None:
    workload, layout = WORKLOADS[kind](), Layout(2, 2)
    errors = []
    for dtype in ("fp64", "fp32", "bf16"):
        wires = {"lookup_forward": dtype, "lookup_backward": dtype, "dense_gradient": dtype}
        plan = Plan(tables="row_wise", bottom_mlp={"rank": 1}, wires=wires)
        placement = place(workload, plan, layout)
        exact, planned = (run_plan(workload, plan, placement, wires=w) for w in ("exact", "planned"))  # type: ignore[arg-type]
        errors.append(relative(*(run.parameters.dense["bottom_0.weight"] for run in (planned, exact))))
        assert differing_counts(workload, plan, placement, batches_of(workload, layout, 3), planned) == []
    assert 0 == errors[0] < errors[1] < 1e-7
    assert errors[1] < errors[2] < 0.02


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_check_passes_and_keeps_both(kind: str) -> None:
    workload = WORKLOADS[kind](batch=500)
    plan = Plan(tables="table_wise", bottom_mlp={"rank": 11}, copy_input=True, prefetch_input=True)
    placement = place(workload, plan, Layout(4, 3))
    small = shrink(workload, plan, placement)
    assert small.plan.copy_input
    assert small.plan.bottom_mlp.rank == small.placement.layout.ranks - 1
    assert lower(small.workload, small.plan, small.placement).bottom_rank == small.plan.bottom_mlp.rank
    report = check_plan(workload, plan, placement)
    assert report.failures == ()
    assert {"input.copy", "bottom_0.forward"} <= {row.op for row in report.ops}


def test_rank_0_stays_rank_0() -> None:
    workload, plan = dot(batch=500), Plan(bottom_mlp={"rank": 0})
    assert shrink(workload, plan, place(workload, plan, Layout(16, 8))).plan.bottom_mlp.rank == 0


@pytest.mark.parametrize("rank", [0, 1])
def test_a_wrong_byte_fails(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(program: Program) -> Program:
        op = program.ops[0]
        assert isinstance(op.work, HostCopy)
        bytes_ = np.array(np.broadcast_to(op.work.bytes, (program.ranks,)))
        bytes_[rank] += 1
        return replace(program, ops=(replace(op, work=HostCopy(bytes_)), *program.ops[1:]))

    workload, plan = dot(), Plan(bottom_mlp={"rank": 0}, copy_input=True)
    placement = place(workload, plan, Layout(1, 2))
    monkeypatch.setattr(check_module, "lower", lambda *arguments: changed(lower(*arguments)))
    found = check_plan(workload, plan, placement).failures
    assert len(found) == 2
    assert all(f.startswith("input.copy: ") and f"rank {rank}" in f for f in found)
