"""Search files: a design or several, knobs, constraints and objectives, in YAML or as the same mapping in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.design import Design, DesignFile
from archmodel.errors import DesignError, Problem, QuantityError, shown, suggestion
from archmodel.quantities import DIMENSIONS, Count, Ratio, to_si
from archmodel.search.aims import RACK, Aims, Constraint, Objective, Quantity, described, smaller_is_better
from archmodel.source import Located, LocatedList, Mark
from archmodel.sweep.axes import Axis, Options
from archmodel.sweep.file import based
from archmodel.sweep.follow import Follow, Term
from archmodel.sweep.job import Job, Replan
from archmodel.sweep.outputs import DEFAULT, OUTPUTS, unknown
from archmodel.sweep.prepare import Request, axes_of, dimension_at, job_of

TRIALS = 4
"""Plans tried for each design when a file says `replan: true`."""

Method = Literal["auto", "enumerate", "nsga2"]

_LIMIT = re.compile(r"\s*(<=|>=|<|>)\s*(.*)", re.DOTALL)


class ReplanFile(Component):
    """How each design's tables are placed anew."""

    trials: Count | None = Field(default=None, description="plans tried for each design; the same answer every time")
    budget: str | None = Field(default=None, description="time for each design; the plans depend on the machine")


class SearchFile(Component):
    """What a search file holds."""

    design: Any = Field(default=None, description="design file: a path beside this file, or a name of the catalogue")
    designs: dict[str, Any] | None = Field(default=None, description="several of them, by name, in place of design")
    set: dict[str, Any] = Field(default_factory=dict, description="values of the designs to change first, by path")
    knobs: dict[str, Any] = Field(
        description="by path: a list of values or of parts, or {from, to, count, scale: linear or log}, or "
        "{options: {name: value}}; a knob of another name has options that set several paths"
    )
    follows: dict[str, Any] = Field(
        default_factory=dict, description="by path: {base, terms: [{of, adds, each, beyond}]}, straight lines in knobs"
    )
    constraints: dict[str, Any] = Field(default_factory=dict, description="by output: <= or >= and a limit")
    objectives: Any = Field(description="outputs to make best: a list, or a map to max or min")
    nodes_per_rack: Count = Field(default=1, description="nodes of a rack, for peak_power_per_rack")
    replan: bool | ReplanFile = Field(default=False, description="place tables anew for each design")
    method: Method = Field(default="auto", description="auto, enumerate or nsga2")
    points: Count | None = Field(default=None, description="points to evaluate at most")
    population: Count | None = Field(default=None, description="points of a generation of nsga2")
    seed: int = Field(default=0, ge=0, lt=2**32, strict=True, description="of what is drawn")
    reference: dict[str, Any] = Field(
        default_factory=dict, description="by objective: the corner from which hypervolume is measured"
    )
    outputs: list[str] | None = Field(default=None, description="further columns; op.NAME is the time of an op")
    crossover: Ratio = Field(default=0.9, le=1.0, description="share of children of nsga2 that have two parents")


@dataclass(frozen=True)
class Asked:
    """A search as asked for: one job for each model, over the same axes."""

    jobs: tuple[Job, ...]
    aims: Aims
    method: Method = "auto"
    points: int | None = None
    population: int | None = None
    seed: int = 0
    reference: Mapping[str, float] | None = None
    crossover: float = 0.9
    name: str = ""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Knobs."""
        return self.jobs[0].space.axes


def read(
    given: str | Path | Mapping[str, Any],
    *,
    root: str | Path | None = None,
    sets: Mapping[str, str] | None = None,
) -> Asked:
    """The search that a file, or a mapping like one, asks for; `sets` change its designs further. DesignError with
    every problem, each in its place."""
    problems: list[Problem] = []
    if isinstance(given, Mapping):
        whole: dict[str, Any] = {k: v for k, v in given.items() if k not in ("design", "designs")}
        held = {k: given[k] for k in ("design", "designs") if k in given}
        tree = source.located({**whole, **{k: _mapped(v) for k, v in held.items()}}, "", Mark("search"))
        path = Path("search")
    else:
        tree = source.read(given, root=root, catalogue=catalogue.directory(), problems=problems)
        path, held = Path(given), {}
    keep = ("knobs", "set", "follows", "constraints", "objectives", "reference")
    file = source.validate(SearchFile, tree, problems=problems, keep=keep)
    designs = _designs(file, held, path, root, tree, sets or {})
    return _Reader(file, tree, path, root, designs, isinstance(given, Mapping)).asked()


def _mapped(value: Any) -> Any:
    """What the tree of a mapping holds in the place of designs that are loaded already."""
    if isinstance(value, Design):
        return value.name
    return {k: _mapped(v) for k, v in value.items()} if isinstance(value, Mapping) else str(value)


def _designs(
    file: SearchFile,
    held: Mapping[str, Any],
    path: Path,
    root: str | Path | None,
    tree: Located,
    sets: Mapping[str, str],
) -> dict[str, Design]:
    if (file.design is None) == (file.designs is None):
        raise DesignError(tree.problem(None, "needs design, or designs by name: exactly one of the two"))
    named: Mapping[str, Any] = {"": file.design} if file.designs is None else file.designs
    given = {"": held.get("design")} if file.designs is None else held.get("designs", {})
    if not named:
        raise DesignError(tree.problem("designs", "is empty; name at least one design"))
    found: dict[str, Design] = {}
    problems: list[Problem] = []
    for name, text in named.items():
        mark = tree["designs"].place(name) if name else tree.place("design")
        loaded = given.get(name)
        if name and (not name.isidentifier() or name in (*OUTPUTS, "op")):
            problems.append(Problem(f"designs.{name}", "is no name for a model; write a word that is no output", *mark))
            continue
        if isinstance(loaded, Design):
            found[name] = loaded.with_({**(tree.get("set") or {}), **sets})
            continue
        if not isinstance(text, str):
            problems.append(Problem("design", "is not the path of a file", shown(text), *mark))
            continue
        try:
            found[name] = based(text, mark, path, root, tree, sets)
        except DesignError as error:
            problems += error.problems
    if problems:
        raise DesignError(problems)
    return found


@dataclass
class _Reader:
    """Turns the parts of a file into a search, collecting what is wrong."""

    file: SearchFile
    tree: Located
    path: Path
    root: str | Path | None
    designs: dict[str, Design]
    bare: bool

    def asked(self) -> Asked:
        problems: list[Problem] = []

        def tried(make: Any, otherwise: Any) -> Any:
            try:
                return make()
            except DesignError as error:
                problems.extend(error.problems)
                return otherwise

        objectives = tried(self.objectives, ())
        constraints = tried(self.constraints, ())
        follows = tried(self.follows, ())
        replan = tried(self.replan, None)
        reference = tried(lambda: self.reference(objectives), None)
        knobs = tried(self.knobs, None)
        families = tuple(self.designs)
        aims = Aims(objectives, constraints, families, self.file.nodes_per_rack)
        extra = tried(self.outputs, ())
        found: list[tuple[Axis, ...]] = []
        for design in self.designs.values():
            if knobs is not None:
                found.append(tried(lambda d=design: axes_of(self.request(d, knobs)), ()))
        if not problems:
            problems += self.clashes(found[0], follows)
        if problems:
            raise DesignError(problems)
        axes = _joint(found)
        outputs = tuple(dict.fromkeys([*aims.outputs(), *extra]))
        jobs = tuple(job_of(design, axes, outputs, follows, replan) for design in self.designs.values())
        file = self.file
        name = file.name or self.path.stem
        return Asked(
            jobs, aims, file.method, file.points, file.population, file.seed, reference, float(file.crossover), name
        )

    def section(self, key: str) -> Located:
        """A mapping of the file; an empty one where there is none."""
        found = self.tree.get(key)
        return found if isinstance(found, Located) else Located()

    # --- knobs -----------------------------------------------------------------------------------------------

    def request(self, design: Design, knobs: Mapping[str, Any]) -> Request:
        return Request(design, knobs, "random", 1, bare=self.bare, places=self.place)

    def place(self, path: str, item: int | str | None) -> Mark:
        """Place of a knob, or of one of its values."""
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

    def knobs(self) -> dict[str, Any]:
        """Knobs as axes are asked for, parts read from their files."""
        knobs = self.tree["knobs"]
        if not isinstance(knobs, Located) or not knobs:
            what = "is empty; name at least one path, e.g. system.node.gpu.hbm.bandwidth, and its values"
            raise DesignError(self.tree.problem("knobs", what))
        problems: list[Problem] = []
        found: dict[str, Any] = {}
        for path, given in knobs.items():
            try:
                found[path] = self.knob(path, given)
            except DesignError as error:
                problems += error.problems
        if problems:
            raise DesignError(problems)
        return found

    def knob(self, path: str, given: Any) -> Any:
        if isinstance(given, Mapping) and "options" in given:
            options = given["options"]
            if not isinstance(options, Located) or not options or len(given) > 1:
                what = "is not {options: {name: value, ...}} with at least one option and nothing else"
                raise DesignError(Problem(f"knobs.{path}", what, None, *self.place(path, None)))
            together = "." not in path and path not in DesignFile.model_fields
            return Options({name: self.option(path, options, name, together) for name in options}, together)
        if isinstance(given, list) and any(self.is_part(path, item) for item in given):
            parts = {_name(item): self.part(path, item, self.place(path, i)) for i, item in enumerate(given)}
            if len(parts) == len(given):
                return Options(parts)
            return [self.part(path, item, self.place(path, i)) for i, item in enumerate(given)]
        return given

    def option(self, path: str, options: Located, name: str, together: bool) -> Any:
        value, mark = options[name], options.place(name)
        if not together:
            return self.part(path, value, mark)
        if not isinstance(value, Located) or not value:
            what = "sets nothing; write the paths that it sets and their values"
            raise DesignError(Problem(f"knobs.{path}.options.{name}", what, None, *mark))
        return {inner: self.part(inner, item, value.place(inner)) for inner, item in value.items()}

    def is_part(self, path: str, value: Any) -> bool:
        """Whether text stands for a file: where the designs hold a mapping."""
        if not isinstance(value, str) or value == "auto":
            return False
        try:
            return any(isinstance(source.at(d.tree, path), Mapping) for d in self.designs.values()) and (
                not any(_cited(source.at(d.tree, path)) for d in self.designs.values())
            )
        except (KeyError, DesignError):
            return False

    def part(self, path: str, value: Any, mark: Mark) -> Any:
        """A value; the content of the file that it names, where it names one."""
        if not self.is_part(path, value):
            return value
        folder = catalogue.directory()
        files = {p.stem: p for p in sorted(folder.glob("*/*.yaml"))}
        known = {**files, **{p.relative_to(folder).as_posix(): p for p in files.values()}}
        beside = [self.path.parent / value, self.path.parent / f"{value}.yaml"]
        found = next((p for p in beside if p.is_file()), known.get(value))
        if found is None:
            what = f"is no file beside this one or in the catalogue; {suggestion(value, list(files))}"
            raise DesignError(Problem(path, what, shown(value), *mark))
        return source.read(found, root=self.root, catalogue=folder)

    # --- what follows ----------------------------------------------------------------------------------------

    def follows(self) -> tuple[Follow, ...]:
        problems: list[Problem] = []
        found: list[Follow] = []
        tree = self.section("follows")
        for path, given in tree.items():
            try:
                found.append(self.follow(path, given, tree.place(path)))
            except DesignError as error:
                problems += error.problems
        if problems:
            raise DesignError(problems)
        return tuple(found)

    def follow(self, path: str, given: Any, mark: Mark) -> Follow:
        where = f"follows.{path}"
        dimension = self.dimension(where, path, mark)
        if not isinstance(given, Located):
            raise DesignError(Problem(where, "is not {base, terms}", shown(given), *mark))
        self.known(where, given, ("base", "terms"), ("terms",))
        base = (
            None if "base" not in given else self.number(f"{where}.base", given["base"], dimension, given.place("base"))
        )
        terms = given["terms"]
        if not isinstance(terms, LocatedList) or not terms:
            raise DesignError(
                Problem(f"{where}.terms", "is not a list of {of, adds, each}", None, *given.place("terms"))
            )
        return Follow(path, tuple(self.term(where, dimension, terms, i) for i in range(len(terms))), base)

    def term(self, where: str, dimension: str, terms: LocatedList, index: int) -> Term:
        given, mark = terms[index], terms.place(index)
        where = f"{where}.terms[{index}]"
        if not isinstance(given, Located):
            raise DesignError(Problem(where, "is not {of, adds, each}", shown(given), *mark))
        self.known(where, given, ("of", "adds", "each", "beyond"), ("of", "adds", "each"))
        of = given["of"]
        if not isinstance(of, str):
            raise DesignError(Problem(f"{where}.of", "is not the path of a field", shown(of), *given.place("of")))
        measured = self.dimension(f"{where}.of", of, given.place("of"), counts=True)
        each = self.number(f"{where}.each", given["each"], measured, given.place("each"))
        if each == 0:
            raise DesignError(Problem(f"{where}.each", "is zero", None, *given.place("each")))
        beyond = self.number(f"{where}.beyond", given.get("beyond", 0), measured, given.place("beyond"))
        return Term(of, self.number(f"{where}.adds", given["adds"], dimension, given.place("adds")), each, beyond)

    def known(self, where: str, given: Located, keys: tuple[str, ...], needed: tuple[str, ...]) -> None:
        about = ("source", "status", "note", "name")
        problems = []
        for key in given:
            if key not in (*keys, *about):
                what = f"unknown field; {suggestion(key, keys)}"
                problems.append(Problem(f"{where}.{key}", what, None, *given.place(key)))
        missing = [key for key in needed if key not in given]
        if missing:
            problems.append(Problem(where, f"has no {' and no '.join(missing)}", None, *given.mark))
        if problems:
            raise DesignError(problems)

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

    # --- aims ------------------------------------------------------------------------------------------------

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

    def replan(self) -> Replan | None:
        how = self.file.replan
        if how is False or how is True:
            return Replan(TRIALS, None, self.file.seed) if how else None
        tree = self.tree["replan"]
        if how.budget is None:
            return Replan(how.trials or TRIALS, None, self.file.seed)
        if how.trials is not None:
            raise DesignError(self.tree.problem("replan", "states trials and budget; one of them ends the planner"))
        return Replan(None, self.number("replan.budget", how.budget, "seconds", tree.place("budget")), self.file.seed)

    def outputs(self) -> tuple[str, ...]:
        asked = DEFAULT if self.file.outputs is None else tuple(self.file.outputs)
        return tuple(self.quantity("outputs", name, self.tree.place("outputs")).column for name in asked)

    def clashes(self, axes: tuple[Axis, ...], follows: tuple[Follow, ...]) -> list[Problem]:
        """Fields that two things set."""
        set_by: dict[str, str] = {}
        problems = []
        for axis in axes:
            inner = {path for value in axis.values or () for path in value} if axis.bundle else {axis.path}
            for path in sorted(inner):
                if path in set_by:
                    what = f"is set by the knob {set_by[path]} too"
                    problems.append(Problem(f"knobs.{axis.path}", what, path, *self.place(axis.path, None)))
                set_by[path] = axis.path
        for follow in follows:
            if follow.path in set_by and follow.base is not None:
                mark = self.tree["follows"].place(follow.path)
                what = f"starts from a base of its own and is set by the knob {set_by[follow.path]}"
                problems.append(Problem(f"follows.{follow.path}", what, None, *mark))
        return problems


MOST_OBJECTIVES = 4
"""Hypervolume is computed exactly for so many objectives."""


def _cited(node: Any) -> bool:
    from archmodel.source.provenance import is_cited

    return is_cited(node)


def _name(item: Any) -> str:
    if isinstance(item, Mapping):
        return str(item.get("name", sorted(item)))
    return str(item)


def _joint(found: list[tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """The axes of all models: an axis goes into a pass only where all of them allow it."""
    from dataclasses import replace

    return tuple(replace(axis, numeric=all(axes[i].numeric for axes in found)) for i, axis in enumerate(found[0]))
