"""A kind from another package: evaluate, explain, schema and the invariant suite know it without an edit here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = '''"""A systolic array from another package."""

from typing import Literal

from pydantic import Field

from archmodel.components import DEVICES
from archmodel.components.accelerator import Accelerator
from archmodel.components.breakdown import Breakdown
from archmodel.quantities import Seconds


@DEVICES.register
class Systolic(Accelerator):
    """An accelerator whose products also wait for the array to fill.

        t = fill + accelerator's time
    """

    kind: Literal["systolic"] = "systolic"
    fill: Seconds = Field(default=1e-6, description="seconds until the array is full")

    def gemm(self, m, n, k, dtype="bf16", *, graph=True, batch=1.0):
        some = (m * n * k * batch) > 0
        return super().gemm(m, n, k, dtype, graph=graph, batch=batch) + Breakdown({"latency": self.fill * some})
'''
DESIGN = """
name: on a kind of another package
system:
  node: {accelerator: {use: devices/SYSTOLIC.yaml}}
workload: {use: workloads/deeprecsys_rmc1.yaml, global_batch: 256}
plan: {precision: {compute: bf16}}
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package that registers a kind, a device file of that kind, and a design."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "systolic_kind.py").write_text(PLUGIN, encoding="utf-8")
    info = folder / "systolic_kind-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: systolic-kind\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[archmodel.kinds]\nsystolic = systolic_kind\n", encoding="utf-8")
    (folder / "devices").mkdir()
    device = (ROOT / "designs" / "devices" / "tpu_v4.yaml").read_text(encoding="utf-8")
    assert "kind: accelerator\n" in device
    (folder / "devices" / "systolic_test.yaml").write_text(
        device.replace("kind: accelerator\n", "kind: systolic\n"), encoding="utf-8"
    )
    (folder / "design.yaml").write_text(DESIGN.replace("SYSTOLIC", "systolic_test"), encoding="utf-8")
    return folder


def run(plugin: Path, *arguments: str, **environment: str) -> str:
    """Output of a Python process that has the plugin installed; fails on an error."""
    path = os.pathsep.join((str(plugin), str(ROOT)))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_evaluate_uses_the_kind(plugin: Path) -> None:
    answer = json.loads(run(plugin, "-m", "archmodel", "evaluate", str(plugin / "design.yaml"), "--json"))
    assert answer["iteration_time"] > 0
    assert answer["fits"]


def test_explain_shows_its_law_and_fields(plugin: Path) -> None:
    told = run(plugin, "-m", "archmodel", "explain", str(plugin / "design.yaml"), "top_0.forward")
    assert "system.node.accelerator.fill" in told


def test_the_schema_lists_it(plugin: Path) -> None:
    assert "systolic" in run(plugin, "-m", "archmodel", "schema")


def test_the_invariant_suite_runs_on_it(plugin: Path) -> None:
    suite = "tests/components/test_invariants.py"
    said = run(
        plugin, "-m", "pytest", "-q", "-p", "no:cacheprovider", suite, "-k", "systolic_test",
        ARCHMODEL_DEVICES=str(plugin / "devices"),
    )  # fmt: skip
    assert "passed" in said
    assert "failed" not in said
