"""A tier of DRAM that sums embedding rows beside its ranks."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from archmodel.memory.dram.channel import DRAM, DramChannel
from archmodel.memory.nmp import NMP, NmpUnit, PooledLookups
from archmodel.memory.tier import MEMORIES, MemoryTier, TierError, _plain, _quantity
from archmodel.quantities import Array, Count, Fraction, Num

_FP32 = 4.0
"""Bytes of a number of a sum."""


@MEMORIES.register
class NearMemoryTier(MemoryTier):
    """`channels` equal channels of DRAM with near-memory units on their DIMMs.

    A lookup of rows in it sends sums to the device, not rows (`sum_time`). Everything else, updates of rows too, are
    the reads and writes of plain memory at `bandwidth`, which is that of the channels.
    """

    kind: Literal["near_memory"] = "near_memory"  # type: ignore[assignment]
    channel: Annotated[DramChannel, DRAM.field(default="ddr")] = Field(description="timing and energy of one channel")
    channels: Count = Field(default=1, description="channels, each with the unit's DIMMs")
    unit: Annotated[NmpUnit, NMP.field(default="rank_nmp")] = Field(description="units of one channel's DIMMs")
    hit_rate: Fraction = Field(default=0.0, description="share of the rows that their ranks' caches hold")

    @model_validator(mode="after")
    def _no_faster_than_its_channels(self) -> NearMemoryTier:
        most = self.channels * np.asarray(self.channel.peak_bandwidth)
        if np.any(np.asarray(self.bandwidth) > most * (1 + 1e-9)):
            raise ValueError(
                f"bandwidth is more than the {float(np.max(most)) / 1e9:g} GB/s of {self.channels} such channels; what "
                "ranks read beside it follows from unit"
            )
        return self

    @property
    def sums_rows(self) -> bool:
        return True

    def sum_time(self, row_bytes: Num, rows: Num, sums: Num, sum_bytes: Num) -> Num:
        """Seconds of `sums` sums, of `sum_bytes` together, over `rows` rows of `row_bytes` together.

        Poolings lie evenly over the channels; each takes what `NmpUnit.serve` says:

            t = serve(sums / channels poolings of rows / sums rows)
        """
        return _plain(self._over_channels(row_bytes, rows, sums, sum_bytes)[0])

    def sum_energy(self, row_bytes: Num, rows: Num, sums: Num, sum_bytes: Num) -> Num:
        """Joules of them on all channels: activates, reads, instructions and sums on the wires, caches, arithmetic; 0
        when the channel's file gives no energies."""
        return _plain(self._over_channels(row_bytes, rows, sums, sum_bytes)[1])

    def _over_channels(self, row_bytes: Num, rows: Num, sums: Num, sum_bytes: Num) -> tuple[Array, Array]:
        amounts = (_quantity(row_bytes, "an amount of data"), _quantity(rows, "a number of rows"))
        results = (_quantity(sums, "a number of sums"), _quantity(sum_bytes, "an amount of data"))
        row, count, sum_, out = np.broadcast_arrays(*amounts, *results)
        if np.any((count > 0) & ((sum_ == 0) | (row == 0) | (out == 0))):
            raise TierError("rows that are summed have bytes, and a sum that they go to")
        some = count > 0
        poolings, elements = np.where(some, sum_, 1.0), np.where(some, out, _FP32) / np.where(some, sum_, 1.0) / _FP32
        work = PooledLookups(
            poolings=poolings / self.channels,
            pooling_factor=np.where(some, count, 1.0) / poolings,
            elements=elements,
            element_bytes=np.where(some, row, 1.0) / np.where(some, count, 1.0) / elements,
            sum_element_bytes=_FP32,
        )
        cost = self.unit.serve(work, self.channel, hit_rate=self.hit_rate)
        energy = self.channels * np.asarray(cost.total_energy)
        return np.where(some, cost.time.total, 0.0), np.where(some, energy, 0.0)
