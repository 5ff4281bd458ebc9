"""Placement under costs of sets: as good as brute force on small tasks, within memory, the same every time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from archmodel.search.learned.fit import fit
from archmodel.search.learned.place import place, search
from archmodel.search.options import NoPlan
from tests.search.learned.sets import make_tables


@pytest.fixture(scope="module")
def model(tables, sets):
    return fit(tables, sets, seed=0, steps=100).model


def brute(price, parts, memory, limits):
    ranks, best = len(limits), np.inf
    for home in itertools.product(range(ranks), repeat=len(parts)):
        at = np.array(home)
        held = np.stack([memory[at == r].sum(0) for r in range(ranks)])
        if (held <= limits).all():
            best = min(best, float(price(np.stack([parts[at == r].sum(0) for r in range(ranks)])).max()))
    return best


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tight", [False, True])
def test_small_tasks_are_solved_as_well_as_by_brute_force(model, seed, tight):
    some, rng = make_tables(8, seed=100 + seed), np.random.default_rng(seed)
    memory = rng.uniform(1, 3, (8, 2))
    limits = np.full((3, 2), memory.sum(0).max() / 3 * (1.25 if tight else 9))
    found = place(model, some, 3, memory, limits)
    assert found.value == pytest.approx(brute(model.of, model.parts(some), memory, limits), rel=1e-9)
    held = np.stack([memory[found.home == r].sum(0) for r in range(3)])
    assert (held <= limits).all()
    assert found.lower_bound <= found.value


@pytest.mark.parametrize("seed", range(3))
def test_additive_costs_are_one_kind_of_cost(seed):
    cost = np.random.default_rng(seed).uniform(1, 9, (9, 1))
    nothing, plenty = np.zeros((9, 1)), np.ones((3, 1))
    home, ranks, _ = search(cost, lambda s: s[..., 0], nothing, plenty, names=list("abcdefghi"))
    assert ranks.max() == pytest.approx(brute(lambda s: s[..., 0], cost, nothing, plenty), rel=1e-9)
    assert ranks.tolist() == [pytest.approx(cost[home == r].sum()) for r in range(3)]


def test_costs_told_are_those_of_the_sets(model, tables):
    found = place(model, tables, 5, np.zeros((40, 1)), np.ones((5, 1)))
    parts = model.parts(tables)
    assert found.cost == pytest.approx(model.of(np.stack([parts[found.home == r].sum(0) for r in range(5)])), rel=1e-12)
    assert found.value == found.cost.max()


def test_a_given_start_is_never_made_worse(model, tables):
    none, room = np.zeros((40, 1)), np.ones((4, 1))
    best = place(model, tables, 4, none, room)
    again = place(model, tables, 4, none, room, starts=[best.home], seed=5)
    assert again.value <= best.value


def test_the_same_seed_gives_the_same_placement(model, tables):
    memory, limits = np.ones((40, 1)), np.full((4, 1), 11.0)
    a, b = (place(model, tables, 4, memory, limits, seed=3) for _ in range(2))
    assert a.home.tolist() == b.home.tolist()
    assert np.bincount(a.home).max() <= 11


def test_one_rank_takes_everything(model, tables):
    found = place(model, tables, 1, np.zeros((40, 1)), np.ones((1, 1)))
    assert found.home.tolist() == [0] * 40
    assert found.lower_bound == pytest.approx(found.value, rel=1e-6)


def test_no_room_is_a_reason(model):
    some = make_tables(3)
    with pytest.raises(NoPlan, match=r"table t1 needs 2.00 GiB; the roomiest rank has 1.00"):
        place(model, some, 2, np.array([[0.5], [2.0], [0.5]]) * 2**30, np.full((2, 1), 2.0**30))
    with pytest.raises(NoPlan, match=r"3 whole tables of 2.10 GiB find no room on 2 ranks of 1.00 GiB"):
        place(model, some, 2, np.full((3, 1), 0.7) * 2**30, np.full((2, 1), 2.0**30))
