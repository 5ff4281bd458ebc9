"""A node whose GPUs all hang on one non-blocking switch stage (NVSwitch)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from archmodel.network.fabric import SCALE_UP, Edge, ScaleUp
from archmodel.quantities import Num, PositiveBandwidth


@SCALE_UP.register
class Switch(ScaleUp):
    """Every GPU reaches every other at its full link rate; parallel switch planes are striped and add up."""

    kind: Literal["switch"] = "switch"
    bandwidth: PositiveBandwidth = Field(..., description="all links of one GPU to the switch together, per direction")

    def injection(self, ranks: int) -> Num:
        return self.bandwidth

    def edges(self, ranks: int) -> list[Edge]:
        return [(gpu, "switch", self.bandwidth) for gpu in range(ranks)]

    def bisection(self, ranks: int) -> Num:
        return self.bandwidth * (ranks // 2)
