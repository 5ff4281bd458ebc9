"""CPUs: peaks from cores, SIMD units and clock; bandwidth from DDR channels; a roofline with achieved shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from archmodel.components.base import Component
from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.components.device import DEVICES
from archmodel.components.kernels import gram_matrix, matrix_product, waiting
from archmodel.components.processor import Processor
from archmodel.errors import ArchmodelError
from archmodel.memory.tier import MemoryTier
from archmodel.quantities import (
    DTYPES,
    Count,
    Dtype,
    JoulesPerByte,
    Num,
    PositiveBandwidth,
    PositiveBytes,
    PositiveFraction,
    PositiveHertz,
    PositiveRatio,
    Quantity,
    Seconds,
    Usd,
    itemsize,
)

TransferRate = Annotated[Num, Quantity("transfer_rate", positive=True)]
SIMD_TYPES: tuple[Dtype, ...] = ("fp64", "fp32")
"""What the vector units of every modelled CPU multiply and add; other types come from `operations_per_cycle`."""


class DdrChannels(Component):
    """The memory channels of one processor."""

    channels: Count = Field(description="channels with memory in them")
    transfer_rate: TransferRate = Field(description="transfers per second of one channel")
    transfer_bytes: PositiveBytes = Field(default=8.0, description="data bytes of one transfer (64-bit channel, JEDEC)")
    capacity: PositiveBytes = Field(description="bytes of all channels together")
    latency: Seconds = Field(default=0.0, description="of one access, as a dependent load sees it")
    line: PositiveBytes = Field(default=64.0, description="smallest access: a cache line")
    energy_per_byte: JoulesPerByte | None = Field(default=None, description="energy of an access")
    price: Usd | None = Field(default=None, description="price of the modules")

    @property
    def bandwidth(self) -> Num:
        """Peak B/s of all channels:

            bandwidth = channels x transfer rate x bytes per transfer

        for reads and writes together.
        """
        return self.channels * self.transfer_rate * self.transfer_bytes


@DEVICES.register
class Cpu(Processor):
    """One processor (socket): a node's host, or its training device (`node.accelerator: {kind: cpu, ...}`)."""

    kind: Literal["cpu"] = "cpu"
    cores: Count = Field(description="physical cores")
    simd_width: Count = Field(multiple_of=64, description="bits of a vector register: 128, 256 (AVX2), 512 (AVX-512)")
    fma_units: Count = Field(description="fused multiply-add units of that width in a core")
    frequency: PositiveHertz = Field(description="clock of all cores under vector load")
    operations_per_cycle: dict[Dtype, PositiveRatio] = Field(
        default_factory=dict,
        description="operations per cycle and core of matrix units and dot-product instructions, by element type",
    )
    gemm_efficiency: PositiveFraction = Field(description="achieved share of peak in large matrix products")
    l1: PositiveBytes = Field(description="first-level data cache of a core")
    l2: PositiveBytes = Field(description="second-level cache of a core")
    llc: PositiveBytes = Field(description="last-level cache of the processor")
    llc_inclusive: bool = Field(default=False, description="whether the last level also holds what the second holds")
    llc_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="achieved rate of hits in the last-level cache; no bound if left out"
    )
    outstanding_misses: Count | None = Field(
        default=None, description="cache lines that a core can wait for at once; no bound if left out"
    )
    ddr: DdrChannels | None = Field(default=None, description="its memory channels; a training device needs them")

    @property
    def memory(self) -> MemoryTier:
        ddr = self.ddr
        if ddr is None:
            raise ArchmodelError(f"{self.name or 'the CPU'} states no ddr, so nothing can run out of its memory")
        return MemoryTier.model_construct(
            capacity=ddr.capacity,
            bandwidth=ddr.bandwidth,
            latency=ddr.latency,
            access_granularity=ddr.line,
            energy_per_byte=ddr.energy_per_byte,
            price=ddr.price,
        )

    @property
    def cache_capacity(self) -> Num:
        """The last level, and the second levels beside it unless it repeats what they hold."""
        beside: Num = 0.0 if self.llc_inclusive else self.cores * np.asarray(self.l2)
        return self.llc + beside

    @property
    def cache_bandwidth(self) -> Num:
        return np.inf if self.llc_bandwidth is None else self.llc_bandwidth

    @property
    def gather_bandwidth(self) -> Num:
        """B/s of scattered lines, at most what the misses in flight allow (Little's law):

            rate = min(share x bandwidth, cores x misses x line / latency)

        with every core waiting for as many lines as it can.
        """
        achieved = super().gather_bandwidth
        if self.outstanding_misses is None or self.ddr is None:
            return achieved
        in_flight: Num = self.cores * self.outstanding_misses * self.ddr.line
        with np.errstate(divide="ignore"):
            allowed: Num = np.divide(in_flight, self.ddr.latency)
        return np.minimum(achieved, allowed)

    def rates(self) -> Mapping[Dtype, Num]:
        """Peak FLOP/s by element type; a multiply-add counts as two:

            peak = cores x frequency x units x 2 x (register bits / element bits)     (vector units)
            peak = cores x frequency x operations per cycle                           (matrix units)

        Reduced precision without an instruction of its own is no element type of the CPU.
        """
        per_second = self.cores * np.asarray(self.frequency)
        vector: dict[Dtype, Num] = {
            t: per_second * self.fma_units * 2.0 * self.simd_width / (8 * DTYPES[t]) for t in SIMD_TYPES
        }
        return {**vector, **{t: per_second * count for t, count in self.operations_per_cycle.items()}}

    def gemm(self, m: Num, n: Num, k: Num, dtype: str = "fp32", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        """C[m, n] = A[m, k] B[k, n], `batch` times: a roofline over all cores.

            t = launch + latency + max(2 m n k batch / (share x peak), bytes / (share x bandwidth))

        with all cores at work on every product.
        """
        return self._product(*matrix_product(m, n, k, batch, itemsize(dtype)), dtype, graph)

    def gram(self, n: Num, k: Num, dtype: str = "fp32", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        """As `gemm`, with the bytes of X once."""
        return self._product(*gram_matrix(n, k, batch, itemsize(dtype)), dtype, graph)

    def _product(self, flops: Num, bytes_: Num, dtype: str, graph: bool) -> Breakdown:
        memory = self.memory
        work = overlapped(
            {
                "compute": np.asarray(flops / (self.peak(dtype) * self.gemm_efficiency)),
                "memory": np.asarray(bytes_ / (memory.bandwidth * self.kernels.stream)),
            },
            {"latency": waiting(bytes_, memory.latency)},
        )
        return self.launched(work, graph)
