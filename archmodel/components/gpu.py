"""GPUs: peaks, HBM, L2 cache, launch overhead, and the constants of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components import gemm as law
from archmodel.components.base import Component
from archmodel.components.breakdown import Breakdown
from archmodel.components.device import DEVICES, sizes
from archmodel.components.processor import KernelConstants, Launch, Processor
from archmodel.memory.tier import MemoryTier
from archmodel.quantities import (
    Count,
    Dtype,
    Fraction,
    Num,
    PositiveBandwidth,
    PositiveBytes,
    PositiveFlopRate,
    PositiveFraction,
    PositiveHertz,
    PositiveRatio,
    Ratio,
    itemsize,
)

__all__ = ["GemmConstants", "Gpu", "GpuKernels", "KernelConstants", "Launch"]


class GemmConstants(Component):
    """Constants of the law of matrix products (`archmodel.components.gemm`), fitted to measured products."""

    peak_fraction: PositiveFraction = Field(description="of peak rate, that full tiles reach")
    read_fraction: PositiveFraction = Field(description="of memory bandwidth, that reading operands reaches")
    write_fraction: PositiveFraction = Field(description="of memory bandwidth, that writing results reaches")
    load_width: PositiveRatio = Field(description="bytes of operands that one SM loads per cycle")
    start_cycles: Ratio = Field(description="cycles of one kernel beside its launch")
    fill_cycles: Ratio = Field(description="cycles to fill the pipeline of the first tile of an SM")
    wave_cycles: Ratio = Field(description="cycles between tiles of an SM: draining one, filling the next")
    split_cycles: Ratio = Field(description="cycles that a split of k adds beside the traffic of its partial sums")
    tail: Fraction = Field(description="cost of a barely begun last wave: 1 a whole wave, 0 none")
    exposed: Fraction = Field(description="share that is not hidden of the shorter of compute and memory time")

    @property
    def of_law(self) -> law.Constants:
        return law.Constants(
            self.peak_fraction,
            self.read_fraction,
            self.write_fraction,
            self.load_width,
            self.start_cycles,
            self.fill_cycles,
            self.wave_cycles,
            self.split_cycles,
            self.tail,
            self.exposed,
        )


class GpuKernels(KernelConstants):
    """Constants of all kernels of a GPU."""

    gemm: GemmConstants = Field(description="matrix products")


@DEVICES.register
class Gpu(Processor):
    """A GPU."""

    kind: Literal["gpu"] = "gpu"
    peaks: dict[Dtype, PositiveFlopRate] = Field(
        description="peak rate of matrix products per precision, dense (no sparsity)"
    )
    sm_count: Count = Field(description="streaming multiprocessors")
    clock: PositiveHertz = Field(description="clock under load")
    l2_capacity: PositiveBytes = Field(description="L2 cache")
    l2_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="achieved rate of reads that hit the L2 cache; no bound if left out"
    )
    hbm: MemoryTier = Field(description="the device's own memory")
    kernels: GpuKernels = Field(description="constants of its kernels")

    @property
    def memory(self) -> MemoryTier:
        return self.hbm

    @property
    def cache_capacity(self) -> Num:
        return self.l2_capacity

    @property
    def cache_bandwidth(self) -> Num:
        return np.inf if self.l2_bandwidth is None else self.l2_bandwidth

    def rates(self) -> Mapping[Dtype, Num]:
        return self.peaks

    def chip(self, dtype: str) -> law.Chip:
        """What the law of matrix products needs to know of the datasheet, in a precision. Raises ArchmodelError."""
        return law.Chip(self.peak(dtype), self.hbm.bandwidth, self.clock, self.l2_capacity, self.sm_count)

    def gemm(
        self, m: Num, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0, warm: bool = False
    ) -> Breakdown:
        """C[m, n] = A[m, k] B[k, n], `batch` times in one kernel; `archmodel.components.gemm` has the law.

        A and B are read from memory, so no product is faster than all its bytes at peak bandwidth. With `warm` they
        are in the L2 as far as they fit, as in a benchmark that repeats one product.
        """
        product = law.Product(m, n, k, batch, itemsize(dtype))
        return self.launched(Breakdown(law.gemm(product, self.chip(dtype), self.kernels.gemm.of_law, warm=warm)), graph)

    def gram(self, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        product = law.Product(n, n, k, batch, itemsize(dtype), gram=True)
        return self.launched(Breakdown(law.gemm(product, self.chip(dtype), self.kernels.gemm.of_law)), graph)

    def gemm_time(
        self, m: Num, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0, warm: bool = True
    ) -> Num:
        """Seconds of one matrix product as measured tables of products mean it: repeated, with operands left in the L2
        as far as they fit (`warm`). Float for scalars, array for arrays. Raises QuantityError for negative sizes and
        element types that do not exist, ArchmodelError for those that this GPU does not multiply."""
        m, n, k, batch = sizes(m, n, k, batch)
        product = law.Product(m, n, k, batch, itemsize(dtype))
        work = law.gemm_time(product, self.chip(dtype), self.kernels.gemm.of_law, warm=warm)
        time = np.asarray(self.launched(Breakdown({"gemm": work}), graph).total)
        return float(time) if time.ndim == 0 else time
