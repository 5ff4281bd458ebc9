"""The study of the learned cost, at a quarter of its size: what it prints holds, and it draws its page."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def tables(study):
    study.WORKLOADS = {
        "nvidia_dlrm_small": (2021, None),
        "nvidia_dlrm_large": (2022, None),
        "deeprecsys_rmc3": (None, 2),
    }
    study.TRAIN_SETS, study.TEST_SETS = 120, 12
    study.FEW, study.MANY = (2, 8), (12, 16)
    return study.pool(1024, tuple(study.WORKLOADS))


@pytest.fixture(scope="module")
def trained(study, tables):
    return study.train(tables)


def test_shards_are_cut_from_public_tables(study, tables):
    assert len(tables.tables) == 26 * 4 * 2 + 2 * 2
    assert set(tables.tables.dim.tolist()) == {16, 32, 64, 128}
    whole = tables.tables.index(["nvidia_dlrm_small/cat_0:128", "nvidia_dlrm_small/cat_0:16"])
    assert tables.tables.rows[whole].tolist() == [7912889, 7912889]
    assert tables.batches[whole[0]].ids is tables.batches[whole[1]].ids
    assert tables.tables.bins.sum(1) == pytest.approx(1.0)
    for origin in np.unique(tables.origin):
        assert len(set(tables.seen[tables.origin == origin].tolist())) == 1


def test_no_unseen_table_is_fitted(tables, trained):
    low = tables.tables.matrix[tables.seen].min(0)
    assert (trained.fitted.model.low == low).all()


def test_the_learned_cost_beats_both_baselines_everywhere(trained):
    assert len(trained.scores) == 5
    for case, by in trained.scores.items():
        assert by["learned"].mape < 0.5 * by["sum of singles"].mape, case
        assert by["learned"].kendall > 0.8, case


def test_plans_are_judged_by_the_simulator(study, tables, trained):
    chosen, ranks = np.flatnonzero(tables.tables.dim == 32)[:20], 3
    found = study.judged(tables, trained, "small", chosen, ranks)
    names = {j.planner for j in found}
    assert {"random", "size", "dim", "lookup", "size_lookup", "karmarkar_karp"} < names
    assert all(j.ranks.shape == (3,) and 0 < j.balance <= 1 for j in found)
    by = {j.planner: j for j in found}
    assert by[study.OURS].predicted <= min(j.predicted for j in found if j.planner not in (study.SUMS, study.CUTS))
    assert by[study.CUTS].predicted <= by[study.OURS].predicted * (1 + 1e-9)
    saved = study.gains(found)
    assert [len(each) for each in saved.values()] == [1, 1, 1, 1, 1]
    assert saved["the best greedy"] >= saved["the best published planner"]
    points = [study.Point("one", 1, 1.0), study.Point("one", 2, 1.5)]
    page = study.study(tables, trained, points, found).page().html()
    assert page.count('class="plot"') == 4
    assert "not fitted to a measured one" in page
