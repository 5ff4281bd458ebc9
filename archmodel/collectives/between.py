"""Who sends how much to whom in collectives of a whole machine: bytes between all pairs of ranks.

The conventions are those of `archmodel.collectives.volume`, so that what a rank sends is what is counted there. Two
things depend on the fabric, and are priced so: `hierarchical` goes through the dimensions of a product one by one, and
what rings send inside a node of point-to-point links goes round all the rings that the links have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from archmodel.collectives.flows import group_pairs
from archmodel.network.topology import Topology
from archmodel.quantities import Array

Ints = npt.NDArray[np.int64]
RINGS = ("ring", "hierarchical", "tree")
"""Algorithms that go in rings inside a node."""


def pairs_of(
    topology: Topology, kind: str, algorithm: str, blocks: Array, members: Ints, axes: Sequence[int] = ()
) -> Array:
    """What ranks send each other, (ranks, ranks) in the unit of `blocks`, in a collective that every group, a row of
    `members` (groups, n), runs at once.

    `blocks` (ranks,): the block that each rank owns. `axes`: sizes of the dimensions that rings go through one
    after the other, inner to outer, both ways round at once; left out, those of the algorithm. Raises
    `CollectiveError`.
    """
    total = np.zeros((topology.ranks, topology.ranks))
    for row in members:
        node = row // topology.local_size
        if axes:
            total[np.ix_(row, row)] += in_rings(kind, blocks[row], axes)
        else:
            total[np.ix_(row, row)] += group_pairs(kind, algorithm, blocks[row], node)
    shape = topology.scale_up.shape
    if algorithm not in RINGS or axes or shape is None:
        return total
    return _round_the_rings(total, topology, shape.successors())


def in_rings(kind: str, blocks: Array, axes: Sequence[int]) -> Array:
    """Bytes (n, n) of rings through dimensions of sizes `axes`, inner to outer, and back: along each, a rank sends the
    blocks of its row but its own (reduce-scatter), or but its neighbour's (all-gather), half to either neighbour. A
    block of a row is what all ranks beyond it own together."""
    n = len(blocks)
    grid = blocks.reshape(tuple(reversed(axes)))
    place = np.arange(n).reshape(grid.shape)
    total = np.zeros((n, n))
    row_total = np.broadcast_to(blocks.sum(), grid.shape)
    for d in range(len(axes)):
        outer = tuple(range(len(axes) - 1 - d))
        own = np.broadcast_to(grid.sum(axis=outer, keepdims=True), grid.shape)
        along = len(axes) - 1 - d
        if axes[d] > 1:
            for step in (-1, 1):
                target = np.roll(place, step, axis=along)
                sent = np.zeros(grid.shape)
                if kind != "all_gather":
                    sent = sent + row_total - own
                if kind != "reduce_scatter":
                    sent = sent + row_total - np.roll(own, step, axis=along)
                np.add.at(total, (place, target), sent / 2)
        row_total = own
    return total


def _round_the_rings(pairs: Array, topology: Topology, successors: Array) -> Array:
    """The part inside of nodes, sent by each rank to its successors by their shares."""
    nodes, local = topology.nodes, topology.local_size
    if np.array_equal(successors, np.roll(np.eye(local), 1, axis=1)):
        return pairs
    grid = pairs.reshape(nodes, local, nodes, local).copy()
    own = np.arange(nodes)
    sent = grid[own, :, own, :].sum(-1)
    grid[own, :, own, :] = sent[:, :, None] * successors
    return grid.reshape(pairs.shape)
