"""The study of nodes by memory tiers, on a few nodes: its search, its placement, and that it prints and draws."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def small(study: ModuleType) -> Any:
    """A study of few cases; `main` prints and draws it."""
    at = study.Case(("scm",), 8)
    cases = [study.Case((), 16), study.Case((), 16, "mixed"), study.Case(("pmm",), 4), at]
    cases += [study.Case(("pmm",), 3), study.Case((), 15)]
    tried = study.evaluated(cases, 1, "nodes")
    varied = [("as assumed", "", at)]
    varied += [("access", skew, study.Case(("scm",), 8, access=skew)) for skew in ("uniform", "zipf 0.9", "zipf, 2022")]
    varied += [("policy", "<lfu>", study.Case(("scm",), 8, policy="lfu"))]
    return study.Results(
        study.best(tried),
        tried,
        [(what, value, study.answered(case)) for what, value, case in varied],
        {(name, "uniform"): tried[0] if name == "HBM, DDR" else None for name in list(study.HIERARCHIES)[1:4]},
        [(name, study.answered(case)) for name, case in study.paging()],
        [study.answered(study.others()[1])],
    )  # fmt: skip


@pytest.mark.parametrize("tiers", [None, (), ("pmm",), ("pmm", "scm", "nand")])
@pytest.mark.parametrize("sharding", ["row_wise", "mixed"])
@pytest.mark.parametrize("nodes", [1, 3, 16])
def test_every_table_has_one_home(study: ModuleType, tiers: Any, sharding: str, nodes: int) -> None:
    case = study.Case(tiers, nodes, sharding)
    groups = study.homes(case)
    assert sum(n for _, _, n in groups) == 64
    order = ["hbm", "ddr", *(tiers or ())]
    assert [order.index(tier) for tier, _, _ in groups] == sorted(order.index(tier) for tier, _, _ in groups)
    host = study.base(study.DESIGN).system.node.host
    for tier in order[1:-1]:  # the last one takes what is left, and may not hold it
        held = sum(n for name, _, n in groups if name == tier)
        assert held * 732421875 * 516 <= nodes * float(host.tier(tier).capacity)
    assert set(study.plan_of(case)["assign"]) == {f"t_{i}" for i in range(64)}


@pytest.mark.parametrize(("year", "unique"), [(2021, 128435723 / 887017990), (2022, 110259238 / 1405163864)])
def test_fitted_skew_has_the_distinct_rows_of_the_published_batch(study: ModuleType, year: int, unique: float) -> None:
    from archmodel.memory.access import Zipf

    draws = {2021: 887017990 / 856, 2022: 1405163864 / 788}[year]
    found = float(Zipf(alpha=study.fitted(year)).expected_unique(732421875.0, draws)) / draws
    assert found == pytest.approx(unique, rel=1e-3)


def test_capacity_sets_the_least_nodes(study: ModuleType, small: Any) -> None:
    """24.2 TB: 15 nodes of 1.82 TB and 3 of 7.96 TB do not hold them."""
    fits = {(a.case.tiers, a.case.nodes, a.case.sharding): a.fits for a in small.tried}
    assert fits[(), 16, "row_wise"]
    assert fits[("pmm",), 4, "row_wise"]
    assert not fits[("pmm",), 3, "row_wise"]
    assert not fits[(), 15, "row_wise"]
    assert study.room_for(()) == pytest.approx(12e12 * (1 + 2 / 256) * 2 / 1.82e12, rel=1e-3)


def test_fewest_nodes_and_reduction_by_hand(study: ModuleType) -> None:
    def answer(tiers: tuple[str, ...], nodes: int, rate: float, fits: bool = True) -> Any:
        return study.Answer(study.Case(tiers, nodes), fits, rate)

    found = study.best([answer((), 16, 2e6), answer((), 16, 3e6), answer((), 20, 4e6), answer(("pmm",), 2, 9e6, False),
                        answer(("pmm",), 4, 2.5e6), answer(("pmm",), 8, 5e6)])  # fmt: skip
    assert study.least(found, "HBM, DDR", 2.9e6).case.nodes == 16
    assert study.reduction(found, "HBM, DDR, byte SCM", 2e6) == 4
    assert study.reduction(found, "HBM, DDR, byte SCM", 4e6) == 2.5
    assert study.reduction(found, "HBM, DDR, byte SCM", 6e6) is None
    assert study.reduction(found, "HBM, DDR, NAND", 1e6) is None


def test_skew_and_prefetch_only_help(study: ModuleType, small: Any) -> None:
    by = {value: a for what, value, a in small.varied if what == "access"}
    hits = [by[skew].served["hbm"] for skew in ("uniform", "zipf 0.9", "zipf, 2022")]
    assert hits == sorted(hits)
    assert by["uniform"].throughput < by["zipf 0.9"].throughput < by["zipf, 2022"].throughput
    for answer in by.values():
        assert sum(answer.served.values()) == pytest.approx(1)
        assert 0 <= answer.stall <= 1
        assert all(0 <= share <= 1 for share in answer.busy.values())
    ahead, demand, paged = (a.throughput for _, a in small.paged)
    assert ahead >= demand > paged


def test_no_drive_writes_faster_than_it_can(small: Any, study: ModuleType) -> None:
    """Rows that come to HBM a second are at most what the drives of all nodes write."""
    answer = next(a for what, value, a in small.varied if value == "uniform")
    rate = answer.throughput * 64 * 20 * answer.served["scm"]
    host = study.base(study.DESIGN).system.node.host
    assert 0 < rate <= 8 * 8 * float(np.asarray(host.tier("scm").memory.write_iops))


def test_it_prints_and_draws(
    study: ModuleType, small: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "studied", lambda workers: small)
    assert study.run(["-o", str(tmp_path / "page.html")]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "4 to 8 times" in printed
    assert "byte SCM: 4.0 at 0.25 M" in printed
    assert "byte SCM: 4.0 at 0.25 M" in page
    assert page.count('class="plot"') == 5
    assert "policy <lfu>" not in page
    assert "over 32" in page
