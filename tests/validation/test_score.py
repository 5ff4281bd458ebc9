import math

import pytest

from archmodel.validation import FactError, PublishedFact, Row, facts, scoreboard, summary, to_markdown
from archmodel.validation.markdown import misses


def row(name="r", group="g", error=0.1, calibrated=False, **changes):
    fields = {"quantity": "throughput", "published": 1e6, "predicted": 1e6 * (1 + error), "source": "s", "note": ""}
    return Row(id=name, group=group, error=error, calibrated=calibrated, **(fields | changes))


# --- summary


def test_summary_reports_each_group_and_all_with_calibrated_facts_apart():
    rows = [row("a", "x", 0.1), row("b", "y", -0.3), row("c", "x", -0.2), row("d", "x", 0.01, calibrated=True)]
    lines = [(line.group, line.calibrated, line.count) for line in summary(rows)]
    assert lines == [("x", True, 1), ("x", False, 2), ("y", False, 1), ("all", True, 1), ("all", False, 3)]


def test_summary_takes_absolute_errors_and_keeps_the_sign_of_the_worst():
    (line, _) = summary([row("a", error=0.1), row("b", error=-0.4), row("c", error=0.2)])
    assert line.median == pytest.approx(0.2)
    assert line.mean == pytest.approx(0.7 / 3)
    assert (line.worst, line.worst_id) == (-0.4, "b")


def test_summary_of_nothing_is_empty():
    assert summary([]) == ()


# --- the scoreboard


@pytest.fixture(scope="module")
def board():
    return scoreboard()


def test_every_fact_is_predicted(board):
    assert [r.id for r in board] == [fact.id for fact in facts()]
    for r in board:
        assert math.isfinite(r.predicted)
        assert r.predicted > 0
        assert r.error == pytest.approx(r.predicted / r.published - 1, abs=1e-12)
        assert "does not fit" not in r.note


def test_a_fact_that_cannot_be_predicted_is_an_error_that_names_it():
    bad = PublishedFact("missing", "g", "no_such_design.yaml", "throughput", 1.0, "s")
    worse = PublishedFact(
        "twisted", "g", "neo_a_zionex_16x8.yaml", "throughput", 1.0, "s", changes={"system.nodes": "many"}
    )
    with pytest.raises(FactError) as caught:
        scoreboard([bad, worse])
    assert "missing (no_such_design.yaml)" in str(caught.value)
    assert "twisted (neo_a_zionex_16x8.yaml)" in str(caught.value)


def test_a_design_that_does_not_fit_is_predicted_and_says_so():
    fact = PublishedFact(
        "f",
        "g",
        "mlperf_dcnv2_dgx_h100.yaml",
        "throughput",
        1.0,
        "s",
        note="n",
        changes={"system.node.gpu.hbm.capacity": "20 GB"},
    )
    (r,) = scoreboard([fact])
    assert r.note == "n; does not fit its hbm"


def test_iteration_time_is_the_batch_over_the_throughput():
    facts_of_one = [
        PublishedFact("t", "g", "nvidia_dlrm_small_1xa100_amp.yaml", "iteration_time", 1.0, "s"),
        PublishedFact("r", "g", "nvidia_dlrm_small_1xa100_amp.yaml", "throughput", 1.0, "s"),
    ]
    time, rate = scoreboard(facts_of_one)
    assert time.predicted * rate.predicted == pytest.approx(65536)


# --- the page


def test_markdown_has_a_table_per_group_and_every_fact_once():
    page = to_markdown([row("a", "x", 0.1), row("b", "y", -0.3, calibrated=True, published=2e6, predicted=1.4e6)])
    assert "## x\n" in page
    assert "| a | 1.00 Msample/s | 1.10 Msample/s | +10.0% | no |" in page
    assert "| b | 2.00 Msample/s | 1.40 Msample/s | -30.0% | yes |" in page
    assert "| y | calibrated | 1 | 30.0% | 30.0% | -30.0% (b) |" in page


def test_markdown_cannot_be_broken_out_of():
    page = to_markdown([row("a|b", "g<script>", source="x\n| y | `z` [q](r) **s**")])
    assert r"a\|b" in page
    assert "<script>" not in page
    assert r"- source: x \| y \| \`z\` \[q\](r) \*\*s\*\*" in page


def test_markdown_says_a_source_once_and_whose_it_is():
    page = to_markdown([row("a"), row("b"), row("c", source="other", note="odd")])
    assert "- source: s (a, b)\n" in page
    assert "- source: other (c)\n" in page
    assert "- odd (c)" in page


def test_every_far_miss_says_what_is_known_of_it():
    rows = scoreboard()
    assert [row.id for row in misses(rows) if not row.note] == []
    assert all(not row.calibrated and abs(row.error) > 0.2 for row in misses(rows))


def test_calibrated_rows_are_within_five_percent():
    assert [row.id for row in scoreboard() if row.calibrated and abs(row.error) > 0.05] == []
