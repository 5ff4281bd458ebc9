"""Efficiency that depends on the size of the work, given as data: a curve of (operations, achieved share of peak)."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from archmodel.components.base import Component
from archmodel.quantities import Array, Num, Quantity

Flops = Annotated[float, Quantity("flops", positive=True)]
Share = Annotated[float, Quantity("fraction", positive=True)]


class EfficiencyCurve(Component):
    """Achieved share of peak at increasing amounts of work; between the points it is linear in log(work), outside it
    is that of the nearest point."""

    flops: tuple[Flops, ...] = Field(min_length=1, max_length=4096, description="work of one kernel, increasing")
    efficiency: tuple[Share, ...] = Field(min_length=1, description="achieved share of peak at each amount")

    @model_validator(mode="after")
    def _is_a_curve(self) -> EfficiencyCurve:
        if len(self.flops) != len(self.efficiency):
            raise ValueError(f"has {len(self.flops)} flops for {len(self.efficiency)} efficiencies; one each is needed")
        if any(right <= left for left, right in zip(self.flops, self.flops[1:], strict=False)):
            raise ValueError("has flops that do not increase from point to point")
        return self

    def at(self, flops: Num) -> Num:
        """Efficiency as the points give it."""
        return _interpolated(flops, self.flops, self.efficiency)

    def effective(self, flops: Num) -> Num:
        """Operations that the peak rate would do in the time that `flops` take:

            W(F) = min over F' >= F of F' / efficiency(F')

        A curve that rises steeply says that a larger product is faster than a smaller one. No one has to wait for
        that: the smaller product can be padded to the larger. So time is the least of any product that contains the
        wanted one, never falls when work grows, is never below F at peak rate, and is the curve's own wherever the
        curve is not that steep.
        """
        work = np.asarray(flops, dtype=np.float64)
        ends, least = _padding(self.flops, self.efficiency)
        padded = np.append(least, np.inf)[np.searchsorted(ends, work, side="left")]
        return np.asarray(np.minimum(work / self.at(work), padded))


def _interpolated(flops: Num, points: tuple[float, ...], shares: tuple[float, ...]) -> Array:
    tiny = np.finfo(np.float64).tiny
    return np.asarray(np.interp(np.log(np.maximum(flops, tiny)), np.log(points), shares))


@lru_cache(maxsize=256)
def _padding(points: tuple[float, ...], shares: tuple[float, ...]) -> tuple[Array, Array]:
    """Sizes that smaller work may be padded to, increasing, and the least F / efficiency from each of them on.

    Minima of F / e(F) lie at points, or inside a segment e = e0 + s ln(F / F0) where d(F/e)/dF = 0, that is e = s.
    """
    size, share = np.array(points), np.array(shares)
    slope = np.diff(share) / np.diff(np.log(size))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inside = size[:-1] * np.exp((slope - share[:-1]) / slope)
    inside = inside[(slope > 0) & (inside > size[:-1]) & (inside < size[1:])]
    ends = np.sort(np.concatenate([size, inside]))
    cost = ends / _interpolated(ends, points, shares)
    return ends, np.minimum.accumulate(cost[::-1])[::-1]
