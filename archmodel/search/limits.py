"""What a planner may not do: kinds, tiers, ranks and widths per table, memory kept free per rank. From a YAML file:

tables:                                   # every entry that matches a table holds for it
  - {match: {name: "user_*"}, sharding: [table_wise, column_wise], ranks: [0, 1, 2, 3]}
  - {match: {rows: "> 1e8"}, tiers: [hbm], min_columns: 32}
reserved:
  - {ranks: [0], tier: hbm, bytes: 4 GiB}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.design import Design
from archmodel.errors import DesignError, Problem, suggestion
from archmodel.estimate.result import Estimate
from archmodel.parallel.plan import Match
from archmodel.quantities import Array, Count, PositiveBytes
from archmodel.search.options import NoPlan, Options, home_of
from archmodel.source import Located

Kind = Literal[
    "table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_wise", "data_parallel"
]
Rank = Annotated[int, Field(ge=0)]


class TableLimit(Component):
    """What tables that match may be. What is left out is free."""

    match: Match = Field(default_factory=Match, description="which tables; left out: all")
    sharding: list[Kind] | None = Field(default=None, min_length=1, description="kinds that are allowed")
    tiers: list[str] | None = Field(default=None, min_length=1, description="tiers that may hold the rows")
    ranks: list[Rank] | None = Field(default=None, min_length=1, description="ranks that may hold a shard")
    min_columns: Count | None = Field(default=None, description="fewest columns of a shard")


class Reserved(Component):
    """Memory that no shard may use."""

    ranks: list[Rank] | None = Field(default=None, min_length=1, description="left out: every rank")
    tier: str = Field(default="hbm", description="tier of which it is kept free")
    bytes: PositiveBytes = Field(description="bytes of each of the ranks")


class Limits(Component):
    """What the planner may not do."""

    tables: list[TableLimit] = Field(default_factory=list, description="limits of tables")
    reserved: list[Reserved] = Field(default_factory=list, description="memory kept free")


@dataclass(frozen=True)
class Restrictions:
    """Limits bound to the tables of a design: `masks` (T,) say which tables each entry of `limits.tables` is for."""

    limits: Limits
    masks: tuple[npt.NDArray[np.bool_], ...]

    def apply(self, options: Options) -> Options:
        """The options that are left. Raises NoPlan, naming the first table that has none.

        A table that is pinned takes a token of which only its ranks have any: one more tier of the solver's memory.
        """
        cost, kinds, tiers = options.cost, np.array(options.kinds), np.array([home_of(k) for k in options.kernels])
        memory = [options.memory]
        room = [np.maximum(options.limits - self.reserve(options.ranks, options.tiers), 0.0)]
        for limit, mask in zip(self.limits.tables, self.masks, strict=True):
            allowed = np.ones(cost.shape, dtype=bool)
            if limit.sharding is not None:
                allowed &= np.isin(kinds, limit.sharding)
            if limit.tiers is not None:
                allowed &= np.isin(tiers, limit.tiers)
            if limit.min_columns is not None:
                allowed &= (options.columns >= limit.min_columns) | (options.count == 1)
            cost = np.where(mask[:, None] & ~allowed, np.inf, cost)
            if limit.ranks is not None:
                memory.append(np.where(mask[:, None, None], 1.0, 0.0) * np.ones((*cost.shape, 1)))
                tokens = float(options.count.max(initial=1) * len(mask))
                room.append(np.where(np.isin(np.arange(options.ranks), limit.ranks), tokens, 0.0)[:, None])
        gone = np.flatnonzero(~np.isfinite(cost).any(1))
        if len(gone):
            raise NoPlan(f"table {options.names[gone[0]]}: the limits leave it no kind in any tier of this system")
        return replace(options, cost=cost, memory=np.concatenate(memory, axis=2), limits=np.concatenate(room, axis=1))

    def reserve(self, ranks: int, tiers: Sequence[str]) -> Array:
        """Bytes kept free, (ranks, tiers)."""
        result = np.zeros((ranks, len(tiers)))
        for r in self.limits.reserved:
            if r.tier in tiers:
                result[slice(None) if r.ranks is None else r.ranks, tiers.index(r.tier)] += r.bytes
        return result

    def broken_by(self, design: Design, answer: Estimate) -> str:
        """The first limit that a design's own plan breaks, in words; nothing when it keeps all."""
        placement, layout = design.placement, design.layout
        for limit, mask in zip(self.limits.tables, self.masks, strict=True):
            for s in np.flatnonzero(mask[placement.table]).tolist():
                t, home, columns = int(placement.table[s]), int(placement.home[s]), int(placement.columns[s])
                name, kind = placement.tables.names[t], placement.sharding[t]
                width = {"table_row_wise": layout.local_size, "grid_wise": layout.local_size}.get(kind, 1)
                first, width = (0, layout.ranks) if kind in ("row_wise", "data_parallel") else (home * width, width)
                if limit.sharding is not None and kind not in limit.sharding:
                    return f"{name} is {kind}"
                if limit.tiers is not None and placement.tier[t] not in limit.tiers:
                    return f"{name} is in {placement.tier[t]}"
                if limit.ranks is not None and not set(range(first, first + width)) <= set(limit.ranks):
                    return f"{name} is on rank {min(set(range(first, first + width)) - set(limit.ranks))}"
                whole = columns == placement.tables.embedding_dim[t]
                if limit.min_columns is not None and not whole and columns < limit.min_columns:
                    return f"{name} is cut into {columns} columns"
        for tier, need in answer.memory.items():
            kept = self.reserve(layout.ranks, (tier,))[:, 0]
            if kept.any() and np.any(need.need + kept > np.asarray(need.capacity)):
                return f"{tier} has no room for what is reserved"
        return ""


def bind(limits: Limits, design: Design, tree: Located | None = None) -> Restrictions:
    """Limits of a design's tables. Raises DesignError with every entry that matches no table and everything that is no
    rank or no tier of it; `tree`: the file that they stand in."""
    problems: list[Problem] = []
    tables = design.workload.table_arrays
    tiers = design.placement.tiers
    masks = tuple(limit.match.tables(tables) for limit in limits.tables)

    def refuse(where: str, message: str, value: object) -> None:
        problems.append(source.problem_at(tree or Located(), where, message, str(value)))

    for i, (limit, mask) in enumerate(zip(limits.tables, masks, strict=True)):
        if not mask.any():
            near = suggestion(limit.match.name, tables.names) if limit.match.name else "no table is like that"
            refuse(f"tables[{i}].match", f"matches no table; {near}", limit.match.name or "")
        for tier in set(limit.tiers or ()) - set(tiers):
            refuse(f"tables[{i}].tiers", f"is no tier of this system; {suggestion(tier, tiers)}", tier)
    for i, kept in enumerate(limits.reserved):
        if kept.tier not in tiers:
            refuse(f"reserved[{i}].tier", f"is no tier of this system; {suggestion(kept.tier, tiers)}", kept.tier)
    named = [(f"tables[{i}].ranks", x.ranks) for i, x in enumerate(limits.tables)]
    named += [(f"reserved[{i}].ranks", x.ranks) for i, x in enumerate(limits.reserved)]
    for where, ranks in named:
        for rank in [r for r in ranks or () if r >= design.layout.ranks][:1]:
            refuse(where, f"is no rank; there are {design.layout.ranks}, from 0", rank)
    if problems:
        raise DesignError(problems)
    return Restrictions(limits, masks)


def read_limits(path: str | Path, design: Design) -> Restrictions:
    """Limits of a design's tables from a file. Raises DesignError with every problem."""
    problems: list[Problem] = []
    tree = source.read(path, catalogue=catalogue.directory(), problems=problems)
    return bind(source.validate(Limits, tree, problems=problems), design, tree)
