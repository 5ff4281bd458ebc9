"""All-reduce, reduce-scatter and all-gather among all members as equals: both ways round a ring, two trees over all,
halving and doubling, and in the switch. Conventions and counts: `archmodel.collectives.flows`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archmodel.collectives import flows, trees
from archmodel.execute.errors import ExecutionError
from archmodel.execute.network import Network
from archmodel.quantities import Array

Buffers = dict[int, Array]
Parts = dict[int, list[Array]]


def both_ways_reduce_scatter(net: Network, ring: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Position p ends with its block: the sum over the h before it arrives clockwise, over the others the other way."""
    n = len(ring)
    result = {rank: parts[rank][p].copy() for p, rank in enumerate(ring)}
    for way, reach in ((1, n // 2), (-1, n - 1 - n // 2)):
        carried = {rank: parts[rank][(p + way * reach) % n] for p, rank in enumerate(ring)}
        for step in range(reach):
            left = reach - step  # steps that the carried block still has to go
            for p, rank in enumerate(ring):
                net.send(rank, ring[(p + way) % n], carried[rank], dtype)
            for p, rank in enumerate(ring):
                arrived = net.receive_numbers(ring[(p - way) % n], rank)
                if left > 1:
                    carried[rank] = arrived + parts[rank][(p + way * (left - 1)) % n]
                else:
                    result[rank] += arrived
    return result


def both_ways_all_gather(net: Network, ring: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """The reverse: a block goes h positions one way round and to the others the other way."""
    n = len(ring)
    held: Parts = {rank: [np.zeros(0)] * n for rank in ring}
    for p, rank in enumerate(ring):
        held[rank][p] = own[rank]
    for way, reach in ((-1, n // 2), (1, n - 1 - n // 2)):
        for step in range(reach):
            for p, rank in enumerate(ring):
                net.send(rank, ring[(p + way) % n], held[rank][(p - way * step) % n], dtype)
            for p, rank in enumerate(ring):
                held[rank][(p - way * (step + 1)) % n] = net.receive_numbers(ring[(p - way) % n], rank)
    return held


def through_tree(net: Network, members: Sequence[int], values: Buffers, parents: Sequence[int], dtype: str) -> Buffers:
    """Sum to the root, deepest members first, and back."""

    def depth(i: int) -> int:
        return 0 if parents[i] == i else 1 + depth(parents[i])

    sums = {rank: values[rank].copy() for rank in members}
    deepest_first = sorted((i for i in range(len(members)) if parents[i] != i), key=lambda i: (-depth(i), i))
    for i in deepest_first:
        parent = members[parents[i]]
        net.send(members[i], parent, sums[members[i]], dtype)
        sums[parent] += net.receive_numbers(members[i], parent)
    for i in reversed(deepest_first):
        parent = members[parents[i]]
        net.send(parent, members[i], sums[parent], dtype)
        sums[members[i]] = net.receive_numbers(parent, members[i])
    return sums


def double_tree_all_reduce(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Parts:
    """Each half of the buffer up and down its tree over all members."""
    blocks = [block.size for block in parts[members[0]]]
    whole = {rank: np.concatenate(parts[rank]) for rank in members}
    cut = sum(blocks) // 2
    first, second = (
        through_tree(net, members, {r: whole[r][part] for r in members}, parents.tolist(), dtype)
        for part, parents in zip((slice(0, cut), slice(cut, None)), trees.double_tree(len(members)), strict=True)
    )
    ends = np.cumsum(blocks)[:-1]
    return {rank: np.split(np.concatenate([first[rank], second[rank]]), ends) for rank in members}


# --- halving and doubling -----------------------------------------------------------------------------------------


def _core(members: Sequence[int]) -> tuple[list[int], list[int], list[int], list[list[int]]]:
    """Ranks of the core, extra ranks, their stand-ins; positions of the blocks that each of the core owns."""
    inside, extra, stand_in = (x.tolist() for x in flows.core(len(members)))
    owned = [[p - 1, p] if p in stand_in else [p] for p in inside]
    return [members[p] for p in inside], [members[p] for p in extra], [members[p] for p in stand_in], owned


def _fold(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Parts:
    """Extra members hand all they have to their stand-ins; what the core then has."""
    inside, extra, stand_in, _ = _core(members)
    held = {rank: [block.copy() for block in parts[rank]] for rank in inside}
    for source, target in zip(extra, stand_in, strict=True):
        net.send(source, target, np.concatenate(parts[source]), dtype)
        ends = np.cumsum([block.size for block in parts[source]])[:-1]
        for mine, theirs in zip(held[target], np.split(net.receive_numbers(source, target), ends), strict=True):
            mine += theirs
    return held


def _by_remainder(owned: Sequence[list[int]], d: int) -> list[list[int]]:
    """Blocks owned by the members of the core whose number leaves 0, 1, ... when divided by d."""
    return [[b for mine in owned[remainder::d] for b in mine] for remainder in range(d)]


def _halve(net: Network, members: Sequence[int], held: Parts, dtype: str) -> None:
    """Afterwards each of the core has the sum of the blocks that it owns."""
    inside, _, _, owned = _core(members)
    d = 1
    while d < len(inside):
        sides = _by_remainder(owned, 2 * d)
        for t, rank in enumerate(inside):
            theirs = sides[(t ^ d) % (2 * d)]
            net.send(rank, inside[t ^ d], np.concatenate([held[rank][b] for b in theirs]), dtype)
        for t, rank in enumerate(inside):
            mine = sides[t % (2 * d)]
            ends = np.cumsum([held[rank][b].size for b in mine])[:-1]
            arrived = np.split(net.receive_numbers(inside[t ^ d], rank), ends)
            for b, values in zip(mine, arrived, strict=True):
                held[rank][b] += values
        d *= 2


def _double(net: Network, members: Sequence[int], held: Parts, dtype: str) -> None:
    """The reverse: from the owned blocks to all of them."""
    inside, _, _, owned = _core(members)
    sizes = {b: held[inside[t]][b].size for t, mine in enumerate(owned) for b in mine}
    d = len(inside) // 2
    while d >= 1:
        sides = _by_remainder(owned, 2 * d)
        for t, rank in enumerate(inside):
            net.send(rank, inside[t ^ d], np.concatenate([held[rank][b] for b in sides[t % (2 * d)]]), dtype)
        for t, rank in enumerate(inside):
            theirs = sides[(t ^ d) % (2 * d)]
            ends = np.cumsum([sizes[b] for b in theirs])[:-1]
            arrived = np.split(net.receive_numbers(inside[t ^ d], rank), ends)
            for b, values in zip(theirs, arrived, strict=True):
                held[rank][b] = values
        d //= 2


def halving_reduce_scatter(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Buffers:
    """Fold, halve, and hand the extra members their blocks."""
    held = _fold(net, members, parts, dtype)
    _halve(net, members, held, dtype)
    place = {rank: p for p, rank in enumerate(members)}
    _, extra, stand_in, _ = _core(members)
    result = {rank: held[rank][place[rank]] for rank in held}
    for rank, other in zip(extra, stand_in, strict=True):
        net.send(other, rank, held[other][place[rank]], dtype)
        result[rank] = net.receive_numbers(other, rank)
    return result


def doubling_all_gather(net: Network, members: Sequence[int], own: Buffers, dtype: str) -> Parts:
    """Extra members hand in their blocks; double; they are sent all blocks but their own."""
    place = {rank: p for p, rank in enumerate(members)}
    inside, extra, stand_in, _ = _core(members)
    held: Parts = {rank: [np.zeros(0)] * len(members) for rank in members}
    for rank in members:
        held[rank][place[rank]] = own[rank]
    for rank, other in zip(extra, stand_in, strict=True):
        net.send(rank, other, own[rank], dtype)
        held[other][place[rank]] = net.receive_numbers(rank, other)
    _double(net, members, held, dtype)
    sizes = [held[inside[0]][p].size for p in range(len(members))]
    for rank, other in zip(extra, stand_in, strict=True):
        rest = [p for p in range(len(members)) if p != place[rank]]
        net.send(other, rank, np.concatenate([held[other][p] for p in rest]), dtype)
        arrived = np.split(net.receive_numbers(other, rank), np.cumsum([sizes[p] for p in rest])[:-1])
        for p, values in zip(rest, arrived, strict=True):
            held[rank][p] = values
    return held


def halving_doubling_all_reduce(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Parts:
    """Fold, halve, double, and hand the extra members the whole result."""
    held = _fold(net, members, parts, dtype)
    _halve(net, members, held, dtype)
    _double(net, members, held, dtype)
    _, extra, stand_in, _ = _core(members)
    ends = np.cumsum([block.size for block in parts[members[0]]])[:-1]
    for rank, other in zip(extra, stand_in, strict=True):
        net.send(other, rank, np.concatenate(held[other]), dtype)
        held[rank] = np.split(net.receive_numbers(other, rank), ends)
    return held


# --- in the switch ------------------------------------------------------------------------------------------------


def one_switch(net: Network, members: Sequence[int]) -> None:
    """Raises ExecutionError unless all members are on one node."""
    nodes = {rank // net.layout.local_size for rank in members}
    if len(nodes) > 1:
        raise ExecutionError(f"in_network reduces inside the switch of one node; this group spans {len(nodes)} nodes")


def in_network_all_reduce(net: Network, members: Sequence[int], parts: Parts, dtype: str) -> Parts:
    """Each member has the switch add up its block, takes the sum, and has the switch multicast it."""
    one_switch(net, members)
    if len(members) == 1:
        return {rank: list(parts[rank]) for rank in members}
    sums = []
    for j, rank in enumerate(members):
        added = np.sum([net.to_switch(other, parts[other][j], dtype) for other in members], axis=0)
        sums.append(net.to_switch(rank, net.cast(added, dtype), dtype))
    return {rank: [block.copy() for block in sums] for rank in members}
