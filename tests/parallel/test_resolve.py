"""From a plan as written to shards: every kind, automatic choices, and a named error for what cannot be followed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.coverage import tiling_problems
from archmodel.parallel.placement import Placement, split_evenly
from archmodel.parallel.plan import Plan, holds
from archmodel.parallel.resolve import PlanError, resolve
from archmodel.program import Layout
from tests.execute.small import ROOM, SHARDINGS, cat

TABLES = {
    "user": {"num_embeddings": [1000, 7], "embedding_dim": 16, "pooling_factor": 4},
    "item": {"num_embeddings": 300, "embedding_dim": 30},
    "empty": {"num_embeddings": 0, "embedding_dim": 2},
}


def place(
    plan: Any, layout: Layout | None = None, tables: Any = None, batch: int = 600, **capacity: float
) -> Placement:
    workload = cat(batch=batch, tables=TABLES if tables is None else tables)
    room = ROOM | capacity
    return resolve(Plan(tables=plan), workload.table_arrays, layout or Layout(2, 3), workload.global_batch, room)


def problems(plan: Any, **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(PlanError) as caught:
        place(plan, **more)
    return caught.value.problems


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_kind_on_any_number_of_ranks(sharding: str, ranks: int) -> None:
    default: dict[str, Any] = {"sharding": sharding}
    if sharding == "table_column_wise":
        default["column_shards"] = min(ranks, 2)
    placement = place({"default": default}, Layout(1, ranks))
    assert tiling_problems(placement) == []
    assert placement.sharding == (sharding,) * 4


def test_row_blocks_are_ceil_and_rest() -> None:
    """torchrec issue 1591: rows that ranks do not divide are cut as [ceil, ..., rest]."""
    (blocks,) = place("row_wise", Layout(1, 3)).blocks("world")
    assert blocks.rows.tolist() == [[334, 334, 332], [3, 3, 1], [100, 100, 100], [0, 0, 0]]
    (blocks,) = place("row_wise", Layout(1, 8), {"t": {"num_embeddings": 9, "embedding_dim": 4}}).blocks("world")
    assert blocks.rows.tolist() == [[2, 2, 2, 2, 1, 0, 0, 0]]


def test_row_wise_cuts_over_all_ranks_and_table_row_wise_inside_a_node() -> None:
    """torchrec issue 2510: row-wise over 2 nodes of 8 holds 1/16 of the rows per rank, not 1/8."""
    tables = {"t": {"num_embeddings": 1600, "embedding_dim": 4}}
    (world,) = place("row_wise", Layout(2, 8), tables).blocks("world")
    assert world.rows.tolist() == [[100] * 16]
    (node,) = place("table_row_wise", Layout(2, 8), tables).blocks("node")
    assert node.rows.tolist() == [[200] * 8]
    assert len({r // 8 for r in node.ranks[0].tolist()}) == 1


def test_columns_are_cut_in_fours_where_the_width_allows() -> None:
    placement = place({"default": {"sharding": "column_wise", "column_shards": 3}}, tables={
        "a": {"num_embeddings": 5, "embedding_dim": [64, 30, 3, 8]},
    })  # fmt: skip
    assert [placement.columns[placement.table == t].tolist() for t in range(4)] == [
        [24, 20, 20], [10, 10, 10], [1, 1, 1], [3, 3, 2],
    ]  # fmt: skip


def test_homes_as_written() -> None:
    rules = [
        {"match": {"name": "user_0"}, "sharding": "column_wise", "ranks": [5, 0, 5]},
        {"match": {"name": "user_1"}, "sharding": "table_wise", "ranks": [4]},
        {"match": {"name": "item"}, "sharding": "grid_wise", "nodes": [1, 0]},
        {"match": {"name": "empty"}, "sharding": "table_column_wise", "nodes": [1], "column_shards": 2},
    ]
    placement = place({"rules": rules})
    homes = [placement.home[placement.table == t].tolist() for t in range(4)]
    assert homes == [[5, 0, 5], [4], [1, 0], [3, 4]]


def test_first_matching_rule_and_assigned_names_win() -> None:
    rules = [
        {"match": {"rows": "< 10"}, "sharding": "data_parallel"},
        {"match": {"name": "user_*"}, "sharding": "row_wise"},
    ]
    assign = {"item": {"sharding": "table_row_wise", "optimizer": "adam"}}
    placement = place({"default": {"sharding": "table_wise", "optimizer": "adagrad"}, "rules": rules, "assign": assign})
    assert placement.sharding == ("row_wise", "data_parallel", "table_row_wise", "data_parallel")
    assert placement.optimizer == ("adagrad", "adagrad", "adam", "adagrad")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("< 10", [True, False]),
        (">= 1e1", [False, True]),
        ("== 9", [True, False]),
        ("9", [True, False]),
        ("> 0.01k", [False, True]),
    ],
)
def test_conditions(condition: str, expected: list[bool]) -> None:
    assert holds(condition, np.array([9, 11])).tolist() == expected


def test_what_cannot_be_followed_is_named_with_its_place() -> None:
    assert problems({"rules": [{"match": {"name": "usr_0"}, "sharding": "row_wise"}]}) == [
        ("plan.tables.rules[0].match", "matches no table; did you mean user_0?")
    ]
    assert problems({"assign": {"items": {"sharding": "row_wise"}}}) == [
        ("plan.tables.assign.items", "is no table of the workload; did you mean item?")
    ]
    assert problems({"default": {"sharding": "table_wise", "ranks": [6]}}) == [
        ("plan.tables.default.ranks", "6 does not exist; there are 6 ranks, from 0")
    ]
    assert problems({"default": {"sharding": "row_wise", "ranks": [1]}}) == [
        ("plan.tables.default.ranks", "row_wise takes no ranks")
    ]
    assert problems({"assign": {"user_1": {"sharding": "column_wise", "column_shards": 17}}}) == [
        ("plan.tables.assign.user_1.column_shards", "17 pieces of table user_1, which has 16 columns")
    ]
    assert problems({"default": {"sharding": "table_column_wise", "column_shards": 4}})[0] == (
        "plan.tables.default.column_shards", "4 pieces on a node of 3 ranks",
    )  # fmt: skip
    assert problems({"default": {"sharding": "row_wise", "column_shards": 2}})[0] == (
        "plan.tables.default.column_shards", "row_wise does not cut columns",
    )  # fmt: skip
    assert problems({"default": {"sharding": "data_parallel", "tier": "ddr"}}) == [
        ("plan.tables.default.tier", "data_parallel keeps its replicas in hbm; every other sharding can use ddr")
    ]


def test_all_problems_at_once() -> None:
    rules = [{"match": {"name": "nothing"}}, {"match": {"name": "item"}, "sharding": "grid_wise", "nodes": [7]}]
    found = problems({"rules": rules, "assign": {"x": {}}})
    assert [path for path, _ in found] == [
        "plan.tables.rules[0].match",
        "plan.tables.assign.x",
        "plan.tables.rules[1].nodes",
    ]


# --- automatic choices --------------------------------------------------------------------------------------------


def test_auto_replicates_tiny_tables_and_cuts_heavy_ones() -> None:
    tables = {
        "tiny": {"num_embeddings": 20, "embedding_dim": 64},
        "heavy": {"num_embeddings": 10**5, "embedding_dim": 64, "pooling_factor": 500},
        "light": {"num_embeddings": [10**5] * 8, "embedding_dim": 64},
    }
    placement = place("auto", Layout(1, 4), tables)
    kinds = dict(zip(placement.tables.names, placement.sharding, strict=True))
    assert kinds["tiny"] == "data_parallel"
    assert kinds["heavy"] == "column_wise"
    assert {kinds[f"light_{i}"] for i in range(8)} == {"table_wise"}


def test_auto_counts_what_crosses_the_slow_links_between_nodes() -> None:
    """Replicas cost every interface 2 rows over the ranks of a node, pooled vectors 2 per sample of a rank."""
    many = {"t": {"num_embeddings": [10**6] * 64, "embedding_dim": 64}}
    edge = {"below": {"num_embeddings": 1023, "embedding_dim": 64}, "at": {"num_embeddings": 1024, "embedding_dim": 64}}

    def kinds(tables: dict[str, dict[str, object]], nodes: int) -> dict[str, str]:
        placement = place("auto", Layout(nodes, 4), tables, batch=2048 * nodes)
        return dict(zip(placement.tables.names, placement.sharding, strict=True))

    assert (kinds(many | edge, 2)["below"], kinds(many | edge, 2)["at"]) == ("data_parallel", "table_wise")
    assert kinds(many | edge, 1)["below"] == "table_wise"  # 2 x 1023 rows, 512 samples
    heavy = {"heavy": {"num_embeddings": 10**6, "embedding_dim": 64, "pooling_factor": 500}}
    assert kinds(many | heavy, 2) == {**{f"t_{i}": "table_wise" for i in range(64)}, "heavy": "table_row_wise"}
    few = {"t": {"num_embeddings": [10**6] * 7, "embedding_dim": 64}}
    assert set(kinds(few, 2).values()) == {"table_row_wise"}
    full = place("auto", Layout(2, 4), few, batch=4096, hbm=1.2 * 7 * 256e6 / 8)
    assert "table_row_wise" not in full.sharding  # a node's share and one more are 4.5 tables, its memory holds 4.2


def test_auto_replicates_the_smallest_up_to_a_tenth_of_memory() -> None:
    tables = {"t": {"num_embeddings": [1000 + i for i in range(40)], "embedding_dim": 64}}
    placement = place("auto", Layout(1, 2), tables, batch=10**5, hbm=10 * 20.5 * 1010 * 256)
    assert placement.sharding.count("data_parallel") == 20
    assert set(placement.sharding[:20]) == {"data_parallel"}


def test_auto_cuts_rows_of_a_table_too_big_for_its_columns() -> None:
    tables = {
        "huge": {"num_embeddings": 10**6, "embedding_dim": 16},
        "small": {"num_embeddings": 10**4, "embedding_dim": 16},
    }
    placement = place("auto", Layout(1, 4), tables, hbm=32e6)
    assert placement.sharding == ("row_wise", "table_wise")


def test_tables_with_least_traffic_move_to_ddr_when_hbm_is_full() -> None:
    tables = {
        "hot": {"num_embeddings": 10**5, "embedding_dim": 16, "pooling_factor": 50},
        "cold": {"num_embeddings": 10**6, "embedding_dim": 16},
    }
    placement = place("table_wise", Layout(1, 2), tables, hbm=10e6, ddr=1e9)
    assert placement.tier == ("hbm", "ddr")
    assert place("table_wise", Layout(1, 2), tables).tier == ("hbm", "hbm")
    assert place("data_parallel", Layout(1, 2), tables, hbm=10e6, ddr=1e9).tier == ("hbm", "hbm")


@pytest.mark.parametrize("kind", ["table_row_wise", "table_column_wise", "table_wise"])
def test_tables_go_where_there_is_room(kind: str) -> None:
    """By load alone the seven idle tables would share three nodes (or ranks), which have room for two each."""
    tables = {
        "hot": {"num_embeddings": 10**6, "embedding_dim": 8, "pooling_factor": 90},
        "cold": {"num_embeddings": [10**6] * 7, "embedding_dim": 8},
    }
    nodes, local = (4, 2) if kind != "table_wise" else (4, 1)
    placement = place(kind, Layout(nodes, local), tables, hbm=2.1 * 32e6 / local)
    where = placement.home // (1 if kind != "table_column_wise" else local)
    held = np.bincount(where, minlength=nodes) // (local if kind == "table_column_wise" else 1)
    assert held.tolist() == [2, 2, 2, 2]


def test_auto_never_replicates_what_it_moved_to_ddr() -> None:
    tables = {"t": {"num_embeddings": [50] * 40, "embedding_dim": 64}}
    placement = place("auto", Layout(1, 2), tables, batch=10**5, hbm=1e5, ddr=1e9)
    kinds = set(zip(placement.sharding, placement.tier, strict=True))
    assert ("data_parallel", "ddr") not in kinds
    assert {tier for _, tier in kinds} == {"hbm", "ddr"}


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40), st.integers(1, 8))
def test_table_wise_balances(rows: list[int], ranks: int) -> None:
    """Longest processing time first is within 4/3 of the best (Graham 1969), so of the mean plus the largest."""
    tables = {"t": {"num_embeddings": rows, "embedding_dim": 4, "pooling_factor": [float(r) for r in rows]}}
    placement = place("table_wise", Layout(1, ranks), tables)
    load = np.bincount(placement.home, weights=np.array(rows, float)[placement.table], minlength=ranks)
    assert load.max() <= max(4 / 3 * max(sum(rows) / ranks, max(rows)), sum(sorted(rows)[-ranks - 1 :][:2])) * (
        1 + 1e-9
    )


@given(st.integers(0, 1000), st.integers(1, 64))
def test_split_evenly(total: int, parts: int) -> None:
    split = split_evenly(total, parts)
    assert split.sum() == total
    assert split.max() - split.min() <= 1
    assert sorted(split.tolist(), reverse=True) == split.tolist()
