"""Endpoints: what drives a device's network links, how fast it can, and what it takes from compute while it does.

A collective asks for `Moves`. An endpoint answers with the seconds that each of its resources needs (they work at the
same time, so the longest counts), and with what it takes of the device: cores, and bytes of memory traffic. All laws
broadcast over fields and amounts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.components.cpu import Cpu
from archmodel.components.device import Device
from archmodel.components.gpu import Gpu
from archmodel.errors import ArchmodelError
from archmodel.quantities import (
    Count,
    Num,
    PositiveBandwidth,
    PositiveBytes,
    PositiveHertz,
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


ENDPOINTS: Family[Endpoint] = Family("endpoint")
_NEVER = 1e9
"""Times faster: as good as never limiting, and still a number."""
_LEAST = 0.01
"""Share of memory bandwidth that compute keeps whatever is taken."""


@ENDPOINTS.register
class Ideal(Endpoint):
    """Keeps up with any network and takes nothing from compute: the bound that others are measured against."""

    kind: Literal["ideal"] = "ideal"

    def memory_bytes(self, moves: Moves) -> Num:
        return 0.0 * np.asarray(moves.buffer)

    def limits(self, moves: Moves, device: Device) -> dict[str, Num]:
        return {}


class Kernels(Endpoint):
    """Collectives as kernels on the device's own cores, which copy and reduce in the device's memory."""

    copy_width: PositiveBytes = Field(description="bytes of memory traffic that one core drives per cycle")
    bus_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="between memory and network interface, per direction; absent: no bound"
    )
    counts: Literal["reads", "reads_and_writes"] = Field(
        default="reads_and_writes", description="what of its memory traffic takes bandwidth"
    )

    def memory_bytes(self, moves: Moves) -> Num:
        return moves.reads if self.counts == "reads" else moves.reads + moves.writes

    def _through(self, moves: Moves, device: Device, cores: int, bandwidth: Num) -> dict[str, Num]:
        """seconds = bytes / bandwidth of memory; bytes / (cores x clock x width); sent / bus."""
        bytes_ = self.memory_bytes(moves)
        copying = cores * clock(device) * np.asarray(self.copy_width)
        bus = {} if self.bus_bandwidth is None else {"bus": moves.sent / np.asarray(self.bus_bandwidth)}
        return {"memory": bytes_ / np.asarray(bandwidth), "cores": bytes_ / copying, **bus}


@ENDPOINTS.register
class NoOverlap(Kernels):
    """Kernels that have the whole device, in turn with compute: nothing overlaps, nothing is shared."""

    kind: Literal["no_overlap"] = "no_overlap"

    @property
    def occupies_compute(self) -> bool:
        return True

    def limits(self, moves: Moves, device: Device) -> dict[str, Num]:
        return self._through(moves, device, cores_of(device), device.memory.bandwidth)


@ENDPOINTS.register
class SmDriven(Kernels):
    """Kernels on a fixed number of cores beside compute: `communication-optimised` and `compute-optimised` machines
    differ in how many, and in how much memory bandwidth those get."""

    kind: Literal["sm_driven"] = "sm_driven"
    sms: Count = Field(description="cores that collectives run on")
    memory_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="of memory, that collectives get; absent: they compete for it with compute"
    )
    always: bool = Field(
        default=False, description="true: compute goes without these cores and bandwidth also while nothing is sent"
    )

    @property
    def cores_taken(self) -> int:
        return self.sms

    @property
    def reserved(self) -> bool:
        return self.always

    @property
    def memory_share(self) -> Num | None:
        return self.memory_bandwidth

    def limits(self, moves: Moves, device: Device) -> dict[str, Num]:
        whole = device.memory.bandwidth
        share = whole if self.memory_bandwidth is None else np.minimum(self.memory_bandwidth, whole)
        return self._through(moves, device, min(self.sms, cores_of(device)), share)


@ENDPOINTS.register
class Ace(Endpoint):
    """An engine beside the network interface with memory of its own: it reads each byte of a buffer once by DMA, takes
    it through all phases of the collective chunk by chunk, and writes each byte of the result once. After ACE (Rashidi
    et al., ISCA 2021): SRAM for chunks in flight, state machines that each lead one chunk, ALUs that reduce.

        in flight = min(state machines, SRAM / bytes of a chunk in flight)
        rate of chunks = in flight / time of one chunk through all phases     (Little's law)
    """

    kind: Literal["ace"] = "ace"
    chunk: PositiveBytes = Field(description="bytes that move through the phases of a collective together")
    sram: PositiveBytes = Field(description="memory for chunks in flight")
    sram_per_chunk: float = Field(
        default=2.0,
        gt=0,
        allow_inf_nan=False,
        description="SRAM that a chunk in flight holds, in chunks: it and what arrives",
    )
    state_machines: Count = Field(description="that each lead one chunk through its phases")
    alus: Count = Field(description="reduction units")
    alu_width: PositiveBytes = Field(description="bytes of results of one reduction unit per cycle")
    clock: PositiveHertz = Field(description="of the engine")
    dma_bandwidth: PositiveBandwidth = Field(description="between device memory and SRAM, per direction")
    memory_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="of device memory, that DMA may take; absent: what DMA takes at its full rate"
    )
    counts: Literal["reads", "reads_and_writes"] = Field(
        default="reads_and_writes", description="what of its memory traffic takes bandwidth"
    )
    always: bool = Field(
        default=False, description="true: compute goes without this bandwidth even when nothing is sent"
    )

    @property
    def reserved(self) -> bool:
        return self.always

    @property
    def memory_share(self) -> Num | None:
        if self.memory_bandwidth is not None:
            return self.memory_bandwidth
        return self.dma_bandwidth * (1.0 if self.counts == "reads" else 2.0)

    @property
    def in_flight(self) -> Num:
        """Chunks at once; below one where the SRAM holds less than a chunk, which then goes through in pieces."""
        held = np.floor(np.asarray(self.sram) / (np.asarray(self.chunk) * self.sram_per_chunk))
        fraction = np.asarray(self.sram) / (np.asarray(self.chunk) * self.sram_per_chunk)
        return np.minimum(float(self.state_machines), np.where(held >= 1.0, held, fraction))

    @property
    def reduce_bandwidth(self) -> Num:
        """B/s of sums: units x width x clock."""
        return self.alus * np.asarray(self.alu_width) * self.clock

    def memory_bytes(self, moves: Moves) -> Num:
        return moves.engine_reads if self.counts == "reads" else moves.engine_reads + moves.engine_writes

    def limits(self, moves: Moves, device: Device) -> dict[str, Num]:
        chunk = np.asarray(self.chunk)
        alone = moves.path_latency + np.minimum(chunk, moves.buffer) * moves.path_seconds_per_byte
        found = {
            "dma": np.maximum(moves.engine_reads, moves.engine_writes) / np.asarray(self.dma_bandwidth),
            "alu": moves.reduced / self.reduce_bandwidth,
            "in_flight": np.maximum(moves.buffer / (chunk * self.in_flight) - 1.0, 0.0) * alone,
        }
        if self.memory_bandwidth is not None:
            found["memory"] = self.memory_bytes(moves) / np.asarray(self.memory_bandwidth)
        return found


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
