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
    home = np.full(len(table), -1, dtype=np.int64)
    load, held = np.array(other_load, dtype=np.float64), np.zeros(layout.ranks)

    def put(s: int, at: int) -> None:
        home[s] = at
        span = {0: slice(at, at + 1), 1: slice(at * layout.local_size, (at + 1) * layout.local_size)}[int(scope[s])]
        share = span.stop - span.start
        load[span] += cost[s] / share
        held[span] += size[s] / share

    by_column_of_node = sharding == "table_column_wise"
    free: list[int] = []
    for s in np.flatnonzero(scope <= 1).tolist():
        t = int(table[s])
        if by_column_of_node[s]:
            if nodes[t]:
                put(s, nodes[t][0] * layout.local_size + int(piece[s]) % layout.local_size)
            else:
                free.append(s)
        elif scope[s] == 0 and ranks[t]:
            put(s, ranks[t][int(piece[s]) if len(ranks[t]) > 1 else 0])
        elif scope[s] == 1 and nodes[t]:
            put(s, nodes[t][int(piece[s]) if len(nodes[t]) > 1 else 0])
        else:
            free.append(s)
    order = sorted(free, key=lambda s: (-int(scope[s]), -cost[s], s))
    node_load = load.reshape(layout.nodes, -1)
    singles = [s for s in order if scope[s] == 0 and not by_column_of_node[s]]
    for s in order:
        if scope[s] == 1:
            put(s, int(node_load.sum(1).argmin()))
    for t in dict.fromkeys(int(table[s]) for s in order if by_column_of_node[s]):
        node = int(node_load.sum(1).argmin())
        for s in np.flatnonzero((table == t) & by_column_of_node).tolist():
            put(s, node * layout.local_size + int(piece[s]) % layout.local_size)
    heap = [(load[r], r) for r in range(layout.ranks)]
    heapq.heapify(heap)
    for s in singles:
        skipped = []
        while heap and held[heap[0][1]] + size[s] > usable[s]:
            skipped.append(heapq.heappop(heap))
        at = heap[0][1] if heap else int(held.argmin())  # nowhere has room: the estimate names the overflow
        put(s, at)
        if heap:
            heapq.heapreplace(heap, (load[at], at))
        for item in skipped:
            heapq.heappush(heap, (load[item[1]], item[1]))
    return np.where(home < 0, 0, home)
