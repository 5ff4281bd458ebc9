"""Do the shards of a placement tile every table exactly? Both ways: nothing missing, nothing twice, nothing foreign."""

from __future__ import annotations

import numpy as np

from archmodel.parallel.placement import SCOPES, Blocks, Placement, Scope

_SHOWN = 5


def tiling_problems(placement: Placement) -> list[str]:
    """What is wrong with the cut of tables into shards, named by table; empty when all is well."""
    foreign = np.flatnonzero((placement.table < 0) | (placement.table >= len(placement.tables)))
    if len(foreign):
        return [f"shard {foreign[0]} is of table {placement.table[foreign[0]]}, which does not exist"]
    problems = _columns(placement)
    for scope in SCOPES:
        for blocks in placement.blocks(scope):
            problems += _rows(placement, scope, blocks)
    problems += _homes(placement)
    return problems


def _columns(placement: Placement) -> list[str]:
    """Column ranges of a table's shards follow each other from 0 to embedding_dim."""
    names, dims = placement.tables.names, placement.tables.embedding_dim
    shards = np.bincount(placement.table, minlength=len(dims))
    problems = [f"table {names[t]} has no shard" for t in np.flatnonzero(shards == 0)[:_SHOWN]]
    order = np.lexsort((placement.column_start, placement.table))
    table, start, end = placement.table[order], placement.column_start[order], placement.column_end[order]
    first = np.r_[True, table[1:] != table[:-1]] if len(table) else np.zeros(0, dtype=bool)
    last = np.r_[first[1:], True] if len(table) else first
    expected = np.where(first, 0, np.r_[0, end[:-1]] if len(table) else end)
    for s in np.flatnonzero(start != expected)[:_SHOWN]:
        what = "are in no shard" if start[s] > expected[s] else "are in two shards"
        low, high = sorted((int(start[s]), int(expected[s])))
        problems.append(f"table {names[table[s]]}: columns {low} to {high} {what}")
    for s in np.flatnonzero(last & (end != dims[table]))[:_SHOWN]:
        problems.append(f"table {names[table[s]]}: shards end at column {end[s]} of {dims[table[s]]}")
    for s in np.flatnonzero(end <= start)[:_SHOWN]:
        problems.append(f"table {names[table[s]]}: a shard has no columns")
    return problems


def _rows(placement: Placement, scope: Scope, blocks: Blocks) -> list[str]:
    """Row blocks of every shard follow each other from 0 to num_embeddings."""
    rows = placement.tables.num_embeddings[placement.table[blocks.shards]]
    follow = (blocks.start[:, 1:] == blocks.end[:, :-1]).all(1)
    whole = (blocks.start[:, 0] == 0) & (blocks.end[:, -1] == rows) & (blocks.rows >= 0).all(1)
    bad = np.flatnonzero(~(follow & whole))[:_SHOWN]
    names = placement.tables.names
    return [
        f"table {names[placement.table[blocks.shards[s]]]}: {scope} row blocks do not tile {rows[s]} rows" for s in bad
    ]


def _homes(placement: Placement) -> list[str]:
    """Every shard lives on a rank or node that exists."""
    problems = []
    counts: dict[Scope, int] = {"rank": placement.layout.ranks, "node": placement.layout.nodes}
    for scope, count in counts.items():
        shards = np.flatnonzero(placement.scope == SCOPES.index(scope))
        for s in shards[(placement.home[shards] < 0) | (placement.home[shards] >= count)][:_SHOWN]:
            name = placement.tables.names[placement.table[s]]
            problems.append(f"table {name}: a shard is on {scope} {placement.home[s]}; there are {count}")
    return problems
