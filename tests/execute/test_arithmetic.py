"""Arrays that count what is done on them."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.execute.arithmetic import Tally, counted, plain


def test_operations_are_counted() -> None:
    tally = Tally()
    a, b = counted(np.ones((3, 4)), tally), counted(np.full((3, 4), 2.0), tally)
    assert plain(a * b + 1.0).tolist() == [[3.0] * 4] * 3
    assert tally.operations == 24
    np.add.reduce(a, axis=1)
    assert tally.operations == 24 + 12
    a @ b.T
    assert tally.operations == 36 + 2 * 3 * 3 * 4
    np.add.reduceat(a, [0, 1], axis=0)
    assert tally.operations == 108 + 12
    assert plain(a > 0).all()
    assert a.T.reshape(-1)[2:].shape == (10,)
    assert tally.operations == 120


def test_results_carry_the_tally_and_plain_arrays_do_not() -> None:
    tally = Tally()
    np.sqrt(counted(np.ones(5), tally)[:2]) + 1.0
    assert tally.operations == 4
    plain(counted(np.ones(5), tally)) * 2.0
    assert tally.operations == 4


def test_arithmetic_without_a_count_is_refused() -> None:
    with pytest.raises(TypeError, match="arctan has no operation count"):
        np.arctan(counted(np.ones(2), Tally()))
