"""A bottom MLP that one rank runs for the whole batch: who works, who holds, what travels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.errors import DesignError
from archmodel.parallel.bottom import bottom_load
from archmodel.parallel.lower import lower
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import PlanError, resolve
from archmodel.program import AllToAll, Collective, Layout, Program
from archmodel.quantities import itemsize
from archmodel.workloads.recommendation import Recommendation
from tests.execute.small import ROOM, cat, cross, dot, place

RANKS = [(Layout(1, 3), 0), (Layout(1, 3), 2), (Layout(2, 3), 4), (Layout(3, 1), 1)]


def program_of(workload: Recommendation, layout: Layout, rank: int | None, **plan: Any) -> Program:
    p = Plan(**({"tables": "table_wise", "bottom_mlp": {"rank": rank}} | plan))
    return lower(workload, p, place(workload, p, layout))


def everywhere(program: Program, values: Any) -> np.ndarray:
    return np.broadcast_to(np.asarray(values, float), (program.ranks,))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("layout", "rank"), RANKS, ids=str)
def test_only_that_rank_does_bottom_work(layout: Layout, rank: int, fused: bool) -> None:
    program = program_of(dot(), layout, rank, fused_epilogues=fused, precision={"compute": "fp16"})
    mine = [op for op in program.ops if op.name.startswith("bottom_") or op.name.startswith("bottom.cast")]
    assert len(mine) > 6
    others = np.arange(layout.ranks) != rank
    for op in mine:
        (bytes_,) = op.work.memory_bytes().values()
        assert everywhere(program, bytes_)[rank] > 0, op.name
        assert not everywhere(program, bytes_)[others].any(), op.name
        assert not everywhere(program, op.work.flops())[others].any(), op.name
    held = [b for b in program.buffers.values() if b.name.startswith("bottom_") or b.name == "dense_features"]
    assert {b.role for b in held} == {"input", "parameter", "gradient", "activation"}
    for buffer in held:
        assert everywhere(program, buffer.elements)[rank] > 0
        assert not everywhere(program, buffer.elements)[others].any()
    assert everywhere(program, program.buffers["dense_features"].elements)[rank] == 22 * 5
    assert program.bottom_rank == rank


@pytest.mark.parametrize("kind", [dot, cat, cross])
def test_products_are_the_same_work_elsewhere(kind: Any) -> None:
    more = {"bottom_mlp": [6, 5]} if kind is cat else {}
    for layout, rank in RANKS:
        spread, alone = (program_of(kind(**more), layout, r) for r in (None, rank))
        for name in ("bottom_0.forward", "bottom_1.forward", "bottom_0.weight_gradient", "bottom_1.input_gradient"):
            totals = [everywhere(p, p.op(name).work.flops()).sum() for p in (spread, alone)]
            assert totals[0] == totals[1], name


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_its_parameters_are_held_once_not_reduced_and_updated_there(optimizer: str) -> None:
    workload, layout = cross(), Layout(2, 2)
    spread, alone = (program_of(workload, layout, r, dense_optimizer=optimizer, gradient_bucket=1.0) for r in (None, 3))
    bottom = sum(layer.parameters for layer in workload.layers() if layer.name.startswith("bottom_"))
    reduced = [n for op in alone.ops if isinstance(op.work, Collective) for n in op.reads]
    updated = [n for op in alone.ops if op.name.startswith("dense.update") for n in op.reads]
    assert reduced and not any(n.startswith("bottom_") for n in reduced)
    assert sorted(updated) == sorted(b.name for b in alone.buffers.values() if b.role == "gradient")
    total = sum(op.work.blocks.sum() for op in alone.ops if isinstance(op.work, Collective))
    assert total == workload.dense_parameters - bottom
    steps = [
        sum(everywhere(p, op.work.flops()) for op in p.ops if op.name.startswith("dense.update"))
        for p in (spread, alone)
    ]
    per_parameter = steps[0][0] / workload.dense_parameters
    assert steps[1].tolist() == [per_parameter * (workload.dense_parameters - bottom)] * 3 + [steps[0][0]]
    if optimizer == "adam":
        state = everywhere(alone, alone.buffers["dense.state"].elements)
        assert state.tolist() == [2 * (workload.dense_parameters - bottom)] * 3 + [2 * workload.dense_parameters]


@pytest.mark.parametrize("wires", [("fp32", "fp32"), ("fp16", "fp32"), ("bf16", "fp16")])
def test_its_output_travels_as_one_more_feature(wires: tuple[str, str]) -> None:
    workload, layout = dot(batch=24), Layout(1, 4)
    formats = {"lookup_forward": wires[0], "lookup_backward": wires[1]}
    spread, alone = (program_of(workload, layout, r, wires=formats) for r in (None, 1))
    for name, dtype in (("table.pooled_all_to_all", wires[0]), ("table.gradient_all_to_all", wires[1])):
        works = [p.op(name).work for p in (spread, alone)]
        assert all(isinstance(w, AllToAll) for w in works)
        before, after = (everywhere(spread, w.wire_bytes()["scale_up"]) for w in works)
        width = workload.bottom_width * itemsize(dtype)  # type: ignore[arg-type]
        if name == "table.pooled_all_to_all":
            assert (after - before).tolist() == [0, 18 * width, 0, 0]  # to three ranks of six samples
        else:
            assert (after - before).tolist() == [6 * width, 0, 6 * width, 6 * width]
    casts = [op.name for op in alone.ops if op.name.startswith("bottom.cast")]
    changed = [phase for phase, wire in zip(("forward", "backward"), wires, strict=True) if wire != "fp32"]
    assert casts == [f"bottom.cast.{phase}" for phase in changed]


@pytest.mark.parametrize("sharding", ["row_wise", "data_parallel", "grid_wise"])
def test_it_travels_also_when_no_table_is_whole(sharding: str) -> None:
    program = program_of(dot(), Layout(2, 2), 0, tables=sharding)
    table = [op.name for op in program.ops if op.name.startswith("table.")]
    assert table == ["table.pooled_all_to_all", "table.gradient_all_to_all"]


def test_the_exchange_waits_for_it_and_its_backward_for_the_exchange() -> None:
    names = [op.name for op in program_of(dot(), Layout(1, 2), 0).ops]
    order = ["table.lookup", "bottom_1.forward", "table.pooled_all_to_all", "interaction.forward"]
    order += ["table.gradient_all_to_all", "bottom_1.relu_gradient", "bottom_0.weight_gradient", "table.update"]
    assert [names.index(n) for n in order] == sorted(names.index(n) for n in order)


def test_one_rank_is_data_parallel() -> None:
    spread, alone = (program_of(cross(), Layout(1, 1), r) for r in (None, 0))
    assert [op.name for op in spread.ops] == [op.name for op in alone.ops]
    assert spread.buffers.keys() == alone.buffers.keys()
    assert alone.bottom_rank is None


def test_the_automatic_placement_counts_its_load() -> None:
    tables = {"t": {"count": 8, "num_embeddings": 1000, "embedding_dim": 8, "pooling_factor": 2}}
    workload, layout = dot(tables=tables, bottom_mlp=[64, 8]), Layout(1, 4)
    plan = Plan(tables="table_wise", bottom_mlp={"rank": 2})
    load = bottom_load(workload, plan, layout)
    assert load.tolist() == [0, 0, 22 * ((5 + 64 + 64 + 8) * 4 + 8 * 4), 0]
    assert not bottom_load(workload, Plan(), layout).any()

    def tables_on(placement: Placement) -> list[int]:
        return np.bincount(placement.home, minlength=4).tolist()

    room = (plan, workload.table_arrays, layout, 22, ROOM)
    assert tables_on(resolve(*room)) == [2, 2, 2, 2]
    counted = tables_on(resolve(*room, load))
    assert counted[2] < 2
    assert sum(counted) == 8


def test_data_parallel_is_a_word() -> None:
    assert Plan(bottom_mlp="data_parallel").bottom_mlp.rank is None
    assert Plan().bottom_mlp == Plan(bottom_mlp="data_parallel").bottom_mlp


def test_ranks_that_are_not_there() -> None:
    workload, plan = dot(), Plan(bottom_mlp={"rank": 4})
    with pytest.raises(PlanError, match=r"plan\.bottom_mlp\.rank: 4 does not exist; there are 4 ranks, from 0"):
        place(workload, plan, Layout(2, 2))


SMALL = """
name: small
system:
  node:
    gpus: 2
    gpu: {{use: devices/h100_sxm_80gb.yaml}}
    scale_up: {{use: fabrics/nvswitch_h100.yaml}}
workload:
  kind: dlrm
  interaction: cat
  global_batch: 64
  dense_features: 4
  bottom_mlp: {layers}
  top_mlp: [8, 1]
  tables: {{t: {{num_embeddings: 100, embedding_dim: 16}}}}
plan:
  {plan}
"""


@pytest.mark.parametrize(
    ("plan", "layers", "message"),
    [
        ("bottom_mlp: {rank: 2}", "[4]", "plan.bottom_mlp.rank .*2 does not exist; there are 2 ranks"),
        ("bottom_mlp: {rank: 0}", "[]", "plan.bottom_mlp.rank .*the workload has no bottom MLP"),
        ("bottom_mlp: {rank: -1}", "[4]", "plan.bottom_mlp.rank"),
        ("bottom_mlp: {rnk: 0}", "[4]", "did you mean rank"),
        ("bottom_mlp: everywhere", "[4]", "plan.bottom_mlp"),
        ("copy_input: true", "[4]", "plan.copy_input .*the node has no host"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, plan: str, layers: str, message: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.format(plan=plan, layers=layers))
    with pytest.raises(DesignError, match=message) as found:
        am.load(path)
    assert f"{path}:" in str(found.value)


def test_it_is_estimated_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.format(plan="bottom_mlp: {rank: 1}", layers="[4]"))
    answer = am.estimate(am.load(path))
    (forward,) = (op for op in answer.ops if op.name == "bottom_0.forward")
    assert forward.time[0] == 0 < forward.time[1]
    assert am.check(am.load(path)).passed
