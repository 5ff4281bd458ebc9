"""What every part of a machine or model is: a frozen class with declared fields, one kind of a family.

A family ("device", "scale_up", "workload", ...) is a registry of kinds. A design file says `kind: gpu`; the
class registered under that name reads the rest. Other packages add kinds through the entry-point group
`archmodel.kinds`: its values name modules (imported) or classes (imported, and registered by their
decorator).
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticUndefined, core_schema

from archmodel.errors import ArchmodelError, nearest
from archmodel.quantities import Quantity, Status
from archmodel.quantities import dimension as dimension_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ENTRY_POINTS = "archmodel.kinds"

T = TypeVar("T", bound=BaseModel)


class Component(BaseModel):
    """Base of everything a design file describes: frozen, unknown fields refused.

    Quantity fields hold SI floats, or float64 arrays over design points.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    name: str | None = Field(default=None, description="name for reports")
    source: str | None = Field(default=None, description="where the values come from: datasheet, paper, page")
    status: Status | None = Field(default=None, description="how the values were obtained")
    note: str | None = Field(default=None, description="anything a reader should know")
    fitted_on: str | None = Field(default=None, description="what fitted constants were fitted on")

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """What is set, without where it comes from."""
        return [
            (key, value)
            for key, value in super().__repr_args__()
            if value is not None and key not in ("source", "status", "note", "fitted_on")
        ]


@dataclass(frozen=True)
class OneWord:
    """Annotation of a component that a design may write as one word, which stands for `{key: word}`; without a `key`,
    `word` alone may be, and stands for what is the default anyway.

    >>> class TablesPlan(Component):
    ...     default: Annotated[TablePlan, OneWord("sharding")]      # default: row_wise
    """

    key: str | None
    word: str | None = None

    def is_one(self, value: object) -> bool:
        """Whether a value is such a word."""
        return isinstance(value, str) and self.word in (None, value)

    def in_full(self, value: object) -> object:
        """A value as it is, a word as the mapping that it stands for."""
        if not self.is_one(value):
            return value
        return {} if self.key is None else {self.key: value}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.in_full, handler(source))


class OneOrMore:
    """Annotation of a list that a design may write as its only member.

    >>> class TablePlan(Component):
    ...     cache: Annotated[tuple[CachePlan, ...], OneOrMore()]    # cache: {in: hbm, size: 4 GiB}
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def listed(value: object) -> object:
            return value if value is None or isinstance(value, list | tuple) else [value]

        return core_schema.no_info_before_validator_function(listed, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        many = handler(schema)
        arrays = [one for one in many.get("anyOf", [many]) if "items" in one]
        return {"anyOf": [*(one["items"] for one in arrays), *many.get("anyOf", [many])]}


class UnknownKindError(ArchmodelError, ValueError):
    """A `kind` that no class of the family is registered under."""


class Family(Generic[T]):
    """The kinds of one family, by name.

    >>> DEVICES: Family[Device] = Family("device")
    >>> @DEVICES.register
    ... class Gpu(Device):
    ...     kind: Literal["gpu"] = "gpu"
    >>> class Node(Component):
    ...     gpu: Annotated[Device, DEVICES.field(default="gpu")]
    """

    registry: ClassVar[dict[str, Family[Any]]] = {}

    def __init__(self, name: str, homes: Mapping[str, str] | None = None) -> None:
        """`homes`: modules of kinds that are imported when a design first asks for them, by kind."""
        self.name = name
        self._kinds: dict[str, type[T]] = {}
        self._homes = dict(homes or {})
        Family.registry[name] = self

    def register(self, cls: type[T]) -> type[T]:
        """Class decorator: adds `cls` under the default of its `kind` field."""
        kind = cls.model_fields["kind"].default if "kind" in cls.model_fields else None
        if not isinstance(kind, str):
            raise TypeError(f'{cls.__name__} needs a field `kind: Literal["..."] = "..."` to be registered')
        known = self._kinds.get(kind)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{self.name} kind {kind!r} is already {known.__module__}.{known.__qualname__}")
        self._kinds[kind] = cls
        return cls

    def kinds(self) -> dict[str, type[T]]:
        """Every kind, by name, those of other packages included."""
        load_plugins()
        for module in self._homes.values():
            import_module(module)
        return dict(sorted(self._kinds.items()))

    def resolve(self, kind: object) -> type[T]:
        """The class of a kind; `UnknownKindError` lists what there is and names the nearest."""
        if isinstance(kind, str) and kind in self._homes:
            import_module(self._homes[kind])
        if isinstance(kind, str) and kind in self._kinds:
            return self._kinds[kind]
        known = self.kinds()
        if isinstance(kind, str) and kind in known:
            return known[kind]
        listed = ", ".join(known) or "none"
        if kind is None:
            raise UnknownKindError(f"has no kind; one of {listed} is needed")
        close = nearest(kind, known, count=1) if isinstance(kind, str) else []
        meant = f"; did you mean {close[0]}?" if close else ""
        raise UnknownKindError(f"is no kind of {self.name} (known: {listed}){meant}")

    def field(self, default: str | None = None) -> FamilyField[T]:
        """What makes a pydantic field read any kind: `Annotated[Device, DEVICES.field(default="gpu")]`.

        The class is looked up when a value is validated, so kinds registered later work. Instances pass
        through.
        """
        return FamilyField(self, default)

    def __repr__(self) -> str:
        return f"Family({self.name!r})"


@dataclass(frozen=True, slots=True)
class FamilyField(Generic[T]):
    """Reads a mapping with the class its `kind` names."""

    family: Family[T]
    default: str | None = None

    def kind_of(self, value: Mapping[Any, Any]) -> object:
        """The kind a mapping asks for."""
        return value.get("kind", self.default)

    def model_for(self, value: Any) -> type[BaseModel] | None:
        """The class that reads `value`, if it is a mapping of a known kind."""
        try:
            return self.family.resolve(self.kind_of(value)) if isinstance(value, Mapping) else None
        except UnknownKindError:
            return None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        base = source if isinstance(source, type) else BaseModel

        def read(value: Any, info: ValidationInfo) -> Any:
            return value if isinstance(value, base) else self._read(value, info)

        return core_schema.with_info_plain_validator_function(read)

    def _read(self, value: Any, info: ValidationInfo) -> T:
        if not isinstance(value, Mapping):
            raise UnknownKindError(f"is not a mapping; a {self.family.name} with its fields is needed")
        kind = self.kind_of(value)
        try:
            cls = self.family.resolve(kind)
        except UnknownKindError as unknown:
            raise _at_kind(unknown, kind, value) from None
        return cls.model_validate(dict(value), context=info.context)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        if self.family.name in _describing:  # a family inside itself: the editor need not see the second level
            return {"type": "object", "description": f"a {self.family.name}"}
        _describing.append(self.family.name)
        try:
            kinds = [
                self._described(kind, handler(cls.__pydantic_core_schema__))
                for kind, cls in self.family.kinds().items()
            ]
        finally:
            _describing.pop()
        return {"oneOf": kinds, "description": f"a {self.family.name}"}

    def _described(self, kind: str, described: dict[str, Any]) -> dict[str, Any]:
        """The schema of one kind; only the default kind may be left out, so one kind at most matches."""
        if kind == self.default or "properties" not in described:
            return described
        return {**described, "required": sorted({*described.get("required", ()), "kind"})}


_describing: list[str] = []


def _at_kind(unknown: UnknownKindError, kind: object, value: Mapping[Any, Any]) -> ValidationError:
    """`unknown` as a validation error that points at the field `kind`."""
    where: tuple[str, ...] = ("kind",) if "kind" in value else ()
    error = PydanticCustomError("unknown_kind", "{problem}", {"problem": str(unknown)})
    return ValidationError.from_exception_data("kind", [InitErrorDetails(type=error, loc=where, input=kind)])


# --- kinds from other packages ------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def load_plugins() -> tuple[str, ...]:
    """Imports what installed packages offer under `archmodel.kinds`, once; a broken one is a warning."""
    from importlib.metadata import entry_points

    loaded = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # a stranger's code: whatever it raises must not stop ours
            what = f"the plugin {point.name} ({point.value}) could not be loaded"
            warnings.warn(f"{what}: {type(error).__name__}: {error}", stacklevel=2)
        else:
            loaded.append(point.name)
    return tuple(loaded)


# --- a field, declared once ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One declared field, for docs, schema and suggestions."""

    name: str
    type: str
    dimension: str | None
    required: bool
    default: Any
    description: str


def fields(cls: type[BaseModel]) -> tuple[FieldRow, ...]:
    """The declared fields of a class, in order."""
    return tuple(_row(name, info) for name, info in cls.model_fields.items())


@lru_cache(maxsize=512)
def dimensions(cls: type[BaseModel]) -> Mapping[str, str | None]:
    """The dimension of every declared field of a class, by name; None for what is no quantity."""
    return {
        name: next((m.dimension for m in _marks(info) if isinstance(m, Quantity)), None)
        for name, info in cls.model_fields.items()
    }


def _row(name: str, info: FieldInfo) -> FieldRow:
    marks = tuple(_marks(info))
    quantity = next((mark for mark in marks if isinstance(mark, Quantity)), None)
    return FieldRow(
        name=info.alias or name,
        type=_marked(info.metadata) or type_name(info.annotation),
        dimension=quantity.dimension if quantity else None,
        required=info.is_required(),
        default=None if info.default is PydanticUndefined else info.default,
        description=info.description or "",
    )


def _marked(marks: Sequence[Any]) -> str:
    """What a quantity or family field is called."""
    for mark in marks:
        if isinstance(mark, Quantity):
            return dimension_of(mark.dimension).noun.split(" ", 1)[1]
        if isinstance(mark, FamilyField):
            return f"{mark.family.name} ({', '.join(mark.family.kinds())})"
    return ""


def _marks(info: FieldInfo) -> Iterator[Any]:
    yield from info.metadata
    yield from _annotations(info.annotation)


def _annotations(annotation: Any) -> Iterator[Any]:
    """Every piece of `Annotated` metadata inside a type."""
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        if get_origin(part) is not None:
            yield from _annotations(part)


def type_name(annotation: Any) -> str:
    """A type for a reader: `int`, `"hbm" or "ddr"`, `list of Layer`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(arg) for arg in args if arg is not type(None))
    if isinstance(annotation, FamilyField):
        return annotation.family.name
    if origin is None:
        return getattr(annotation, "__name__", str(annotation))
    if hasattr(annotation, "__metadata__"):
        return _marked(annotation.__metadata__) or type_name(args[0])
    if getattr(origin, "__name__", "") == "Literal" or str(origin) == "typing.Literal":
        return " or ".join(str(arg) for arg in args)
    inner = [type_name(arg) for arg in args if arg is not Ellipsis]
    if origin in (list, tuple, set, frozenset):
        return f"list of {inner[0]}" if inner else "list"
    if origin is dict:
        return f"map of {inner[0]} to {inner[1]}"
    return getattr(origin, "__name__", str(origin))
