"""Kinds of endpoints: ideal, driven by the device's own cores, and ACE."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components.device import Device
from archmodel.components.endpoint import ENDPOINTS, Endpoint, Moves, clock, cores_of
from archmodel.quantities import (
    Count,
    Num,
    PositiveBandwidth,
    PositiveBytes,
    PositiveHertz,
)


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
