"""The bound against every plan of small drawn problems, tight and roomy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from archmodel.search.bound import lower_bound
from archmodel.search.options import NODE, RANK, WORLD, Assignment, NoPlan, Options
from archmodel.search.solver import Effort, solve


def drawn(seed: int) -> Options:
    """Three tables, four ranks on two nodes, three slots, two tiers, limits that may or may not bind."""
    random = np.random.default_rng(seed)
    tables, ranks = 3, 4
    cost = random.uniform(0.5, 3.0, (tables, 4)) * np.array([1.0, 0.6, 0.4, 4.0])
    memory = np.stack([random.uniform(0.2, 1.0, (tables, 4)) * np.array([1.0, 0.6, 0.4, 0.1])] * 2, axis=2)
    memory[:, :3, 1] = 0.0
    limits = np.full((ranks, 2), float(random.choice([0.3, 0.5, 0.8, 5.0])))
    scope = np.array([RANK, NODE, WORLD, RANK])
    one = np.ones((tables, 4), dtype=np.int64)
    base = random.uniform(0, 0.5, ranks) if seed % 2 else np.zeros(0)
    return Options(
        ("a", "b", "c"), ranks, 2, ("r", "n", "w", "d"), ("f",) * 4, scope, one, one, cost, memory, limits, base
    )


def best_of_all(options: Options) -> float:
    """The least value of any plan that fits; inf when none does."""
    places = [
        [(s, h) for s in range(4) for h in ([(r,) for r in range(4)], [(0,), (1,)], [()])[options.scope[s]]]
        for _ in options.names
    ]
    best = np.inf
    for choice in product(*places):
        plan = Assignment(np.array([s for s, _ in choice]), tuple(h for _, h in choice))
        value = plan.value(options)
        if value < best and plan.fits(options):
            best = value
    return best


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_below_the_bound_and_search_finds_a_good_one(seed: int) -> None:
    options = drawn(seed)
    best = best_of_all(options)
    if not np.isfinite(best):
        with pytest.raises(NoPlan):
            solve(options)
        return
    assert lower_bound(options).value <= best * (1 + 1e-9)
    found = solve(options, Effort(rounds=100))
    assert found.feasible
    assert found.lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= found.value <= best * 1.1
