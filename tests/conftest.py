"""What all tests share: hypothesis profiles, and small designs on systems of the catalogue."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

SMALL = """
name: "Small [red]design[/red] <b>"
system: {use: systems/dgx_a100.yaml}
workload:
  kind: dlrm
  source: made up for tests
  status: assumed
  global_batch: 4096
  dense_features: 13
  bottom_mlp: [64, 32]
  top_mlp: [64, 1]
  tables:
    large: {count: 6, num_embeddings: 1_000_000, embedding_dim: 32, pooling_factor: 20}
    small: {count: 3, num_embeddings: 500, embedding_dim: 32}
    rows: {num_embeddings: 5_000_000, embedding_dim: 32, pooling_factor: 3}
plan:
  tables:
    default: auto
    rules:
      - match: {name: "small_*"}
        sharding: data_parallel
    assign:
      rows: {sharding: row_wise}
published:
  throughput: {value: 1 Msample/s, source: made up for tests, calibrated: false}
"""


@pytest.fixture(scope="session")
def small_design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A design file on one node that evaluates in an instant; its name has text that looks like markup."""
    path = tmp_path_factory.mktemp("designs") / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def two_node_design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same on two nodes, so that every kind of link is used."""
    path = tmp_path_factory.mktemp("designs") / "two_nodes.yaml"
    text = SMALL.replace("dgx_a100.yaml}", "dgx_a100.yaml, nodes: 2}").replace("default: auto", "default: table_wise")
    path.write_text(text, encoding="utf-8")
    return path
