"""One level of memory."""

from __future__ import annotations

from pydantic import Field

from archmodel.components.base import Component
from archmodel.quantities import Bytes, JoulesPerByte, PositiveBandwidth, PositiveBytes, Seconds, Usd


class MemoryTier(Component):
    """Capacity and speed of a memory: HBM of one device, or the DDR of a whole host."""

    capacity: PositiveBytes = Field(description="bytes that it holds")
    bandwidth: PositiveBandwidth = Field(description="peak read bandwidth")
    write_bandwidth: PositiveBandwidth | None = Field(default=None, description="peak write bandwidth, if it differs")
    latency: Seconds = Field(default=0.0, description="of one access")
    access_granularity: Bytes = Field(default=32.0, description="smallest access")
    energy_per_byte: JoulesPerByte | None = Field(default=None, description="energy of an access")
    price: Usd | None = Field(default=None, description="price of the whole memory")
