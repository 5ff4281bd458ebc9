"""What a planner may do with every table, as arrays over (tables T, option slots O); and the plans it finds.

The problem, for whatever cost model filled the arrays: choose one option per table and homes for its shards, so that
the largest sum of costs on any rank is least while every tier of every rank holds its shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel.errors import ArchmodelError
from archmodel.quantities import Array

IntArray = npt.NDArray[np.int64]
RANK, NODE, WORLD = 0, 1, 2
"""Scope of a slot: its shards sit on single ranks, on all ranks of nodes, or on every rank."""
TIERS = ("hbm", "ddr")
_CACHED = " cached in hbm by "


def kernel(tier: str, cached: float = 0.0) -> str:
    """What a slot's rows are read by: their tier, or "ddr cached in hbm by 20 %"."""
    return f"{tier}{_CACHED}{100 * cached:g} %" if cached else tier


def home_of(kernel: str) -> str:
    """The tier that a kernel's rows are at home in."""
    return kernel.partition(_CACHED)[0]


def memory_entry(kernel: str) -> dict[str, Any]:
    """`tier` and `cache` of a plan entry."""
    tier, _, share = kernel.partition(_CACHED)
    return {"tier": tier, **({"cache": {"in": "hbm", "size": share}} if share else {})}


class NoPlan(ArchmodelError):  # noqa: N818
    """No plan fits; the message says which table or tier is to blame."""


@dataclass(frozen=True)
class Options:
    """Slots (O,) by kind and kernel; `count` shards (T, O), each with `cost` (T, O) and bytes `memory` (T, O, tiers) on
    each rank that it touches. `cost` is inf where a table has no such option. `limits` (ranks, tiers); `base` (ranks,)
    is cost that is there whatever the plan; `tiers`: names of the first of the memories."""

    names: tuple[str, ...]
    ranks: int
    local: int
    kinds: tuple[str, ...]
    kernels: tuple[str, ...]
    scope: IntArray
    count: IntArray
    columns: IntArray
    cost: Array
    memory: Array
    limits: Array
    base: Array = field(default_factory=lambda: np.zeros(0))
    tiers: tuple[str, ...] = TIERS

    def that_fit(self) -> Options:
        """Without options whose shard is larger than any rank: no plan can use them."""
        fits = (self.memory <= self.limits.max(0)).all(2)
        return replace(self, cost=np.where(fits, self.cost, np.inf))

    @property
    def nodes(self) -> int:
        """Whole nodes; ranks beyond them take no node-wide shards."""
        return self.ranks // self.local

    @cached_property
    def members(self) -> Array:
        """Ranks that hold a piece, counted with multiplicity, (T, O)."""
        per_shard = np.array([1, self.local, self.ranks])[self.scope]
        return np.asarray(self.count * per_shard, dtype=np.float64)

    @cached_property
    def work(self) -> Array:
        """Cost summed over ranks, (T, O)."""
        return np.asarray(self.cost * self.members)

    @cached_property
    def bytes(self) -> Array:
        """Memory summed over ranks, (T, O, tiers)."""
        return np.asarray(self.memory * self.members[..., None])

    @cached_property
    def start(self) -> Array:
        """Cost on every rank before any table is placed, (ranks,)."""
        return np.zeros(self.ranks) if self.base.size == 0 else np.asarray(self.base, dtype=np.float64)


@dataclass(frozen=True)
class Assignment:
    """One option slot per table (T,) and the ranks or nodes of its shards."""

    slot: IntArray
    homes: tuple[tuple[int, ...], ...]

    def loads(self, options: Options) -> tuple[Array, Array]:
        """Cost (ranks,) and bytes (ranks, tiers) of every rank, added up from nothing."""
        load, held = options.start.copy(), np.zeros_like(options.limits)
        for t, (slot, homes) in enumerate(zip(self.slot.tolist(), self.homes, strict=True)):
            for ranks in members_of(options, slot, homes):
                load[ranks] += options.cost[t, slot]
                held[ranks] += options.memory[t, slot]
        return load, held

    def value(self, options: Options) -> float:
        """Largest cost of any rank."""
        return float(self.loads(options)[0].max(initial=0.0))

    def fits(self, options: Options) -> bool:
        """Whether every rank holds its shards."""
        return bool((self.loads(options)[1] <= options.limits).all())


def members_of(options: Options, slot: int, homes: tuple[int, ...]) -> list[slice]:
    """Ranks of every shard of an option."""
    if options.scope[slot] == WORLD:
        return [slice(0, options.ranks)]
    width = 1 if options.scope[slot] == RANK else options.local
    return [slice(h * width, (h + 1) * width) for h in homes]


@dataclass(frozen=True)
class Solution:
    """The best assignment found, its value, and a proven lower bound on the value of every assignment that fits."""

    options: Options
    assignment: Assignment
    value: float
    lower_bound: float
    cpu_seconds: float
    feasible: bool
    interrupted: bool = False
    proof: Mapping[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """(value - lower bound) / value."""
        return (self.value - self.lower_bound) / self.value if self.value > 0 else 0.0
