"""am.plan: judged by the whole estimate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import archmodel as am
from archmodel import catalogue
from archmodel.search import own
from archmodel.search.options import NoPlan, home_of
from archmodel.search.plan_tables import with_tables, written

DESIGNS = ("mlperf_dcnv2_dgx_h100.yaml", "mlperf_dlrm_v1_dgx_a100.yaml")


@pytest.mark.parametrize("name", DESIGNS)
def test_never_worse_than_written_or_auto_and_above_the_bound(name: str, tmp_path: Path) -> None:
    design = am.load(catalogue.directory() / name)
    found = am.plan(design, seed=1)
    tried = dict(found.tried)
    assert found.value <= min(tried["as written"], tried["auto"])
    assert 0 < found.lower_bound <= found.value == float(am.estimate(found.design).iteration_time)
    assert all(value >= found.lower_bound for _, value in found.tried)
    assert found.fits

    found.write(tmp_path / "plan.yaml")
    file = catalogue.directory() / name
    text = file.read_text().split("\nplan:")[0] + "\nplan:\n  use: plan.yaml\n"
    for folder in ("systems", "workloads"):
        text = text.replace(f"use: {folder}/", f"use: {catalogue.directory()}/{folder}/")
    (tmp_path / "design.yaml").write_text(text)
    again = am.load(tmp_path / "design.yaml")
    assert set(again.plan.tables.assign) == set(design.workload.table_arrays.names)
    assert float(am.estimate(again).iteration_time) == pytest.approx(found.value, rel=1e-12)


def test_tables_that_do_not_fit_are_cached_where_that_is_faster() -> None:
    design = am.load(catalogue.directory() / "nvidia_dlrm_xlarge_1xa100_hybrid_amp.yaml")
    options, terms, _ = own.options(design)
    cached = np.array([k != home_of(k) for k in options.kernels])
    assert cached.any() and (terms.moves[:, cached] > 0).any() and not terms.moves[:, ~cached].any()
    found = am.plan(design)
    assert found.value < float(am.estimate(design).iteration_time)
    assert found.design.placement.cached.any() and found.fits
    assert {"in": "hbm"}.items() <= next(e["cache"] for e in found.tables()["assign"].values() if "cache" in e).items()


def test_no_cache_is_proposed_where_all_rows_fit() -> None:
    assert not own.options(am.load(catalogue.directory() / DESIGNS[0]))[1].moves.any()


def test_written_names_every_table_and_changes_nothing() -> None:
    design = am.load(catalogue.directory() / DESIGNS[0])
    again = with_tables(design, written(design))
    assert float(am.estimate(again).iteration_time) == float(am.estimate(design).iteration_time)


def test_tables_that_all_memories_together_do_not_hold_are_said_to_be_too_large(small_design: Path) -> None:
    design = am.load(small_design).with_({"workload.tables.large.num_embeddings": 10**11})
    with pytest.raises(NoPlan, match=r"tables and optimizer state are 76\.8 TB, all memories together 2\.\d+ TB"):
        am.plan(design, budget=0.1)
