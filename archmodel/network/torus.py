"""Rings, tori and meshes: point-to-point links to the neighbours along every dimension."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from archmodel.network.dimension import Dimension
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, ScaleUp, rates_of
from archmodel.network.graph import Edge
from archmodel.network.product import edges_of
from archmodel.network.product_fabric import Product, ProductOut, ProductUp
from archmodel.network.shape import Line, Shape
from archmodel.network.shape import Ring as RingShape
from archmodel.quantities import Count, Num, PositiveBandwidth, Seconds

AXES = ("x", "y", "z")


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Bandwidths = Annotated[tuple[PositiveBandwidth, ...], BeforeValidator(_listed)]
Latencies = Annotated[tuple[Seconds, ...], BeforeValidator(_listed)]


@SCALE_UP.register
class Ring(ScaleUp):
    """Every GPU has a link to the next and one to the one before. Part of a ring is a line."""

    kind: Literal["ring"] = "ring"
    link_bandwidth: PositiveBandwidth = Field(..., description="link between two neighbours, per direction")
    gpus: Count | None = Field(None, description="GPUs round the ring; absent: as many as there are ranks")

    def shape(self, ranks: int) -> Shape:
        return row(ranks, ranks if self.gpus is None else self.gpus, self.link_bandwidth, self.link_latency, True)

    def edges(self, ranks: int) -> list[Edge]:
        whole = self.gpus is None or ranks == self.gpus
        return row_edges(ranks, self.link_bandwidth, self.link_latency, wraps=whole)


def row(ranks: int, places: int, bandwidth: Num, latency: Num, wraps: bool) -> Shape:
    """`ranks` neighbours of a row of `places`; a ring only when all of it is used."""
    if wraps and ranks == places and ranks > 2:
        return RingShape(ranks, bandwidth, latency)
    return Line(ranks, bandwidth, latency)


def row_edges(ranks: int, bandwidth: Num, latency: Num, *, wraps: bool) -> list[Edge]:
    """Links along a row, and back to its start where it wraps."""
    edges = [Edge(i, i + 1, bandwidth, latency) for i in range(ranks - 1)]
    return [*edges, Edge(ranks - 1, 0, bandwidth, latency)] if wraps and ranks > 2 else edges


class Box(Product):
    """What tori and meshes say about their dimensions: one value for each, inner to outer, or one for all."""

    sizes: tuple[Count, ...] = Field(..., min_length=1, description="places along each dimension, inner to outer")
    link_bandwidth: Bandwidths = Field(..., description="link between two neighbours, per direction, by dimension")
    links: tuple[Count, ...] = Field(
        (1,), description="parallel links between two neighbours, by dimension; they add up"
    )
    link_latencies: Latencies = Field((0.0,), description="latency of one link, by dimension")
    axes: tuple[str, ...] = Field((), description="names of the dimensions; absent: x, y, z, or d0, d1, ...")
    wraps: ClassVar[bool] = True

    @model_validator(mode="after")
    def _lists_agree(self) -> Self:
        n = len(self.sizes)
        for name in ("link_bandwidth", "links", "link_latencies"):
            given = len(getattr(self, name))
            if given not in (1, n):
                raise ValueError(f"{name} has {given} values for {n} dimensions; give one for each, or one for all")
        if self.axes and (len(self.axes) != n or len(set(self.axes)) != n):
            raise ValueError(f"axes names {', '.join(self.axes)}; {n} different names are needed")
        return self

    def places(self) -> tuple[int, ...]:
        return self.sizes

    def axis_names(self) -> tuple[str, ...]:
        """As given, or x, y, z."""
        n = len(self.sizes)
        return self.axes or (AXES[:n] if n <= len(AXES) else tuple(f"d{i}" for i in range(n)))

    def rows(self, used: tuple[int, ...]) -> list[tuple[Shape, list[Edge]]]:
        """Shape and links of one row of each dimension."""

        def at(values: tuple[Any, ...], d: int) -> Any:
            return values[d] if len(values) > 1 else values[0]

        found = []
        for d, size in enumerate(used):
            wide = at(self.link_bandwidth, d) * at(self.links, d)
            slow = at(self.link_latencies, d)
            edges = row_edges(size, wide, slow, wraps=self.wraps and size == self.sizes[d])
            found.append((row(size, self.sizes[d], wide, slow, self.wraps), edges))
        return found

    def axes_of(self, used: tuple[int, ...], rows_beside: int) -> list[Dimension]:
        constants = {**self.constants(), "protocols": None}
        found = []
        for name, size, (shape, _) in zip(self.axis_names(), used, self.rows(used), strict=True):
            rates = rates_of(shape)
            found.append(
                Dimension(
                    name=name,
                    kind="ring" if isinstance(shape, RingShape) else "line",
                    size=size,
                    bandwidth=rates.injection,
                    bisection=rates.bisection * rows_beside,
                    ring_share=rates.ring_share,
                    both_ways_share=rates.both_ways_share,
                    direct_share=rates.direct_share,
                    latency=self.step_latency(shape),
                    shape=shape,
                    **constants,
                )
            )
        return found

    def all_edges(self, used: tuple[int, ...]) -> list[Edge]:
        rows = self.rows(used)
        return edges_of([(name, edges) for name, (_, edges) in zip(self.axis_names(), rows, strict=True)], used)


@SCALE_UP.register
class Torus(Box, ProductUp):
    """Every dimension is a ring. Of a dimension that is used in part, that part is a line."""

    kind: Literal["torus"] = "torus"


@SCALE_UP.register
class Mesh(Box, ProductUp):
    """Every dimension is a line."""

    kind: Literal["mesh"] = "mesh"
    wraps: ClassVar[bool] = False


@SCALE_OUT.register
class NodeTorus(Box, ProductOut):
    """Every dimension is a ring of nodes."""

    kind: Literal["torus"] = "torus"


@SCALE_OUT.register
class NodeMesh(Box, ProductOut):
    """Every dimension is a line of nodes."""

    kind: Literal["mesh"] = "mesh"
    wraps: ClassVar[bool] = False
