"""What all fabrics share: constants of links and of the software that drives them; two families of kinds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from pydantic import Field, model_validator

from archmodel.components.base import Component, Family
from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.nic import Nic
from archmodel.network.protocol import Protocol
from archmodel.quantities import Count, Num, PositiveBandwidth, PositiveFraction, Seconds

Edge = tuple[int | str, int | str, Num]
"""Two ends (a GPU by its number, anything else by name) and bytes per second in each direction."""


class Fabric(Component):
    """Constants of a fabric. Bandwidths are per direction; arrays over design points are (points, 1)."""

    efficiency: PositiveFraction = Field(1.0, description="achieved share of the line rate in large collectives")
    latency: Seconds = Field(0.0, description="latency of one step of a collective: send, switch, receive, flag")
    direct_latency: Seconds = Field(0.0, description="added cost of every peer in a direct exchange (all-to-all)")
    tree_fraction: PositiveFraction = Field(1.0, description="share of the ring's bandwidth that trees achieve")
    direct_fraction: PositiveFraction = Field(
        1.0, description="share of the ring's bandwidth that a direct exchange achieves"
    )
    protocols: dict[str, Protocol] = Field(
        default_factory=dict,
        description="how the collective library drives it; none: latency and bandwidth alone",
    )

    @model_validator(mode="after")
    def _every_size_has_a_protocol(self) -> Self:
        rows = self.protocols.values()
        if rows and not any(row.base is not None and row.limit is None for row in rows):
            raise ValueError("no protocol has a `base` and no `limit`: large rings would have none")
        if rows and not any(row.direct_base is not None and row.direct_limit is None for row in rows):
            raise ValueError("no protocol has a `direct_base` and no `direct_limit`: large all-to-alls would have none")
        return self

    def constants(self) -> dict[str, Any]:
        """The fields that a `Dimension` takes over as they are."""
        names = ("efficiency", "latency", "direct_latency", "tree_fraction", "direct_fraction", "protocols")
        return {name: getattr(self, name) for name in names}


class ScaleUp(Fabric):
    """A fabric that joins the GPUs of one node."""

    gpus: Count | None = Field(None, description="most GPUs that it joins; absent: any number")
    copy_bandwidth: PositiveBandwidth | None = Field(
        None, description="rate at which the collective's kernel moves the block that stays on its GPU"
    )
    in_network: Protocol | None = Field(
        None, description="all-reduce inside the switch (multicast and reduction); absent: it has none"
    )

    @abstractmethod
    def injection(self, ranks: int) -> Num:
        """B/s, per direction, that each of the first `ranks` GPUs can send to the others."""

    @abstractmethod
    def edges(self, ranks: int) -> list[Edge]:
        """The links among the first `ranks` GPUs, each once, and the switches between them."""

    @abstractmethod
    def bisection(self, ranks: int) -> Num:
        """B/s, per direction, across the narrowest cut of the first `ranks` GPUs into two halves."""

    def ring_share(self, ranks: int) -> Num:
        """Part of the injection bandwidth that rings through the first `ranks` GPUs can use."""
        return 1.0

    def direct_share(self, ranks: int) -> Num:
        """Part of the injection bandwidth that equal traffic between all pairs can use."""
        return 1.0

    def dimension(self, ranks: int) -> Dimension:
        """This fabric with the first `ranks` GPUs of the node on it."""
        if self.gpus is not None and ranks > self.gpus:
            raise TopologyError(f"{ranks} ranks per node do not fit a scale_up fabric of {self.gpus} GPUs")
        alone = ranks == 1
        return Dimension(
            name="scale_up",
            kind=str(getattr(self, "kind", "")),
            size=ranks,
            bandwidth=self.injection(ranks),
            bisection=0.0 if alone else self.bisection(ranks),
            ring_share=1.0 if alone else self.ring_share(ranks),
            direct_share=1.0 if alone else self.direct_share(ranks),
            copy_bandwidth=self.copy_bandwidth,
            in_network=self.in_network,
            **self.constants(),
        )


class ScaleOut(Fabric):
    """A fabric that joins nodes through their network interfaces."""

    @abstractmethod
    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> Dimension:
        """This fabric with `nodes` nodes on it, each with `ranks_per_node` ranks that share its NICs."""

    @abstractmethod
    def edges(self, nodes: int, ranks_per_node: int, nic: Nic, gpus_per_node: int) -> list[Edge]:
        """The links between GPUs (by rank, node-major) and the switches above them, each once."""


SCALE_UP: Family[ScaleUp] = Family("scale_up")
SCALE_OUT: Family[ScaleOut] = Family("scale_out")
