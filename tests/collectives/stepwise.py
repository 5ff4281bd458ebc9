"""Collectives done message by message, to count what the closed forms claim.

Each function moves real numbers between ranks, checks that everybody ends with the right ones, and adds the length of
every message to `sent[from, to]`.
"""

from __future__ import annotations

import numpy as np

from archmodel.collectives import trees
from archmodel.quantities import Array


class Wires:
    """Counts elements sent between `ranks` ranks on nodes of `local_size`."""

    def __init__(self, ranks: int, local_size: int) -> None:
        self.sent = np.zeros((ranks, ranks))
        self.node = np.arange(ranks) // local_size

    def move(self, source: int, target: int, data: Array) -> Array:
        self.sent[source, target] += data.size
        return data.copy()

    def by_dimension(self) -> dict[str, Array]:
        same = self.node[:, None] == self.node
        np.fill_diagonal(self.sent, 0)
        return {"scale_up": (self.sent * same).sum(1), "scale_out": (self.sent * ~same).sum(1)}


Buffers = list[list[Array]]
"""buffers[member][block]"""


def ring_reduce_scatter(wires: Wires, members: list[int], buffers: Buffers) -> None:
    """Member i ends with block i of its buffer summed over members."""
    n = len(members)
    for s in range(n - 1):
        messages = [wires.move(members[i], members[(i + 1) % n], buffers[i][(i - s - 1) % n]) for i in range(n)]
        for i in range(n):
            buffers[i][(i - s - 2) % n] += messages[(i - 1) % n]


def ring_all_gather(wires: Wires, members: list[int], buffers: Buffers) -> None:
    """Member i begins with block i right and ends with all of them."""
    n = len(members)
    for s in range(n - 1):
        messages = [wires.move(members[i], members[(i + 1) % n], buffers[i][(i - s) % n]) for i in range(n)]
        for i in range(n):
            buffers[i][(i - s - 1) % n] = messages[(i - 1) % n]


def tree_all_reduce(wires: Wires, members: list[int], values: list[Array]) -> None:
    """Each half of the value goes up and down its tree."""
    n = len(members)
    for tree, parent in enumerate(trees.double_tree(n)):
        cut = values[0].size // 2
        part = slice(0, cut) if tree == 0 else slice(cut, None)
        depth = [_depth(parent, i) for i in range(n)]
        for i in sorted(range(n), key=lambda i: -depth[i]):
            if parent[i] != i:
                values[parent[i]][part] += wires.move(members[i], members[parent[i]], values[i][part])
        for i in sorted(range(n), key=lambda i: depth[i]):
            if parent[i] != i:
                values[i][part] = wires.move(members[parent[i]], members[i], values[parent[i]][part])


def _depth(parent: np.ndarray, i: int) -> int:  # type: ignore[type-arg]
    depth = 0
    while parent[i] != i:
        i, depth = int(parent[i]), depth + 1
        assert depth <= len(parent)
    return depth


def all_reduce(algorithm: str, blocks: list[int], local: int, rng: np.random.Generator) -> dict[str, Array]:
    """Counts of an all-reduce of random integers over all ranks; asserts that every rank ends with the sum."""
    ranks = len(blocks)
    nodes = ranks // local
    wires = Wires(ranks, local)
    data: Buffers = [[rng.integers(0, 9, b).astype(float) for b in blocks] for _ in range(ranks)]
    wanted = [sum(data[r][b] for r in range(ranks)) for b in range(ranks)]
    if algorithm == "ring":
        _striped_ring(wires, data, nodes, local)
    elif algorithm in ("hierarchical", "tree"):
        _hierarchical(wires, data, nodes, local, algorithm == "tree")
    elif algorithm == "direct":
        _direct(wires, data)
    else:
        raise AssertionError(algorithm)
    for r in range(ranks):
        for b in range(ranks):
            np.testing.assert_array_equal(data[r][b], wanted[b])
    return wires.by_dimension()


def _striped_ring(wires: Wires, data: Buffers, nodes: int, local: int) -> None:
    stripes = local if nodes > 1 else 1
    for c in range(stripes):
        order = [m * local + (c + 1 + j) % local for m in range(nodes) for j in range(local)]
        cut = [[_stripe(data[r][b], c, stripes) for b in order] for r in order]
        ring_reduce_scatter(wires, order, cut)
        ring_all_gather(wires, order, cut)
        for i, r in enumerate(order):
            for j, b in enumerate(order):
                _stripe(data[r][b], c, stripes)[:] = cut[i][j]


def _stripe(block: Array, c: int, stripes: int) -> Array:
    return block[block.size * c // stripes : block.size * (c + 1) // stripes]


def _hierarchical(wires: Wires, data: Buffers, nodes: int, local: int, tree: bool) -> None:
    def super_block(r: int, target: int) -> Array:
        return np.concatenate([data[r][m * local + target] for m in range(nodes)])

    held: list[Buffers] = []
    for m in range(nodes):
        members = [m * local + j for j in range(local)]
        buffers = [[super_block(r, target) for target in range(local)] for r in members]
        ring_reduce_scatter(wires, members, buffers)
        held.append(buffers)
    lengths = [[data[0][m * local + target].size for m in range(nodes)] for target in range(local)]
    for target in range(local):
        members = [m * local + target for m in range(nodes)]
        values = [held[m][target][target] for m in range(nodes)]
        if tree:
            tree_all_reduce(wires, members, values)
        else:
            edges = np.cumsum(lengths[target])[:-1]
            pieces = [np.split(v, edges) for v in values]
            ring_reduce_scatter(wires, members, pieces)
            ring_all_gather(wires, members, pieces)
            for m in range(nodes):
                held[m][target][target] = np.concatenate(pieces[m])
    for m in range(nodes):
        members = [m * local + j for j in range(local)]
        ring_all_gather(wires, members, held[m])
        for j, r in enumerate(members):
            for target in range(local):
                edges = np.cumsum(lengths[target])[:-1]
                for node, piece in enumerate(np.split(held[m][j][target], edges)):
                    data[r][node * local + target] = piece


def _direct(wires: Wires, data: Buffers) -> None:
    ranks = len(data)
    sums = [sum(wires.move(r, b, data[r][b]) if r != b else data[r][b] for r in range(ranks)) for b in range(ranks)]
    for r in range(ranks):
        for b in range(ranks):
            data[r][b] = wires.move(b, r, np.asarray(sums[b])) if r != b else np.asarray(sums[b])
