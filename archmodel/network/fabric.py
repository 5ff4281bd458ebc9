"""What all fabrics share: constants of links and of the software that drives them; two families of kinds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from archmodel.components.base import Component, Family
from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.graph import Edge, End, Graph, wires_of
from archmodel.network.nic import Nic
from archmodel.network.protocol import Protocol
from archmodel.network.shape import Shape
from archmodel.quantities import Count, Fraction, Num, PositiveBandwidth, PositiveFraction, PositiveRatio, Seconds


class Fault(Component):
    """A link that has failed or runs slower than it should."""

    between: tuple[End, End] = Field(..., description="its two ends: GPUs by number, switches by name")
    remaining: Fraction = Field(0.0, description="share of the link's bandwidth that is left; 0: it has failed")


class Fabric(Component):
    """Constants of a fabric. Bandwidths are per direction; arrays over design points are (points, 1)."""

    efficiency: PositiveFraction = Field(1.0, description="achieved share of the line rate in large collectives")
    latency: Seconds = Field(0.0, description="latency of one step of a collective: send, switch, receive, flag")
    link_latency: Seconds = Field(
        0.0, description="latency of one link, in addition; a path through a switch has two links"
    )
    direct_latency: Seconds = Field(0.0, description="added cost of every peer in a direct exchange (all-to-all)")
    tree_fraction: PositiveFraction = Field(1.0, description="share of the ring's bandwidth that trees achieve")
    direct_fraction: PositiveFraction = Field(
        1.0, description="share of the ring's bandwidth that a direct exchange achieves"
    )
    protocols: dict[str, Protocol] = Field(
        default_factory=dict,
        description="how the collective library drives it; none: latency and bandwidth alone",
    )

    clock: PositiveRatio = Field(
        1.0,
        description="clock of these GPUs over that of those whose start-ups and latencies stand here: what software "
        "takes is divided by it; links, shares of them and what the library expects stay",
    )

    @model_validator(mode="after")
    def _every_size_has_a_protocol(self) -> Self:
        rows = self.protocols.values()
        if rows and not any(row.base is not None and row.limit is None for row in rows):
            raise ValueError("no protocol has a `base` and no `limit`: large rings would have none")
        if rows and not any(row.direct_base is not None and row.direct_limit is None for row in rows):
            raise ValueError("no protocol has a `direct_base` and no `direct_limit`: large all-to-alls would have none")
        return self

    def clocked(self) -> Self:
        """The same with the times that its own GPUs take: `clock` 1."""
        if np.all(np.equal(self.clock, 1.0)):
            return self
        changed: dict[str, Any] = {name: getattr(self, name) / self.clock for name in ("latency", "direct_latency")}
        changed["protocols"] = {name: row.clocked(self.clock) for name, row in self.protocols.items()}
        if (row := getattr(self, "in_network", None)) is not None:
            changed["in_network"] = row.clocked(self.clock)
        return self.model_copy(update={**changed, "clock": 1.0})

    def constants(self) -> dict[str, Any]:
        """The fields that a `Dimension` takes over as they are."""
        names = ("efficiency", "direct_latency", "tree_fraction", "direct_fraction", "protocols")
        return {**{name: getattr(self, name) for name in names}, "overhead": self.latency}

    def step_latency(self, shape: Shape) -> Num:
        """Seconds of one step between neighbours: software, and the links of the path."""
        return self.latency + shape.shift().latency


class ScaleUp(Fabric):
    """A fabric that joins the GPUs of one node. A kind tells its links (`edges`), and its `shape` where
    loads have a closed form; `rates` follow, unless it knows better ones."""

    gpus: Count | None = Field(None, description="most GPUs that it joins; absent: any number")
    copy_bandwidth: PositiveBandwidth | None = Field(
        None, description="rate at which the collective's kernel moves the block that stays on its GPU"
    )
    in_network: Protocol | None = Field(
        None, description="all-reduce inside the switch (multicast and reduction); absent: it has none"
    )
    faults: tuple[Fault, ...] = Field((), description="links that have failed or are degraded, each once")

    @abstractmethod
    def edges(self, ranks: int) -> list[Edge]:
        """The links among the first `ranks` GPUs, each once, and the switches between them."""

    def shape(self, ranks: int) -> Shape:
        """How the links among the first `ranks` GPUs run, none of them faulty."""
        return Graph(wires_of(ranks, self.edges(ranks)))

    def rates(self, ranks: int) -> Rates:
        """What the first `ranks` GPUs can send, none of the links faulty."""
        return rates_of(self.shape(ranks))

    def working(self, ranks: int) -> list[Edge]:
        """The links with their faults: what has failed is left out, what is degraded narrower."""
        return with_faults(self.edges(ranks), self.faults)

    def dimension(self, ranks: int) -> Dimension:
        """This fabric with the first `ranks` GPUs of the node on it."""
        self.check_size(ranks)
        faulty = self.faults and ranks > 1
        shape = Graph(wires_of(ranks, self.working(ranks))) if faulty else self.shape(ranks)
        rates = rates_of(shape) if faulty else self.rates(ranks)
        return Dimension(
            name="scale_up",
            kind=str(getattr(self, "kind", "")),
            size=ranks,
            bandwidth=rates.injection,
            bisection=rates.bisection,
            ring_share=rates.ring_share,
            both_ways_share=rates.both_ways_share,
            direct_share=rates.direct_share,
            latency=self.step_latency(shape),
            copy_bandwidth=self.copy_bandwidth,
            in_network=self.in_network,
            shape=shape,
            **self.constants(),
        )

    def check_size(self, ranks: int) -> None:
        """Raises `TopologyError` for more GPUs than there are."""
        if self.gpus is not None and ranks > self.gpus:
            raise TopologyError(f"{ranks} ranks per node do not fit a scale_up fabric of {self.gpus} GPUs")


class ScaleOut(Fabric):
    """A fabric that joins nodes through their network interfaces."""

    needs_nic: ClassVar[bool] = True
    """Whether its links are those of `node.nic`."""

    @abstractmethod
    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        """This fabric with `nodes` nodes on it, each with `ranks_per_node` ranks that share its NICs."""

    @abstractmethod
    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        """The links between GPUs (by rank, node-major) and the switches above them, each once."""


class Rates(NamedTuple):
    """B/s per direction: of every rank, of the rank with the fewest links; across the narrowest even cut. Then
    the parts of a rank's bandwidth that a ring in rank order, one used both ways, and equal traffic between
    all pairs can use."""

    injection: Num
    bisection: Num
    ring_share: Num = 1.0
    both_ways_share: Num = 1.0
    direct_share: Num = 1.0


def rates_of(shape: Shape) -> Rates:
    """Rates by the routes of a shape; a rank alone has no traffic."""
    injection = shape.rank_bandwidth()
    if shape.size == 1:
        return Rates(injection, 0.0)

    def share(seconds_per_byte: Num) -> Num:
        return np.minimum(1.0, 1.0 / (seconds_per_byte * injection))

    return Rates(
        injection=injection,
        bisection=shape.bisection(),
        ring_share=share(shape.shift().seconds_per_byte),
        both_ways_share=share(shape.both_ways().seconds_per_byte),
        direct_share=share(shape.uniform().seconds_per_byte / (shape.size - 1)),
    )


def with_faults(edges: list[Edge], faults: tuple[Fault, ...]) -> list[Edge]:
    """Edges with their faults. Raises `TopologyError` for a fault of a link that is not there."""
    left = {frozenset(fault.between): fault for fault in faults}
    if len(left) < len(faults):
        raise TopologyError("a fault is listed twice; give each pair of ends once, with what remains of its links")
    pairs = {frozenset((edge.a, edge.b)) for edge in edges}
    for ends, fault in left.items():
        if ends not in pairs and _within(ends, edges):
            a, b = fault.between
            raise TopologyError(f"a fault names the link between {a} and {b}, which this fabric does not have")
    found = []
    for edge in edges:
        fault_here = left.get(frozenset((edge.a, edge.b)))
        if fault_here is None:
            found.append(edge)
        elif np.any(np.greater(fault_here.remaining, 0)):
            found.append(edge._replace(bandwidth=edge.bandwidth * fault_here.remaining))
    return found


def _within(ends: frozenset[End], edges: list[Edge]) -> bool:
    """Whether no end is a GPU that does not take part (faults of those do not matter)."""
    most = max((end for edge in edges for end in (edge.a, edge.b) if isinstance(end, int)), default=-1)
    return all(isinstance(end, str) or end <= most for end in ends)


_HOMES = {"dimensions": "dimensions", "fat_tree": "fat_tree", "mesh": "torus", "torus": "torus"}
_HOMES_UP = {
    **_HOMES,
    "fully_connected": "fully_connected",
    "graph": "custom",
    "hybrid_cube_mesh": "hybrid_cube_mesh",
    "pcie": "pcie",
    "ring": "torus",
}
SCALE_UP: Family[ScaleUp] = Family("scale_up", {kind: f"archmodel.network.{home}" for kind, home in _HOMES_UP.items()})
SCALE_OUT: Family[ScaleOut] = Family("scale_out", {kind: f"archmodel.network.{home}" for kind, home in _HOMES.items()})
