"""A small design, and sweeps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import archmodel as am

HBM = "system.node.gpu.hbm.bandwidth"
LINK = "system.node.scale_up.bandwidth"
BATCH = "workload.global_batch"
AXES: dict[str, Any] = {
    HBM: am.linspace("1 TB/s", "4 TB/s", 7),
    BATCH: [2048, 4096],
    LINK: ["100 GB/s", "300 GB/s", "600 GB/s"],
}


@pytest.fixture(scope="session")
def small(small_design: Path) -> am.Design:
    return am.load(small_design)


@pytest.fixture
def write(tmp_path: Path, small_design: Path) -> Any:
    """A maker of sweep files over the small design."""

    def make(text: str) -> Path:
        path = tmp_path / "sweep.yaml"
        path.write_text(f"design: {small_design}\n{text}", encoding="utf-8")
        return path

    return make
