"""Sums over bags and over equal rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.arithmetic import Tally, counted, plain
from archmodel.execute.embedding import bag_sums, row_sums
from archmodel.execute.shards import Bags

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
