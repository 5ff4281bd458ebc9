"""Time by part: what a duration is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Num


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Seconds by part ("launch", "compute", "memory", ...), which add up to `total`; every part broadcasts."""

    parts: Mapping[str, Num]

    @property
    def total(self) -> Num:
        """Seconds."""
        total: Num = 0.0
        for part in self.parts.values():
            total = total + part
        return total

    def __add__(self, other: Breakdown) -> Breakdown:
        """One after the other."""
        parts = dict(self.parts)
        for name, seconds in other.parts.items():
            parts[name] = parts[name] + seconds if name in parts else seconds
        return Breakdown(parts)


def overlapped(parts: Mapping[str, Num], others: Mapping[str, Num] | None = None) -> Breakdown:
    """Parts that run at the same time take as long as the longest, which gets all of it; `others` come on top."""
    longest: Num = 0.0
    for seconds in parts.values():
        longest = np.maximum(longest, seconds)
    left: Num = longest
    result: dict[str, Num] = dict(others or {})
    for name, seconds in parts.items():
        mine = np.where(seconds >= longest, left, 0.0)  # the first of equals
        result[name] = result[name] + mine if name in result else mine
        left = left - mine
    return Breakdown(result)
