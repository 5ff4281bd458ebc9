from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.text import Text

from archmodel import Estimate, estimate, load
from archmodel.report.terminal import flow, show_estimate


@pytest.fixture(scope="module")
def answer(two_node_design: Path) -> Estimate:
    return estimate(load(two_node_design))


def printed(answer: Estimate, width: int, *, ops: bool = True) -> str:
    out = io.StringIO()
    show_estimate(answer, path="x.yaml", ops=ops, file=out, width=width)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(answer: Estimate, width: int) -> None:
    assert max(len(line) for line in printed(answer, width, ops=False).splitlines()) <= width


@pytest.mark.parametrize("width", [60, 120, 300])
def test_every_op_and_phase_is_there_at_any_width(answer: Estimate, width: int) -> None:
    text = printed(answer, width)
    squeezed = "".join(text.split())
    assert [op.name for op in answer.ops if op.name not in squeezed] == []
    assert [phase.name for phase in answer.phases if phase.name not in squeezed] == []


def test_a_percentage_keeps_its_sign_on_its_line(answer: Estimate) -> None:
    for width, ops in [*((width, False) for width in range(90, 160, 7)), (130, True), (200, True)]:
        assert not [line for line in printed(answer, width, ops=ops).splitlines() if line.strip().startswith("%")]


def test_flow_fills_lines_and_keeps_items_whole() -> None:
    items = [Text("x" * length) for length in (10, 20, 30, 5)]
    lines = flow(items, 39, indent=2, gap=3).plain.split("\n")
    assert lines == ["  " + "x" * 10 + "   " + "x" * 20, "  " + "x" * 30, "  " + "x" * 5]


def test_what_is_not_known_is_left_out(answer: Estimate) -> None:
    from dataclasses import replace

    text = printed(replace(answer, energy=None, cost=None), 120)
    assert "J/sample" not in text
    assert "$" not in text
