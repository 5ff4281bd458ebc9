"""How many bytes every rank puts on every wire: exact counts for blocks of any sizes.

Ranks are numbered node by node: rank = node * local_size + local index. A *block* is the part of the buffer
that a rank owns: what reduce-scatter leaves it with and what all-gather takes from it. `blocks[r]` is its
length in elements (or bytes: counts come in the same unit). All functions take blocks of shape (..., ranks)
in float64, exact below 2**53, and return {"scale_up": ..., "scale_out": ...} of the same shape. An executor
that follows the conventions below step by step counts the same numbers.

**Ring** over members 0..n-1, member i sending to i + 1 (mod n):

- reduce-scatter: at step s = 0..n-2 member i sends its partial sum of block (i - s - 1) mod n and adds the
  partial sum of block (i - s - 2) mod n that arrives. It sends every block but its own, and ends with its own
  complete.
- all-gather: at step s = 0..n-2 member i sends block (i - s) mod n. It sends every block but its successor's.

**Ring, world group on several nodes of L > 1 ranks**: L rings at once, each with one stripe of every block,
so that every rank's network interface is used. Stripe c of a block of b elements is [floor(b c / L), floor(b
(c + 1) / L)). Ring c runs node by node, through the local indices c+1, c+2, ..., c (mod L) of each: only
local index c sends over the scale-out network, to local index c+1 of the next node.

**Hierarchical**, world group on several nodes: reduce-scatter is a ring in each node over L "super blocks"
(that of local index l: the blocks of all ranks (m, l), in the order of nodes m), then a ring over the nodes
for each local index (a rail) with the blocks themselves. All-gather is the reverse: rails first, then nodes.
Within a node or along a rail it is the plain ring.

**Tree** (all-reduce): the hierarchical one, but the all-reduce along a rail goes up and down two binary trees
(`archmodel.collectives.trees`), the first carrying elements [0, floor(B / 2)) of the super block of B, the
second the rest. Each member sends to its parent (not the root) and to each child.

**Direct**: member i sends block j to member j (reduce-scatter), and its own block to all others (all-gather).

All-reduce is reduce-scatter then all-gather, in each of these.

**In-network** (all-reduce in one node): each rank asks the switch for the sum of its own block, which pulls
that block from all ranks (so each sends its whole buffer), and multicasts the sum (its own block once more).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from archmodel.collectives import flows, trees
from archmodel.collectives.kinds import CollectiveError, check_algorithm, check_extent
from archmodel.collectives.stripes import stripes
from archmodel.errors import suggestion
from archmodel.network.topology import GROUPS
from archmodel.quantities import Array

Wires = tuple[Array, Array]
"""Bytes sent over scale-up and over scale-out links, (..., nodes, local_size) each."""


def sent_bytes(kind: str, algorithm: str, blocks: Array, local_size: int, group: str = "world") -> dict[str, Array]:
    """What every rank sends, in the unit of `blocks`, when every group of the partition runs the collective.

    `group`: "world" (all ranks), "node" (each node by itself), "rail" (the ranks of equal local index). For
    kinds all_reduce, reduce_scatter, all_gather and the rooted ones (their root is the first rank); an all-to-all has a
    message for each pair: `all_to_all_bytes`. Groups of any ranks: `archmodel.collectives.flows`. Raises
    `CollectiveError` for names and shapes that do not serve.
    """
    check_algorithm(kind, algorithm)
    if kind == "all_to_all":
        raise CollectiveError("all_to_all has messages, not blocks; count them with all_to_all_bytes")
    grid = partition(np.asarray(blocks, dtype=np.float64), local_size, group)
    check_extent(algorithm, grid.shape[-2])
    if (kind, algorithm) not in _LAWS:
        return _by_flows(kind, algorithm, grid, local_size, group)
    up, out = _LAWS[kind, algorithm](grid)
    return {"scale_up": restore(up, local_size, group), "scale_out": restore(out, local_size, group)}


def all_to_all_bytes(
    pairs: Array, local_size: int, group: str = "world", algorithm: str = "direct"
) -> dict[str, tuple[Array, Array]]:
    """{"scale_up": (sent, received), "scale_out": (sent, received)}, each (ranks,), from messages (ranks,
    ranks).

    `pairs[i, j]` is what rank i has for rank j; what is for itself or for another group does not travel.
    Hierarchical: a first exchange inside the node takes what is for local index l anywhere to its own local
    index l; a second along the rails takes it to its node.
    """
    check_algorithm("all_to_all", algorithm)
    ranks = pairs.shape[-1]
    node, local = np.divmod(np.arange(ranks), _checked_local_size(ranks, local_size, group))
    same_node, same_local = node[:, None] == node, local[:, None] == local
    inside = {"world": np.True_, "node": same_node, "rail": same_local}[group]
    moved = np.where(inside & ~np.eye(ranks, dtype=bool), pairs, 0.0)
    if algorithm == "direct" or group != "world":
        up, out = np.where(same_node, moved, 0.0), np.where(same_node, 0.0, moved)
        return {"scale_up": (up.sum(1), up.sum(0)), "scale_out": (out.sum(1), out.sum(0))}
    nodes = ranks // local_size
    by_place = moved.reshape(nodes, local_size, nodes, local_size)  # [m, l, m', l']
    inner = by_place.sum(2) * ~np.eye(local_size, dtype=bool)  # [m, l, l']: to local index l', any node
    outer = by_place.sum(1) * ~np.eye(nodes, dtype=bool)[:, :, None]  # [m, m', l']: held by (m, l') for node m'
    return {
        "scale_up": (inner.sum(2).ravel(), inner.sum(1).ravel()),
        "scale_out": (outer.sum(1).ravel(), outer.sum(0).ravel()),
    }


def partition(values: Array, local_size: int, group: str) -> Array:
    """(..., ranks) as (..., groups, nodes of a group, ranks of a group in a node)."""
    local = _checked_local_size(values.shape[-1], local_size, group)
    grid = values.reshape(*values.shape[:-1], -1, local)
    if group == "node":
        return grid[..., :, None, :]
    if group == "rail":
        return np.swapaxes(grid, -1, -2)[..., None]
    return grid[..., None, :, :]


def restore(grid: Array, local_size: int, group: str) -> Array:
    """The inverse of `partition`."""
    if group == "rail":
        grid = np.swapaxes(grid[..., 0], -1, -2)
        return grid.reshape(*grid.shape[:-2], -1)
    return grid.reshape(*grid.shape[:-3], -1)


# --- laws: blocks (..., nodes N, local size L) of independent groups -> bytes sent (up, out) ---


def ring_reduce_scatter(b: Array) -> Wires:
    """Each ring c: T_c - b_c, all blocks but one's own."""
    s = stripes(b, b.shape[-1])
    return _by_wire(_total(s, (-3, -2)) - s)


def ring_all_gather(b: Array) -> Wires:
    """Each ring c: T_c - b_c of the successor, all blocks but the successor's."""
    s = stripes(b, b.shape[-1])
    inside = np.roll(s, -1, axis=-2)
    across = np.roll(inside, -1, axis=-3)
    leaves = np.eye(b.shape[-1], dtype=bool)  # [l, c]: local index l sends ring c to the next node
    return _by_wire(_total(s, (-3, -2)) - np.where(leaves, across, inside))


def _by_wire(sent: Array) -> Wires:
    """Bytes sent (..., N, L, rings) split into those that stay in the node and those that leave it."""
    out = np.diagonal(sent, axis1=-2, axis2=-1)
    everything = sent.sum(-1)
    if sent.shape[-3] == 1:
        return everything, np.zeros_like(everything)
    return everything - out, out.copy()


def hierarchical_reduce_scatter(b: Array) -> Wires:
    """Node ring: T - B_l; rail ring: B_l - b, with super blocks B_l summed over nodes."""
    rail = _total(b, -2)
    up = np.broadcast_to(_total(rail, -1) - rail, b.shape)
    return up, rail - b


def hierarchical_all_gather(b: Array) -> Wires:
    """Rail ring: B_l - b of the next node; node ring: T - B of the next local index."""
    rail = _total(b, -2)
    up = np.broadcast_to(_total(rail, -1) - np.roll(rail, -1, axis=-1), b.shape)
    return up, rail - np.roll(b, -1, axis=-2)


def tree_all_reduce(b: Array) -> Wires:
    """Node rings as in hierarchical all-reduce; along a rail half of B_l goes up and down each tree."""
    up = hierarchical_reduce_scatter(b)[0] + hierarchical_all_gather(b)[0]
    halves = stripes(_total(b, -2), 2)  # (..., 1, L, 2)
    return up, np.einsum("...lt,tm->...ml", halves[..., 0, :, :], trees.messages(b.shape[-2]))


def direct_reduce_scatter(b: Array) -> Wires:
    """Every other rank's block, to it."""
    node = _total(b, -1)
    return node - b, np.broadcast_to(_total(node, -2) - node, b.shape)


def direct_all_gather(b: Array) -> Wires:
    """One's own block, to every other rank."""
    nodes, local = b.shape[-2:]
    return b * (local - 1), b * (local * (nodes - 1))


def in_network_all_reduce(b: Array) -> Wires:
    """The whole buffer to the switch, and one's own block once more; nothing when alone."""
    up = _total(b, (-2, -1)) + b if b.shape[-1] > 1 else np.zeros_like(b)
    return up, np.zeros_like(b)


def _by_flows(kind: str, algorithm: str, grid: Array, local_size: int, group: str) -> dict[str, Array]:
    """Algorithms without a closed form for unequal blocks: counted group by group."""
    nodes, local = grid.shape[-2:]
    node = np.arange(nodes * local) // local
    rows = grid.reshape(-1, nodes * local)
    counted = [flows.group_bytes(kind, algorithm, row, node) for row in rows]
    found = {}
    for name in ("scale_up", "scale_out"):
        sent = np.array([wires[name][0] for wires in counted]).reshape(grid.shape)
        found[name] = restore(sent, local_size, group)
    return found


def _total(x: Array, axis: int | tuple[int, ...]) -> Array:
    total: Array = x.sum(axis=axis, keepdims=True)
    return total


Law = Callable[[Array], Wires]


def _both(first: Law, second: Law) -> Law:
    """All-reduce: reduce-scatter, then all-gather."""

    def law(b: Array) -> Wires:
        (up, out), (up_too, out_too) = first(b), second(b)
        return up + up_too, out + out_too

    return law


_LAWS: dict[tuple[str, str], Law] = {
    ("reduce_scatter", "ring"): ring_reduce_scatter,
    ("all_gather", "ring"): ring_all_gather,
    ("all_reduce", "ring"): _both(ring_reduce_scatter, ring_all_gather),
    ("reduce_scatter", "hierarchical"): hierarchical_reduce_scatter,
    ("all_gather", "hierarchical"): hierarchical_all_gather,
    ("all_reduce", "hierarchical"): _both(hierarchical_reduce_scatter, hierarchical_all_gather),
    ("reduce_scatter", "direct"): direct_reduce_scatter,
    ("all_gather", "direct"): direct_all_gather,
    ("all_reduce", "direct"): _both(direct_reduce_scatter, direct_all_gather),
    ("all_reduce", "tree"): tree_all_reduce,
    ("all_reduce", "in_network"): in_network_all_reduce,
}


def _checked_local_size(ranks: int, local_size: int, group: str) -> int:
    if group not in GROUPS:
        raise CollectiveError(f"no group is called {group!r}; {suggestion(group, GROUPS)}")
    if local_size < 1 or ranks % local_size:
        raise CollectiveError(f"{ranks} ranks are not a whole number of nodes of {local_size}")
    return local_size
