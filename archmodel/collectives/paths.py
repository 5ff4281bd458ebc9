"""Critical paths of algorithms whose steps are not those of a ring: which of them stay in a node, which leave it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from archmodel.collectives import flows, trees
from archmodel.collectives.groups import Placement
from archmodel.quantities import Array

Ints = npt.NDArray[np.int64]


def steps(kind: str, algorithm: str, group: Placement, local_size: int) -> tuple[int, int]:
    """Steps (in a node, between nodes) of double_binary_tree or halving_doubling on the critical path."""
    if group.members is None:
        return _steps_regular(kind, algorithm, group.local, group.nodes)
    return _steps(kind, algorithm, group.node_of(local_size), group.first)


def serial(kind: str, group: Placement, local_size: int) -> tuple[float, float]:
    """Halving-doubling: shares of the full buffer that one step after the other sends (in a node, between nodes)."""
    if group.members is None:
        return _serial_regular(kind, group.local, group.nodes)
    found = _exchanges(kind, group.node_of(local_size))
    return sum(x for x, out in found if not out), sum(x for x, out in found if out)


@lru_cache(maxsize=256)
def _steps_regular(kind: str, algorithm: str, local: int, nodes: int) -> tuple[int, int]:
    return _steps(kind, algorithm, np.arange(local * nodes) // local, 0)


@lru_cache(maxsize=256)
def _serial_regular(kind: str, local: int, nodes: int) -> tuple[float, float]:
    found = _exchanges(kind, np.arange(local * nodes) // local)
    return sum(x for x, out in found if not out), sum(x for x, out in found if out)


def _steps(kind: str, algorithm: str, node: Ints, root: int) -> tuple[int, int]:
    if len(node) == 1:
        return 0, 0
    if algorithm == "halving_doubling":
        outs = [out for _, out in _exchanges(kind, node)]
        return outs.count(False), outs.count(True)
    if kind == "all_reduce":
        longest = [_longest(parent, node) for parent in trees.double_tree(len(node))]
        return 2 * max(up for up, _ in longest), 2 * max(out for _, out in longest)
    longest = []
    for child, above in flows.rooted_trees(len(node), root):
        parent = np.arange(len(node))
        parent[child] = above
        longest.append(_longest(parent, node))
    return max(up for up, _ in longest), max(out for _, out in longest)


def _longest(parent: Ints, node: Ints) -> tuple[int, int]:
    """Most steps inside nodes, and most between nodes, on any path to the root."""
    at = np.arange(len(parent))
    inside, across = np.zeros(len(parent), dtype=np.int64), np.zeros(len(parent), dtype=np.int64)
    while True:
        above = parent[at]
        moving = above != at
        if not moving.any():
            return int(inside.max()), int(across.max())
        same = node[at] == node[above]
        inside += moving & same
        across += moving & ~same
        at = above


def _exchanges(kind: str, node: Ints) -> list[tuple[float, bool]]:
    """(share of the buffer, whether it leaves a node) of every step; one in which anybody leaves is one that does."""
    n = len(node)
    inside, extra, stand_in = flows.core(n)
    owned = np.ones(len(inside))
    owned[: len(extra)] += 1
    found: list[tuple[float, bool]] = []
    d = 1
    while d < len(inside):
        partner = inside[np.arange(len(inside)) ^ d]
        half: Array = owned.reshape(-1, 2 * d).sum(0)
        found.append((float(half.max()) / n, bool((node[inside] != node[partner]).any())))
        d *= 2
    if kind == "all_reduce":
        found *= 2
    if len(extra):
        leaves = bool((node[extra] != node[stand_in]).any())
        own = 1.0 / n
        fold, unfold = {"all_reduce": (1.0, 1.0), "reduce_scatter": (1.0, own), "all_gather": (own, 1.0 - own)}[kind]
        found += [(fold, leaves), (unfold, leaves)]
    return found
