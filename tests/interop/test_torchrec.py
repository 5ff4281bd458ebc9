"""TorchRec plans, constraints and table lists: round trips lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import archmodel as am
from archmodel import catalogue
from archmodel.errors import ArchmodelError
from archmodel.interop import torchrec
from archmodel.search.plan_tables import with_tables

PLAN = {
    "plan": {
        "ebc": {
            "tw": {
                "sharding_type": "table_wise",
                "compute_kernel": "fused",
                "ranks": [2],
                "shards": [{"shard_offsets": [0, 0], "shard_sizes": [1000, 64], "placement": "rank:2/cuda:0"}],
                "cache_params": {"load_factor": 0.1},
            },
            "cw": {
                "sharding_type": "column_wise",
                "compute_kernel": "fused_uvm_caching",
                "ranks": [0, 3],
                "shards": [
                    {"shard_offsets": [0, 0], "shard_sizes": [1000, 32], "placement": "rank:0/cuda:0"},
                    {"shard_offsets": [0, 32], "shard_sizes": [1000, 32], "placement": "rank:3/cuda:1"},
                ],
            },
        },
        "other": {"dp": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": [0, 1, 2, 3]}},
    }
}


def test_a_plan_survives_the_round_trip() -> None:
    assert torchrec.write_plan(torchrec.read_plan(PLAN), local_world_size=2) == PLAN


def test_shards_that_do_not_tile_are_refused() -> None:
    shard = {"shard_offsets": [0, 0], "shard_sizes": [1000, 64], "placement": "rank:2/cuda:0"}
    hole = {**shard, "shard_offsets": [1200, 0]}
    entry = {"sharding_type": "row_wise", "compute_kernel": "fused", "ranks": [2, 2], "shards": [shard, hole]}
    with pytest.raises(ArchmodelError, match="table t: its shards do not tile"):
        torchrec.read_plan({"plan": {"m": {"t": entry}}})
    with pytest.raises(ArchmodelError, match="table t: ranks is missing"):
        torchrec.read_plan({"plan": {"m": {"t": {"sharding_type": "data_parallel", "compute_kernel": "dense"}}}})
    with pytest.raises(ArchmodelError, match='no "plan"'):
        torchrec.read_plan({})


@pytest.mark.parametrize("name", ["mlperf_dcnv2_dgx_h100", "mlperf_dcnv2_eos_8x8"])
def test_a_design_survives_the_round_trip(name: str) -> None:
    design = am.load(catalogue.directory() / f"{name}.yaml")
    document = torchrec.write_plan(torchrec.from_design(design), design.layout.local_size)
    plan = torchrec.read_plan(document)
    again = with_tables(design, torchrec.to_tables(plan, design))
    assert float(am.estimate(again).iteration_time) == pytest.approx(
        float(am.estimate(design).iteration_time), rel=1e-12
    )
    missing = {k: v for k, v in plan.items() if k != "cat_3"} | {"cat_33": plan["cat_3"]}
    with pytest.raises(ArchmodelError, match=r"table cat_3 is not in the plan(.|\n)*cat_33 of the plan is not"):
        torchrec.to_tables(missing, design)


def test_constraints_survive_the_round_trip() -> None:
    document = {
        "a": {"sharding_types": ["row_wise"], "compute_kernels": None, "min_partition": 32, "pooling_factors": [2.0]},
        "b": {"sharding_types": None, "compute_kernels": ["fused"], "min_partition": None, "is_weighted": True},
    }
    assert torchrec.write_constraints(torchrec.read_constraints(document)) == document


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"pooling_factors": [1.0, 2.0], "batch_sizes": [512]}, "differ in length"),
        ({"cache_params": {"load_factor": 1.0}}, "between 0 and 1"),
        ({"cache_params": {"load_factor": 0.0}}, "between 0 and 1"),
    ],
)
def test_constraints_that_cannot_hold(entry: dict, message: str) -> None:
    with pytest.raises(ArchmodelError, match=message):
        torchrec.read_constraints({"a": entry})


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_table_lists(tmp_path: Path, ending: str) -> None:
    tables = [{"name": "a", "rows": 10, "dim": 64, "pooling": 1.5}, {"name": "b", "rows": 7, "dim": 32, "pooling": 1.0}]
    torchrec.write_tables(tables, tmp_path / f"t.{ending}")
    assert torchrec.read_tables(tmp_path / f"t.{ending}") == tables


def test_table_list_in_torchrec_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("table,num_embeddings,embedding_dim\nuser,1e6,64\n")
    assert torchrec.read_tables(tmp_path / "t.csv") == [{"name": "user", "rows": 1000000, "dim": 64, "pooling": 1.0}]
    (tmp_path / "t.csv").write_text("table,embedding_dim\nuser,64\n")
    with pytest.raises(ArchmodelError, match="table 1: no rows"):
        torchrec.read_tables(tmp_path / "t.csv")
