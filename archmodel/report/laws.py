"""Which laws a computation uses: the documented functions that run while it runs, with the equations they state."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_EQUATION = re.compile(r"^[ \t]+\S.*(?<![<>=!:])=(?!=)", re.MULTILINE)
"""An indented line with an equals sign: how a docstring here sets an equation apart from its text."""

_EXPRESSION = re.compile(r"[\w)\]] [*/+^] [\w(-]|\b(?:max|min|sqrt|log|exp|ceil)\(|\bsum_")
"""Arithmetic in the text itself: `max(bytes / bandwidth, flops / peak)`."""

_HAS_DOCSTRING: int | None = getattr(inspect, "CO_HAS_DOCSTRING", None)
"""Flag of code with a docstring; before Python 3.13 the first constant tells."""

_NO_LAWS = tuple(
    f"archmodel.{name}"
    for name in ("components.base", "components.breakdown", "errors", "program", "quantities", "report", "source")
)


@dataclass(frozen=True, slots=True)
class Law:
    """A documented function or module: its dotted name and what it states."""

    name: str
    text: str

    @property
    def sets_equation(self) -> bool:
        """Whether the text sets an equation apart."""
        return _EQUATION.search(self.text) is not None

    @property
    def has_arithmetic(self) -> bool:
        """Whether the text states one in passing, or apart."""
        return self.sets_equation or _EXPRESSION.search(self.text) is not None


def essential(laws: tuple[Law, ...]) -> tuple[Law, ...]:
    """Those that set an equation apart; where none does, those with arithmetic in their text; else all."""
    return tuple(law for law in laws if law.sets_equation) or tuple(law for law in laws if law.has_arithmetic) or laws


def laws_of(compute: Callable[[], T], packages: tuple[str, ...] = ("archmodel",)) -> tuple[T, tuple[Law, ...]]:
    """The result of `compute()`, and every law of `packages` it called, in order, each once.

    A law is a public function with a docstring, or a module whose docstring has an equation.
    """
    found: dict[str, str] = {}

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            _note(frame, packages, found)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        result = compute()
    finally:
        sys.setprofile(before)
    return result, tuple(Law(name, inspect.cleandoc(text)) for name, text in found.items())


def _note(frame: FrameType, packages: tuple[str, ...], found: dict[str, str]) -> None:
    module = str(frame.f_globals.get("__name__", ""))
    if not module.startswith(packages) or module.startswith(_NO_LAWS):
        return
    about = frame.f_globals.get("__doc__")
    if isinstance(about, str) and _EQUATION.search(about):
        found.setdefault(module, about)
    code = frame.f_code
    documented = _HAS_DOCSTRING is None or code.co_flags & _HAS_DOCSTRING
    text = code.co_consts[0] if documented and code.co_consts else None
    if isinstance(text, str) and not code.co_name.startswith(("_", "<")):
        found.setdefault(f"{module}.{code.co_qualname}", text)
