"""What fabrics of several dimensions share, whatever their dimensions are: each has links of its own in every one."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from archmodel.network.dimension import Dimension
from archmodel.network.fabric import Fabric, Rates, ScaleOut, ScaleUp
from archmodel.network.graph import Edge, Graph, wires_of
from archmodel.network.nic import Nic
from archmodel.network.product import joined, sizes_in_use
from archmodel.network.shape import Shape


class Product(Fabric):
    """Places along dimensions, inner to outer. `used`: the size of each that is in use."""

    @abstractmethod
    def places(self) -> tuple[int, ...]:
        """Along each dimension."""

    @abstractmethod
    def axes_of(self, used: tuple[int, ...], rows_beside: int) -> list[Dimension]:
        """Every dimension by itself; bisections count the `rows_beside` rails that act at once."""

    @abstractmethod
    def all_edges(self, used: tuple[int, ...]) -> list[Edge]:
        """Links of the whole product."""


class ProductUp(Product, ScaleUp):
    """Several dimensions of the GPUs of a node."""

    def used(self, ranks: int) -> tuple[int, ...]:
        """Size of each dimension with the first `ranks` GPUs on it. Raises `TopologyError` where that is no box."""
        return sizes_in_use(self.places(), ranks, "GPUs")

    def check_size(self, ranks: int) -> None:
        super().check_size(ranks)
        self.used(ranks)

    def edges(self, ranks: int) -> list[Edge]:
        return self.all_edges(self.used(ranks))

    def shape(self, ranks: int) -> Shape:
        """Of the whole product as a list of links; dimensions are priced one by one."""
        return Graph(wires_of(ranks, self.edges(ranks)))

    def rates(self, ranks: int) -> Rates:
        d = self.dimension(ranks)
        return Rates(d.bandwidth, d.bisection, d.ring_share, d.both_ways_share, d.direct_share)

    def dimension(self, ranks: int) -> Dimension:
        self.check_size(ranks)
        if self.faults and ranks > 1:
            return super().dimension(ranks)
        constants = {**self.constants(), "copy_bandwidth": self.copy_bandwidth, "in_network": self.in_network}
        kind = str(getattr(self, "kind", ""))
        return joined("scale_up", kind, self.axes_of(self.used(ranks), 1), "scale_up", constants)


class ProductOut(Product, ScaleOut):
    """Several dimensions of nodes: every rank has its own links to ranks of equal local index of other nodes."""

    needs_nic: ClassVar[bool] = False

    def used(self, nodes: int) -> tuple[int, ...]:
        """Size of each dimension with the first `nodes` nodes on it. Raises `TopologyError` where that is no box."""
        return sizes_in_use(self.places(), nodes, "nodes")

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        return rails(self.all_edges(self.used(nodes)), ranks_per_node)

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        axes = self.axes_of(self.used(nodes), ranks_per_node)
        return joined("scale_out", str(getattr(self, "kind", "")), axes, "scale_out", self.constants())


def rails(edges: list[Edge], ranks_per_node: int) -> list[Edge]:
    """Links between nodes, once for every local index."""

    def end(x: int | str, local: int) -> int | str:
        return x * ranks_per_node + local if isinstance(x, int) else f"rail {local} {x}"

    return [
        edge._replace(a=end(edge.a, local), b=end(edge.b, local)) for local in range(ranks_per_node) for edge in edges
    ]
