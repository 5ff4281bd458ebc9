"""A small design keeps every kind of the big one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.coverage import tiling_problems
from archmodel.execute.errors import ExecutionError
from archmodel.execute.shrink import chosen_tables, shrink, table_class
from archmodel.execute.shrinking import MOST_RANKS, narrowed, small_layout
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from archmodel.workloads.recommendation import Dcnv2, Workload
from tests.execute.small import SHARDINGS, cross, place


def big(**more: object) -> Dcnv2:
    """A design with all kinds of tables."""
    tables = {
        f"{sharding}_{tier}": {
            "num_embeddings": [10**7, 0, 10**5, 999],
            "embedding_dim": [128, 64, 6, 128],
            "pooling_factor": [80, 1, 0, 2.5],
        }
        for sharding in SHARDINGS
        for tier in ("hbm", "ddr")
    }
    fields = {
        "global_batch": 65536,
        "dense_features": 700,
        "bottom_mlp": [512, 128],
        "top_mlp": [1024, 1024, 1],
        "cross_layers": 9,
        "cross_rank": 512,
    }
    return Dcnv2(tables=tables, **(fields | more))


def big_plan(layout: Layout, **more: object) -> Plan:
    rules = [
        {
            "match": {"name": f"{sharding}_{tier}_*"},
            "sharding": sharding,
            "tier": "hbm" if sharding == "data_parallel" else tier,
            "optimizer": "rowwise_adagrad" if tier == "hbm" else "adam",
            **({"column_shards": 6} if sharding == "column_wise" else {}),
            **({"column_shards": min(4, layout.local_size)} if sharding == "table_column_wise" else {}),
            **({"column_shards": min(5, layout.nodes + 1)} if sharding == "grid_wise" else {}),
        }
        for sharding in SHARDINGS
        for tier in ("hbm", "ddr")
    ]
    return Plan(tables={"rules": rules}, **more)


@pytest.mark.parametrize("layout", [Layout(16, 8), Layout(1, 16), Layout(40, 1), Layout(9, 3), Layout(1, 1)], ids=str)
def test_every_class_of_table_is_kept(layout: Layout) -> None:
    workload, plan = big(), big_plan(layout)
    placement = place(workload, plan, layout)
    small = shrink(workload, plan, placement)
    kinds = [
        {(p.sharding[t], p.tier[t], p.dtype[t], p.optimizer[t]) for t in range(len(p.tables))}
        for p in (placement, small.placement)
    ]
    assert kinds[0] == kinds[1]
    assert {table_class(placement, t) for t in range(len(placement.tables))} == {
        table_class(placement, t) for t in chosen_tables(placement)
    }
    assert set(placement.scope.tolist()) == set(small.placement.scope.tolist())
    assert tiling_problems(small.placement) == []
    assert small.placement.layout.ranks <= MOST_RANKS
    assert small.workload.global_batch <= 60
    assert small.workload.table_arrays.num_embeddings.max() <= 1000
    pieces = [{t: list(p.table).count(t) for t in set(p.table.tolist())} for p in (placement, small.placement)]
    names = placement.tables.names
    cut = {names[t] for t, n in pieces[0].items() if n > 1}
    kept = set(small.placement.tables.names)
    if small.placement.layout.local_size > 1 or layout.local_size == 1:
        assert {small.placement.tables.names[t] for t, n in pieces[1].items() if n > 1} == cut & kept
    assert any("tables" in note for note in small.notes)


@given(st.integers(1, 64), st.integers(1, 16))
def test_layouts(nodes: int, local: int) -> None:
    small = small_layout(Layout(nodes, local))
    assert small.ranks <= MOST_RANKS
    assert (small.nodes > 1) == (nodes > 1)
    assert (small.local_size > 1) == (local > 1)
    if nodes * local <= MOST_RANKS:
        assert small == Layout(nodes, local)
    if local <= 4:
        assert small.local_size == local or nodes == 1


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40))
def test_widths_keep_order_equality_and_remainder(widths: list[int]) -> None:
    small = narrowed(widths)
    ordered = sorted(set(widths))
    assert sorted(set(small.values())) == [small[w] for w in ordered]
    assert all(small[w] % 4 == w % 4 and small[w] <= w for w in ordered if w > 16)
    assert all(small[w] == w for w in ordered if w <= 16)


def test_uneven_batches_and_buckets_are_kept() -> None:
    layout = Layout(2, 8)
    for batch, ranks in ((65536, 8), (65537, 8), (5, 8)):
        workload = big(global_batch=batch)
        plan = big_plan(layout, gradient_bucket=4.0 * workload.dense_parameters / 5)
        small = shrink(workload, plan, place(workload, plan, layout))
        assert small.placement.layout.ranks == ranks
        assert (small.workload.global_batch % ranks == 0) == (batch % layout.ranks == 0)
        assert (small.workload.global_batch < ranks) == (batch < layout.ranks)
        bucket = float(small.plan.gradient_bucket)
        assert 4 < 4.0 * small.workload.dense_parameters / bucket < 6


def test_a_small_design_stays_as_it_is() -> None:
    workload, plan = cross(), Plan(tables="row_wise")
    small = shrink(workload, plan, place(workload, plan, Layout(2, 2)))
    assert small.notes == ("nothing: the design is small enough to run as it is",)
    assert small.workload.table_arrays.num_embeddings.tolist() == workload.table_arrays.num_embeddings.tolist()
    assert small.workload.flops_per_sample == workload.flops_per_sample


def test_other_workloads_are_refused_by_name() -> None:
    workload, plan = cross(), Plan()
    with pytest.raises(ExecutionError, match="cannot be shrunk"):
        shrink(Workload(global_batch=3), plan, place(workload, plan, Layout(1, 1)))
