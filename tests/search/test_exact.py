"""The exact programme against every plan of small problems, and what it adds to the search."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.search import tasks
from archmodel.search.exact import finish, solve_exactly, variables
from archmodel.search.solver import Effort, solve
from tests.search.test_bound import best_of_all, drawn
from tests.search.test_tasks import drawn as drawn_task


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_best_of_all_plans(seed: int) -> None:
    options = drawn(seed)
    best = best_of_all(options)
    found = solve_exactly(options, 20.0)
    if not np.isfinite(best):
        assert found.assignment is None
        return
    assert found.assignment is not None and found.optimal and found.assignment.fits(options)
    assert found.assignment.value(options) == pytest.approx(best, rel=1e-3)
    assert found.lower_bound <= best * (1 + 1e-6)


def test_nothing_is_better_than_the_best() -> None:
    options = drawn(0)
    best = best_of_all(options)
    found = solve_exactly(options, 20.0, below=best * 0.99)
    assert found.assignment is None and found.lower_bound >= best * 0.98


def test_few_whole_tables_in_tight_memory_are_proven() -> None:
    """Forty tables on eight ranks, a third of the bytes too many: the relaxed bound lets tables leave HBM in part."""
    options = tasks.options(drawn_task(40, 8, 3, hbm=0.35))
    searched = solve(options, Effort(rounds=4))
    finished = finish(searched, 30.0)
    assert finished.feasible and finished.value <= searched.value
    assert finished.lower_bound >= searched.lower_bound
    assert searched.gap > 0.2 > 0.02 > finished.gap
    assert variables(options) == int(np.isfinite(options.cost).sum(0) @ np.array([8, 1, 1])[options.scope])


def test_no_time_changes_nothing() -> None:
    searched = solve(drawn(1))
    assert finish(searched, 0.0) is searched
