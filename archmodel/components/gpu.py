"""GPUs: peaks, HBM, L2 cache, launch overhead, and the constants of its kernels."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components import kernels
from archmodel.components.base import Component
from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.components.device import DEVICES, Device
from archmodel.quantities import (
    Bytes,
    Count,
    Num,
    PositiveBytes,
    PositiveFraction,
    PositiveHertz,
    Seconds,
    itemsize,
)


class Launch(Component):
    """Time that a kernel adds beside its work."""

    eager: Seconds = Field(description="per kernel launched one by one by a framework")
    graph: Seconds = Field(description="per kernel of a captured graph")


class KernelConstants(Component):
    """Achieved shares of peak HBM bandwidth, and what a sort moves."""

    stream: PositiveFraction = Field(description="elementwise kernels, copies, reductions")
    gather: PositiveFraction = Field(description="fused pooled lookups")
    update: PositiveFraction = Field(description="read-modify-write of distinct rows and optimizer state")
    sort_bytes_per_index: Bytes = Field(description="HBM traffic of sorting one key-value pair")


@DEVICES.register
class Gpu(Device):
    """A GPU."""

    kind: Literal["gpu"] = "gpu"
    sm_count: Count = Field(description="streaming multiprocessors")
    clock: PositiveHertz = Field(description="clock under load")
    l2_capacity: PositiveBytes = Field(description="L2 cache")
    launch: Launch
    kernels: KernelConstants

    def launch_overhead(self, graph: bool) -> Num:
        return self.launch.graph if graph else self.launch.eager

    def gemm(self, m: Num, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        size = itemsize(dtype)
        compute = 2.0 * m * n * k * batch / (self.peak(dtype) * 0.75)
        memory = (m * k + k * n + m * n) * size * batch / (self.hbm.bandwidth * 0.85)
        return overlapped(
            {"compute": np.asarray(compute), "memory": np.asarray(memory)},
            {"launch": self.launch_overhead(graph)},
        )

    def stream(self, bytes_: Num, flops: Num = 0.0, dtype: str = "fp32", *, graph: bool = True) -> Breakdown:
        vector = self.peaks.get("fp32", self.peak(dtype))
        work = kernels.streaming(bytes_, flops, self.hbm.bandwidth * self.kernels.stream, vector)
        return Breakdown({"launch": self.launch_overhead(graph)}) + work

    def gather(self, demanded_bytes: Num, unique_bytes: Num, streamed_bytes: Num, *, graph: bool = True) -> Breakdown:
        bandwidth = self.hbm.bandwidth
        work = kernels.pooled_lookup(
            demanded_bytes,
            unique_bytes,
            streamed_bytes,
            cache=self.l2_capacity,
            gather_bandwidth=bandwidth * self.kernels.gather,
            stream_bandwidth=bandwidth * self.kernels.stream,
        )
        return Breakdown({"launch": self.launch_overhead(graph)}) + work

    def exact_update(
        self,
        indices: Num,
        gradient_bytes: Num,
        gradient_unique_bytes: Num,
        row_bytes: Num,
        streamed_bytes: Num,
        *,
        graph: bool = True,
    ) -> Breakdown:
        bandwidth = self.hbm.bandwidth
        work = kernels.exact_update(
            indices,
            gradient_bytes,
            gradient_unique_bytes,
            row_bytes,
            streamed_bytes,
            cache=self.l2_capacity,
            sort_bytes_per_index=self.kernels.sort_bytes_per_index,
            gather_bandwidth=bandwidth * self.kernels.gather,
            update_bandwidth=bandwidth * self.kernels.update,
            stream_bandwidth=bandwidth * self.kernels.stream,
        )
        return Breakdown({"launch": UPDATE_KERNELS * self.launch_overhead(graph)}) + work


UPDATE_KERNELS = 8
"""Kernels of an exact update: linearise, radix sort (histogram, scan, passes), run-length encode, segment sum, step."""
