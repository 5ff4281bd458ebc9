"""Homes for shards: as the plan names them, else longest processing time first onto the least loaded with room.

Graham, Bounds on Multiprocessing Timing Anomalies, SIAM J. Appl. Math. 17 (1969): within 4/3 of the best maximum load.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from archmodel.program import IntArray, Layout
from archmodel.quantities import Array


def homes(
    ranks: npt.NDArray[np.object_],
    nodes: npt.NDArray[np.object_],
    layout: Layout,
    sharding: npt.NDArray[np.str_],
    table: IntArray,
    piece: IntArray,
    scope: IntArray,
    size: Array,
    cost: Array,
    usable: Array,
    other_load: Array,
) -> IntArray:
    """Rank or node of every shard (S,). `ranks`, `nodes`: what the plan names, per table (T,), None where nothing.

    `size` and `cost` are bytes held and bytes moved by a shard, `usable` the bytes that a rank of its tier has,
    `other_load` (ranks,) bytes moved by other work than tables.
    """
    size_of, cost_of, room, scope_of = size.tolist(), cost.tolist(), usable.tolist(), scope.tolist()
    tables, pieces = table.tolist(), piece.tolist()
    in_node = (sharding == "table_column_wise").tolist()
    width = layout.local_size
    load, held = other_load.tolist(), [0.0] * layout.ranks
    node_load = other_load.reshape(layout.nodes, -1).sum(1).tolist()
    fullest = [0.0] * layout.nodes  # bytes on the fullest rank of a node
    home = [0] * len(tables)

    def on_rank(s: int, rank: int) -> None:
        home[s] = rank
        load[rank] += cost_of[s]
        held[rank] += size_of[s]
        node_load[rank // width] += cost_of[s]
        fullest[rank // width] = max(fullest[rank // width], held[rank])

    def on_node(s: int, node: int) -> None:
        home[s] = node
        node_load[node] += cost_of[s]
        for rank in range(node * width, (node + 1) * width):
            load[rank] += cost_of[s] / width
            held[rank] += size_of[s] / width
        fullest[node] += size_of[s] / width

    def on_ranks_of(shards: list[int], node: int) -> None:
        for s in shards:
            on_rank(s, node * width + pieces[s] % width)

    free: list[int] = []
    for s, t in enumerate(tables):
        named = nodes[t] if scope_of[s] == 1 or in_node[s] else ranks[t]
        if scope_of[s] > 1:
            continue
        if not named:
            free.append(s)
        elif in_node[s]:
            on_rank(s, named[0] * width + pieces[s] % width)
        else:
            put = on_node if scope_of[s] == 1 else on_rank
            put(s, named[pieces[s] if len(named) > 1 else 0])
    free.sort(key=lambda s: (-scope_of[s], -cost_of[s], s))

    of_nodes = _Emptiest(node_load, fullest)
    for s in free:
        if scope_of[s] == 1:
            of_nodes.take(size_of[s] / width, room[s], partial(on_node, s))
    columns: dict[int, list[int]] = {}
    for s in free:
        if in_node[s]:
            columns.setdefault(tables[s], []).append(s)
    for shards in columns.values():
        of_nodes.take(sum(size_of[s] for s in shards) / width, room[shards[0]], partial(on_ranks_of, shards))
    of_ranks = _Emptiest(load, held)
    for s in free:
        if scope_of[s] == 0 and not in_node[s]:
            of_ranks.take(size_of[s], room[s], partial(on_rank, s))
    return np.array(home, dtype=np.int64)


class _Emptiest:
    """The least loaded of some places that has room; of places without room the one that holds least, which the
    estimate then names. Who takes a place changes `load` and `held` of that place alone."""

    def __init__(self, load: list[float], held: list[float]) -> None:
        self.load, self.held = load, held
        self.heap = [(amount, place) for place, amount in enumerate(load)]
        heapq.heapify(self.heap)

    def take(self, size: float, room: float, put: Callable[[int], None]) -> None:
        full = []
        while self.heap and self.held[self.heap[0][1]] + size > room:
            full.append(heapq.heappop(self.heap)[1])
        if self.heap:
            place = self.heap[0][1]
            put(place)
            heapq.heapreplace(self.heap, (self.load[place], place))
        else:
            put(min(full, key=self.held.__getitem__))
        for place in full:
            heapq.heappush(self.heap, (self.load[place], place))
