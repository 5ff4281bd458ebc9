"""Points that are planned anew: against brute force over every point and both of its plans."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.search.pareto import front, hypervolume
from archmodel.search.planner import plan, with_tables
from archmodel.sweep.axes import Axis
from archmodel.sweep.prepare import anchors_of

HBM, NIC = "system.node.gpu.hbm.bandwidth", "system.node.nic.bandwidth"
VALUES: dict[str, list[Any]] = {
    "system.nodes": [1, 2],
    HBM: ["0.2 TB/s", "8 TB/s"],
    NIC: ["10 Gbit/s", "3200 Gbit/s"],
}


def asked(design: Path, **more: Any) -> dict[str, Any]:
    return {
        "design": str(design),
        "set": {"plan": "auto", "workload.global_batch": 8192},
        "knobs": VALUES,
        "objectives": ["iteration_time", "nodes"],
        "replan": {"trials": 3},
        **more,
    }


@pytest.fixture(scope="module")
def found(two_node_design: Path) -> Any:
    return am.search(asked(two_node_design))


def test_every_point_is_planned_for_its_own_hardware(two_node_design: Path, found: Any) -> None:
    base = am.load(two_node_design).with_({"plan": "auto", "workload.global_batch": 8192})
    best, better = {}, 0
    for nodes in VALUES["system.nodes"]:
        design = base.with_({"system.nodes": nodes})
        first = plan(design, trials=3).tables()
        for hbm, nic in itertools.product(VALUES[HBM], VALUES[NIC]):
            point = design.with_({HBM: hbm, NIC: nic})
            as_planned = float(am.estimate(with_tables(point, first)).iteration_time)
            own = float(am.estimate(with_tables(point, plan(point, trials=3).tables())).iteration_time)
            better += own < as_planned
            best[nodes, hbm, nic] = min(own, as_planned)
    assert better > 0  # the hardware matters to the plan
    assert sorted(best.values()) == sorted(found.column("iteration_time").tolist())
    assert found.complete and len(found.points.codes) == 8
    values = np.array([[t, key[0]] for key, t in best.items()])
    kept = values[front(values)]
    mine = np.stack([found.column("iteration_time"), found.column("nodes")], 1)[found.front]
    assert np.array_equal(np.unique(mine, axis=0), np.unique(kept, axis=0))
    corner = values.max(0)
    assert hypervolume(np.unique(mine, axis=0), corner) == hypervolume(np.unique(kept, axis=0), corner)


def test_a_point_of_the_front_is_what_its_design_gives(found: Any) -> None:
    for row in found.front.tolist():
        again = found.design(row)
        assert float(am.estimate(again).iteration_time) == found.column("iteration_time")[row]


def test_processes_and_a_record_give_the_same(two_node_design: Path, found: Any, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    two = am.search(asked(two_node_design), workers=2, out=tmp_path / "front.parquet")
    again = am.search(asked(two_node_design), out=tmp_path / "front.parquet")
    assert again.meta["evaluated_before"] == len(found.points.codes)
    for other in (two, again):
        assert np.array_equal(other.column("iteration_time"), found.column("iteration_time"))
        assert other.plans == found.plans and other.hypervolume == found.hypervolume


def test_fewer_plans_than_values_are_never_worse_than_one_plan(two_node_design: Path, found: Any) -> None:
    few = am.search(asked(two_node_design, replan={"trials": 3, "cells": 1}))
    assert np.all(few.column("iteration_time") >= found.column("iteration_time"))
    base = am.load(two_node_design).with_({"plan": "auto", "workload.global_batch": 8192, "system.nodes": 2})
    first = plan(base, trials=3).tables()
    for row in np.flatnonzero(few.column("system.nodes") == 2).tolist():
        numbers = {HBM: float(few.column(HBM)[row]), NIC: float(few.column(NIC)[row])}
        assert few.column("iteration_time")[row] <= float(
            am.estimate(with_tables(base, first).with_(numbers)).iteration_time
        )


def test_anchors() -> None:
    axes = (
        Axis("a", "bandwidth", (8.0, 1.0, 2.0, 4.0), numeric=True),
        Axis("b", "bandwidth", None, 1.0, 100.0, numeric=True),
        Axis("c", "usd", (1.0, 2.0), numeric=True),
        Axis("d", None, (1, 2)),
    )
    assert anchors_of(axes, 12) == ((0, (1.0, 2.0, 4.0, 8.0)), (1, pytest.approx((1.0, 10.0, 100.0))))
    assert anchors_of(axes, 4) == ((0, (1.0, 8.0)), (1, (1.0, 100.0)))
    assert anchors_of(axes, 1) == ((0, (2.0,)), (1, pytest.approx((10.0,))))
    assert anchors_of(axes[2:], 9) == ()
