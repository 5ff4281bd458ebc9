"""Tiers, caches and traces that cannot be, as a user meets them: exit code, what is said, and no traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from archmodel.cli import commands

DESIGN = """
name: small
system:
  use: systems/zionex.yaml
  nodes: 1
  node:
    host:
      tiers:
        ssd: {memory: {use: memories/optane_p5800x_512b.yaml}, count: 1}
workload:
  kind: dlrm
  global_batch: 64
  dense_features: 13
  bottom_mlp: [16, 8]
  top_mlp: [16, 1]
  tables:
    one: {num_embeddings: 1, embedding_dim: 8, pooling_factor: 4}
    many: {num_embeddings: 50, embedding_dim: 8, pooling_factor: 4}
plan:
  tables: {default: {sharding: row_wise, tier: ddr, cache: {in: hbm, size: 0.5, prefetch: 0}}}
"""
SIZE = "plan.tables.default.cache.size"
ACCESS = "workload.tables.many.access"


def run(tmp_path: Path, command: str, *changes: str) -> tuple[int, str]:
    """Exit code, and all that was said."""
    design = tmp_path / "small.yaml"
    design.write_text(DESIGN, encoding="utf-8")
    more = [part for change in changes for part in ("--set", change)]
    done = CliRunner().invoke(commands, [command, str(design), *more])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("workload.tables.many.num_embeddings=1e13", 1, "does not fit: ddr"),
        ("system.node.host.tiers.ssd.memory.capacity=0 TB", 2, "is zero"),
        ("plan.tables.default.tier=sdd", 2, "did you mean ssd?"),
        (f"{SIZE}=0", 2, "holds nothing"),
        (f"{SIZE}=0 GiB", 2, "holds nothing"),
        (f"{SIZE}=-5", 2, "holds nothing"),
        (f"{SIZE}=.nan", 2, "holds nothing"),
        (f"{SIZE}=200 %", 2, "2 times the table"),
        ("plan.tables.default.cache.ways=0", 2, "less than 1"),
        ("workload.tables.one.num_embeddings=-1", 2, "num_embeddings"),
        (f"{SIZE}=100", 0, "fits"),
        (f"{SIZE}=1 TiB", 0, "fits"),
        ("workload.tables.one.num_embeddings=0", 0, "fits"),
    ],
)
def test_tiers_and_caches(tmp_path: Path, change: str, code: int, said: str) -> None:
    """A cache of more rows or bytes than a table has holds the table; one of more than its share is refused."""
    found, text = run(tmp_path, "evaluate", change)
    assert (found, said in text) == (code, True), text


@pytest.mark.parametrize("change", [f"{SIZE}=0.5", f"{SIZE}=100", "workload.tables.one.num_embeddings=0"])
def test_tables_of_one_row_and_caches_of_all_run(tmp_path: Path, change: str) -> None:
    code, text = run(tmp_path, "check", change)
    assert code == 0, text


@pytest.mark.parametrize(
    ("ids", "cut", "said"),
    [
        (np.array([1, 2, -3]), None, "access 2 is to row -3"),
        (np.array([1, 2, 50] + [0] * 999), None, "row 50 of a table of 50 rows"),
        (np.array([1.0, np.nan]), None, "access 1 is NaN"),
        (np.array([1.0, 2.0]), None, "row ids are integers"),
        (np.zeros(0, dtype=np.int64), None, "is empty"),
        (np.arange(1000), 2000, "no whole .npy file"),
        (np.arange(1000), 20, "no whole .npy file"),
        (np.arange(1000), 0, "no whole .npy file"),
    ],
)
def test_traces(tmp_path: Path, ids: np.ndarray, cut: int | None, said: str) -> None:
    file = tmp_path / "trace.npy"
    np.save(file, ids)
    file.write_bytes(file.read_bytes()[:cut])
    found, text = run(tmp_path, "evaluate", f"{ACCESS}={{kind: trace, file: {file}}}")
    assert (found, said in text) == (2, True), text
    if "table" not in said:
        done = CliRunner().invoke(commands, ["locality", str(file)])
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("column", "cut", "said"),
    [([1, None], None, "has no row id"), ([1.5], None, "integers"), ([1, -5], None, "row -5"), ([1, 2], 40, "parquet")],
)
def test_parquet_traces(tmp_path: Path, column: list[float | None], cut: int | None, said: str) -> None:
    polars = pytest.importorskip("polars")
    file = tmp_path / "trace.parquet"
    polars.DataFrame({"id": column}).write_parquet(file)
    file.write_bytes(file.read_bytes()[:cut])
    done = CliRunner().invoke(commands, ["locality", str(file)])
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_trace_outside_the_root_is_not_opened(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "ids.txt"
    inside.mkdir()
    outside.write_text("secret\n", encoding="ascii")
    (inside / "ids.txt").write_text("1\n" * 256, encoding="ascii")
    (inside / "link.txt").symlink_to(outside)
    file = inside / "small.yaml"
    for name, code in ((inside / "ids.txt", 0), (outside, 2), (inside / "link.txt", 2), (inside / "../ids.txt", 2)):
        access = f"access: {{kind: trace, file: {name}}}"
        tables = DESIGN.replace("many: {num_embeddings: 50,", f"many: {{{access}, num_embeddings: 50,")
        file.write_text(tables, encoding="utf-8")
        done = CliRunner().invoke(commands, ["evaluate", str(file), "--root", str(inside)])
        assert done.exit_code == code, done.stderr
        assert ("small.yaml:18:" in done.stderr and "lies outside the root folder" in done.stderr) == (code == 2)
        assert "secret" not in done.stderr


def test_a_trace_that_is_not_there_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    code, text = run(tmp_path, "evaluate", f"{ACCESS}={{kind: trace, file: nowhere.npy}}")
    assert (code, "nowhere.npy: no such file" in text, "working directory" in text) == (2, True, True)
