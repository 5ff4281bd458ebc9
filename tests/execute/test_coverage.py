"""Shards tile every table exactly, and what does not is named (torchrec pull requests 4726, 4274, 3652)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.coverage import tiling_problems
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from tests.execute.small import SHARDINGS, cat, cross, dot, place


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("layout", [Layout(1, 1), Layout(1, 3), Layout(2, 3), Layout(3, 2), Layout(8, 1)], ids=str)
def test_every_sharding_tiles(sharding: str, layout: Layout) -> None:
    for workload in (cat(), cross(), dot()):
        if sharding == "table_column_wise" and layout.local_size > 3:
            continue
        assert tiling_problems(place(workload, Plan(tables=sharding), layout)) == []


@given(
    st.integers(1, 60),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from(["column_wise", "grid_wise"]),
    st.integers(1, 60),
)
def test_any_cut_of_columns_tiles(dim: int, nodes: int, local: int, sharding: str, pieces: int) -> None:
    plan = Plan(tables={"default": {"sharding": sharding, "column_shards": min(pieces, dim)}})
    workload = cat(tables={"t": {"num_embeddings": [0, 1, 13, 1000], "embedding_dim": dim}})
    placement = place(workload, plan, Layout(nodes, local))
    assert tiling_problems(placement) == []
    assert len(placement.table) == 4 * min(pieces, dim)


def broken(**changes: tuple[int, int]) -> list[str]:
    """Problems of a column-wise placement in which one shard's field is changed."""
    workload = cat()
    plan = Plan(tables={"default": {"sharding": "column_wise", "column_shards": 3}})
    placement: Placement = place(workload, plan, Layout(1, 3))
    fields = {}
    for name, (shard, value) in changes.items():
        fields[name] = getattr(placement, name).copy()
        fields[name][shard] = value
    return tiling_problems(replace(placement, **fields))


def test_gaps_overlaps_and_strangers_are_named() -> None:
    assert broken() == []
    assert broken(column_start=(1, 5)) == ["table wide_0: columns 4 to 5 are in no shard"]
    assert broken(column_start=(1, 3)) == ["table wide_0: columns 3 to 4 are in two shards"]
    assert broken(column_end=(2, 11)) == ["table wide_0: shards end at column 11 of 12"]
    assert broken(column_end=(2, 13)) == ["table wide_0: shards end at column 13 of 12"]
    assert broken(home=(4, 3)) == ["table wide_1: a shard is on rank 3; there are 3"]
    assert broken(home=(4, -1)) == ["table wide_1: a shard is on rank -1; there are 3"]
    assert broken(table=(0, 4)) == ["shard 0 is of table 4, which does not exist"]
    assert "table wide_0: columns 0 to 4 are in no shard" in broken(table=(0, 1))
    assert any("no columns" in p for p in broken(column_end=(0, 0)))


def test_a_table_without_shards_is_named() -> None:
    placement = place(cat(), Plan(tables="table_wise"), Layout(1, 2))
    kept = placement.table != 2
    fields = ("table", "column_start", "column_end", "scope", "home")
    cut = replace(placement, **{name: getattr(placement, name)[kept] for name in fields})
    assert tiling_problems(cut) == ["table odd has no shard"]


def test_surplus_shards_are_named() -> None:
    placement = place(cat(), Plan(tables="row_wise"), Layout(1, 2))
    fields = ("table", "column_start", "column_end", "scope", "home")
    twice = replace(
        placement, **{name: np.append(getattr(placement, name), getattr(placement, name)[2]) for name in fields}
    )
    assert tiling_problems(twice) == ["table odd: columns 0 to 7 are in two shards"]
