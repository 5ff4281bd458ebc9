"""The check passes on what is right, fails on anything wrong, and never passes on nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from archmodel.execute import check as check_module
from archmodel.execute import functions, optimizers
from archmodel.execute.check import check, check_plan, relative, relative_rms, relative_update
from archmodel.execute.report import CheckReport, Count
from archmodel.parallel import sparse
from archmodel.parallel.lower import lower
from archmodel.parallel.plan import Plan
from archmodel.program import Collective, Elementwise, EmbeddingLookup, Gemm, Layout, Program
from tests.execute.small import SHARDINGS, cat, cross, dot, place

RULES = [
    {"match": {"name": "wide_0"}, "sharding": "row_wise", "optimizer": "adagrad"},
    {"match": {"name": "wide_1"}, "sharding": "grid_wise", "optimizer": "rowwise_adagrad", "tier": "ddr"},
    {"match": {"name": "odd"}, "sharding": "data_parallel", "optimizer": "adam"},
    {"match": {"name": "thin"}, "sharding": "table_wise", "optimizer": "sgd"},
]


def run(layout: Layout | None = None, **more: Any) -> CheckReport:
    """Check a design that takes every route."""
    workload = cat(bottom_mlp=[6, 5], **more)
    plan = Plan(tables={"rules": RULES}, gradient_bucket=150.0, wires={"lookup_forward": "fp16"})
    return check_plan(workload, plan, place(workload, plan, layout or Layout(2, 3)))


@pytest.fixture(scope="module")
def report() -> CheckReport:
    return run()


def test_it_passes_and_says_what_it_did(report: CheckReport) -> None:
    assert report.failures == ()
    assert report.passed
    text = "\n".join(report.lines())
    for words in (
        "shrunk:",
        "ops equal the Program",
        "same seed, same bits: yes",
        "against finite differences",
        "scale-out bytes",
    ):
        assert words in text
    assert len(report.ops) > 40
    assert {row.op for row in report.ops} >= {
        "row.lookup",
        "node_row.pooled_all_to_all",
        "replicated.update",
        "table.update",
    }
    assert all(row.exact < 1e-12 for row in report.tensors)
    assert any(0 < row.wires < 0.1 for row in report.tensors)
    assert all(a == pytest.approx(c, rel=1e-12) for a, _, c in report.losses)
    assert [row.layout for row in report.layouts] == ["1 rank (1 x 1)", "3 ranks (1 x 3)", "6 ranks (3 x 2)"]
    assert report.layouts[0].from_main is None
    assert report.layouts[2].from_main is not None
    assert all(row.same_bits for row in report.layouts)


def test_it_is_plain_data(report: CheckReport) -> None:
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["passed"] is True
    assert data["failures"] == []
    assert {"shrunk", "ops", "buffers", "losses", "tensors", "gradients", "layouts"} <= set(data)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_sharding_passes(sharding: str) -> None:
    for workload in (dot(), cross(mode="inference")):
        plan = Plan(tables={"default": {"sharding": sharding, "optimizer": "rowwise_adagrad"}}, prefetch_input=True)
        assert check_plan(workload, plan, place(workload, plan, Layout(1, 3)), steps=2).failures == ()


def test_designs_without_tables_pass() -> None:
    workload, plan = cross(tables={}), Plan()
    assert check_plan(workload, plan, place(workload, plan, Layout(1, 2))).failures == ()


def test_the_facade() -> None:
    class Design:
        workload = cat()
        plan = Plan(tables="table_wise")
        placement = place(workload, plan, Layout(1, 2))
        program = lower(workload, plan, placement)

    assert check(Design(), steps=1, seed=3).passed  # type: ignore[arg-type]


# --- what is wrong is seen ----------------------------------------------------------------------------------------


def lowering_with(change: Callable[[Program], Program]) -> Callable[..., Program]:
    return lambda *arguments: change(lower(*arguments))


def with_work(name: str, **changes: Any) -> Callable[[Program], Program]:
    """Change fields of the work of one op."""

    def change(program: Program) -> Program:
        op = program.op(name)
        values = {k: v(getattr(op.work, k)) for k, v in changes.items()}
        other = replace(op, work=replace(op.work, **values))  # type: ignore[type-var]
        return replace(program, ops=tuple(other if o.name == name else o for o in program.ops))

    return change


@pytest.mark.parametrize(
    ("op", "kind", "field"),
    [
        ("top_0.forward", Gemm, "k"),
        ("top_0.forward", Gemm, "epilogue_reads"),
        ("interaction.forward", Elementwise, "written_bytes"),
        ("dense.update_0", Elementwise, "operations"),
        ("row.lookup", EmbeddingLookup, "indices"),
        ("row.lookup", EmbeddingLookup, "bags"),
        ("dense.all_reduce_0", Collective, "blocks"),
    ],
)
def test_a_wrong_amount_fails(op: str, kind: type, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change = with_work(op, **{field: lambda x: x + 1})
    monkeypatch.setattr(check_module, "lower", lowering_with(change))
    found = run().failures
    assert any(failure.startswith(f"{op}: ") for failure in found), found


def test_a_wrong_amount_on_one_rank_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(program: Program) -> Program:
        one = np.zeros(program.ranks)
        one[4] = 1.0
        return with_work("table.lookup", operations=lambda x: x + one)(program)

    monkeypatch.setattr(check_module, "lower", lowering_with(change))
    (failure,) = run().failures
    assert "rank 4" in failure


def test_distinct_rows_and_buffers_are_held_too(monkeypatch: pytest.MonkeyPatch) -> None:
    change = with_work("row.lookup", unique_row_bytes=lambda x: {tier: b + 32 for tier, b in x.items()})
    monkeypatch.setattr(check_module, "lower", lowering_with(change))
    assert [f.split(" ")[0:2] for f in run().failures] == [["row.lookup:", "unique_row_bytes.hbm"]]

    def smaller(program: Program) -> Program:
        buffers = dict(program.buffers)
        buffers["embeddings"] = replace(buffers["embeddings"], elements=buffers["embeddings"].elements - 1)
        return replace(program, buffers=buffers)

    monkeypatch.setattr(check_module, "lower", lowering_with(smaller))
    assert [f.split(":")[0] for f in run().failures] == ["buffer embeddings"]


def test_an_op_that_is_left_out_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(program: Program) -> Program:
        return replace(program, ops=tuple(op for op in program.ops if op.name != "row.lookup"))

    monkeypatch.setattr(check_module, "lower", lowering_with(change))
    assert any("row.lookup: FLOP was counted but is no op of the Program" in f for f in run().failures)


@pytest.mark.parametrize("name", ["relu_grad", "split", "combine", "cross_entropy_grad", "dense_embedding_gradient"])
def test_a_wrong_function_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = functions.FUNCTIONS[name]

    def wrong(rank: Any, op: Any) -> None:
        right(rank, op)
        if rank.index == 0:
            values = rank.values[op.writes[0]]
            rank.values[op.writes[0]] = values * 1.0001

    monkeypatch.setitem(functions.FUNCTIONS, name, wrong)
    found = run(Layout(1, 2)).failures
    assert any("from the reference" in f for f in found)


@pytest.mark.parametrize("name", ["adagrad", "rowwise_adagrad", "adam", "sgd"])
def test_a_wrong_optimizer_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = optimizers.STEPS[name]

    def wrong(w: Any, g: Any, state: Any, rate: float, t: int, s: Any) -> Any:
        return right(w, g, state, rate * (1 + 1e-5), t, s)

    monkeypatch.setitem(optimizers.STEPS, name, wrong)
    assert any("from the reference" in f for f in run(Layout(1, 2)).failures)


def test_a_wrong_operation_count_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sparse.STEP_OPERATIONS, "adagrad", 6)
    assert any("row.update: FLOP" in f for f in run(Layout(1, 2)).failures)


def test_a_random_executor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right, rng = functions.FUNCTIONS["combine"], np.random.default_rng(0)

    def wrong(rank: Any, op: Any) -> None:
        right(rank, op)
        rank.values[op.writes[0]] = rank.values[op.writes[0]] * (1 + 1e-14 * rng.random())

    monkeypatch.setitem(functions.FUNCTIONS, "combine", wrong)
    assert "two runs from one seed differ in their bits" in run(Layout(1, 2)).failures


# --- nothing passes on nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["ops", "buffers", "losses", "tensors", "gradients", "layouts"])
def test_an_empty_part_fails(report: CheckReport, part: str) -> None:
    assert not replace(report, **{part: ()}).passed
    assert not replace(report, **{part: getattr(report, part)[:-1]}).passed
    assert not replace(report, **{part: ()}, expected=dict(report.expected) | {part: 0}).passed


def test_other_ways_to_say_nothing_fail(report: CheckReport) -> None:
    assert not replace(report, expected={}).passed
    assert not replace(report, digests=("", "")).passed
    assert not replace(report, tensors=tuple(replace(t, moved=0.0) for t in report.tensors)).passed
    assert not replace(report, tensors=tuple(replace(t, moved=1e-12) for t in report.tensors)).passed
    assert not replace(report, gradients=tuple(replace(g, samples=0) for g in report.gradients)).passed
    assert not replace(report, mode="inference").passed
    assert not replace(report, coverage=("table x has no shard",)).passed


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e-8])
def test_any_bad_number_fails(report: CheckReport, bad: float) -> None:
    assert not replace(report, results=(bad, 0.0)).passed
    for name in ("exact", "update"):
        value = bad if bad != 1e-8 else 1e-5
        worse = (*report.tensors[:-1], replace(report.tensors[-1], **{name: value}))
        assert not replace(report, tensors=worse).passed
    worse_layouts = (*report.layouts[:-1], replace(report.layouts[-1], from_reference=bad))
    assert not replace(report, layouts=worse_layouts).passed
    slope = bad if bad != 1e-8 else 1e-4
    worse_slopes = (*report.gradients[:-1], replace(report.gradients[-1], difference=slope))
    assert not replace(report, gradients=worse_slopes).passed


def test_failures_are_printed(report: CheckReport) -> None:
    row = report.ops[3]
    worse = replace(row, flops=Count(10.0, 11.0, "10 by the Program, 11 counted (step 0, rank 0)"))
    bad = replace(report, ops=(*report.ops[:3], worse, *report.ops[4:]), coverage=tuple("abcdefghijklmn"))
    text = "\n".join(bad.lines())
    assert "10 is counted 11" in text
    assert "15 failed" in text
    assert "... and 3 more" in text


def test_every_field_of_the_report_is_in_the_dictionary(report: CheckReport) -> None:
    assert {f.name for f in fields(report)} <= set(report.to_dict())


def test_differences() -> None:
    a, b = np.array([1.0, 2.0]), np.array([1.0, 4.0])
    assert relative(a, b) == 0.5
    assert relative(a, a) == relative(np.zeros(0), np.zeros(0)) == 0.0
    assert relative(a, np.zeros(2)) == 2.0
    assert relative(a, np.zeros(3)) == float("inf")
    assert relative(np.array([np.nan, 1.0]), a) == float("inf")
    assert relative_rms(a, b) == pytest.approx(2 / np.sqrt(17))
    assert relative_rms(np.array([np.inf, 1.0]), a) == float("inf")
    assert relative_update(b + 1e-3, b, b - 1e-2) == pytest.approx(0.1)
    assert relative_update(b, b, b) == 0.0
    assert relative_update(a, b, b) == float("inf")
    assert relative_update(b + 1e-16, b, b - 1e-3) == 0.0


def test_reduction_in_the_switch_is_run_and_counted() -> None:
    """All-reduces that the switch does: results and bytes on every wire equal those that the Program claims."""
    workload = cross()
    plan = Plan(tables="row_wise", all_reduce="in_network")
    report = check_plan(workload, plan, place(workload, plan, Layout(1, 3, in_network=0.8)))
    assert report.failures == ()
