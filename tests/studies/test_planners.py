"""The study of planners: every value is a plan's, no plan is below its bound, and tasks are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.search import tasks


@pytest.fixture(scope="module")
def small(study):
    return study.drawn("small", 24, 8, (16, 32), 1024, 40 * study.GIB, 7)


def test_no_planner_beats_the_bound_and_none_beats_ours(study, small) -> None:
    found = study.under_torchrec(small)
    ours = study.of(found, "ours")
    assert ours.fits
    for o in found:
        if o.fits and o.value == o.value:
            assert o.value >= o.bound * (1 - 1e-9)
            assert o.value >= ours.value * (1 - 1e-9)
    assert study.best_greedy(found).planner in study.BASELINES


def test_tasks_depend_on_the_seed_alone(study, small) -> None:
    again = study.drawn("small", 24, 8, (16, 32), 1024, 40 * study.GIB, 7)
    other = study.drawn("small", 24, 8, (16, 32), 1024, 40 * study.GIB, 8)
    assert np.array_equal(small.rows, again.rows)
    assert np.array_equal(small.pooling, again.pooling)
    assert not np.array_equal(small.rows, other.rows)
    rows, pooling = study.criteo()
    assert len(rows) == 52
    assert set(small.pooling) <= set(pooling)
    assert small.rows.max() <= 2 * rows.max()


def test_autoshards_protocol(study) -> None:
    found = [t for t in study.every_task() if "AutoShard" in t.name]
    assert len(found) == 3
    for task in found:
        assert len(task.names) == 80
        assert set(task.dim) == {16, 32}
        assert task.topology.world_size * task.batch == 65_536
        assert tasks.options(task).ranks == 8


def test_ours_is_no_worse_than_the_published_plans_under_their_own_cost(study) -> None:
    for title in study.HUGECTR:
        published, ours = study.under_hugectr(title)
        assert ours.fits
        assert ours.bound <= ours.value <= published.value


def test_ours_is_no_worse_than_the_published_plan_under_the_estimate(study) -> None:
    found = study.under_estimate("8 H100")
    ours, published = study.of(found, "ours"), study.of(found, "published (HugeCTR)")
    assert ours.bound <= ours.value <= published.value
    assert all(o.value > ours.value for o in found if o.planner in study.BASELINES)


def test_greedies_balance_what_they_say(study, small) -> None:
    """The dim greedy's fullest rank is within one table of the mean."""
    homes = study.greedy_homes("dim", small)
    held = np.bincount(homes, weights=small.dim, minlength=8)
    assert held.max() - held.mean() <= small.dim.max()
