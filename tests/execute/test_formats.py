"""Rounding to wire formats, against brute force over every number of the format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.execute.errors import ExecutionError
from archmodel.execute.formats import FORMATS, rounded

MANTISSA = {"bf16": (7, -126), "tf32": (10, -126), "fp16": (10, -14), "fp8": (3, -6), "fp32": (23, -126)}
"""Stored mantissa bits and smallest normal exponent."""


def nearest(x: float, dtype: str) -> float:
    """The nearest number of a binary format, ties to even, in exact integer arithmetic."""
    bits, lowest = MANTISSA[dtype]
    if x == 0:
        return 0.0
    exponent = max(int(np.floor(np.log2(abs(x)))), lowest)
    exponent += 2.0 ** (exponent + 1) <= abs(x)
    exponent -= abs(x) < 2.0**exponent and exponent > lowest
    return round(x * 2.0 ** (bits - exponent)) * 2.0 ** (exponent - bits)  # Python rounds ties to even


ONCE_ROUNDED = st.floats(-400, 400, width=32).filter(lambda x: x == 0 or abs(x) > 1e-30)


@given(ONCE_ROUNDED, st.sampled_from(sorted(MANTISSA)))
def test_the_nearest_number_of_the_format(x: float, dtype: str) -> None:
    assert rounded(np.array([x]), dtype)[0] == nearest(x, dtype)


@given(st.floats(-1e4, 1e4), st.sampled_from(FORMATS))
def test_rounding_twice_is_rounding_once_and_odd(x: float, dtype: str) -> None:
    once = rounded(np.array([x, -x]), dtype)
    assert np.array_equal(rounded(once, dtype), once)
    assert once[0] == -once[1]


def test_ties_go_to_even() -> None:
    ulp = 2.0**-7
    assert rounded(np.array([1 + ulp / 2, 1 + 1.5 * ulp]), "bf16").tolist() == [1.0, 1 + 2 * ulp]
    assert rounded(np.array([1.0625, 1.1875]), "fp8").tolist() == [1.0, 1.25]


def test_ends_of_the_range() -> None:
    assert rounded(np.array([1e6]), "fp16")[0] == np.inf
    assert rounded(np.array([1e6, -1e6]), "fp8").tolist() == [448.0, -448.0]
    assert rounded(np.array([np.inf, -np.inf]), "bf16").tolist() == [np.inf, -np.inf]
    assert np.isnan(rounded(np.array([np.nan]), "bf16")[0])
    assert rounded(np.array([2.0**-9, 2.0**-11]), "fp8").tolist() == [2.0**-9, 0.0]


def test_full_precision_is_untouched_and_integers_are_refused() -> None:
    values = np.random.default_rng(0).normal(size=100)
    assert rounded(values, "fp64") is values
    with pytest.raises(ExecutionError, match="int8 holds no real numbers"):
        rounded(values, "int8")
