"""The gallery: what it runs, what it does with studies that fail, and an index that is the same every time."""

from __future__ import annotations

from pathlib import Path

import _gallery
import pytest

GOOD = '''"""A study that works."""
import sys
open(sys.argv[2], "w").write("<title>Good &amp; small</title><meta name='description' content='2 &lt; 3'>")
'''
PLAIN = '''"""A study without a description.

More.
"""
import sys
open(sys.argv[2], "w").write("<title>Plain</title>")
'''
BAD = "raise SystemExit('this one is broken')"
SILENT = "import sys\nsys.exit(0)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    studies = tmp_path / "studies"
    studies.mkdir()
    (studies / "good.py").write_text(GOOD)
    (studies / "plain.py").write_text(PLAIN)
    (studies / "_helper.py").write_text(BAD)
    (studies / "measure_gpu.py").write_text(BAD)
    return studies


def run(folder: Path, *arguments: str) -> int:
    return _gallery.main([*arguments, "-o", str(folder.parent / "out"), "-j", "2"], folder)


def test_every_study_has_a_link_a_title_and_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    index = (folder.parent / "out" / "index.html").read_text()
    assert '<a href="good.html">Good &amp; small</a><p>2 &lt; 3</p>' in index
    assert '<a href="plain.html">Plain</a><p>A study without a description.</p>' in index
    assert "measure_gpu" not in index
    assert "_helper" not in index
    said = capsys.readouterr().out
    assert "[1/2]" in said
    assert "[2/2]" in said


def test_the_index_is_the_same_twice(folder: Path) -> None:
    run(folder)
    first = (folder.parent / "out" / "index.html").read_bytes()
    run(folder)
    assert (folder.parent / "out" / "index.html").read_bytes() == first


def test_failing_studies_are_named_and_the_others_are_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.py").write_text(BAD)
    (folder / "silent.py").write_text(SILENT)
    assert run(folder) == 1
    said = capsys.readouterr()
    assert "broken failed:\n  this one is broken" in said.err
    assert "silent failed:\n  wrote no page" in said.err
    index = (folder.parent / "out" / "index.html").read_text()
    assert "broken failed" in index
    assert 'href="good.html"' in index
    assert 'href="broken.html"' not in index


def test_one_study_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "good") == 0
    assert not (folder.parent / "out" / "plain.html").exists()
    with pytest.raises(SystemExit, match="no study goood; there are good, plain"):
        run(folder, "goood")


def test_every_study_of_the_project_is_found(tmp_path: Path) -> None:
    names = [e.name for e in _gallery.entries(_gallery.HERE, tmp_path)]
    assert names == sorted(names)
    assert {"ace", "neo", "mlperf", "planners", "recnmp", "sdm", "sweep_dcnv2", "split_the_budget"} <= set(names)
    listed = (_gallery.HERE.parent / "docs" / "studies.md").read_text()
    assert [n for n in names if f"`{n}" not in listed] == []
