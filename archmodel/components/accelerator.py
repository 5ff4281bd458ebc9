"""Silicon that is no GPU: peaks, memory, and efficiency as a curve over size given as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.components.device import DEVICES
from archmodel.components.efficiency import EfficiencyCurve
from archmodel.components.kernels import gram_matrix, matrix_product, waiting
from archmodel.components.processor import Processor
from archmodel.memory.tier import MemoryTier
from archmodel.quantities import Bytes, Dtype, Num, PositiveBandwidth, PositiveFlopRate, itemsize


@DEVICES.register
class Accelerator(Processor):
    """A device of which nothing is known but its peaks, its memory and how its efficiency depends on size."""

    kind: Literal["accelerator"] = "accelerator"
    peaks: dict[Dtype, PositiveFlopRate] = Field(
        description="peak rate of matrix products per precision, dense (no sparsity)"
    )
    vector_rate: PositiveFlopRate | None = Field(
        default=None, description="peak rate of elementwise arithmetic; the fp32 peak if left out"
    )
    hbm: MemoryTier = Field(description="the device's own memory, whatever its technology")
    efficiency: EfficiencyCurve = Field(description="achieved share of peak in matrix products by their operations")
    cache: Bytes = Field(default=0.0, description="memory on the chip that holds rows seen again")
    on_chip_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="achieved rate of that memory; no bound if left out"
    )

    @property
    def memory(self) -> MemoryTier:
        return self.hbm

    @property
    def cache_capacity(self) -> Num:
        return self.cache

    @property
    def cache_bandwidth(self) -> Num:
        return np.inf if self.on_chip_bandwidth is None else self.on_chip_bandwidth

    def rates(self) -> Mapping[Dtype, Num]:
        return self.peaks

    def vector_peak(self, dtype: str) -> Num:
        return super().vector_peak(dtype) if self.vector_rate is None else self.vector_rate

    def gemm(self, m: Num, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        """C[m, n] = A[m, k] B[k, n], `batch` times, with the efficiency of the work of the whole kernel:

            t = launch + latency + max(W(2 m n k batch) / peak, bytes / (share x bandwidth))

        where W are the effective operations of the efficiency curve.
        """
        return self._product(*matrix_product(m, n, k, batch, itemsize(dtype)), dtype, graph)

    def gram(self, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        """As `gemm`, with the bytes of X once."""
        return self._product(*gram_matrix(n, k, batch, itemsize(dtype)), dtype, graph)

    def _product(self, flops: Num, bytes_: Num, dtype: str, graph: bool) -> Breakdown:
        memory = self.memory
        work = overlapped(
            {
                "compute": np.asarray(self.efficiency.effective(flops) / self.peak(dtype)),
                "memory": np.asarray(bytes_ / (memory.bandwidth * self.kernels.stream)),
            },
            {"latency": waiting(bytes_, memory.latency)},
        )
        return self.launched(work, graph)
