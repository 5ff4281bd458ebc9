"""Objectives, constraints and the reference of a search file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from archmodel.errors import DesignError, Problem, QuantityError, shown, suggestion
from archmodel.quantities import DIMENSIONS, to_si
from archmodel.search.aims import RACK, Constraint, Objective, Quantity, described, smaller_is_better
from archmodel.search.file_ground import Ground
from archmodel.source import Located, LocatedList, Mark
from archmodel.sweep.outputs import DEFAULT, OUTPUTS, unknown

MOST_OBJECTIVES = 4
"""Hypervolume is computed exactly for so many objectives."""

_LIMIT = re.compile(r"\s*(<=|>=|<|>)\s*(.*)", re.DOTALL)


class AimsOf(Ground):
    """Reads `objectives`, `constraints`, `reference`."""

    def quantity(self, key: str, name: Any, mark: Mark) -> Quantity:
        """An output by the name that a file gives it. DesignError names the nearest."""
        family: str | None = None
        rest = name if isinstance(name, str) else ""
        head, dot, tail = rest.partition(".")
        if dot and head in self.designs:
            family, rest = head, tail
        names = [*OUTPUTS, RACK]
        why = "" if rest == RACK else f"is no output; {suggestion(shown(name), names)}"
        if rest != RACK and isinstance(name, str):
            models = self.designs if family is None else {family: self.designs[family]}
            why = next((w for d in models.values() if (w := unknown(rest, d.program))), "")
        if why:
            raise DesignError(Problem(key, why, shown(name), *mark))
        return Quantity(rest, family)

    def objectives(self) -> tuple[Objective, ...]:
        given = self.tree.get("objectives")
        if isinstance(given, str):
            given = LocatedList([given], "objectives", self.tree.place("objectives"))
        if not isinstance(given, Located | LocatedList) or not given:
            what = (
                f"names nothing; a list, or a map to max or min, of {', '.join([*DEFAULT[:7], 'nodes', 'price'])}, ..."
            )
            raise DesignError(self.tree.problem("objectives", what))
        keys: Any = list(given) if isinstance(given, Located) else range(len(given))
        problems: list[Problem] = []
        found: list[Objective] = []
        for key in keys:
            name = key if isinstance(given, Located) else given[key]
            mark = given.place(key)
            sense = given[key] if isinstance(given, Located) else None
            try:
                of = self.quantity("objectives", name, mark)
                if sense not in (None, "max", "min"):
                    raise DesignError(Problem(f"objectives.{name}", "is neither max nor min", shown(sense), *mark))
                if any(o.of == of for o in found):
                    raise DesignError(Problem("objectives", "is named twice", shown(name), *mark))
                found.append(Objective(of, not smaller_is_better(of.name) if sense is None else sense == "max"))
            except DesignError as error:
                problems += error.problems
        if not problems and len(found) > MOST_OBJECTIVES:
            what = f"names {len(found)}; a front of more than {MOST_OBJECTIVES} is nearly every point"
            problems.append(self.tree.problem("objectives", what))
        if problems:
            raise DesignError(problems)
        return tuple(found)

    def constraints(self) -> tuple[Constraint, ...]:
        tree = self.section("constraints")
        problems: list[Problem] = []
        found: list[Constraint] = []
        for name, given in tree.items():
            mark = tree.place(name)
            try:
                of = self.quantity("constraints", name, mark)
                found += [self.constraint(of, item, mark) for item in (given if isinstance(given, list) else [given])]
            except DesignError as error:
                problems += error.problems
        if problems:
            raise DesignError(problems)
        return tuple(found)

    def constraint(self, of: Quantity, given: Any, mark: Mark) -> Constraint:
        if isinstance(given, Mapping):
            given = given.get("value")
        match = _LIMIT.fullmatch(given) if isinstance(given, str) else None
        if match is None:
            what = 'is no limit; write e.g. "<= 40 kW" or ">= 1 Msample/s"'
            raise DesignError(Problem(f"constraints.{of.label}", what, shown(given), *mark))
        return Constraint(of, self.limit(f"constraints.{of.label}", of, match[2], mark), match[1].startswith("<"))

    def limit(self, where: str, of: Quantity, text: Any, mark: Mark) -> float:
        """A value of an output in SI."""
        unit = described(of.name).unit
        dimension = next((name for name, d in DIMENSIONS.items() if d.unit == unit and unit), "ratio")
        if of.name == "usd_per_million_samples":
            try:
                return float(to_si(text, "usd_per_sample", bare=False)) * 1e6
            except QuantityError:
                pass
        return self.number(where, text, dimension, mark)

    def reference(self, objectives: tuple[Objective, ...]) -> dict[str, float] | None:
        given = self.section("reference")
        known = {o.of.label: o for o in objectives}
        problems: list[Problem] = []
        found: dict[str, float] = {}
        for name, text in given.items():
            mark = given.place(name)
            if name not in known:
                problems.append(
                    Problem(f"reference.{name}", f"is no objective; {suggestion(name, known)}", None, *mark)
                )
                continue
            try:
                found[name] = self.limit(f"reference.{name}", known[name].of, text, mark)
            except DesignError as error:
                problems += error.problems
        if given and not problems and len(found) < len(known):
            missing = ", ".join(n for n in known if n not in found)
            problems.append(self.tree.problem("reference", f"has no {missing}; name every objective, or none"))
        if problems:
            raise DesignError(problems)
        return found or None
