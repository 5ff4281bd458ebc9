"""Loops that numba compiles where it is installed (extra `fast`); the same source runs as plain Python without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy.typing as npt

P = ParamSpec("P")
T = TypeVar("T")

_READ_AND_WRITTEN, _KEEP, _DATA = 1, 3, 1
"""Operands of LLVM's prefetch: the line will be written too, into every level, of data."""

_compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
_called: set[Callable[..., Any]] = set()


def available() -> bool:
    """Whether numba can be imported."""
    return importlib.util.find_spec("numba") is not None


def prefetch(array: npt.NDArray[Any], index: int) -> None:
    """Has the processor bring the line of `array[index]` into its caches, without waiting; plain Python does nothing.

    A load would do so too, but none after it retires before it has: where tables are larger than a core's own cache,
    loops over them are half as fast.
    """


def fast(function: Callable[P, T]) -> Callable[P, T]:
    """`function` compiled on first use, or itself without numba.

    Only for functions of scalars and arrays that call no Python functions but such functions of their own module. The
    machine code is kept beside the source (or in numba's own cache folder), so only the first run ever compiles.
    """
    if function not in _compiled:
        if available():
            from numba import njit

            _make_prefetch()
            _make_callable(function)
            _compiled[function] = njit(cache=True, nogil=True)(function)
        else:
            _compiled[function] = function
    return cast(Callable[P, T], _compiled[function])


@cache
def _make_prefetch() -> None:
    """Lets compiled code call `prefetch`, as the processor's instruction."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload
    from numba.np.arrayobj import make_array

    @intrinsic
    def instruction(typing: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = make_array(signature.args[0])(context, builder, args[0]).data  # type: ignore[no-untyped-call]
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            called = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            place = builder.bitcast(builder.gep(data, [args[1]]), byte)
            builder.call(called, [place, *map(word, (_READ_AND_WRITTEN, _KEEP, _DATA))])
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    @overload(prefetch)
    def compiled(array: Any, index: Any) -> Any:
        def call(array: Any, index: Any) -> None:
            instruction(array, index)  # type: ignore[call-arg]  # compiled, it takes no typing context

        return call


def _make_callable(function: Callable[..., Any]) -> None:
    """Lets compiled code call the functions of `function`'s module that it calls."""
    from numba.extending import register_jitable

    for name in function.__code__.co_names:
        helper = function.__globals__.get(name)
        if isinstance(helper, FunctionType) and helper.__module__ == function.__module__ and helper not in _called:
            _called.add(helper)
            _make_callable(helper)
            register_jitable(helper)
