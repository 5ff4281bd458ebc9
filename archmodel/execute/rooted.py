"""Broadcast, reduce, gather, scatter and point-to-point over real arrays. `members` are node by node; the root is one
of them. Conventions and counts: `archmodel.collectives.flows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from archmodel.collectives import flows
from archmodel.errors import suggestion
from archmodel.execute.equals import Buffers, one_switch
from archmodel.execute.errors import ExecutionError
from archmodel.execute.network import Network
from archmodel.quantities import Array

Law = TypeVar("Law")


def broadcast(net: Network, members: Sequence[int], values: Array, root: int, algorithm: str, dtype: str) -> Buffers:
    """The root's flat buffer, on every member."""
    return _law(_BROADCAST, algorithm)(net, members, values, _position(members, root), dtype)


def reduce(
    net: Network, members: Sequence[int], buffers: Mapping[int, Array], root: int, algorithm: str, dtype: str
) -> Array:
    """The sum of all members' flat buffers, on the root."""
    return _law(_REDUCE, algorithm)(net, members, dict(buffers), _position(members, root), dtype)


def scatter(net: Network, members: Sequence[int], parts: Sequence[Array], root: int, dtype: str) -> Buffers:
    """Each member's part of what the root has, in member order."""
    _position(members, root)
    result = {}
    for rank, part in zip(members, parts, strict=True):
        if rank == root:
            result[rank] = part
        else:
            net.send(root, rank, part, dtype)
            result[rank] = net.receive_numbers(root, rank)
    return result


def gather(net: Network, members: Sequence[int], own: Buffers, root: int, dtype: str) -> Array:
    """All members' blocks in member order, on the root."""
    _position(members, root)
    for rank in members:
        if rank != root:
            net.send(rank, root, own[rank], dtype)
    return np.concatenate([own[r] if r == root else net.receive_numbers(r, root) for r in members])


def point_to_point(net: Network, source: int, target: int, values: Array, dtype: str) -> Array:
    """What the target receives."""
    net.send(source, target, values, dtype)
    return net.receive_numbers(source, target)


def _chain(net: Network, members: Sequence[int], values: Array, root: int, dtype: str) -> Buffers:
    n = len(members)
    result = {members[root]: values}
    for step in range(1, n):
        source, target = members[(root + step - 1) % n], members[(root + step) % n]
        net.send(source, target, result[source], dtype)
        result[target] = net.receive_numbers(source, target)
    return result


def _chain_back(net: Network, members: Sequence[int], buffers: Buffers, root: int, dtype: str) -> Array:
    n = len(members)
    carried = buffers[members[(root - 1) % n]]
    for step in range(1, n):
        source, target = members[(root - step) % n], members[(root - step - 1) % n]
        net.send(source, target, carried, dtype)
        carried = net.receive_numbers(source, target) + buffers[target]
    return carried


def _two_trees(net: Network, members: Sequence[int], values: Array, root: int, dtype: str) -> Buffers:
    if len(members) == 1:
        return {members[0]: values}
    halves: dict[int, list[Array]] = {rank: [] for rank in members}
    cut = values.size // 2
    for part, parent in zip((values[:cut], values[cut:]), _parents(len(members), root), strict=True):
        held = {root: part}
        for i in _from_the_top(parent, root):
            net.send(members[parent[i]], members[i], held[parent[i]], dtype)
            held[i] = net.receive_numbers(members[parent[i]], members[i])
        for i, rank in enumerate(members):
            halves[rank].append(held[i])
    return {rank: np.concatenate(found) for rank, found in halves.items()}


def _two_trees_back(net: Network, members: Sequence[int], buffers: Buffers, root: int, dtype: str) -> Array:
    if len(members) == 1:
        return buffers[members[0]]
    cut = buffers[members[0]].size // 2
    sums = []
    for part, parent in zip((slice(0, cut), slice(cut, None)), _parents(len(members), root), strict=True):
        held = {i: buffers[rank][part].copy() for i, rank in enumerate(members)}
        for i in reversed(_from_the_top(parent, root)):
            net.send(members[i], members[parent[i]], held[i], dtype)
            held[parent[i]] += net.receive_numbers(members[i], members[parent[i]])
        sums.append(held[root])
    return np.concatenate(sums)


def _parents(n: int, root: int) -> list[dict[int, int]]:
    found = flows.rooted_trees(n, root)
    return [dict(zip(child.tolist(), parent.tolist(), strict=True)) for child, parent in found]


def _from_the_top(parent: Mapping[int, int], root: int) -> list[int]:
    """Positions below the root, none before its parent."""

    def depth(i: int) -> int:
        return 0 if i == root else 1 + depth(parent[i])

    return sorted(parent, key=lambda i: (depth(i), i))


def _from_root(net: Network, members: Sequence[int], values: Array, root: int, dtype: str) -> Buffers:
    return scatter(net, members, [values] * len(members), members[root], dtype)


def _to_root(net: Network, members: Sequence[int], buffers: Buffers, root: int, dtype: str) -> Array:
    rows = gather(net, members, buffers, members[root], dtype).reshape(len(members), -1)
    return np.asarray(rows.sum(0))


def _multicast(net: Network, members: Sequence[int], values: Array, root: int, dtype: str) -> Buffers:
    one_switch(net, members)
    if len(members) == 1:
        return {members[0]: values}
    arrived = net.to_switch(members[root], values, dtype)
    return {rank: values if i == root else arrived.copy() for i, rank in enumerate(members)}


def _pull(net: Network, members: Sequence[int], buffers: Buffers, root: int, dtype: str) -> Array:
    one_switch(net, members)
    if len(members) == 1:
        return buffers[members[0]]
    return net.cast(np.sum([net.to_switch(rank, buffers[rank], dtype) for rank in members], axis=0), dtype)


def _position(members: Sequence[int], root: int) -> int:
    if root not in members:
        raise ExecutionError(f"rank {root} cannot be the root: it is not in the group")
    return list(members).index(root)


def _law(known: Mapping[str, Law], algorithm: str) -> Law:
    if algorithm not in known:
        raise ExecutionError(
            f"the executor has no algorithm {algorithm!r} for this collective; {suggestion(algorithm, known)}"
        )
    return known[algorithm]


_BROADCAST: dict[str, Callable[[Network, Sequence[int], Array, int, str], Buffers]] = {
    "ring": _chain,
    "double_binary_tree": _two_trees,
    "direct": _from_root,
    "in_network": _multicast,
}
_REDUCE: dict[str, Callable[[Network, Sequence[int], Buffers, int, str], Array]] = {
    "ring": _chain_back,
    "double_binary_tree": _two_trees_back,
    "direct": _to_root,
    "in_network": _pull,
}
