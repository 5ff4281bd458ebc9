"""Reading what nccl-tests prints, and refusing what cannot be read with file, line and reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archmodel.calibrate.nccl_tests import PROGRAMS, read_log, read_logs
from archmodel.calibrate.network import CalibrationError
from tests.calibrate import logs
from tests.calibrate.logs import written


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program(tmp_path: Path, program: str) -> None:
    log = read_log(written(tmp_path, "run.log", logs.a100(program)))
    assert (log.kind, log.size(), log.nodes, log.device) == (PROGRAMS[program], 8, 1, "NVIDIA A100-SXM4-80GB")
    assert {row.size: row.time[0] for row in log.rows} == {
        float(size): pytest.approx(time * 1e-6) for size, time in logs.A100_X8[program].items()
    }


def test_open_mpi_tags_and_messages_in_between(tmp_path: Path) -> None:
    file = written(tmp_path, "slurm-17.out", logs.p4de())
    measured, (log,) = read_logs([file])
    assert (log.program, log.size(), log.nodes) == ("all_reduce", 16, 2)
    np.testing.assert_allclose(measured.time * 1e6, [out for out, _ in logs.P4DE_X2.values()])
    in_place, _ = read_logs([file], in_place=True)
    np.testing.assert_allclose(in_place.time * 1e6, [time for _, time in logs.P4DE_X2.values()])


@pytest.mark.parametrize(
    "tag", ["0: ", "[1,12]<stdout>:", "[1,0]<stderr>: ", "node-0: ", "gpu-3.cluster: ", "\x1b[0m", "\t"]
)
def test_any_tag_in_front_of_lines(tmp_path: Path, tag: str) -> None:
    text = "".join(tag + line for line in logs.a100("all_gather").splitlines(keepends=True))
    assert len(read_log(written(tmp_path, "x.log", text)).rows) == 7


def test_older_columns(tmp_path: Path) -> None:
    """No root; no reduction; no check; out of place alone."""
    for tail, times in (
        ("float     sum    66.20   15.84   27.72  0e+00    65.80   15.94   27.89  0e+00", 2),
        ("float    66.20   15.84   27.72    N/A    65.80   15.94   27.89    N/A", 2),
        ("float     sum      -1    66.20   15.84   27.72    65.80   15.94   27.89", 2),
        ("float     sum      -1    66.20   15.84   27.72      0", 1),
        ("float     sum      -1    66.20   15.84   27.72      0      N/A     N/A     N/A    N/A", 1),
    ):
        log = read_log(written(tmp_path, "all_reduce_perf.log", f"     1048576        262144     {tail}\n"))
        assert len(log.rows[0].time) == times
        assert log.rows[0].time[0] == pytest.approx(66.2e-6)
        assert log.size() == 8  # from 27.72 / 15.84 = 2 (n - 1) / n


def test_a_size_of_nothing_is_left_out(tmp_path: Path) -> None:
    text = logs.a100("all_reduce") + "  0  0  half  sum  -1  20.00  0.00  0.00  0  20.00  0.00  0.00  0\n"
    measured, _ = read_logs([written(tmp_path, "x.log", text)])
    assert len(measured.time) == 7


GOOD = "   1048576   262144   float   sum   -1    66.20   15.84   27.72      0    65.80   15.94   27.89      0\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.log", "", "a.log  is empty"),
        ("a.log", "mpirun\nnode-1: Test NCCL failure common.cu:892\nbye\n", r"a.log:2 .*may say why.*NCCL failure"),
        ("a.log", GOOD, r"a.log:1  does not say which collective"),
        ("all_reduce.log", GOOD + GOOD.replace("66.20", "66.2x"), r"log:2  '66.2x' is no number"),
        ("all_reduce.log", GOOD.replace("65.80", ""), r"log:1 .* has 7 numbers"),
        ("all_reduce.log", GOOD[:48] + "\n", r"log:1 .* 8 are due"),
        ("all_reduce.log", GOOD.replace("  0    65", "  3    65"), r"log:1  found 3 wrong values"),
        ("all_reduce.log", GOOD.replace("66.20", "0.00"), r"log:1  takes 0.00 us"),
        ("all_reduce.log", GOOD + "# all_gather_perf\n" + GOOD, r"log:2  begins a second run"),
        ("all_reduce.log", "# sendrecv_perf\n" + GOOD, r"log:1  measures sendrecv"),
        ("all_reduce.log", GOOD.replace("27.72", "90.00").replace("27.89", "90.00"), r"lists no ranks"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        read_logs([written(tmp_path, name, text)])


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(CalibrationError, match="cannot be read"):
            read_log(path)


def test_a_row_without_the_column_asked_for(tmp_path: Path) -> None:
    line = "     1048576        262144     float     sum      -1    66.20   15.84   27.72      0\n"
    with pytest.raises(CalibrationError, match=":1  has no in-place column"):
        read_logs([written(tmp_path, "all_reduce.log", line)], in_place=True)
