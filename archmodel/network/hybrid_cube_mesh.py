"""GPUs joined by point-to-point links of unequal width (DGX-1: six NVLinks per GPU)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from archmodel.network import links
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import SCALE_UP, Rates, ScaleUp
from archmodel.network.graph import Edge, Graph, wires_of
from archmodel.network.pattern import Pattern
from archmodel.network.shape import Shape
from archmodel.quantities import Array, Count, CountOrZero, Num, PositiveBandwidth

MOST_GPUS = 8
"""Rings are found by trying all orders: 2,520 for 8 GPUs."""

Pair = tuple[CountOrZero, CountOrZero, Count]


@SCALE_UP.register
class HybridCubeMesh(ScaleUp):
    """Ranks take the first GPUs in order. Pairs without a link go through GPUs between them, spread evenly
    over all shortest paths; rings are packed into the links they find (see `archmodel.network.links`)."""

    kind: Literal["hybrid_cube_mesh"] = "hybrid_cube_mesh"
    link_bandwidth: PositiveBandwidth = Field(..., description="one link, per direction")
    pairs: tuple[Pair, ...] = Field(..., description="[GPU, GPU, parallel links between them], each pair once")

    @model_validator(mode="after")
    def _pairs_are_distinct(self) -> Self:
        seen: set[frozenset[int]] = set()
        for a, b, _ in self.pairs:
            pair = frozenset((a, b))
            if a == b:
                raise ValueError(f"GPU {a} is linked to itself")
            if pair in seen:
                raise ValueError(f"the pair {a}, {b} is listed twice")
            if max(a, b) >= MOST_GPUS:
                raise ValueError(f"GPU {max(a, b)}: a node of point-to-point links has GPUs 0 to {MOST_GPUS - 1}")
            seen.add(pair)
        return self

    def shape(self, ranks: int) -> Shape:
        ring_links = 0.0 if ranks == 1 else _rates(self.pairs, ranks)[1]
        return PackedRings(ranks, self.edges(ranks), self.link_bandwidth * ring_links)

    def edges(self, ranks: int) -> list[Edge]:
        return [Edge(a, b, self.link_bandwidth * n, self.link_latency) for a, b, n in self.pairs if max(a, b) < ranks]

    def rates(self, ranks: int) -> Rates:
        """A rank's bandwidth is that of the GPU with the most links."""
        if ranks == 1:
            return Rates(self.link_bandwidth, 0.0)
        widest, ring, direct, cut = _rates(self.pairs, ranks)
        rings = min(1.0, ring / widest)
        return Rates(self.link_bandwidth * widest, self.link_bandwidth * cut, rings, rings, min(1.0, direct / widest))


class PackedRings(Graph):
    """A graph on which rings run where the links are, several at once, not in rank order."""

    __slots__ = ("ring_bandwidth",)

    ring_bandwidth: Num

    def __init__(self, ranks: int, edges: list[Edge], ring_bandwidth: Num) -> None:
        super().__init__(wires_of(ranks, edges))
        object.__setattr__(self, "ring_bandwidth", ring_bandwidth)

    def shift(self, distance: int = 1) -> Pattern:
        pattern = super().shift(distance)
        if distance != 1 or self.size == 1:
            return pattern
        return replace(pattern, load=1.0, bandwidth=self.ring_bandwidth)

    def both_ways(self) -> Pattern:
        return self.shift()

    def successors(self) -> Array:
        """Share of what a rank sends in rings that goes to each other rank, (size, size)."""
        wires, n = self.wires, self.size
        w = np.zeros((n, n))
        w[wires.tail, wires.head] = wires.width
        found = links.packed_rings(w) if n > 2 else []
        if not found:
            return super().successors()
        share: Array = np.zeros((n, n))
        for order, width in found:
            share[order, np.roll(order, -1)] += width
            share[order, np.roll(order, 1)] += width
        share /= share.sum(1, keepdims=True)
        return share


def _widths(pairs: tuple[Pair, ...], ranks: int) -> Array:
    """Parallel links between the first `ranks` GPUs, (ranks, ranks)."""
    w = np.zeros((ranks, ranks))
    for a, b, n in pairs:
        if max(a, b) < ranks:
            w[a, b] = w[b, a] = n
    return w


@lru_cache(maxsize=64)
def _rates(pairs: tuple[Pair, ...], ranks: int) -> tuple[float, float, float, float]:
    """In links: of the widest rank; that rings, and uniform direct traffic, use of a rank; across the narrowest cut."""
    w = _widths(pairs, ranks)
    if np.isinf(links.shortest_paths(w)[0]).any():
        raise TopologyError(f"the first {ranks} GPUs of this node are not all joined by links")
    widest = float(w.sum(axis=1).max())
    return widest, links.ring_rate(w), links.direct_rate(w), links.narrowest_half(w)
