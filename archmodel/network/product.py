"""Several dimensions, each with links of its own, as one fabric: rank = i_0 + n_0 (i_1 + n_1 (i_2 + ...)).

Ranks that differ only in i_d are joined by dimension d. Messages between other ranks go dimension by
dimension, inner to outer: of N ranks that all send one message to each other, each row of n_d ranks carries
N/n_d messages for every pair of its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from archmodel.network.dimension import Dimension, Level
from archmodel.network.errors import TopologyError
from archmodel.network.graph import Edge
from archmodel.quantities import Num


def sizes_in_use(sizes: Sequence[int], members: int, what: str) -> tuple[int, ...]:
    """Size of each dimension when the first `members` places are used: inner dimensions full, then part of one.

    Raises `TopologyError` where that is no box, naming the nearest that is.
    """
    used: list[int] = []
    left = members
    for size in sizes:
        take = min(size, left)
        if left % take:
            whole = prod(used) * take
            below, above = members // whole * whole, (members // whole + 1) * whole
            raise TopologyError(
                f"{members} {what} are no box of {' x '.join(map(str, sizes))}; {below} or {above} may be"
            )
        used.append(take)
        left //= take
    if left > 1:
        raise TopologyError(f"{members} {what} do not fit {' x '.join(map(str, sizes))} = {prod(sizes)}")
    return tuple(used)


def joined(name: str, kind: str, axes: Sequence[Dimension], level: Level, constants: dict[str, Any]) -> Dimension:
    """The dimensions as one: what a rank sends when it treats them as a single fabric.

    Rings in rank order go over links of every dimension, so at the rate of the slowest. `axes` keep all else.
    """
    n = prod(axis.size for axis in axes)
    crossed = [axis for axis in axes if axis.size > 1]
    axes = tuple(replace(axis, level=level) for axis in axes)
    if not crossed:
        return Dimension(name, kind, n, axes[0].bandwidth, 0.0, level=level, axes=axes, **constants)
    bandwidth: Num = 0.0
    for axis in crossed:
        bandwidth = bandwidth + axis.bandwidth
    direct = [n / axis.size * (axis.size - 1) / axis.direct_bandwidth for axis in crossed]
    return Dimension(
        name=name,
        kind=kind,
        size=n,
        bandwidth=bandwidth,
        bisection=bisection(crossed),
        ring_share=_least([axis.ring_bandwidth for axis in crossed]) / bandwidth,
        both_ways_share=_least([axis.both_ways_bandwidth for axis in crossed]) / bandwidth,
        direct_share=np.minimum(1.0, (n - 1) / (-_least([-seconds for seconds in direct])) / bandwidth),
        latency=-_least([-axis.latency for axis in crossed]),
        level=level,
        axes=axes,
        **constants,
    )


def bisection(axes: Sequence[Dimension]) -> Num:
    """B/s across the narrowest even cut that is straight: through the middle of one dimension, and, where its size is
    odd, through the middle of the slab that is left in the same way."""
    n = prod(axis.size for axis in axes)
    cuts: list[Num] = []
    for i, axis in enumerate(axes):
        rest = [*axes[:i], *axes[i + 1 :]]
        cuts.append(n / axis.size * axis.bisection + (bisection(rest) if axis.size % 2 and rest else 0.0))
    return _least(cuts)


def edges_of(rows: Sequence[tuple[str, list[Edge]]], sizes: Sequence[int]) -> list[Edge]:
    """Links of a product, from the links of one row of each dimension; switches are named after their row."""
    places = np.arange(prod(sizes)).reshape(tuple(reversed(sizes)))
    edges = []
    for d, (name, row) in enumerate(rows):
        lines = np.moveaxis(places, len(sizes) - 1 - d, -1).reshape(-1, sizes[d])
        for number, line in enumerate(lines.tolist()):
            for edge in row:
                a, b = (line[end] if isinstance(end, int) else f"{name} {number} {end}" for end in (edge.a, edge.b))
                edges.append(edge._replace(a=a, b=b))
    return edges


def _least(values: Sequence[Num]) -> Num:
    least = values[0]
    for value in values[1:]:
        least = np.minimum(least, value)
    return least
