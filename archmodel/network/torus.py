"""Rings, tori and meshes: point-to-point links to the neighbours along every dimension."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from archmodel.components.base import Component
from archmodel.network.dimension import Dimension, Level
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, Fabric, Rates, ScaleOut, ScaleUp, rates_of
from archmodel.network.graph import Edge, Graph, wires_of
from archmodel.network.nic import Nic
from archmodel.network.product import edges_of, joined, sizes_in_use
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


class Box(Component):
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

    def dimensions_of(self, fabric: Fabric, used: tuple[int, ...], rows_beside: int) -> list[Dimension]:
        """A `Dimension` for each axis; bisections count the `rows_beside` rails that act at once."""
        constants = {**fabric.constants(), "protocols": None}
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
                    latency=fabric.step_latency(shape),
                    shape=shape,
                    **constants,
                )
            )
        return found

    def all_edges(self, used: tuple[int, ...]) -> list[Edge]:
        """Links of the whole box."""
        rows = self.rows(used)
        return edges_of([(name, edges) for name, (_, edges) in zip(self.axis_names(), rows, strict=True)], used)


class BoxUp(Box, ScaleUp):
    """A box of the GPUs of a node."""

    def check_size(self, ranks: int) -> None:
        super().check_size(ranks)
        sizes_in_use(self.sizes, ranks, "GPUs")

    def edges(self, ranks: int) -> list[Edge]:
        return self.all_edges(sizes_in_use(self.sizes, ranks, "GPUs"))

    def shape(self, ranks: int) -> Shape:
        """Of the whole box as a list of links; dimensions are priced one by one."""
        return Graph(wires_of(ranks, self.edges(ranks)))

    def rates(self, ranks: int) -> Rates:
        d = self.dimension(ranks)
        return Rates(d.bandwidth, d.bisection, d.ring_share, d.both_ways_share, d.direct_share)

    def dimension(self, ranks: int) -> Dimension:
        self.check_size(ranks)
        if self.faults and ranks > 1:
            return super().dimension(ranks)
        used = sizes_in_use(self.sizes, ranks, "GPUs")
        constants = {**self.constants(), "copy_bandwidth": self.copy_bandwidth, "in_network": self.in_network}
        kind = str(getattr(self, "kind", ""))
        return joined("scale_up", kind, self.dimensions_of(self, used, 1), "scale_up", constants)


class BoxOut(Box, ScaleOut):
    """A box of nodes: every rank has its own links to the ranks of equal local index of neighbour nodes."""

    needs_nic: ClassVar[bool] = False

    def edges(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> list[Edge]:
        used = sizes_in_use(self.sizes, nodes, "nodes")
        return rails(self.all_edges(used), ranks_per_node)

    def dimension(self, nodes: int, ranks_per_node: int, nic: Nic | None, gpus_per_node: int) -> Dimension:
        used = sizes_in_use(self.sizes, nodes, "nodes")
        level: Level = "scale_out"
        axes = self.dimensions_of(self, used, ranks_per_node)
        return joined(level, str(getattr(self, "kind", "")), axes, level, self.constants())


def rails(edges: list[Edge], ranks_per_node: int) -> list[Edge]:
    """Links between nodes, once for every local index."""

    def end(x: int | str, local: int) -> int | str:
        return x * ranks_per_node + local if isinstance(x, int) else f"rail {local} {x}"

    return [
        edge._replace(a=end(edge.a, local), b=end(edge.b, local)) for local in range(ranks_per_node) for edge in edges
    ]


@SCALE_UP.register
class Torus(BoxUp):
    """Every dimension is a ring. Of a dimension that is used in part, that part is a line."""

    kind: Literal["torus"] = "torus"


@SCALE_UP.register
class Mesh(BoxUp):
    """Every dimension is a line."""

    kind: Literal["mesh"] = "mesh"
    wraps: ClassVar[bool] = False


@SCALE_OUT.register
class NodeTorus(BoxOut):
    """Every dimension is a ring of nodes."""

    kind: Literal["torus"] = "torus"


@SCALE_OUT.register
class NodeMesh(BoxOut):
    """Every dimension is a line of nodes."""

    kind: Literal["mesh"] = "mesh"
    wraps: ClassVar[bool] = False
