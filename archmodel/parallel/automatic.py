"""What the plan leaves to us: tiers, kinds and numbers of column pieces. Greedy; the planner does better."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from archmodel.program import IntArray, Layout
from archmodel.quantities import Array
from archmodel.workloads.tables import Tables

MIN_COLUMNS = 16
"""The automatic placement cuts no column shard narrower than this (one 64-byte line of fp32)."""
_FULL = 0.9  # share of a tier that the automatic choice of tiers fills
_REPLICAS = 0.1  # share of a rank's memory that replicated tables may fill


def tiers(
    written: npt.NDArray[np.object_],
    sharding: npt.NDArray[np.str_],
    size: Array,
    cost: Array,
    layout: Layout,
    capacity: dict[str, float],
    kept: dict[str, float] | None = None,
) -> npt.NDArray[np.str_]:
    """Tier of every table (T,): as `written`, else (None or auto) hierarchical, as MTrainS places (arXiv 2305.01515):
    tables with most traffic per byte in the fastest tier that has room, the next in the next one.

    `capacity`: bytes of each tier per rank, the fastest first, of which nine tenths are filled; `kept`: those of them
    that caches take. What fits nowhere stays in the last tier that has room for some. Replicated tables are in HBM,
    where their dense gradient and step are.
    """
    free = np.array([t in (None, "auto") for t in written], dtype=bool)
    tier = np.where(free, "hbm", written).astype(f"<U{max(map(len, capacity), default=3)}")
    free &= sharding != "data_parallel"
    left = np.flatnonzero(free)
    left = left[np.argsort(cost[left] / np.maximum(size[left], 1.0), kind="stable")[::-1]]  # most per byte first
    names = [name for name, room in capacity.items() if name == "hbm" or room > 0]
    for i, name in enumerate(names):
        room = (capacity[name] - (kept or {}).get(name, 0.0)) * layout.ranks * _FULL
        room -= size[~free & (tier == name)].sum()
        fits = np.cumsum(size[left]) <= room if i + 1 < len(names) else np.ones(len(left), dtype=bool)
        tier[left[fits]] = name
        left = left[~fits]
    return tier.astype(str)


def kinds_and_pieces(
    sharding: npt.NDArray[np.str_],
    pieces: IntArray,
    tables: Tables,
    tier: npt.NDArray[np.str_],
    size: Array,
    cost: Array,
    usable: Array,
    layout: Layout,
    global_batch: int,
) -> tuple[npt.NDArray[np.str_], IntArray]:
    """Kinds for `auto` tables, by the bytes that the slowest links carry.

    Replicate when all-reducing the gradient of a table moves less than exchanging its pooled vectors: 2 rows < samples
    of a rank; between nodes, where every network interface carries its share of a node's sum, samples of a node. Of
    those the smallest, until they fill a tenth of a rank's memory.

    Else, between nodes, spread the rows of a table over one node, where partial sums meet, if it costs more than a
    rank's mean load or if there are fewer tables than ranks; and if it fits in any order (a node's share of all tables
    and this one are at most its memory).

    Else cut columns so that no piece exceeds the mean load or half a rank's memory, and rows where columns are too few
    for that. A start: the planner (`archmodel plan`) prices what it chooses.
    """
    auto = sharding == "auto"
    mean = cost.sum() / layout.ranks if len(tables) else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.maximum(np.ceil(cost / mean - 1e-9), np.ceil(size / (0.5 * usable)))
    wanted = np.where(np.isfinite(wanted), wanted, 1.0)
    most = np.maximum(np.minimum(tables.embedding_dim // MIN_COLUMNS, layout.ranks), 1)
    cut = np.minimum(np.maximum(wanted, 1), most).astype(np.int64)
    across = layout.nodes > 1 and layout.local_size > 1
    sharers = layout.nodes if across else layout.ranks
    replicate = auto & (2 * tables.num_embeddings < global_batch / sharers) & (layout.ranks > 1) & (tier == "hbm")
    smallest = np.argsort(np.where(replicate, size, np.inf), kind="stable")
    replicate[smallest] &= np.cumsum(size[smallest]) <= _REPLICAS * usable[smallest]
    few = np.count_nonzero(~replicate) < layout.ranks
    of_tier = np.unique(tier, return_inverse=True)[1]
    share = np.bincount(of_tier, np.where(replicate, 0.0, size))[of_tier] / layout.nodes
    over_a_node = across & ((cost > mean) | few) & (share + size <= layout.local_size * usable)
    chosen = np.select(
        [replicate, over_a_node, (size / cut > usable) & (layout.ranks > 1), cut > 1],
        ["data_parallel", "table_row_wise", "row_wise", "column_wise"],
        "table_wise",
    )
    kinds = np.where(auto, chosen, sharding)
    pieces = np.where(auto & (kinds == "column_wise"), cut, pieces)
    undecided = (kinds == "column_wise") & (pieces == 0)  # written column_wise without a count
    return kinds, np.where(undecided, np.maximum(cut, np.minimum(2, tables.embedding_dim)), np.maximum(pieces, 1))
