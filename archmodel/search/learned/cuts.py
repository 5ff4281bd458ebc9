"""Column-wise cuts under a learned cost, as NeuroShard makes them (Zha et al., "Pre-train and Search: Efficient
Embedding Table Sharding with Pre-trained Neural Cost Models", MLSys 2023): tables of the slowest rank are halved, one
at a time, as long as that makes the slowest rank faster. A shard is priced as a table of fewer columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.place import Placed, Progress, place
from archmodel.search.learned.tables import TableFeatures
from archmodel.search.options import IntArray, NoPlan

_TRIED = 3
"""Tables of the slowest rank of which a cut is tried before the search ends."""
_KICKS = 4
"""Kicks of a trial; the placement that is kept gets all of them at the end."""
_UNIT = 4
"""Columns of a shard are a multiple of this, as TorchRec's are."""


@dataclass(frozen=True)
class Cut:
    """`pieces` (T,): equal column-wise shards of every table; `table` (S,): of which each is; `placed`: where they are,
    whose `lower_bound` is that of these shards."""

    pieces: IntArray
    table: IntArray
    placed: Placed


def shards_of(tables: TableFeatures, pieces: IntArray) -> tuple[TableFeatures, IntArray]:
    """The shards (S,) as tables of their own, and of which table each is."""
    table = np.repeat(np.arange(len(tables)), pieces)
    cut = tables.of(table)
    return replace(cut, dim=cut.dim // pieces[table], names=_names(cut.names)), table


def place_cut(
    model: SetCost,
    tables: TableFeatures,
    ranks: int,
    memory: Callable[[IntArray], Array],
    limits: Array,
    *,
    least: int,
    seed: int = 0,
    budget: float | None = None,
    starts: Sequence[IntArray] = (),
    progress: Progress | None = None,
) -> Cut:
    """The best placement found of tables of which any may be cut into halves, quarters and so on of at least `least`
    columns. `memory`: bytes (T, tiers) of a shard of every table when they are in `pieces` (T,); the rest as for
    `place`. Never worse than whole tables where those fit. Raises NoPlan when no cut finds room."""
    deadline = np.inf if budget is None else time.perf_counter() + budget

    def trial(pieces: IntArray, begin: Sequence[IntArray], kicks: int | None) -> Placed:
        shards, table = shards_of(tables, pieces)
        held = memory(pieces)[table]
        left = None if budget is None or kicks is not None else max(deadline - time.perf_counter(), 0.0)
        return place(
            model, shards, ranks, held, limits,
            seed=seed, budget=left, starts=begin, kicks=kicks, progress=progress if kicks is None else None,
        )  # fmt: skip

    pieces = np.ones(len(tables), dtype=np.int64)
    best: Placed | None = None
    while best is None:
        try:
            best = trial(pieces, starts, _KICKS)
        except NoPlan:
            share = np.where(_may(tables, pieces, ranks, least), (memory(pieces) / limits.max(0)).max(1), 0.0)
            if not share.any():
                raise
            starts = ()
            pieces = _halved(pieces, int(share.argmax()))
    refused: set[int] = set()
    while time.perf_counter() < deadline:
        shards, table = shards_of(tables, pieces)
        alone = np.bincount(table, model.of(model.parts(shards)), minlength=len(tables)) / pieces
        slowest = np.unique(table[best.home == int(best.cost.argmax())])
        may = _may(tables, pieces, ranks, least)
        mine = [t for t in slowest.tolist() if may[t] and t not in refused]
        for t in sorted(mine, key=lambda t: (-float(alone[t]), t))[:_TRIED]:
            other = _halved(pieces, t)
            try:
                found = trial(other, [_homes(pieces, t, best)], _KICKS)
            except NoPlan:
                found = best
            if found.value < best.value:
                pieces, best = other, found
                break
            refused.add(t)
        else:
            break
    return Cut(pieces, shards_of(tables, pieces)[1], trial(pieces, [best.home], None))


def _may(tables: TableFeatures, pieces: IntArray, ranks: int, least: int) -> npt.NDArray[np.bool_]:
    """Tables (T,) that can be halved once more."""
    return np.asarray(
        (tables.dim % (2 * _UNIT * pieces) == 0) & (tables.dim // (2 * pieces) >= least) & (2 * pieces <= ranks)
    )


def _halved(pieces: IntArray, t: int) -> IntArray:
    found = pieces.copy()
    found[t] *= 2
    return found


def _homes(pieces: IntArray, t: int, placed: Placed) -> IntArray:
    """Homes when the shards of a table are halved: one half stays, others go to the ranks that cost least."""
    first = int(pieces[:t].sum())
    last = first + int(pieces[t])
    free = [
        r for r in np.argsort(placed.cost, kind="stable").tolist() if r not in set(placed.home[first:last].tolist())
    ]
    others = (free * int(pieces[t]))[: int(pieces[t])]
    return np.concatenate([placed.home[:last], np.array(others, dtype=np.int64), placed.home[last:]])


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """Shards of one table by number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, -1) + 1
        found.append(f"{name}[{seen[name]}]")
    return tuple(found)
