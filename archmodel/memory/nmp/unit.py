"""What every near-memory unit can do: serve pooled lookups, with time, counts and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.components.breakdown import Breakdown
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.gathers import gather_bound
from archmodel.memory.nmp.balance import most_loaded
from archmodel.memory.nmp.instruction import NmpInstruction
from archmodel.memory.nmp.rank_cache import RankCache
from archmodel.memory.nmp.work import PooledLookups
from archmodel.quantities import Array, Count, Joules, Num, Ratio, Watts

HitRate = Num | Callable[[Num], Num]
"""A hit rate, or the function that gives it for the capacity of one rank's cache."""


@dataclass(frozen=True, slots=True)
class NmpCounts:
    """What a unit does for some work; expectations, or exact numbers when hits and partial sums are given."""

    instructions: Num
    instruction_bytes: Num
    activates: Num
    dram_bytes: Num
    cache_accesses: Num
    cache_hits: Num
    adds: Num
    multiplies: Num
    output_bytes: Num


@dataclass(frozen=True, slots=True)
class NmpCost:
    """Seconds by part, counts, and joules by part, of some pooled lookups."""

    time: Breakdown
    counts: NmpCounts
    energy: Mapping[str, Num]

    @property
    def total_energy(self) -> Num:
        """Joules."""
        total: Num = 0.0
        for part in self.energy.values():
            total = total + part
        return total


class NmpUnit(Component):
    """Units of one channel's DIMMs. A kind says what its lanes are, and how a row lies on them."""

    dimms: Count = Field(description="DIMMs on the channel")
    ranks_per_dimm: Count = Field(description="ranks of a DIMM")
    instruction: NmpInstruction = Field(description="instruction format and pins")
    poolings_per_packet: Count = Field(default=1, description="poolings sent together, which end together")
    page_colouring: bool = Field(default=False, description="whether all rows of a table lie on one rank")
    registers: Count = Field(default=8, description="rows that a lane may have in flight")
    cache: RankCache | None = Field(default=None, description="cache of each rank")
    add_cycles: Ratio = Field(default=0.0, description="DRAM clock cycles of an addition")
    multiply_cycles: Ratio = Field(default=0.0, description="DRAM clock cycles of a multiplication")
    add_energy: Joules = Field(default=0.0, description="energy of an addition")
    multiply_energy: Joules = Field(default=0.0, description="energy of a multiplication")
    area: Ratio = Field(default=0.0, description="mm2 of the units of a DIMM")
    power: Watts = Field(default=0.0, description="power of the units of a DIMM")

    @property
    def ranks(self) -> int:
        """Ranks of the channel."""
        return self.dimms * self.ranks_per_dimm

    @property
    def lanes(self) -> int:
        """Places that read and sum on their own."""
        return self.ranks

    @property
    def packet(self) -> int:
        """Poolings of a packet, as many as have a tag."""
        return min(self.poolings_per_packet, self.instruction.tags)

    # --- what a kind overrides ----------------------------------------------------------------------------------

    def lane_rows(self, lookups: Num) -> Array:
        """Rows (or parts of rows) that the busiest lane reads for `lookups` of a packet."""
        return most_loaded(lookups, self.lanes)

    def lane_row_bytes(self, work: PooledLookups) -> Num:
        """Bytes of a row that one lane reads."""
        return work.row_bytes

    def copies(self) -> Num:
        """Lanes that read a part of every row."""
        return 1.0

    def lane_cycles(self, channel: DramChannel, row_bytes: Num) -> Array:
        """Cycles between two rows of a lane."""
        depth = self.registers * channel.bursts(row_bytes)
        return gather_bound(channel, row_bytes, ranks=1.0, depth=depth).cycles

    def dispatch_cycles(self, channel: DramChannel, row_bursts: Num) -> Array:
        """Cycles of the shared pins to ask for one row."""
        return np.asarray(self.instruction.instructions(row_bursts) / self.instruction.per_cycle)

    def partials(self, work: PooledLookups) -> Array:
        """Partial sums that a pooling leaves on the lanes: L (1 - (1 - 1/L)^p) for rows on L lanes by chance."""
        if self.page_colouring or self.lanes == 1:
            return np.ones(())
        return np.asarray(-self.lanes * np.expm1(work.pooling_factor * np.log1p(-1.0 / self.lanes)))

    # --- what all share -----------------------------------------------------------------------------------------

    def serve(
        self, work: PooledLookups, channel: DramChannel, *, hit_rate: HitRate = 0.0, cached_share: Num = 1.0
    ) -> NmpCost:
        """Time, counts and energy of `work` on a channel of the unit's ranks.

        A packet of P poolings ends when its busiest lane does; then the next begins. In clock cycles:

            packet = max(m (1 - h) c + m s t_cache, n d) + tRP + tRCD + tCL + add [+ multiply] + P b tBL

        n = P x pooling factor rows, m of them on the busiest lane, c cycles between rows of a lane, h hit rate, s share
        of rows that ask the cache (locality bit), d cycles to dispatch a row, b bursts of a sum (the pins carry either
        instructions or sums). With page colouring a table's poolings run on one lane while other tables use the others:
        no packet waits for another, m = n / lanes, and the lanes fill once.
        """
        t = channel.timing
        hits = self._hit_rate(hit_rate)
        share = np.maximum(cached_share, hits) if self.cache is not None else 0.0
        cycle = t.cycle
        packets = np.ceil(np.asarray(work.poolings) / self.packet)
        per_packet = work.lookups / packets
        row = self.lane_row_bytes(work)
        rows = per_packet / self.lanes * self.copies() if self.page_colouring else self.lane_rows(per_packet)
        dram = rows * (1.0 - hits) * self.lane_cycles(channel, row)
        cached = rows * share * (self.cache.cycles() if self.cache is not None else 0.0)
        dispatch = per_packet * self.dispatch_cycles(channel, channel.bursts(work.row_bytes))
        arithmetic = self.add_cycles + (self.multiply_cycles if work.weighted else 0.0)
        fill = t.tRP + t.tRCD + t.tCL + arithmetic
        fills = 1.0 if self.page_colouring else packets
        output = work.poolings * channel.bursts(work.sum_bytes) * t.tBL
        parts: dict[str, Num] = {
            "dram": packets * dram * cycle,
            "cache": packets * cached * cycle,
            "dispatch": packets * np.maximum(dispatch - dram - cached, 0.0) * cycle,
            "fill": fills * fill * cycle,
            "output": output * cycle,
        }
        counts = self.counts(work, channel, hits=work.lookups * hits, asked=work.lookups * share)
        return NmpCost(Breakdown(parts), counts, self.energy(counts, channel))

    def counts(
        self,
        work: PooledLookups,
        channel: DramChannel,
        *,
        hits: Num = 0.0,
        asked: Num | None = None,
        partials: Num | None = None,
    ) -> NmpCounts:
        """What is moved and computed when `hits` of the lookups hit and `asked` ask the cache; `partials` partial sums
        are left in all (expected ones if not given), and all but one of a pooling are added up."""
        left = self.partials(work) * work.poolings if partials is None else partials
        misses = work.lookups - hits
        bursts = channel.bursts(self.lane_row_bytes(work)) * self.copies()
        instructions = work.lookups * self.instruction.instructions(channel.bursts(work.row_bytes))
        return NmpCounts(
            instructions=instructions,
            instruction_bytes=instructions * self.instruction.bits / 8.0,
            activates=misses * self.copies(),
            dram_bytes=misses * bursts * channel.burst_bytes,
            cache_accesses=0.0 if self.cache is None else (work.lookups if asked is None else asked),
            cache_hits=hits,
            adds=work.lookups * work.adds_per_row + (left - work.poolings) * work.elements,
            multiplies=work.lookups * work.multiplies_per_row,
            output_bytes=work.poolings * channel.bursts(work.sum_bytes) * channel.burst_bytes,
        )

    def energy(self, counts: NmpCounts, channel: DramChannel) -> dict[str, Num]:
        """Joules by part: activates, reads inside the chips, wires (instructions and sums), cache, arithmetic; empty
        when the channel's file gives no energies."""
        cost = channel.energy
        if cost is None:
            return {}
        return {
            "activate": counts.activates * cost.activate,
            "read": counts.dram_bytes * cost.read,
            "instructions": counts.instruction_bytes * cost.io,
            "output": counts.output_bytes * cost.io,
            "cache": counts.cache_accesses * (0.0 if self.cache is None else self.cache.access_energy),
            "arithmetic": counts.adds * self.add_energy + counts.multiplies * self.multiply_energy,
        }

    def _hit_rate(self, hit_rate: HitRate) -> Array:
        if self.cache is None:
            return np.zeros(())
        rate = hit_rate(self.cache.capacity) if callable(hit_rate) else hit_rate
        return np.clip(np.asarray(rate, dtype=np.float64), 0.0, 1.0)


NMP: Family[NmpUnit] = Family("nmp")


def host_time(work: PooledLookups, channel: DramChannel) -> Array:
    """Seconds that the lookups take when the host reads every row over the channel: lookups x c of `gather_bound`."""
    return np.asarray(work.lookups * gather_bound(channel, work.row_bytes).cycles * channel.timing.cycle)


def host_energy(work: PooledLookups, channel: DramChannel) -> dict[str, Num]:
    """Joules by part when the host reads every row: activates, reads inside the chips, wires."""
    cost = channel.energy
    if cost is None:
        return {}
    moved = work.lookups * channel.bursts(work.row_bytes) * channel.burst_bytes
    return {"activate": work.lookups * cost.activate, "read": moved * cost.read, "io": moved * cost.io}
