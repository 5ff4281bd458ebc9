"""Published planners behind the same interface: table-wise greedies, Karmarkar-Karp, and HugeCTR's cost.

Greedy (AutoShard, DreamShard, NeuroShard): tables by falling key, each on the rank with the smallest running key that
has room, ties to the rank that holds less. Keys: rows x dim x bytes, dim, dim x pooling, dim x pooling x log10(rows).
Karmarkar-Karp (the multiway differencing method, as Neo uses it): Karmarkar and Karp, The Differencing Method of Set
Partitioning, UCB/CSD 82/113 (1982).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

import numpy as np

from archmodel.errors import ArchmodelError, suggestion
from archmodel.quantities import Array
from archmodel.search.bound import blame
from archmodel.search.options import Assignment, IntArray, Options
from archmodel.search.tasks import Task

_KEYS: Mapping[str, Callable[[Array, Array, Array], Array]] = {
    "size": lambda rows, dim, pooling: rows * dim,
    "dim": lambda rows, dim, pooling: dim,
    "lookup": lambda rows, dim, pooling: dim * pooling,
    "size_lookup": lambda rows, dim, pooling: dim * pooling * np.log10(np.maximum(rows, 1.0)),
}
BASELINES = ("random", *_KEYS, "karmarkar_karp")


def key_of(name: str, task: Task) -> Array:
    """What a greedy balances, per table (T,)."""
    return _KEYS[name](task.rows.astype(np.float64), task.dim.astype(np.float64), task.pooling)


def baseline(name: str, task: Task, options: Options, seed: int = 0) -> Assignment:
    """A published planner's plan: every table whole on one rank, in HBM. Raises NoPlan when a table has no room."""
    if name not in BASELINES:
        raise ArchmodelError(f"no planner {name}; {suggestion(name, BASELINES)}")
    slot = options.kinds.index("table_wise")
    memory = options.memory[:, slot]
    if name == "random":
        home = _random(memory, options, seed)
    elif name == "karmarkar_karp":
        home = differencing(options.cost[:, slot], options.ranks)
    else:
        home = greedy(key_of(name, task), memory, options.limits)
    if home is None:
        raise blame(options)
    return Assignment(np.full(len(home), slot, dtype=np.int64), tuple((int(h),) for h in home))


def _random(memory: Array, options: Options, seed: int) -> IntArray | None:
    random = np.random.default_rng(seed)
    held, homes = np.zeros_like(options.limits), []
    for m in memory:
        room = np.flatnonzero((held + m <= options.limits).all(1))
        if not len(room):
            return None
        homes.append(int(random.choice(room)))
        held[homes[-1]] += m
    return np.array(homes, dtype=np.int64)


def greedy(key: Array, memory: Array, limits: Array) -> IntArray | None:
    """Rank of every table (T,); None when one finds no room. `memory` (T, tiers), `limits` (ranks, tiers)."""
    load, held = np.zeros(len(limits)), np.zeros_like(limits)
    home = np.zeros(len(key), dtype=np.int64)
    for t in np.argsort(-key, kind="stable").tolist():
        room = (held + memory[t] <= limits).all(1)
        if not room.any():
            return None
        home[t] = np.lexsort((held[:, 0], np.where(room, load, np.inf)))[0]
        load[home[t]] += key[t]
        held[home[t]] += memory[t]
    return home


def differencing(cost: Array, ranks: int) -> IntArray:
    """Rank of every table by largest differencing: join the two partial partitions that differ most, largest against
    smallest. Blind to memory, as published."""
    heap: list[tuple[float, int, list[tuple[float, list[int]]]]] = []
    for t, c in enumerate(cost.tolist()):
        heap.append((-c, t, [(c, [t]), *(((0.0, []),) * (ranks - 1))]))
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, a = heapq.heappop(heap)
        _, order, b = heapq.heappop(heap)
        joined = [(x + y, p + q) for (x, p), (y, q) in zip(a, reversed(b), strict=True)]
        joined.sort(key=lambda part: -part[0])
        heapq.heappush(heap, (joined[-1][0] - joined[0][0], order, joined))
    home = np.zeros(len(cost), dtype=np.int64)
    for rank, (_, tables) in enumerate(heap[0][2] if heap else []):
        home[tables] = rank
    return home


def hugectr_options(
    names: tuple[str, ...],
    rows: IntArray,
    dim: int,
    hotness: Array,
    ranks: int,
    *,
    bandwidth_ratio: float,
    work_ratio: float,
    memory_limit: float,
    bytes_per_element: float = 8.0,
    replicate_below: float | None = None,
    most_splits: int | None = None,
) -> Options:
    """HugeCTR's planner cost: a rank's cost is the sum of hotness / splits, plus bandwidth_ratio / work_ratio for each
    table it holds; tables smaller than `replicate_below` bytes are copied to every rank at no cost.

    Source: sharding/planner.py of the MLPerf Training v3.1 submission (Apache-2.0), restated. A split table holds
    rows / splits on each of its ranks; `bytes_per_element` is 8 with Adagrad.
    """
    splits = [s for s in (1, 2, 4, 8, 16, 32, 64, 128) if s <= (most_splits or ranks)]
    if ranks not in splits and most_splits is None:
        splits.append(ranks)
    per_table = bandwidth_ratio / work_ratio
    count = np.array(splits, dtype=np.int64)
    cost = hotness[:, None] / count + per_table
    memory = rows[:, None] * dim * bytes_per_element / count
    replicated = np.zeros(len(names), dtype=bool)
    if replicate_below is not None:
        replicated = rows * dim * bytes_per_element < replicate_below
        cost = np.concatenate(
            [np.where(replicated[:, None], np.inf, cost), np.where(replicated, 0.0, np.inf)[:, None]], 1
        )
        memory = np.concatenate([memory, (rows * dim * bytes_per_element)[:, None]], 1)
    kinds = ("mp",) * len(splits) + (("dp",) if replicate_below is not None else ())
    counts = np.broadcast_to(np.append(count, 1)[: len(kinds)], cost.shape)
    return Options(
        names,
        ranks,
        ranks,
        kinds,
        ("fused",) * len(kinds),
        np.array([2 if k == "dp" else 0 for k in kinds], dtype=np.int64),
        counts.astype(np.int64),
        np.maximum(dim // counts, 1).astype(np.int64),
        cost,
        memory[..., None],
        np.full((ranks, 1), memory_limit),
    )
