"""A node whose links are listed one by one."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from archmodel.components.base import Component
from archmodel.network.fabric import SCALE_UP, ScaleUp
from archmodel.network.graph import Edge, End
from archmodel.quantities import Count, PositiveBandwidth, Seconds


class Link(Component):
    """One link, or several equal ones side by side."""

    between: tuple[End, End] = Field(..., description="its two ends: GPUs by number, switches by any name")
    bandwidth: PositiveBandwidth = Field(..., description="of one link, per direction")
    count: Count = Field(1, description="parallel links; traffic is striped over them, so they add up")
    latency: Seconds = Field(0.0, description="of the link, in addition to the fabric's `link_latency`")


@SCALE_UP.register
class Custom(ScaleUp):
    """Any graph of GPUs and switches. Messages take paths of fewest links, spread over all of them in
    proportion to bandwidth; GPUs forward for others where the links ask for it."""

    kind: Literal["graph"] = "graph"
    links: tuple[Link, ...] = Field(..., min_length=1, description="all links; a pair may have several entries")

    @model_validator(mode="after")
    def _ends_exist(self) -> Self:
        for link in self.links:
            a, b = link.between
            if a == b:
                raise ValueError(f"{a} is linked to itself")
            for end in (a, b):
                if isinstance(end, int) and end < 0:
                    raise ValueError(f"GPU {end}: GPUs are numbered from 0")
                if isinstance(end, int) and self.gpus is not None and end >= self.gpus:
                    raise ValueError(f"a link names GPU {end}; gpus is {self.gpus}, so they are 0 to {self.gpus - 1}")
        return self

    def edges(self, ranks: int) -> list[Edge]:
        return [
            Edge(*link.between, link.bandwidth * link.count, link.latency + self.link_latency)
            for link in self.links
            if all(isinstance(end, str) or end < ranks for end in link.between)
        ]
