"""No fabric: a node with one GPU, and a machine of one node."""

from __future__ import annotations

from typing import Literal

from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, Rates, ScaleOut, ScaleUp
from archmodel.network.graph import Edge
from archmodel.network.nic import Nic
from archmodel.network.shape import Full, Shape


@SCALE_UP.register
class NoScaleUp(ScaleUp):
    """One GPU per node."""

    kind: Literal["none"] = "none"

    def check_size(self, ranks: int) -> None:
        if ranks > 1:
            raise TopologyError(f"{ranks} ranks per node need a scale_up fabric; this node has none")

    def shape(self, ranks: int) -> Shape:
        return Full(1, 1.0)

    def edges(self, ranks: int) -> list[Edge]:
        return []

    def rates(self, ranks: int) -> Rates:
        return Rates(0.0, 0.0)


@SCALE_OUT.register
class NoScaleOut(ScaleOut):
    """A machine of one node."""

    kind: Literal["none"] = "none"

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        raise TopologyError(f"{nodes} nodes need a scale_out fabric; this machine has none")

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        return []
