"""A Program under construction: ops and buffers in the order that ranks issue them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from archmodel.parallel.plan import Plan
from archmodel.program import Buffer, Group, IntArray, Layout, Op, Phase, Program, Role, Stream, Tier, Work
from archmodel.quantities import Array, Dtype


def per_rank(values: Array | IntArray) -> Array:
    """Float array (ranks,), or (1,) when all ranks are equal, so that symmetric work is priced once."""
    array = np.asarray(values, dtype=np.float64)
    return array[:1] if array.ndim and (array == array[0]).all() else np.atleast_1d(array)


@dataclass
class Emitter:
    """Collects ops and buffers. `only`: the rank that alone does what is emitted; None: all do."""

    plan: Plan
    layout: Layout
    local_batch: IntArray
    ops: list[Op] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    only: int | None = None
    lookahead: int = 1
    """Batches ahead that inputs are there when they are prefetched: as far as caches fetch rows."""

    @property
    def copies(self) -> int:
        """Batches of a prefetched input that are held."""
        return 1 + self.lookahead

    def alone(self, rank: int) -> Emitter:
        """Emits into the same Program what `rank` alone does, for the whole batch."""
        batch = np.zeros_like(self.local_batch)
        batch[rank] = self.local_batch.sum()
        return replace(self, local_batch=batch, only=rank)

    def each(self, amount: float) -> Array:
        """An amount that is equal on every rank that does the work: (1,), or (ranks,) with zeros on the others."""
        if self.only is None:
            return np.array([float(amount)])
        amounts = np.zeros(self.layout.ranks)
        amounts[self.only] = amount
        return amounts

    @property
    def batch(self) -> Array:
        """Samples of each rank, (ranks,) or (1,)."""
        return per_rank(self.local_batch)

    def op(
        self,
        name: str,
        phase: Phase,
        work: Work,
        reads: tuple[str, ...],
        writes: tuple[str, ...],
        streams: tuple[Stream, ...] = ("compute",),
    ) -> None:
        """Append one op."""
        self.ops.append(Op(name, phase, work, streams, reads, writes))

    def buffer(
        self,
        name: str,
        role: Role,
        elements: Array | float,
        dtype: Dtype,
        tier: Tier = "hbm",
        prefetched: bool = False,
        copies: int = 2,
    ) -> str:
        """Declare a buffer, in `copies` when prefetched; returns its name."""
        self.buffers[name] = Buffer(name, role, per_rank(np.atleast_1d(elements)), dtype, tier, prefetched, copies)
        return name

    def activation(self, name: str, width: int, dtype: Dtype | None = None) -> str:
        """Declare a tensor of `width` elements per local sample."""
        return self.buffer(name, "activation", self.batch * width, dtype or self.plan.precision.compute)

    def streams(self, group: Group) -> tuple[Stream, ...]:
        """Links that a collective of this group occupies."""
        if group == "node" or self.layout.nodes == 1:
            return ("scale_up",)
        if group == "rail" or self.layout.local_size == 1:
            return ("scale_out",)
        return ("scale_up", "scale_out")

    def program(self, bottom_rank: int | None = None) -> Program:
        """The finished Program."""
        batch = per_rank(self.local_batch)
        return Program(tuple(self.ops), self.buffers, self.layout, batch, self.plan.graph_capture, bottom_rank)
