"""Instructions of near-memory units against the pins that carry them."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from archmodel.components.base import Component
from archmodel.memory.dram.channel import DramChannel
from archmodel.quantities import Array, Count, Num


class NmpInstruction(Component):
    """One instruction that reads a whole row, and the pins that it travels on."""

    fields: dict[str, Count] = Field(description="bits of each field")
    pins: Count = Field(description="command, address and data pins that carry instructions")
    transfers_per_cycle: Count = Field(default=2, description="transfers of those pins in a clock cycle")

    @property
    def bits(self) -> int:
        """Bits of an instruction."""
        return sum(self.fields.values())

    @property
    def tags(self) -> int:
        """Sums that can be open at the same time, 2^bits of `psum_tag`; 1 without that field."""
        return int(2 ** self.fields.get("psum_tag", 0))

    @property
    def largest_row_bursts(self) -> int:
        """Bursts of the largest row that one instruction reads, 2^bits of `vsize`."""
        return int(2 ** self.fields.get("vsize", 0))

    @property
    def per_cycle(self) -> float:
        """Instructions that the pins deliver in a cycle: transfers / ceil(bits / pins)."""
        return float(self.transfers_per_cycle / np.ceil(self.bits / self.pins))

    def instructions(self, row_bursts: Num) -> Array:
        """Instructions that read a row: ceil(bursts / largest)."""
        return np.asarray(np.ceil(np.asarray(row_bursts) / self.largest_row_bursts))


def command_share(channel: DramChannel, row_bursts: Num = 1.0, closing: Num = 1.0) -> Array:
    """Share of a shared command bus that plain commands of random rows take while data flow without a gap:

    (precharge + activate + reads) command_cycles / (reads tBL)
    """
    reads = np.asarray(row_bursts, dtype=np.float64)
    return np.asarray((closing + 1.0 + reads) * channel.command_cycles / (reads * channel.timing.tBL))


def ranks_fed(channel: DramChannel, instruction: NmpInstruction, row_bursts: Num = 1.0) -> Array:
    """Ranks that the pins keep busy, each reading without a gap: per_cycle x reads tBL / instructions of a row."""
    reads = np.asarray(row_bursts, dtype=np.float64)
    return np.asarray(instruction.per_cycle * reads * channel.timing.tBL / instruction.instructions(reads))
