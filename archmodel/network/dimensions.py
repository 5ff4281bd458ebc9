"""Fabrics of named dimensions, each of a kind of its own: package, scale-up, scale-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from archmodel.components.base import Component
from archmodel.network.dimension import Dimension
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, Rates, ScaleOut, ScaleUp
from archmodel.network.graph import Edge, Graph, wires_of
from archmodel.network.nic import Nic
from archmodel.network.product import edges_of, joined, sizes_in_use
from archmodel.network.shape import Shape
from archmodel.network.torus import rails


class Named(Component):
    """Dimensions by name, inner to outer. `gpus` of each is its size; every rank has links of its own in each."""

    dimensions: dict[str, Annotated[ScaleUp, SCALE_UP.field()]] = Field(
        ..., min_length=1, description="fabrics by name, inner to outer, each with its size in `gpus`"
    )

    @model_validator(mode="after")
    def _sizes_are_known(self) -> Self:
        for name, fabric in self.dimensions.items():
            if fabric.gpus is None:
                raise ValueError(f"dimension {name} has no size; give it `gpus`")
        return self

    def sizes(self) -> tuple[int, ...]:
        """Of every dimension."""
        return tuple(fabric.gpus or 1 for fabric in self.dimensions.values())

    def of(self, used: tuple[int, ...], rows_beside: int) -> list[Dimension]:
        """Every dimension, those inside one as `outer.inner`."""
        found: list[Dimension] = []
        for (name, fabric), size in zip(self.dimensions.items(), used, strict=True):
            d = fabric.dimension(size)
            for axis in d.flat:
                full = f"{name}.{axis.name}" if d.axes else name
                found.append(replace(axis, name=full, bisection=axis.bisection * rows_beside))
        return found

    def all_edges(self, used: tuple[int, ...]) -> list[Edge]:
        """Links of the whole product."""
        items = zip(self.dimensions.items(), used, strict=True)
        return edges_of([(name, fabric.working(size)) for (name, fabric), size in items], used)


@SCALE_UP.register
class Dimensions(Named, ScaleUp):
    """A node of several dimensions."""

    kind: Literal["dimensions"] = "dimensions"

    def check_size(self, ranks: int) -> None:
        super().check_size(ranks)
        sizes_in_use(self.sizes(), ranks, "GPUs")

    def edges(self, ranks: int) -> list[Edge]:
        return self.all_edges(sizes_in_use(self.sizes(), ranks, "GPUs"))

    def shape(self, ranks: int) -> Shape:
        return Graph(wires_of(ranks, self.edges(ranks)))

    def rates(self, ranks: int) -> Rates:
        d = self.dimension(ranks)
        return Rates(d.bandwidth, d.bisection, d.ring_share, d.both_ways_share, d.direct_share)

    def dimension(self, ranks: int) -> Dimension:
        self.check_size(ranks)
        if self.faults and ranks > 1:
            return super().dimension(ranks)
        used = sizes_in_use(self.sizes(), ranks, "GPUs")
        constants = {**self.constants(), "copy_bandwidth": self.copy_bandwidth, "in_network": self.in_network}
        return joined("scale_up", self.kind, self.of(used, 1), "scale_up", constants)


@SCALE_OUT.register
class NodeDimensions(Named, ScaleOut):
    """Several dimensions between nodes: every rank has its own links to ranks of equal local index."""

    kind: Literal["dimensions"] = "dimensions"
    needs_nic: ClassVar[bool] = False

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        return rails(self.all_edges(sizes_in_use(self.sizes(), nodes, "nodes")), ranks_per_node)

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        used = sizes_in_use(self.sizes(), nodes, "nodes")
        axes = self.of(used, ranks_per_node)
        return joined("scale_out", self.kind, axes, "scale_out", self.constants())
