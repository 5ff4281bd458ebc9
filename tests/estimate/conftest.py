"""Small designs on real devices and fabrics of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archmodel as am

SMALL = """
name: small
system:
  nodes: {nodes}
  node:
    gpus: 4
    gpu: {{use: devices/h100_sxm_80gb.yaml}}
    scale_up: {{use: fabrics/nvswitch_h100.yaml}}
    nic: {{bandwidth: 400 Gbit/s}}
    host:
      ddr: {{capacity: 2 TB, bandwidth: 300 GB/s}}
      link: {{bandwidth: 55 GB/s}}
    other_power: 3 kW
    price: 300 kUSD
  scale_out: {{use: fabrics/ib_ndr_400g.yaml}}
  economics: {{lifetime: 35000 h, electricity: 0.1 USD/kWh}}
workload:
  kind: dlrm
  interaction: cat
  global_batch: 4096
  dense_features: 13
  bottom_mlp: [256, 64]
  top_mlp: [512, 128, 1]
  tables:
    big: {{num_embeddings: [2000000, 900000, 700001], embedding_dim: 64, pooling_factor: [20, 5, 3]}}
    wide:
      {{count: 5, num_embeddings: 100000, embedding_dim: 128, pooling_factor: 2.5, access: {{kind: zipf, alpha: 1.1}}}}
    tiny: {{num_embeddings: 50, embedding_dim: 16}}
plan:
  tables:
    default: {{sharding: {sharding}, optimizer: rowwise_adagrad}}
  prefetch_input: {prefetch}
"""

Maker = Callable[..., am.Design]


@pytest.fixture
def small(tmp_path: Path) -> Maker:
    """A maker of small designs: nodes, sharding, prefetch and changed paths as keywords."""

    def make(
        nodes: int = 2, sharding: str = "auto", prefetch: bool = False, changes: dict[str, Any] | None = None
    ) -> am.Design:
        path = tmp_path / "small.yaml"
        path.write_text(SMALL.format(nodes=nodes, sharding=sharding, prefetch=str(prefetch).lower()))
        design = am.load(path)
        return design.with_(changes) if changes else design

    return make
