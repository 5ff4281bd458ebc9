"""Seconds of accesses to memories beside the devices' own: in place over a device's link, or rows between tiers.

The devices of a node share its memories; a link is each device's own. Reads and writes of one memory, and both ways
over a link, come one after the other: memories differ in what they can do at once, and none is faster than that.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.errors import ArchmodelError, suggestion
from archmodel.estimate.machine import Machine
from archmodel.memory.host_tier import HostTier, contended
from archmodel.program import RowMove, Tier
from archmodel.quantities import Array, Num

Requests = Mapping[tuple[Tier, str], tuple[Array, Array]]
"""{(tier, "read" | "write"): (bytes, requests)} of every rank."""


def tier_of(name: Tier, machine: Machine) -> HostTier:
    """The node's memory of that name. ArchmodelError when it has none."""
    host = machine.host
    if host is None:
        raise ArchmodelError(f"the plan puts rows in {name}, but the system's node has no host")
    if name not in host.tier_names:
        raise ArchmodelError(f"the node has no memory called {name}; {suggestion(name, host.tier_names)}")
    return host.tier(name)


def tier_seconds(requests: Requests, machine: Machine) -> dict[str, Num]:
    """Seconds of every memory beside HBM for what all devices of the node ask of it:

        t = reads(bytes, requests) + writes(bytes, requests)

    by the memory's own laws.
    """
    seconds: dict[str, Num] = {}
    for (name, way), (bytes_, count) in requests.items():
        if name == "hbm":
            continue
        tier = tier_of(name, machine)
        law = tier.read_time if way == "read" else tier.write_time
        both = (contended(x, machine.ranks_per_node, machine.every_rank) for x in (bytes_, count))
        seconds[name] = seconds.get(name, 0.0) + np.asarray(law(*both))
    return seconds


def in_place(requests: Requests, machine: Machine) -> Breakdown:
    """Rows that a device reads or writes where they lie, in memories of its host:

    t = max(bytes / link bandwidth, seconds of each memory)
    """
    if not requests:
        return Breakdown({})
    busy = tier_seconds(requests, machine)
    assert machine.host is not None  # or tier_seconds had raised
    total = sum((bytes_ for bytes_, _ in requests.values()), np.zeros(1))
    return overlapped({"host_link": total / machine.host.link.bandwidth, **busy})


def moving(work: RowMove, machine: Machine) -> Breakdown:
    """Rows between tiers in one batch of requests, all tiers at once:

        t = latency + faults x fault time + max(bytes / link bandwidth, seconds of each memory)

    The link carries what comes from or goes to HBM; rows between host memories do not cross it. Only pages fault; the
    driver serves one after the other.
    """
    requests = work.requests()
    busy = tier_seconds(requests, machine)
    crossing = sum((b for path, b in work.bytes.items() if "hbm" in path.split(":")), np.zeros(1))
    if machine.host is None:
        raise ArchmodelError("the plan moves rows between tiers, but the system's node has no host")
    link = machine.host.link
    latency = np.where(np.asarray(crossing) > 0, link.latency, 0.0)
    further: dict[str, Num] = {"latency": latency}
    if np.any(work.faults):
        if link.fault_time is None:
            raise ArchmodelError(
                "the plan pages rows on demand; system.node.host.link.fault_time says how long that takes"
            )
        further["page_faults"] = work.faults * link.fault_time
    return overlapped({"host_link": crossing / link.bandwidth, **busy}, further)
