"""Shards in memory: bags, pooled lookup, segment sums."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.arithmetic import Tally, counted, plain
from archmodel.execute.embedding import Bags, Shard, bag_sums, joined, row_sums, sector_bytes, shards_of
from archmodel.execute.errors import ExecutionError
from archmodel.execute.parameters import initial
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from tests.execute.small import SHARDINGS, cat, place

BAGS = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=8)


def bags_of(lists: list[list[int]]) -> Bags:
    return Bags(np.array([len(x) for x in lists]), np.array([i for x in lists for i in x], dtype=np.int64))


@given(BAGS)
def test_bag_sums_equal_loops(lists: list[list[int]]) -> None:
    rows = np.random.default_rng(0).normal(size=(10, 3))
    bags, tally = bags_of(lists), Tally()
    filled, sums = bag_sums(counted(rows[bags.ids], tally), bags.lengths)
    out = np.zeros((len(lists), 3))
    out[filled] = sums
    assert np.allclose(out, [sum((rows[i] for i in x), np.zeros(3)) for x in lists], atol=1e-15)
    assert tally.operations == 3 * len(bags.ids)


@given(BAGS)
def test_row_sums_equal_loops(lists: list[list[int]]) -> None:
    bags, tally = bags_of(lists), Tally()
    gradients = np.random.default_rng(1).normal(size=(len(bags.ids), 2))
    rows, sums = row_sums(counted(gradients, tally), bags.ids)
    dense = np.zeros((10, 2))
    np.add.at(dense, bags.ids, gradients)
    assert rows.tolist() == sorted(set(bags.ids.tolist()))
    assert np.allclose(plain(sums), dense[rows], atol=1e-15)
    assert tally.operations == gradients.size


@given(BAGS, st.integers(0, 10), st.integers(0, 10))
def test_row_blocks_partition_bags(lists: list[list[int]], a: int, b: int) -> None:
    bags = bags_of(lists)
    edges = [0, min(a, b), max(a, b), 10]
    parts = [bags.within(x, y) for x, y in pairwise(edges)]
    assert np.array_equal(sum(p.lengths for p in parts), bags.lengths)
    assert sorted(np.concatenate([p.ids for p in parts])) == sorted(bags.ids)
    assert all(p.lengths.sum() == len(p.ids) for p in parts)


def test_joined_keeps_order() -> None:
    both = joined([bags_of([[1], [2, 3]]), bags_of([[], [4]])])
    assert both.lengths.tolist() == [1, 2, 0, 1]
    assert both.ids.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("row", "moved"), [(0, 0), (1, 32), (16, 32), (32, 32), (33, 64), (512, 512)])
def test_rows_move_whole_sectors(row: int, moved: int) -> None:
    assert sector_bytes(row) == moved


def test_a_row_that_is_elsewhere_is_not_read() -> None:
    shard = Shard(0, 4, 8, 0, 2, 0, "hbm", "fp32", "sgd", np.zeros((4, 2)))
    assert shard.local(np.array([4, 7])).tolist() == [0, 3]
    with pytest.raises(ExecutionError, match="rows 4 to 8 of table 0 was asked for rows 3 to 3"):
        shard.local(np.array([3]))


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_ranks_hold_disjoint_parts_that_make_up_the_tables(sharding: str) -> None:
    workload, layout = cat(), Layout(2, 3)
    plan = Plan(tables={"default": {"sharding": sharding, "optimizer": "adam"}})
    placement, start = place(workload, plan, layout), initial(workload, 0)
    held = [shards_of(placement, rank, start, train=True) for rank in range(layout.ranks)]
    shards = [s for rank in held for scope in rank for s in rank[scope]]
    copies = layout.ranks if sharding == "data_parallel" else 1
    assert sum(s.weights.size for s in shards) == copies * workload.table_arrays.parameters
    assert sum(s.state_bytes for s in shards) == 8 * copies * workload.table_arrays.parameters
    for s in shards:
        assert np.array_equal(s.weights, start.tables[s.table][s.row_start : s.row_end, s.column_start : s.column_end])
        assert not np.shares_memory(s.weights, start.tables[s.table])
