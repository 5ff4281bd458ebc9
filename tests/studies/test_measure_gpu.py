"""The measuring script without a GPU: what it asks for, counts and writes, and what it says when it cannot run."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from archmodel.calibrate.measurements import SHAPES, read
from archmodel.program import SECTOR

FILE = Path(__file__).parents[2] / "studies" / "measure_gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_gpu", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_writes_what_calibration_reads(script: ModuleType, tmp_path: Path) -> None:
    lookup = script.lookup_bytes(40_000, 30_000, 1000, 64, 4)
    update = script.update_bytes(40_000, 30_000, 1000, 64, 4)
    rows = [
        ("gemm", script.shape_text(m=4096, n=1024, k=512), "bf16", 12.3e-6),
        ("lookup", script.shape_text(**lookup), "fp32", 20e-6),
        ("update", script.shape_text(**update), "fp32", 50e-6),
        ("copy", script.shape_text(bytes=2**30), "uint8", 1e-3),
        ("launch", script.shape_text(graph=1), "fp32", 1.2e-6),
    ]
    assert script.write(iter(rows), "mine", tmp_path / "t.csv") == 5
    found = read(tmp_path / "t.csv")
    assert {row.kernel for row in found} == set(SHAPES)
    assert [row.seconds for row in found] == pytest.approx([row[3] for row in rows])
    assert found[1].shape == tuple(lookup[name] for name in SHAPES["lookup"])
    assert found[2].shape == tuple(update[name] for name in SHAPES["update"])


def test_bytes_are_counted_as_the_program_counts_them(script: ModuleType) -> None:
    assert script.SECTOR == SECTOR
    assert [script.sectors(n) for n in (1, 32, 33, 256)] == [32, 32, 64, 256]
    assert script.lookup_bytes(40, 30, 4, 4, 4) == {
        "demanded_bytes": 40 * 32.0,
        "unique_bytes": 30 * 32.0,
        "streamed_bytes": 44 * 8.0 + 4 * 16.0,
    }


def test_shapes_are_drawn_by_seed_and_fit(script: ModuleType) -> None:
    shapes = script.gemm_shapes(200, 1, 8e9)
    assert shapes == script.gemm_shapes(200, 1, 8e9) != script.gemm_shapes(200, 2, 8e9)
    assert len(set(shapes)) == 200
    assert all(2 * (m * k + 6 * n * k + m * n) <= 8e9 for m, n, k in shapes)


def test_without_torch_it_says_what_it_needs(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert script.main([]) == 2
    assert "needs torch with CUDA" in capsys.readouterr().err


def test_without_a_gpu_it_says_so(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    assert script.main([]) == 2
    assert "needs a GPU" in capsys.readouterr().err


def test_it_needs_nothing_of_archmodel() -> None:
    """Run by itself, in a Python that can import nothing that is installed."""
    done = subprocess.run([sys.executable, "-I", "-S", FILE, "--help"], capture_output=True, text=True, check=True)
    assert "--dry-run" in done.stdout
    assert "archmodel calibrate gpu measurements.csv" in done.stdout


def test_a_dry_run_writes_the_rows_without_times(script: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    assert script.main(["--dry-run", "--gemms", "5", "--dtypes", "bf16", "fp8", "--gpu", "mine", "-o", str(file)]) == 0
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["kernel"] for row in rows} == set(SHAPES)
    assert [row["dtype"] for row in rows if row["kernel"] == "gemm"] == ["bf16"] * 5 + ["fp8"] * 5
    assert {(row["time"], row["gpu"]) for row in rows} == {("", "mine")}


def test_a_dry_run_plans_what_can_be_read_once_it_has_times(script: ModuleType, tmp_path: Path) -> None:
    chosen = script.options(["--gemms", "5"])
    timed = [(kernel, shape, dtype, 1e-6) for kernel, shape, dtype, _ in script.plan(chosen)]
    assert script.write(iter(timed), "mine", tmp_path / "t.csv") == len(read(tmp_path / "t.csv"))


def test_what_cannot_be_measured_is_left_out_and_said(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> float:
        raise RuntimeError("CUDA out of memory\nand much more")

    rows = [("copy", "bytes=1", "uint8", script.attempted("copy", fails)), ("copy", "bytes=2", "uint8", 1e-6)]
    assert capsys.readouterr().err == "left out: copy: CUDA out of memory\n"
    assert script.write(iter(rows), "mine", tmp_path / "t.csv") == 1
    assert [row.shape for row in read(tmp_path / "t.csv")] == [(2.0,)]


@pytest.mark.parametrize("arguments", [["--dtypes", "fp17"], ["--dry"], ["--gemms", "many"]])
def test_bad_arguments_exit_with_2(script: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        script.main(arguments)
    assert exit_.value.code == 2
