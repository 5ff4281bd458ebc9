"""The command: what it prints where, and its exit codes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import archmodel
from archmodel.cli import commands

KEYS = {
    "name", "version", "ranks", "global_batch", "iteration_time", "throughput", "latency", "exposed_communication",
    "fits", "bound", "phases", "ops", "memory", "elasticities", "energy", "cost", "published",
}  # fmt: skip

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def call(*args: object) -> Result:
        return CliRunner().invoke(commands, [str(arg) for arg in args])

    return call


def in_a_process(*args: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "archmodel", *map(str, args)]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)


def refused(result: Result) -> str:
    """The message of a refusal: exit code 2, nothing on standard output, no traceback."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return result.stderr


# --- evaluate -------------------------------------------------------------------------------------------------


def test_evaluate_prints_a_report(run: Run, small_design: Path) -> None:
    result = run("evaluate", small_design)
    assert (result.exit_code, result.stderr) == (0, "")
    for part in ("8 ranks · batch 4,096 · fits", "iteration", "throughput", "published", "bound by", "slowest", "HBM"):
        assert part in result.stdout
    assert "one percent more of it" in result.stdout
    assert all(line == line.rstrip() for line in result.stdout.splitlines())


def test_text_of_a_design_is_not_markup(run: Run, small_design: Path) -> None:
    assert "Small [red]design[/red] <b>" in run("evaluate", small_design).stdout


def test_control_characters_of_a_name_are_spelled_out(run: Run, small_design: Path) -> None:
    result = run("evaluate", small_design, "--set", r'name="a\x1b[31mb\nc"')
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert r"a\x1b[31mb c" in result.stdout


def test_ops_lists_every_op(run: Run, small_design: Path) -> None:
    design = archmodel.load(small_design)
    names = [op.name for op in design.program.ops]
    listed = run("evaluate", small_design, "-v").stdout
    assert [name for name in names if name not in listed] == []


def test_json_is_one_object_in_si(run: Run, small_design: Path) -> None:
    result = run("evaluate", small_design, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    answer = archmodel.estimate(archmodel.load(small_design))
    assert set(found) == KEYS
    assert found["iteration_time"] == answer.iteration_time
    assert found["throughput"] == pytest.approx(4096 / found["iteration_time"])
    assert found["published"]["throughput"]["error"] == pytest.approx(found["throughput"] / 1e6 - 1)
    assert found["memory"]["hbm"]["capacity"] == pytest.approx(80e9, rel=0.1)
    assert set(found["memory"]["hbm"]) == {"need", "capacity", "rank", "parts"}
    assert sum(found["memory"]["hbm"]["parts"].values()) == pytest.approx(found["memory"]["hbm"]["need"])


def test_json_parts_of_an_op_sum_to_its_time(run: Run, two_node_design: Path) -> None:
    for op in json.loads(run("evaluate", two_node_design, "--json").stdout)["ops"]:
        assert sum(op["parts"].values()) == pytest.approx(op["slowest"], rel=1e-12), op["name"]
        assert op["end"] - op["start"] == pytest.approx(op["slowest"], rel=1e-6, abs=1e-12), op["name"]


def test_set_changes_a_value(run: Run, small_design: Path) -> None:
    def time(*more: str) -> float:
        return float(json.loads(run("evaluate", small_design, "--json", *more).stdout)["iteration_time"])

    slower = time("--set", "system.node.gpu.hbm.bandwidth=1 TB/s")
    assert slower > time()
    assert time("--set", "system.node.gpu.hbm.bandwidth=2 TB/s", "--set", "workload.global_batch=512") < slower


def test_a_design_that_does_not_fit_is_evaluated_all_the_same(run: Run, small_design: Path) -> None:
    """Data parallelism puts the 120 MB of every table on every rank."""
    small = ("--set", "system.node.gpu.hbm.capacity=1 GB", "--set", "system.node.reserved_memory=0 GB")
    plan = ("--set", "plan.tables={default: data_parallel}")
    result = run("evaluate", small_design, "--json", *small, *plan)
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["fits"] is False
    assert found["memory"]["hbm"]["need"] > found["memory"]["hbm"]["capacity"] == 1e9
    assert result.stderr.startswith("does not fit: hbm of rank ")
    assert "parameter" in result.stderr
    text = run("evaluate", small_design, *small, *plan)
    assert (text.exit_code, text.stderr) == (1, result.stderr)
    assert "does not fit (HBM " in text.stdout


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_trace(run: Run, small_design: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    result = run("evaluate", small_design, "--json", "--trace", path)
    assert result.exit_code == 0
    assert "all 8 ranks" in result.stderr
    data = path.read_bytes()
    trace = json.loads(gzip.decompress(data) if suffix.endswith("gz") else data)
    assert {event["pid"] for event in trace["traceEvents"]} == set(range(8))
    json.loads(result.stdout)


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate", "no_such_file.yaml"), "no_such_file.yaml"),
        (("evaluate", "."), "directory"),
        (("evaluate", "{small}", "--set", "system.node.nicc.bandwidth=1 GB/s"), "did you mean nic?"),
        (("evaluate", "{small}", "--set", "workload.global_batch=0"), "workload.global_batch"),
        (("evaluate", "{small}", "--set", "system.node.gpu.hbm.bandwidth=25 GB"), "a bandwidth is needed"),
        (("evaluate", "{small}", "--set", "system.nodes"), "is not path=value"),
        (("evaluate", "{small}", "--set", "system..nodes=1"), "is no path"),
        (("evaluate", "{small}", "--set", "name=["), "is not YAML"),
        (("evaluate", "{small}", "--trace", "/no/such/folder/trace.json"), "No such file"),
        (("evaluate",), "DESIGN"),
        (("evaluate", "{small}", "--jsonn"), "--json"),
        (("evalute", "{small}"), "did you mean evaluate?"),
        (("zzz",), "known: calibrate"),
        (("calibrate", "gpi"), "did you mean gpu?"),
        (("explain", "{small}", "table.lokup"), "did you mean table.lookup?"),
        (("explain", "{small}", "top"), "is a group of ops: top_0.forward"),
    ],
)
def test_bad_input(run: Run, small_design: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(run(*(argument.format(small=small_design) for argument in arguments)))


def test_all_problems_of_a_file_are_named(run: Run, small_design: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    text = small_design.read_text(encoding="utf-8")
    broken.write_text(
        text.replace("global_batch: 4096", "global_batch: 4096\n  bottom_mpl: [1]").replace("small_*", "smal_*"),
        encoding="utf-8",
    )
    message = refused(run("evaluate", broken))
    assert "broken.yaml:9:3" in message
    assert "did you mean bottom_mlp?" in message
    assert "nothing was evaluated" in message


def test_use_may_not_leave_the_root(run: Run, tmp_path: Path, small_design: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.yaml").write_text("nodes: 1\n", encoding="utf-8")
    design = inside / "x.yaml"
    text = small_design.read_text(encoding="utf-8")
    design.write_text(text.replace("systems/dgx_a100.yaml", "../outside.yaml"), encoding="utf-8")
    assert "outside the root" in refused(run("evaluate", design, "--root", inside))


def test_an_answer_that_is_no_number_is_refused(run: Run, small_design: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from archmodel.estimate.result import Estimate

    monkeypatch.setattr(Estimate, "latency", property(lambda self: float("nan")))
    assert "latency came out as nan" in refused(run("evaluate", small_design, "--json"))


# --- the process around it ------------------------------------------------------------------------------------


def test_interruption(run: Run, small_design: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("archmodel.design.load", interrupted)
    result = run("evaluate", small_design)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "interrupted" in result.stderr


def test_a_reader_that_goes_away_is_no_traceback(small_design: Path) -> None:
    """The pipe is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "archmodel", "evaluate", str(small_design), "--json"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_without_unicode(small_design: Path) -> None:
    done = in_a_process("evaluate", small_design, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"8 ranks ? batch 4,096" in done.stdout


def test_exit_codes_of_the_process(small_design: Path) -> None:
    assert in_a_process("evaluate", small_design).returncode == 0
    assert in_a_process("evaluate", "nowhere.yaml").returncode == 2
    assert in_a_process("--version").stdout.decode().strip().endswith(archmodel.__version__)


# --- the other commands ---------------------------------------------------------------------------------------


def test_schema_is_json_that_knows_the_parts_of_a_design(run: Run) -> None:
    schema = json.loads(run("schema").stdout)
    assert {"system", "workload", "plan", "published"} <= set(schema["properties"])


def test_explain(run: Run, two_node_design: Path) -> None:
    result = run("explain", two_node_design, "table.lookup")
    assert (result.exit_code, result.stderr) == (0, "")
    for part in ("laws", "inputs", "system.node.gpu.hbm.bandwidth", "designs/devices/a100", "total"):
        assert part in result.stdout


def test_explain_without_an_op_lists_them(run: Run, small_design: Path) -> None:
    listed = run("explain", small_design).stdout
    assert "table.lookup" in listed
    assert "top_0.forward" in listed


def test_assumptions_are_listed_and_counted(run: Run, small_design: Path) -> None:
    listed = run("explain", small_design, "--assumptions").stdout
    assert "workload.top_mlp" in listed
    assert "plan." not in listed
    assert "workload.global_batch" not in listed
    count = listed.split(" values without a source")[0].rpartition(" ")[2]
    assert f"assumptions: {count} not from a source" in run("evaluate", small_design).stdout


def test_check(run: Run, small_design: Path) -> None:
    result = run("check", small_design, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["passed"] is True
    text = run("check", small_design)
    assert text.exit_code == 0
    assert "table.lookup" in text.stdout


def test_a_failed_check_exits_with_1(run: Run, small_design: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Report:
        passed = False

        def lines(self) -> list[str]:
            return ["it differs"]

    monkeypatch.setattr("archmodel.execute.check.check", lambda design: Report())
    result = run("check", small_design)
    assert (result.exit_code, result.stdout) == (1, "it differs\n")
    assert result.stderr == "the check failed\n"


def test_catalogue(run: Run) -> None:
    rows = json.loads(run("catalogue", "--json").stdout)
    assert {"path", "title", "source"} <= set(rows[0])
    lines = run("catalogue").stdout.splitlines()
    assert len(lines) == len(rows) + 1
    assert any(line.startswith("systems/dgx_h100.yaml ") for line in lines)


@pytest.fixture
def measurements(tmp_path: Path) -> Path:
    """Copies at 2 TB/s after a launch of 2 us, as an A100 might measure them."""
    path = tmp_path / "table.csv"
    sizes = [2.0**power for power in range(24, 34)]
    rows = [f"copy,bytes={size:.0f},fp32,{2 + size / 2e6:.3f},a100_sxm_80gb" for size in sizes]
    rows += ["launch,graph=1,fp32,2.0,a100_sxm_80gb", "launch,graph=0,fp32,5.0,a100_sxm_80gb"]
    path.write_text("\n".join(["kernel,shape,dtype,time_us,gpu", *rows]) + "\n", encoding="utf-8")
    return path


def test_calibrate_prints_a_block_for_a_device_file(run: Run, measurements: Path) -> None:
    result = run("calibrate", "gpu", measurements)
    assert result.exit_code == 0
    assert "fitted_on" in result.stdout or "status: fitted" in result.stdout
    assert "stream: {value: 9" in result.stdout
    assert "mean absolute errors" in result.stderr


def test_calibrate_writes_files(run: Run, measurements: Path, tmp_path: Path) -> None:
    block, page = tmp_path / "block.yaml", tmp_path / "page.html"
    result = run("calibrate", "gpu", measurements, "--device", "a100_sxm_80gb", "-o", block, "--html", page)
    assert (result.exit_code, result.stderr) == (0, f"wrote {page}\n")
    assert block.read_text(encoding="utf-8") == run("calibrate", "gpu", measurements).stdout
    assert "<script src=" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.csv",), "nowhere.csv"),
        (("{table}", "--gpu", "b100"), "is not in the table"),
        (("{table}", "--device", "a100_sxm_80gx"), "did you mean a100_sxm_80gb?"),
        (("{table}", "-o", "/no/such/folder/x.yaml"), "No such file"),
    ],
)
def test_calibrate_refuses(run: Run, measurements: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(run("calibrate", "gpu", *(argument.format(table=measurements) for argument in arguments)))


def test_validate(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = json.loads(run("validate", "--json").stdout)
    assert set(rows[0]) == {"id", "group", "quantity", "published", "predicted", "error", "calibrated", "source"}
    assert all(row["error"] == pytest.approx(row["predicted"] / row["published"] - 1) for row in rows)
    text = run("validate").stdout
    assert "held out" in text
    assert [row["id"] for row in rows if row["id"] not in text] == []
