import os

import pytest

from archmodel.errors import DesignError
from archmodel.source import limits, read


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    return write


def problems_of(path, **options):
    with pytest.raises(DesignError) as caught:
        read(path, **options)
    return caught.value.problems


def test_keys_beside_use_override_and_mappings_merge(write):
    write("systems/s.yaml", "name: S\nnic: {bandwidth: 25 GB/s, latency: 1 us}\nlist: [1, 2]\n")
    tree = read(
        write("x.yaml", "system:\n  use: systems/s.yaml\n  nic: {bandwidth: 50 GB/s}\n  list: [3]\n  nodes: 2\n")
    )
    system = {"name": "S", "nic": {"bandwidth": "50 GB/s", "latency": "1 us"}, "list": [3], "nodes": 2}
    assert tree == {"system": system}
    assert tree["system"]["nic"].path == "system.nic"


def test_every_value_keeps_the_place_it_was_written_at(write):
    write("s.yaml", "nic:\n  latency: 1 us\n  bandwidth: 25 GB/s\n")
    tree = read(write("x.yaml", "system:\n  use: s.yaml\n  nic: {bandwidth: 50 GB/s}\n"))
    nic = tree["system"]["nic"]
    assert (os.path.basename(nic.marks["latency"].file), nic.marks["latency"].line) == ("s.yaml", 2)
    assert (os.path.basename(nic.marks["bandwidth"].file), nic.marks["bandwidth"].line) == ("x.yaml", 3)


def test_use_at_the_top_and_in_lists_and_through_files(write):
    write("base.yaml", "a: 1\nb: {c: 1, d: {e: 1}}\n")
    write("middle.yaml", "use: base.yaml\nb: {c: 2}\n")
    tree = read(write("x.yaml", "use: middle.yaml\nb: {d: {f: 3}}\nitems: [{use: base.yaml}]\n"))
    assert tree["b"] == {"c": 2, "d": {"e": 1, "f": 3}}
    assert tree["items"] == [{"a": 1, "b": {"c": 1, "d": {"e": 1}}}]
    assert tree["items"][0]["b"].path == "items[0].b"


def test_a_file_used_twice_is_not_shared(write):
    write("s.yaml", "n: {x: 1}\n")
    tree = read(write("x.yaml", "a: {use: s.yaml}\nb: {use: s.yaml, n: {x: 2}}\n"))
    assert (tree["a"], tree["b"]) == ({"n": {"x": 1}}, {"n": {"x": 2}})


def test_what_would_inherit_strange_keys_replaces_instead(write):
    write("a100.yaml", "hbm: 80 GB\nl2: 40 MB\n")
    write("h100.yaml", "hbm: 96 GB\n")
    write(
        "s.yaml",
        "gpu: {use: a100.yaml}\nnet: {kind: clos, spines: 2}\nold: {kind: a, x: 1}\nbw: {value: 1, source: paper}\n",
    )
    tree = read(
        write(
            "x.yaml",
            "use: s.yaml\ngpu: {use: h100.yaml}\nnet: {kind: torus}\nold: {kind: a, y: 2}\nbw: {value: 2}\n",
        )
    )
    assert tree["gpu"] == {"hbm": "96 GB"}
    assert tree["net"] == {"kind": "torus"}
    assert tree["old"] == {"kind": "a", "x": 1, "y": 2}
    assert tree["bw"] == {"value": 2}


def test_own_folder_first_then_the_catalogue(write, tmp_path):
    write("catalogue/systems/s.yaml", "from: catalogue\nuse: ../parts/p.yaml\n")
    write("catalogue/parts/p.yaml", "part: 1\n")
    path = write("mine/x.yaml", "use: systems/s.yaml\n")
    assert read(path, catalogue=tmp_path / "catalogue") == {"from": "catalogue", "part": 1}
    write("mine/systems/s.yaml", "from: mine\n")
    assert read(path, catalogue=tmp_path / "catalogue") == {"from": "mine"}


def test_a_missing_file_names_the_nearest(write, tmp_path):
    write("systems/dgx_h100.yaml", "a: 1\n")
    write("catalogue/systems/dgx_a100.yaml", "a: 1\n")
    path = write("x.yaml", "system:\n  use: systems/dgx_h10.yaml\n")
    (problem,) = problems_of(path, catalogue=tmp_path / "catalogue")
    assert (problem.field, problem.line, problem.column) == ("system.use", 2, 3)
    assert problem.value == '"systems/dgx_h10.yaml"'
    assert "the nearest names are dgx_h100.yaml, dgx_a100.yaml" in problem.message


@pytest.mark.parametrize("value", ["3", "[a.yaml]", "~", "''", "{a: 1}"])
def test_use_must_be_a_path(write, value):
    (problem,) = problems_of(write("x.yaml", f"use: {value}\n"))
    assert "is not the path of a file" in problem.message


@pytest.mark.parametrize("value", ['"a\\0b"', "x" * 5000, "/dev/null/x", "."])
def test_odd_paths_are_problems(write, value):
    (problem,) = problems_of(write("x.yaml", f"use: {value}\n"))
    assert "is no file" in problem.message or "cannot be read" in problem.message or "regular" in problem.message


def test_cycles_are_told_with_their_route(write):
    write("b.yaml", "c: {use: c.yaml}\n")
    write("c.yaml", "use: a.yaml\n")
    (problem,) = problems_of(write("a.yaml", "b: {use: b.yaml}\n"))
    assert problem.message == "uses itself: a.yaml -> b.yaml -> c.yaml -> a.yaml"
    assert problem.file.endswith("c.yaml")
    (own,) = problems_of(write("d.yaml", "use: d.yaml\n"))
    assert "uses itself: d.yaml -> d.yaml" in own.message


def test_a_long_chain_is_refused(write):
    for number in range(limits.USES + 1):
        write(f"f{number}.yaml", f"use: f{number + 1}.yaml\n")
    (problem,) = problems_of(write("x.yaml", "use: f0.yaml\n"))
    assert "more than 32 files deep" in problem.message


def test_files_that_double_each_other_are_refused(write):
    write("f0.yaml", "a: [x, x, x, x, x, x, x, x, x]\n")
    for number in range(1, 20):
        write(f"f{number}.yaml", "".join(f"k{key}: {{use: f{number - 1}.yaml}}\n" for key in range(10)))
    problems = problems_of(write("x.yaml", "use: f19.yaml\n"))
    assert ["expands to more than" in problem.message for problem in problems] == [True]


def test_depth_counts_through_files(write):
    for number in range(20):
        write(f"f{number}.yaml", f"a: {{b: {{c: {{use: f{number + 1}.yaml}}}}}}\n")
    write("f20.yaml", "z: 1\n")
    assert ["more than 32 deep" in problem.message for problem in problems_of(write("x.yaml", "use: f0.yaml\n"))] == [
        True
    ]


def test_one_budget_of_bytes_for_all_files(write):
    for number in range(3):
        write(f"f{number}.yaml", f"a: {'x' * (limits.BYTES // 2)}\n")
    path = write("x.yaml", "a: {use: f0.yaml}\nb: {use: f1.yaml}\nc: {use: f2.yaml}\n")
    assert "is too large" in problems_of(path)[0].message


def test_problems_of_several_files_are_told_together(write):
    write("a.yaml", "k: 1\nk: 2\n")
    write("b.yaml", "k: [\n")
    write("c.yaml", "- 1\n")
    found = problems_of(
        write(
            "x.yaml",
            "a: {use: a.yaml}\nb: {use: b.yaml}\nb2: {use: b.yaml}\nc: {use: c.yaml}\nd: {use: d.yaml}\n",
        )
    )
    assert [os.path.basename(problem.file) for problem in found] == ["a.yaml", "b.yaml", "c.yaml", "x.yaml"]


def test_problems_that_can_be_stepped_over_can_be_collected(write):
    found = []
    tree = read(write("x.yaml", "a: 1\na: 2\nb: 3\n"), problems=found)
    assert tree == {"a": 1, "b": 3}
    assert len(found) == 1


def test_root_shuts_everything_outside_but_the_catalogue(write, tmp_path):
    write("secret.yaml", "password: 1\n")
    write("catalogue/s.yaml", "s: 1\n")
    root = tmp_path / "tree"
    for content in (
        "use: ../secret.yaml",
        f"use: {tmp_path}/secret.yaml",
        "use: sub/../../secret.yaml",
        "use: link.yaml",
    ):
        path = write("tree/x.yaml", content)
        if "link" in content:
            (root / "link.yaml").symlink_to(tmp_path / "secret.yaml")
        (problem,) = problems_of(path, root=root)
        assert "lies outside the root folder" in problem.message
        assert "password" not in problem.message
    path = write("tree/x.yaml", "use: s.yaml\n")
    assert read(path, root=root, catalogue=tmp_path / "catalogue") == {"s": 1}
    assert "lies outside" in problems_of(tmp_path / "secret.yaml", root=root)[0].message


def test_root_does_not_even_name_what_lies_outside(write, tmp_path):
    write("secret_plans.yaml", "a: 1\n")
    (problem,) = problems_of(write("tree/x.yaml", "use: ../secret_plan.yaml\n"), root=tmp_path / "tree")
    assert "plans" not in problem.message


def test_the_catalogue_cannot_be_left_through_a_path(write, tmp_path):
    write("secret.yaml", "a: 1\n")
    (tmp_path / "catalogue").mkdir()
    path = write("mine/deep/x.yaml", "use: ../secret.yaml\n")
    assert "is no file" in problems_of(path, catalogue=tmp_path / "catalogue")[0].message


@pytest.mark.parametrize("name", ["nothing.yaml", ".", "no/such/folder.yaml"])
def test_top_files_that_are_none(tmp_path, name):
    (problem,) = problems_of(tmp_path / name)
    assert "cannot be read" in problem.message or "is not a regular file" in problem.message
    assert problem.file == str(tmp_path / name)


def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        assert "is not a regular file" in problems_of(path)[0].message


def test_a_path_with_a_null_character_is_a_problem():
    assert "is no path" in problems_of("a\0b")[0].message or "cannot be read" in problems_of("a\0b")[0].message
