"""The cost of a set: no order of tables, never falling, convex, and a bound that brute force cannot beat."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from archmodel.errors import ArchmodelError
from archmodel.search.learned.fit import fit
from archmodel.search.learned.measurements import of_lists
from tests.search.learned.sets import make_tables


@pytest.fixture(scope="module")
def model(tables, sets):
    return fit(tables, sets, seed=0, steps=100).model


def test_no_order_of_tables_matters(model, tables):
    rng = np.random.default_rng(0)
    sets = [rng.permutation(40)[:9] for _ in range(20)]
    mixed = [rng.permutation(s) for s in sets]
    a, b = (model.predict(tables, of_lists(s, np.ones(20), 40).matrix) for s in (sets, mixed))
    assert a == pytest.approx(b, rel=1e-12)


def test_another_table_never_makes_a_set_faster(model, tables):
    parts = model.parts(tables)
    assert (parts >= 0).all()
    growing = model.of(np.cumsum(parts, axis=0))
    assert (np.diff(growing) >= 0).all()
    assert model.of(np.zeros(parts.shape[1])) == 0.0


def test_the_cost_is_convex_in_the_sums(model, tables):
    rng = np.random.default_rng(1)
    a, b = (rng.random((200, 40)) @ model.parts(tables) for _ in range(2))
    share = rng.random((200, 1))
    between = model.of(share * a + (1 - share) * b)
    assert (between <= (share[:, 0] * model.of(a) + (1 - share[:, 0]) * model.of(b)) * (1 + 1e-12)).all()


@pytest.mark.parametrize(("count", "ranks"), [(7, 3), (6, 2), (4, 6), (1, 3)])
def test_no_placement_is_below_the_bound(model, count, ranks):
    some = make_tables(count, seed=count)
    parts = model.parts(some)
    least = min(
        max(float(model.of(parts[np.array(home) == r].sum(0))) for r in range(ranks))
        for home in itertools.product(range(ranks), repeat=count)
    )
    bound = model.lower_bound(parts, ranks)
    assert 0 < bound <= least
    assert bound > 0.5 * least


def test_an_empty_machine_has_no_bound(model, tables):
    assert model.lower_bound(model.parts(tables)[:0], 3) == 0.0


def test_tables_beyond_those_fitted_are_named(model, tables):
    assert model.outside(tables) == []
    big = tables.of(np.arange(3))
    big.rows[1] = 10**12
    assert model.outside(big) == ["t1"]


def test_empty_tables_are_refused(model, tables):
    some = tables.of(np.arange(3))
    some.rows[2] = 0
    with pytest.raises(ArchmodelError, match="table t2 has no rows"):
        model.parts(some)
    some = tables.of(np.arange(3))
    some.pooling[0] = 0.0
    with pytest.raises(ArchmodelError, match="table t0 has no rows or no lookups"):
        model.parts(some)


def test_tables_without_bins_are_refused(model):
    with pytest.raises(ArchmodelError, match="lack bin_0 to bin_16"):
        model.parts(make_tables(3, bins=False))
