from __future__ import annotations

import json
import math

import numpy as np
import pytest

from archmodel.errors import ArchmodelError
from archmodel.report.as_json import finite


def test_arrays_and_numpy_numbers_become_plain() -> None:
    value = finite({"a": np.float64(1.5), "b": np.arange(3), "c": (np.int64(2), None, "x", True)})
    assert value == {"a": 1.5, "b": [0, 1, 2], "c": [2, None, "x", True]}
    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("bad", [math.nan, math.inf, np.float64(-np.inf), np.array([1.0, np.nan])])
def test_a_number_that_json_cannot_hold_is_named(bad: object) -> None:
    with pytest.raises(ArchmodelError, match=r"ops\[1\]\.time.* came out as"):
        finite({"ops": [{}, {"time": bad}]})
