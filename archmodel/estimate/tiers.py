"""Seconds of accesses to memories beside the devices' own: in place over a device's link, or rows between tiers.

The devices of a node share its memories; a link is each device's own. Reads and writes of one memory, and both ways
over a link, come one after the other: memories differ in what they can do at once, and none is faster than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.errors import ArchmodelError, suggestion
from archmodel.estimate.machine import Machine
from archmodel.memory.host_tier import HostTier, contended
from archmodel.program import SECTOR, EmbeddingLookup, RowMove, Tier
from archmodel.quantities import Array, Num
from archmodel.system import Host

Requests = Mapping[tuple[Tier, str], tuple[Array, ...]]
"""What every rank asks of memories: {(tier, "read" | "write"): (bytes, requests)}, and of one that sums rows
{(tier, "sum"): (bytes of rows, rows, sums, bytes of sums)}."""


def tier_of(name: Tier, machine: Machine) -> HostTier:
    """The node's memory of that name. ArchmodelError when it has none."""
    host = machine.host
    if host is None:
        raise ArchmodelError(f"the plan puts rows in {name}, but the system's node has no host")
    if name not in host.tier_names:
        raise ArchmodelError(f"the node has no memory called {name}; {suggestion(name, host.tier_names)}")
    return host.tier(name)


def lookups(work: EmbeddingLookup, host: Host | None) -> Requests:
    """What a lookup asks of memories beside HBM: sums of those that make them, rows of the others."""
    found: dict[tuple[Tier, str], tuple[Array, ...]] = {}
    for name, bytes_ in work.row_bytes.items():
        if name == "hbm":
            continue
        amounts = (bytes_, work.rows.get(name, bytes_ / SECTOR))
        if host is not None and name in host.tier_names and host.tier(name).memory.sums_rows:
            found[name, "sum"] = (*amounts, work.sums[name], work.sum_bytes[name])
        else:
            found[name, "read"] = amounts
    return found


def seconds_of(tier: HostTier, way: str, amounts: Sequence[Num]) -> Num:
    """Seconds of one memory for one entry of `Requests`, by its own laws."""
    laws: dict[str, Callable[..., Num]] = {"read": tier.read_time, "write": tier.write_time, "sum": tier.sum_time}
    return laws[way](*amounts)


def channel_seconds(owner: HostTier, way: str, amounts: Sequence[Num]) -> Array:
    """Seconds that the channels of `owner` carry what another memory on them is asked for: of sums, these alone."""
    bytes_, requests = (amounts[-1], amounts[-2]) if way == "sum" else amounts
    return np.asarray(owner.channel_time(bytes_, requests, write=way == "write"))


def tier_seconds(requests: Requests, machine: Machine) -> dict[str, Num]:
    """Seconds of every memory beside HBM for what all devices of the node ask of it:

        t = reads(bytes, requests) + writes(bytes, requests) + sums(rows, sums) + what others move over its channels

    by the memory's own laws. One that is on the channels of another takes its time there too.
    """
    seconds: dict[str, Num] = {}
    for (name, way), amounts in requests.items():
        if name == "hbm":
            continue
        tier = tier_of(name, machine)
        all_of_them = [contended(x, machine.ranks_per_node, machine.every_rank) for x in amounts]
        seconds[name] = seconds.get(name, 0.0) + np.asarray(seconds_of(tier, way, all_of_them))
        if tier.channels_of is not None:
            owner = tier_of(tier.channels_of, machine)
            seconds[tier.channels_of] = seconds.get(tier.channels_of, 0.0) + channel_seconds(owner, way, all_of_them)
    return seconds


def in_place(requests: Requests, machine: Machine) -> Breakdown:
    """Rows that a device reads or writes where they lie, in memories of its host:

    t = max(bytes / link bandwidth, seconds of each memory)

    Of a memory that sums rows, only sums cross the link.
    """
    if not requests:
        return Breakdown({})
    busy = tier_seconds(requests, machine)
    assert machine.host is not None  # or tier_seconds had raised
    crossing = (amounts[-1] if way == "sum" else amounts[0] for (_, way), amounts in requests.items())
    total = sum(crossing, np.zeros(1))
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
