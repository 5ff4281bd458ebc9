"""Published figures: those of the catalogue's designs and those of `facts.yaml`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.design import Design, load
from archmodel.errors import ArchmodelError
from archmodel.quantities import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Quantity = Literal["throughput", "iteration_time", "latency"]
DIMENSION: dict[Quantity, str] = {
    "throughput": "sample_rate",
    "iteration_time": "seconds",
    "latency": "seconds",
}
"""What each published quantity is measured in; `Estimate` has an attribute of each name."""

FACTS = Path(__file__).with_name("facts.yaml")


class FactError(ArchmodelError):
    """Facts that cannot be held against a prediction; the message names each and says why."""


@dataclass(frozen=True)
class PublishedFact:
    """One published figure, in SI, and the design it is of: a catalogue file and what differs from it."""

    id: str
    group: str
    design: str
    quantity: Quantity
    value: float
    source: str
    calibrated: bool = False
    note: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Design:
        """The design that the figure is of. Raises ArchmodelError."""
        design = _design(self.design)
        return design.with_(self.changes) if self.changes else design


class Series(Component):
    """Entries of `facts.yaml`: one figure, or several `points` that differ in the field `vary`."""

    design: str = Field(description="path of the design in the catalogue")
    group: str = Field(description="what the figure is reported under")
    source: str = Field(description="where the figures were read")
    quantity: Quantity = Field(default="throughput", description="what was published")
    set: dict[str, Any] = Field(default_factory=dict, description="fields that differ from the design, by path")
    value: str | None = Field(default=None, description="the figure, with its unit")
    vary: str | None = Field(default=None, description="path of the field that the points differ in")
    points: list[tuple[Any, str]] = Field(default_factory=list, description="[value of the field, figure]")
    calibrated: bool = Field(default=False, description="whether a constant of ours was fitted on it")

    @model_validator(mode="after")
    def _one_or_many(self) -> Series:
        if (self.value is None) == (not self.points):
            raise ValueError("needs exactly one of value and points")
        if bool(self.points) != (self.vary is not None):
            raise ValueError("needs vary and points together")
        return self

    def facts(self, name: str) -> Iterator[PublishedFact]:
        """The figures as facts; those of points are called `name.point`."""
        if self.value is not None:
            yield self._fact(name, self.value, {})
        for at, value in self.points:
            yield self._fact(f"{name}.{at}", value, {str(self.vary): at})

    def _fact(self, name: str, value: str, change: Mapping[str, Any]) -> PublishedFact:
        return PublishedFact(
            id=name,
            group=self.group,
            design=self.design,
            quantity=self.quantity,
            value=parse(value, DIMENSION[self.quantity]),
            source=self.source,
            calibrated=self.calibrated,
            note=self.note or "",
            changes={**self.set, **change},
        )


class FactsFile(Component):
    """What `facts.yaml` holds."""

    groups: dict[str, str] = Field(description="group of the figures in the catalogue's designs, by file pattern")
    facts: dict[str, Series] = Field(description="figures of variants, by name")


def facts() -> tuple[PublishedFact, ...]:
    """Every published figure: designs of the catalogue first, then variants.

    Raises FactError when a design of the catalogue does not load or belongs to no group, DesignError when
    `facts.yaml` does not.
    """
    file = source.validate(FactsFile, source.read(FACTS), keep=())
    variants = [fact for name, series in file.facts.items() for fact in series.facts(name)]
    return (*_of_designs(file.groups), *variants)


def _of_designs(groups: Mapping[str, str]) -> tuple[PublishedFact, ...]:
    found: list[PublishedFact] = []
    problems: list[str] = []
    for entry in catalogue.entries("design"):
        try:
            published = _design(entry.path).published
        except ArchmodelError as error:
            problems.append(f"{entry.path} does not load:\n{error}")
            continue
        group = next((name for pattern, name in groups.items() if fnmatchcase(entry.path, pattern)), None)
        if published and group is None:
            problems.append(f"{entry.path} has published figures but no group in {FACTS.name} takes it")
            continue
        for quantity, fact in published.items():
            found.append(
                PublishedFact(
                    id=Path(entry.path).stem if len(published) == 1 else f"{Path(entry.path).stem}.{quantity}",
                    group=str(group),
                    design=entry.path,
                    quantity=quantity,  # type: ignore[arg-type]
                    value=fact.value,
                    source=fact.source or "",
                    calibrated=fact.calibrated,
                    note=fact.note or "",
                )
            )
    if problems:
        raise FactError("\n".join(problems))
    return tuple(found)


@cache
def _design(path: str) -> Design:
    return load(catalogue.find(path))
