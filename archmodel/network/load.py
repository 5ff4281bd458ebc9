"""Bytes on every link, from bytes between pairs of ranks.

Messages inside a node stay on its links, messages between nodes on the links between nodes, over shortest paths that
share what they carry (`Graph`). Where those alone do not join the two ends (a torus of nodes for each local index),
messages between nodes may take any link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from archmodel.network.errors import TopologyError
from archmodel.network.graph import Edge, End, Graph, wires_of
from archmodel.network.topology import Topology
from archmodel.quantities import Array


@dataclass(frozen=True, slots=True)
class LinkLoads:
    """Directed links: `ends` (from, to), `bytes` and `bandwidth` (B/s), (links,). The first `inside` are in nodes."""

    ends: tuple[tuple[End, End], ...]
    bytes: Array
    bandwidth: Array
    inside: int

    @property
    def seconds(self) -> Array:
        """What each link needs for its bytes at line rate, (links,)."""
        return self.bytes / self.bandwidth


def link_loads(
    topology: Topology, pairs: Array, to_switch: Array | None = None, from_switch: Array | None = None
) -> LinkLoads:
    """Loads of messages `pairs[i, j]` (ranks, ranks). `to_switch`, `from_switch` (ranks,): what a rank sends to, and
    gets from, the switches of its node that it hangs on, by their bandwidth (reductions in the network).

    Raises `TopologyError` for ranks that no path joins, and for bytes to a switch where there is none.
    """
    n, local = topology.ranks, topology.local_size
    node = np.arange(n) // local
    near = node[:, None] == node
    inner = _in_nodes(topology, np.where(near, pairs, 0.0))
    if to_switch is not None and from_switch is not None:
        inner = _with_switches(inner, local, n, to_switch, from_switch)
    if topology.nodes == 1:
        return inner
    return _joined(inner, _between(topology, np.where(near, 0.0, pairs)))


def _in_nodes(topology: Topology, pairs: Array) -> LinkLoads:
    """All nodes are alike: routes of one, for each."""
    nodes, local = topology.nodes, topology.local_size
    edges = topology.inside()
    each = len(edges) // nodes
    graph = Graph(wires_of(local, (_in_first(edge) for edge in edges[:each])))
    own = np.arange(nodes)
    by_node = pairs.reshape(nodes, local, nodes, local)[own, :, own, :]
    carried = graph.carried(by_node)
    w = graph.wires
    names = [[v + m * local if isinstance(v, int) else f"node {m} {v}" for v in w.names] for m in range(nodes)]
    ends = tuple((row[a], row[b]) for row in names for a, b in zip(w.tail.tolist(), w.head.tolist(), strict=True))
    return LinkLoads(ends, carried.ravel(), np.tile(w.width * float(np.mean(w.scale)), nodes), len(ends))


def _in_first(edge: Edge) -> Edge:
    a, b = (x if isinstance(x, int) else x.removeprefix("node 0 ") for x in (edge.a, edge.b))
    return edge._replace(a=a, b=b)


def _between(topology: Topology, pairs: Array) -> LinkLoads:
    try:
        graph = Graph(wires_of(topology.ranks, topology.between()))
    except TopologyError:
        graph = topology.routes()
    w = graph.wires
    ends = tuple((w.names[a], w.names[b]) for a, b in zip(w.tail.tolist(), w.head.tolist(), strict=True))
    return LinkLoads(ends, graph.carried(pairs), w.width * float(np.mean(w.scale)), 0)


def _joined(inner: LinkLoads, outer: LinkLoads) -> LinkLoads:
    """Both, links that are in both once."""
    place = {ends: i for i, ends in enumerate(inner.ends)}
    new = [i for i, ends in enumerate(outer.ends) if ends not in place]
    total = inner.bytes.copy()
    for i, ends in enumerate(outer.ends):
        if ends in place:
            total[place[ends]] += outer.bytes[i]
    return LinkLoads(
        inner.ends + tuple(outer.ends[i] for i in new),
        np.concatenate([total, outer.bytes[new]]),
        np.concatenate([inner.bandwidth, outer.bandwidth[new]]),
        inner.inside,
    )


def _with_switches(found: LinkLoads, local: int, ranks: int, sent: Array, received: Array) -> LinkLoads:
    total = found.bytes.copy()
    for amount, side in ((sent, 0), (received, 1)):
        links = [i for i, ends in enumerate(found.ends) if isinstance(ends[1 - side], str)]
        of = np.array([ends[side] if isinstance(ends[side], int) else -1 for ends in (found.ends[i] for i in links)])
        mine = np.array(links, dtype=np.int64)[of >= 0]
        of = of[of >= 0].astype(np.int64)
        width = found.bandwidth[mine]
        all_of = np.bincount(of, weights=width, minlength=ranks)
        if np.any((amount > 0) & (all_of == 0)):
            raise TopologyError("bytes go to a switch of the node, which has none")
        total[mine] += amount[of] * width / all_of[of]
    return replace(found, bytes=total)
