"""Designs as they are read and changed: what is told of a file that is not there, plans that are one word."""

from __future__ import annotations

from pathlib import Path

import pytest

import archmodel as am

SHORT = ("plan: auto", "plan: {tables: auto}", "plan: {tables: {default: auto}}", "plan: {}", "")
CHANGES = {
    "plan.tables": {"default": {"sharding": "row_wise"}},
    "plan.tables.default": "row_wise",
    "plan.tables.default.sharding": "row_wise",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("short", SHORT)
def test_a_plan_in_one_word_can_be_changed_in_parts(
    short: str, change: str, small_design: Path, tmp_path: Path
) -> None:
    text = small_design.read_text(encoding="utf-8")
    path = tmp_path / "design.yaml"
    path.write_text(text[: text.index("plan:")] + short, encoding="utf-8")
    changed = am.load(path).with_({change: CHANGES[change]})
    assert set(changed.placement.sharding) == {"row_wise"}
    assert changed.plan.wires == am.load(path).plan.wires


def test_a_word_keeps_holding_beside_what_is_set(small_design: Path, tmp_path: Path) -> None:
    text = small_design.read_text(encoding="utf-8")
    path = tmp_path / "design.yaml"
    path.write_text(text[: text.index("plan:")] + "plan: column_wise", encoding="utf-8")
    changed = am.load(path, sets={"plan.wires.lookup_forward": "fp16", "plan.tables.default.dtype": "fp16"})
    assert changed.plan.wires.lookup_forward == "fp16"
    assert changed.plan.tables.default.sharding == "column_wise"
    assert changed.plan.tables.default.dtype == "fp16"


@pytest.mark.parametrize("used", ["devices/a100_sxm_80g.yaml", "design.yaml", "nowhere/x.yaml"])
def test_what_a_file_that_cannot_be_used_would_hold_is_not_called_missing(used: str, tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    path.write_text(f"system:\n  node:\n    gpu: {{use: {used}}}\n    gpus: 8\n", encoding="utf-8")
    with pytest.raises(am.DesignError) as refused:
        am.load(path)
    fields = [problem.field for problem in refused.value.problems]
    assert "system.node.gpu.use" in fields
    assert [f for f in fields if f.startswith("system.node.gpu.")] == ["system.node.gpu.use"]
    assert "workload" in fields


def test_a_bottom_mlp_in_one_word_can_be_put_on_a_rank(small_design: Path) -> None:
    written = am.load(small_design, sets={"plan.bottom_mlp": "data_parallel"})
    changed = written.with_({"plan.bottom_mlp.rank": 1})
    assert (written.plan.bottom_mlp.rank, changed.plan.bottom_mlp.rank) == (None, 1)
    with pytest.raises(am.DesignError, match="bottom_mlp"):
        am.load(small_design, sets={"plan.bottom_mlp": "somewhere"})
    with pytest.raises(am.DesignError, match="not a mapping"):
        written.with_({"plan.tables.default.sharding.rank": 1})
