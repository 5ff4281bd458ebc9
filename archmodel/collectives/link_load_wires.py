"""The dimensions that a group's messages cross, with the shape of their links as the group sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archmodel.collectives.groups import Placement
from archmodel.collectives.kinds import CollectiveError
from archmodel.network.dimension import Dimension, Level
from archmodel.network.pattern import Pattern
from archmodel.network.protocol import Protocol
from archmodel.network.shape import Ints, Shape
from archmodel.network.topology import Topology
from archmodel.quantities import Array, Num


@dataclass(frozen=True, slots=True)
class Wire:
    """One dimension for one group."""

    name: str
    kind: str
    level: Level
    shape: Shape
    efficiency: Num
    overhead: Num
    direct_latency: Num
    in_network: Protocol | None

    @property
    def size(self) -> int:
        """Ranks of the group in it."""
        return self.shape.size


class Members(Shape):
    """Some ranks of a larger shape, renumbered: rank i of group g sits at `places[g, i]`. All groups act at once."""

    __slots__ = ("__dict__", "places", "whole")

    whole: Shape
    places: Ints

    def __init__(self, whole: Shape, places: Ints) -> None:
        for name, value in (
            ("size", places.shape[1]),
            ("bandwidth", whole.bandwidth),
            ("latency", whole.latency),
            ("whole", whole),
            ("places", places),
        ):
            object.__setattr__(self, name, value)

    def between(self, source: Ints, target: Ints, weight: Array | float = 1.0, row: Ints | None = None) -> Pattern:
        groups = len(self.places)
        w = np.tile(np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape), groups)
        return self.whole.between(self.places[:, source].ravel(), self.places[:, target].ravel(), w)

    def uniform(self) -> Pattern:
        n = self.size
        source, target = np.divmod(np.arange(n * n), n)
        apart = source != target
        return self.between(source[apart], target[apart])

    def rank_bandwidth(self) -> Num:
        return self.whole.rank_bandwidth()

    def bisection(self) -> Num:
        return self.whole.bisection()


def wires_of(topology: Topology, groups: Sequence[Placement]) -> tuple[Wire, ...]:
    """Dimensions of more than one rank, inner to outer; of listed ranks one, over all links between them.

    Raises `CollectiveError` for a fabric that does not know its links.
    """
    if groups[0].members is None:
        return tuple(_wire(d, d.shape) for d in topology.spanned(groups[0].label))
    places = np.stack([group.members for group in groups if group.members is not None])
    if places.shape[1] == 1:
        return ()
    levels = topology.levels
    whole = levels[0].shape if len(levels) == 1 and not levels[0].axes else topology.routes()
    slowest = max(topology.dimensions, key=lambda d: float(np.max(d.overhead)))
    return (_wire(slowest, None if whole is None else Members(whole, places)),)


def _wire(d: Dimension, shape: Shape | None) -> Wire:
    if shape is None:
        raise CollectiveError(f"the {d.kind} fabric of {d.name} does not say how its links run; link_load needs that")
    return Wire(d.name, d.kind, d.level, shape, d.efficiency, d.overhead, d.direct_latency, d.in_network)
