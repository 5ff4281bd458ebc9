"""Why a plan is as it is: alternatives are estimates of that one change, and ranks add up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import archmodel as am
from archmodel import catalogue
from archmodel.cli import commands
from archmodel.errors import ArchmodelError
from archmodel.search.compare import compare
from archmodel.search.explain import explain
from archmodel.search.plan_tables import draft, written

FILE = catalogue.directory() / "mlperf_dcnv2_dgx_h100.yaml"
DESIGN = am.load(FILE)


def test_an_alternative_is_the_estimate_with_that_table_moved() -> None:
    found = explain(DESIGN, ["cat_20", "cat_0"])
    assert [t.name for t in found.tables] == ["cat_20", "cat_0"]
    reason = found.tables[0]
    assert reason.sharding == DESIGN.placement.sharding[20]
    other = next(a for a in reason.alternatives if a.sharding == "data_parallel")
    tables = written(DESIGN)
    entry = {**tables["assign"]["cat_20"], "sharding": "data_parallel"}
    moved = am.estimate(draft(DESIGN, {**tables, "assign": {**tables["assign"], "cat_20": entry}}))
    assert other.iteration_time == float(moved.iteration_time)
    assert not other.fits and "too small" in other.why_not
    for a in reason.alternatives:
        assert bool(a.why_not) == (not a.fits or a.iteration_time >= found.estimate.iteration_time * (1 - 1e-9))
    kinds = {(a.sharding, a.tier, a.pieces) for a in reason.alternatives}
    assert (reason.sharding, reason.tier, reason.pieces) not in kinds and len(kinds) == len(reason.alternatives)


def test_ranks_add_up() -> None:
    found = explain(DESIGN, [])
    period, compute = found.estimate.iteration_time, found.estimate.busy("compute")
    for r in found.ranks:
        assert r.compute + r.idle == pytest.approx(period)
        assert r.tables <= r.compute == pytest.approx(float(compute[r.rank]))
        assert 0 <= r.memory["hbm"] <= 1
    assert {r.rank for r in found.ranks if "waiting" not in r.binds} >= {int(np.argmax(compute))}


def test_unknown_table() -> None:
    with pytest.raises(ArchmodelError, match="no table cta_1; did you mean cat_1"):
        explain(DESIGN, ["cta_1"])


def test_comparing_a_plan_with_itself_and_with_another() -> None:
    first = am.estimate(DESIGN)
    assert compare(first, first).tables == () and compare(first, first).ratio == 1
    tables = written(DESIGN)
    entry = {**tables["assign"]["cat_5"], "sharding": "row_wise"}
    second = am.estimate(draft(DESIGN, {**tables, "assign": {**tables["assign"], "cat_5": entry}}))
    found = compare(first, second)
    assert [d.name for d in found.tables] == ["cat_5"] and found.same == 25
    assert found.ratio == second.iteration_time / first.iteration_time
    changes = [abs(b - a) for a, b in found.phases.values()]
    assert changes == sorted(changes, reverse=True)
    with pytest.raises(ArchmodelError, match="different workloads"):
        compare(first, am.estimate(am.load(catalogue.directory() / "neo_a_zionex_16x8.yaml")))


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(commands, ["plan", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_commands(tmp_path: Path) -> None:
    code, text = run(FILE, "--explain", "--as-written", "--table", "cat_0")
    assert code == 0 and "cat_0: table_wise" in text and "too small" in text and "waiting for busier ranks" in text
    code, text = run(FILE, "--explain", "--as-written", "--table", "cat_0", "--json")
    answer = json.loads(text)
    assert answer["explanation"]["tables"][0]["name"] == "cat_0" and len(answer["explanation"]["ranks"]) == 8
    plan = catalogue.directory() / "plans" / "mlperf_dcnv2_v31_8xh100.yaml"
    other = catalogue.directory() / "plans" / "mlperf_dcnv2_v30_8xh100.yaml"
    code, text = run(FILE, "--compare", plan, other)
    assert code == 0 and "tables are held otherwise" in text
    code, text = run(FILE, "--compare", plan, other, "--json")
    assert code == 0 and len(json.loads(text)["iteration_time"]) == 2
    assert run("--compare", FILE, FILE)[1].startswith("equally fast")
    assert run(FILE, "--compare", FILE, plan)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--weights", "tiem=1"), "did you mean time"),
        (("--weights", "time=x"), "no number"),
        (("--weights", "time=0"), "not all 0"),
        (("--as-written",), "--explain"),
        (("--explain", "--table", "cat_99", "--as-written"), "no table cat_99"),
        (("--exact",), "--cost torchrec"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], says: str) -> None:
    code, text = run(FILE, *arguments)
    assert code == 2 and says in text and "Traceback" not in text
