"""Sweep files: a design, axes and how points are taken, in YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.design import Design, load
from archmodel.errors import DesignError, Problem, nearest
from archmodel.source import Located, LocatedList, Mark
from archmodel.sweep.prepare import Request


class SweepFile(Component):
    """What a sweep file holds."""

    design: str = Field(description="design file: a path beside this file, or a name of the catalogue")
    set: dict[str, Any] = Field(default_factory=dict, description="values of the design to change first, by path")
    axes: dict[str, Any] = Field(description="by path: a list of values, or {from, to, count, scale: linear or log}")
    sample: str = Field(default="grid", description="grid, list (axes side by side), random, latin_hypercube or sobol")
    points: int | None = Field(default=None, strict=True, description="points to draw, unless a grid or list")
    seed: int = Field(default=0, strict=True, description="of what is drawn")
    outputs: list[str] | None = Field(default=None, description="columns to write; op.NAME is the time of an op")


@dataclass(frozen=True)
class Places:
    """Where the parts of a sweep file stand."""

    tree: Located

    def __call__(self, path: str, item: int | str | None) -> Mark:
        """Place of an axis (`path`) or one of its values, or of a top key (`item`, with no path)."""
        if not path:
            return self.tree.place(str(item))
        axes = self.tree["axes"]
        place = axes.place(path) if isinstance(axes, Located) else self.tree.place("axes")
        node = axes.get(path)
        if isinstance(node, LocatedList) and isinstance(item, int):
            return node.place(item)
        return node.place(item) if isinstance(node, Located) and isinstance(item, str) else place


def read(path: str | Path, *, root: str | Path | None = None, sets: dict[str, str] | None = None) -> Request:
    """The sweep that a file asks for; `sets` change its design further. DesignError with every problem."""
    problems: list[Problem] = []
    tree = source.read(path, root=root, catalogue=catalogue.directory(), problems=problems)
    file = source.validate(SweepFile, tree, problems=problems, keep=("axes", "set"))
    places = Places(tree)
    return Request(
        based(file.design, tree.place("design"), Path(path), root, tree, sets or {}),
        tree["axes"], file.sample, file.points, file.seed, file.outputs, False, places,
    )  # fmt: skip


def based(name: str, mark: Mark, path: Path, root: str | Path | None, tree: Located, sets: Mapping[str, str]) -> Design:
    """The design `name` with what the file `path` (its `tree`) and then the caller set; problems with what the file
    sets in their places. `mark`: where the name stands."""
    found = next((f for f in (path.parent / name, catalogue.directory() / name) if f.is_file()), None)
    if found is None:
        names = [entry.name for entry in catalogue.directory().glob("*.yaml")]
        close = nearest(Path(name).name, names, 1)
        what = f"is no file beside this one or in the catalogue{f'; did you mean {close[0]}?' if close else ''}"
        raise DesignError(Problem("design", what, f'"{name}"', *mark))
    own = {where: json.dumps(value) for where, value in (tree.get("set") or {}).items() if where not in sets}
    try:
        return load(found, root=root, sets={**own, **sets})
    except DesignError as error:
        raise DesignError([_moved(p, tree["set"]) if own else p for p in error.problems]) from None


def _moved(problem: Problem, places: Located) -> Problem:
    key = next((k for k in places if problem.field.startswith(k) or k.startswith(problem.field)), None)
    if problem.file != "--set" or key is None:
        return problem
    return Problem(problem.field, problem.message, problem.value, *places.place(key))
