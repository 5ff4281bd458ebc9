"""The measuring script without a GPU: what it asks for, counts and writes, and what it says when it cannot run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
