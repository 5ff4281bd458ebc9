"""Rules of the house that no single module can keep."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archmodel import __version__, catalogue, load, source
from archmodel.errors import QuantityError
from archmodel.quantities import read
from archmodel.source.provenance import is_cited

HOUSE = Path(__file__).parent.parent
FILES = sorted(catalogue.directory().rglob("*.yaml"))
CHOICES = re.compile(r"plan\b|(system\.)?nodes$|(workload\.)?global_batch$|published\b")
"""Paths of what a user decides rather than states."""


def name_of(path: Path) -> str:
    return str(path.relative_to(catalogue.directory()))


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value below `node` with its path; a value written with its source is one leaf."""
    if is_cited(node):
        yield path, node["value"]
    elif isinstance(node, dict):
        for key, item in node.items():
            yield from leaves(item, source.join(path, key))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from leaves(item, source.join(path, index))
    else:
        yield path, node


def is_number(value: Any) -> bool:
    """A number, or text that is a quantity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return not isinstance(value, str) or read(value) is not None
    except QuantityError:
        return False


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_number_has_a_birth_certificate(path: Path) -> None:
    """A source, or at least a status that owns up to being an assumption."""
    tree = source.read(path, catalogue=catalogue.directory())
    known = source.provenance(tree)
    orphans = [
        where
        for where, value in leaves(tree)
        if is_number(value)
        and not (path.parent.name == "plans" or CHOICES.match(where))
        and where in known
        and known[where].source is None
        and known[where].status is None
    ]
    assert not orphans


def test_the_catalogue_is_not_empty() -> None:
    wanted = ("dgx_a100", "dgx_h100", "zionex", "dgx1_v100", "dgx2_v100")
    assert {f"systems/{name}.yaml" for name in wanted} <= {name_of(path) for path in FILES}


def test_a_number_without_a_source_is_found(tmp_path: Path) -> None:
    """The birth-certificate test can fail."""
    file = tmp_path / "orphan.yaml"
    file.write_text("node: {nic: {bandwidth: 25 GB/s}, gpus: 8}\n", encoding="utf-8")
    tree = source.read(file)
    known = source.provenance(tree)
    assert [where for where, value in leaves(tree) if is_number(value)] == ["node.nic.bandwidth", "node.gpus"]
    assert known["node.nic.bandwidth"].source is None


def test_the_version_is_in_the_changelog_or_unreleased() -> None:
    text = (HOUSE / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text


def yaml_blocks(page: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


PAGES = sorted([*(HOUSE / "docs").rglob("*.md"), HOUSE / "README.md", HOUSE / "CONTRIBUTING.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_are_yaml_and_whole_designs_load(page: Path, tmp_path: Path) -> None:
    """A block with a system and a workload is a design; it must load. Any other must at least be read."""
    for index, block in enumerate(yaml_blocks(page)):
        file = tmp_path / f"{index}.yaml"
        file.write_text(block.replace("\n...", ""), encoding="utf-8")
        tree = source.read(file, catalogue=catalogue.directory())
        if {"system", "workload"} <= tree.keys():
            assert load(file).name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_command_has_a_section_in_the_manual() -> None:
    from archmodel.cli import commands

    manual = (HOUSE / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in commands.commands if f"## `archmodel {name}" not in manual] == []


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "tutorial.md"], ids=lambda page: page.name)
def test_python_of_the_manual_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOUSE)
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), {})


def test_the_manual_shows_what_the_program_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make renew` renews it."""
    monkeypatch.chdir(HOUSE)
    spec = importlib.util.spec_from_file_location("renew", HOUSE / "docs" / "renew.py")
    assert spec is not None
    assert spec.loader is not None
    renew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(renew)
    stale = [page.name for page, text in renew.pages().items() if page.read_text(encoding="utf-8") != text]
    assert not stale
