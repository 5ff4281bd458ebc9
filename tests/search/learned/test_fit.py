"""The fit: exact gradients, the same answer every time, better than both baselines on costs that do not add up."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.errors import ArchmodelError
from archmodel.search.learned.fit import _start, additive, compare, fit, fit_linear, pack, singles, unpack
from archmodel.search.learned.measurements import of_lists
from archmodel.search.learned.model import PARAMETERS, loss
from archmodel.search.learned.scores import score
from tests.search.learned.sets import make_sets, make_tables, seconds_of


@pytest.fixture(scope="module")
def fitted(tables, sets):
    return fit(tables, sets, seed=0, steps=300)


def test_gradients_are_those_of_finite_differences(tables, sets):
    """Every kind of parameter, along random directions, at a random point; central differences."""
    rng = np.random.default_rng(5)
    x = (tables.matrix - tables.matrix.mean(0)) / tables.matrix.std(0)
    weights = {k: v + 0.1 * rng.random(v.shape) for k, v in _start(x.shape[1], 5.0, rng).items()}
    shapes = {k: weights[k].shape for k in PARAMETERS}
    target = sets.seconds / sets.seconds.mean()
    _, gradient = loss(x, sets.matrix, target, weights, 0.1)
    step = 1e-6
    for name in PARAMETERS:
        for _ in range(3):
            way = {k: np.zeros(shapes[k]) for k in PARAMETERS}
            way[name] = rng.normal(size=shapes[name])
            up, down = (
                loss(x, sets.matrix, target, unpack(pack(weights) + sign * step * pack(way), shapes), 0.1)[0]
                for sign in (1, -1)
            )
            assert float((gradient[name] * way[name]).sum()) == pytest.approx(
                (up - down) / (2 * step), rel=1e-5, abs=1e-8
            )


def test_packing_is_undone():
    start = _start(22, 5.0, np.random.default_rng(0))
    again = unpack(pack(start), {k: start[k].shape for k in PARAMETERS})
    assert all((again[k] == start[k]).all() for k in PARAMETERS)


def test_it_beats_both_baselines_on_sets_left_out(fitted):
    scores = fitted.scores["left_out"]
    assert scores["learned"].sets == 30
    assert scores["learned"].mape < 0.06
    assert scores["learned"].mape < 0.5 * min(scores["linear"].mape, scores["sum of singles"].mape)
    assert scores["learned"].kendall > 0.9


def test_it_goes_on_beyond_the_sets_seen(fitted, tables):
    """Sets of three times as many tables: time goes on linearly, and so does the head."""
    rng = np.random.default_rng(9)
    many = [rng.permutation(len(tables))[:24] for _ in range(20)]
    test = of_lists(many, seconds_of(tables, many), len(tables))
    assert score(fitted.model.predict(tables, test.matrix), test.seconds).mape < 0.1


def test_the_same_seed_gives_the_same_model(fitted, tables, sets):
    again, other = fit(tables, sets, seed=0, steps=300), fit(tables, sets, seed=1, steps=300)
    assert all((again.model.weights[k] == fitted.model.weights[k]).all() for k in PARAMETERS)
    assert again.left_out.tolist() == fitted.left_out.tolist() != other.left_out.tolist()


def test_sets_left_out_change_nothing(fitted, tables, sets):
    """Their times could be anything: the weights stay."""
    times = sets.seconds.copy()
    times[fitted.left_out] *= 7.0
    changed = fit(tables, of_lists(_lists(sets), times, sets.tables, sets.batch), seed=0, steps=300)
    assert all((changed.model.weights[k] == fitted.model.weights[k]).all() for k in PARAMETERS)


def test_tables_never_fitted_change_nothing(tables, sets):
    """A table that stands in no set does not move the standardisation."""
    more = make_tables(41)
    a, b = fit(tables, sets, steps=20), fit(more, of_lists(_lists(sets), sets.seconds, 41, 4096), steps=20)
    assert more.names[:40] == tables.names
    if (more.matrix[:40] == tables.matrix).all():
        assert (a.model.mean == b.model.mean).all()
    used = np.unique(sets.member)
    assert b.model.low.tolist() == more.matrix[used].min(0).tolist()


def test_the_linear_baseline_is_exact_where_costs_are_linear(tables):
    sets = make_sets(tables, 150)
    inputs = np.asarray(sets.matrix @ np.stack([np.ones(40), tables.matrix[:, 4]], 1))
    seconds = 3e-6 + inputs @ np.array([1e-6, 2e-8])
    linear = of_lists(_lists(sets), seconds, 40)
    found = fit_linear(tables, linear)
    assert found.predict(tables, linear) == pytest.approx(seconds, rel=1e-6)
    alone = np.array([found.predict(tables, linear.of(np.array([t])))[0] for t in range(40)])
    assert found.each(tables) + found.coefficients[0] == pytest.approx(alone, rel=1e-9)


def test_sums_of_singles(tables, sets):
    alone = singles(sets)
    assert alone.tolist() == pytest.approx(sets.seconds[:40].tolist())
    assert additive(alone, sets)[45] == pytest.approx(sum(alone[t] for t in _lists(sets)[45]))
    some = sets.of(np.arange(5, len(sets)))
    assert np.isnan(additive(singles(some), some)).any()
    model = fit(tables, some, steps=10)
    known = compare(model.model, model.linear, singles(some), tables, some)["sum of singles"]
    assert 0 < known.sets < len(some)


def test_too_few_sets_are_refused(tables):
    with pytest.raises(ArchmodelError, match="are too few to fit"):
        fit(tables, make_sets(tables, 1))


def _lists(sets):
    return [sets.member[a:b] for a, b in zip(sets.start[:-1], sets.start[1:], strict=True)]
