"""Loops that numba compiles where it is installed (extra `fast`); the same source runs as plain Python without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
_called: set[Callable[..., Any]] = set()


def available() -> bool:
    """Whether numba can be imported."""
    return importlib.util.find_spec("numba") is not None


def fast(function: Callable[P, T]) -> Callable[P, T]:
    """`function` compiled on first use, or itself without numba.

    Only for functions of scalars and arrays that call no Python functions but such functions of their own module. The
    machine code is kept beside the source (or in numba's own cache folder), so only the first run ever compiles.
    """
    if function not in _compiled:
        if available():
            from numba import njit

            _make_callable(function)
            _compiled[function] = njit(cache=True, nogil=True)(function)
        else:
            _compiled[function] = function
    return cast(Callable[P, T], _compiled[function])


def _make_callable(function: Callable[..., Any]) -> None:
    """Lets compiled code call the functions of `function`'s module that it calls."""
    from numba.extending import register_jitable

    for name in function.__code__.co_names:
        helper = function.__globals__.get(name)
        if isinstance(helper, FunctionType) and helper.__module__ == function.__module__ and helper not in _called:
            _called.add(helper)
            _make_callable(helper)
            register_jitable(helper)
