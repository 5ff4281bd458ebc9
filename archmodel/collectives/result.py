"""What pricing a collective gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archmodel.collectives.pricing import Names
from archmodel.network.dimension import DimensionName
from archmodel.quantities import Num


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """Time of one collective, run by every group of the partition at once, and where it goes.

    Quantities broadcast over input sizes and topology fields; uneven ones end in an axis of 1: all ranks wait
    for the slowest. `parts` ("latency", "bandwidth", "copy") sum to `time`. `wire_bytes` are sent by each
    rank in each dimension (the busiest rank's where they differ). `bus_bandwidth` (B/s) is nccl-tests'
    figure: what the links would carry if the algorithm were a ring, so in-network reduction can show more
    than the line rate. `algorithm`, `protocol` and `bound` (the dimension that sets the rate) are names, or
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


BUS_FACTOR = {"all_reduce": 2.0, "reduce_scatter": 1.0, "all_gather": 1.0, "all_to_all": 1.0}
"""bus bandwidth = factor (n - 1)/n S / time, S the full buffer (all_gather: the gathered one); nccl-tests,
PERFORMANCE.md."""
