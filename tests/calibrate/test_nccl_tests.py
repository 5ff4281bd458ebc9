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
        assert sum(np.isfinite(log.rows[0].time)) == times
        assert log.rows[0].time[0] == pytest.approx(66.2e-6)
        assert log.size() == 8  # from 27.72 / 15.84 = 2 (n - 1) / n


def test_in_place_alone_is_not_taken_for_out_of_place(tmp_path: Path) -> None:
    tail = "float     sum      -1      N/A     N/A     N/A    N/A    65.80   15.94   27.89      0"
    log = written(tmp_path, "all_reduce_perf.log", f"     1048576        262144     {tail}\n")
    assert read_logs([log], in_place=True)[0].time.tolist() == [pytest.approx(65.8e-6)]
    with pytest.raises(CalibrationError, match=":1  has no out-of-place time; try with --in-place"):
        read_logs([log])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_files_that_other_systems_write(tmp_path: Path, encoding: str) -> None:
    """A mark of the byte order, lines that end in two characters."""
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    file = tmp_path / "run.log"
    file.write_bytes(mark + logs.a100("all_gather").replace("\n", "\r\n").encode(encoding))
    assert len(read_log(file).rows) == 7


def test_rows_that_are_not_written_plainly(tmp_path: Path) -> None:
    """Exponents, wrong values not counted; a GPU that older versions list without its group."""
    text = logs.a100("all_reduce").replace("1169.10", "1.1691e+03").replace("      0 ", "    N/A ")
    log = read_log(written(tmp_path, "run.log", text.replace("Group  0 ", "")))
    assert log.rows[-1].time == pytest.approx((1169.1e-6, 1169.1e-6))
    assert log.size() == 8


@pytest.mark.parametrize("end", [44, 60, 70, 110])
def test_a_log_that_was_cut(tmp_path: Path, end: int) -> None:
    lines = logs.a100("all_reduce").splitlines(keepends=True)
    with pytest.raises(CalibrationError, match=r"run.log:20 .* 8 are due"):
        read_log(written(tmp_path, "run.log", "".join(lines[:19]) + lines[19][:end]))


def test_runs_that_do_not_belong_together(tmp_path: Path) -> None:
    """The same collective twice, processes that did not find each other, other GPUs, one rank, ranks left out."""
    run = logs.a100("all_reduce")
    rank0 = next(line for line in run.splitlines(keepends=True) if "Rank  0" in line)
    alone = run.replace("Rank  0", "Rank x0", 1)
    other = logs.a100("all_gather").replace("A100-SXM4-80GB", "H100 80GB HBM3")
    header = "# all_reduce_perf\n"
    for text, message in (
        (run + run, r":31  lists rank 0 again: a second run"),
        (rank0 + run, r":6  lists rank 0 again: a second run, or processes that did not find each other"),
        (alone, "lists ranks 0 to 7, but not rank 0"),
        (header + logs.devices(1, "NVIDIA A100-SXM4-80GB") + GOOD, "is a run of one rank"),
        (header + logs.devices(9, "NVIDIA A100-SXM4-80GB", 2) + GOOD, "9 ranks on 2 hosts, unevenly"),
    ):
        with pytest.raises(CalibrationError, match=message):
            read_logs([written(tmp_path, "run.log", text)])
    files = [written(tmp_path, "a.log", run), written(tmp_path, "b.log", other)]
    with pytest.raises(CalibrationError, match=r"b.log  ran on NVIDIA H100 80GB HBM3, .*a.log on NVIDIA A100"):
        read_logs(files)


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
    with pytest.raises(CalibrationError, match=":1  has no in-place time; try without --in-place"):
        read_logs([written(tmp_path, "all_reduce.log", line)], in_place=True)
