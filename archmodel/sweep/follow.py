"""Fields that follow others: what a gigabyte more of a memory costs, say.

A followed field is a base plus straight lines in other fields,

    base + sum of adds x (value - beyond) / each

so a point whose knobs are turned pays for what they are turned to, and stays an ordinary design that `--set` can make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from archmodel import source
from archmodel.errors import ArchmodelError
from archmodel.quantities import Num


@dataclass(frozen=True)
class Term:
    """`adds` (in the followed field's unit) for `each` of the field `of` above `beyond` (both in that field's unit)."""

    of: str
    adds: float
    each: float
    beyond: float = 0.0

    def value(self, of: Num) -> Num:
        """adds x (of - beyond) / each."""
        return self.adds * (of - self.beyond) / self.each


@dataclass(frozen=True)
class Follow:
    """A field, by path, and what it follows. `base`: SI; None takes the value that the design has."""

    path: str
    terms: tuple[Term, ...]
    base: float | None = None

    def value(self, read: Callable[[str], Num]) -> Num:
        """What the field is set to; `read` gives the value of any other. SI, over design points."""
        total = read(self.path) if self.base is None else self.base
        for term in self.terms:
            total = total + term.value(read(term.of))
        return total


def followed(follows: tuple[Follow, ...], spec: BaseModel, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What all `follows` set, when `changes` are made to the design `spec`; one may follow those before it."""
    found: dict[str, Any] = {}

    def read(path: str) -> Num:
        for known in (found, changes):
            if path in known:
                value: Num = known[path]
                return value
        return number_at(spec, path)

    for follow in follows:
        found[follow.path] = follow.value(read)
    return found


def number_at(spec: BaseModel, path: str) -> float:
    """The number that a design holds at `path`. Raises ArchmodelError when it holds none."""
    node: Any = spec
    for segment in source.split(path):
        if isinstance(node, BaseModel):
            node = getattr(node, str(segment), None)
        elif isinstance(node, Mapping):
            node = node.get(segment)
        else:
            node = node[segment] if isinstance(node, list | tuple) and isinstance(segment, int) else None
    if isinstance(node, bool) or not isinstance(node, int | float):
        raise ArchmodelError(f"{path} holds no number that another field could follow")
    return float(node)
