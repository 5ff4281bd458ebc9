"""Loops that numba compiles where it is installed (extra `fast`); the same source runs as plain Python without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_compiled: dict[Callable[..., Any], Callable[..., Any]] = {}


def available() -> bool:
    """Whether numba can be imported."""
    return importlib.util.find_spec("numba") is not None


def fast(function: Callable[P, T]) -> Callable[P, T]:
    """`function` compiled on first use, or itself without numba.

    Only for functions of scalars and arrays that call no other Python function. The machine code is kept beside the
    source (or in numba's own cache folder), so only the first run ever compiles.
    """
    if function not in _compiled:
        if available():
            from numba import njit

            _compiled[function] = njit(cache=True, nogil=True)(function)
        else:
            _compiled[function] = function
    return cast(Callable[P, T], _compiled[function])
