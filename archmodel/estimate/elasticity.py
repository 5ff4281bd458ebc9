"""What one more percent of each hardware resource buys: logarithmic derivatives of the iteration time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archmodel.estimate.estimate import evaluate
from archmodel.estimate.knobs import rates, replaced

if TYPE_CHECKING:
    from archmodel.design import Design

STEP = 0.005


def elasticities(design: Design) -> dict[str, float]:
    """{path below `system`: d ln T / d ln x}, largest effect first, those under 1e-6 left out (scalar designs)."""
    knobs = list(rates(design.system))
    if not knobs:
        return {}
    system = design.system
    for i, (path, value) in enumerate(knobs):
        points = np.ones((2 * len(knobs), 1))
        points[2 * i], points[2 * i + 1] = 1 + STEP, 1 - STEP
        system = replaced(system, path, value * points)
    period = np.broadcast_to(evaluate(design, system).timeline.period, (2 * len(knobs),))
    slope = (np.log(period[0::2]) - np.log(period[1::2])) / (np.log1p(STEP) - np.log1p(-STEP))
    order = np.argsort(-np.abs(slope), kind="stable")
    return {f"system.{knobs[i][0]}": float(slope[i]) for i in order if abs(slope[i]) > 1e-6}
