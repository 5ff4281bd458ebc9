import re

import pytest

from archmodel import catalogue, source
from archmodel.errors import ArchmodelError, DesignError
from archmodel.validation.facts import DIMENSION, FACTS, FactError, FactsFile, PublishedFact, Series, facts

CALIBRATED = {"mlperf_dcnv2_dgx_a100", "mlperf_dcnv2_dgx_h100", "mlperf_dcnv2_dell_xe9680_8xh100"}
HOST = {"nvidia_dlrm_inference_v100_amp_graph_2", "nvidia_dlrm_inference_v100_amp_eager_2"}
"""Two samples at a time: what a host takes to launch a graph, and to issue kernels one by one."""


@pytest.fixture(scope="module")
def published():
    return facts()


def series(**changes):
    text = {"design": "d.yaml", "group": "g", "source": "s", "value": "2 Msample/s"} | changes
    return Series.model_validate(text)


def test_every_figure_has_a_name_of_its_own_a_source_and_a_positive_value(published):
    names = [fact.id for fact in published]
    assert sorted(names) == sorted(set(names))
    for fact in published:
        assert fact.source
        assert fact.group
        assert fact.value > 0
        assert fact.quantity in DIMENSION
        assert catalogue.find(fact.design).is_file()


def test_only_the_8_gpu_dcnv2_runs_and_the_smallest_batches_are_calibrated(published):
    assert {fact.id for fact in published if fact.calibrated} == CALIBRATED | HOST


def test_the_seven_mlperf_rows_are_all_there(published):
    values = {fact.value for fact in published if "MLPerf" in fact.source}
    rows = {36714227.0, 58218405.0, 7738657.0, 15216937.0, 70909956.0, 54534704.0, 15260670.0}
    assert rows <= values


def test_mlperf_figures_say_that_mlcommons_did_not_verify_them(published):
    mlperf = [fact for fact in published if "MLPerf" in fact.source]
    assert len(mlperf) >= 7
    for fact in mlperf:
        assert "derived from MLPerf Training result logs, not verified by MLCommons" in fact.source


def test_throughput_and_milliseconds_of_a_source_agree(published):
    """Where the source quotes the time of an iteration, batch over time is the throughput."""
    quoted = [
        (fact, match) for fact in published if (match := re.search(r"\(([0-9.]+) ms an iteration\)", fact.source))
    ]
    assert len(quoted) >= 6
    for fact, match in quoted:
        batch = fact.load().workload.global_batch
        assert batch / (float(match[1]) * 1e-3) == pytest.approx(fact.value, rel=1e-4)


def test_figures_from_memory_say_so(published):
    (neo,) = [fact for fact in published if fact.group == "Neo"]
    assert neo.value == 1.2e6
    assert "remembered" in neo.note


def test_every_catalogue_design_with_published_figures_is_a_fact(published):
    told = {fact.design for fact in published if not fact.changes}
    for entry in catalogue.entries("design"):
        tree = source.read(catalogue.find(entry.path), catalogue=catalogue.directory())
        assert (entry.path in told) == bool(tree.get("published"))


def test_every_group_pattern_takes_a_design():
    file = source.validate(FactsFile, source.read(FACTS), keep=())
    from fnmatch import fnmatchcase

    paths = [entry.path for entry in catalogue.entries("design")]
    for pattern in file.groups:
        assert any(fnmatchcase(path, pattern) for path in paths), pattern


# --- entries of facts.yaml


def test_one_figure_is_one_fact_in_si():
    (fact,) = series(set={"workload.global_batch": 8}, calibrated=True, note="n").facts("f")
    assert fact == PublishedFact("f", "g", "d.yaml", "throughput", 2e6, "s", True, "n", {"workload.global_batch": 8})


def test_points_are_facts_that_differ_in_one_field():
    entry = series(
        value=None,
        quantity="latency",
        set={"plan.graph_capture": False},
        vary="workload.global_batch",
        points=[[64, "1 ms"], [128, "2 ms"]],
    )
    first, second = entry.facts("f")
    assert (first.id, first.value, first.quantity) == ("f.64", 1e-3, "latency")
    assert second.changes == {"plan.graph_capture": False, "workload.global_batch": 128}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": None}, "exactly one of value and points"),
        ({"points": [[1, "1 sample/s"]], "vary": "x"}, "exactly one of value and points"),
        ({"value": None, "points": [[1, "1 sample/s"]]}, "vary and points together"),
        ({"vary": "x"}, "vary and points together"),
        ({"quantity": "energy"}, "throughput"),
    ],
)
def test_an_entry_that_says_too_little_or_too_much_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        series(**changes)


def test_a_figure_in_the_wrong_unit_is_refused():
    with pytest.raises(ArchmodelError, match="a sample rate is needed"):
        list(series(value="3 ms").facts("f"))


# --- facts whose design is broken are errors, never skipped


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A catalogue of one broken design and one without a group."""
    (tmp_path / "neo_broken.yaml").write_text("name: broken\nsystem: {use: nowhere.yaml}\n")
    text = catalogue.find("neo_a_zionex_16x8.yaml").read_text()
    (tmp_path / "stranger.yaml").write_text(text)
    for folder in catalogue.KINDS:
        (tmp_path / folder).symlink_to(catalogue.directory() / folder)
    monkeypatch.setattr(catalogue, "directory", lambda: tmp_path)
    return tmp_path


def test_designs_that_do_not_load_or_have_no_group_are_named(shelf):
    with pytest.raises(FactError) as caught:
        facts()
    message = str(caught.value)
    assert "neo_broken.yaml does not load" in message
    assert "nowhere.yaml" in message
    assert "stranger.yaml has published figures but no group" in message


def test_a_change_that_the_design_cannot_take_is_a_design_error():
    fact = PublishedFact("f", "g", "neo_a_zionex_16x8.yaml", "throughput", 1.0, "s", changes={"system.nods": 4})
    with pytest.raises(DesignError, match=r"did you mean nodes\?"):
        fact.load()
