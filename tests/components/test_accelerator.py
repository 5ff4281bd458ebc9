"""Efficiency curves: monotone time whatever the curve, and devices made of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archmodel.components import Accelerator
from archmodel.components.efficiency import EfficiencyCurve

Load = Callable[[str], Any]

STEP = {"flops": (1e9, 15.99e9, 16e9), "efficiency": (0.5, 0.6, 0.9)}
"""A step as in tables that give one efficiency from 1, another from 16 GFLOP on: taken at its word, 15.99 GFLOP take
longer than 16."""


@st.composite
def curves(draw: st.DrawFn) -> EfficiencyCurve:
    exponents = sorted(draw(st.sets(st.floats(0, 15), min_size=1, max_size=8)))
    sizes = sorted({10.0**e for e in exponents})
    shares = draw(st.lists(st.floats(1e-3, 1), min_size=len(sizes), max_size=len(sizes)))
    return EfficiencyCurve(flops=tuple(sizes), efficiency=tuple(shares))


@given(curves(), st.floats(0, 1e16), st.floats(1, 1e3))
@example(EfficiencyCurve(**STEP), 15.99e9, 16 / 15.99)
def test_time_never_falls_when_work_grows(curve: EfficiencyCurve, work: float, factor: float) -> None:
    assert curve.effective(work * factor) >= curve.effective(work) * (1 - 1e-12)


@given(curves(), st.floats(0, 1e16))
def test_no_time_is_below_peak_or_above_the_curve(curve: EfficiencyCurve, work: float) -> None:
    effective = float(curve.effective(work))
    assert work * (1 - 1e-12) <= effective <= work / curve.at(work) * (1 + 1e-12)


@given(curves(), st.floats(1, 1e16))
def test_time_is_that_of_the_best_padding(curve: EfficiencyCurve, work: float) -> None:
    """Brute force over sizes from `work` on."""
    larger = np.concatenate([np.geomspace(work, max(work * 2, 1e17), 20_001), [f for f in curve.flops if f >= work]])
    best = np.min(larger / curve.at(larger))
    assert float(curve.effective(work)) == pytest.approx(best, rel=1e-3)
    assert float(curve.effective(work)) <= best * (1 + 1e-12)


def test_the_step_costs_the_smaller_product_no_more_than_the_larger() -> None:
    curve = EfficiencyCurve(**STEP)
    below, above = 15.99e9 / 0.6, 16e9 / 0.9
    assert below > above
    assert curve.effective(15.99e9) == pytest.approx(above)
    assert curve.effective(1e9) == pytest.approx(1e9 / 0.5)


def test_gentle_curves_are_taken_at_their_word() -> None:
    curve = EfficiencyCurve(flops=(1e6, 1e9, 1e12), efficiency=(0.3, 0.5, 0.8))
    work = np.geomspace(1e3, 1e15, 200)
    assert np.allclose(curve.effective(work), work / curve.at(work), rtol=1e-12)
    assert curve.at(1e6) == 0.3
    assert curve.at(np.sqrt(1e6 * 1e9)) == pytest.approx(0.4)
    assert (curve.at(0.0), curve.at(1e20)) == (0.3, 0.8)


def test_one_point_is_a_constant() -> None:
    assert EfficiencyCurve(flops=(1e9,), efficiency=(0.5,)).effective(np.array([0.0, 1.0, 1e20])).tolist() == [
        0,
        2,
        2e20,
    ]


@pytest.mark.parametrize(
    ("points", "shares", "message"),
    [
        ((1e6, 1e9), (0.5,), "has 2 flops for 1 efficiencies"),
        ((1e9, 1e6), (0.5, 0.6), "do not increase"),
        ((1e6, 1e6), (0.5, 0.6), "do not increase"),
        ((), (), "at least 1"),
        ((0.0,), (0.5,), "zero"),
        ((1e6,), (0.0,), "zero"),
        ((1e6,), (1.5,), "above 1"),
    ],
)
def test_what_is_no_curve_is_refused(points: tuple[float, ...], shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EfficiencyCurve(flops=points, efficiency=shares)


def test_points_of_a_file_need_units() -> None:
    with pytest.raises(ValueError, match="has no unit"):
        EfficiencyCurve.model_validate({"flops": [1e6], "efficiency": ["50 %"]}, context={"file": True})
    curve = EfficiencyCurve.model_validate({"flops": ["1 MFLOP"], "efficiency": ["50 %"]}, context={"file": True})
    assert (curve.flops, curve.efficiency) == ((1e6,), (0.5,))


def accelerator(**changes: object) -> Accelerator:
    return Accelerator.model_validate(
        {
            "peaks": {"int8": 1e14},
            "hbm": {"capacity": 1e10, "bandwidth": 1e11},
            "efficiency": {"flops": (1e9,), "efficiency": (0.5,)},
            "launch": {"eager": 0.0, "graph": 0.0},
            "kernels": {"stream": 0.8, "gather": 0.5, "update": 0.5, "sort_bytes_per_index": 104.0},
            **changes,
        }
    )


def test_a_product_is_bound_by_compute_or_by_memory() -> None:
    compute = accelerator().gemm(4096.0, 4096.0, 4096.0, "int8")
    assert compute.total == pytest.approx(2 * 4096**3 / 0.5e14)
    memory = accelerator().gemm(1.0, 4096.0, 4096.0, "int8")
    assert memory.total == pytest.approx((4096 + 4096**2 + 4096) / 0.8e11)
    assert memory.parts["compute"] == 0


def test_a_batch_of_small_products_is_as_efficient_as_one_large(device: Load) -> None:
    tpu = device("tpu_v4")
    assert tpu.gemm_time(64, 64, 64, batch=4096) < 4096 * tpu.gemm_time(64, 64, 64)


def test_arithmetic_beside_matrix_products_has_its_own_rate() -> None:
    assert accelerator(vector_rate=1e9).stream(0.0, 1e9, "int8").total == pytest.approx(1.0)
    assert accelerator().stream(0.0, 1e14, "int8").total == pytest.approx(1.0)  # no fp32: the format's own


def test_memory_on_the_chip_holds_rows_seen_again() -> None:
    bare, cached = accelerator(), accelerator(cache=1e8, on_chip_bandwidth=1e12)
    assert bare.gather(1e9, 1e7, 0.0).total == pytest.approx(1e9 / 0.5e11)
    assert cached.gather(1e9, 1e7, 0.0).total == pytest.approx(max(1e7 / 0.5e11, 1e9 / 1e12))
