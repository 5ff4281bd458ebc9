"""What every compute device answers: how long a matrix product, a stream, a gather and an update take on it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import cast

import numpy as np
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.components.breakdown import Breakdown
from archmodel.errors import ArchmodelError
from archmodel.memory.tier import MemoryTier
from archmodel.quantities import Dtype, Num, Usd, Watts, to_si


class Device(Component):
    """A GPU, CPU or other accelerator with its own memory: the contract of every kind.

    All times are `Breakdown`s in seconds and broadcast over sizes and over fields (scalars, or arrays over design
    points with a trailing axis of 1). No time is below its bound (bytes over peak bandwidth, operations over peak
    rate), none falls when work grows or rises when a rate does, and no work takes at most the launch:
    `tests/components/test_invariants.py` holds every registered kind to that.
    """

    idle_power: Watts | None = Field(default=None, description="drawn when nothing runs")
    busy_power: Watts | None = Field(default=None, description="drawn when kernels run")
    price: Usd | None = Field(default=None, description="of one device")

    @property
    @abstractmethod
    def memory(self) -> MemoryTier:
        """The device's own memory, which plans call `hbm` whatever it is made of. Raises ArchmodelError if unstated."""

    @abstractmethod
    def rates(self) -> Mapping[Dtype, Num]:
        """Peak FLOP/s of matrix products by element type, dense (no sparsity)."""

    def peak(self, dtype: str) -> Num:
        """FLOP/s in a precision. Raises ArchmodelError naming the precisions that there are."""
        rates = self.rates()
        if dtype not in rates:
            raise ArchmodelError(f"{self.name or 'the device'} has no {dtype}; it has {', '.join(rates) or 'none'}")
        return rates[cast("Dtype", dtype)]

    @abstractmethod
    def launch_overhead(self, graph: bool) -> Num:
        """Seconds that one kernel adds beside its work; `graph`: within a captured graph."""

    @abstractmethod
    def gemm(self, m: Num, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        """C[m, n] = A[m, k] B[k, n], `batch` times in one kernel."""

    def gram(self, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Breakdown:
        """G[n, n] = X[n, k] X^T, `batch` times in one kernel: a product that reads one operand. A kind that does not
        say how reads X twice."""
        return self.gemm(n, n, k, dtype, graph=graph, batch=batch)

    @abstractmethod
    def stream(self, bytes_: Num, flops: Num = 0.0, dtype: str = "fp32", *, graph: bool = True) -> Breakdown:
        """An elementwise, copy or reduction kernel that moves `bytes_` and does `flops`."""

    @abstractmethod
    def gather(self, demanded_bytes: Num, unique_bytes: Num, streamed_bytes: Num, *, graph: bool = True) -> Breakdown:
        """A fused pooled lookup: `demanded_bytes` of rows, of which `unique_bytes` are distinct, beside a stream."""

    @abstractmethod
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
        """Sort `indices`, gather gradients, read and write distinct rows and their state (`row_bytes`, both ways)."""

    def scatter_add(
        self, demanded_bytes: Num, unique_bytes: Num, streamed_bytes: Num, *, graph: bool = True
    ) -> Breakdown:
        """Add a stream of gradient rows to table rows: `demanded_bytes` of them each way, `unique_bytes` distinct.

        Unless a kind knows better, a gather of all that is read and written.
        """
        return self.gather(2.0 * demanded_bytes, 2.0 * unique_bytes, streamed_bytes, graph=graph)

    def host_issue(self, calls: Num, iterations: Num) -> Breakdown:
        """Idle time while the host issues: `calls` kernels one by one, the begin of whole `iterations`."""
        return Breakdown({"host": np.asarray(calls * np.asarray(self.launch_overhead(False)))})

    def gemm_time(self, m: Num, n: Num, k: Num, dtype: str = "bf16", *, graph: bool = True, batch: Num = 1.0) -> Num:
        """Seconds of one matrix product; float for scalars, array for arrays. Raises QuantityError for negative sizes
        and unknown element types, ArchmodelError for those that the device does not multiply."""
        m, n, k, batch = sizes(m, n, k, batch)
        time = np.asarray(self.gemm(m, n, k, dtype, graph=graph, batch=batch).total)
        return float(time) if time.ndim == 0 else time


def sizes(*given: Num) -> tuple[Num, ...]:
    """Sizes of a product as a user gives them: numbers, lists or arrays, none negative. Raises QuantityError."""
    return tuple(to_si(np.asarray(size), "ratio") for size in given)


DEVICES: Family[Device] = Family(
    "device", {"cpu": "archmodel.components.cpu", "accelerator": "archmodel.components.accelerator"}
)
