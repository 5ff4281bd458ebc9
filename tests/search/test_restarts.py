"""The planner from several seeds: the best of them, wherever they ran."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import archmodel as am
from archmodel.cli import commands
from archmodel.search.options import NoPlan
from archmodel.search.planner import plan
from archmodel.search.record import SearchError
from archmodel.search.restarts import restarted

from ..clusters import running


def test_the_best_of_the_seeds_is_taken(two_node_design: Path) -> None:
    design = am.load(two_node_design)
    alone = [plan(design, seed=seed, trials=30) for seed in (4, 5, 6)]
    best = restarted(design, 3, seed=4, trials=30)
    assert best.value == min(p.value for p in alone)
    first = next(p for p in alone if p.value == best.value)
    assert best.tables() == first.tables()
    assert best.lower_bound == max(p.lower_bound for p in alone) <= best.value


def test_a_cluster_gives_the_same_plan_though_a_worker_is_killed(two_node_design: Path, tmp_path: Path) -> None:
    design = am.load(two_node_design)
    local = restarted(design, 6, trials=12)
    with running(tmp_path) as (address, workers):
        killed: list[float] = []

        def kill_one(seconds: float, value: float, bound: float) -> None:
            if not killed:
                workers[0].send_signal(signal.SIGKILL)
                killed.append(value)

        there = restarted(design, 6, trials=12, scheduler=address, progress=kill_one)
        assert killed and workers[0].wait(10) == -signal.SIGKILL
    assert (there.value, there.lower_bound, there.tables()) == (local.value, local.lower_bound, local.tables())
    assert there.tried == local.tried


def test_processes_give_the_same_plan(two_node_design: Path) -> None:
    design = am.load(two_node_design)
    one, two = (restarted(design, 2, trials=4, workers=workers) for workers in (1, 2))
    assert one.tables() == two.tables() and one.tried == two.tried


def test_what_cannot_be_is_said(two_node_design: Path) -> None:
    design = am.load(two_node_design)
    with pytest.raises(SearchError, match="at least 1"):
        restarted(design, 0)
    tight = design.with_({"system.node.gpu.hbm.capacity": 1.51e9, "system.node.host.ddr.capacity": 1e6})
    with pytest.raises(NoPlan, match="no plan that fits"):
        restarted(tight, 2, trials=2)


def test_the_command(two_node_design: Path, tmp_path: Path) -> None:
    arguments: Any = ["plan", str(two_node_design), "--restarts", "2", "-w", "1", "-o", str(tmp_path / "p.yaml")]
    done = CliRunner().invoke(commands, [*arguments, "--json"])
    assert done.exit_code == 0 and (tmp_path / "p.yaml").exists()
    bad = CliRunner().invoke(commands, ["plan", "--cost", "torchrec", "--restarts", "2", "--tasks", "x", "--task", "y"])
    assert bad.exit_code == 2 and "under its own estimate" in bad.output
