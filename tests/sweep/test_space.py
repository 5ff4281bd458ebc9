"""Any stretch of points can be made at any time, and together they are what the sampling promises."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.sweep.axes import Axis
from archmodel.sweep.space import Space, _permuted

X = Axis("x", "bandwidth", None, 1e12, 8e12, numeric=True)
N = Axis("n", None, (1, 2, 4))
LOG = Axis("l", "ratio", None, 1e-3, 1e3, scale="log", numeric=True)
WHOLE = Axis("w", None, None, 1, 6, whole=True)


def grid(*sizes: int, numeric: tuple[bool, ...] = ()) -> Space:
    flags = numeric or (True,) * len(sizes)
    axes = [Axis(f"a{i}", "ratio", tuple(map(float, range(n))), numeric=flags[i]) for i, n in enumerate(sizes)]
    return Space(tuple(axes))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_a_grid_holds_every_combination_once_and_numbers_them_as_written(sizes: list[int], data: st.DataObject) -> None:
    numeric = tuple(data.draw(st.booleans()) for _ in sizes)
    space = grid(*sizes, numeric=numeric)
    number, codes = space.rows(0, space.total)
    written = list(product(*(range(n) for n in sizes)))
    assert sorted(number) == list(range(space.total))
    assert [tuple(codes[i]) for i in np.argsort(number)] == written


def test_points_of_one_design_stand_together_in_a_grid() -> None:
    _, codes = grid(3, 2, 4, numeric=(True, False, True)).rows(0, 24)
    assert list(codes[:, 1]) == [0.0] * 12 + [1.0] * 12


@pytest.mark.parametrize("sample", ["grid", "random", "latin_hypercube", "sobol"])
@given(cut=st.integers(0, 60))
def test_a_stretch_is_a_part_of_the_whole(sample: str, cut: int) -> None:
    space = grid(3, 4, 5) if sample == "grid" else Space((X, N, LOG), sample, 60, 7)  # type: ignore[arg-type]
    whole = space.rows(0, space.total)
    halves = [space.rows(0, cut), space.rows(cut, space.total)]
    for i in range(2):
        assert np.array_equal(whole[i], np.concatenate([h[i] for h in halves]))


@given(st.integers(1, 700), st.integers(0, 5))
def test_the_permutation_takes_every_place_once(count: int, seed: int) -> None:
    assert sorted(_permuted(np.arange(count), count, seed, 1)) == list(range(count))


@given(st.integers(1, 300), st.integers(0, 3))
def test_a_latin_hypercube_has_one_point_in_every_stratum_of_every_axis(points: int, seed: int) -> None:
    u = Space((X, LOG), "latin_hypercube", points, seed)._unit(np.arange(points))
    for column in u.T:
        assert sorted(np.floor(column * points)) == list(range(points))


@pytest.mark.parametrize("sample", ["random", "latin_hypercube", "sobol"])
def test_draws_are_uniform_differ_by_seed_and_repeat(sample: str) -> None:
    first, again, other = (
        Space((X, N, LOG, WHOLE), sample, 4096, seed).rows(0, 4096)[1]  # type: ignore[arg-type]
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first[:, 0].mean() == pytest.approx(4.5e12, rel=0.02)
    assert np.log10(first[:, 2]).mean() == pytest.approx(0.0, abs=0.1)
    assert np.bincount(first[:, 1].astype(int), minlength=3) == pytest.approx(np.full(3, 4096 / 3), rel=0.1)
    assert set(first[:, 3]) == {1, 2, 3, 4, 5, 6}
    assert np.abs(np.corrcoef(first.T) - np.eye(4)).max() < 0.06


def test_sobol_covers_dyadic_boxes_evenly() -> None:
    """A shift modulo 1 by multiples of the box would keep the count exactly; by anything else, nearly."""
    u = Space((X, LOG), "sobol", 1024, 3)._unit(np.arange(1024))
    counts = np.histogram2d(u[:, 0], u[:, 1], bins=8, range=[[0, 1], [0, 1]])[0]
    assert counts.min() >= 12 and counts.max() <= 20  # of 16; random ones spread by 4 and more


@pytest.mark.parametrize("sample", ["random", "latin_hypercube", "sobol"])
def test_points_of_one_design_stand_together_in_a_draw_and_numbers_are_those_of_the_draw(sample: str) -> None:
    mixed = Space((X, N, LOG), sample, 200, 5)  # type: ignore[arg-type]
    number, codes = mixed.rows(0, 200)
    assert sorted(number) == list(range(200))
    assert np.count_nonzero(np.diff(codes[:, 1])) == 2
    assert np.array_equal(codes[np.argsort(number)], mixed._drawn(np.arange(200)))


def test_a_list_counts_its_designs() -> None:
    values = tuple(float(i) for i in range(60))
    space = Space((Axis("x", "ratio", values, numeric=True), Axis("n", None, (1, 2, 4) * 20)), "list")
    assert space.designs == 3 and space.total == 60


def test_columns_are_numbers_where_values_are() -> None:
    codes = np.array([0.0, 1.0])
    assert Axis("a", None, (1, 2)).column(codes).dtype.kind == "i"
    assert Axis("a", None, (True, False)).column(codes).dtype == bool
    assert list(Axis("a", None, (1, 2.5)).column(codes)) == [1.0, 2.5]
    assert list(Axis("a", None, ("auto", {"name": "big", "x": 1})).column(codes)) == ["auto", "big"]
    assert list(Axis("a", None, ({"x": 1}, None)).column(codes)) == ['{"x": 1}', "null"]
    assert list(WHOLE.column(np.array([3.0]))) == [3]
