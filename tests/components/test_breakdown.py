"""Parts of a time add up to it, whatever overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from archmodel.components.breakdown import Breakdown, overlapped

seconds = st.floats(0, 1e3) | hnp.arrays(
    np.float64, st.sampled_from([(1,), (4,), (3, 1), (3, 4)]), elements=st.floats(0, 1e3)
)
parts = st.dictionaries(st.sampled_from(["compute", "memory", "l2", "launch"]), seconds, max_size=4)


def test_nothing_takes_no_time() -> None:
    assert Breakdown({}).total == 0
    assert overlapped({}).total == 0
    assert overlapped({}, {"launch": 2.0}).parts == {"launch": 2.0}


def test_one_after_the_other_adds_parts_of_the_same_name() -> None:
    first, second = Breakdown({"launch": 1.0, "memory": 2.0}), Breakdown({"memory": 3.0, "sort": 4.0})
    assert (first + second).parts == {"launch": 1.0, "memory": 5.0, "sort": 4.0}
    assert first.parts == {"launch": 1.0, "memory": 2.0}


@given(parts, parts)
def test_the_total_of_a_sequence_is_the_sum_of_totals(a: dict[str, float], b: dict[str, float]) -> None:
    assert np.allclose((Breakdown(a) + Breakdown(b)).total, Breakdown(a).total + Breakdown(b).total)


@given(parts, parts)
def test_overlap_takes_the_longest_and_others_come_on_top(a: dict[str, float], others: dict[str, float]) -> None:
    together = overlapped(a, others)
    longest = 0.0
    for part in a.values():
        longest = np.maximum(longest, part)
    assert np.allclose(together.total, longest + Breakdown(others).total)
    assert all(np.all(np.asarray(part) >= 0) for part in together.parts.values())


def test_each_point_is_charged_to_its_own_longest_part() -> None:
    together = overlapped({"compute": np.array([1.0, 5.0, 2.0]), "memory": np.array([3.0, 4.0, 2.0])})
    assert together.parts["compute"].tolist() == [0, 5, 2]  # type: ignore[union-attr]
    assert together.parts["memory"].tolist() == [3, 0, 0]  # type: ignore[union-attr]


def test_a_breakdown_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Breakdown({}).parts = {}  # type: ignore[misc]
