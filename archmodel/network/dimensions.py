"""Fabrics of named dimensions, each of a kind of its own: package, scale-up, scale-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from archmodel.network.dimension import Dimension
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, ScaleUp
from archmodel.network.graph import Edge
from archmodel.network.product import edges_of
from archmodel.network.product_fabric import Product, ProductOut, ProductUp


class Named(Product):
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

    def places(self) -> tuple[int, ...]:
        return tuple(fabric.gpus or 1 for fabric in self.dimensions.values())

    def axes_of(self, used: tuple[int, ...], rows_beside: int) -> list[Dimension]:
        """Those inside a dimension are `outer.inner`."""
        found: list[Dimension] = []
        for (name, fabric), size in zip(self.dimensions.items(), used, strict=True):
            d = fabric.clocked().dimension(size)
            for axis in d.flat:
                full = f"{name}.{axis.name}" if d.axes else name
                found.append(replace(axis, name=full, bisection=axis.bisection * rows_beside))
        return found

    def all_edges(self, used: tuple[int, ...]) -> list[Edge]:
        items = zip(self.dimensions.items(), used, strict=True)
        return edges_of([(name, fabric.working(size)) for (name, fabric), size in items], used)


@SCALE_UP.register
class Dimensions(Named, ProductUp):
    """A node of several dimensions."""

    kind: Literal["dimensions"] = "dimensions"


@SCALE_OUT.register
class NodeDimensions(Named, ProductOut):
    """Several dimensions between nodes: every rank has its own links to ranks of equal local index."""

    kind: Literal["dimensions"] = "dimensions"
