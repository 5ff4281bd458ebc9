"""A node in which every pair of GPUs has a link of its own (MI300X, first-generation four-GPU boards)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from archmodel.network.fabric import SCALE_UP, Rates, ScaleUp
from archmodel.network.graph import Edge
from archmodel.network.shape import Full, Shape
from archmodel.quantities import PositiveBandwidth


@SCALE_UP.register
class FullyConnected(ScaleUp):
    """n ranks have n - 1 links each. The directed links of a full graph split into n - 1 rings through all
    ranks (for n other than 4 and 6: Tillson 1980), so rings, like direct traffic, can use all of them."""

    kind: Literal["fully_connected"] = "fully_connected"
    link_bandwidth: PositiveBandwidth = Field(..., description="link of one pair of GPUs, per direction")

    def shape(self, ranks: int) -> Shape:
        return Full(ranks, self.link_bandwidth, self.link_latency)

    def edges(self, ranks: int) -> list[Edge]:
        return [Edge(a, b, self.link_bandwidth, self.link_latency) for b in range(ranks) for a in range(b)]

    def rates(self, ranks: int) -> Rates:
        """As many rings as links."""
        return Rates(self.link_bandwidth * max(ranks - 1, 1), self.shape(ranks).bisection())
