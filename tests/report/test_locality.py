"""`archmodel locality`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from archmodel.cli import commands
from archmodel.memory.cache_exact import CacheSimulator
from archmodel.report.locality import locality


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "[b]<ids>.npy"
    np.save(path, np.random.default_rng(0).zipf(1.2, 5000) % 3000)
    return path


def test_figures_add_up(trace: Path) -> None:
    found, ids = locality(trace), np.load(trace)
    assert (found.accesses, found.unique) == (5000, len(np.unique(ids)))
    assert sum(share for *_, share in found.reuse) + found.unique / 5000 == pytest.approx(1)
    assert found.footprint[-1] == (5000, found.unique)
    for name, policy, ways in (("lru", "lru", None), ("lfu", "lfu", None), ("lru_32_way", "lru", 32)):
        for size, rate in zip(found.sizes, found.curves[name], strict=True):
            cache = CacheSimulator(3000, size, policy, ways and min(ways, size))
            cache.feed(ids)
            assert rate == cache.hit_rate
    for curve in found.curves.values():
        assert all(rate <= best + 1e-12 for rate, best in zip(curve, found.curves["ideal"], strict=True))
    assert found.curves["ideal"][-1] == 1
    shares = [share for *_, share in found.hot]
    assert shares == sorted(shares)


def test_the_command(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(commands, ["locality", str(trace), "--html", str(page)])
    assert done.exit_code == 0 and f"wrote {page}" in done.stderr
    assert "[b]<ids>.npy" in done.stdout and "5,000 accesses" in done.stdout and "reuse distance" in done.stdout
    assert "&lt;ids" in page.read_text(encoding="utf-8") and "lru 32 way" in page.read_text(encoding="utf-8")
    done = CliRunner().invoke(commands, ["locality", str(trace), "--json"])
    told = json.loads(done.stdout)
    assert told["accesses"] == 5000 and told["hit_rate"]["ideal"][-1] == 1
    assert len(told["cache_rows"]) == len(told["hit_rate"]["lru"])


def test_one_row_and_bad_traces(tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text("7\n7\n", encoding="ascii")
    done = CliRunner().invoke(commands, ["locality", str(one)])
    assert done.exit_code == 0 and "2 accesses to 1 row ·" in done.stdout
    rates = json.loads(CliRunner().invoke(commands, ["locality", str(one), "--json"]).stdout)["hit_rate"]
    assert rates["lru"] == rates["lru_32_way"] == [0.5]  # one row is a set of one
    one.write_text("7\n-7\n", encoding="ascii")
    done = CliRunner().invoke(commands, ["locality", str(one)])
    assert (done.exit_code, done.stdout) == (2, "") and "row -7" in done.stderr
    assert "Traceback" not in done.stderr
