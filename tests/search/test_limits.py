"""What the planner may not do, it does not do; and limits that make no sense are refused in their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import archmodel as am
from archmodel import catalogue
from archmodel.errors import ArchmodelError, DesignError
from archmodel.search.limits import Limits, bind, read_limits
from archmodel.search.options import NoPlan
from archmodel.search.planner import Weights, plan

DESIGN = am.load(catalogue.directory() / "mlperf_dcnv2_dgx_h100.yaml")


def limits(**content: object) -> Limits:
    return Limits.model_validate(content)


def test_pinned_tables_stay_on_their_ranks_and_kinds() -> None:
    wanted = limits(
        tables=[
            {"match": {"rows": "> 1e7"}, "ranks": [4, 5, 6, 7], "sharding": ["table_wise", "column_wise"]},
            {"match": {"rows": "> 1e7"}, "min_columns": 64},
            {"match": {"rows": "< 1000"}, "sharding": ["data_parallel"]},
        ]
    )
    found = plan(DESIGN, limits=wanted)
    placement, big = found.design.placement, 0
    for s, t in enumerate(placement.table.tolist()):
        rows = placement.tables.num_embeddings[t]
        if rows > 1e7:
            big += 1
            assert placement.home[s] >= 4 and placement.sharding[t] in ("table_wise", "column_wise")
            assert placement.columns[s] >= 64
        if rows < 1000:
            assert placement.sharding[t] == "data_parallel"
    assert big >= 3
    assert bind(wanted, DESIGN).broken_by(found.design, found.estimate) == ""
    assert found.lower_bound >= plan(DESIGN).lower_bound * (1 - 1e-9)  # fewer plans, no lower bound of them


def test_reserved_memory_stays_free() -> None:
    capacity = float(np.min(am.estimate(DESIGN).memory["hbm"].capacity))
    kept = capacity - 13e9
    found = plan(DESIGN, limits=limits(reserved=[{"ranks": [2], "bytes": kept}]))
    need = np.broadcast_to(found.estimate.memory["hbm"].need, DESIGN.layout.ranks)
    assert need[2] <= 13e9 < need.max()


def test_nothing_left_names_the_table() -> None:
    with pytest.raises(NoPlan, match="cat_0"):
        plan(DESIGN, limits=limits(tables=[{"match": {"name": "cat_0"}, "sharding": ["grid_wise"]}]))


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("tables:\n  - {match: {name: cta_0}, ranks: [0]}\n", "1", "matches no table; did you mean cat_0"),
        ("tables:\n  - {match: {name: cat_0}, ranks: [0, 8]}\n", "2", "8.*is no rank; there are 8"),
        ("tables:\n  - {tiers: [hbn]}\n", "2", "did you mean hbm"),
        ("reserved:\n  - {tier: sdd, bytes: 1 GiB}\n", "2", "is no tier"),
        ("reserved:\n  - {bytes: 7}\n", "2", "unit"),
        ("tabels: []\n", "1", "did you mean tables"),
        ("tables:\n  - {sharding: [row]}\n", "2", "row_wise"),
        ("tables:\n  - {ranks: [-1]}\n", "2", "less than 0"),
    ],
)
def test_bad_files_are_refused_in_place(text: str, where: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(text)
    with pytest.raises(DesignError, match=f"limits.yaml:\\d.*({says})"):
        read_limits(file, DESIGN)


def test_weights_trade_time_for_memory_and_nodes() -> None:
    fastest = plan(DESIGN, seed=3)
    roomy = plan(DESIGN, seed=3, weights=Weights(1.0, 4.0))

    def fullest(answer: am.Estimate) -> float:
        return max(m.worst / float(np.min(m.capacity)) for m in answer.memory.values())

    assert fullest(roomy.estimate) <= fullest(fastest.estimate)
    assert roomy.value >= fastest.value
    two = am.load(catalogue.directory() / "mlperf_dcnv2_eos_8x8.yaml").with_(
        {"system.nodes": 2, "workload.global_batch": 65536, "plan.tables": {"default": "auto"}}
    )
    assert plan(two, weights=Weights(1.0, 0.0, 100.0)).design.system.nodes == 1
    assert plan(two, weights=Weights(1.0, 0.0, 1e-9)).design.system.nodes == plan(two).design.system.nodes == 2


@pytest.mark.parametrize("bad", [(0, 0, 0), (-1, 0, 0), (float("nan"), 0, 0), (1, float("inf"), 0)])
def test_weights_must_make_sense(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ArchmodelError, match="weights"):
        Weights(*bad)
