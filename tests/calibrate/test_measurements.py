"""Tables of measured kernel times: what is read, and what is refused by line."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.calibrate.measurements import SHAPES, Measurement, of_one_gpu, read
from archmodel.errors import DesignError


def table(folder: Path, text: str) -> Path:
    file = folder / "table.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_shapes_as_text_and_times_with_units(tmp_path: Path) -> None:
    file = table(
        tmp_path,
        "kernel,shape,dtype,time\n"
        "gemm,m=4096 n=1024 k=512,fp16,12.3 us\n"
        'gemm,"m=1, n=2, k=3, batch=4",,1 ms\n'
        "\n"
        "copy,bytes=1e9,fp32,0.6 ms\n"
        "launch,graph=1,fp32,1.2 us\n",
    )
    assert read(file) == [
        Measurement("gemm", (4096.0, 1024.0, 512.0, 1.0), "fp16", pytest.approx(12.3e-6), "", 2),
        Measurement("gemm", (1.0, 2.0, 3.0, 4.0), "bf16", 1e-3, "", 3),
        Measurement("copy", (1e9,), "fp32", pytest.approx(0.6e-3), "", 5),
        Measurement("launch", (1.0,), "fp32", pytest.approx(1.2e-6), "", 6),
    ]


def test_a_column_for_each_part_of_the_shape(tmp_path: Path) -> None:
    (row,) = read(table(tmp_path, "gpu,m,n,k,time_us\nmine,1,32,64,2.662\n"))
    assert row == Measurement("gemm", (1.0, 32.0, 64.0, 1.0), "bf16", pytest.approx(2.662e-6), "mine", 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("gem,m=1 n=1 k=1,bf16,1 us", r"kernel .*gem.*did you mean gemm"),
        ("gemm,m=1 n=1,bf16,1 us", "lacks k"),
        ("gemm,m=1 n=1 k=1 l=1,bf16,1 us", "has no l in a gemm"),
        ("gemm,1x1x1,bf16,1 us", "write it as m=4096 n=1024 k=512"),
        ("gemm,m=0 n=1 k=1,bf16,1 us", "m .*no whole number of 1 or more"),
        ("gemm,m=1.5 n=1 k=1,bf16,1 us", "m .*no whole number of 1 or more"),
        ("gemm,m=nan n=1 k=1,bf16,1 us", "m .*not a finite number"),
        ("gemm,m=one n=1 k=1,bf16,1 us", "m .*not a number"),
        ("copy,bytes=-1,bf16,1 us", "bytes .*negative"),
        ("gemm,m=1 n=1 k=1,bf17,1 us", "dtype .*did you mean bf16"),
        ("gemm,m=1 n=1 k=1,bf16,1", "time .*has no unit"),
        ("gemm,m=1 n=1 k=1,bf16,1 GB", "time .*is an amount of data"),
        ("gemm,m=1 n=1 k=1,bf16,0 us", "time .*no time above zero"),
        ("gemm,m=1 n=1 k=1,bf16", "has 3 cells under a header of 4"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_by_line(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(DesignError) as caught:
        read(table(tmp_path, f"kernel,shape,dtype,time\n{row}\n"))
    (problem,) = caught.value.problems
    assert re.search(r"table\.csv:2 .*" + message, str(problem))


def test_all_bad_rows_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(DesignError) as caught:
        read(table(tmp_path, "m,n,k,time_us\n1,1,1,0\n1,1,1,5\n0,1,1,5\n"))
    assert [problem.line for problem in caught.value.problems] == [2, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("m,n,k,time_us\n", "has no rows"),
        ("m,n,k\n1,1,1\n", "needs one column of time, time_us"),
        ("m,n,k,time,time_us\n1,1,1,1 us,1\n", "needs one column of time, time_us"),
        ("m,n,k,time_us,m\n1,1,1,1,1\n", "appears twice"),
        ("kernel,time\ngemm,1 us\n", "needs the column shape"),
        ("m,n,k,tine\n1,1,1,1 us\n", "did you mean time"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DesignError, match=message):
        read(table(tmp_path, text))


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="cannot be read"):
        read(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DesignError, match="no UTF-8"):
        read(tmp_path / "binary.csv")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "table.csv"
    file.write_bytes(("kernel,shape,dtype,time\n" + text).encode("utf-8", "surrogatepass"))
    with suppress(DesignError):
        assert all(row.kernel in SHAPES and row.seconds > 0 for row in read(file))


def test_one_gpu_of_several_must_be_chosen(tmp_path: Path) -> None:
    file = table(tmp_path, "gpu,m,n,k,time_us\nnew,1,1,1,3\nold,1,1,1,5\n")
    rows = read(file)
    with pytest.raises(DesignError, match="choose one: new, old"):
        of_one_gpu(rows, None, file)
    with pytest.raises(DesignError, match="did you mean new"):
        of_one_gpu(rows, "news", file)
    assert [row.gpu for row in of_one_gpu(rows, "old", file)] == ["old"]
