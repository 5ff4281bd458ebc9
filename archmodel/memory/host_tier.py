"""A level of memory as a node has it: one memory or several equal ones, shared by the devices of the node."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from archmodel.components.base import Component
from archmodel.memory.tier import MEMORIES, MemoryTier
from archmodel.quantities import Array, Count, Num


class HostTier(Component):
    """`count` equal memories or drives of one node. Data lies spread over all, so requests go to each alike."""

    memory: Annotated[MemoryTier, MEMORIES.field(default="memory")] = Field(description="one of them")
    count: Count = Field(default=1, description="how many a node has")
    channels_of: str | None = Field(
        default=None, description="memory of the node whose channels these are on too, as persistent memory beside ddr"
    )

    @property
    def capacity(self) -> Num:
        """Bytes of all together."""
        return self.count * np.asarray(self.memory.capacity)

    @property
    def bandwidth(self) -> Num:
        """B/s of reads that all together never exceed."""
        return self.count * np.asarray(self.memory.peak_read_bandwidth)

    def read_time(self, bytes_: Num, requests: Num) -> Num:
        """Seconds of `requests` random reads of `bytes_` together:

            t(n memories) = t_one(bytes x share, requests x share),   share = max(1 / n, min(1, 1 / requests))

        so a single request gains nothing from further memories.
        """
        share = self._share(requests)
        return self.memory.read_time(bytes_ * share, requests * share)

    def write_time(self, bytes_: Num, requests: Num) -> Num:
        """As `read_time`, of writes."""
        share = self._share(requests)
        return self.memory.write_time(bytes_ * share, requests * share)

    def sum_time(self, row_bytes: Num, rows: Num, sums: Num, sum_bytes: Num) -> Num:
        """Seconds of sums of rows beside the memories, which lie evenly over them."""
        return self.memory.sum_time(*(np.asarray(x) / self.count for x in (row_bytes, rows, sums, sum_bytes)))

    def channel_time(self, bytes_: Num, requests: Num, write: bool = False) -> Num:
        """Seconds that the channels of these memories carry what others on them are asked for, in their own granules g
        and at their own peak:

            t = requests x ceil(bytes / requests / g) x g / (n x peak bandwidth)
        """
        one = self.memory.peak_write_bandwidth if write else self.memory.peak_read_bandwidth
        return self.memory.moved_bytes(bytes_, requests) / (self.count * np.asarray(one))

    def moved_bytes(self, bytes_: Num, requests: Num) -> Num:
        """Bytes that the media move."""
        return self.memory.moved_bytes(bytes_, requests)

    def lifetime_days(self, write_bandwidth: Num) -> Num:
        """Days until the media are worn out when the node writes `write_bandwidth` B/s; infinite without a limit."""
        return self.memory.lifetime_days(np.asarray(write_bandwidth) / self.count)

    def _share(self, requests: Num) -> Array:
        """Of the requests, those of the busiest memory."""
        asked = np.asarray(requests, dtype=np.float64)
        alone = 1.0 / np.maximum(asked, 1.0)
        return np.asarray(np.maximum(1.0 / self.count, alone))


def contended(amount: Array, devices: int, every_rank: bool) -> Array:
    """What a memory that `devices` of a node share has served by the time that each has its own `amount`, shared fairly
    (processor sharing):

        served_r = sum_j min(amount_j, amount_r)     over the devices j of the node of r

    `amount` (ranks,), or (1,) of ranks that are alike. `every_rank` false: whatever its trailing axis counts, every
    device of the node asks for as much.
    """
    own = np.asarray(amount, dtype=np.float64)
    if not every_rank or own.shape[-1] == 1 or devices == 1:
        return own * devices
    node = own.reshape(*own.shape[:-1], -1, devices)
    served = np.minimum(node[..., :, None], node[..., None, :]).sum(-1)
    return np.asarray(served.reshape(own.shape))
