"""Plain-text equations of docstrings as LaTeX; what is none stays as it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("docutils")
FILE = Path(__file__).parent.parent.parent / "docs" / "_ext" / "equations.py"


@pytest.fixture(scope="module")
def equations() -> ModuleType:
    spec = importlib.util.spec_from_file_location("equations", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("plain", "latex"),
    [
        ("t = launch + bytes / gather rate", r"t = \text{launch} + \text{bytes} / \text{gather rate}"),
        ("t = 2 m n k", "t = 2 m n k"),
        ("misses x rate", r"\text{misses} \times  \text{rate}"),
        ("x_p = sent_p / (1 - rho)", r"x_{p} = \text{sent}_{p} / ( 1 - \rho )"),
        ("p_i = i^-alpha", r"p_{i} = i ^{-\alpha}"),
        ("y = sqrt(fill x_d) + ceil(b / 32)", r"y = \sqrt{\text{fill} x_{d}} + \lceil b / 32 \rceil "),
        ("s = sum_{p on d} x_p", r"s = \sum  _{\text{p on d}} x_{p}"),
        ("t >= max(a, b)     a remark, in words", r"t \ge  \max  ( a , b ) \qquad \text{a remark, in words}"),
    ],
)
def test_latex(equations: ModuleType, plain: str, latex: str) -> None:
    assert equations.latex(plain) == latex


def test_equations_become_math_and_code_stays_code(equations: ModuleType) -> None:
    text = [
        "A law:",
        "",
        "    t = a +",
        "      b",
        "",
        "and use:",
        "",
        "    answer = am.estimate(design)",
        "",
        "`x` *is* a_.",
    ]
    made = equations.restructured(text)
    assert ".. math::" in made and "   t = a + b" in made
    assert "::" in made and "   answer = am.estimate(design)" in made
    assert made[-1] == r"``x`` \*is\* a\_."


@pytest.mark.parametrize("text", ["a = (b", "x = §", "y = a_"])
def test_what_is_no_equation_is_shown_as_written(equations: ModuleType, text: str) -> None:
    with pytest.raises(equations.NoEquationError):
        equations.latex(text)
    assert equations.restructured([f"    {text}"])[1:4] == ["::", "", f"   {text}"]
