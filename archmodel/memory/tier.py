"""One level of memory."""

from __future__ import annotations

from pydantic import Field

from archmodel.components.base import Component
from archmodel.quantities import JoulesPerByte, Num, PositiveBandwidth, PositiveBytes, Seconds, Usd


class MemoryTier(Component):
    """Capacity and speed of a memory: HBM of one device, or the DDR of a whole host."""

    capacity: PositiveBytes = Field(description="bytes that it holds")
    bandwidth: PositiveBandwidth = Field(
        description="peak bandwidth of reads, and of reads and writes together unless write_bandwidth says otherwise"
    )
    write_bandwidth: PositiveBandwidth | None = Field(default=None, description="peak write bandwidth, if it differs")
    latency: Seconds = Field(default=0.0, description="of one access, as a dependent load sees it")
    access_granularity: PositiveBytes = Field(default=32.0, description="smallest access (sector or line)")
    energy_per_byte: JoulesPerByte | None = Field(default=None, description="energy of an access")
    price: Usd | None = Field(default=None, description="price of the whole memory")

    @property
    def update_bandwidth(self) -> Num:
        """B/s when every byte is read and written back, both directions counted:

            2 / (1 / read + 1 / write)

        which is `bandwidth` where reads and writes run at the same rate.
        """
        if self.write_bandwidth is None:
            return self.bandwidth
        return 2.0 / (1.0 / self.bandwidth + 1.0 / self.write_bandwidth)
