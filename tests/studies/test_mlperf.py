"""The MLPerf study: its rows are the scoreboard's, and calibrated ones are never counted with the others."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.validation import facts


def test_it_has_every_mlperf_result_once(study) -> None:
    ids = [fact.id for fact in facts() if "mlperf" in fact.id]
    assert [row.id for row in study.rows()] == ids
    assert list(study.answers()) == ids


def test_calibrated_results_are_apart(study) -> None:
    held, fitted = study.errors_of(calibrated=False), study.errors_of(calibrated=True)
    assert len(held) + len(fitted) == len(study.rows())
    assert f"mean absolute error {np.mean(held):.1%}" in study.summary()
    assert max(fitted) < 0.01
    assert len(held) > len(fitted) > 0


def test_misses_are_held_out_and_come_with_reasons(study) -> None:
    missed = study.missed()
    assert all(not r.calibrated and abs(r.error) > 0.2 for r in missed)
    assert [abs(r.error) for r in missed] == sorted((abs(r.error) for r in missed), reverse=True)
    assert all(r.note for r in missed)
    assert len(study.reasons().rows) == len(missed)


def test_shares_of_the_iteration_make_it_up(study) -> None:
    """Up to waits, of which exchanges that overlap count the same time twice."""
    whole = np.sum([trace["x"] for trace in study.time_figure().data], axis=0)
    assert np.all(whole > 0.9)
    assert np.all(whole < 1.25)


def test_shares_of_the_critical_path_sum_to_one(study) -> None:
    whole = np.sum([trace["x"] for trace in study.by_resource().data], axis=0)
    assert whole == pytest.approx(np.ones(len(study.rows())))


def test_the_page_is_the_same_twice(study) -> None:
    page = study.build().page().html()
    assert page == study.build().page().html()
    assert "<title>MLPerf Training" in page
    assert 'name="description"' in page
