"""Two binary trees over n members: inner members of one are leaves of the other, so that both carry half the
data.

Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35 (2009). Works for any n.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array

Members = npt.NDArray[np.int64]


def in_order_tree(n: int) -> Members:
    """Parent of each member, (n,); the root, member 0, has parent 0.

    A member whose lowest set bit is b has parent (member - b) | 2b, or member - b where that is n or more:
    odd members are leaves, and the members between two leaves join them.
    """
    member = np.arange(n)
    bit = member & -member
    parent = (member - bit) | (2 * bit)
    return np.where(parent >= n, member - bit, parent)


@lru_cache(maxsize=256)
def double_tree(n: int) -> tuple[Members, Members]:
    """Parents (n,) in the two trees; a root is its own parent.

    The second tree is the first one mirrored (even n) or shifted by one member (odd n), which makes odd, and
    so leaf, positions of the members that were inner ones.
    """
    first = in_order_tree(n)
    position = np.arange(n)[::-1] if n % 2 == 0 else np.roll(np.arange(n), 1)
    # member i sits at position[i] of the in-order tree; turn the parent position back into a member
    second = np.argsort(position)[first[position]]
    return first, second


@lru_cache(maxsize=256)
def messages(n: int) -> Array:
    """Messages each member sends in an all-reduce over each tree, (2, n): to its parent, to each child."""
    sent = np.zeros((2, n))
    for tree, parent in enumerate(double_tree(n)):
        inner = parent != np.arange(n)
        sent[tree] = inner + np.bincount(parent[inner], minlength=n)
    return sent


@lru_cache(maxsize=256)
def depth(n: int) -> int:
    """Edges from the deepest member to its root, over both trees."""
    deepest = 0
    for parent in double_tree(n):
        member, edges = np.arange(n), 0
        while (parent[member] != member).any():
            member, edges = parent[member], edges + 1
        deepest = max(deepest, edges)
    return deepest
