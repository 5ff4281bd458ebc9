"""Rounding to the number formats of wires: what is left of a float64 value after a cast, still as float64."""

from __future__ import annotations

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.quantities import Array

FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")
DROPPED_BITS = {"bf16": 16, "tf32": 13}
"""Low bits of a float32 that the format does not keep."""


def rounded(values: Array, dtype: str) -> Array:
    """`values` rounded to the nearest number of `dtype`, ties to even; fp64 returns them as they are.

    Raises ExecutionError for formats that hold no real numbers without a scale (integers).
    """
    if dtype == "fp64":
        return values
    if dtype == "fp32":
        return values.astype(np.float32).astype(np.float64)
    if dtype == "fp16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float64)
    if dtype in DROPPED_BITS:
        return _truncated_float32(values, DROPPED_BITS[dtype])
    if dtype == "fp8":
        return _fp8(values)
    raise ExecutionError(f"{dtype} holds no real numbers without a scale; {', '.join(FORMATS)} do")


def _truncated_float32(values: Array, dropped: int) -> Array:
    """Round float32 to its upper `32 - dropped` bits: add half a unit, less one when the kept bit is even, and cut."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    odd = (bits >> np.uint32(dropped)) & np.uint32(1)
    half = np.uint32((1 << (dropped - 1)) - 1) + odd
    kept = (bits + half) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    result = np.where(np.isfinite(single), kept.view(np.float32), single)
    return result.astype(np.float64)


def _fp8(values: Array) -> Array:
    """E4M3 of arXiv 2209.05433: 3 mantissa bits, smallest exponent -6, largest number 448 (beyond it: saturated)."""
    _, exponent = np.frexp(values)  # |value| = fraction in [1/2, 1) times 2**exponent
    step = np.exp2(np.maximum(exponent - 1, -6) - 3.0)
    return np.asarray(np.clip(np.round(values / step) * step, -448.0, 448.0), dtype=np.float64)
