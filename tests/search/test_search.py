"""Searches against brute force, and what they keep when they are stopped."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import archmodel as am
from archmodel import catalogue, source
from archmodel.cli import commands
from archmodel.search.found import Found
from archmodel.search.record import SearchError
from archmodel.sweep.executors import SweepError

from ..clusters import running

HBM = "system.node.gpu.hbm.bandwidth"
NIC = "system.node.nic.bandwidth"
GPU = "system.node.gpu"
BATCH = "workload.global_batch"
ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

REAL: dict[str, Any] = {
    "design": "mlperf_dcnv2_eos_8x8.yaml",
    "set": {"plan": "auto"},
    "knobs": {
        HBM: {"from": "2 TB/s", "to": "8 TB/s", "count": 7},
        NIC: ["100 Gbit/s", "200 Gbit/s", "400 Gbit/s", "800 Gbit/s"],
        "system.nodes": [2, 4, 8],
        GPU: ["h100_sxm_80gb", "a100_sxm_80gb"],
        BATCH: [67584, 135168],
    },
    "constraints": {"peak_power": "<= 80 kW", "price": "<= 2.3 MUSD"},
    "objectives": {"throughput": "max", "latency": "min", "peak_power": "min"},
}
"""336 points on a published design."""


def device(name: str) -> Any:
    return source.read(catalogue.find(f"devices/{name}"), catalogue=catalogue.directory())


def dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@pytest.fixture(scope="module")
def whole() -> Found:
    return am.search(REAL)


def test_the_front_of_a_small_space_is_that_of_brute_force(whole: Found) -> None:
    """A sweep over the same grid, one estimate of each design for its limits, and every pair compared."""
    design = am.load(ROOT / "designs" / "mlperf_dcnv2_eos_8x8.yaml", sets={"plan": "auto"})
    knobs = REAL["knobs"]
    axes = {
        HBM: am.linspace("2 TB/s", "8 TB/s", 7),
        NIC: knobs[NIC],
        "system.nodes": knobs["system.nodes"],
        GPU: [device(name) for name in knobs[GPU]],
        BATCH: knobs[BATCH],
    }
    grid = am.sweep(design, axes, outputs=["throughput", "latency", "peak_power", "price"])
    rows = [(-t, x, p) for t, x, p in zip(grid["throughput"], grid["latency"], grid["peak_power"], strict=True)]
    kept = [
        i for i in range(grid.points) if grid["fits"][i] and grid["peak_power"][i] <= 80e3 and grid["price"][i] <= 2.3e6
    ]
    front = {rows[i] for i in kept if not any(dominates(rows[j], rows[i]) for j in kept)}
    assert whole.complete and len(whole.points.codes) == grid.points == 336
    assert len(whole.feasible) == len(kept) < 336
    table = whole.table(whole.front)
    found = list(zip(-table["throughput"], table["latency"], table["peak_power"], strict=True))
    assert set(found) == front and len(front) > 4
    assert found == sorted(found)


def test_points_are_what_their_designs_give(whole: Found) -> None:
    for row in whole.front[:2].tolist():
        alone = am.estimate(whole.design(row))
        assert alone.throughput == whole.points.columns["throughput"][row]
        assert alone.latency == whole.points.columns["latency"][row]
        binding = whole.binding(row)[0]
        assert binding.resource == alone.bound.resource and 0 < binding.used <= 1


def test_nsga2_comes_near_the_exact_front_and_repeats(whole: Found) -> None:
    pytest.importorskip("optuna")
    asked = {**REAL, "method": "nsga2", "reference": dict(whole.reference)}
    found = am.search(asked, points=130, seed=5)
    assert len(found.points.codes) <= 130 and not found.complete and found.meta["repeatable"]
    assert found.hypervolume <= whole.hypervolume
    assert found.hypervolume > 0.95 * whole.hypervolume
    again = am.search(asked, points=130, seed=5, workers=2)
    assert np.array_equal(again.points.codes, found.points.codes)
    assert again.rows(again.front) == found.rows(found.front)
    other = am.search(asked, points=48, seed=6)
    assert not np.array_equal(other.points.codes, found.points.codes[: len(other.points.codes)])


def test_a_continuum_is_searched(small_design: Path) -> None:
    pytest.importorskip("optuna")
    asked = {
        "design": str(small_design),
        "knobs": {HBM: {"from": "1 TB/s", "to": "8 TB/s", "scale": "log"}, BATCH: {"from": 1024, "to": 8192}},
        "constraints": {"iteration_time": "<= 1 ms"},
        "objectives": ["throughput", "latency"],
    }
    found = am.search(asked, points=150)
    assert len(found.front) and not found.complete
    batch = found.column(BATCH)
    assert batch.dtype.kind == "i" and batch.min() >= 1024 and batch.max() <= 8192
    fastest = am.estimate(am.load(small_design).with_({HBM: 8e12, BATCH: 8192}))
    assert fastest.throughput >= found.column("throughput").max() > 0.99 * fastest.throughput
    assert np.all(found.column("iteration_time")[found.front] <= 1e-3)


SMALL: dict[str, Any] = {
    "knobs": {BATCH: [1024, 2048, 4096, 8192], HBM: ["1 TB/s", "2 TB/s", "3 TB/s"]},
    "objectives": ["throughput", "latency"],
}


def test_knobs_of_several_fields_and_fields_that_follow(small_design: Path) -> None:
    """A point with follows is the design that one would write by hand."""
    asked = {
        "design": str(small_design),
        "set": {"system.node.price": "100 kUSD"},
        "knobs": {
            "machine": {
                "options": {
                    "old": {"system.node.gpus": 4, GPU: "a100_sxm_40gb"},
                    "new": {"system.node.gpus": 8, GPU: "a100_sxm_80gb", f"{HBM}": "2.2 TB/s"},
                }
            },
            "system.node.gpu.launch.graph": ["1 us", "2 us"],
            NIC: ["100 Gbit/s", "200 Gbit/s"],
        },
        "follows": {
            "system.node.price": {
                "terms": [{"of": NIC, "each": "100 Gbit/s", "adds": "1 kUSD", "beyond": "100 Gbit/s"}]
            },
            "system.node.other_power": {"base": "1 kW", "terms": [{"of": HBM, "each": "1 TB/s", "adds": "30 W"}]},
        },
        "objectives": ["throughput", "price", "peak_power"],
    }
    found = am.search(asked)
    assert list(found.column("machine")[:8]) == ["old"] * 4 + ["new"] * 4
    base = am.load(small_design)
    for row in range(8):
        old = found.column("machine")[row] == "old"
        part = device("a100_sxm_40gb" if old else "a100_sxm_80gb")
        changes: dict[str, Any] = {"system.node.gpus": 4 if old else 8, GPU: part}
        if not old:
            changes[HBM] = "2.2 TB/s"
        fast = found.column(NIC)[row] == 25e9
        changes |= {"system.node.gpu.launch.graph": float(found.column("system.node.gpu.launch.graph")[row])}
        changes |= {NIC: float(found.column(NIC)[row]), "system.node.price": 101e3 if fast else 100e3}
        alone = base.with_(changes)
        hbm = float(alone.system.gpu.memory.bandwidth)
        changes["system.node.other_power"] = 1000 + 30 * hbm / 1e12
        alone = base.with_(changes)
        answer = am.estimate(alone)
        assert found.points.columns["throughput"][row] == answer.throughput
        assert found.points.columns["price"][row] == (101e3 if fast else 100e3)
        assert found.points.columns["peak_power"][row] == pytest.approx(
            alone.system.node.gpus * 400 + changes["system.node.other_power"]
        )
        assert am.estimate(found.design(row)).throughput == answer.throughput


def test_several_models_share_the_machine(small_design: Path) -> None:
    """Plain objectives are geometric means; plain constraints hold for every model."""
    large = am.load(small_design).with_({"workload.top_mlp": [4096, 4096, 1]})
    half = am.estimate(am.load(small_design).with_({"system.node.gpus": 4})).memory["hbm"].worst
    asked = {
        "designs": {"small": am.load(small_design), "large": large},
        "knobs": {HBM: ["1 TB/s", "2 TB/s"], "system.node.gpus": [2, 4, 8]},
        "objectives": ["throughput", "large.latency"],
        "constraints": {"iteration_time": "<= 1 s", "small.hbm_need": f"<= {1.01 * half} B"},
    }
    found = am.search(asked)
    both = [found.column(f"{name}.throughput") for name in ("small", "large")]
    assert found.column("throughput") == pytest.approx(np.sqrt(both[0] * both[1]), rel=1e-12)
    assert set(np.flatnonzero(found.column("small.hbm_need") <= 1.01 * half)) == set(found.feasible)
    assert 0 < len(found.feasible) < 6
    assert len(found.binding(int(found.front[0]))) == 2
    row = int(found.front[0])
    assert am.estimate(found.design(row, "large")).latency == found.column("large.latency")[row]


def test_points_that_fail_say_why_and_the_search_goes_on(small_design: Path) -> None:
    asked = {
        "design": str(small_design),
        "knobs": {"system.node.gpu.hbm.capacity": ["1 GB", "40 GB"], "system.node.gpus": [8, 3], BATCH: [1024, 7]},
        "objectives": ["throughput"],
    }
    found = am.search(asked)
    assert len(found.points.codes) == 8 and len(found.front) >= 1
    assert sum(found.reasons.values()) == 8 - int(found.points.columns["fits"].sum()) > 0
    assert any("does not fit" in reason for reason in found.reasons)
    reasons = found.to_polars(np.arange(8))["reason"].to_list()
    assert reasons == found.points.columns["reason"].tolist() and None in reasons


def test_tables_are_placed_anew_and_the_plans_can_be_loaded(two_node_design: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    asked = {
        "design": str(two_node_design),
        "knobs": {"system.nodes": [1, 2], "system.node.gpus": [4, 8], NIC: ["100 Gbit/s", "400 Gbit/s"]},
        "objectives": ["iteration_time", "nodes"],
        "replan": {"trials": 3},
    }
    plain = am.search({k: v for k, v in asked.items() if k != "replan"})
    found = am.search(asked, out=tmp_path / "front.parquet")
    assert np.all(found.column("iteration_time") <= plain.column("iteration_time") * (1 + 1e-12))
    assert np.any(found.column("iteration_time") < plain.column("iteration_time"))
    import polars as pl

    table = pl.read_parquet(tmp_path / "front.parquet")
    assert len(table) == len(found.front)
    for row, line in zip(found.front.tolist(), table.iter_rows(named=True), strict=True):
        text = (
            two_node_design.read_text()
            .split("plan:")[0]
            .replace("nodes: 2", f"nodes: {line['system.nodes']}, node: {{gpus: {line['system.node.gpus']}}}")
        )
        file = tmp_path / "again.yaml"
        file.write_text(f"{text}plan: {{use: {line['plan']}}}\n")
        again = am.load(file).with_({NIC: line[NIC]})
        assert am.estimate(again).iteration_time == line["iteration_time"] == found.column("iteration_time")[row]


def test_an_interrupt_keeps_the_front_so_far(small_design: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    many = {BATCH: list(range(256, 256 * 41, 256)), HBM: ["1 TB/s", "2 TB/s"]}
    asked = {**SMALL, "design": str(small_design), "knobs": many}

    def stop(state: Any) -> None:
        if state.done > 20:
            raise KeyboardInterrupt

    found = am.search(asked, out=tmp_path / "f.parquet", progress=stop)
    assert found.interrupted and not found.complete and 20 < len(found.points.codes) < 80
    assert len(found.front) and (tmp_path / "f.parquet").exists()
    seen: list[int] = []
    rest = am.search(asked, out=tmp_path / "f.parquet", progress=lambda state: seen.append(state.before))
    assert rest.complete and seen[-1] == len(found.points.codes)
    plain = am.search(asked)
    assert rest.rows(rest.front) == plain.rows(plain.front)


def test_kill_9_loses_and_repeats_nothing(small_design: Path, tmp_path: Path) -> None:
    """A real process with real workers, killed in mid run; what was recorded is not evaluated again."""
    pytest.importorskip("polars")
    file = tmp_path / "s.yaml"
    file.write_text(
        f"design: {small_design}\nobjectives: [throughput, latency]\n"
        f"knobs: {{{BATCH}: {list(range(256, 256 * 161, 256))}, {HBM}: [1 TB/s, 2 TB/s]}}\n"
    )
    out, record = tmp_path / "f.parquet", tmp_path / "f.sqlite"
    command = [sys.executable, "-m", "archmodel", "search", str(file), "-o", str(out), "-w", "2", "--json"]
    first = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def recorded() -> list[Any]:
        try:
            with sqlite3.connect(f"file:{record}?mode=ro", uri=True) as connection:
                return connection.execute("select * from points order by codes").fetchall()
        except sqlite3.OperationalError:
            return []

    end = time.monotonic() + 60
    while len(recorded()) < 20:
        assert time.monotonic() < end and first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = recorded()
    assert 20 <= len(kept) < 320
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["complete"] and answer["points"] == 320 and answer["evaluated_before"] == len(kept)
    assert set(kept) <= set(recorded()) and len(recorded()) == 320


def test_another_search_is_refused_and_says_what_differs(small_design: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    asked = {**SMALL, "design": str(small_design)}
    am.search(asked, out=tmp_path / "f.parquet")
    with pytest.raises(SearchError, match=r"f\.sqlite: is of another search; other knobs"):
        am.search({**asked, "knobs": {BATCH: [64]}}, out=tmp_path / "f.parquet")
    again = am.search({**asked, "objectives": ["latency"], "outputs": ["throughput"]})
    assert len(again.front) >= 1
    (tmp_path / "g.sqlite").write_text("no database, but a text that is long enough to be taken for one" * 20)
    with pytest.raises(SearchError, match=r"g\.sqlite: is no record"):
        am.search(asked, out=tmp_path / "g.parquet")


def test_a_cluster_gives_the_same_to_the_last_bit_though_a_worker_is_killed(
    two_node_design: Path, tmp_path: Path
) -> None:
    """Generations and planned designs on a real scheduler with two workers, of which one dies."""
    pytest.importorskip("optuna")
    asked = {
        "design": str(two_node_design),
        "knobs": {
            "system.nodes": [1, 2, 4],
            "system.node.gpus": [2, 4, 8],
            BATCH: [2048, 4096, 8192],
            NIC: {"from": "100 Gbit/s", "to": "800 Gbit/s"},
        },
        "objectives": ["throughput", "price"],
        "replan": {"trials": 2},
        "population": 20,
    }
    local = am.search(asked, points=60, seed=1)
    with running(tmp_path) as (address, workers):
        killed: list[int] = []

        def kill_one(state: Any) -> None:
            if state.done > 5 and not killed:
                workers[0].send_signal(signal.SIGKILL)
                killed.append(state.done)

        there = am.search(asked, points=60, seed=1, scheduler=address, progress=kill_one)
        assert killed and workers[0].wait(10) == -signal.SIGKILL
    assert np.array_equal(there.points.codes, local.points.codes)
    for name, column in local.points.columns.items():
        other = there.points.columns[name]
        same = (
            np.array_equal(column, other, equal_nan=True) if column.dtype.kind == "f" else list(column) == list(other)
        )
        assert same, name
    assert there.plans == local.plans and there.hypervolume == local.hypervolume


def test_a_scheduler_that_is_not_there_is_named(small_design: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from archmodel.sweep import executors

    monkeypatch.setattr(executors, "ANSWER", 0.5)
    with pytest.raises(SweepError, match="no scheduler answers"):
        am.search({**SMALL, "design": str(small_design)}, scheduler="tcp://127.0.0.1:9")


def test_the_command_prints_the_front_and_exits_with_1_when_it_is_empty(small_design: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    file = tmp_path / "s.yaml"
    text = f"design: {small_design}\nknobs: {{{BATCH}: [1024, 2048], {HBM}: [1 TB/s, 2 TB/s]}}\n"
    file.write_text(f"{text}objectives: [throughput, latency]\n")
    done = CliRunner().invoke(commands, ["search", str(file), "-w", "1", "-o", str(tmp_path / "f.parquet")])
    assert done.exit_code == 0
    assert "4 points evaluated (every point of the space), 4 feasible; front of 2 points" in done.output
    assert "on the whole front: bandwidth 2.00 TB/s" in done.output
    assert "hypervolume" in done.output and "waits for" in done.output
    answer = json.loads(CliRunner().invoke(commands, ["search", str(file), "-w", "1", "--json"]).stdout)
    assert answer["method"] == "enumeration" and len(answer["front"]) == 2 and answer["designs"]
    file.write_text(f"{text}objectives: [throughput]\nconstraints: {{peak_power: <= 1 W}}\n")
    none = CliRunner().invoke(commands, ["search", str(file), "-w", "1"])
    assert none.exit_code == 1 and "no point is feasible" in none.output
    bad = CliRunner().invoke(commands, ["search", str(file), "-o", str(tmp_path / "f.csv")])
    assert bad.exit_code == 2 and "parquet" in bad.output
    wrong = CliRunner().invoke(commands, ["search", str(file), "--budget", "5 GB"])
    assert wrong.exit_code == 2


def test_searching_imports_nothing_heavy_before_it_must(small_design: Path) -> None:
    code = (
        "import archmodel as am, sys\n"
        f"knobs = {{{BATCH!r}: [64, 128]}}\n"
        f"am.search({{'design': {str(small_design)!r}, 'knobs': knobs, 'objectives': ['latency']}})\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()).intersection(("optuna", "polars", "distributed", "plotly", "networkx", "rich"))


def test_a_budget_ends_a_search_in_the_midst_of_a_batch(small_design: Path) -> None:
    many = {BATCH: list(range(256, 256 * 1501, 256)), "system.node.gpus": [4, 8]}
    found = am.search({**SMALL, "design": str(small_design), "knobs": many}, budget=1.0)
    assert 0 < len(found.points.codes) < 3000 and len(found.front)
    assert not found.complete and not found.interrupted and not found.meta["repeatable"]
    assert len(set(found.column(BATCH).tolist())) > 4
    assert found.column(BATCH).max() > 256 * 300, "designs come in a drawn order, not from one end"


def test_a_complete_enumeration_is_in_the_order_of_its_knobs(small_design: Path) -> None:
    found = am.search({**SMALL, "design": str(small_design)}, seed=3)
    assert found.column(BATCH).tolist() == np.repeat([1024, 2048, 4096, 8192], 3).tolist()
    assert found.column(HBM).tolist() == [1e12, 2e12, 3e12] * 4
    assert found.points.columns["point"].tolist() == list(range(12))


def test_parts_of_a_network_and_its_drivers_are_knobs() -> None:
    found = am.search(
        {
            "design": "dlrm_hybrid_torus3d_4x4x4.yaml",
            "knobs": {"system": ["torus3d_4x2x2", "torus3d_4x4x2"], "system.node.endpoint": ["ace", "no_overlap"]},
            "objectives": ["iteration_time"],
        }
    )
    assert found.column("system").tolist() == ["torus3d_4x2x2"] * 2 + ["torus3d_4x4x2"] * 2
    times = found.column("iteration_time").reshape(2, 2)
    assert np.all(times[:, 0] < times[:, 1]), "ACE is faster than no overlap"
    best = found.design(int(found.front[0]))
    assert best.system.node.endpoint is not None and best.system.node.endpoint.kind == "ace"


def test_a_large_space_without_optuna_says_what_to_install(small_design: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SearchError, match=r"pip install 'archmodel\[search\]'"):
        am.search({**SMALL, "design": str(small_design), "method": "nsga2"})
    assert am.search({**SMALL, "design": str(small_design)}).complete
