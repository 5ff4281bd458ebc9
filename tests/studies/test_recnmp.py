"""The RecNMP study: how far its predictions are from the published figures. Figures and sources stand in the study."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def errors(rows: list) -> list[float]:
    return [abs(row.error) for row in rows]


def test_speedups_by_ranks_and_packets(study: ModuleType) -> None:
    """12 bars and 3 coloured ones; the worst is one pooling a packet on 8 ranks, where the simulator is low."""
    found = errors(list(study.rank_parallelism()))
    assert len(found) == 15
    assert np.mean(found) < 0.042
    assert max(found) < 0.135


def test_the_ladder_of_optimisations(study: ModuleType) -> None:
    rows = list(study.ladder())
    assert max(errors(rows)) < 0.045
    assert [row.predicted for row in rows] == sorted(row.predicted for row in rows)


def test_128_kb_is_the_best_cache(study: ModuleType) -> None:
    rows = list(study.cache_sizes())
    assert max(rows, key=lambda row: row.predicted).case == "RankCache 128 KB"
    assert max(errors(rows)) < 0.075


def test_end_to_end(study: ModuleType) -> None:
    """All come out high, two ranks most."""
    rows = [row for row in study.end_to_end() if row.target == "end to end"]
    assert len(rows) == 12
    assert np.mean(errors(rows)) < 0.06
    assert max(errors(rows)) < 0.1
    assert max(error for row, error in zip(rows, errors(rows), strict=True) if row.case.endswith("8 ranks")) < 0.045


def test_alternatives_where_another_paper_ran_them(study: ModuleType) -> None:
    """Held out: nothing of ReCross tuned anything. Published by it: TensorDIMM 1.67 and RecNMP 1.96 times a CPU on two
    ranks of DDR5. RecNMP comes out 1 % high; TensorDIMM 22 %, so that RecNMP is not faster than it here, 1.18
    published: of two ranks each still reads two bursts of a row of 256 B, and a split row costs its second activate.
    """
    rows = {row.case: row for row in study.elsewhere()}
    assert rows["RecNMP over a CPU, 2 ranks of DDR5"].error == pytest.approx(0.01, abs=0.02)
    assert rows["TensorDIMM over a CPU, 2 ranks of DDR5"].error == pytest.approx(0.22, abs=0.03)
    assert rows["RecNMP over TensorDIMM, the same"].error == pytest.approx(-0.17, abs=0.03)
    assert rows["Chameleon over a CPU, 2 ranks of DDR5"].predicted == pytest.approx(1.05, abs=0.05)
    whole = [row.predicted for case, row in rows.items() if case.startswith("TensorDIMM-like, 16")]
    assert whole == sorted(whole)


def test_commands_and_energy(study: ModuleType) -> None:
    assert max(errors(list(study.commands()))) == 0
    savings = [row.predicted for row in study.energy()]
    assert savings[0] == pytest.approx(study.ENERGY_SAVING, abs=0.02)
    assert (min(savings), max(savings)) == pytest.approx((0.45, 0.71), abs=0.01)


def test_the_hosts_curve(study: ModuleType) -> None:
    assert np.mean(errors(list(study.host_threads()))) < 0.05


def test_every_published_figure_names_its_source(study: ModuleType) -> None:
    rows = [row for name in study.STUDIES if name != "registers" for row in study.found(name)]
    assert all("RecNMP" in row.source or "ReCross" in row.source for row in rows if row.published is not None)


def test_it_prints_and_draws_everything(study: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.run(["-o", str(tmp_path / "page.html")]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "page.html").read_text(encoding="utf-8")
    for row in study.rows():
        assert row.case[:44] in printed
        assert f"{row.predicted:.3f}" in printed
    for target in dict.fromkeys(row.target for row in study.rows()):
        assert f'"text":"{target}"' in page
    assert "Why they differ" in page
