"""Search files: a design or several, knobs, constraints and objectives, in YAML or as the same mapping in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.design import Design
from archmodel.errors import DesignError, Problem, shown
from archmodel.quantities import Count, Ratio
from archmodel.search.aims import Aims
from archmodel.search.file_aims import AimsOf
from archmodel.search.file_follows import Follows
from archmodel.search.file_ground import Ground
from archmodel.search.file_knobs import Knobs
from archmodel.source import Located, Mark
from archmodel.sweep.axes import Axis
from archmodel.sweep.file import based
from archmodel.sweep.follow import Follow
from archmodel.sweep.job import Job, Replan
from archmodel.sweep.outputs import DEFAULT, OUTPUTS
from archmodel.sweep.prepare import axes_of, job_of

TRIALS, CELLS = 4, 9
"""Plans tried each time that a design is planned when a file says `replan: true`, and for how many values of its
bandwidths and rates it is."""

Method = Literal["auto", "enumerate", "nsga2"]


class ReplanFile(Component):
    """How each design's tables are placed anew."""

    trials: Count | None = Field(default=None, description="plans tried each time; the same answer every time")
    budget: str | None = Field(default=None, description="time for each plan; the plans depend on the machine")
    cells: Count = Field(default=CELLS, description="values of a design's bandwidths and rates that it is planned for")


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
    return _asked(file, Ground(tree, path, root, designs, isinstance(given, Mapping)))


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
        if name and (not name.isidentifier() or name in (*OUTPUTS, "op", "tier")):
            problems.append(Problem(f"designs.{name}", "is no name for a model; write a word that is no output", *mark))
            continue
        if isinstance(loaded, Design):
            found[name] = loaded.with_({**(tree.get("set") or {}), **{k: source.scalar(v) for k, v in sets.items()}})
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


def _asked(file: SearchFile, ground: Ground) -> Asked:
    """The search that a checked file asks for; DesignError with every problem."""
    parts = (ground.tree, ground.path, ground.root, ground.designs, ground.bare)
    knobs_of, follows_of, aims_of = Knobs(*parts), Follows(*parts), AimsOf(*parts)
    problems: list[Problem] = []

    def tried(make: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return make()
        except DesignError as error:
            problems.extend(error.problems)
            return otherwise

    objectives = tried(aims_of.objectives, ())
    constraints = tried(aims_of.constraints, ())
    follows = tried(follows_of.follows, ())
    replan = tried(lambda: _replan(file, ground), None)
    reference = tried(lambda: aims_of.reference(objectives), None)
    extra = tried(lambda: _outputs(file, aims_of), ())
    knobs: dict[str, Any] = tried(knobs_of.knobs, {})
    found: list[tuple[Axis, ...]] = []
    if knobs:
        requests = [knobs_of.request(design, knobs) for design in ground.designs.values()]
        found = [tried(partial(axes_of, request), ()) for request in requests]
    if not problems:
        problems += _clashes(ground, found[0], follows)
    if problems:
        raise DesignError(problems)
    axes = _joint(found)
    aims = Aims(objectives, constraints, tuple(ground.designs), file.nodes_per_rack)
    outputs = tuple(dict.fromkeys([*aims.outputs(), *extra]))
    jobs = tuple(job_of(design, axes, outputs, follows, replan) for design in ground.designs.values())
    name = file.name or ground.path.stem
    return Asked(
        jobs, aims, file.method, file.points, file.population, file.seed, reference, float(file.crossover), name
    )


def _replan(file: SearchFile, ground: Ground) -> Replan | None:
    how = file.replan
    if how is False or how is True:
        return Replan(TRIALS, None, file.seed, CELLS) if how else None
    tree = ground.tree["replan"]
    if how.budget is None:
        return Replan(how.trials or TRIALS, None, file.seed, how.cells)
    if how.trials is not None:
        raise DesignError(ground.tree.problem("replan", "states trials and budget; one of them ends the planner"))
    seconds = ground.number("replan.budget", how.budget, "seconds", tree.place("budget"))
    return Replan(None, seconds, file.seed, how.cells)


def _outputs(file: SearchFile, aims: AimsOf) -> tuple[str, ...]:
    asked = DEFAULT if file.outputs is None else tuple(file.outputs)
    return tuple(aims.quantity("outputs", name, aims.tree.place("outputs")).column for name in asked)


def _clashes(ground: Ground, axes: tuple[Axis, ...], follows: tuple[Follow, ...]) -> list[Problem]:
    """Fields that two things set."""
    set_by: dict[str, str] = {}
    problems = []
    for axis in axes:
        inner = {path for value in axis.values or () for path in value} if axis.bundle else {axis.path}
        for path in sorted(inner):
            if path in set_by:
                what = f"is set by the knob {set_by[path]} too"
                problems.append(Problem(f"knobs.{axis.path}", what, path, *ground.place(axis.path, None)))
            set_by[path] = axis.path
    for follow in follows:
        if follow.path in set_by and follow.base is not None:
            mark = ground.tree["follows"].place(follow.path)
            what = f"starts from a base of its own and is set by the knob {set_by[follow.path]}"
            problems.append(Problem(f"follows.{follow.path}", what, None, *mark))
    return problems


def _joint(found: list[tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """The axes of all models: an axis goes into a pass only where all of them allow it."""
    return tuple(replace(axis, numeric=all(axes[i].numeric for axes in found)) for i, axis in enumerate(found[0]))
