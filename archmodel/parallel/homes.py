"""Homes for shards: as the plan names them, else longest processing time first onto the least loaded with room.

Graham, Bounds on Multiprocessing Timing Anomalies, SIAM J. Appl. Math. 17 (1969): within 4/3 of the best maximum load.
"""

from __future__ import annotations

import heapq

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
    home = [0] * len(tables)

    def on_rank(s: int, rank: int) -> None:
        home[s] = rank
        load[rank] += cost_of[s]
        held[rank] += size_of[s]
        node_load[rank // width] += cost_of[s]

    def on_node(s: int, node: int) -> None:
        home[s] = node
        node_load[node] += cost_of[s]
        for rank in range(node * width, (node + 1) * width):
            load[rank] += cost_of[s] / width
            held[rank] += size_of[s] / width

    def emptiest_node() -> int:
        return min(range(layout.nodes), key=node_load.__getitem__)

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
    for s in free:
        if scope_of[s] == 1:
            on_node(s, emptiest_node())
    node_of_table: dict[int, int] = {}
    for s in free:
        if in_node[s]:
            if tables[s] not in node_of_table:
                node_of_table[tables[s]] = emptiest_node()
            on_rank(s, node_of_table[tables[s]] * width + pieces[s] % width)
    heap = [(load[r], r) for r in range(layout.ranks)]
    heapq.heapify(heap)
    for s in free:
        if scope_of[s] == 1 or in_node[s]:
            continue
        skipped = []
        while heap and held[heap[0][1]] + size_of[s] > room[s]:
            skipped.append(heapq.heappop(heap))
        if heap:
            on_rank(s, heap[0][1])
            heapq.heapreplace(heap, (load[home[s]], home[s]))
        else:
            on_rank(s, min(range(layout.ranks), key=held.__getitem__))  # nowhere has room: the estimate names it
        for _, rank in skipped:
            heapq.heappush(heap, (load[rank], rank))
    return np.array(home, dtype=np.int64)
