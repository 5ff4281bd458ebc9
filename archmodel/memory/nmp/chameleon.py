"""A programmable unit per DIMM, in its data buffers (like Chameleon, MICRO 2016)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.gathers import gather_bound
from archmodel.memory.nmp.unit import NMP, NmpUnit
from archmodel.quantities import Array, Num


@NMP.register
class DimmNmp(NmpUnit):
    """The ranks of a DIMM share one unit and one bus to it, and the host sends every DRAM command by itself."""

    kind: Literal["dimm_nmp"] = "dimm_nmp"

    @property
    def lanes(self) -> int:
        return self.dimms

    def lane_cycles(self, channel: DramChannel, row_bytes: Num) -> Array:
        depth = self.registers * channel.bursts(row_bytes)
        return gather_bound(channel, row_bytes, ranks=float(self.ranks_per_dimm), depth=depth).cycles

    def dispatch_cycles(self, channel: DramChannel, row_bursts: Num) -> Array:
        """Cycles of the command bus: precharge, activate and a read per burst."""
        return np.asarray((2.0 + np.asarray(row_bursts)) * channel.command_cycles)
