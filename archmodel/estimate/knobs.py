"""The numbers of a system, by path: which are rates and times, which hold design points, and how to change one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from archmodel.components.base import dimensions
from archmodel.quantities import Num

C = TypeVar("C", bound=BaseModel)
KNOBS = ("bandwidth", "flop_rate", "hertz", "transfer_rate", "request_rate", "seconds")


def rates(part: BaseModel, path: str = "") -> Iterator[tuple[str, Num]]:
    """(path, value) of every bandwidth, compute rate and time below `part`, zeros left out."""
    for name, dimension in dimensions(type(part)).items():
        value = getattr(part, name, None)
        here = f"{path}.{name}" if path else name
        if isinstance(value, BaseModel):
            yield from rates(value, here)
        elif isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, BaseModel):
                    yield from rates(item, f"{here}.{key}")
                elif dimension in KNOBS and np.any(item):
                    yield f"{here}.{key}", item
        elif dimension in KNOBS and isinstance(value, int | float | np.ndarray) and np.any(value):
            yield here, value


def points(part: BaseModel) -> tuple[int, ...]:
    """Shape of the design points that the fields below `part` hold: () when all are scalars."""
    shape: tuple[int, ...] = ()
    for value in part.__dict__.values():
        for item in value.values() if isinstance(value, dict) else (value,):
            if isinstance(item, BaseModel):
                shape = np.broadcast_shapes(shape, points(item))
            elif isinstance(item, np.ndarray) and item.ndim:
                shape = np.broadcast_shapes(shape, item.shape[:-1])
    return shape


def replaced(part: C, path: str, value: Num) -> C:
    """A copy of `part` with the field at a dotted path set, unchecked: hardware fields take arrays."""
    head, _, rest = path.partition(".")
    current = getattr(part, head)
    if not rest:
        new: object = value
    elif isinstance(current, dict):
        key, _, deeper = rest.partition(".")
        new = {**current, key: replaced(current[key], deeper, value) if deeper else value}
    else:
        new = replaced(current, rest, value)
    return part.model_copy(update={head: new})
