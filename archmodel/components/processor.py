"""What GPUs, CPUs and accelerators share: launch overhead, and bandwidth-bound kernels with achieved shares of peak."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from archmodel.components import kernels as laws
from archmodel.components.base import Component
from archmodel.components.breakdown import Breakdown
from archmodel.components.device import Device
from archmodel.quantities import Bytes, Count, Dtype, Num, PositiveFraction, Seconds


class Launch(Component):
    """Time that a kernel adds beside its work."""

    eager: Seconds = Field(description="for a framework to issue one kernel; hidden behind kernels that run longer")
    graph: Seconds = Field(description="from one kernel's end to the next one's start: in a captured graph, or queued")
    iteration: Seconds = Field(
        default=0.0,
        description="from the end of an iteration that the host waits for to the first kernel of the next: "
        "waking up, copies into static buffers, the call that launches a graph",
    )


class KernelConstants(Component):
    """Achieved shares of peak bandwidth, and what an exact update costs beside the bytes of its rows."""

    stream: PositiveFraction = Field(description="elementwise kernels, copies, reductions")
    gather: PositiveFraction = Field(description="fused pooled lookups")
    update: PositiveFraction = Field(description="read-modify-write of distinct rows and optimizer state")
    sort: PositiveFraction | None = Field(default=None, description="radix sort; that of streams if left out")
    sort_bytes_per_index: Bytes = Field(description="memory traffic of sorting one pair of row id and position")
    update_launches: Count = Field(
        default=8,
        description="kernels of an exact update: linearise, sort (histogram, scan, passes), run lengths, sums, step",
    )


class Processor(Device):
    """A device whose bandwidth-bound kernels follow `archmodel.components.kernels`; a kind adds peaks, memory, gemm."""

    launch: Launch = Field(description="overhead of a kernel")
    kernels: KernelConstants = Field(description="achieved shares of peak bandwidth")

    @property
    def cache_capacity(self) -> Num:
        """Bytes of the last cache before memory; 0 when there is none."""
        return 0.0

    @property
    def cache_bandwidth(self) -> Num:
        """B/s of that cache; infinite when it is not stated, which drops its bound."""
        return np.inf

    @property
    def gather_bandwidth(self) -> Num:
        """B/s of memory that scattered rows get."""
        return self.memory.bandwidth * self.kernels.gather

    def vector_peak(self, dtype: str) -> Num:
        """FLOP/s of elementwise arithmetic: in fp64 for fp64, else in fp32, whatever the format in memory."""
        own: Dtype = "fp64" if dtype == "fp64" else "fp32"
        rates = self.rates()
        return rates[own] if own in rates else self.peak(dtype)

    def launch_overhead(self, graph: bool) -> Num:
        return self.launch.graph if graph else np.maximum(self.launch.graph, self.launch.eager)

    def launched(self, work: Breakdown, graph: bool, kernels: Num = 1.0) -> Breakdown:
        """`work` of `kernels` kernels with the launch before each:

            t = n gap + work                     in a captured graph
            t = max(n gap + work, n issue)       one by one

        since a framework issues kernels ahead of the device, which only waits when they are shorter than their issue.
        """
        gap = kernels * np.asarray(self.launch.graph)
        if not graph:
            gap = np.maximum(gap, kernels * np.asarray(self.launch.eager) - work.total)
        return Breakdown({"launch": gap}) + work

    def stream(self, bytes_: Num, flops: Num = 0.0, dtype: str = "fp32", *, graph: bool = True) -> Breakdown:
        memory = self.memory
        work = laws.streaming(
            bytes_,
            flops,
            bandwidth=memory.bandwidth * self.kernels.stream,
            peak=self.vector_peak(dtype),
            latency=memory.latency,
        )
        return self.launched(work, graph)

    @property
    def _row_rates(self) -> dict[str, Num]:
        """Cache, rates and latency that kernels on scattered rows get."""
        return {
            "cache": self.cache_capacity,
            "gather_bandwidth": self.gather_bandwidth,
            "stream_bandwidth": self.memory.bandwidth * self.kernels.stream,
            "cache_bandwidth": self.cache_bandwidth,
            "latency": self.memory.latency,
        }

    def gather(self, demanded_bytes: Num, unique_bytes: Num, streamed_bytes: Num, *, graph: bool = True) -> Breakdown:
        work = laws.pooled_lookup(demanded_bytes, unique_bytes, streamed_bytes, **self._row_rates)
        return self.launched(work, graph)

    def scatter_add(
        self, demanded_bytes: Num, unique_bytes: Num, streamed_bytes: Num, *, graph: bool = True
    ) -> Breakdown:
        work = laws.scatter_add(demanded_bytes, unique_bytes, streamed_bytes, **self._row_rates)
        return self.launched(work, graph)

    def host_issue(self, calls: Num, iterations: Num) -> Breakdown:
        seconds = calls * np.asarray(self.launch.eager) + iterations * np.asarray(self.launch.iteration)
        return Breakdown({"host": np.asarray(seconds)})

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
        memory, shares = self.memory, self.kernels
        sort = shares.stream if shares.sort is None else shares.sort
        work = laws.exact_update(
            indices,
            gradient_bytes,
            gradient_unique_bytes,
            row_bytes,
            streamed_bytes,
            cache=self.cache_capacity,
            sort_bytes_per_index=shares.sort_bytes_per_index,
            sort_bandwidth=memory.bandwidth * sort,
            gather_bandwidth=self.gather_bandwidth,
            update_bandwidth=memory.update_bandwidth * shares.update,
            stream_bandwidth=memory.bandwidth * shares.stream,
            cache_bandwidth=self.cache_bandwidth,
            latency=shares.update_launches * np.asarray(memory.latency),
        )
        return self.launched(work, graph, shares.update_launches)
