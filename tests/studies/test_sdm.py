"""The study of rows on drives: what it predicts against published figures. Figures and sources stand in the study."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


def test_read_amplification_is_as_published(study: ModuleType) -> None:
    rows = [row for row in study.amplification() if row.published is not None]
    assert [row.published for row in rows] == [32.0, 8.0]
    assert all(row.error == 0 for row in rows)


def test_queue_depth_16_of_measured_drives(study: ModuleType) -> None:
    """Waiting in channels brings both NAND drives within 3 %; without it they come out 8 to 23 % high."""
    errors = {row.case: row.error for row in study.queue_depth()}
    assert len(errors) == 5
    assert max(abs(error) for case, error in errors.items() if case in study.MEASURED) < 0.03
    assert min(error for case, error in errors.items() if case.endswith("alone")) > 0.08
    assert errors["P4800X 375 GB"] == pytest.approx(-0.06, abs=0.005)


def test_a_cache_of_rows_hits_more_than_one_of_blocks(study: ModuleType) -> None:
    found = study.hit_rates()
    for share in study.CACHE_SHARES:
        assert 1 > found[share, 1] > found[share, 4] > found[share, 32] > share / 2
    formula = study.accesses().hit_rate(float(study.TABLE_ROWS), 0.1 * study.TABLE_ROWS, "lru")
    simulated = study.hit_rates()[0.1, 1]
    assert simulated == pytest.approx(float(formula), abs=0.01)


def test_small_blocks_gain_bytes_always_and_rows_sometimes(study: ModuleType) -> None:
    found = {row.case: row.predicted for row in study.small_blocks()}
    assert [value for case, value in found.items() if "saved" in case] == [8.0, 8.0]
    assert found["P4800X, rows/s"] == 1.0
    assert found["P5800X, rows/s"] == pytest.approx(2.34, abs=0.05)


def test_no_drive_beats_its_bandwidth_or_rate(study: ModuleType) -> None:
    for name in study.DRIVES:
        tier = study.drive(name)
        rates = [row.predicted * 1e9 for row in study.useful_bandwidth() if row.case.startswith(f"{name}, rows")]
        assert len(rates) == len(study.ROW_SIZES)
        for size, rate in zip(study.ROW_SIZES, rates, strict=True):
            assert rate <= min(tier.bandwidth, tier.read_iops * size) * (1 + 1e-9)


def test_it_prints_and_draws_everything(study: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.run(["-o", str(tmp_path / "page.html")]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "page.html").read_text(encoding="utf-8")
    for row in study.rows():
        assert f"{row.predicted:.3f}" in printed
    for target in dict.fromkeys(row.target for row in study.rows()):
        assert f'"text":"{target}"' in page
    assert "not predicted" in printed
