"""A node whose GPUs reach each other only through the host's PCI Express tree."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.network.fabric import SCALE_UP, Edge, ScaleUp
from archmodel.quantities import Num, PositiveBandwidth


@SCALE_UP.register
class Pcie(ScaleUp):
    """Each GPU has its own slot; all share the host (root complexes and the socket link between them)."""

    kind: Literal["pcie"] = "pcie"
    bandwidth: PositiveBandwidth = Field(..., description="slot of one GPU, per direction")
    host_bandwidth: PositiveBandwidth | None = Field(
        None,
        description="what the host forwards for all GPUs together, per direction; absent: all slots at once",
    )

    def injection(self, ranks: int) -> Num:
        if self.host_bandwidth is None:
            return self.bandwidth
        return np.minimum(self.bandwidth, self.host_bandwidth / ranks)

    def edges(self, ranks: int) -> list[Edge]:
        return [(gpu, "host", self.bandwidth) for gpu in range(ranks)]

    def bisection(self, ranks: int) -> Num:
        slots = self.bandwidth * (ranks // 2)
        return slots if self.host_bandwidth is None else np.minimum(slots, self.host_bandwidth)
