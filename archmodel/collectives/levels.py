"""The dimensions that a group's collective runs over, with the rates that this group finds on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from archmodel.collectives.groups import Placement
from archmodel.network.dimension import Dimension
from archmodel.network.product import joined
from archmodel.network.topology import GROUPS, Topology
from archmodel.quantities import Num


def levels_of(topology: Topology, group: Placement) -> list[Dimension]:
    """In the node, and between nodes, as the group sees them: what a flat algorithm (ring, tree, direct) uses."""
    if group.members is not None:
        return [_narrowed(topology, group), *topology.levels[1:]]
    if group.label in GROUPS:
        return list(topology.levels)
    found = []
    for level in topology.levels:
        axes = [d for d in topology.spanned(group.label) if d.level == level.name]
        if len(axes) == 1:
            found.append(replace(axes[0], name=level.name, axes=()))
        elif axes:
            constants = {"efficiency": level.efficiency, "overhead": level.overhead}
            found.append(joined(level.name, level.kind, axes, level.level, constants))
    return found


def spanned_by(topology: Topology, group: Placement) -> list[Dimension]:
    """All dimensions of more than one of the group's ranks, inner to outer: what hierarchical goes through."""
    if group.members is None:
        crossed = list(topology.spanned(group.label))
        if group.label not in GROUPS or any(level.axes for level in topology.levels):
            return crossed
    inner, *outer = levels_of(topology, group)
    sized = [replace(inner, size=group.local, axes=())] if group.local > 1 else []
    if group.nodes > 1:
        sized += [replace(d, size=group.blocks, axes=()) for d in outer]
    elif group.blocks > 1:  # unequal nodes cannot be on one node
        raise AssertionError("a group on one node is one block")
    return sized


def _narrowed(topology: Topology, group: Placement) -> Dimension:
    """The node's fabric at the rates that rings and exchanges among these ranks find on its links.

    Ranks that stand next to each other in the group need not be neighbours: their messages take the shortest paths, and
    where the fabric has links that the group cannot use, they are not counted. Worst over nodes.
    """
    d, members = topology.scale_up, group.members
    assert members is not None
    if d.shape is None or group.size == topology.ranks:
        return d
    rings, both, direct = [], [], []
    hops: list[Num] = []
    seen: set[tuple[int, ...]] = set()
    for node in np.unique(members // topology.local_size):
        here = members[members // topology.local_size == node] % topology.local_size
        key = tuple(here.tolist())
        if len(here) < 2 or key in seen:
            continue
        seen.add(key)
        after = np.roll(here, -1)
        ring = d.shape.between(here, after)
        twice = d.shape.between(np.concatenate([here, after]), np.concatenate([after, here]), 0.5)
        pairs = ~np.eye(len(here), dtype=bool)
        source, target = (x[pairs] for x in np.meshgrid(here, here, indexing="ij"))
        rings.append(1.0 / ring.seconds_per_byte)
        both.append(1.0 / twice.seconds_per_byte)
        direct.append((len(here) - 1.0) / d.shape.between(source, target).seconds_per_byte)
        hops.append(ring.latency)
    if not rings:
        return d
    latency: Num = d.latency
    for hop in hops:
        latency = np.maximum(latency, d.overhead + hop)
    return replace(
        d,
        ring_share=_least(rings, d),
        both_ways_share=_least(both, d),
        direct_share=_least(direct, d),
        latency=latency,
        axes=(),
    )


def _least(rates: list[Num], d: Dimension) -> Num:
    """The slowest, as a share of what a rank could send with all its links."""
    least: Num = rates[0]
    for rate in rates[1:]:
        least = np.minimum(least, rate)
    return np.minimum(1.0, least / d.bandwidth)
