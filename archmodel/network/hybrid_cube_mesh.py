"""GPUs joined by point-to-point links of unequal width (DGX-1: six NVLinks per GPU)."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from archmodel.network import links
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import SCALE_UP, Edge, ScaleUp
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

    def injection(self, ranks: int) -> Num:
        return self.link_bandwidth * max(float(_widths(self.pairs, ranks).sum(axis=1).max()), 1.0)

    def edges(self, ranks: int) -> list[Edge]:
        return [(a, b, self.link_bandwidth * n) for a, b, n in self.pairs if max(a, b) < ranks]

    def bisection(self, ranks: int) -> Num:
        return self.link_bandwidth * links.narrowest_half(_widths(self.pairs, ranks))

    def ring_share(self, ranks: int) -> Num:
        return _shares(self.pairs, ranks)[0]

    def direct_share(self, ranks: int) -> Num:
        return _shares(self.pairs, ranks)[1]


def _widths(pairs: tuple[Pair, ...], ranks: int) -> Array:
    """Parallel links between the first `ranks` GPUs, (ranks, ranks)."""
    w = np.zeros((ranks, ranks))
    for a, b, n in pairs:
        if max(a, b) < ranks:
            w[a, b] = w[b, a] = n
    return w


@lru_cache(maxsize=64)
def _shares(pairs: tuple[Pair, ...], ranks: int) -> tuple[float, float]:
    """Parts of the widest rank's links that rings and uniform direct traffic use."""
    w = _widths(pairs, ranks)
    if np.isinf(links.shortest_paths(w)[0]).any():
        raise TopologyError(f"the first {ranks} GPUs of this node are not all joined by links")
    widest = float(w.sum(axis=1).max())
    return min(1.0, links.ring_rate(w) / widest), min(1.0, links.direct_rate(w) / widest)
