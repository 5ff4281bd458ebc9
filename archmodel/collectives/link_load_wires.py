"""The dimensions that a group's messages cross, with the shape of their links as the group sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from archmodel.collectives import flows
from archmodel.collectives.groups import Placement
from archmodel.collectives.kinds import ROOTED, CollectiveError
from archmodel.network.dimension import Dimension, Level
from archmodel.network.pattern import Pattern
from archmodel.network.protocol import Protocol
from archmodel.network.shape import Ints, Shape
from archmodel.network.topology import Topology
from archmodel.quantities import Array, Num


@dataclass(frozen=True, slots=True)
class Wire:
    """One dimension for groups that act at once. `locals`: ranks of the blocks that each is cut into, by which rings
    are striped (0: one ring in rank order)."""

    name: str
    kind: str
    level: Level
    shape: Shape
    efficiency: Num
    overhead: Num
    direct_latency: Num
    in_network: Protocol | None
    locals: tuple[int, ...] = (0,)

    @property
    def size(self) -> int:
        """Ranks of the group in it."""
        return self.shape.size

    def ring(self, forward: float = 1.0, back: float = 0.0) -> Pattern:
        """`forward` bytes to the next rank and `back` to the one before; of several rings, to those of all in equal
        parts."""
        n = self.size
        if not any(0 < local < n for local in self.locals):
            if not forward or not back:
                return _scaled(self.shape.shift(1 if forward else -1), forward + back)
            if forward == back:
                return _scaled(self.shape.both_ways(), 2 * forward)
        alike = len(set(self.locals)) < 2
        found = [
            (order.ravel(), np.roll(order, -way, axis=1).ravel(), np.full(order.size, amount / len(order)), g)
            for g, local in enumerate(self.locals[:1] if alike else self.locals)
            for order in (flows.ring_orders(n, local or n),)
            for way, amount in ((1, forward), (-1, back))
            if amount
        ]
        source, target, weight = (np.concatenate(column) for column in zip(*(x[:3] for x in found), strict=True))
        row = None if alike else np.concatenate([np.full(s.size, g) for s, _, _, g in found])
        return self.shape.between(source, target, weight, row)


def _scaled(pattern: Pattern, by: float) -> Pattern:
    return replace(pattern, load=by * pattern.load)


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
        w = np.broadcast_to(np.asarray(weight, dtype=np.float64), source.shape)
        if row is not None:  # messages of one group each
            return self.whole.between(self.places[row, source], self.places[row, target], w)
        w = np.tile(w, len(self.places))
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


def wires_of(topology: Topology, groups: Sequence[Placement], kind: str = "all_reduce") -> tuple[Wire, ...]:
    """Dimensions of more than one rank, inner to outer; of listed ranks one, over all links between them, in which the
    root of a rooted `kind` comes first.

    Raises `CollectiveError` for a fabric that does not know its links.
    """
    if groups[0].members is None:
        return tuple(_wire(d, d.shape) for d in topology.spanned(groups[0].label))
    places = _places(groups)
    if kind in ROOTED or kind == "point_to_point":
        places = np.stack([np.roll(one, -group.first) for one, group in zip(places, groups, strict=True)])
    if places.shape[1] == 1:
        return ()
    wire = _wire(_slowest(topology.dimensions), _between(topology, places))
    return (replace(wire, locals=tuple(group.local for group in groups)),)


def nested(topology: Topology, groups: Sequence[Placement]) -> tuple[Wire, ...]:
    """The same, in which listed ranks on several nodes are two dimensions: inside blocks of equally many ranks of a
    node, and between equal places of all blocks.

    Raises `CollectiveError` besides for lists that are cut into different blocks.
    """
    local, blocks = groups[0].local, groups[0].blocks
    if groups[0].members is None:
        return wires_of(topology, groups)
    if any(group.local != local for group in groups):
        raise CollectiveError("groups that lie differently on their nodes have different phases; price each by itself")
    grid = _places(groups).reshape(-1, blocks, local)
    found: list[Wire] = []
    if local > 1:
        found.append(_wire(_slowest(topology.scale_up.flat), _between(topology, grid.reshape(-1, local))))
    if blocks > 1:
        outer = _wire(_slowest(topology.dimensions), _between(topology, grid.swapaxes(1, 2).reshape(-1, blocks)))
        found.append(replace(outer, name="scale_out", level="scale_out"))
    return tuple(found)


def _places(groups: Sequence[Placement]) -> Ints:
    """Ranks of listed groups, (groups, ranks)."""
    return np.stack([group.members for group in groups if group.members is not None])


def _between(topology: Topology, places: Ints) -> Shape | None:
    levels = topology.levels
    whole = levels[0].shape if len(levels) == 1 and not levels[0].axes else topology.routes()
    return None if whole is None else Members(whole, places)


def _slowest(dimensions: Sequence[Dimension]) -> Dimension:
    return max(dimensions, key=lambda d: float(np.max(d.overhead)))


def _wire(d: Dimension, shape: Shape | None) -> Wire:
    if shape is None:
        raise CollectiveError(f"the {d.kind} fabric of {d.name} does not say how its links run; link_load needs that")
    return Wire(d.name, d.kind, d.level, shape, d.efficiency, d.overhead, d.direct_latency, d.in_network)
