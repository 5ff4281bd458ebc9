"""What ends of links add to a step, for agreement with simulators that price them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Num


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`delay` (s) of every step, and once more at the end. Adding up a message of m bytes reads two and writes one:
    3 m / `memory_bandwidth`. `tick` (s): every time on a link is cut to whole ticks; 0: it is not."""

    delay: float = 0.0
    memory_bandwidth: float = np.inf
    tick: float = 0.0

    def floor(self, seconds: Num) -> Num:
        """Whole ticks; a rounding error below a whole tick is none."""
        if self.tick == 0.0:
            return seconds
        whole: Num = np.floor(np.asarray(seconds) / self.tick + 1e-7) * self.tick
        return whole


IDEAL = Endpoint()
"""Ends that cost nothing."""
