"""A set of tables through one fused forward kernel, the sort of its lookups, and one fused backward-and-update kernel.

The shape of the kernels is fbgemm_gpu's: a warp for every bag, blocks of 512 threads, blocks in order of table and then
of bag (b_t = t B + b); the update sorts all lookups by table and row, and a warp adds up the gradients of one row (of
32 lookups at most), reads the row and writes it back. Simplified: rounds of a block go together, an L2 cache of whole
rows with exact LRU, no L1 cache, one queue for all of HBM, and both kernels start with an empty cache (as AutoShard's
benchmark flushes it). Nothing here is fitted to a measured kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from archmodel.components.gpu import Gpu
from archmodel.components.kernels import LOOKUP_CHAIN
from archmodel.components.multi_table.batch import TableBatch
from archmodel.components.multi_table.kernel import run_blocks
from archmodel.memory.compiled import fast

WARPS = 16
"""Warps of a block, one bag each: 512 threads (fbgemm_gpu, kForwardMaxThreads)."""
THREADS_PER_SM = 2048
"""Of a V100, A100 or H100 (CUDA C++ Programming Guide, compute capabilities 7.0 to 9.0)."""
ROWS_IN_FLIGHT = 4
"""Rows that a warp loads before it waits. Assumed."""
L2_LATENCY = 193 / 1.38e9
"""Seconds of an L2 hit: 193 cycles of a V100 PCIe at 1.38 GHz (Jia et al., arXiv 1804.06826, table 3.1)."""
INDEX, OFFSET, SORTED = 8, 8, 4
"""Bytes of an index, of a bag's offset, and of what the update keeps of a lookup (int64, int64, int32)."""
RUN = 12
"""Bytes that describe one row's run of sorted lookups: its row id and length."""

Order = Literal["table", "bag"]


@dataclass(frozen=True)
class FusedKernel:
    """The machine under the kernel; rates in bytes/s that the kernels reach, seconds, bytes.

    `order`: blocks by table and then bag, or by bag and then table (every table at once: their rows fight for the
    cache). `launch` is paid for the forward kernel, the sort and the update each.
    """

    slots: int
    cache: float
    memory_bandwidth: float
    cache_bandwidth: float
    memory_latency: float
    cache_latency: float
    launch: float
    sort_bytes: float
    sort_bandwidth: float
    weight_bytes: int = 2
    output_bytes: int = 4
    order: Order = "table"
    in_flight: int = ROWS_IN_FLIGHT

    @classmethod
    def of(cls, gpu: Gpu, *, weight_bytes: int = 2, order: Order = "table") -> FusedKernel:
        """From a GPU's datasheet and kernel constants."""
        peak = float(np.max(np.asarray(gpu.hbm.bandwidth)))
        inside = np.inf if gpu.l2_bandwidth is None else float(np.max(np.asarray(gpu.l2_bandwidth)))
        return cls(
            slots=int(gpu.sm_count) * (THREADS_PER_SM // (32 * WARPS)),
            cache=float(np.max(np.asarray(gpu.l2_capacity))),
            memory_bandwidth=peak * float(np.max(np.asarray(gpu.kernels.gather))),
            cache_bandwidth=inside,
            memory_latency=float(np.max(np.asarray(gpu.hbm.latency))),
            cache_latency=L2_LATENCY,
            launch=float(np.max(np.asarray(gpu.launch.graph))),
            sort_bytes=float(np.max(np.asarray(gpu.kernels.sort_bytes_per_index))),
            sort_bandwidth=peak * float(np.max(np.asarray(gpu.kernels.sort))),
            weight_bytes=weight_bytes,
            order=order,
        )


@dataclass(frozen=True)
class KernelRun:
    """One kernel: seconds with its launch, bytes from memory and through the cache, accesses and hits."""

    time: float
    memory_bytes: float
    cache_bytes: float
    accesses: int
    hits: int


@dataclass(frozen=True)
class SetRun:
    """A set of tables: its two kernels, the sort between them, and all together in seconds."""

    forward: KernelRun
    sort: float
    backward: KernelRun

    @property
    def time(self) -> float:
        return self.forward.time + self.sort + self.backward.time


@dataclass(frozen=True)
class _Work:
    """Streams of all tables together: keys, bytes per key, and per block its first key, rounds, streamed bytes."""

    keys: npt.NDArray[np.int32]
    key_bytes: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    rounds: npt.NDArray[np.int32]
    streamed: npt.NDArray[np.float64]


def simulate(tables: Sequence[TableBatch], kernel: FusedKernel) -> SetRun:
    """One batch of a set of tables, forward and backward with SGD. No table: no time."""
    if not tables:
        nothing = KernelRun(0.0, 0.0, 0.0, 0, 0)
        return SetRun(nothing, 0.0, nothing)
    lookups = sum(len(table.ids) for table in tables)
    sort = kernel.launch + lookups * kernel.sort_bytes / kernel.sort_bandwidth
    return SetRun(_run(_forward(tables, kernel), kernel), sort, _run(_backward(tables, kernel), kernel))


def _run(work: _Work, kernel: FusedKernel) -> KernelRun:
    count = len(work.key_bytes)
    result = np.zeros(5)
    loop: Callable[..., None] = fast(run_blocks)
    loop(
        work.keys,
        work.key_bytes,
        work.start,
        work.rounds,
        work.streamed,
        kernel.slots,
        kernel.cache,
        kernel.memory_bandwidth,
        kernel.cache_bandwidth,
        kernel.memory_latency,
        kernel.cache_latency,
        LOOKUP_CHAIN,
        np.full(count, -1, dtype=np.int32),
        np.full(count, -1, dtype=np.int32),
        np.zeros(count, dtype=np.int8),
        result,
    )
    seconds, from_memory, through, accesses, hits = result.tolist()
    return KernelRun(kernel.launch + seconds, from_memory, through, int(accesses), int(hits))


def _forward(tables: Sequence[TableBatch], kernel: FusedKernel) -> _Work:
    """A block reads the rows of 16 bags; past the cache go their indices, offsets and sums."""
    parts = []
    for table in tables:
        edge = np.minimum(np.arange(0, table.batch + WARPS, WARPS), table.batch)
        longest = np.maximum.reduceat(np.diff(table.offsets), edge[:-1])
        start = table.offsets[edge]
        bags = np.diff(edge)
        streamed = INDEX * np.diff(start) + bags * (OFFSET + table.columns * kernel.output_bytes)
        sizes = np.full(table.unique, table.columns * kernel.weight_bytes, dtype=np.int32)
        parts.append((table.ids, sizes, start, _rounds(longest, kernel), streamed))
    return _together(parts, kernel.order)


def _backward(tables: Sequence[TableBatch], kernel: FusedKernel) -> _Work:
    """A block updates the rows of 16 segments of sorted lookups; past the cache go what was sorted and rows written."""
    parts = []
    for table in tables:
        stream, begin = table.by_row
        segments = len(begin) - 1
        edge = np.minimum(np.arange(0, segments + WARPS, WARPS), segments)
        longest = np.maximum.reduceat(np.diff(begin), edge[:-1]) - 1
        row = table.columns * kernel.weight_bytes
        count = np.diff(edge)
        streamed = SORTED * (np.diff(begin[edge]) - count) + count * (RUN + row)
        sizes = np.empty(table.unique + table.batch, dtype=np.int32)
        sizes[: table.unique] = row
        sizes[table.unique :] = table.columns * kernel.output_bytes
        parts.append((stream, sizes, begin[edge], _rounds(longest, kernel) + 1, streamed))
    return _together(parts, kernel.order)


def _rounds(longest: npt.NDArray[np.int64], kernel: FusedKernel) -> npt.NDArray[np.int64]:
    return np.maximum(-(-longest // kernel.in_flight), 1)


def _together(parts: Sequence[tuple[npt.NDArray, ...]], order: Order) -> _Work:  # type: ignore[type-arg]
    keys, sizes, starts, rounds, streamed = zip(*parts, strict=True)
    first_key = np.cumsum([0, *(len(s) for s in sizes)])
    joined = np.concatenate([k + np.int32(f) for k, f in zip(keys, first_key, strict=False)])
    count = np.concatenate([np.diff(s) for s in starts])
    rounds_, streamed_ = np.concatenate(rounds), np.concatenate(streamed)
    if order == "bag":
        place = np.concatenate([np.arange(len(r)) for r in rounds])
        turn = np.argsort(place, kind="stable")
        begin = np.cumsum(count) - count
        inside = np.arange(len(joined)) - np.repeat(np.cumsum(count[turn]) - count[turn], count[turn])
        joined = joined[np.repeat(begin[turn], count[turn]) + inside]
        count, rounds_, streamed_ = count[turn], rounds_[turn], streamed_[turn]
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return _Work(
        joined.astype(np.int32),
        np.concatenate(sizes),
        start,
        rounds_.astype(np.int32),
        np.asarray(streamed_, dtype=np.float64),
    )
