"""Endpoints: what drives a device's network links, how fast it can, and what it takes from compute while it does.

A collective asks for `Moves`. An endpoint answers with the seconds that each of its resources needs (they work at the
same time, so the longest counts), and with what it takes of the device: cores, and bytes of memory traffic. All laws
broadcast over fields and amounts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.components.device import Device
from archmodel.components.gpu import Gpu
from archmodel.errors import ArchmodelError
from archmodel.quantities import (
    Num,
    PositiveBytes,
    Watts,
)


@dataclass(frozen=True, slots=True)
class Moves:
    """What one collective asks of one rank's endpoint, in bytes, and how long a chunk takes through all of it.

    `sent`: on links. `reads`, `writes`, `reduced`: driven in memory; `engine_reads`, `engine_writes`: driven from
    memory of the engine's own (`archmodel.collectives.endpoint_traffic`). `buffer`: bytes that go through. A chunk of
    c bytes leaves after `path_latency` + c `path_seconds_per_byte` when it is alone.
    """

    sent: Num
    reads: Num
    writes: Num
    reduced: Num
    engine_reads: Num
    engine_writes: Num
    buffer: Num
    path_latency: Num = 0.0
    path_seconds_per_byte: Num = 0.0


class Endpoint(Component):
    """The contract of every kind. `occupies_compute`: whether kernels stand still while it works."""

    chunk: PositiveBytes | None = Field(
        default=None,
        description="bytes that move through the phases of a collective together; absent: a byte at a time",
    )
    area_mm2: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="silicon area in mm2")
    power: Watts | None = Field(default=None, description="drawn while it works")

    @property
    def occupies_compute(self) -> bool:
        return False

    @property
    def cores_taken(self) -> int:
        """Cores (SMs) of the device that do nothing else while it works."""
        return 0

    @property
    def reserved(self) -> bool:
        """Whether compute goes without what it takes even while nothing is sent."""
        return False

    @property
    def memory_share(self) -> Num | None:
        """B/s of memory that are its own; None: it competes for memory with kernels, each by what it asks."""
        return 0.0

    @abstractmethod
    def memory_bytes(self, moves: Moves) -> Num:
        """Bytes of memory bandwidth that `moves` take."""

    @abstractmethod
    def limits(self, moves: Moves, device: Device) -> dict[str, Num]:
        """Seconds that each resource needs for `moves`, by name; nothing where it never limits."""


ENDPOINTS: Family[Endpoint] = Family(
    "endpoint", dict.fromkeys(("ideal", "no_overlap", "sm_driven", "ace"), "archmodel.components.endpoints")
)
_NEVER = 1e9
"""Times faster: as good as never limiting, and still a number."""
_LEAST = 0.01
"""Share of memory bandwidth that compute keeps whatever is taken."""


def cores_of(device: Device) -> int:
    """Cores (SMs) of a device. Raises ArchmodelError for a kind that has none stated."""
    if isinstance(device, Gpu):
        return device.sm_count
    raise ArchmodelError(f"{device.name or 'the device'} has no sm_count; kernels that drive a network need a gpu")


def clock(device: Device) -> Num:
    """Hz of those cores."""
    if isinstance(device, Gpu):
        return np.asarray(device.clock)
    raise ArchmodelError(f"{device.name or 'the device'} has no clock; kernels that drive a network need a gpu")


def compute_alone(device: Device) -> Device:
    """The device with memory so fast that it never limits."""
    return _with_memory(device, _NEVER)


def left_for_compute(device: Device, cores: int, bandwidth: Num) -> Device:
    """The device without `cores` of its cores and `bandwidth` B/s of its memory (a hundredth of each stays at least).

    Peak rates fall as the cores do. Raises ArchmodelError when it has no cores to take.
    """
    left = _with_memory(device, np.maximum(1.0 - np.asarray(bandwidth) / device.memory.bandwidth, _LEAST))
    if not cores:
        return left
    kept = max(cores_of(device) - cores, 1)
    assert isinstance(device, Gpu)
    peaks = {name: rate * kept / device.sm_count for name, rate in device.peaks.items()}
    return left.model_copy(update={"sm_count": kept, "peaks": peaks})


def _with_memory(device: Device, times: Num) -> Device:
    """The device with `times` the bandwidth of its memory."""
    from archmodel.components.cpu import Cpu

    if isinstance(device, Cpu) and device.ddr is not None:
        channels = device.ddr.model_copy(update={"transfer_rate": device.ddr.transfer_rate * times})
        return device.model_copy(update={"ddr": channels})
    memory = device.memory
    for name in device.__class__.model_fields:
        if getattr(device, name) is memory:
            rates = {"bandwidth": memory.bandwidth * times}
            if memory.write_bandwidth is not None:
                rates["write_bandwidth"] = memory.write_bandwidth * times
            return device.model_copy(update={name: memory.model_copy(update=rates)})
    raise ArchmodelError(f"{device.name or 'the device'} keeps its memory in no field of its own")
