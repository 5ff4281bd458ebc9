"""Lists of tables and measured sets as CSV files: every problem with its line and column; bins from distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archmodel.components.multi_table import table_batch
from archmodel.errors import ArchmodelError, DesignError
from archmodel.memory.access import Uniform, Zipf
from archmodel.search.learned.measurements import read_measurements
from archmodel.search.learned.scores import score
from archmodel.search.learned.tables import BIN_COLUMNS, TableFeatures, expected_bins, read_tables

PLAIN = "name,rows,dim,pooling\na,1000,64,3\n b ,40000000 , 128, 1.5\n"


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "f.csv") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def problems(call) -> list[str]:
    with pytest.raises(ArchmodelError) as caught:
        call()
    if not isinstance(caught.value, DesignError):
        return [str(caught.value)]
    return [
        f"{p.line}:{p.column} {p.field} {p.message}" + (f" [{p.value}]" if p.value else "")
        for p in caught.value.problems
    ]


def test_tables(file):
    found = read_tables(file(PLAIN))
    assert found.names == ("a", "b")
    assert (found.rows.tolist(), found.dim.tolist()) == ([1000, 40000000], [64, 128])
    assert found.pooling.tolist() == [3.0, 1.5]
    assert found.bins is None
    assert found.matrix[0] == pytest.approx([np.log(1000), np.log(64), np.log(3), np.log(64000), 192])


def test_tables_with_bins(file):
    shares = ",".join(["0.5", "0.5", *["0"] * 15])
    found = read_tables(file(f'name,rows,dim,pooling,{",".join(BIN_COLUMNS)}\n"a,b",10,4,1,{shares}\n'))
    assert found.names == ("a,b",)
    assert found.bins.tolist() == [[0.5, 0.5, *[0.0] * 15]]
    assert found.columns[-1] == "bin_16"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name,rows,dims,pooling\n", ['1:11 header is no column of a list of tables; did you mean dim? ["dims"]']),
        ("name,rows,dim,pooling,bin_0\n", ["1:None header needs all of bin_0 to bin_16, or none; it has 1"]),
        (PLAIN + "c,x,64,1\n", ['4:3 rows is not a finite number ["x"]']),
        (PLAIN + "c,  0,6.5,0\n", ["4:5 rows must be", "4:7 dim must be a whole number",
                                     "4:11 pooling must be a number above 0"]),
        (PLAIN + "a,1,1,1\n", ['4:1 name stands in line 2 too ["a"]']),
        (PLAIN + "c,1,1\n", ["4:1  has 3 cells under a header of 4"]),
        (PLAIN + "c;d,1,1,1\n", ["4:1 name must be a name without ';'"]),
        (PLAIN + "c,1e30,1,1\n", ["4:3 rows must be at most 1e+15"]),
        ("", ["1:None header is empty"]),
        ("name,rows,dim,pooling\n", ["has no tables"]),
    ],
)  # fmt: skip
def test_bad_tables(file, text, expected):
    path = file(text)
    found = problems(lambda: read_tables(path))
    for one in expected:
        assert any(one in line for line in found), found


def test_bins_that_do_not_add_up(file):
    row = ",".join(["0.5"] * 17)
    path = file(f"name,rows,dim,pooling,{','.join(BIN_COLUMNS)}\na,10,4,1,{row}\n")
    assert problems(lambda: read_tables(path)) == ['2:10 bin_0 and the other bins add up to 8.500, not to 1 ["0.5"]']


def test_measurements(file):
    tables = read_tables(file(PLAIN))
    found = read_measurements(file("tables,time,batch\na, 12 us,512\nb ; a,0.02 ms,512\n", "m.csv"), tables)
    assert found.counts.tolist() == [1, 2]
    assert found.member.tolist() == [0, 1, 0]
    assert found.seconds == pytest.approx([12e-6, 20e-6])
    assert found.batch == 512
    assert found.matrix.toarray().tolist() == [[1, 0], [1, 1]]


def test_measurements_in_plain_numbers(file):
    tables = read_tables(file(PLAIN))
    found = read_measurements(file("time_us,tables\n12,a\n", "m.csv"), tables)
    assert found.seconds == pytest.approx([12e-6])
    assert found.batch is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tables,time_ms\na;bb,1\n", '2:3 tables is no table of the list; did you mean b? ["bb"]'),
        ("tables,time_ms\na; b;a,1\n", '2:6 tables is in this set twice ["a"]'),
        ("time_ms,tables\n0,a\n", "2:1 time_ms must be a number above 0"),
        ("tables,time\na,3 GB\n", "2:3 time"),
        ("tables,time\na,3\n", "2:3 time"),
        ("tables,time,time_ms\n", "1:None header needs one column of time"),
        ("table,time\n", "1:1 header is no column of a table of measured sets; did you mean tables?"),
        ("tables,time_ms,batch\na,1,512\nb,1,256\n", "3:5 batch differs from the 512 of the rows before"),
        ("tables,time_ms\n", "has no measurements"),
    ],
)
def test_bad_measurements(file, text, expected):
    tables = read_tables(file(PLAIN))
    path = file(text, "m.csv")
    found = problems(lambda: read_measurements(path, tables))
    assert any(expected in line for line in found), found


def test_a_missing_file(tmp_path):
    with pytest.raises(DesignError, match="cannot be read"):
        read_tables(tmp_path / "none.csv")


def test_all_problems_come_together(file):
    path = file("name,rows,dim,pooling\n" + "".join(f"t{i},x,1,1\n" for i in range(7)))
    assert len(problems(lambda: read_tables(path))) == 7


@pytest.mark.parametrize(("access", "rows", "draws"), [(Uniform(), 3000, 9000), (Zipf(alpha=1.05), 20000, 60000)])
def test_expected_bins_are_those_of_batches(access, rows, draws):
    expected = expected_bins(access, np.array([float(rows)]), np.array([float(draws)]))[0]
    drawn = np.mean(
        [table_batch(access, rows=rows, columns=1, pooling=1, batch=draws, seed=s).bins for s in range(8)], axis=0
    )
    assert expected.sum() == pytest.approx(1.0)
    assert expected == pytest.approx(drawn, abs=0.01)


def test_some_tables_and_names():
    tables = TableFeatures(("a", "b"), np.array([1, 2]), np.array([4, 8]), np.array([1.0, 2.0]))
    assert tables.of(np.array([1])).names == ("b",)
    assert tables.index(["b", "a"]) == [1, 0]
    with pytest.raises(ArchmodelError, match="no table c"):
        tables.index(["c"])


def test_scores():
    found = score(np.array([1.0, 2.0, 3.0, np.nan]), np.array([1.0, 4.0, 3.0, 9.0]))
    assert found.sets == 3
    assert found.mape == pytest.approx(0.5 / 3)
    assert found.bias == pytest.approx(-0.5 / 3)
    assert found.mse_ms2 == pytest.approx(4e6 / 3)
    assert found.kendall == pytest.approx(1 / 3)
    assert found.spearman == pytest.approx(0.5)
    assert score(np.array([np.nan]), np.array([1.0])).to_dict()["mape"] is None
