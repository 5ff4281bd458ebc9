"""Where the ranks sit and what joins them: one value that collectives are priced on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from archmodel.errors import suggestion
from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import Edge, ScaleOut, ScaleUp
from archmodel.network.nic import Nic
from archmodel.quantities import Num

if TYPE_CHECKING:
    from networkx import Graph

Group = Literal["world", "node", "rail"]
GROUPS: tuple[Group, ...] = ("world", "node", "rail")
"""All ranks; the ranks of a node; the ranks of equal local index. Every node, every rail, acts at once."""


@dataclass(frozen=True, slots=True)
class Topology:
    """`nodes` nodes of `local_size` ranks each; rank = node * local_size + local index.

    `scale_up` joins the ranks of a node, `scale_out` (absent on one node) ranks of different nodes: all that
    a collective reads. `wiring` lists the links, when the graph is asked for.
    """

    local_size: int
    nodes: int
    scale_up: Dimension
    scale_out: Dimension | None
    wiring: Callable[[], list[Edge]] = list

    @property
    def ranks(self) -> int:
        return self.local_size * self.nodes

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Inner to outer."""
        return (self.scale_up,) if self.scale_out is None else (self.scale_up, self.scale_out)

    def extent(self, group: str) -> tuple[int, int]:
        """(ranks of a group in one node, nodes that it spans)."""
        if group not in GROUPS:
            raise TopologyError(f"no group is called {group!r}; {suggestion(group, GROUPS)}")
        inner = 1 if group == "rail" else self.local_size
        outer = 1 if group == "node" else self.nodes
        return inner, outer

    def bisection(self, name: str) -> Num:
        """B/s, per direction, across the narrowest even cut of one dimension."""
        for dimension in self.dimensions:
            if dimension.name == name:
                return dimension.bisection
        names = [dimension.name for dimension in self.dimensions]
        raise TopologyError(f"no dimension is called {name!r}; {suggestion(name, names)}")

    def graph(self) -> Graph[Any]:
        """A networkx graph: ranks are integers, switches strings; `bandwidth` is per direction."""
        import networkx as nx

        graph: Graph[Any] = nx.Graph()
        graph.add_nodes_from(range(self.ranks), kind="gpu")
        for a, b, bandwidth in self.wiring():
            for end in (a, b):
                graph.add_node(end, kind="gpu" if isinstance(end, int) else "switch")
            graph.add_edge(a, b, bandwidth=bandwidth)
        return graph


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
    inner = scale_up.dimension(ranks_per_node)
    if nodes == 1:
        return Topology(ranks_per_node, 1, inner, None, partial(_in_nodes, scale_up, ranks_per_node, 1))
    if scale_out is None or nic is None:
        missing = "a scale_out fabric" if scale_out is None else "a NIC"
        raise TopologyError(f"{nodes} nodes need {missing}; this machine has none")
    outer = scale_out.dimension(nodes, ranks_per_node, nic, gpus)
    wiring = partial(_everywhere, scale_up, scale_out, ranks_per_node, nodes, nic, gpus)
    return Topology(ranks_per_node, nodes, inner, outer, wiring)


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
    edges = scale_up.edges(ranks_per_node)
    return [_shifted(edge, node, ranks_per_node) for node in range(nodes) for edge in edges]


def _everywhere(
    scale_up: ScaleUp, scale_out: ScaleOut, ranks_per_node: int, nodes: int, nic: Nic, gpus: int
) -> list[Edge]:
    between = scale_out.edges(nodes, ranks_per_node, nic, gpus)
    return _in_nodes(scale_up, ranks_per_node, nodes) + between


def _shifted(edge: Edge, node: int, ranks_per_node: int) -> Edge:
    """A node's edge with its GPUs renumbered to ranks and its switches named after the node."""
    a, b, bandwidth = edge

    def end(x: int | str) -> int | str:
        return x + node * ranks_per_node if isinstance(x, int) else f"node {node} {x}"

    return end(a), end(b), bandwidth
