"""What an iteration puts on every link of the machine: the messages of its collectives, on their routes."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from archmodel.collectives.between import pairs_of
from archmodel.network.load import LinkLoads, link_loads
from archmodel.network.topology import Topology
from archmodel.program import AllToAll, Collective, Layout, OuterTraffic, PairTraffic, Work
from archmodel.quantities import Array, itemsize

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

MOST_RANKS = 1024
"""Ranks of a machine whose messages are routed one by one."""


def iteration_loads(estimate: Estimate) -> tuple[LinkLoads, float]:
    """Bytes on every link in one iteration, and bytes sent by works whose messages are not known (of a kind that has no
    `messages`). What all ranks send together is what the Program's `wire_bytes` are."""
    program, system = estimate.program, estimate.design.system
    topology = system.topology(program.ranks)
    pairs = np.zeros((program.ranks, program.ranks))
    switched = np.zeros(program.ranks)
    unknown = 0.0
    for op in program.ops:
        wires = op.work.wire_bytes()
        if not wires:
            continue
        if getattr(op.work, "algorithm", "") == "in_network":
            switched += wires["scale_up"]
            continue
        found = messages(op.work, topology, system.node.endpoint is not None)
        if found is None:
            unknown += sum(float(np.sum(np.broadcast_to(amount, program.ranks))) for amount in wires.values())
        else:
            pairs += found
    extra = (switched, switched) if switched.any() else (None, None)
    return link_loads(topology, pairs, *extra), unknown


@singledispatch
def messages(work: Work, topology: Topology, driven: bool) -> Array | None:
    """Bytes (ranks, ranks) from rank to rank; None for a kind of work that does not tell. `driven`: by an endpoint,
    which goes through the dimensions of a product one by one."""
    return None


@messages.register
def _(work: Collective, topology: Topology, driven: bool) -> Array | None:
    axes: list[int] = []
    if (driven or work.algorithm == "hierarchical") and any(level.axes for level in topology.levels):
        axes = [d.size for d in topology.spanned(work.group)]
    members = work.layout.members(work.group)  # whole elements: blocks are cut into stripes of them
    return pairs_of(topology, work.kind, work.algorithm, work.blocks, members, axes) * itemsize(work.dtype)


@messages.register
def _(work: AllToAll, topology: Topology, driven: bool) -> Array | None:
    traffic, layout = work.traffic, work.layout
    if isinstance(traffic, OuterTraffic):
        pairs = np.broadcast_to(traffic.send, layout.ranks)[:, None] * np.broadcast_to(traffic.receive, layout.ranks)
    elif isinstance(traffic, PairTraffic):
        pairs = traffic.pairs
    else:
        return None
    return np.where(_together(work, layout) & ~np.eye(layout.ranks, dtype=bool), pairs, 0.0)


def _together(work: AllToAll, layout: Layout) -> Array:
    """Whether two ranks are in one group, (ranks, ranks)."""
    rank = np.arange(layout.ranks)
    of = {"world": 0 * rank, "node": rank // layout.local_size, "rail": rank % layout.local_size}[work.group]
    return np.asarray(of[:, None] == of)
