"""Fronts and hypervolumes against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.search.pareto import front, hypervolume

SIDE = 4
points = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(st.integers(0, SIDE), min_size=d, max_size=d), min_size=1, max_size=12)
)


@given(points)
def test_the_front_is_what_no_other_point_dominates(rows: list[list[int]]) -> None:
    values = np.array(rows, dtype=float)
    expected = [
        not any(all(b <= a for a, b in zip(x, y, strict=True)) and x != y for y in rows) for x in rows
    ]  # y at most x everywhere, and not the same: less somewhere
    assert list(front(values)) == expected


@given(points)
def test_hypervolume_is_the_number_of_unit_cubes_that_are_dominated(rows: list[list[int]]) -> None:
    cells = itertools.product(range(SIDE), repeat=len(rows[0]))
    counted = sum(any(all(p <= c for p, c in zip(point, cell, strict=True)) for point in rows) for cell in cells)
    assert hypervolume(np.array(rows, dtype=float), np.full(len(rows[0]), float(SIDE))) == counted


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_hypervolume_agrees_with_optuna(objectives: int) -> None:
    module = pytest.importorskip("optuna._hypervolume")
    values = np.random.default_rng(0).random((60, objectives))
    ours, theirs = (f(values, np.ones(objectives)) for f in (hypervolume, module.compute_hypervolume))
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_a_long_list_is_filtered_in_blocks() -> None:
    values = np.random.default_rng(1).integers(0, 30, (3000, 2)).astype(float)
    best = np.full(31, np.inf)  # by first objective, the least second one
    for x, y in values:
        best[int(x)] = min(best[int(x)], y)
    least = np.minimum.accumulate(best)
    expected = [y == best[int(x)] and (x == 0 or y < least[int(x) - 1]) for x, y in values]
    assert list(front(values)) == expected


def test_unknown_values_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown objective"):
        front(np.array([[1.0, np.nan]]))


def test_points_beyond_the_reference_add_nothing() -> None:
    assert hypervolume(np.array([[1.0, 5.0], [2.0, 2.0]]), np.array([3.0, 4.0])) == 2.0
    assert hypervolume(np.empty((0, 2)), np.array([3.0, 4.0])) == 0.0
