"""What pricing a collective gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archmodel.collectives.pricing import Names
from archmodel.network.dimension import DimensionName
from archmodel.quantities import Num


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """Time of one collective, run by every group of the partition at once, and where it goes.

    Quantities broadcast over input sizes and topology fields; uneven ones end in an axis of 1: all ranks wait
    for the slowest. `parts` ("latency", "bandwidth", "copy") sum to `time`. `wire_bytes` are sent by each
    rank in each dimension (those of the rank that sends or receives most, where they differ), in the wire's format;
    a level of several dimensions is listed as a whole, and for the hierarchical algorithm also dimension by dimension.
    `bus_bandwidth` (B/s) is nccl-tests' figure for the bytes as they travel: what the links would carry if the
    algorithm were a ring, so in-network reduction, and trees over two nodes, can show more than the line rate.
    `ranks`: group size. `chunks`: pieces that a hierarchical collective was cut into; 0 where the library pipelines as
    finely as it likes. `algorithm`, `protocol` and `bound` (the dimension that sets the rate) are names, or
    arrays of names where they vary.
    """

    kind: str
    group: str
    ranks: int
    algorithm: str | Names
    protocol: str | Names
    time: Num
    parts: Mapping[str, Num]
    steps: Mapping[DimensionName, Num]
    wire_bytes: Mapping[DimensionName, Num]
    bus_bandwidth: Num
    bound: str | Names
    chunks: Num = 0

    @property
    def group_size(self) -> int:
        """Ranks of one group."""
        return self.ranks


BUS_FACTOR = {
    "all_reduce": 2.0,
    "reduce_scatter": 1.0,
    "all_gather": 1.0,
    "all_to_all": 1.0,
    "gather": 1.0,
    "scatter": 1.0,
}
"""bus bandwidth = factor (n - 1)/n S / time, S the full buffer (all_gather and gather: the gathered one); of broadcast,
reduce and point_to_point S / time; nccl-tests, PERFORMANCE.md."""


def bus_bytes(kind: str, ranks: int, full_bytes: Num) -> Num:
    """Bytes whose quotient by time is the bus bandwidth."""
    factor = BUS_FACTOR[kind] * (ranks - 1) / ranks if kind in BUS_FACTOR else 1.0 * (ranks > 1)
    return factor * full_bytes


def bus_bandwidth(kind: str, ranks: int, full_bytes: Num, time: Num) -> Num:
    """factor (n - 1)/n S / time in B/s; 0 where nothing took time."""
    moved, time = np.broadcast_arrays(bus_bytes(kind, ranks, full_bytes), time)
    rate = np.divide(moved, time, out=np.zeros(moved.shape), where=time > 0)
    return rate if rate.ndim else float(rate)
