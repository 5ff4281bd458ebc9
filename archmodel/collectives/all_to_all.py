"""All-to-all of unequal messages."""

from __future__ import annotations

import numpy as np

from archmodel.collectives.estimate import bus_bandwidth
from archmodel.collectives.kinds import CollectiveError, Fidelity, check_fidelity
from archmodel.collectives.pricing import price
from archmodel.collectives.result import CollectiveResult
from archmodel.collectives.schedule import Schedule
from archmodel.network.dimension import DimensionName
from archmodel.network.topology import Topology
from archmodel.quantities import Array, Num


def all_to_all_v(
    topology: Topology,
    *,
    scale_up_send: Num = 0.0,
    scale_up_receive: Num = 0.0,
    scale_out_send: Num = 0.0,
    scale_out_receive: Num = 0.0,
    kept: Num = 0.0,
    group: str = "world",
    fidelity: Fidelity = "protocol",
) -> CollectiveResult:
    """Time of an all-to-all in which every rank has its own totals: bytes of shape (..., ranks) or (..., 1).

    `scale_up_send` goes to ranks of the same node and `scale_out_send` to other nodes, `kept` to the rank
    itself. One kernel drives all links (grouped send and receive in NCCL), so a rank needs, for bandwidth,
    the longest of its four transfers: up and out, sending and receiving, links being full duplex; and
    everybody waits for the slowest rank. Latency is that of the direct algorithm. `time` has shape (..., 1);
    equal messages give exactly `estimate(topology, "all_to_all", "direct", ...)`. Raises `CollectiveError`
    for bytes on a dimension that the group does not cross.
    """
    check_fidelity(fidelity)
    inner, outer = topology.extent(group)
    peers: dict[DimensionName, int] = {"scale_up": inner - 1, "scale_out": inner * outer - inner}
    sends: dict[DimensionName, Array] = {
        "scale_up": _ranked(scale_up_send),
        "scale_out": _ranked(scale_out_send),
    }
    receives: dict[DimensionName, Array] = {
        "scale_up": _ranked(scale_up_receive),
        "scale_out": _ranked(scale_out_receive),
    }
    busiest: dict[DimensionName, Num] = {}
    for name in peers:
        for amount in (sends[name], receives[name]):
            _check(name, amount, peers[name], topology.ranks)
        busiest[name] = np.maximum(_most(sends[name]), _most(receives[name]))
    outgoing = _most(sends["scale_up"] + sends["scale_out"])
    schedule = Schedule(
        family="direct",
        steps={name: count for name, count in peers.items() if count},
        sent={name: busiest[name] for name, count in peers.items() if count},
        message=outgoing / max(sum(peers.values()), 1),
        kept=_most(_ranked(kept)),
    )
    priced = price(topology, schedule, fidelity)
    moving = (busiest["scale_up"] + busiest["scale_out"] + schedule.kept) > 0
    parts: dict[str, Num] = {
        "latency": np.where(moving, priced.latency, 0.0),
        "bandwidth": np.where(moving, priced.bandwidth, 0.0),
        "copy": np.where(moving, priced.copy, 0.0),
    }
    time = parts["latency"] + parts["bandwidth"] + parts["copy"]
    full = _most(sends["scale_up"] + sends["scale_out"] + _ranked(kept))
    return CollectiveResult(
        kind="all_to_all",
        group=group,
        ranks=inner * outer,
        algorithm="direct",
        protocol=priced.protocol,
        time=time,
        parts=parts,
        steps={"scale_up": peers["scale_up"], "scale_out": peers["scale_out"]},
        wire_bytes=dict(sends),
        bus_bandwidth=bus_bandwidth("all_to_all", inner * outer, full, time),
        bound=priced.bound,
    )


def _ranked(amount: Num) -> Array:
    """At least one axis, the rank axis."""
    return np.atleast_1d(np.asarray(amount, dtype=np.float64))


def _most(amount: Array) -> Array:
    most: Array = amount.max(axis=-1, keepdims=True)
    return most


def _check(name: str, amount: Array, peers: int, ranks: int) -> None:
    if not (np.isfinite(amount).all() and (amount >= 0).all()):
        raise CollectiveError("bytes must be finite and 0 or more")
    if amount.shape[-1] not in (1, ranks):
        raise CollectiveError(f"{name} bytes of shape {amount.shape} do not end in {ranks} ranks or 1")
    if peers == 0 and (amount > 0).any():
        raise CollectiveError(f"bytes over {name}, which this group does not cross")
