"""Shards in memory, and bags of row ids."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.errors import ExecutionError
from archmodel.execute.parameters import initial
from archmodel.execute.shards import Shard, joined, sector_bytes, shards_of
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from tests.execute.small import SHARDINGS, cat, place
from tests.execute.test_embedding import BAGS, bags_of


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
