"""The network interface of a node."""

from __future__ import annotations

import math

from pydantic import Field

from archmodel.components.base import Component
from archmodel.network.errors import TopologyError
from archmodel.quantities import Count, Num, PositiveBandwidth, Usd, Watts


class Nic(Component):
    """One network interface; a node has `per_node` of them, shared evenly by its GPUs."""

    bandwidth: PositiveBandwidth = Field(..., description="line rate of one interface, per direction")
    per_node: Count | None = Field(None, description="interfaces of a node; absent: one for each GPU")
    price: Usd | None = Field(None, description="price of one interface")
    power: Watts | None = Field(None, description="power of one interface")

    def per_rank(self, ranks_per_node: int, gpus_per_node: int) -> Num:
        """B/s, per direction, of each of `ranks_per_node` ranks that send at once.

        A GPU reaches the interfaces near it and no others: with more interfaces than GPUs it has several,
        with fewer it shares one with its neighbours that take part.
        """
        count = gpus_per_node if self.per_node is None else self.per_node
        if count >= gpus_per_node:
            return self.bandwidth * (count / gpus_per_node)
        sharing = math.ceil(gpus_per_node / count)
        return self.bandwidth / min(sharing, ranks_per_node)


def needed(nic: Nic | None, nodes: int) -> Nic:
    """The interface, which nodes on a switched network cannot do without."""
    if nic is None:
        raise TopologyError(f"{nodes} nodes need a NIC; this machine has none")
    return nic
