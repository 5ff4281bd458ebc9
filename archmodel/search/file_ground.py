"""What all readers of a search file share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archmodel import source
from archmodel.design import Design
from archmodel.errors import DesignError, Problem, QuantityError, shown
from archmodel.quantities import to_si
from archmodel.source import Located, LocatedList, Mark
from archmodel.sweep.prepare import dimension_at


@dataclass(frozen=True)
class Ground:
    """The tree of a search file, where it stands, and the designs that it names. `bare`: numbers are SI, as in Python;
    in a file they need units."""

    tree: Located
    path: Path
    root: str | Path | None
    designs: Mapping[str, Design]
    bare: bool

    def section(self, key: str) -> Located:
        """A mapping of the file; an empty one where there is none."""
        found = self.tree.get(key)
        return found if isinstance(found, Located) else Located()

    def dimension(self, where: str, path: str, mark: Mark, *, counts: bool = False) -> str:
        """The dimension of the field `path` in the designs; "ratio" for a count."""
        design = next(iter(self.designs.values()))
        found = dimension_at(design.spec, path)
        if found is None and counts:
            try:
                value = source.at(design.tree, path)
            except KeyError:
                value = None
            if isinstance(value, int) and not isinstance(value, bool):
                return "ratio"
        if found is None:
            raise DesignError(Problem(where, "names no quantity of the design", shown(path), *mark))
        return found

    def number(self, where: str, value: Any, dimension: str, mark: Mark) -> float:
        """SI value of a number or a cited one."""
        if isinstance(value, Mapping):
            value = value.get("value")
        try:
            return float(to_si(value, dimension, bare=self.bare or value == 0))
        except QuantityError as error:
            raise DesignError(Problem(where, error.message, shown(value), *mark)) from None

    def place(self, path: str, item: int | str | None) -> Mark:
        """Place of a knob, or of one of its values; or of a top key (`item`, with no path)."""
        if not path:
            return self.tree.place(str(item))
        knobs = self.tree["knobs"]
        mark: Mark = knobs.place(path)
        node = knobs.get(path)
        if isinstance(node, Located) and isinstance(node.get("options"), Located):
            options = node["options"]
            return options.place(list(options)[item]) if isinstance(item, int) else mark
        if isinstance(node, LocatedList) and isinstance(item, int):
            return node.place(item)
        return node.place(item) if isinstance(node, Located) and isinstance(item, str) else mark
