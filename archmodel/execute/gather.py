"""Parameters of a whole model, put together from what ranks hold."""

from __future__ import annotations

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.execute.machine import Machine
from archmodel.execute.parameters import Parameters
from archmodel.quantities import Array


def gather(machine: Machine) -> Parameters:
    """Whole tables and dense parameters. Every element must be held exactly once, and replicas must be bit-equal."""
    tables = machine.placement.tables
    whole = [
        np.full((int(r), int(d)), np.nan) for r, d in zip(tables.num_embeddings, tables.embedding_dim, strict=True)
    ]
    holders = [np.zeros(values.shape, dtype=np.int64) for values in whole]
    for rank in machine.ranks:
        for shards in rank.shards.values():
            for shard in shards:
                if shard.cache is not None and machine.train:
                    shard.cache.settle()
    first = machine.ranks[0]
    dense = [n for n, buffer in machine.program.buffers.items() if buffer.role == "parameter" and n in first.values]
    held = {name: machine.ranks[machine.holders(name)[0]].values[name] for name in dense}
    for rank in machine.ranks:
        for name in dense:
            if rank.index in machine.holders(name):
                _same(rank.values[name], held[name], name, rank.index)
        for shard, copy in zip(rank.shards["replica"], first.shards["replica"], strict=True):
            _same(shard.weights, copy.weights, tables.names[shard.table], rank.index)
        owned = [s for scope, shards in rank.shards.items() if scope != "replica" or rank is first for s in shards]
        for shard in owned:
            where = (slice(shard.row_start, shard.row_end), slice(shard.column_start, shard.column_end))
            whole[shard.table][where] = shard.weights
            holders[shard.table][where] += 1
    for t, count in enumerate(holders):
        if (count != 1).any():
            raise ExecutionError(
                f"table {tables.names[t]}: {int((count != 1).sum())} elements are not held exactly once"
            )
    return Parameters(tuple(whole), held)


def _same(a: Array, b: Array, name: str, rank: int) -> None:
    if not np.array_equal(a, b, equal_nan=True):
        raise ExecutionError(f"{name} on rank {rank} has drifted from its copy on rank 0")
