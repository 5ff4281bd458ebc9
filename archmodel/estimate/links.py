"""Seconds of collectives as the fabric's own figures have them, whatever drives them."""

from __future__ import annotations

import numpy as np

from archmodel import collectives
from archmodel.components.breakdown import Breakdown
from archmodel.estimate.machine import Machine
from archmodel.program import AllToAll, Collective
from archmodel.quantities import Num, itemsize


def links_of_collective(work: Collective, machine: Machine) -> Breakdown:
    """A collective as the fabric's own figures have it, whatever drives it."""
    result = collectives.estimate(
        machine.topology,
        work.kind,
        algorithm=work.algorithm,
        blocks=work.blocks * itemsize(work.dtype),
        group=work.group,
    )
    return _network(result)


def links_of_all_to_all(work: AllToAll, machine: Machine, times: Num = 1.0) -> Breakdown:
    """An all-to-all as the fabric's own figures have it, whatever drives it; of so many `times` the bytes, (..., 1)."""
    split = work.traffic.split(work.layout, work.group)
    zero = np.zeros(1)
    up_send, up_receive = split.get("scale_up", (zero, zero))
    out_send, out_receive = split.get("scale_out", (zero, zero))
    brought, _ = work.traffic.totals(work.layout, work.group)
    return _network(
        collectives.all_to_all_v(
            machine.topology,
            scale_up_send=up_send * times,
            scale_up_receive=up_receive * times,
            scale_out_send=out_send * times,
            scale_out_receive=out_receive * times,
            kept=np.maximum(brought - up_send - out_send, 0.0) * times,
            group=work.group,
        )
    )


def _network(result: collectives.CollectiveResult) -> Breakdown:
    """Bandwidth under the name of the dimension that sets the rate; latency and local copies beside it."""
    parts = dict(result.parts)
    bandwidth = parts.pop("bandwidth")
    for dimension in ("scale_up", "scale_out"):
        share = np.equal(result.bound, dimension)
        if np.any(share):
            parts[dimension] = np.where(share, bandwidth, 0.0)
    if not any(d in parts for d in ("scale_up", "scale_out")):
        parts["scale_up"] = bandwidth
    return Breakdown({"latency": parts.pop("latency"), **parts})
