"""From logs to a fabric file that loads and predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from archmodel.calibrate.fabric import calibrate_network, constants_of
from archmodel.calibrate.network import CalibrationError
from archmodel.cli import commands
from archmodel.network import SCALE_OUT, SCALE_UP
from archmodel.report.html.calibration import fabric_page
from archmodel.report.html.figure import Figure
from archmodel.source import read, strip, validate
from tests.calibrate import logs
from tests.calibrate.logs import written
from tests.collectives.machines import component

QUICK = 60
"""Evaluations: the search begins at the catalogue's constants, close to what these logs say."""


@pytest.fixture(scope="module")
def node_logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("logs")
    return [written(folder, f"{program}_perf.log", logs.a100(program)) for program in logs.A100_X8]


def test_four_logs_of_a_node(node_logs: list[Path], tmp_path: Path) -> None:
    found = calibrate_network(node_logs, evaluations=QUICK)
    assert found.error < 0.06
    assert len(found.rows) == 28
    assert "8 ranks" in found.fitted_on and "all_reduce_perf.log" in found.fitted_on
    file = written(tmp_path, "block.yaml", found.yaml())
    tree = read(file)
    assert tree["fitted_on"] == found.fitted_on
    fabric = validate(SCALE_UP.resolve("switch"), strip(tree))
    for name, value in constants_of(fabric).items():
        assert value == pytest.approx(found.constants[name], rel=1e-3), name
    page = fabric_page(found)
    (figure,) = page.sections[0].blocks
    assert isinstance(figure, Figure)
    assert [len(trace["x"]) for trace in figure.data] == [7] * 4
    assert f"mean absolute error {100 * found.error:.1f} %" in figure.takeaway


def test_what_the_logs_do_not_show_is_kept_and_said(node_logs: list[Path]) -> None:
    found = calibrate_network(node_logs[:1], evaluations=QUICK)
    start = constants_of(component("fabrics/nvswitch_a100.yaml"))
    assert set(found.kept) == {"direct_latency", "simple.direct_base", "simple.direct_fill"}
    assert all(found.constants[name] == start[name] for name in found.kept)
    assert "kept: direct_latency" in found.fitted_on


def test_logs_over_nodes_give_the_network_between_them(tmp_path: Path) -> None:
    file = written(tmp_path, "p4de.log", logs.p4de())
    with pytest.raises(CalibrationError, match="what one interface carries"):
        calibrate_network([file], evaluations=QUICK)
    found = calibrate_network([file], nic="100 Gbit/s", interfaces=4, evaluations=600)
    assert found.error < 0.15
    tree = read(written(tmp_path, "block.yaml", found.yaml()))
    assert validate(SCALE_OUT.resolve("rail_clos"), strip(tree)).counts_tree_bytes


def test_all_to_all_over_nodes(tmp_path: Path) -> None:
    """Two hosts of 8 ranks: 12.5 GB/s an interface, half of each buffer crosses."""
    ranks = "".join(
        f"#  Rank {r:2d} Group  0 Pid 1 on host{r // 8} device {r % 8} [0x10] NVIDIA A100-SXM4-80GB\n"
        for r in range(16)
    )
    rows = "".join(
        logs.row("alltoall", 16, size, (180.0 + size / 16 * 8 / 10e3 * 1e0 / 1e0,), 4)
        for size in (65536, 1048576, 16777216, 268435456)
    )
    file = written(tmp_path, "alltoall_perf.log", "# nThread 1\n" + ranks + rows)
    found = calibrate_network([file], nic="100 Gbit/s", evaluations=600)
    assert found.error < 0.05
    assert "ll.base" in found.kept and "simple.direct_base" not in found.kept
    tree = read(written(tmp_path, "block.yaml", found.yaml()))
    assert float(validate(SCALE_OUT.resolve("rail_clos"), strip(tree)).protocols["simple"].direct_base) > 50e-6


def test_what_cannot_be_fitted(node_logs: list[Path], tmp_path: Path) -> None:
    short = written(
        tmp_path, "all_reduce.log", logs.devices(2, "Tesla A100") + logs.row("all_reduce", 2, 512, (9.0,), 2)
    )
    unnamed = written(tmp_path, "b.log", logs.a100("all_reduce").replace("NVIDIA A100-SXM4-80GB", "Z9"))
    both = written(tmp_path, "c.log", logs.p4de())
    for files, options, message in (
        ([short], {}, "1 rows are too few"),
        ([unnamed], {}, "device 'Z9'; say which fabric"),
        (node_logs, {"fabric": "nvswitch_a10"}, "did you mean nvswitch_a100"),
        (node_logs, {"fabric": "pcie_gen4"}, "of kind pcie"),
        ([*node_logs, both], {"nic": "1 GB/s"}, "some of several"),
    ):
        with pytest.raises(CalibrationError, match=message):
            calibrate_network(files, **options)  # type: ignore[arg-type]


def test_the_command(node_logs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import archmodel.calibrate.fabric as module

    monkeypatch.setattr(
        module.calibrate_network, "__kwdefaults__", {**module.calibrate_network.__kwdefaults__, "evaluations": QUICK}
    )  # type: ignore[attr-defined]
    files = [str(file) for file in node_logs]
    block, picture = tmp_path / "block.yaml", tmp_path / "picture.html"
    done = CliRunner().invoke(commands, ["calibrate", "network", *files, "-o", str(block), "--html", str(picture)])
    assert done.exit_code == 0, done.output
    assert "mean absolute error" in done.output and "reduce_scatter" in done.output
    assert "fitted_on:" in block.read_text(encoding="utf-8")
    assert "log" in picture.read_text(encoding="utf-8")
    done = CliRunner().invoke(commands, ["calibrate", "network", *files, "--json"])
    assert len(json.loads(done.stdout)["rows"]) == 28
    broken = written(tmp_path, "broken.log", "srun: error: no nodes\n")
    done = CliRunner().invoke(commands, ["calibrate", "network", str(broken)])
    assert done.exit_code == 2
    assert "broken.log:1" in done.output
