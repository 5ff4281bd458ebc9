import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.errors import DesignError
from archmodel.source import (
    Located,
    LocatedList,
    Mark,
    at,
    join,
    located,
    mark_at,
    problem_at,
    set_path,
    split,
)
from archmodel.source.limits import DEPTH


@pytest.fixture
def tree():
    return located({"system": {"nodes": 1, "nic": {"bandwidth": "25 GB/s"}}, "rules": [{"tier": "hbm"}, {}]})


@given(st.lists(st.text(min_size=1) | st.integers(0, 10**6)).filter(bool))
def test_split_undoes_join(segments):
    path = ""
    for segment in segments:
        path = join(path, segment)
    assert split(path) == segments


@given(st.text())
def test_any_text_is_a_path_or_a_design_error(text):
    try:
        segments = split(text)
    except DesignError:
        return
    assert segments


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a[",
        "a[]",
        "a[x]",
        "a[-1]",
        "a b",
        'a["x',
        "a[1]b",
        "[1]b",
        '["a"]b',
        "a[1].",
        ".[1]",
    ],
)
def test_what_is_no_path(path):
    with pytest.raises(DesignError, match="is no path"):
        split(path)


def test_at_finds_and_misses(tree):
    assert at(tree, "system.nic.bandwidth") == "25 GB/s"
    assert at(tree, "rules[0].tier") == "hbm"
    assert at(tree, "") is tree
    for path in ("system.nik", "rules[2]", "rules.tier", "system[0]", "system.nodes.x"):
        with pytest.raises(KeyError):
            at(tree, path)


def test_set_path_leaves_the_tree_and_shares_what_is_beside(tree):
    before = copy.deepcopy(tree)
    new = set_path(tree, "system.nodes", 16)
    assert tree == before
    assert at(new, "system.nodes") == 16
    assert new["rules"] is tree["rules"]
    assert new["system"]["nic"] is tree["system"]["nic"]
    assert mark_at(new, "system.nodes") == Mark("with_")
    assert mark_at(tree, "system.nodes") != Mark("with_")


def test_set_path_reaches_into_lists_and_creates_mappings(tree):
    new = set_path(set_path(tree, "rules[1].tier", "ddr"), "plan.wires.lookup", "fp16", origin="--set")
    assert [rule["tier"] for rule in new["rules"]] == ["hbm", "ddr"]
    assert new["plan"] == {"wires": {"lookup": "fp16"}}
    assert new["plan"]["wires"].path == "plan.wires"
    assert mark_at(new, "plan.wires.lookup") == Mark("--set")


def test_set_path_takes_arrays_and_structures(tree):
    array = np.ones((3, 1))
    assert at(set_path(tree, "system.nic.bandwidth", array), "system.nic.bandwidth") is array
    new = set_path(tree, "system.gpus", {"a": [{"b": 1}]})
    assert isinstance(new["system"]["gpus"]["a"], LocatedList)
    assert new["system"]["gpus"]["a"][0].path == "system.gpus.a[0]"
    assert at(set_path(tree, "system.nodes", np.int64(3)), "system.nodes") == 3


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("system.nodes.count", "system.nodes is 1, not a mapping"),
        ("rules[2].tier", "rules has 2 items"),
        ("system[0]", "system is not a list"),
        ("rules.tier", "rules is a list, not a mapping"),
    ],
)
def test_a_path_that_cannot_be_walked_is_refused(tree, path, message):
    with pytest.raises(DesignError) as caught:
        set_path(tree, path, 1, origin="--set")
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.field, problem.file) == (path, "--set")


def test_a_value_nested_without_end_is_refused(tree):
    value = []
    value.append(value)
    with pytest.raises(DesignError, match=f"more than {DEPTH} deep"):
        set_path(tree, "system.x", value)
    with pytest.raises(DesignError, match="not text"):
        set_path(tree, "system.x", {1: 2})


def test_problems_know_their_place():
    tree = Located({"nic": 1}, "system", Mark("x.yaml", 3, 1))
    tree.marks["nic"] = Mark("x.yaml", 4, 5)
    assert str(tree.problem("nic", "is odd", "1")) == "x.yaml:4:5  system.nic  1  is odd"
    assert str(tree.problem("gpu", "is missing")) == "x.yaml:3:1  system.gpu  is missing"
    assert str(tree.problem(None, "is odd")) == "x.yaml:3:1  system  is odd"
    items = LocatedList([1], "rules", Mark("x.yaml", 8, 2))
    items.marks[0] = Mark("x.yaml", 9, 4)
    assert str(items.problem(0, "matches no table")) == "x.yaml:9:4  rules[0]  matches no table"
    assert items.problem(None, "is odd").line == 8


def test_problem_at_falls_back_to_the_nearest_place():
    tree = Located({"a": Located({"b": 1}, "a")}, "", Mark("x.yaml", 1, 1))
    tree.marks["a"] = Mark("x.yaml", 2, 1)
    assert problem_at(tree, "a.b.c[3]", "is odd").line == 2
    assert problem_at(tree, "z", "is odd").line == 1


def test_trees_survive_pickling_and_copying(tree):
    for again in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert again == tree
        assert again["system"].path == "system"
        assert again.marks == tree.marks
