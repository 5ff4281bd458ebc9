"""A node whose GPUs all hang on one switch stage (NVSwitch)."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from archmodel.network.fabric import SCALE_UP, ScaleUp
from archmodel.network.graph import Edge
from archmodel.network.shape import Shape, Switches
from archmodel.quantities import Num, PositiveBandwidth, PositiveRatio


@SCALE_UP.register
class Switch(ScaleUp):
    """Every GPU has its full link rate to the switch; parallel switch planes are striped and add up.
    Non-blocking, unless `oversubscription` says otherwise."""

    kind: Literal["switch"] = "switch"
    bandwidth: PositiveBandwidth = Field(..., description="all links of one GPU to the switch together, per direction")
    oversubscription: PositiveRatio = Field(
        1.0, description="bandwidth of all links over what the switch forwards at once; 1 is non-blocking"
    )

    @model_validator(mode="after")
    def _a_switch_adds_nothing(self) -> Self:
        not_below_one(self.oversubscription, "a switch that forwards more than its links carry counts as 1")
        return self

    def shape(self, ranks: int) -> Shape:
        return Switches(ranks, self.bandwidth, self.link_latency, core=self._core(ranks))

    def edges(self, ranks: int) -> list[Edge]:
        return [Edge(gpu, "switch", self.bandwidth, self.link_latency) for gpu in range(ranks)]

    def _core(self, ranks: int) -> Num | None:
        if np.all(np.equal(self.oversubscription, 1.0)):
            return None
        ports = ranks if self.gpus is None else self.gpus
        return self.bandwidth * ports / self.oversubscription


def not_below_one(ratio: Num, otherwise: str) -> None:
    """Raises ValueError for an oversubscription below 1."""
    if np.any(np.less(ratio, 1.0)):
        raise ValueError(f"oversubscription is below 1; {otherwise}")
