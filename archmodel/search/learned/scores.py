"""How well predicted costs match measured ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from archmodel.quantities import Array


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over `sets` sets: mean squared error in ms^2 (as AutoShard reports it), mean absolute relative error,
    bias (mean signed relative error), and rank correlations. NaN where there is nothing to tell."""

    sets: int
    mse_ms2: float
    mape: float
    bias: float
    spearman: float
    kendall: float

    def to_dict(self) -> dict[str, float | int | None]:
        """For JSON: None for NaN."""
        return {k: (None if isinstance(v, float) and not np.isfinite(v) else v) for k, v in asdict(self).items()}


def score(predicted: Array, measured: Array) -> Score:
    """Of predictions (S,) against measurements (S,), both in seconds."""
    known = np.isfinite(predicted)
    predicted, measured = predicted[known], measured[known]
    if not len(measured):
        return Score(0, *([float("nan")] * 5))
    relative = predicted / measured - 1.0
    rho, tau = _ranks(predicted, measured)
    return Score(
        len(measured),
        float(np.mean((1e3 * (predicted - measured)) ** 2)),
        float(np.abs(relative).mean()),
        float(relative.mean()),
        rho,
        tau,
    )


def _ranks(predicted: Array, measured: Array) -> tuple[float, float]:
    if len(measured) < 3 or np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return float("nan"), float("nan")
    from scipy.stats import kendalltau, spearmanr

    return float(spearmanr(predicted, measured)[0]), float(kendalltau(predicted, measured)[0])
