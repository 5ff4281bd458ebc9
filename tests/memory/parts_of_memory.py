"""Parts of designs/memories for tests."""

from __future__ import annotations

from functools import cache
from typing import Any

from archmodel import catalogue, source


@cache
def part(cls: Any, name: str) -> Any:
    tree = source.read(catalogue.find(f"memories/{name}.yaml"), catalogue=catalogue.directory())
    return source.validate(cls, tree)


def changed(component: Any, **fields: Any) -> Any:
    """A copy with other fields; `timing__tRTRS=2` reaches one level down."""
    for name, value in list(fields.items()):
        outer, deep, inner = name.partition("__")
        if deep:
            del fields[name]
            component = component.model_copy(
                update={outer: getattr(component, outer).model_copy(update={inner: value})}
            )
    return component.model_copy(update=fields)
