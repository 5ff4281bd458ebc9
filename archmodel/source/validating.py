"""A located tree to a pydantic model; everything that is wrong becomes a `Problem` with its place.

pydantic reports errors by location tuples. Walking such a tuple down the tree gives the file, line and
column; walking it down the model's annotations gives the fields that would have been accepted there.
"""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, runtime_checkable

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from archmodel.errors import DesignError, Problem, QuantityError, listed, nearest, shown, suggestion
from archmodel.quantities import STATUSES, Quantity, dimension
from archmodel.source.provenance import ABOUT, CITATION, KEPT, is_cited, strip
from archmodel.source.tree import NOWHERE, Located, Mark, join, place

M = TypeVar("M", bound=BaseModel)


@runtime_checkable
class Chooses(Protocol):
    """Annotation metadata that picks the model of a mapping, as `Family.field()` does."""

    def model_for(self, value: Any) -> type[BaseModel] | None:
        """The model that will read `value`, or None."""


def validate(
    cls: type[M],
    tree: Any,
    *,
    python: bool = False,
    problems: Iterable[Problem] = (),
    keep: Collection[str] = KEPT,
) -> M:
    """An instance of `cls` from a located tree, or a `DesignError` with every problem, those given included.

    Cited values are reduced to their values first (except below the top keys `keep`). A bare number where a
    unit is due is refused, as in a file, unless `python` says that the values come from Python and are SI.
    """
    found = [*problems, *_citations(tree, keep)]
    try:
        model = cls.model_validate(strip(tree, keep=keep), context={"file": not python})
    except ValidationError as error:
        spots = [_Spot.of(details, tree, cls) for details in error.errors(include_url=False)]
        unread = tuple(p.field.removesuffix("use") for p in found if p.field.rpartition(".")[2] == "use")
        found += [
            problem
            for spot in _settled(spots)
            if not (spot.details["type"] == "missing" and spot.path.startswith(unread))  # the file may well hold it
            for problem in spot.problems()
        ]
        raise DesignError(found) from None
    if found:
        raise DesignError(found)
    return model


def _citations(node: Any, keep: Collection[str] = ()) -> Iterator[Problem]:
    """What is wrong with the sources and states of cited values."""
    if is_cited(node) and isinstance(node, Located):
        status = node.get("status")
        if status is not None and status not in STATUSES:
            near = nearest(status, STATUSES, 1) if isinstance(status, str) else []
            meant = f"; did you mean {near[0]}?" if near else ""
            yield node.problem("status", f"is none of {', '.join(STATUSES)}{meant}", shown(status))
        for key in ("source", "note"):
            if not isinstance(node.get(key, ""), str):
                yield node.problem(key, "is not text", shown(node[key]))
        if not isinstance(node.get("calibrated", False), bool):
            yield node.problem("calibrated", "is neither true nor false", shown(node["calibrated"]))
    elif isinstance(node, Mapping):
        for key, item in node.items():
            if key not in keep:
                yield from _citations(item)
    elif isinstance(node, list):
        for item in node:
            yield from _citations(item)


# --- one error, located -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Spot:
    """One pydantic error, walked down the tree and the model."""

    details: Any
    path: str
    mark: Mark
    parent: Any
    """The innermost mapping or list around the error."""
    value: Any
    fields: dict[str, FieldInfo]
    """The fields of the model at the place (for a missing or unknown field: of the mapping it belongs in)."""
    branches: frozenset[str]
    """The paths at which the error's location names a branch of a union."""
    key: str = ""
    """The name of a missing or unknown field."""

    @classmethod
    def of(cls, details: Any, tree: Any, model: type[BaseModel]) -> _Spot:
        node, path, mark = tree, getattr(tree, "path", ""), getattr(tree, "mark", NOWHERE)
        expected: list[Any] = [model]
        branches: set[str] = set()
        location = list(details["loc"])
        key = ""
        if details["type"] in ("missing", "extra_forbidden") and location:
            key = str(location.pop())
        for segment in location:
            if _enters(node, segment):
                expected = [inner for kind in expected for inner in _inside(kind, node, segment)]
                mark = place(node, segment, mark)
                path, node = join(path, segment), node[segment]
            elif isinstance(segment, int):  # a list that is written as its only member
                expected = [inner for kind in expected for inner in _inside(kind, node, segment)] or expected
            else:
                branches.add(path)
                expected = [kind for kind in expected if _is_branch(kind, segment)] or expected
        models = [kind for outer in expected for kind in _models(outer, node)]
        fields = {info.alias or name: info for kind in models for name, info in kind.model_fields.items()}
        spot = cls(details, path, mark, node, node, fields, frozenset(branches), key)
        if key:
            spot.path = join(path, key)
            if details["type"] == "extra_forbidden":
                spot.mark = place(node, key, mark)
                spot.value = node.get(key) if isinstance(node, Mapping) else None
        return spot

    def problems(self) -> Iterator[Problem]:
        """The error in the words of archmodel."""
        value = self.value
        if isinstance(value, Mapping) and "value" in value and self.details["type"] == "value_error":
            odd = [key for key in value if key not in CITATION]
            if odd and isinstance(value, Located):
                for key in odd:
                    yield value.problem(key, f"unknown field; {suggestion(key, sorted(CITATION))}")
                return
        quoted = None if self.key else shown(value.get("value") if is_cited(value) else value)
        yield Problem(self.path, self.message(), quoted, *self.mark)

    def message(self) -> str:
        """What is wrong and what would be accepted."""
        kind, context = self.details["type"], self.details.get("ctx") or {}
        if kind == "missing":
            return _missing(self.fields.get(self.key))
        if kind == "extra_forbidden":
            near = nearest(self.key, self.fields, 1)
            known = [name for name in self.fields if name not in ABOUT]
            return "unknown field; " + (f"did you mean {near[0]}?" if near else f"known: {listed(known)}")
        if kind == "value_error":
            error = context.get("error")
            return error.message if isinstance(error, QuantityError) else str(error)
        return _worded(kind, context, self.value, self.details["msg"])


def _missing(info: FieldInfo | None) -> str:
    """That a field is missing, and what it would hold."""
    marks = () if info is None else info.metadata
    quantity = next((mark for mark in marks if isinstance(mark, Quantity)), None)
    needed = f"; {dimension(quantity.dimension).needed}" if quantity else ""
    meaning = f" ({info.description})" if info and info.description else ""
    return f"is missing{meaning}{needed}"


def _worded(kind: str, context: Mapping[str, Any], value: Any, message: str) -> str:
    """pydantic's own error types in our words."""
    if kind in ("literal_error", "enum"):
        allowed = re.findall(r"'([^']*)'", str(context.get("expected", ""))) or [str(context.get("expected"))]
        near = nearest(value, allowed, 1) if isinstance(value, str) else []
        return f"is none of {', '.join(allowed)}" + (f"; did you mean {near[0]}?" if near else "")
    if kind in ("int_type", "int_parsing", "int_from_float", "int_parsing_size"):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e18
        return "is not a whole number" + (f"; write {int(value)}" if whole else "")
    bound = next((word for name, word in _BOUNDS.items() if name in context), None)
    if bound is not None and kind in _BOUND_TYPES:
        limit = next(context[name] for name in _BOUNDS if name in context)
        return f"is {bound} {limit:,}" if isinstance(limit, int | float) else f"is {bound} {limit}"
    if kind in ("too_short", "too_long"):
        bounds = ("at least", "min_length") if kind == "too_short" else ("at most", "max_length")
        return f"has {context.get('actual_length')} entries; {bounds[0]} {context.get(bounds[1])}"
    return _WORDS.get(kind) or message[:1].lower() + message[1:]


_BOUNDS = {"ge": "less than", "gt": "not above", "le": "more than", "lt": "not below"}
_BOUND_TYPES = ("greater_than_equal", "greater_than", "less_than_equal", "less_than")

_WORDS = {
    "string_type": "is not text; put it in quotes",
    "bool_type": "is neither true nor false",
    "bool_parsing": "is neither true nor false",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "finite_number": "is not a finite number",
    "list_type": "is not a list",
    "tuple_type": "is not a list",
    "set_type": "is not a list",
    "frozen_set_type": "is not a list",
    "dict_type": "is not a mapping",
    "mapping_type": "is not a mapping",
    "model_type": "is not a mapping",
    "model_attributes_type": "is not a mapping",
    "dataclass_type": "is not a mapping",
    "none_required": "must be left out",
    "union_tag_not_found": "does not say which kind it is",
}


def _settled(spots: list[_Spot]) -> Iterator[_Spot]:
    """The errors worth telling: of a union's branches those that got furthest, and one for each field."""
    told: dict[str, _Spot] = {}
    for spot in spots:
        deeper = any(
            other.path != spot.path and other.path.startswith(spot.path) and spot.path in other.branches
            for other in spots
        )
        if spot.path in spot.branches and deeper:
            continue
        first = told.get(spot.path)
        if first is None:
            told[spot.path] = spot
        elif spot.message() not in first.message():
            first.details = {"type": "joined", "msg": f"{first.message()}, and {spot.message()}"}
    yield from told.values()


# --- what a model accepts at a place ------------------------------------------------------------------------


def _enters(node: Any, segment: object) -> bool:
    if isinstance(node, Mapping):
        return segment in node
    return isinstance(node, list) and isinstance(segment, int) and segment < len(node)


def _inside(annotation: Any, node: Any, segment: str | int) -> Iterator[Any]:
    """The annotations that apply to `node[segment]`, when `annotation` applies to `node`."""
    for kind in _alternatives(annotation):
        origin, args = get_origin(kind), get_args(kind)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            yield args[1]
        elif isinstance(origin, type) and issubclass(origin, Collection) and args:
            fixed = origin is tuple and args[-1] is not Ellipsis
            yield args[segment] if fixed and isinstance(segment, int) and segment < len(args) else args[0]
    for model in _models(annotation, node):
        for name, info in model.model_fields.items():
            if segment in (info.alias, name):
                yield info


def _models(annotation: Any, node: Any) -> Iterator[type[BaseModel]]:
    """The models that may read `node`, when `annotation` applies to it."""
    for mark in _marks(annotation):
        if isinstance(mark, Chooses):
            model = mark.model_for(node)
            if model is not None:
                yield model
            return
    for kind in _alternatives(annotation):
        if kind is not annotation and any(isinstance(mark, Chooses) for mark in _marks(kind)):
            yield from _models(kind, node)
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind


def _marks(annotation: Any) -> Iterable[Any]:
    if isinstance(annotation, FieldInfo):
        return annotation.metadata
    return (annotation,) if isinstance(annotation, Chooses) else getattr(annotation, "__metadata__", ())


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The members of a union, annotations peeled off; anything else is its own alternative."""
    if isinstance(annotation, FieldInfo):
        yield from _alternatives(annotation.annotation)
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _alternatives(member)
    elif hasattr(annotation, "__metadata__") and not any(isinstance(mark, Chooses) for mark in _marks(annotation)):
        yield from _alternatives(get_args(annotation)[0])
    else:
        yield annotation


def _is_branch(annotation: Any, segment: object) -> bool:
    """Whether a union's member is the one that a location calls `segment`."""
    return getattr(annotation, "__name__", None) == segment
