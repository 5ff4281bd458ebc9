"""A model's file: what is read is what was written; anything else is refused by field."""

from __future__ import annotations

import json

import numpy as np
import pytest

from archmodel.errors import DesignError
from archmodel.search.learned import file
from archmodel.search.learned.fit import fit
from tests.search.learned.sets import make_tables


@pytest.fixture(scope="module")
def model(tables, sets):
    return fit(tables, sets, steps=30).model.with_about(fitted_on="made-up sets", seed=0)


@pytest.fixture
def path(model, tmp_path):
    found = tmp_path / "cost.json"
    found.write_text(file.text(model), encoding="utf-8")
    return found


def test_a_round_trip_loses_nothing(model, path, tables, sets):
    again = file.load(path)
    assert file.text(again) == file.text(model)
    assert (again.predict(tables, sets.matrix) == model.predict(tables, sets.matrix)).all()
    assert again.batch == 4096
    assert again.about["fitted_on"] == "made-up sets"


def test_models_without_bins(sets, tmp_path):
    plain = make_tables(40, bins=False)
    found = fit(plain, sets, steps=10).model
    (tmp_path / "m.json").write_text(file.text(found))
    assert file.load(tmp_path / "m.json").columns == plain.columns


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "gpu"}, "kind"),
        ({"version": 2}, "version"),
        ({"extra": 1}, "extra"),
        ({"batch": -1}, "batch"),
        ({"seconds_per_unit": 0}, "seconds_per_unit"),
        ({"features": {}}, "features"),
        ({"weights": {"A1": []}}, "weights"),
        ({"seconds_per_unit": "x"}, "seconds_per_unit"),
    ],
)
def test_anything_else_is_refused(path, change, message):
    document = json.loads(path.read_text()) | change
    path.write_text(json.dumps(document))
    with pytest.raises(DesignError) as caught:
        file.load(path)
    (problem,) = caught.value.problems
    assert message in problem.field
    assert problem.file == str(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("W", -1.0), ("v", -1e-9), ("A1", "x"), ("b", None), ("a2", float("nan")), ("u", [1.0])],
)
def test_bad_weights_are_refused(path, name, value):
    document = json.loads(path.read_text())
    array = document["weights"][name]
    if isinstance(value, list):
        document["weights"][name] = value
    elif isinstance(array[0], list):
        array[0][0] = value
    else:
        array[0] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DesignError, match=f"weights.{name}"):
        file.load(path)


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"kind": "learned_set_cost"}', "\x00"])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DesignError):
        file.load(tmp_path / "x.json")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DesignError, match="cannot be read"):
        file.load(tmp_path / "none.json")


def test_a_missing_field_is_named(path):
    document = json.loads(path.read_text())
    del document["features"]
    path.write_text(json.dumps(document))
    with pytest.raises(DesignError, match="features"):
        file.load(path)


def test_numbers_are_plain_json(model):
    assert all(np.isfinite(v).all() for v in model.weights.values())
    assert json.loads(file.text(model))["status"] == "fitted"
