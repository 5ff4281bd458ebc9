"""What prices need to know of a system."""

from __future__ import annotations

from dataclasses import dataclass

from archmodel.components.device import Device
from archmodel.components.endpoint import Endpoint
from archmodel.network.topology import Topology
from archmodel.system import Host


@dataclass(frozen=True)
class Machine:
    """What prices need: the device of every rank, the network between ranks, the host behind each device."""

    device: Device
    topology: Topology
    host: Host | None
    ranks_per_node: int
    graph: bool
    endpoint: Endpoint | None = None
    every_rank: bool = False
    """Whether amounts of works are of all ranks, so that what devices of a node do at once is known one by one; else
    every device of a node does what each is given."""
