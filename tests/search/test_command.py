"""archmodel plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archmodel.cli import commands

TASKS = {
    "tasks": [
        {
            "name": "small",
            "tables": [
                {"name": "a", "rows": 1000, "dim": 64, "pooling": 3.0},
                {"name": "b", "rows": 4000000, "dim": 128, "pooling": 1.0},
            ],
            "batch_per_rank": 512,
            "topology": {"world_size": 8, "local_world_size": 8, "hbm_cap": 85899345920, "ddr_cap": 137438953472},
        }
    ]
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["plan", *arguments])


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS))
    return str(tmp_path / "tasks.json")


def test_json(tasks: str, tmp_path: Path) -> None:
    done = run("--cost", "torchrec", "--tasks", tasks, "--task", "small", "--json", "-o", str(tmp_path / "plan.json"))
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert {"value", "lower_bound", "gap", "cpu_seconds", "peak_memory", "feasible", "plan"} <= set(answer)
    assert answer["feasible"] and set(answer["plan"]) == {"a", "b"}
    assert json.loads((tmp_path / "plan.json").read_text())["plan"][""] == answer["plan"]


@pytest.mark.parametrize("planner", ["random", "size_lookup", "karmarkar_karp"])
def test_published_planners(tasks: str, planner: str) -> None:
    done = run("--cost", "torchrec", "--tasks", tasks, "--task", "small", "--planner", planner)
    assert done.exit_code == 0 and "lower bound" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cost", "torchrec"], "give --tasks FILE and --task NAME"),
        ([], "give a design file"),
        (
            ["--cost", "torchrec", "--tasks", "{tasks}", "--task", "smal"],
            "no task smal in the file; did you mean small",
        ),
        (["--cost", "torchrec", "--tasks", "{tasks}", "--task", "small", "--budget", "5 GB"], "is not a time"),
        (["--cost", "torchrec", "--tasks", "{tasks}", "--task", "small", "--planner", "siz"], "no planner siz"),
    ],
)
def test_bad_input(tasks: str, arguments: list[str], message: str) -> None:
    done = run(*[a.format(tasks=tasks) for a in arguments])
    assert done.exit_code == 2
    assert message in done.output
