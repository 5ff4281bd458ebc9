"""Pages that tests look at, made once: of ordinary designs and of hostile ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import archmodel as am
from archmodel.estimate.result import Estimate
from archmodel.sweep.results import Results
from tests.report.html.browser import Browser, opened

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
END = "</script><script>alert(3)</script><!--"
LINK = "<a href='javascript:alert(4)'>%{x}</a>"
HOSTILE = (SCRIPT, IMAGE, END, LINK, "<b>bold</b>", "&lt;i&gt;", "=1+cmd|' /C calc'!A0", "$x^2$ ${y}", "a" * 300)
"""Names as an attacker would choose them."""


def quoted(text: str) -> str:
    """A YAML string."""
    return "'" + text.replace("'", "''") + "'"


@pytest.fixture(scope="session")
def hostile_design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A design whose every free text is hostile."""
    tables = "\n".join(
        f"    {quoted(name)}: {{num_embeddings: {1000 * (i + 1)}, embedding_dim: 32, pooling_factor: 3}}"
        for i, name in enumerate(HOSTILE)
    )
    text = f"""
name: {quoted(END + SCRIPT)}
system: {{use: systems/dgx_a100.yaml}}
workload:
  kind: dlrm
  source: {quoted(IMAGE)}
  note: {quoted(SCRIPT)}
  status: assumed
  global_batch: 4096
  dense_features: 13
  bottom_mlp: [64, 32]
  top_mlp: [64, 1]
  tables:
{tables}
plan:
  tables: {{default: table_wise}}
published:
  throughput: {{value: 1 Msample/s, source: {quoted(LINK + SCRIPT)}, calibrated: false}}
"""
    path = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(5)>.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def hostile(hostile_design: Path) -> Estimate:
    return am.estimate(am.load(hostile_design))


@pytest.fixture(scope="session")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Estimate:
    """A model whose layers, and so whose ops, have hostile names, over two nodes."""
    names = [name for name in HOSTILE if "." not in name]
    listed = "\n".join(f"    {quoted(name)}: {{kind: linear, in_features: 64, out_features: 64}}" for name in names)
    text = f"""
name: {quoted(SCRIPT)}
system: {{use: systems/dgx_a100.yaml, nodes: 2}}
workload:
  kind: layers
  source: made up for tests
  status: assumed
  global_batch: 4096
  layers:
{listed}
"""
    path = tmp_path_factory.mktemp("layers") / "layers.yaml"
    path.write_text(text, encoding="utf-8")
    return am.estimate(am.load(path))


@pytest.fixture(scope="session")
def answer(two_node_design: Path) -> Estimate:
    """Sixteen ranks on two nodes."""
    return am.estimate(am.load(two_node_design))


@pytest.fixture(scope="session")
def grid(hostile_design: Path) -> Results:
    """A sweep with numbers, labels that are hostile, and points that do not fit."""
    axes = {
        "system.node.gpu.hbm.bandwidth": am.linspace("1 TB/s", "4 TB/s", 8),
        "system.node.gpu.hbm.capacity": ["10 MB", "40 GB"],
        "workload.global_batch": [2048, 4096, 8192],
        "workload.note": [SCRIPT, END],
    }
    return am.sweep(am.load(hostile_design), axes)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("downloads")) as found:
        yield found
