"""Column-wise cuts under a learned cost: never worse than whole tables, within memory, and where nothing else fits."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.search.learned.cuts import place_cut, shards_of
from archmodel.search.learned.fit import fit
from archmodel.search.learned.place import place
from archmodel.search.options import NoPlan
from tests.search.learned.sets import make_tables


@pytest.fixture(scope="module")
def model(tables, sets):
    return fit(tables, sets, seed=0, steps=100).model


def held_by(tables, pieces):
    return (tables.rows * (tables.dim // pieces) * 2.0)[:, None]


@pytest.mark.parametrize("seed", range(4))
def test_cuts_help_or_leave_tables_whole(model, seed):
    some = make_tables(10, seed=200 + seed)
    limits = np.full((4, 1), held_by(some, 1).sum())
    whole = place(model, some, 4, held_by(some, 1), limits)
    cut = place_cut(model, some, 4, lambda pieces: held_by(some, pieces), limits, least=16)
    assert cut.placed.value <= whole.value * (1 + 1e-12)
    assert set(cut.pieces.tolist()) <= {1, 2, 4}
    assert (some.dim // cut.pieces >= 16).all()
    shards, of = shards_of(some, cut.pieces)
    assert np.array_equal(of, cut.table) and len(set(shards.names)) == len(shards)
    assert np.array_equal(np.bincount(of, shards.dim), some.dim)
    parts = model.parts(shards)
    costs = [float(model.of(parts[cut.placed.home == r].sum(0))) for r in range(4)]
    assert cut.placed.cost == pytest.approx(costs) and cut.placed.value == max(cut.placed.cost)


def test_a_heavy_table_is_cut(model):
    some = make_tables(10, seed=300).of(np.arange(10))
    dim = np.full(10, 16)
    dim[0] = 128
    heavy = type(some)(some.names, some.rows, dim, np.where(np.arange(10) == 0, 50.0, 2.0), some.bins)
    limits = np.full((4, 1), 1e12)
    whole = place(model, heavy, 4, held_by(heavy, 1), limits)
    cut = place_cut(model, heavy, 4, lambda pieces: held_by(heavy, pieces), limits, least=16)
    assert cut.pieces[0] > 1 and cut.placed.value < whole.value


def test_what_fits_only_in_pieces_is_cut_and_what_does_not_is_said(model):
    some = make_tables(6, seed=400)
    room = held_by(some, 1).max() * 0.6
    roomy = np.full((8, 1), room)
    with pytest.raises(NoPlan):
        place(model, some, 8, held_by(some, 1), roomy)
    cut = place_cut(model, some, 8, lambda pieces: held_by(some, pieces), roomy, least=4)
    of = cut.table
    held = np.bincount(cut.placed.home, held_by(some, cut.pieces)[of, 0], minlength=8)
    assert (held <= room).all() and cut.pieces.max() > 1
    with pytest.raises(NoPlan, match="GiB"):
        place_cut(model, some, 8, lambda pieces: held_by(some, pieces), roomy, least=1024)
