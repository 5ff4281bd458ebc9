"""Collectives over real per-rank arrays, step by step: a rank sees only its own buffer and what is sent to it.

Buffers are flat, cut into one block per member in member order. The algorithms follow the conventions of
`archmodel.collectives.volume`, so the bytes counted here can be held equal to the closed forms there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from archmodel.collectives import trees
from archmodel.errors import suggestion
from archmodel.execute.errors import ExecutionError
from archmodel.execute.network import Network, Payload
from archmodel.program import Layout
from archmodel.quantities import Array

Buffers = dict[int, Array]
Parts = dict[int, list[Array]]
"""Every rank's buffer as blocks in member order."""


def cut(buffer: Array, blocks: Sequence[int]) -> list[Array]:
    """Blocks of a flat buffer, in order."""
    if buffer.size != sum(blocks):
        raise ExecutionError(f"a buffer of {buffer.size} elements cannot be cut into blocks of {sum(blocks)} in all")
    return np.split(buffer, np.cumsum(blocks)[:-1])


# --- ring ---------------------------------------------------------------------------------------------------------


def ring_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Member i ends with the sum of everyone's block i. In step s it hands block i - 1 - s to member i + 1."""
    n = len(members)
    held = {rank: [block.copy() for block in parts[rank]] for rank in members}
    for step in range(n - 1):
        for i, rank in enumerate(members):
            net.send(rank, members[(i + 1) % n], held[rank][(i - 1 - step) % n], dtype)
        for i, rank in enumerate(members):
            held[rank][(i - 2 - step) % n] += net.receive_numbers(members[i - 1], rank)
    return {rank: held[rank][i] for i, rank in enumerate(members)}


def ring_all_gather(net: Network, members: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """Every member ends with all blocks. In step s member i hands block i - s to member i + 1."""
    n = len(members)
    held: Parts = {rank: [np.zeros(0)] * n for rank in members}
    for i, rank in enumerate(members):
        held[rank][i] = own[rank]
    for step in range(n - 1):
        for i, rank in enumerate(members):
            net.send(rank, members[(i + 1) % n], held[rank][(i - step) % n], dtype)
        for i, rank in enumerate(members):
            held[rank][(i - 1 - step) % n] = net.receive_numbers(members[i - 1], rank)
    return held


def ring_orders(layout: Layout, members: Sequence[int]) -> list[list[int]]:
    """The rings that share the work, as positions in `members`: one, or over several nodes one per local index, ring c
    going node by node through the local indices c + 1, ..., c, so that each rank's link out of the node is used."""
    local, nodes = layout.local_size, layout.nodes
    if list(members) != list(range(layout.ranks)) or nodes == 1:
        return [list(range(len(members)))]
    return [[m * local + (c + 1 + k) % local for m in range(nodes) for k in range(local)] for c in range(local)]


def stripe(block: Array, index: int, count: int) -> Array:
    """Stripe `index` of `count` of a block: [floor(b c / n), floor(b (c + 1) / n))."""
    return block[block.size * index // count : block.size * (index + 1) // count]


def striped_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """One ring, or several rings over stripes of every block."""
    orders = ring_orders(net.layout, members)
    pieces: dict[int, list[Array]] = {rank: [] for rank in members}
    for c, order in enumerate(orders):
        ring = [members[i] for i in order]
        stripes = {rank: [stripe(parts[rank][i], c, len(orders)) for i in order] for rank in ring}
        for rank, piece in ring_reduce_scatter(net, ring, stripes, dtype).items():
            pieces[rank].append(piece)
    return {rank: np.concatenate(found) for rank, found in pieces.items()}


def striped_all_gather(net: Network, members: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """The reverse."""
    orders = ring_orders(net.layout, members)
    pieces: dict[int, list[list[Array]]] = {rank: [[] for _ in members] for rank in members}
    for c, order in enumerate(orders):
        ring = [members[i] for i in order]
        gathered = ring_all_gather(net, ring, {rank: stripe(own[rank], c, len(orders)) for rank in ring}, dtype)
        for rank, stripes in gathered.items():
            for i, piece in zip(order, stripes, strict=True):
                pieces[rank][i].append(piece)
    return {rank: [np.concatenate(block) for block in blocks] for rank, blocks in pieces.items()}


# --- direct -------------------------------------------------------------------------------------------------------


def direct_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Every member sends block j straight to member j, which adds in member order."""
    n = len(members)
    for step in range(1, n):
        for i, rank in enumerate(members):
            net.send(rank, members[(i + step) % n], parts[rank][(i + step) % n], dtype)
    return {
        rank: np.sum(
            [parts[rank][i] if other == rank else net.receive_numbers(other, rank) for other in members], axis=0
        )
        for i, rank in enumerate(members)
    }


def direct_all_gather(net: Network, members: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """Every member sends its block straight to every other."""
    n = len(members)
    for step in range(1, n):
        for i, rank in enumerate(members):
            net.send(rank, members[(i + step) % n], own[rank], dtype)
    return {
        rank: [own[rank] if other == rank else net.receive_numbers(other, rank) for other in members]
        for rank in members
    }


# --- two levels ---------------------------------------------------------------------------------------------------


def node_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Ring reduce-scatter inside each node of super blocks: that of local index l is all that its rail owns."""
    nodes, local = net.layout.nodes, net.layout.local_size
    _needs_all(net.layout, members)
    inner: Buffers = {}
    for node in net.layout.members("node").tolist():
        supers = {
            rank: [np.concatenate([parts[rank][m * local + i] for m in range(nodes)]) for i in range(local)]
            for rank in node
        }
        inner |= ring_reduce_scatter(net, node, supers, dtype)
    return inner


def node_all_gather(net: Network, rails: Buffers, sizes: Sequence[int], dtype: str) -> Parts:
    """Ring all-gather inside each node of super blocks; `sizes` are the blocks of all ranks."""
    nodes, local = net.layout.nodes, net.layout.local_size
    result: Parts = {}
    for node in net.layout.members("node").tolist():
        gathered = ring_all_gather(net, node, {rank: rails[rank] for rank in node}, dtype)
        for rank, supers in gathered.items():
            blocks = [cut(s, [sizes[m * local + i] for m in range(nodes)]) for i, s in enumerate(supers)]
            result[rank] = [blocks[i][m] for m in range(nodes) for i in range(local)]
    return result


def hierarchical_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Inside each node, then a ring along each rail."""
    inner = node_reduce_scatter(net, members, parts, dtype)
    result: Buffers = {}
    for rail in net.layout.members("rail").tolist():
        sizes = [parts[rail[0]][rank].size for rank in rail]
        result |= ring_reduce_scatter(net, rail, {rank: cut(inner[rank], sizes) for rank in rail}, dtype)
    return result


def hierarchical_all_gather(net: Network, members: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """A ring along each rail, then inside each node."""
    _needs_all(net.layout, members)
    rails: Parts = {}
    for rail in net.layout.members("rail").tolist():
        rails |= ring_all_gather(net, rail, own, dtype)
    joined = {rank: np.concatenate(blocks) for rank, blocks in rails.items()}
    return node_all_gather(net, joined, [own[rank].size for rank in members], dtype)


def tree_all_reduce(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Parts:
    """Inside each node by rings; along each rail the super block goes up and down two binary trees, half in each."""
    inner = node_reduce_scatter(net, members, parts, dtype)
    rails: Buffers = {}
    for rail in net.layout.members("rail").tolist():
        halves = {rank: [stripe(inner[rank], half, 2) for half in range(2)] for rank in rail}
        for half, parents in enumerate(trees.double_tree(len(rail))):
            sums = _through_tree(net, rail, {rank: halves[rank][half] for rank in rail}, parents.tolist(), dtype)
            for rank in rail:
                halves[rank][half] = sums[rank]
        rails |= {rank: np.concatenate(halves[rank]) for rank in rail}
    sizes = [block.size for block in parts[members[0]]]
    return node_all_gather(net, rails, sizes, dtype)


def _through_tree(net: Network, rail: Sequence[int], values: Buffers, parents: Sequence[int], dtype: str) -> Buffers:
    """Sum to the root, deepest members first, and back."""

    def depth(i: int) -> int:
        return 0 if parents[i] == i else 1 + depth(parents[i])

    sums = {rank: values[rank].copy() for rank in rail}
    deepest_first = sorted((i for i in range(len(rail)) if parents[i] != i), key=lambda i: (-depth(i), i))
    for i in deepest_first:
        parent = rail[parents[i]]
        net.send(rail[i], parent, sums[rail[i]], dtype)
        sums[parent] += net.receive_numbers(rail[i], parent)
    for i in reversed(deepest_first):
        parent = rail[parents[i]]
        net.send(parent, rail[i], sums[parent], dtype)
        sums[rail[i]] = net.receive_numbers(parent, rail[i])
    return sums


def _needs_all(layout: Layout, members: Sequence[int]) -> None:
    if list(members) != list(range(layout.ranks)):
        raise ExecutionError("an algorithm over nodes and rails needs all ranks in one group")


# --- by name ------------------------------------------------------------------------------------------------------

REDUCE_SCATTER: dict[str, Callable[[Network, Sequence[int], Parts, str], Buffers]] = {
    "ring": striped_reduce_scatter,
    "direct": direct_reduce_scatter,
    "hierarchical": hierarchical_reduce_scatter,
}
ALL_GATHER: dict[str, Callable[[Network, Sequence[int], Buffers, str], Parts]] = {
    "ring": striped_all_gather,
    "direct": direct_all_gather,
    "hierarchical": hierarchical_all_gather,
}


def _check(algorithm: str, known: Mapping[str, object]) -> None:
    if algorithm not in known:
        raise ExecutionError(
            f"the executor has no algorithm {algorithm!r} for this collective; {suggestion(algorithm, known)}"
        )


def reduce_scatter(
    net: Network,
    members: Sequence[int],
    buffers: Mapping[int, Array],
    blocks: Sequence[int],
    algorithm: str,
    dtype: str,
) -> Buffers:
    """Sum of all members' flat buffers; each member is left its own block."""
    _check(algorithm, REDUCE_SCATTER)
    return REDUCE_SCATTER[algorithm](net, members, {r: cut(buffers[r], blocks) for r in members}, dtype)


def all_gather(net: Network, members: Sequence[int], own: Buffers, algorithm: str, dtype: str) -> Buffers:
    """All members' blocks in member order, on every member."""
    _check(algorithm, ALL_GATHER)
    return {rank: np.concatenate(held) for rank, held in ALL_GATHER[algorithm](net, members, own, dtype).items()}


def all_reduce(
    net: Network,
    members: Sequence[int],
    buffers: Mapping[int, Array],
    blocks: Sequence[int],
    algorithm: str,
    dtype: str,
) -> Buffers:
    """Sum of all members' flat buffers, on every member."""
    if algorithm == "tree":
        parts = {r: cut(buffers[r], blocks) for r in members}
        return {rank: np.concatenate(held) for rank, held in tree_all_reduce(net, members, parts, dtype).items()}
    _check(algorithm, REDUCE_SCATTER)
    own = reduce_scatter(net, members, buffers, blocks, algorithm, dtype)
    return all_gather(net, members, own, algorithm, dtype)


def all_to_all(
    net: Network, members: Sequence[int], messages: dict[tuple[int, int], list[tuple[Payload, str]]]
) -> dict[tuple[int, int], list[Payload]]:
    """Every member's messages to every other, directly: in step s member i sends to member i + s. What a member has for
    itself never leaves it."""
    n = len(members)
    received = {(rank, rank): [values for values, _ in messages[rank, rank]] for rank in members}
    for step in range(1, n):
        for i, rank in enumerate(members):
            for values, dtype in messages[rank, members[(i + step) % n]]:
                net.send(rank, members[(i + step) % n], values, dtype)
        for i, rank in enumerate(members):
            source = members[(i - step) % n]
            received[source, rank] = [net.receive(source, rank) for _ in messages[source, rank]]
    return received
