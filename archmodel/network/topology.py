"""Where the ranks sit and what joins them: one value that collectives are priced on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from archmodel.errors import suggestion
from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import ScaleOut, ScaleUp
from archmodel.network.graph import Edge, Graph, wires_of
from archmodel.network.nic import Nic
from archmodel.quantities import Num

if TYPE_CHECKING:
    import networkx as nx

Group = Literal["world", "node", "rail"]
GROUPS: tuple[Group, ...] = ("world", "node", "rail")
"""All ranks; the ranks of a node; the ranks of equal local index. Every node, every rail, acts at once."""


@dataclass(frozen=True, slots=True)
class Topology:
    """`nodes` nodes of `local_size` ranks each; rank = node * local_size + local index.

    `scale_up` joins the ranks of a node, `scale_out` (absent on one node) ranks of different nodes: the two
    levels that a plan knows. Each may be a product of several `dimensions`, which collectives can run over
    one after the other. `inside` lists the links of all nodes, node by node, and `between` those that join nodes, when
    they are asked for.
    """

    local_size: int
    nodes: int
    scale_up: Dimension
    scale_out: Dimension | None
    inside: Callable[[], list[Edge]] = list
    between: Callable[[], list[Edge]] = list

    @property
    def ranks(self) -> int:
        return self.local_size * self.nodes

    @property
    def levels(self) -> tuple[Dimension, ...]:
        """In the node, and between nodes where there are several."""
        return (self.scale_up,) if self.scale_out is None else (self.scale_up, self.scale_out)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """All there are, inner to outer: a level that is no product is one dimension."""
        return tuple(d for level in self.levels for d in level.flat)

    def spanned(self, group: str) -> tuple[Dimension, ...]:
        """Dimensions of more than one rank that a group crosses: "world", "node", "rail", or names joined by +.

        Ranks that differ only in these dimensions are a group; all groups act at once.
        """
        if group in GROUPS:
            inner = () if group == "rail" else self.scale_up.flat
            outer = () if group == "node" or self.scale_out is None else self.scale_out.flat
            return tuple(d for d in (*inner, *outer) if d.size > 1)
        wanted = [name.strip() for name in group.split("+")]
        known = [d.name for d in self.dimensions]
        for name in wanted:
            if name not in known:
                raise TopologyError(f"no group is called {name!r}; {suggestion(name, (*GROUPS, *known))}")
        return tuple(d for d in self.dimensions if d.name in wanted and d.size > 1)

    def extent(self, group: str) -> tuple[int, int]:
        """(ranks of a group in one node, nodes that it spans)."""
        if group in GROUPS:
            inner = 1 if group == "rail" else self.local_size
            outer = 1 if group == "node" else self.nodes
            return inner, outer
        crossed = self.spanned(group)
        sizes = {level: prod(d.size for d in crossed if d.level == level) for level in ("scale_up", "scale_out")}
        return sizes["scale_up"], sizes["scale_out"]

    def bisection(self, name: str) -> Num:
        """B/s, per direction, across the narrowest even cut of one dimension."""
        known = {d.name: d for d in (*self.dimensions, *self.levels)}
        if name in known:
            return known[name].bisection
        names = list(known)
        raise TopologyError(f"no dimension is called {name!r}; {suggestion(name, names)}")

    def wiring(self) -> list[Edge]:
        """All links."""
        return self.inside() + self.between()

    def graph(self) -> nx.Graph[Any]:
        """networkx: ranks are integers, switches strings; `bandwidth` is per direction; parallel links add up."""
        import networkx as nx

        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from(range(self.ranks), kind="gpu")
        for edge in self.wiring():
            for end in (edge.a, edge.b):
                graph.add_node(end, kind="gpu" if isinstance(end, int) else "switch")
            beside = graph.edges[edge.a, edge.b]["bandwidth"] if graph.has_edge(edge.a, edge.b) else 0.0
            graph.add_edge(edge.a, edge.b, bandwidth=beside + edge.bandwidth, latency=edge.latency)
        return graph

    def routes(self) -> Graph:
        """All links as one shape, on which any messages between any ranks can be routed."""
        return Graph(wires_of(self.ranks, self.wiring()))


def build_topology(
    scale_up: ScaleUp,
    *,
    ranks_per_node: int,
    nodes: int = 1,
    nic: Nic | None = None,
    scale_out: ScaleOut | None = None,
    gpus_per_node: int | None = None,
) -> Topology:
    """`nodes` nodes that use their first `ranks_per_node` of `gpus_per_node` GPUs (default: all of them).

    Raises `TopologyError` when the fabrics cannot hold the ranks.
    """
    gpus = ranks_per_node if gpus_per_node is None else gpus_per_node
    if ranks_per_node < 1 or nodes < 1:
        raise TopologyError(f"{nodes} nodes of {ranks_per_node} ranks: at least one of each is needed")
    if ranks_per_node > gpus:
        raise TopologyError(f"{ranks_per_node} ranks per node do not fit a node of {gpus} GPUs")
    inner = scale_up.clocked().dimension(ranks_per_node)
    inside = partial(_in_nodes, scale_up, ranks_per_node, nodes)
    if nodes == 1:
        return Topology(ranks_per_node, 1, inner, None, inside)
    if scale_out is None:
        raise TopologyError(f"{nodes} nodes need a scale_out fabric; this machine has none")
    if nic is None and scale_out.needs_nic:
        raise TopologyError(f"{nodes} nodes need a NIC; this machine has none")
    outer = scale_out.clocked().dimension(nodes, ranks_per_node, nic, gpus)
    between = partial(scale_out.edges, nodes, ranks_per_node, nic, gpus)
    topology = Topology(ranks_per_node, nodes, inner, outer, inside, between)
    names = [d.name for d in topology.dimensions]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TopologyError(f"two dimensions are called {twice[0]}; give scale_up or scale_out other names")
    return topology


def place(ranks: int, gpus_per_node: int) -> tuple[int, int]:
    """(ranks per node, nodes) of `ranks` ranks that fill nodes: part of one node, or whole nodes.

    Raises `TopologyError` when the last node would be part full, naming the nearest counts.
    """
    if ranks < 1:
        raise TopologyError(f"{ranks} ranks: at least one is needed")
    if ranks <= gpus_per_node:
        return ranks, 1
    nodes, rest = divmod(ranks, gpus_per_node)
    if rest:
        below, above = nodes * gpus_per_node, (nodes + 1) * gpus_per_node
        raise TopologyError(
            f"{ranks} ranks do not fill nodes of {gpus_per_node} GPUs; {below} or {above} do, "
            "or use fewer GPUs of each node"
        )
    return gpus_per_node, nodes


def _in_nodes(scale_up: ScaleUp, ranks_per_node: int, nodes: int) -> list[Edge]:
    edges = scale_up.working(ranks_per_node)
    return [_shifted(edge, node, ranks_per_node) for node in range(nodes) for edge in edges]


def _shifted(edge: Edge, node: int, ranks_per_node: int) -> Edge:
    """A node's edge with its GPUs renumbered to ranks and its switches named after the node."""

    def end(x: int | str) -> int | str:
        return x + node * ranks_per_node if isinstance(x, int) else f"node {node} {x}"

    return edge._replace(a=end(edge.a), b=end(edge.b))
