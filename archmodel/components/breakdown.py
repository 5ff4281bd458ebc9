"""Time by part: what a duration is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Num


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Seconds by part ("launch", "latency", "compute", "memory", "l2", "sort", ...), which add up to `total`.

    Parts broadcast against each other: a part may be a float while another is an array over points or ranks.
    """

    parts: Mapping[str, Num]

    @property
    def total(self) -> Num:
        """Seconds; 0 without parts."""
        total: Num = 0.0
        for part in self.parts.values():
            total = total + part
        return total

    def __add__(self, other: Breakdown) -> Breakdown:
        """One after the other: parts of the same name add up."""
        parts = dict(self.parts)
        for name, seconds in other.parts.items():
            parts[name] = parts[name] + seconds if name in parts else seconds
        return Breakdown(parts)


def overlapped(parts: Mapping[str, Num], others: Mapping[str, Num] | None = None) -> Breakdown:
    """`parts` run at the same time: they take as long as the longest, which is charged all of it (the first of
    equals); `others` come on top. So parts of the result sum to max(parts) + sum(others), at every point."""
    longest: Num = 0.0
    for seconds in parts.values():
        longest = np.maximum(longest, seconds)
    left: Num = longest
    result: dict[str, Num] = dict(others or {})
    for name, seconds in parts.items():
        mine = np.where(seconds >= longest, left, 0.0)
        result[name] = result[name] + mine if name in result else mine
        left = left - mine
    return Breakdown(result)
