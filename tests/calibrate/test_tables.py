"""archmodel calibrate tables, and archmodel plan --cost learned with what it writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archmodel.calibrate.tables import calibrate_tables
from archmodel.cli import commands
from archmodel.search.learned.file import load
from archmodel.search.learned.tables import BIN_COLUMNS
from tests.search.learned.sets import make_sets, make_tables

BATCH = 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tables.csv, plain.csv (without bins), measurements.csv, tasks.json."""
    found = tmp_path_factory.mktemp("learned")
    tables = make_tables(40)
    sets = make_sets(tables, 120)
    with (found / "tables.csv").open("w", newline="") as full, (found / "plain.csv").open("w", newline="") as plain:
        both = csv.writer(full), csv.writer(plain)
        header = ["name", "rows", "dim", "pooling"]
        both[0].writerow([*header, *BIN_COLUMNS])
        both[1].writerow(header)
        for t, name in enumerate(tables.names):
            row = [name, tables.rows[t], tables.dim[t], tables.pooling[t]]
            both[0].writerow([*row, *tables.bins[t]])
            both[1].writerow(row)
    with (found / "measurements.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["tables", "time_us", "batch"])
        for s in range(len(sets)):
            members = sets.member[sets.start[s] : sets.start[s + 1]]
            writer.writerow([";".join(tables.names[t] for t in members), 1e6 * sets.seconds[s], BATCH])
    entries = [
        {"name": n, "rows": int(tables.rows[t]), "dim": int(tables.dim[t]), "pooling": float(tables.pooling[t]),
         "bins": tables.bins[t].tolist()}
        for t, n in enumerate(tables.names)
    ]  # fmt: skip
    machine = {"world_size": 8, "local_world_size": 8, "hbm_cap": 80 * 2**30, "ddr_cap": 0}
    base = {"tables": entries, "batch_per_rank": BATCH // 8, "topology": machine}
    tasks = [
        {"name": "all"} | base,
        {"name": "other batch"} | base | {"batch_per_rank": 7},
        {"name": "tiny"} | base | {"topology": machine | {"hbm_cap": 2**30}},
        {"name": "no bins"} | base | {"tables": [{k: v for k, v in e.items() if k != "bins"} for e in entries]},
        {"name": "bad bins"} | base | {"tables": [entries[0] | {"bins": [1, 2]}]},
    ]
    (found / "tasks.json").write_text(json.dumps({"tasks": tasks}))
    return found


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    path = folder / "cost.json"
    done = calibrate(folder, "-o", str(path))
    assert done.exit_code == 0, done.output
    assert "left out" in done.stdout and "sum of singles" in done.stdout and "linear" in done.stdout
    return path


def calibrate(folder: Path, *more: str, tables: str = "tables.csv") -> Result:
    arguments = ["calibrate", "tables", str(folder / "measurements.csv"), "--tables", str(folder / tables), *more]
    return CliRunner().invoke(commands, arguments)


def plan(folder: Path, model: Path, *more: str, task: str = "all") -> Result:
    arguments = ["--cost", "learned", "--model", str(model), "--tasks", str(folder / "tasks.json"), "--task", task]
    return CliRunner().invoke(commands, ["plan", *arguments, *more])


def test_the_file_says_what_it_was_fitted_on(model: Path) -> None:
    document = json.loads(model.read_text())
    assert document["fitted_on"].startswith("136 of 160 sets of measurements.csv, ")
    assert document["status"] == "fitted"
    assert document["batch"] == BATCH
    left = document["residuals"]["left_out"]
    assert set(left) == {"learned", "linear", "sum of singles"}
    assert left["learned"]["mape"] < left["sum of singles"]["mape"]
    assert load(model).batch == BATCH


def test_json_and_page(folder: Path, tmp_path: Path) -> None:
    done = calibrate(folder, "--json", "--html", str(tmp_path / "page.html"))
    assert json.loads(done.stdout)["residuals"]["left_out"]["learned"]["sets"] == 24
    assert "Learned cost of sets of tables" in (tmp_path / "page.html").read_text()


def test_predictions_are_the_models(folder: Path, model: Path) -> None:
    found = calibrate_tables(folder / "measurements.csv", folder / "tables.csv")
    assert found.predicted.tolist() == load(model).predict(found.tables, found.sets.matrix).tolist()
    worst = found.worst(3)
    assert [abs(e) for _, e in worst] == sorted((abs(e) for _, e in worst), reverse=True)


def test_a_bad_table_of_measurements(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("tables,time_us\nt0;t99,1\n")
    done = CliRunner().invoke(
        commands, ["calibrate", "tables", str(tmp_path / "m.csv"), "--tables", str(folder / "tables.csv")]
    )
    assert done.exit_code == 2
    assert "m.csv:2:4" in done.output and "is no table of the list" in done.output


def test_the_search_is_never_worse_than_published_planners(folder: Path, model: Path, tmp_path: Path) -> None:
    done = plan(folder, model, "--json", "-o", str(tmp_path / "plan.json"))
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["value"] <= min(answer["published_planners"].values())
    assert 0 < answer["lower_bound"] <= answer["value"] == max(answer["rank_costs"])
    assert answer["feasible"] and answer["extrapolated"] == []
    assert len(answer["rank_costs"]) == 8
    written = json.loads((tmp_path / "plan.json").read_text())["plan"][""]
    assert written == answer["plan"]
    assert all(e["sharding_type"] == "table_wise" and len(e["ranks"]) == 1 for e in written.values())
    again = json.loads(plan(folder, model, "--json").stdout)
    assert again["plan"] == answer["plan"]


def test_published_planners_under_the_learned_cost(folder: Path, model: Path) -> None:
    best = json.loads(plan(folder, model, "--json").stdout)
    done = json.loads(plan(folder, model, "--planner", "lookup", "--json").stdout)
    assert done["value"] == best["published_planners"]["lookup"]
    assert "by karmarkar_karp" in plan(folder, model).stdout


@pytest.mark.parametrize(
    ("task", "code", "message"),
    [
        ("other batch", 2, "is the cost of batches of 4,096, not of 56"),
        ("tiny", 1, "GiB; the roomiest rank has"),
        ("no bins", 2, "lack bin_0 to bin_16"),
        ("bad bins", 2, "table t0: bins must be 17 shares"),
        ("nothing", 2, "no task nothing"),
    ],
)
def test_tasks_that_cannot_be_planned(folder: Path, model: Path, task: str, code: int, message: str) -> None:
    done = plan(folder, model, task=task)
    assert done.exit_code == code, done.output
    assert message in done.output


def test_tables_are_cut_by_columns_when_asked(folder: Path, model: Path) -> None:
    whole = json.loads(plan(folder, model, "--json").stdout)
    done = plan(folder, model, "--json", "--min-partition", "16")
    assert done.exit_code == 0, done.output
    cut = json.loads(done.stdout)
    assert cut["value"] <= whole["value"] * (1 + 1e-12) and cut["feasible"]
    entries = json.loads((folder / "tasks.json").read_text())["tasks"]
    dims = {t["name"]: t["dim"] for task in entries if task["name"] == "all" for t in task["tables"]}
    for name, entry in cut["plan"].items():
        widths = [shard["shard_sizes"][1] for shard in entry["shards"]]
        assert sum(widths) == dims[name] and (len(widths) == 1 or min(widths) >= 16)
        assert len(widths) == len(entry["ranks"])
    assert plan(folder, model, "--min-partition", "16", "--planner", "dim").exit_code == 2


@pytest.mark.parametrize("document", ["[]", "3", '{"tasks": [3]}', '{"tasks": {}}', "{}"])
def test_files_that_hold_no_tasks(model: Path, tmp_path: Path, document: str) -> None:
    (tmp_path / "tasks.json").write_text(document)
    done = plan(tmp_path, model)
    assert done.exit_code == 2
    assert "a file of tasks is" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cost", "learned"], "--cost learned needs --model FILE"),
        (["--cost", "learned", "--model", "m", "--tasks", "t"], "--cost learned needs"),
        (["d.yaml", "--cost", "learned", "--model", "m", "--tasks", "t", "--task", "a"], "--cost learned needs"),
        (["d.yaml", "--cost", "learned", "--model", "m", "--planner", "dim"], "takes no constraints"),
        (["d.yaml", "--model", "m"], "give a design file"),
        (["--cost", "torchrec", "--model", "m", "--tasks", "t", "--task", "a"], "--cost torchrec plans a task"),
    ],
)
def test_arguments_that_do_not_go_together(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(commands, ["plan", *arguments])
    assert done.exit_code == 2
    assert message in done.output


def test_a_design_is_planned(folder: Path, tmp_path: Path) -> None:
    """Whole tables of MLPerf's DCNv2 on eight GPUs, bins from its access distributions; the plan is a plan file."""
    model = tmp_path / "cost.json"
    assert calibrate(folder, "-o", str(model)).exit_code == 0
    design, batch = "designs/mlperf_dcnv2_dgx_h100.yaml", ["--set", f"workload.global_batch={BATCH}"]
    arguments = ["plan", design, *batch, "--cost", "learned", "--model", str(model)]
    done = CliRunner().invoke(commands, [*arguments, "--json", "-o", str(tmp_path / "plan.yaml")])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["iteration_time"] > 0
    assert {e["sharding"] for e in answer["plan"]["assign"].values()} == {"table_wise"}
    assert len(answer["plan"]["assign"]) == 26


def test_models_without_bins_plan_designs_too(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "plain.json"
    assert calibrate(folder, "-o", str(model), tables="plain.csv").exit_code == 0
    done = CliRunner().invoke(
        commands,
        ["plan", "designs/mlperf_dlrm_v1_dgx_a100.yaml", "--set", f"workload.global_batch={BATCH}", "--cost", "learned",
         "--model", str(model)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "whole estimate" in done.stdout
