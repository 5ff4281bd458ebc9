"""The cache of a rank's unit."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from archmodel.components.base import Component
from archmodel.quantities import Array, CountOrZero, Joules, Num, PositiveBytes, PositiveRatio, Ratio


class RankCache(Component):
    """Rows kept beside a rank; every lookup that may use it asks it before the DRAM."""

    capacity: PositiveBytes = Field(description="bytes of a rank's cache")
    ways: CountOrZero = Field(default=4, description="rows of a set; 0: fully associative")
    access_cycles: PositiveRatio = Field(default=1.0, description="DRAM clock cycles of an access up to fast_capacity")
    fast_capacity: PositiveBytes = Field(description="largest cache that answers in access_cycles")
    wire_exponent: Ratio = Field(default=0.5, description="how the access time of larger ones grows with capacity")
    access_energy: Joules = Field(description="energy of an access")

    def cycles(self, capacity: Num | None = None) -> Array:
        """Cycles of an access:

            t = t_0 max(1, (C / C_0)^x)

        A clocked cache takes its cycle at least; beyond C_0 wires set the time, whose length grows with the square
        root of the area (x = 1/2).
        """
        size = np.asarray(self.capacity if capacity is None else capacity, dtype=np.float64)
        return np.asarray(self.access_cycles * np.maximum(1.0, (size / self.fast_capacity) ** self.wire_exponent))
