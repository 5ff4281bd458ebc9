"""Sweep files and the command: what is wrong is named with file, line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import archmodel as am
from archmodel.cli import commands
from archmodel.sweep.file import read
from archmodel.sweep.prepare import prepared
from archmodel.sweep.sweep import run

from .conftest import BATCH, HBM, LINK
from .test_sweep import same

FILE = f"""\
axes:
  {HBM}: {{from: 1 TB/s, to: 4 TB/s, count: 7}}
  {BATCH}: [2048, 4096]
  {LINK}:
    - 100 GB/s
    - 300 GB/s
    - 600 GB/s
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["sweep", *arguments], catch_exceptions=False)


def test_a_file_is_the_sweep_of_its_axes(write: Any, small: am.Design) -> None:
    from .conftest import AXES

    assert same(run(prepared(read(write(FILE)))), am.sweep(small, AXES))


def test_set_changes_the_design_first_and_the_command_line_last(write: Any, small: am.Design) -> None:
    path = write(f"set: {{plan.prefetch_input: true, {LINK}: 100 GB/s}}\naxes: {{{BATCH}: [2048]}}\n")
    found = run(prepared(read(path, sets={LINK: "200 GB/s"})))
    alone = small.with_({"plan.prefetch_input": True, LINK: "200 GB/s", BATCH: 2048})
    assert found["iteration_time"][0] == am.estimate(alone).iteration_time


def test_a_name_of_the_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"design: mlperf_dlrm_v1_dgx_h100.yaml\naxes: {{{HBM}: [1 TB/s]}}\n")
    assert read(path).design.name


def test_parts_of_the_catalogue_are_values(write: Any) -> None:
    path = write(
        "axes:\n  system.node.gpu:\n    - {use: devices/a100_sxm_80gb.yaml}\n    - {use: devices/h200_sxm_141gb.yaml}\n"
    )
    table = run(prepared(read(path)))
    assert list(table["system.node.gpu"]) == ["A100-SXM4-80GB", "H200-SXM-141GB"]
    assert table["throughput"][1] > table["throughput"][0]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (f"axes:\n  {HBM}: [1 TB/s, 25 GB]\n", ":3:", "a bandwidth is needed"),
        (f"axes:\n  {HBM}:\n    - 1 TB/s\n    - 7\n", ":5:7", "has no unit"),
        (f"axes:\n  {HBM}: []\n", ":3:3", "is an empty axis"),
        (f"axes:\n  {HBM}: {{from: 1 TB/s,\n    to: 2 GB, count: 3}}\n", ":4:5", "a bandwidth is needed"),
        (f"axes:\n  {HBM}: {{from: 1 TB/s, to: 2 TB/s, count: 2.5}}\n", ":3:", "is not a whole number"),
        (f"axes:\n  {HBM}: {{from: 1 TB/s, to: 2 TB/s, count: 2, scale: lin}}\n", ":3:", "neither linear nor log"),
        ("axes:\n  system.node.gpu.hmb.bandwidth: [1 TB/s]\n", ":3:3", "did you mean hbm?"),
        ("axes:\n  system.nodes: [1, 0]\n", ":3:21", "is less than 1"),
        ("axes: {}\n", ":2:1", "is empty"),
        ("axes: [1]\n", ":2:1", "is not a mapping"),
        ("axis: {}\n", ":2:1", "did you mean axes?"),
        (f"axes: {{{HBM}: [1 TB/s]}}\nsample: sobel\n", ":3:1", "did you mean sobol?"),
        (f"axes: {{{HBM}: [1 TB/s]}}\nsample: sobol\npoints: x\n", ":4:1", "is not a whole number"),
        (f"axes: {{{HBM}: [1 TB/s]}}\noutputs: [thruput]\n", ":3:1", "did you mean throughput?"),
        (f"axes: {{{HBM}: [1 TB/s]}}\nset: {{{LINK}: 3 GB}}\n", ":3:7", "a bandwidth is needed"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(write: Any, text: str, where: str, message: str) -> None:
    path = write(text)
    result = call(str(path))
    assert result.exit_code == 2
    line = next(line for line in result.stderr.splitlines() if message in line)
    assert line.startswith(f"{path}{where}"), line
    assert "Traceback" not in result.output


def test_a_design_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("design: mlperf_dcnv2_dgx_h10.yaml\naxes: {a: [1]}\n")
    result = call(str(path))
    assert result.exit_code == 2
    assert f"{path}:1:1" in result.stderr and "did you mean mlperf_dcnv2_dgx_h100.yaml?" in result.stderr


def test_the_command_prints_the_best_point_and_writes_a_table(write: Any, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    result = call(str(write(FILE)), "-o", str(tmp_path / "t"), "-w", "1")
    assert result.exit_code == 0, result.output
    assert "42 points over" in result.stdout and "4.00 TB/s" in result.stdout
    assert "42 points in " in result.stderr
    again = call(str(write(FILE)), "-o", str(tmp_path / "t"))
    assert "42 of them from before" in again.stderr and again.stdout == result.stdout


def test_json_holds_no_nan(write: Any) -> None:
    result = call(str(write(f"axes: {{{BATCH}: [4096, 400000000]}}\n")), "--json", "-w", "1")
    found = json.loads(result.stdout)
    assert found["points"] == 2 and found["answered"] == 1
    assert next(iter(found["reasons"])).startswith("does not fit: hbm")
    assert found["best"][BATCH] == 4096


def test_exit_code_1_when_no_point_has_an_answer(write: Any) -> None:
    result = call(str(write(f"axes: {{{BATCH}: [400000000]}}\n")), "-w", "1")
    assert result.exit_code == 1
    assert "no point has an answer" in result.stderr and "does not fit: hbm" in result.stdout


def test_another_sweeps_folder_is_refused(write: Any, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    call(str(write(FILE)), "-o", str(tmp_path / "t"), "-w", "1")
    result = call(str(write(FILE.replace("4 TB/s", "5 TB/s"))), "-o", str(tmp_path / "t"), "-w", "1")
    assert result.exit_code == 2
    assert f"{tmp_path / 't' / 'manifest.json'}: is of another sweep" in result.stderr


def test_interrupting_says_how_to_go_on(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from archmodel.sweep import sweep as module

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "evaluated", interrupted)
    result = CliRunner().invoke(commands, ["sweep", str(write(FILE)), "-o", str(tmp_path / "t"), "-w", "1"])
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr
