# ruff: noqa: N815  (JEDEC's names)
"""A DDR channel: timing, organisation and energy as data."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.quantities import (
    Count,
    Joules,
    JoulesPerByte,
    Num,
    PositiveBytes,
    PositiveHertz,
    PositiveRatio,
    Ratio,
    Usd,
    Watts,
)  # fmt: skip

Page = Literal["open", "closed"]


class DramTiming(Component):
    """Clock and JEDEC timing parameters, in cycles of that clock (half the transfer rate)."""

    clock: PositiveHertz = Field(description="clock of the command bus; two transfers a cycle")
    tRC: PositiveRatio = Field(description="cycles between two activates of a bank")
    tRCD: PositiveRatio = Field(description="cycles from an activate to a read")
    tCL: PositiveRatio = Field(description="cycles from a read to its data")
    tRP: PositiveRatio = Field(description="cycles from a precharge to an activate")
    tBL: PositiveRatio = Field(description="cycles that a burst holds the data bus")
    tCCD_S: PositiveRatio = Field(description="cycles between reads of different bank groups")
    tCCD_L: PositiveRatio = Field(description="cycles between reads of one bank group")
    tRRD_S: PositiveRatio = Field(description="cycles between activates of different bank groups")
    tRRD_L: PositiveRatio = Field(description="cycles between activates of one bank group")
    tFAW: PositiveRatio = Field(description="cycles in which a rank takes at most four activates")
    tRTP: PositiveRatio = Field(description="cycles from a read to a precharge")
    tRTRS: Ratio = Field(description="idle cycles of the data bus when it changes rank")
    tRFC: Ratio = Field(description="cycles that a refresh of a rank takes")
    tREFI: PositiveRatio = Field(description="cycles between refreshes of a rank")

    @property
    def cycle(self) -> Num:
        """Seconds of a clock cycle."""
        return 1.0 / self.clock

    @property
    def refresh_share(self) -> Num:
        """Share of the time in which a rank refreshes: tRFC / tREFI."""
        return self.tRFC / self.tREFI


class DramEnergy(Component):
    """Energy of the operations of a DRAM rank and of the channel's wires."""

    activate: Joules = Field(description="of an activate and precharge of a row of a rank")
    read: JoulesPerByte = Field(description="of reading or writing inside the chips, per byte")
    io: JoulesPerByte = Field(description="of moving a byte over the channel to the host")
    idle_power: Watts = Field(default=0.0, description="of a rank that does nothing")


class Reordering(Component):
    """How far first-ready scheduling hides rank and bank-group changes; fitted on the event-driven simulator."""

    same_rank: PositiveRatio = Field(default=0.5, description="of k waiting vectors, the share that is ready to read")
    other_group: PositiveRatio = Field(default=0.2, description="the same for reads of another bank group of a rank")
    spread: Ratio = Field(default=0.75, description="exponent by which ranks thin those out")
    sharpness: PositiveRatio = Field(default=7.0, description="exponent of the norm for the largest of several bounds")
    crowding: Ratio = Field(default=0.27, description="wait for the data bus, of that of arrivals by chance twice")
    stuck: Ratio = Field(default=1.8, description="deviation of vectors that wait for banks, of that of single ones")


class DramChannel(Component):
    """One channel with its ranks, as a controller with one queue sees it."""

    kind: Literal["ddr"] = "ddr"
    timing: DramTiming = Field(description="clock and timing parameters")
    ranks: Count = Field(default=1, description="ranks on the channel")
    bank_groups: Count = Field(description="bank groups of a rank")
    banks_per_group: Count = Field(description="banks of a bank group")
    rows: Count = Field(description="rows of a bank")
    row_bytes: PositiveBytes = Field(description="bytes of a row of a rank, over all its chips")
    burst_bytes: PositiveBytes = Field(default=64.0, description="bytes that one burst moves")
    command_cycles: PositiveRatio = Field(default=1.0, description="cycles that one command holds the command bus")
    page: Page = Field(default="open", description="whether a row stays open after a read")
    queue: Count = Field(default=32, description="bursts that the controller chooses from")
    reordering: Reordering = Field(
        default_factory=lambda: Reordering(), description="what choosing among waiting reads saves"
    )
    energy: DramEnergy | None = Field(default=None, description="energy of its operations")
    price: Usd | None = Field(default=None, description="price of all its ranks")

    @property
    def banks(self) -> int:
        """Banks of a rank."""
        return self.bank_groups * self.banks_per_group

    @property
    def peak_bandwidth(self) -> Num:
        """B/s of back-to-back bursts: burst bytes / (tBL cycle)."""
        return self.burst_bytes / (self.timing.tBL * self.timing.cycle)

    @property
    def capacity(self) -> Num:
        """Bytes of all ranks."""
        return self.ranks * self.banks * self.rows * self.row_bytes

    def bursts(self, vector_bytes: Num) -> Num:
        """Bursts of an aligned vector: ceil(bytes / burst bytes)."""
        return np.ceil(np.asarray(vector_bytes) / self.burst_bytes)


DRAM: Family[DramChannel] = Family("dram")
DRAM.register(DramChannel)
