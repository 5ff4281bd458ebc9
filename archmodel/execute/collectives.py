"""Collectives over real per-rank arrays, step by step: a rank sees only its own buffer and what is sent to it.

Buffers are flat, cut into one block per member in member order. The algorithms follow the conventions of
`archmodel.collectives.volume` and `flows`, so the bytes counted here can be held equal to those there. A group may be
any ranks; algorithms over two levels cut it into blocks of equally many ranks inside nodes, as `flows` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from archmodel.collectives import flows, trees
from archmodel.errors import suggestion
from archmodel.execute import equals
from archmodel.execute.equals import Buffers, Parts
from archmodel.execute.errors import ExecutionError
from archmodel.execute.network import Network, Payload
from archmodel.program import Layout
from archmodel.quantities import Array


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


def block_size(layout: Layout, members: Sequence[int]) -> int:
    """Ranks of the blocks that a group is cut into: a node's, where nodes have equally many."""
    return flows.block_size(np.asarray(members) // layout.local_size)


def ring_orders(layout: Layout, members: Sequence[int]) -> list[list[int]]:
    """The rings that share the work, as positions in `members`: one, or over several nodes one per place in a block,
    ring c going block by block through the places c + 1, ..., c, so that each rank's link out of the node is used."""
    orders: list[list[int]] = flows.ring_orders(len(members), block_size(layout, members)).tolist()
    return orders


def stripe(block: Array, index: int, count: int) -> Array:
    """Stripe `index` of `count` of a block: [floor(b c / n), floor(b (c + 1) / n))."""
    return block[block.size * index // count : block.size * (index + 1) // count]


OneRing = Callable[[Network, Sequence[int], Parts, str], Buffers]
OneRingBack = Callable[[Network, Sequence[int], Buffers, str], Parts]


def striped_reduce_scatter(
    net: Network, members: Sequence[int], parts: Parts, dtype: str, one: OneRing = ring_reduce_scatter
) -> Buffers:
    """One ring, or several rings over stripes of every block."""
    orders = ring_orders(net.layout, members)
    pieces: dict[int, list[Array]] = {rank: [] for rank in members}
    for c, order in enumerate(orders):
        ring = [members[i] for i in order]
        stripes = {rank: [stripe(parts[rank][i], c, len(orders)) for i in order] for rank in ring}
        for rank, piece in one(net, ring, stripes, dtype).items():
            pieces[rank].append(piece)
    return {rank: np.concatenate(found) for rank, found in pieces.items()}


def striped_all_gather(
    net: Network, members: Sequence[int], own: Buffers, dtype: str, one: OneRingBack = ring_all_gather
) -> Parts:
    """The reverse."""
    orders = ring_orders(net.layout, members)
    pieces: dict[int, list[list[Array]]] = {rank: [[] for _ in members] for rank in members}
    for c, order in enumerate(orders):
        ring = [members[i] for i in order]
        gathered = one(net, ring, {rank: stripe(own[rank], c, len(orders)) for rank in ring}, dtype)
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


def _grid(net: Network, members: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Positions in `members`: by block, and by rail (equal places of all blocks)."""
    rows = np.arange(len(members)).reshape(-1, block_size(net.layout, members))
    return rows.tolist(), rows.T.tolist()


def inner_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Ring reduce-scatter inside each block of super blocks: that of place l is all that its rail owns."""
    rows, rails = _grid(net, members)
    inner: Buffers = {}
    for row in rows:
        ranks = [members[p] for p in row]
        supers = {rank: [np.concatenate([parts[rank][p] for p in rail]) for rail in rails] for rank in ranks}
        inner |= ring_reduce_scatter(net, ranks, supers, dtype)
    return inner


def inner_all_gather(net: Network, members: Sequence[int], held: Buffers, sizes: Sequence[int], dtype: str) -> Parts:
    """Ring all-gather inside each block of super blocks; `sizes` are the blocks of all members."""
    rows, rails = _grid(net, members)
    result: Parts = {}
    for row in rows:
        ranks = [members[p] for p in row]
        for rank, supers in ring_all_gather(net, ranks, {rank: held[rank] for rank in ranks}, dtype).items():
            result[rank] = [np.zeros(0)] * len(members)
            for rail, joined in zip(rails, supers, strict=True):
                for p, block in zip(rail, cut(joined, [sizes[p] for p in rail]), strict=True):
                    result[rank][p] = block
    return result


def hierarchical_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Inside each block, then a ring along each rail."""
    inner = inner_reduce_scatter(net, members, parts, dtype)
    result: Buffers = {}
    for rail in _grid(net, members)[1]:
        ranks = [members[p] for p in rail]
        sizes = [parts[ranks[0]][p].size for p in rail]
        result |= ring_reduce_scatter(net, ranks, {rank: cut(inner[rank], sizes) for rank in ranks}, dtype)
    return result


def hierarchical_all_gather(net: Network, members: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """A ring along each rail, then inside each block."""
    rails: Parts = {}
    for rail in _grid(net, members)[1]:
        rails |= ring_all_gather(net, [members[p] for p in rail], own, dtype)
    joined = {rank: np.concatenate(blocks) for rank, blocks in rails.items()}
    return inner_all_gather(net, members, joined, [own[rank].size for rank in members], dtype)


def tree_all_reduce(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Parts:
    """Inside each block by rings; along each rail the super block goes up and down two binary trees, half in each."""
    inner = inner_reduce_scatter(net, members, parts, dtype)
    rails: Buffers = {}
    for rail in _grid(net, members)[1]:
        ranks = [members[p] for p in rail]
        halves = {rank: [stripe(inner[rank], half, 2) for half in range(2)] for rank in ranks}
        for half, parents in enumerate(trees.double_tree(len(ranks))):
            values = {rank: halves[rank][half] for rank in ranks}
            for rank, total in equals.through_tree(net, ranks, values, parents.tolist(), dtype).items():
                halves[rank][half] = total
        rails |= {rank: np.concatenate(halves[rank]) for rank in ranks}
    return inner_all_gather(net, members, rails, [block.size for block in parts[members[0]]], dtype)


# --- by name ------------------------------------------------------------------------------------------------------

REDUCE_SCATTER: dict[str, Callable[[Network, Sequence[int], Parts, str], Buffers]] = {
    "ring": striped_reduce_scatter,
    "bidirectional_ring": partial(striped_reduce_scatter, one=equals.both_ways_reduce_scatter),
    "halving_doubling": equals.halving_reduce_scatter,
    "direct": direct_reduce_scatter,
    "hierarchical": hierarchical_reduce_scatter,
}
ALL_GATHER: dict[str, Callable[[Network, Sequence[int], Buffers, str], Parts]] = {
    "ring": striped_all_gather,
    "bidirectional_ring": partial(striped_all_gather, one=equals.both_ways_all_gather),
    "halving_doubling": equals.doubling_all_gather,
    "direct": direct_all_gather,
    "hierarchical": hierarchical_all_gather,
}
ALL_REDUCE: dict[str, Callable[[Network, Sequence[int], Parts, str], Parts]] = {
    "tree": tree_all_reduce,
    "double_binary_tree": equals.double_tree_all_reduce,
    "halving_doubling": equals.halving_doubling_all_reduce,
    "in_network": equals.in_network_all_reduce,
}
"""Others are a reduce-scatter and an all-gather."""


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
    order = node_by_node(members)
    return REDUCE_SCATTER[algorithm](net, [members[p] for p in order], _cut(members, buffers, blocks, order), dtype)


def all_gather(net: Network, members: Sequence[int], own: Buffers, algorithm: str, dtype: str) -> Buffers:
    """All members' blocks in member order, on every member."""
    _check(algorithm, ALL_GATHER)
    order = node_by_node(members)
    held = ALL_GATHER[algorithm](net, [members[p] for p in order], own, dtype)
    return {rank: _joined(parts, order) for rank, parts in held.items()}


def all_reduce(
    net: Network,
    members: Sequence[int],
    buffers: Mapping[int, Array],
    blocks: Sequence[int],
    algorithm: str,
    dtype: str,
) -> Buffers:
    """Sum of all members' flat buffers, on every member."""
    if algorithm in ALL_REDUCE:
        order = node_by_node(members)
        parts = _cut(members, buffers, blocks, order)
        held = ALL_REDUCE[algorithm](net, [members[p] for p in order], parts, dtype)
        return {rank: _joined(found, order) for rank, found in held.items()}
    _check(algorithm, {**REDUCE_SCATTER, **ALL_REDUCE})
    own = reduce_scatter(net, members, buffers, blocks, algorithm, dtype)
    return all_gather(net, members, own, algorithm, dtype)


def node_by_node(members: Sequence[int]) -> list[int]:
    """Positions in `members` by rising rank: the order in which algorithms go through a group."""
    return sorted(range(len(members)), key=members.__getitem__)


def _cut(members: Sequence[int], buffers: Mapping[int, Array], blocks: Sequence[int], order: list[int]) -> Parts:
    parts = {rank: cut(buffers[rank], blocks) for rank in members}
    return {rank: [found[p] for p in order] for rank, found in parts.items()}


def _joined(parts: Sequence[Array], order: list[int]) -> Array:
    """Blocks in member order, from those in rank order."""
    found: list[Array] = [np.zeros(0)] * len(parts)
    for p, part in zip(order, parts, strict=True):
        found[p] = part
    return np.concatenate(found)


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


def two_level_all_to_all(
    net: Network, members: Sequence[int], messages: dict[tuple[int, int], list[tuple[Payload, str]]]
) -> dict[tuple[int, int], list[Payload]]:
    """The same in two exchanges: inside each block to the place that the message is for, then along the rails."""
    ordered = sorted(members)
    rows = np.array(ordered).reshape(-1, block_size(net.layout, ordered))
    place = {rank: (m, i) for m, row in enumerate(rows.tolist()) for i, rank in enumerate(row)}
    first: dict[tuple[int, int], list[tuple[Payload, str]]] = {}
    for row in rows.tolist():
        for source in row:
            for via in row:
                column = rows[:, place[via][1]].tolist()
                first[source, via] = [part for target in column for part in messages[source, target]]
        inside = {pair: parts for pair, parts in first.items() if pair[0] in row}
        arrived = all_to_all(net, row, inside)
        for pair, payloads in arrived.items():
            first[pair] = [(values, dtype) for values, (_, dtype) in zip(payloads, first[pair], strict=True)]
    received: dict[tuple[int, int], list[Payload]] = {}
    for rail in rows.T.tolist():
        second: dict[tuple[int, int], list[tuple[Payload, str]]] = {}
        for via in rail:
            row = rows[place[via][0]].tolist()
            for target in rail:
                second[via, target] = [
                    part for source in row for part in _for_target(first[source, via], messages, source, target, rail)
                ]
        for (via, target), payloads in all_to_all(net, rail, second).items():
            waiting = iter(payloads)
            for source in rows[place[via][0]].tolist():
                received[source, target] = [next(waiting) for _ in messages[source, target]]
    return received


def _for_target(
    parts: list[tuple[Payload, str]],
    messages: Mapping[tuple[int, int], list[tuple[Payload, str]]],
    source: int,
    target: int,
    column: Sequence[int],
) -> list[tuple[Payload, str]]:
    """Of what a source sent for all ranks of a rail, the part for one of them."""
    start = sum(len(messages[source, other]) for other in column[: column.index(target)])
    return parts[start : start + len(messages[source, target])]
