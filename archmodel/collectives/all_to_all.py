"""All-to-all of unequal messages."""

from __future__ import annotations

import numpy as np

from archmodel.collectives.flows import Wires
from archmodel.collectives.groups import Placement
from archmodel.collectives.kinds import CollectiveError, Fidelity, check_fidelity
from archmodel.collectives.levels import levels_of
from archmodel.collectives.pricing import price
from archmodel.collectives.result import CollectiveResult, bus_bandwidth
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
    placed = Placement(inner, outer, outer, group)
    sends = {"scale_up": _ranked(scale_up_send), "scale_out": _ranked(scale_out_send)}
    receives = {"scale_up": _ranked(scale_up_receive), "scale_out": _ranked(scale_out_receive)}
    peers = {"scale_up": inner - 1, "scale_out": inner * outer - inner}
    for name, count in peers.items():
        for amount in (sends[name], receives[name]):
            _check(name, amount, count, topology.ranks)
    return _exchange(topology, placed, "direct", (sends, receives, _ranked(kept)), peers, fidelity)


def of_pairs(
    topology: Topology, group: Placement, algorithm: str, pairs: Array, wires: Wires, fidelity: Fidelity
) -> CollectiveResult:
    """The same from messages (n, n) between the members of any group and what they put on `wires`.

    Hierarchical: two exchanges, each with its own peers; as many steps as there are peers in both.
    """
    node = group.node_of(topology.local_size)
    counts = np.unique(node, return_counts=True)[1]
    near, far = int(counts.max()) - 1, group.size - int(counts.min())
    if algorithm == "hierarchical":
        near, far = group.local - 1 + group.blocks - group.nodes, group.nodes - 1
    sends, receives = ({name: end[i] for name, end in wires.items()} for i in range(2))
    amounts = (sends, receives, np.diag(pairs).copy())
    return _exchange(topology, group, algorithm, amounts, {"scale_up": near, "scale_out": far}, fidelity)


Sides = dict[str, Array]


def _exchange(
    topology: Topology,
    group: Placement,
    algorithm: str,
    amounts: tuple[Sides, Sides, Array],
    peers: dict[DimensionName, int],
    fidelity: Fidelity,
) -> CollectiveResult:
    if fidelity == "link_load":
        raise CollectiveError("link_load needs to know who sends to whom: give estimate pair_bytes, not sums by rank")
    sends, receives, own = amounts
    busiest: dict[DimensionName, Num] = {name: np.maximum(_most(sends[name]), _most(receives[name])) for name in peers}
    crossing = {name: count for name, count in peers.items() if count}
    schedule = Schedule(
        family="direct",
        steps=crossing,
        sent={name: busiest[name] for name in crossing},
        message=_most(sends["scale_up"] + sends["scale_out"]) / max(sum(peers.values()), 1),
        kept=_most(own),
    )
    priced = price(levels_of(topology, group), schedule, fidelity)
    moving = (busiest["scale_up"] + busiest["scale_out"] + schedule.kept) > 0
    parts: dict[str, Num] = {
        "latency": np.where(moving, priced.latency, 0.0),
        "bandwidth": np.where(moving, priced.bandwidth, 0.0),
        "copy": np.where(moving, priced.copy, 0.0),
    }
    time = parts["latency"] + parts["bandwidth"] + parts["copy"]
    full = _most(sends["scale_up"] + sends["scale_out"] + own)
    return CollectiveResult(
        kind="all_to_all",
        group=group.label,
        ranks=group.size,
        algorithm=algorithm,
        protocol=priced.protocol,
        time=time,
        parts=parts,
        steps=dict(peers),
        wire_bytes=dict(sends),
        bus_bandwidth=bus_bandwidth("all_to_all", group.size, full, time),
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
