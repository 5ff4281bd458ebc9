"""What traffic a small graph of point-to-point links carries: pure functions of its width matrix.

A width matrix `w` of shape (n, n) is symmetric and counts the parallel links between two ranks; each link
carries one unit per second in each direction. For graphs of a node (n up to 8); nothing here is called per
design point.
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array

Ints = npt.NDArray[np.int64]


def shortest_paths(w: Array) -> tuple[Array, Array]:
    """Hop counts (n, n), infinite where there is no path, and the number of shortest paths (n, n).

    Parallel links count as different paths. Breadth-first over powers of the width matrix.
    """
    n = len(w)
    hops = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    paths = np.eye(n)
    walks = np.eye(n)
    for length in range(1, n):
        walks = walks @ w
        found = np.isinf(hops) & (walks > 0)
        hops[found] = length
        paths[found] = walks[found]
    return hops, paths


def link_load(w: Array, demand: Array) -> Array:
    """Load (n, n) of one link from u to v, in the units of `demand` (n, n), pair by pair split evenly over
    all its shortest paths. Links that do not exist carry nothing; a pair without a path makes every load
    infinite."""
    hops, paths = shortest_paths(w)
    wanted = (demand > 0) & ~np.eye(len(w), dtype=bool)
    if np.isinf(hops[wanted]).any():
        return np.full_like(w, np.inf)
    # [s, u, v, t]: the link u -> v lies on a shortest path from s to t
    through = hops[:, :, None, None] + 1 + hops[None, None, :, :] == hops[:, None, None, :]
    share = np.divide(demand, paths, out=np.zeros_like(demand), where=wanted)
    used = np.einsum("suvt,su,vt,st->uv", through, paths, paths, share)
    return np.where(w > 0, used, 0.0)


def direct_rate(w: Array) -> float:
    """Units per second that each rank can send when all send the same to all others: 1 / largest load."""
    n = len(w)
    demand = (1.0 - np.eye(n)) / (n - 1)
    return _rate(link_load(w, demand))


def ring_rate(w: Array) -> float:
    """Units per second that each rank can send in rings through all ranks, used in both directions.

    Rings are packed (`packed_rings`); where the graph has none, the best single ring over routes is taken. Two ranks
    have one ring, whose two directions are the two directions of the links.
    """
    if len(w) == 2:
        return float(w[0, 1])
    packed = sum(width for _, width in packed_rings(w))
    return 2.0 * packed if packed else _routed_ring_rate(w)


def packed_rings(w: Array) -> list[tuple[Ints, float]]:
    """Rings through all ranks as (order (n,), links of its width), packed greedily, widest first, over all cyclic
    orders of three or more ranks."""
    n = len(w)
    orders = np.array([(0, *rest) for rest in permutations(range(1, n)) if rest[0] < rest[-1]])
    left = w.copy()
    found: list[tuple[Ints, float]] = []
    while True:
        widths = left[orders, np.roll(orders, -1, axis=1)].min(axis=1)
        best = int(widths.argmax())
        if widths[best] <= 0:
            return found
        found.append((orders[best], float(widths[best])))
        a, b = orders[best], np.roll(orders[best], -1)
        left[a, b] -= widths[best]
        left[b, a] -= widths[best]


def _routed_ring_rate(w: Array) -> float:
    """A ring in rank order whose hops follow shortest paths."""
    n = len(w)
    demand = np.zeros((n, n))
    demand[np.arange(n), (np.arange(n) + 1) % n] = 1.0
    return _rate(link_load(w, demand))


def narrowest_half(w: Array) -> float:
    """Units per second in each direction across the narrowest cut into floor(n/2) and ceil(n/2) ranks."""
    n = len(w)
    cuts = []
    for half in combinations(range(n), n // 2):
        inside = np.zeros(n, dtype=bool)
        inside[list(half)] = True
        cuts.append(float(w[np.ix_(inside, ~inside)].sum()))
    return min(cuts)


def _rate(load: Array) -> float:
    worst = float(load.max())
    return 1.0 / worst if worst > 0 else 0.0
