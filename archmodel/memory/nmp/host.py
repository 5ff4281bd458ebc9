"""The host that near-memory units are compared with."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.quantities import Array, Num, PositiveBandwidth, PositiveRatio


class HostGather(Component):
    """Bandwidth that threads of a processor get out of its memory when they sum embedding rows."""

    kind: Literal["host_gather"] = "host_gather"
    per_thread: PositiveBandwidth = Field(description="of one thread alone")
    saturated: PositiveBandwidth = Field(description="of as many threads as there are, all channels together")
    sharpness: PositiveRatio = Field(description="how suddenly one regime turns into the other")

    def bandwidth(self, threads: Num) -> Array:
        """B/s of t threads:

        B = ((t b)^-s + B_max^-s)^(-1/s)
        """
        alone = np.asarray(threads, dtype=np.float64) * self.per_thread
        ratio = alone / self.saturated
        return np.asarray(alone / (1.0 + ratio**self.sharpness) ** (1.0 / self.sharpness))


HOST: Family[HostGather] = Family("host_gather")
HOST.register(HostGather)
