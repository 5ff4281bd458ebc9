import pytest

from archmodel.source import Provenance, located, provenance, read, set_path, strip


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: S\nkind: gpu\nsource: datasheet of S\nstatus: datasheet\n"
        "nic: {bandwidth: 25 GB/s, latency: {value: 1 us, source: paper, status: measured, note: at night}}\n"
        "gemm: {fitted_on: gemm.csv, wave: 0.5}\n"
        "own: {value: 1, status: assumed}\nplain: {value: 2}\nlist: [3, {value: 4, calibrated: true}]\n"
    )
    (tmp_path / "x.yaml").write_text("system:\n  use: s.yaml\n  nodes: 16\n  nic: {bandwidth: 50 GB/s}\n")
    return read(tmp_path / "x.yaml")


def test_strip_leaves_values(tree):
    assert strip(tree)["system"]["nic"] == {"bandwidth": "50 GB/s", "latency": "1 us"}
    assert strip(tree)["system"]["list"] == [3, 4]
    assert type(strip(tree)["system"]) is dict


def test_strip_keeps_published_as_it_is():
    tree = located({"published": {"throughput": {"value": 1}}, "a": {"published": {"value": 2}}})
    assert strip(tree) == {"published": {"throughput": {"value": 1}}, "a": {"published": 2}}
    assert strip(tree, keep=()) == {"published": {"throughput": 1}, "a": {"published": 2}}


def test_only_a_value_with_known_companions_is_a_citation():
    other = {"value": 1, "kind": "constant"}
    assert strip(located({"a": other})) == {"a": other}


def origin(tree, path):
    found = provenance(tree)[path]
    return found.source, found.status


def test_a_value_says_its_own_origin(tree):
    latency = provenance(tree)["system.nic.latency"]
    assert (latency.source, latency.status, latency.note, latency.line) == (
        "paper",
        "measured",
        "at night",
        5,
    )
    assert latency.file.endswith("s.yaml")
    assert not latency.assumed


def test_a_block_speaks_for_the_values_of_its_file(tree):
    assert origin(tree, "system.plain") == ("datasheet of S", "datasheet")
    assert origin(tree, "system.list[0]") == ("datasheet of S", "datasheet")
    assert provenance(tree)["system.list[1]"].calibrated
    assert origin(tree, "system.gemm.wave") == ("gemm.csv", "fitted")


def test_an_override_is_not_covered_by_the_source_of_what_it_overrides(tree):
    assert origin(tree, "system.nic.bandwidth") == (None, None)
    assert origin(tree, "system.nodes") == (None, None)
    assert origin(set_path(tree, "system.plain", 3), "system.plain") == (None, None)
    assert provenance(tree)["system.nodes"].assumed


def test_an_assumption_has_no_source_of_its_block(tree):
    assert origin(tree, "system.own") == (None, "assumed")
    assert provenance(tree)["system.own"].assumed


def test_what_describes_a_block_is_no_value(tree):
    paths = set(provenance(tree))
    assert not paths & {
        "system.name",
        "system.kind",
        "system.source",
        "system.status",
        "system.gemm.fitted_on",
    }


def test_the_default_provenance_is_an_assumption():
    assert Provenance().assumed
