"""Designs: a system, a workload and a plan read from one file, checked whole, and lowered once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from archmodel import catalogue, source
from archmodel.components.base import Component, OneWord
from archmodel.errors import ArchmodelError, DesignError, Problem
from archmodel.parallel.bottom import bottom_load
from archmodel.parallel.lower import lower
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import PlanError, resolve
from archmodel.program import Layout, Program
from archmodel.quantities import PositiveSeconds, SampleRate
from archmodel.system import System
from archmodel.views import Viewed
from archmodel.workloads.recommendation import Workload, WorkloadFamily


class Fact(Component):
    """A published figure: where it was read, and whether a constant was tuned on it."""

    source: str = Field(description="where the figure was read")
    calibrated: bool = Field(default=False, description="true when a constant of ours was fitted on it")
    value: float


class PublishedRate(Fact):
    """A published throughput."""

    value: SampleRate  # type: ignore[assignment]


class PublishedTime(Fact):
    """A published time."""

    value: PositiveSeconds  # type: ignore[assignment]


class Published(Component):
    """Published figures to hold predictions against."""

    throughput: PublishedRate | None = Field(default=None, description="samples per second of the whole system")
    iteration_time: PublishedTime | None = Field(default=None, description="of one iteration in steady state")
    latency: PublishedTime | None = Field(default=None, description="of one batch")

    def facts(self) -> dict[str, Fact]:
        """The given figures by quantity."""
        named = {n: getattr(self, n) for n in ("throughput", "iteration_time", "latency")}
        return {n: fact for n, fact in named.items() if fact is not None}


class DesignFile(Component):
    """What a design file holds."""

    name: str = Field(description="title for reports")
    system: System = Field(description="the machine")
    workload: Annotated[Workload, WorkloadFamily.field()] = Field(description="the model and its batch")
    plan: Annotated[Plan, OneWord("tables")] = Field(
        default_factory=Plan, description="how the model is laid over the ranks; `auto` decides everything"
    )
    published: Published = Field(default_factory=Published, description="published figures of this very design")


@dataclass(frozen=True, repr=False)
class Design(Viewed):
    """A checked design. Immutable; `with_` gives a changed copy."""

    spec: DesignFile
    tree: source.Located
    path: Path | None = None

    def __repr__(self) -> str:
        return f"<Design {self.name!r}: {self.layout.ranks:,} ranks, global batch {self.workload.global_batch:,}>"

    @property
    def name(self) -> str:
        """Title."""
        return self.spec.name or ""

    @property
    def system(self) -> System:
        """The machine."""
        return self.spec.system

    @property
    def workload(self) -> Workload:
        """The model and its batch."""
        return self.spec.workload

    @property
    def plan(self) -> Plan:
        """The parallel plan as written."""
        return self.spec.plan

    @property
    def published(self) -> dict[str, Fact]:
        """Published figures by quantity."""
        return self.spec.published.facts()

    @property
    def layout(self) -> Layout:
        """How ranks sit on nodes, and what their switch can do for the library (endpoints drive rings of their own)."""
        node = self.system.node
        row = node.scale_up.in_network if node.endpoint is None else None
        return Layout(self.system.nodes, node.gpus, 0.0 if row is None else float(np.max(row.fraction)))

    @cached_property
    def provenance(self) -> dict[str, source.Provenance]:
        """Source and status of every value that has one, by path."""
        return source.provenance(self.tree)

    @cached_property
    def placement(self) -> Placement:
        """The plan resolved into shards. Raises DesignError when the plan cannot be followed."""
        tables, batch = self.workload.table_arrays, self.workload.global_batch
        load = bottom_load(self.workload, self.plan, self.layout)
        try:
            return resolve(self.plan, tables, self.layout, batch, capacities(self.system), load)
        except PlanError as error:
            raise DesignError(
                [source.problem_at(self.tree, path, message) for path, message in error.problems]
            ) from None

    @property
    def automatic_tables(self) -> int:
        """Tables that the plan leaves to the automatic placement, by its default."""
        by_default = self.plan.tables.default.sharding in (None, "auto")
        return int(np.count_nonzero(self.placement.entry == 0)) if by_default else 0

    @cached_property
    def program(self) -> Program:
        """One iteration, lowered."""
        return lower(self.workload, self.plan, self.placement)

    def with_(self, changes: Mapping[str, Any]) -> Design:
        """A copy with fields at dotted paths changed: unit strings, numbers in SI, mappings, or arrays.

        An array holds design points; arrays of one evaluation broadcast against each other. Published figures are those
        of the unchanged design and are left out. Raises DesignError.
        """
        tree = without_published(self.tree, changes)
        for path, value in changes.items():
            if isinstance(value, np.ndarray):
                value = np.asarray(value, dtype=np.float64)[..., None]  # the trailing axis is ranks
            tree = source.set_path(_in_full(tree, path), path, value)
        changed = _checked(tree, self.path, python=True)
        if _same_program(self, changed):
            for name in ("placement", "program"):
                if name in self.__dict__:
                    changed.__dict__[name] = self.__dict__[name]
        return changed


def without_published(tree: source.Located, changes: Iterable[str]) -> source.Located:
    """A changed design is no longer the one that was measured: its published figures go, unless only they change."""
    if "published" not in tree or all(path.split(".")[0] in ("published", "name") for path in changes):
        return tree
    return source.set_path(tree, "published", {})


def _in_full(tree: source.Located, path: str) -> source.Located:
    """The tree with mappings that are one word written out where `path` goes below them: `plan: auto` as
    `plan: {tables: {default: {sharding: auto}}}`."""
    model: type[BaseModel] = DesignFile
    *above, _ = source.split(path)
    here = ""
    for segment in above:
        field = model.model_fields.get(str(segment))
        if field is None:
            break
        here = source.join(here, segment)
        with suppress(KeyError):
            found = source.at(tree, here)
            for word in field.metadata:
                if isinstance(word, OneWord) and word.is_one(found):
                    tree = source.set_path(tree, here, word.in_full(found))
        if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            break
        model = field.annotation
    return tree


def _same_program(old: Design, new: Design) -> bool:
    """Whether nothing changed that placement and lowering look at."""
    same_parts = all(new.tree.get(k) is old.tree.get(k) for k in ("workload", "plan"))
    return same_parts and new.layout == old.layout and capacities(new.system) == capacities(old.system)


def capacities(system: System) -> dict[str, float]:
    """Bytes of each tier that one rank can use, the fastest tier first; the least over design points."""
    usable = system.capacities()
    usable["hbm"] = np.asarray(usable["hbm"]) - system.node.reserved_memory
    return {tier: float(np.min(np.asarray(amount))) for tier, amount in usable.items()}


def load(path: str | Path, *, root: str | Path | None = None, sets: Mapping[str, str] | None = None) -> Design:
    """Read, compose and check a design file, here or else in the catalogue.

    `sets`: {dotted path: text} overrides, as --set gives them.

    `root`: a directory that `use:` and traces may not leave. Raises DesignError with every problem of the file.
    """
    problems: list[Problem] = []
    path = catalogue.located(path)
    tree = source.read(path, root=root, catalogue=catalogue.directory(), problems=problems)
    tree = without_published(tree, sets or {})
    for where, text in (sets or {}).items():
        tree = source.set_path(_in_full(tree, where), where, source.scalar(text), origin="--set")
    design = _checked(tree, Path(path), problems)
    strays = [] if root is None else [source.problem_at(tree, *stray) for stray in _strays(design, Path(root))]
    if strays:
        raise DesignError(strays)
    return design


def _strays(design: Design, root: Path) -> Iterator[tuple[str, str]]:
    """Traces that lie outside `root`, which a file from a stranger must not name."""
    for name, group in getattr(design.workload, "tables", {}).items():
        file = getattr(getattr(group, "access", None), "file", None)
        if file is not None and not Path(file).resolve().is_relative_to(root.resolve()):
            yield source.join(f"workload.tables.{name}.access", "file"), "lies outside the root folder"


def load_system(path: str | Path, *, root: str | Path | None = None) -> System:
    """Read and check a system file, here or else in the catalogue. Raises DesignError."""
    return source.validate(System, source.read(catalogue.located(path), root=root, catalogue=catalogue.directory()))


def _checked(
    tree: source.Located, path: Path | None, problems: list[Problem] | None = None, *, python: bool = False
) -> Design:
    spec = source.validate(DesignFile, tree, python=python, problems=problems or ())
    design = Design(spec, tree, path)
    found = [source.problem_at(tree, where, message) for where, message in _unservable(design)]
    try:
        _ = design.placement
    except DesignError as error:
        found += error.problems
    if found:
        raise DesignError(found)
    return design


def _unservable(design: Design) -> Iterator[tuple[str, str]]:
    """Fabrics that cannot hold the ranks, precisions that the device does not have, a host or layers that are not."""
    try:
        design.system.topology()
    except ArchmodelError as error:
        yield "system.nodes", str(error)
    try:
        design.system.gpu.peak(design.plan.precision.compute)
    except ArchmodelError as error:
        yield "plan.precision.compute", str(error)
    if design.plan.copy_input and design.system.node.host is None:
        yield "plan.copy_input", "copies batches from host memory, but the node has no host"
    if design.plan.bottom_mlp.rank is not None and not getattr(design.workload, "bottom_mlp", ()):
        yield "plan.bottom_mlp.rank", "names a rank, but the workload has no bottom MLP"


def json_schema() -> dict[str, Any]:
    """JSON schema of a design file, for editors."""
    schema: dict[str, Any] = DesignFile.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema
