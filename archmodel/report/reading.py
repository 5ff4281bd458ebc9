"""Which fields of a machine a law reads: a stand-in that runs the same code and takes notes.

`Reading(system, "system", notes)` behaves like the component, its methods and properties included; every field that
is read through it is noted under its dotted path. So `explain` needs no list of inputs for any law, ours or a plugin's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import Any

from pydantic import BaseModel

from archmodel.components.base import fields
from archmodel.source import join

_ABOUT = frozenset({"kind", "name", "source", "status", "note", "fitted_on"})


@dataclass(frozen=True, slots=True)
class Input:
    """A field that was read: its value in SI, its dimension (None: a plain number or a choice), its meaning."""

    value: Any
    dimension: str | None
    description: str


@dataclass(slots=True)
class Notes:
    """Fields read so far, by path; and laws called on components, by their qualified name."""

    inputs: dict[str, Input] = field(default_factory=dict)
    laws: dict[str, FunctionType] = field(default_factory=dict)


class Reading:
    """A component that notes what is read of it."""

    __slots__ = ("_notes", "_parts", "_path", "_target")

    def __init__(self, target: BaseModel, path: str, notes: Notes) -> None:
        self._parts: dict[str, Reading] = {}
        self._target = target
        self._path = path
        self._notes = notes

    @property
    def __class__(self) -> type:
        """What `isinstance` is told."""
        return type(self._target)

    @__class__.setter
    def __class__(self, other: type) -> None:
        raise TypeError("a reading keeps its class")

    def __getattr__(self, name: str) -> Any:
        target = self._target
        if name in type(target).model_fields:
            return self._noted(name, getattr(target, name))
        found = getattr_static(type(target), name, None)
        if isinstance(found, FunctionType):
            if not name.startswith("_"):
                self._notes.laws.setdefault(f"{found.__module__}.{found.__qualname__}", found)
            return MethodType(found, self)
        if isinstance(found, property) and found.fget is not None:
            return found.fget(self)
        if isinstance(found, cached_property):
            return found.func(self)
        return getattr(target, name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Reading:
        """A changed copy, as components make them, which notes what is read of it under the same paths."""
        plain = {name: value._target if isinstance(value, Reading) else value for name, value in (update or {}).items()}
        return Reading(self._target.model_copy(update=plain, deep=deep), self._path, self._notes)

    def __eq__(self, other: object) -> bool:
        return self._target == (other._target if isinstance(other, Reading) else other)

    def __hash__(self) -> int:
        return hash(self._target)

    def _noted(self, name: str, value: Any) -> Any:
        path = join(self._path, name)
        if isinstance(value, BaseModel):
            return self._parts.setdefault(name, Reading(value, path, self._notes))  # the same part is the same object
        if name in _ABOUT or value is None:
            return value
        row = next((row for row in fields(type(self._target)) if row.name == name), None)
        dimension, description = (row.dimension, row.description) if row else (None, "")
        if isinstance(value, Mapping):
            return _Map(value, path, self._notes, dimension, description)
        self._notes.inputs.setdefault(path, Input(value, dimension, description))
        return value


class _Map(Mapping[Any, Any]):
    """A mapping field; each entry is noted when it is looked up."""

    def __init__(
        self, target: Mapping[Any, Any], path: str, notes: Notes, dimension: str | None, description: str
    ) -> None:
        self._target = target
        self._path = path
        self._notes = notes
        self._about = (dimension, description)

    def __getitem__(self, key: Any) -> Any:
        value = self._target[key]
        path = join(self._path, str(key))
        if isinstance(value, BaseModel):
            return Reading(value, path, self._notes)
        self._notes.inputs.setdefault(path, Input(value, *self._about))
        return value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)
