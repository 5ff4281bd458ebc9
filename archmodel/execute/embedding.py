"""What a rank does with shards of embedding tables: pooled lookup, exact update, and the moves of their caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archmodel.execute.arithmetic import Counted, counted, plain
from archmodel.execute.optimizers import STEPS
from archmodel.execute.shards import Bags, Shard
from archmodel.program import IntArray
from archmodel.quantities import Array, Dtype, itemsize

if TYPE_CHECKING:
    from archmodel.execute.machine import Rank


def bag_sums(rows: Counted, lengths: IntArray) -> tuple[IntArray, Array]:
    """Which bags are not empty, and the sum of each one's rows."""
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return filled, np.zeros((0, rows.shape[1]))
    starts = np.cumsum(lengths)[filled] - lengths[filled]
    return filled, plain(np.add.reduceat(rows, starts, axis=0))


def row_sums(gradients: Counted, ids: IntArray) -> tuple[IntArray, Counted]:
    """Distinct ids, ascending, and the sum of the gradients of each: sort, then segment sum."""
    order = np.argsort(ids, kind="stable")
    unique, starts = np.unique(ids[order], return_index=True)
    if not len(unique):
        return unique, counted(gradients[:0], gradients.tally)
    return unique, counted(np.add.reduceat(gradients[order], starts, axis=0), gradients.tally)


def lookup(rank: Rank, shards: list[Shard], bags: list[Bags | None], samples: int, dtype: Dtype) -> Array:
    """Pooled vectors of all samples, (samples, width of the shards), written as `dtype`. A shard without rows leaves
    its columns zero."""
    out = np.zeros((samples, sum(s.width for s in shards)))
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None:
            continue
        ids = shard.local(wanted.ids)
        if shard.cache is not None:
            shard.cache.install()
        filled, sums = bag_sums(rank.counting(shard.read("weights", ids)), wanted.lengths)
        out[filled, shard.span] = sums
        _count_indices(rank, wanted)
        tier = shard.read_tier
        rank.touch(ids.size * shard.row_sectors, tier)
        rank.note(f"row_bytes.{tier}", ids.size * shard.row_sectors)
        rank.note(f"unique_row_bytes.{tier}", len(np.unique(ids)) * shard.row_sectors)
        written = out[:, shard.span].size
        if tier != "hbm":
            rank.note(f"rows.{tier}", ids.size)
            rank.note(f"sums.{tier}", samples)
            rank.note(f"sum_bytes.{tier}", written * itemsize(dtype))
        rank.touch(written * itemsize(dtype))
        rank.note("output_elements", written)
    return out


def update(rank: Rank, shards: list[Shard], bags: list[Bags | None], upstream: Array, rate: float, t: int) -> None:
    """Exact update of the rows that the bags touched, from the gradient of the pooled vectors."""
    machine = rank.machine
    element = itemsize(machine.plan.wires.lookup_backward)
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None:
            continue
        _count_indices(rank, wanted)
        pooled = upstream[:, shard.span]
        gathered = pooled[wanted.bag_of_id]
        rank.touch(gathered.size * element)
        rank.note("gradient_bytes", gathered.size * element)
        rank.note("gradient_unique_bytes", pooled.size * element)
        rows, total = row_sums(rank.counting(gathered), shard.local(wanted.ids))
        before = {name: rank.counting(shard.read(name, rows)) for name in shard.state}
        step = STEPS[shard.optimizer]
        old = rank.counting(shard.read("weights", rows))
        weights, state = step(old, total, dict(before), rate, t, machine.settings)
        shard.write("weights", rows, plain(weights))
        for name, values in state.items():
            shard.write(name, rows, plain(values))
        for name, sectors in (("row_bytes", shard.row_sectors), ("state_bytes", shard.state_sectors)):
            moved = 2 * len(rows) * sectors  # read and written
            rank.touch(moved, shard.read_tier)
            rank.note(f"{name}.{shard.read_tier}", moved)
        if shard.read_tier != "hbm":
            rank.note(f"rows.{shard.read_tier}", len(rows))


def probe(rank: Rank, shards: list[Shard], bags: list[Bags | None], wanted_buffer: str) -> None:
    """Pass the rows of a batch by the tags of their caches."""
    index, found = itemsize(rank.machine.plan.wires.index), 0
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None or shard.cache is None:
            continue
        if shard.cache.paged:
            continue
        passed = shard.cache.probe(shard.local(wanted.ids))
        distinct, tags = len(passed[0].wanted), 0
        for level, staged in zip(shard.cache.levels, passed, strict=True):
            # a row is looked for in a set; without sets it has a place in a hash table
            tags += len(staged.wanted) * (level.tags.ways if level.ways is not None else 1) * index
            rank.note(f"asked.{level.tier}", len(staged.wanted))
        rank.touch((wanted.ids.size + distinct) * index + tags)
        rank.note("indices", wanted.ids.size)
        rank.note("rows", distinct)
        rank.note("tag_bytes", tags)
        found += distinct
    rank.hold(wanted_buffer, found)


def fetch(rank: Rank, shards: list[Shard], bags: list[Bags | None]) -> dict[str, float]:
    """Read missing rows from their home: bytes by the tier that takes them. Pages are missed when they are touched."""
    taken: dict[str, float] = {}
    for shard, wanted in zip(shards, bags, strict=True):
        cache = shard.cache
        if cache is None or wanted is None:
            continue
        if cache.paged:
            rank.note("faults", cache.probe(shard.local(wanted.ids))[0].units)
        for level, units in enumerate(cache.fetch()):
            _count_move(rank, shard, level, level + 1, units)
            tier = cache.levels[level].tier
            taken[tier] = taken.get(tier, 0.0) + units * cache.unit * shard.row_bytes
    return taken


def write_back(rank: Rank, shards: list[Shard]) -> None:
    """Write down what left the caches."""
    for shard in shards:
        if shard.cache is not None and shard.present:
            for (above, below), units in shard.cache.write_back().items():
                _count_move(rank, shard, above, below, units)


def _count_move(rank: Rank, shard: Shard, above: int, below: int, units: int) -> None:
    """Rows, or pages, that moved between two levels of a shard's caches, of which the home is the last."""
    assert shard.cache is not None
    tiers = [*(level.tier for level in shard.cache.levels), shard.tier]
    path, moved = f"{tiers[below]}:{tiers[above]}", units * shard.cache.unit * shard.row_bytes
    for tier in (tiers[below], tiers[above]):
        rank.touch(moved, tier)
    rank.note(f"units.{path}", units)
    rank.note(f"bytes.{path}", moved)
    rank.note("home", units if below == len(shard.cache.levels) else 0)


def gradient_rows(shards: list[Shard], bags: list[Bags | None], upstream: Array) -> Array:
    """The gradient of its bag for every index of every shard, shard by shard, flat."""
    parts = [
        upstream[:, shard.span][wanted.bag_of_id].ravel()
        for shard, wanted in zip(shards, bags, strict=True)
        if wanted is not None
    ]
    return np.concatenate([np.zeros(0), *parts])


def scatter_add(rank: Rank, shards: list[Shard], bags: list[Bags | None], rows: Array) -> None:
    """Add rows of gradients, laid out as `gradient_rows` does and scaled already, to the rows of the tables."""
    wires, done = rank.machine.plan.wires, 0
    element = itemsize(rank.machine.plan.precision.parameters)
    for shard, wanted in zip(shards, bags, strict=True):
        if wanted is None:
            continue
        ids = shard.local(wanted.ids)
        added = rows[done : done + ids.size * shard.width].reshape(ids.size, shard.width)
        done += added.size
        touched, which = np.unique(ids, return_inverse=True)
        weights = shard.read("weights", touched)
        np.add.at(weights, which, added)
        shard.write("weights", touched, weights)
        rank.tally.operations += added.size  # np.add.at
        rank.touch(ids.size * itemsize(wires.index) + added.size * element)
        rank.note("indices", ids.size)
        rank.note("gradient_bytes", added.size * element)
        moved = 2 * shard.row_sectors  # read and written
        tier = shard.read_tier
        rank.touch(ids.size * moved, tier)
        rank.note(f"row_bytes.{tier}", ids.size * moved)
        rank.note(f"unique_row_bytes.{tier}", len(touched) * moved)
        if tier != "hbm":
            rank.note(f"rows.{tier}", ids.size)


def _count_indices(rank: Rank, wanted: Bags) -> None:
    wires = rank.machine.plan.wires
    rank.touch(wanted.ids.size * itemsize(wires.index) + wanted.lengths.size * itemsize(wires.length))
    rank.note("indices", wanted.ids.size)
    rank.note("bags", wanted.lengths.size)
