"""Trace files: every format reads the same, and what is wrong with one is said."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from archmodel.memory.access import Trace, Uniform, Zipf
from archmodel.memory.access_trace import profile
from archmodel.memory.cache_exact import CacheSimulator
from archmodel.memory.trace import Accesses, TraceError, TraceFile

IDS = np.random.default_rng(0).permutation(500)[Zipf(alpha=0.9).sample(500, 4000, np.random.default_rng(1))]


def written(folder: Path, suffix: str) -> Path:
    path = folder / f"ids{suffix}"
    if suffix == ".npy":
        np.save(path, IDS.astype(np.uint16))
    elif suffix == ".parquet":
        polars = pytest.importorskip("polars")
        polars.DataFrame({"when": range(len(IDS)), "row": IDS}).write_parquet(path)
    else:
        apart = {".txt": "\n", ".csv": ", "}[suffix]
        path.write_text("# ids\n" + apart.join(map(str, IDS)) + "\n", encoding="ascii")
    return path


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv", ".parquet"])
def test_every_format_reads_the_same_in_pieces(tmp_path: Path, suffix: str) -> None:
    file = TraceFile(written(tmp_path, suffix), "row" if suffix == ".parquet" else None)
    for size in (37, 10_000):
        pieces = list(file.pieces(size))
        assert np.concatenate(pieces).tolist() == IDS.tolist()
        assert len(pieces) > 1 or size > len(IDS)
        assert all(piece.dtype == np.int64 for piece in pieces)


def refused(path: Path, column: str | None = None) -> str:
    with pytest.raises(TraceError) as caught:
        list(TraceFile(path, column).pieces())
    assert str(path) in str(caught.value)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("1 2\n3 -4\n", "line 2: row -4; row ids are 0 or more"),
        ("1\n\n nan\n", "line 3: nan is NaN"),
        ("1 2.5\n", "line 1: 2.5 is no row id"),
        ("1\n2 cat\x1b\n", "line 2: cat\\x1b is no row id"),
        ("1\n9223372036854775808\n", "line 2: row 9223372036854775808; the highest row id is 2^63 - 1"),
        ("1\n\n" + "9" * 5000, "line 3: row " + "9" * 40 + "; the highest"),
        ("1_000\n", "line 1: 1_000 is no row id"),
        ("1,2\n3,,4\n", "line 2: no row id before a comma"),
        ("1,\n2,\n ,3\n", "line 3: no row id before a comma"),
        ("\ufeffcat\n", "line 1: cat is no row id"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    assert message in refused(path)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("\ufeff1\r\n2\r\n", [1, 2]),
        ("# a, comma,, in a comment\n1,\n2,\n", [1, 2]),
        ("1 , 2 ,3\t4", [1, 2, 3, 4]),
        ("007 +8 -0\n" + "0" * 30 + "9", [7, 8, 0, 9]),
        (f"{2**63 - 1}\n{10**18}", [2**63 - 1, 10**18]),
    ],
)
def test_text_of_every_sort(tmp_path: Path, text: str, ids: list[int]) -> None:
    path = tmp_path / "ids.csv"
    path.write_text(text, encoding="utf-8", newline="")
    for size in (1, 2, 100):  # pieces of 8 bytes and more
        assert np.concatenate(list(TraceFile(path).pieces(size))).tolist() == ids


def test_text_that_is_not_utf8_and_files_that_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text("1\n2\n", encoding="utf-16")
    assert "UTF-16" in refused(tmp_path / "wide.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    assert "no regular file" in refused(tmp_path / "pipe.txt")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(0, dtype=np.int64), "is empty"),
        (np.array([1, -1]), "access 1 is to row -1"),
        (np.array([1.0, np.nan]), "access 1 is NaN"),
        (np.array([1.0, 2.0]), "holds float64"),
        (np.array([[1, 2]]), r"shape (1, 2)"),
        (np.array(["a"]), "row ids are integers"),
        (np.array([2**63], dtype=np.uint64), "2^63 - 1"),
        (np.array([None]), "no whole .npy file"),
    ],
)
def test_bad_npy(tmp_path: Path, array: np.ndarray, message: str) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, array, allow_pickle=True)
    assert message in refused(path)


def test_truncated_missing_and_unknown_files(tmp_path: Path) -> None:
    for suffix in (".npy", ".parquet"):
        whole = written(tmp_path, suffix)
        for keep in (100, 20):
            cut = tmp_path / f"cut{suffix}"
            cut.write_bytes(whole.read_bytes()[:keep])
            assert "is no whole" in refused(cut, "row")
        assert "no such file" in refused(tmp_path / f"missing{suffix}")
    assert ".npy, .parquet" in refused(tmp_path / "ids.xlsx")
    (tmp_path / "folder.txt").mkdir()
    assert "is a folder" in refused(tmp_path / "folder.txt")


def test_columns_of_a_parquet_file(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = written(tmp_path, ".parquet")
    assert "several columns" in refused(path) and "when, row" in refused(path)
    assert "no column 'rows'" in refused(path, "rows")
    gap = tmp_path / "gap.parquet"
    polars.DataFrame({"row": [1, None]}).write_parquet(gap)
    assert "access 1 has no row id" in refused(gap)


def test_hashed_ids_are_numbered_anew(tmp_path: Path) -> None:
    path = tmp_path / "hashed.npy"
    np.save(path, IDS * (2**62 // 500))
    found = Accesses(TraceFile(path))
    assert found.rows == len(np.unique(IDS)) and found.length == len(IDS)
    assert np.concatenate(list(found.pieces())).tolist() == np.unique(IDS, return_inverse=True)[1].tolist()


# --- the trace as a distribution ------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(file=str(written(tmp_path, ".npy")))


def test_distinct_rows_are_the_mean_over_all_windows(trace: Trace) -> None:
    for n in (1, 2, 7, 300, 3999, 4000):
        windows = [len(np.unique(IDS[start : start + n])) for start in range(len(IDS) - n + 1)]
        assert float(trace.expected_unique(500, n)) == pytest.approx(np.mean(windows), rel=1e-9)
    assert trace.expected_unique(np.array([500.0, 900.0]), np.array([0.0, 4000.0])).tolist() == [
        0.0,
        len(np.unique(IDS)),
    ]


def test_gaps_of_long_traces_are_binned_within_a_hundredth(tmp_path: Path) -> None:
    ids = Uniform().sample(20_000, 100_000, np.random.default_rng(0))
    np.save(tmp_path / "long.npy", ids)
    found = profile(TraceFile(tmp_path / "long.npy"))
    for n in (5000, 20_000, 60_000):
        starts = range(0, len(ids) - n + 1, 500)
        assert float(found.footprint(n)) == pytest.approx(
            np.mean([len(np.unique(ids[s : s + n])) for s in starts]), rel=3e-3
        )


def test_hit_rates_are_those_of_the_simulator(trace: Trace) -> None:
    for policy, ways in (("lru", None), ("lru", 4), ("fifo", None), ("lfu", None)):
        rates = trace.hit_rate(500, np.array([0, 20, 200]), policy, ways)
        for size, rate in zip((20, 200), rates[1:], strict=True):
            cache = CacheSimulator(500, size, policy, ways)
            cache.feed(IDS)
            assert rate == cache.hit_rate
        assert rates[0] == 0
    first = CacheSimulator(500, 50)
    first.feed(IDS[:1000])
    assert float(trace.hit_rate(500, 50, draws=1000)) == first.hit_rate
    counts = np.sort(np.bincount(IDS))[::-1]
    assert float(trace.hit_rate(500, 30, "ideal")) == pytest.approx(counts[:30].sum() / 4000)
    assert float(trace.hot_share(500, 30)) == pytest.approx(counts[:30].sum() / 4000)


def test_shards_bytes_and_samples(trace: Trace) -> None:
    load = np.bincount(IDS // 125, minlength=4)
    assert trace.imbalance(500, 4000, 4) == pytest.approx(load.max() / load.mean())
    tiers = trace.bytes_per_tier(500, 4000, 64, [20, 100])
    assert tiers.sum() == pytest.approx(4000 * 64) and np.all(tiers >= 0)
    assert tiers[0] == pytest.approx(4000 * 64 * float(trace.hit_rate(500, 20)))
    drawn = trace.sample(500, 4000, np.random.default_rng(0))
    order = np.argsort(-np.bincount(IDS, minlength=500), kind="stable")
    assert order[drawn].tolist() == IDS.tolist()
    assert len(trace.sample(500, 100, np.random.default_rng(0))) == 100


def test_questions_that_a_trace_cannot_answer(trace: Trace) -> None:
    with pytest.raises(TraceError, match="accesses row 499 of a table of 499 rows"):
        trace.expected_unique(np.array([500.0, 499.0]), 10)
    with pytest.raises(TraceError, match="has 4,000 accesses; 4,001 are drawn"):
        trace.expected_unique(500, 4001)
    with pytest.raises(TraceError, match="no such file"):
        Trace(file="/nowhere.npy").expected_unique(500, 1)
    small = trace.shrunk(20)
    assert small.sample(20, 50, np.random.default_rng(0)).max() < 20
    assert float(small.expected_unique(20, 4000)) <= 20
    assert 0 < float(small.hit_rate(20, 5)) < 1


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ids.npy"
    np.save(path, np.array([1, 1]))
    assert Trace(file=str(path)).expected_unique(9, 2) == 1
    np.save(path, np.array([1, 2, 3]))
    assert Trace(file=str(path)).expected_unique(9, 3) == 3
