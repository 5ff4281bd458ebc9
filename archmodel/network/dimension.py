"""One level of a topology, as a collective sees it from one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from archmodel.network.protocol import Protocol
from archmodel.network.shape import Shape
from archmodel.quantities import Num

Level = Literal["scale_up", "scale_out"]
DimensionName = str
"""A level that is one dimension has its name; the dimensions of a torus or a list are named in the design."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """`size` ranks joined by one fabric. Quantities are floats or arrays of shape (points, 1).

    `bandwidth` is what one rank can put on its links, in one direction, by the datasheet: no collective is
    ever priced faster than its bytes over it. `ring_share` and `direct_share` are the parts of it that rings,
    and uniform traffic between all pairs, can use on this graph, `both_ways_share` a ring that is used in
    both directions; `efficiency` is what software achieves of those. `latency` is that of one step between
    neighbours, links included; `overhead` the part of it that software adds to any step.

    `shape` has the links themselves. `axes`: the dimensions inside this one, inner to outer, if it is a
    product of several (a torus); then it has no shape of its own.
    """

    name: DimensionName
    kind: str
    size: int
    bandwidth: Num
    bisection: Num
    efficiency: Num = 1.0
    latency: Num = 0.0
    direct_latency: Num = 0.0
    ring_share: Num = 1.0
    direct_share: Num = 1.0
    tree_fraction: Num = 1.0
    direct_fraction: Num = 1.0
    copy_bandwidth: Num | None = None
    protocols: Mapping[str, Protocol] | None = None
    in_network: Protocol | None = None
    counts_tree_bytes: bool = True
    both_ways_share: Num = 1.0
    overhead: Num = 0.0
    level: Level = "scale_up"
    shape: Shape | None = None
    axes: tuple[Dimension, ...] = ()

    @property
    def ring_bandwidth(self) -> Num:
        """B/s that a rank sends in a ring of large messages."""
        return self.bandwidth * self.ring_share * self.efficiency

    @property
    def both_ways_bandwidth(self) -> Num:
        """B/s that a rank sends in a ring of large messages that is used in both directions."""
        return self.bandwidth * self.both_ways_share * self.efficiency

    @property
    def tree_bandwidth(self) -> Num:
        """B/s that a rank sends in trees of large messages."""
        return self.ring_bandwidth * self.tree_fraction

    @property
    def direct_bandwidth(self) -> Num:
        """B/s that a rank sends when all pairs exchange the same large amount."""
        return self.bandwidth * self.direct_share * self.efficiency * self.direct_fraction

    @property
    def flat(self) -> tuple[Dimension, ...]:
        """The dimensions inside it, or itself."""
        return self.axes or (self,)
