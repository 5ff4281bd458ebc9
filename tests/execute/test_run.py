"""The Program, run on simulated ranks: results equal the unsharded reference, counts equal the Program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from archmodel.execute.batch import draw
from archmodel.execute.check import relative
from archmodel.execute.errors import ExecutionError
from archmodel.execute.execute import execute
from archmodel.execute.parameters import initial
from archmodel.execute.run import run_plan
from archmodel.parallel.lower import lower
from archmodel.parallel.plan import Plan
from archmodel.program import Elementwise, Layout, Op, Program
from tests.execute.small import (
    LAYOUTS,
    OPTIMIZERS,
    SHARDINGS,
    batches_of,
    cat,
    cross,
    differing_counts,
    dot,
    holds,
    place,
)


def plan_of(sharding: str, optimizer: str = "sgd", **more: Any) -> Plan:
    default: dict[str, Any] = {"sharding": sharding, "optimizer": optimizer}
    if sharding == "column_wise":
        default["column_shards"] = 3
    dense = "sgd" if optimizer == "rowwise_adagrad" else optimizer
    return Plan(tables={"default": default}, dense_optimizer=dense, **more)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_sharding_on_every_layout(sharding: str, layout: Layout) -> None:
    optimizer = OPTIMIZERS[(SHARDINGS.index(sharding) + LAYOUTS.index(layout)) % 4]
    holds(cross(), plan_of(sharding, optimizer), layout)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_sharding_with_every_optimizer(sharding: str, optimizer: str) -> None:
    holds(dot(), plan_of(sharding, optimizer), Layout(2, 2), steps=3)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_widths_that_do_not_divide(sharding: str) -> None:
    holds(cat(), Plan(tables={"default": {"sharding": sharding, "optimizer": "rowwise_adagrad"}}), Layout(2, 3))


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("batch", [1, 3])
def test_fewer_samples_than_ranks(sharding: str, batch: int) -> None:
    holds(dot(batch=batch), plan_of(sharding, "adagrad"), Layout(2, 3))


@pytest.mark.parametrize("layout", [Layout(1, 8), Layout(4, 2)], ids=str)
def test_more_ranks_than_tables(layout: Layout) -> None:
    tables = {"a": {"num_embeddings": 5, "embedding_dim": 8, "pooling_factor": 2}}
    for sharding in SHARDINGS:
        if sharding != "table_column_wise" or layout.local_size <= 8:
            holds(dot(tables=tables), plan_of(sharding, "adam"), layout)


def test_all_routes_in_one_program() -> None:
    rules = [
        {"match": {"name": "wide_0"}, "sharding": "row_wise", "optimizer": "adam", "dtype": "fp16"},
        {"match": {"name": "wide_1"}, "sharding": "grid_wise", "optimizer": "rowwise_adagrad", "tier": "ddr"},
        {"match": {"name": "odd"}, "sharding": "data_parallel", "optimizer": "adam"},
        {"match": {"name": "thin"}, "sharding": "table_wise", "optimizer": "adagrad", "tier": "ddr", "dtype": "bf16"},
    ]
    wires = {"lookup_forward": "fp16", "lookup_backward": "bf16", "dense_gradient": "fp16", "index": "int32"}
    for precision in ({}, {"compute": "bf16"}, {"compute": "fp32", "parameters": "bf16"}):
        for prefetch in (False, True):
            plan = Plan(
                tables={"rules": rules},
                wires=wires,
                precision=precision,
                prefetch_input=prefetch,
                dense_optimizer="adam",
                gradient_bucket=100.0,
            )
            execution = holds(cat(bottom_mlp=[6, 5]), plan, Layout(2, 3), steps=3)
            assert {"hbm", "ddr"} == set(execution.traffic[0].memory["table.lookup"])


@pytest.mark.parametrize("layout", [Layout(1, 1), Layout(1, 3), Layout(2, 2)], ids=str)
def test_models_without_tables(layout: Layout) -> None:
    holds(cat(tables={}), Plan(), layout)
    holds(dot(tables={}, bottom_mlp=[4]), Plan(), layout)
    holds(cross(tables={}), Plan(dense_optimizer="adam"), layout)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_inference(sharding: str) -> None:
    workload = cross(mode="inference")
    execution = holds(workload, plan_of(sharding), Layout(2, 2))
    assert np.isnan(execution.losses).all()
    start = initial(workload, 0)
    assert all(np.array_equal(a, b) for a, b in zip(execution.parameters.arrays, start.arrays, strict=True))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_prefetched_indices_change_nothing(sharding: str) -> None:
    workload, layout = dot(), Layout(2, 2)
    runs = [
        run_plan(workload, plan, place(workload, plan, layout), steps=4, seed=5)
        for plan in (plan_of(sharding), plan_of(sharding, prefetch_input=True))
    ]
    assert runs[0].digest == runs[1].digest
    for a, b in zip(runs[0].traffic, runs[1].traffic, strict=True):
        assert {k: dict(v) for k, v in a.wire.items()}.keys() == {k: dict(v) for k, v in b.wire.items()}.keys()
        for op in a.wire:
            for link in a.wire[op]:
                assert np.array_equal(a.wire[op][link], b.wire[op][link])


@st.composite
def designs(draw_: Any) -> tuple[Any, Plan, Layout]:
    layout = Layout(draw_(st.integers(1, 3)), draw_(st.integers(1, 4)))
    tables, rules = {}, []
    for i in range(draw_(st.integers(1, 4))):
        dim = draw_(st.sampled_from([1, 2, 4, 5, 8, 12]))
        tables[f"t{i}"] = {
            "num_embeddings": draw_(st.sampled_from([0, 1, 2, 7, 40])),
            "embedding_dim": dim,
            "pooling_factor": draw_(st.sampled_from([0, 0.3, 1, 2.5, 6])),
            "access": draw_(st.sampled_from([{"kind": "uniform"}, {"kind": "zipf", "alpha": 1.2}])),
        }
        sharding = draw_(st.sampled_from(SHARDINGS))
        most = {"column_wise": dim, "grid_wise": dim, "table_column_wise": min(dim, layout.local_size)}
        rule = {
            "match": {"name": f"t{i}"},
            "sharding": sharding,
            "optimizer": draw_(st.sampled_from(OPTIMIZERS)),
            "dtype": draw_(st.sampled_from(["fp32", "fp16"])),
            "tier": "hbm" if sharding == "data_parallel" else draw_(st.sampled_from(["hbm", "ddr"])),
        }
        if sharding in most:
            rule["column_shards"] = draw_(st.integers(1, most[sharding]))
        rules.append(rule)
    plan = Plan(
        tables={"rules": rules},
        dense_optimizer=draw_(st.sampled_from(["sgd", "adagrad", "adam"])),
        gradient_bucket=float(draw_(st.sampled_from([1, 200, 10**7]))),
        prefetch_input=draw_(st.booleans()),
        wires={"lookup_forward": draw_(st.sampled_from(["fp32", "bf16"])), "length": "int64"},
    )
    batch = draw_(st.integers(1, 15))
    kind = draw_(st.sampled_from([cat, cross]))
    return kind(batch=batch, tables=tables, bottom_mlp=draw_(st.sampled_from([[], [3]]))), plan, layout


@given(designs())
@settings(max_examples=40)
def test_any_design(design: tuple[Any, Plan, Layout]) -> None:
    holds(*design)


# --- wires --------------------------------------------------------------------------------------------------------


def test_planned_wires_of_full_precision_change_no_bit() -> None:
    workload, layout = cat(), Layout(2, 2)
    plan = Plan(
        tables={"rules": [{"match": {"name": "odd"}, "sharding": "data_parallel"}], "default": "row_wise"},
        wires={"lookup_forward": "fp64", "lookup_backward": "fp64", "dense_gradient": "fp64"},
    )
    placement = place(workload, plan, layout)
    runs = [run_plan(workload, plan, placement, wires=wires) for wires in ("exact", "planned")]  # type: ignore[arg-type]
    assert runs[0].digest == runs[1].digest


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_narrow_wires_round_but_little(sharding: str) -> None:
    workload, layout = dot(), Layout(2, 2)
    errors = []
    for dtype in ("fp32", "fp16", "bf16"):
        wires = {"lookup_forward": dtype, "lookup_backward": dtype, "dense_gradient": dtype}
        plan = plan_of(sharding, wires=wires)
        placement = place(workload, plan, layout)
        exact, planned = (run_plan(workload, plan, placement, wires=w) for w in ("exact", "planned"))  # type: ignore[arg-type]
        errors.append(
            max(relative(a, b) for a, b in zip(planned.parameters.arrays, exact.parameters.arrays, strict=True))
        )
        assert relative(planned.losses, exact.losses) < 0.02
        batches = batches_of(workload, layout, 3)
        assert differing_counts(workload, plan, placement, batches, planned) == []
    assert 0 < errors[0] < 1e-6
    assert errors[0] < errors[1] < errors[2] < 0.02


# --- determinism --------------------------------------------------------------------------------------------------


def test_same_seed_same_bits_and_another_seed_others() -> None:
    workload = cross()
    plan = plan_of("grid_wise", "adam")
    placement = place(workload, plan, Layout(2, 3))
    first, again, other = (run_plan(workload, plan, placement, seed=seed) for seed in (3, 3, 4))
    assert first.digest == again.digest != other.digest


@pytest.mark.parametrize("sharding", ["table_wise", "column_wise", "table_column_wise", "data_parallel"])
def test_pooled_vectors_of_whole_rows_have_the_same_bits_on_any_ranks(sharding: str) -> None:
    plan, workload = plan_of(sharding), dot()
    runs = [run_plan(workload, plan, place(workload, plan, layout), steps=1) for layout in LAYOUTS]
    assert all(np.array_equal(run.embeddings, runs[0].embeddings) for run in runs)


# --- what the executor refuses ------------------------------------------------------------------------------------


def test_the_facade_runs_a_design() -> None:
    class Design:
        workload = cross()
        plan = plan_of("row_wise")
        placement = place(workload, plan, Layout(1, 2))
        program = lower(workload, plan, placement)

    assert execute(Design(), steps=2).losses.shape == (2,)  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match=r"most_bytes allows 1e-06 GB; archmodel\.check runs a shrunk one"):
        execute(Design(), most_bytes=1e3)  # type: ignore[arg-type]


def changed(program: Program, name: str, op: Op) -> Program:
    return replace(program, ops=tuple(op if o.name == name else o for o in program.ops))


def test_unknown_work_and_functions_are_named() -> None:
    workload, plan = cross(), plan_of("table_wise")
    placement = place(workload, plan, Layout(1, 2))
    program = lower(workload, plan, placement)
    op = program.op("cross_0.forward")
    assert isinstance(op.work, Elementwise)
    with pytest.raises(ExecutionError, match=r"cross_0.forward: no function is called 'crosss'; did you mean cross\?"):
        run_plan(
            workload, plan, placement,
            program=changed(program, op.name, replace(op, work=replace(op.work, function="crosss"))),
        )  # fmt: skip
    with pytest.raises(ExecutionError, match=r"cross_0.forward: .* no rule for work of kind str"):
        run_plan(workload, plan, placement, program=changed(program, op.name, replace(op, work="nothing")))  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match="reads nothing on rank 0 before anything wrote it"):
        run_plan(workload, plan, placement, program=changed(program, op.name, replace(op, reads=("nothing",) * 3)))


def test_bad_batches_are_named() -> None:
    workload, plan = cross(), plan_of("table_wise")
    placement = place(workload, plan, Layout(1, 2))
    good = draw(workload, 2, 0, 0)
    with pytest.raises(ExecutionError, match="3 steps need as many batches"):
        run_plan(workload, plan, placement, batches=[good])
    with pytest.raises(ExecutionError, match="cut over ranks"):
        run_plan(workload, plan, placement, batches=[draw(workload, 1, 0, 0)], steps=1)
    outside = [ids.copy() for ids in good.sparse.ids]
    outside[0][0] = 40
    with pytest.raises(ExecutionError, match="a row id of table t_0 is outside its 40 rows"):
        run_plan(workload, plan, placement, batches=[replace(good, sparse=replace(good.sparse, ids=outside))], steps=1)
    lengths = [n.copy() for n in good.sparse.lengths]
    lengths[1][0] += 1
    with pytest.raises(ExecutionError, match="lengths and row ids of table t_1 do not agree"):
        run_plan(
            workload, plan, placement, batches=[replace(good, sparse=replace(good.sparse, lengths=lengths))], steps=1
        )


def test_formats_of_the_wires_are_real_numbers_and_the_mode_is_named() -> None:
    with pytest.raises(ValidationError, match=r"wires\.lookup_forward"):
        plan_of("table_wise", wires={"lookup_forward": "int8"})
    with pytest.raises(ValidationError, match=r"wires\.index"):
        plan_of("table_wise", wires={"index": "fp16"})
    workload, plan = cross(), plan_of("table_wise")
    with pytest.raises(ExecutionError, match='wires is "exact" or "planned"'):
        run_plan(workload, plan, place(workload, plan, Layout(1, 2)), steps=1, wires="half")  # type: ignore[arg-type]


def test_shards_that_miss_or_repeat_elements_are_caught() -> None:
    workload, plan = cross(), plan_of("column_wise")
    placement = place(workload, plan, Layout(1, 2))
    start = placement.column_start.copy()
    start[1] -= 1
    program = lower(workload, plan, placement)
    with pytest.raises(ExecutionError, match=r"table t_0: columns 2 to 3 are in two shards"):
        run_plan(workload, plan, replace(placement, column_start=start), program=program, steps=1)
