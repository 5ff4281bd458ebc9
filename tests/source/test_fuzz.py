"""Whatever is in a file: a tree or a `DesignError`, and never more nodes than the limits allow."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field

from archmodel.components.base import Component
from archmodel.errors import DesignError
from archmodel.quantities import Bandwidth, Count
from archmodel.source import Located, limits, provenance, read, scalar, set_path, validate
from archmodel.source.reading import Budget, build

SEED = """\
# a system and what runs on it
name: Neo model A
system: &s
  use: other.yaml
  nodes: 16
  nic: {bandwidth: 25 GB/s, latency: {value: 1.5 us, source: "a paper"}}
copy: *s
plan:
  rules:
    - match: {rows: "< 10000"}
      sharding: data_parallel
    - [1, 2.5, true, ~, 'x', "y\\n"]
note: |
  two
  lines
"""

PIECES = [
    "\n", " ", "  ", "\t", ":", ": ", "- ", "? ", "[", "]", "{", "}", ",", "&a ", "*a", "*s", "!", "!!str ",
    "!<x> ", "|", ">", "|2\n", "'", '"', "\\", "\\x", "\\ud800", "#", " #", "%", "%YAML 1.1\n", "%TAG ! x\n",
    "---", "...", "\0", "\x85", "\u2028", "\ufeff", "\ud83d", "~", "null", "<<: ", "use: ", "use: other.yaml",
    "value: ", "kind: ", "1e999", ".inf", ".nan", "-", "0x", "0o8", "@", "`", "é", "\U0001f600",
]  # fmt: skip

mutations = st.lists(
    st.tuples(st.integers(0, len(SEED)), st.integers(0, 6), st.sampled_from(PIECES) | st.text(max_size=3)),
    max_size=6,
)


class Nic(Component):
    bandwidth: Bandwidth
    latency: Bandwidth | None = None


class System(Component):
    nodes: Count
    nic: Nic | str


class Design(Component):
    system: System
    copy_: System | list[System] | None = None
    plan: dict[str, list[Nic | Count]] = Field(default_factory=dict)


def mutated(changes):
    text = SEED
    for position, deleted, piece in changes:
        text = text[:position] + piece + text[position + deleted :]
    return text


def count(node):
    if isinstance(node, dict):
        return 1 + len(node) + sum(count(item) for item in node.values())
    return 1 + (sum(count(item) for item in node) if isinstance(node, list) else 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz")
    (path / "other.yaml").write_text("nic: {latency: 2 us}\nuse: third.yaml\n")
    (path / "third.yaml").write_text("use: design.yaml\n")
    return path


def survives(folder, content):
    """Reads, validates and changes; only a `DesignError` may come out, and it can be printed."""
    path = folder / "design.yaml"
    path.write_bytes(content)
    problems = []
    refused = None
    try:
        tree = read(path, root=folder, problems=problems)
        assert isinstance(tree, Located)
        assert count(tree) <= limits.NODES + limits.COPIES
        provenance(tree)
        validate(Design, set_path(tree, "system.nodes", 4), problems=problems)
    except DesignError as error:
        refused = error
    if refused is not None:
        assert refused.problems
        assert str(refused).replace("\n", "").isprintable()
        assert all(problem.file and problem.message for problem in refused.problems)


fuzzing = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzzing
@given(mutations)
def test_mutated_designs(folder, changes):
    survives(folder, mutated(changes).encode("utf-8", "surrogatepass"))


@fuzzing
@given(st.binary(max_size=200))
def test_any_bytes(folder, content):
    survives(folder, content)


@fuzzing
@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text(folder, text):
    survives(folder, text.encode("utf-8", "surrogatepass"))


@fuzzing
@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_any_set_value(text):
    try:
        scalar(text)
    except DesignError as error:
        str(error).encode()


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(PIECES), st.sampled_from(PIECES), st.integers(1, 3000))
def test_any_piece_repeated_without_end(first, second, times):
    budget = Budget()
    try:
        build((first + second) * times, "x", budget, [])
    except DesignError as error:
        str(error).encode()
    assert budget.parsed <= limits.NODES + 1
