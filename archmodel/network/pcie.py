"""A node whose GPUs reach each other only through the host's PCI Express tree."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.network.fabric import SCALE_UP, Rates, ScaleUp
from archmodel.network.graph import Edge
from archmodel.network.shape import Shape, Switches
from archmodel.quantities import PositiveBandwidth


@SCALE_UP.register
class Pcie(ScaleUp):
    """Each GPU has its own slot; all share the host (root complexes and the socket link between them)."""

    kind: Literal["pcie"] = "pcie"
    bandwidth: PositiveBandwidth = Field(..., description="slot of one GPU, per direction")
    host_bandwidth: PositiveBandwidth | None = Field(
        None,
        description="what the host forwards for all GPUs together, per direction; absent: all slots at once",
    )

    def shape(self, ranks: int) -> Shape:
        return Switches(ranks, self.bandwidth, self.link_latency, core=self.host_bandwidth)

    def edges(self, ranks: int) -> list[Edge]:
        return [Edge(gpu, "host", self.bandwidth, self.link_latency) for gpu in range(ranks)]

    def rates(self, ranks: int) -> Rates:
        slots = self.bandwidth * (ranks // 2)
        if self.host_bandwidth is None:
            return Rates(self.bandwidth, slots)
        return Rates(np.minimum(self.bandwidth, self.host_bandwidth / ranks), np.minimum(slots, self.host_bandwidth))
