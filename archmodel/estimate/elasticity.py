"""What one more percent of each hardware resource buys: logarithmic derivatives of the iteration time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from archmodel.estimate.knobs import rates, replaced
from archmodel.quantities import Array
from archmodel.system import System

STEP = 0.005


def elasticities(system: System, period_on: Callable[[System], Array]) -> dict[str, float]:
    """{path below `system`: d ln T / d ln x}, largest effect first, those under 1e-6 left out (scalar designs).

    `period_on`: T of a system whose fields hold arrays over points (points, 1).
    """
    knobs = list(rates(system))
    if not knobs:
        return {}
    for i, (path, value) in enumerate(knobs):
        points = np.ones((2 * len(knobs), 1))
        points[2 * i], points[2 * i + 1] = 1 + STEP, 1 - STEP
        system = replaced(system, path, value * points)
    period = np.broadcast_to(period_on(system), (2 * len(knobs),))
    slope = (np.log(period[0::2]) - np.log(period[1::2])) / (np.log1p(STEP) - np.log1p(-STEP))
    order = np.argsort(-np.abs(slope), kind="stable")
    return {f"system.{knobs[i][0]}": float(slope[i]) for i in order if abs(slope[i]) > 1e-6}
