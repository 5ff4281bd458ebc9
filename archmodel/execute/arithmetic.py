"""Arrays that count the floating-point operations done on them.

A `Counted` array is an ndarray whose numpy ufuncs add to a tally what they did: one operation for every element of an
arithmetic result, one per element that a reduction takes in, 2 m n k for a matrix product. Comparisons and copies are
free. So the executor's FLOP counts come from the arithmetic that ran, not from a formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archmodel.quantities import Array

ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "sqrt", "exp", "negative"})
FREE = frozenset({"greater"})


class Tally:
    """Operations done so far."""

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations = 0.0


class Counted(np.ndarray[Any, np.dtype[np.float64]]):
    """A float64 array with a tally; results of arithmetic on it carry the same tally."""

    tally: Tally | None

    def __array_finalize__(self, source: Any) -> None:
        self.tally = getattr(source, "tally", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, **keywords: Any) -> Any:
        tally = next(x.tally for x in inputs if isinstance(x, Counted))
        plain = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in inputs]
        result = getattr(ufunc, method)(*plain, **keywords)
        if tally is not None:
            tally.operations += _operations(ufunc, method, plain, result)
        return counted(result, tally) if isinstance(result, np.ndarray) else result


def _operations(ufunc: np.ufunc, method: str, inputs: list[Any], result: Any) -> float:
    name = ufunc.__name__
    if name == "matmul" and method == "__call__":
        return 2.0 * float(np.size(result)) * float(np.shape(inputs[0])[-1])
    if name in FREE:
        return 0.0
    if name not in ARITHMETIC:
        raise TypeError(f"{name} has no operation count; add it to ARITHMETIC or FREE")
    return float(np.size(result) if method == "__call__" else np.size(inputs[0]))


def counted(values: Any, tally: Tally | None) -> Counted:
    """A view of `values` that counts into `tally`."""
    view = np.asarray(values).view(Counted)
    view.tally = tally
    return view


def plain(values: Array) -> Array:
    """The same numbers without a tally."""
    return np.asarray(values).view(np.ndarray)
