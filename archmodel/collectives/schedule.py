"""What an algorithm asks of the network: steps and bytes per dimension, size of a message, what stays put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np

from archmodel.collectives import flows, paths, trees, volume
from archmodel.collectives.groups import Placement
from archmodel.collectives.kinds import ROOTED, CollectiveError, check_algorithm, check_extent
from archmodel.network.dimension import Dimension, DimensionName
from archmodel.quantities import Array, Num

Family = Literal["ring", "both_ways", "tree", "direct", "exchange", "in_network"]

T = TypeVar("T")

FAMILIES: dict[str, Family] = {
    "ring": "ring",
    "bidirectional_ring": "both_ways",
    "tree": "tree",
    "double_binary_tree": "tree",
    "halving_doubling": "exchange",
    "direct": "direct",
    "hierarchical": "ring",
    "in_network": "in_network",
}
"""How an algorithm uses links: which of a dimension's rates it gets, and what a step costs."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Per rank, for the rank that sends (or receives) most: dimensions that a group does not cross are absent.

    `steps` on the critical path (ring, tree) or messages to peers (direct); `phases` of a direct exchange;
    `message`: bytes of one step, or to one peer; `kept`: bytes copied within the rank's own memory; `gathering`:
    share of the steps that gather. `serial`: bytes on the critical path of steps that wait for each other, in
    which dimensions do not overlap (halving-doubling). `relayed`: a rank passes bytes on while they arrive
    (broadcast, reduce), and has no block of its own to send first.
    """

    family: Family
    steps: Mapping[DimensionName, int]
    sent: Mapping[DimensionName, Num]
    message: Num
    kept: Num
    phases: int = 1
    gathering: float = 0.0
    serial: Mapping[DimensionName, Num] | None = None
    relayed: bool = False


def even(kind: str, algorithm: str, full_bytes: Num, local: int, nodes: int) -> Schedule:
    """Equal blocks on `nodes` nodes of `local` ranks: `for_group` of a regular group."""
    return for_group(kind, algorithm, full_bytes, Placement(local, nodes, nodes, "world"), local)


def for_group(kind: str, algorithm: str, full_bytes: Num, group: Placement, local_size: int) -> Schedule:
    """Equal blocks: `full_bytes` is the buffer of all n ranks' blocks (all_to_all, broadcast, reduce, point_to_point:
    one rank's buffer).

    Closed forms of `archmodel.collectives.volume`, per rank, with n = local * nodes, f = 2 for all-reduce and 1
    otherwise:

    - ring, bidirectional_ring: f (n - 1)/n S in all, of which 1/local over scale-out when both are crossed
    - hierarchical: f (local - 1)/local S up, f (nodes - 1)/nodes S/local out
    - tree: 2 (local - 1)/local S up, and S/local over the double tree of the nodes out (busiest member)
    - direct: f (local - 1)/n S up, f (n - local)/n S out
    - in_network: (1 + 1/n) S up
    - broadcast and reduce: S along the ring; direct: S to (from) each other rank
    - gather and scatter: the blocks of all others, at the root

    Trees over all ranks, halving-doubling and groups with unequal nodes are counted by `flows`.
    """
    check_algorithm(kind, algorithm)
    check_extent(algorithm, group.nodes)
    if kind == "point_to_point" and group.size != 2:
        raise CollectiveError(
            f"point_to_point joins two ranks; this group has {group.size}: write group=[source, target]"
        )
    n = group.size
    up, out = _bytes(kind, algorithm, full_bytes, group, local_size)
    whole = kind in ("broadcast", "reduce", "point_to_point")
    return Schedule(
        family=_family(algorithm, kind),
        steps=_crossed(*_steps(kind, algorithm, group, local_size), group),
        sent=_crossed(up, out, group),
        message=full_bytes if whole else full_bytes / n,
        kept=0.0 * full_bytes if whole or algorithm == "in_network" else full_bytes / n,
        phases=_phases(kind),
        gathering=_gathering(kind),
        serial=_serial(kind, algorithm, full_bytes, group, local_size),
        relayed=whole,
    )


def over_dimensions(kind: str, full_bytes: Num, crossed: Sequence[Dimension]) -> Schedule:
    """Hierarchical over any number of dimensions, inner to outer: f (n_d - 1)/n_d S / prod_{j<d} n_j in each; an
    all-to-all sends (n_d - 1)/n_d S in each, all there is being passed on."""
    check_algorithm(kind, "hierarchical")
    f, left = _phases(kind), full_bytes
    sent: dict[str, Num] = {}
    for d in crossed:
        sent[d.name] = f * (d.size - 1) / d.size * left
        if kind != "all_to_all":
            left = left / d.size
    ranks = int(np.prod([d.size for d in crossed]))
    return Schedule(
        family=_family("hierarchical", kind),
        steps={d.name: f * (d.size - 1) for d in crossed},
        sent=sent,
        message=full_bytes / ranks,
        kept=full_bytes / ranks,
        phases=f,
        gathering=_gathering(kind),
    )


def uneven(kind: str, algorithm: str, blocks: Array, local_size: int, group: str) -> Schedule:
    """Blocks of any sizes (..., ranks), in bytes; sent and kept are those of the busiest rank, (..., 1)."""
    grid = volume.partition(blocks, local_size, group)
    nodes, local = grid.shape[-2:]
    sent = volume.sent_bytes(kind, algorithm, blocks, local_size, group)
    busiest = {name: _most(amount) for name, amount in sent.items()}
    largest = _most(blocks)
    named = Placement(local, nodes, nodes, group)
    serial = None
    if algorithm == "halving_doubling":
        totals = grid.sum(axis=(-2, -1)).max(axis=-1, keepdims=True)
        serial = _serial(kind, algorithm, totals, named, local_size)
    return Schedule(
        family=_family(algorithm, kind),
        steps=_crossed(*_steps(kind, algorithm, named, local_size), named),
        sent=_crossed(busiest["scale_up"], busiest["scale_out"], named),
        message=largest,
        kept=np.zeros_like(largest) if algorithm == "in_network" else largest,
        phases=_phases(kind),
        gathering=_gathering(kind),
        serial=serial,
    )


def _phases(kind: str) -> int:
    return 2 if kind == "all_reduce" else 1


def _gathering(kind: str) -> float:
    return {"all_reduce": 0.5, "all_gather": 1.0}.get(kind, 0.0)


def _family(algorithm: str, kind: str) -> Family:
    if algorithm == "hierarchical" and kind == "all_to_all":
        return "direct"
    return FAMILIES[algorithm]


def _bytes(kind: str, algorithm: str, s: Num, group: Placement, local_size: int) -> tuple[Num, Num]:
    counted = algorithm in ("double_binary_tree", "halving_doubling") or not group.regular
    if not counted:
        return _closed(kind, algorithm, s, group.local, group.nodes)
    if kind == "all_to_all":
        return _irregular_exchange(algorithm, s, group, local_size)
    if group.members is None:
        up, out = _busiest_regular(kind, algorithm, group.local, group.nodes)
    else:
        up, out = _busiest(kind, algorithm, group, local_size)
    return up * s, out * s


def _closed(kind: str, algorithm: str, s: Num, local: int, nodes: int) -> tuple[Num, Num]:
    n, f = local * nodes, _phases(kind)
    if kind in ("broadcast", "reduce", "point_to_point"):
        if algorithm == "direct":
            return (local - 1) * s, (n - local) * s
        return 1.0 * s, (0.0 if nodes == 1 else 1.0) * s
    if algorithm in ("ring", "bidirectional_ring"):
        both = f * (n - 1) / n * s
        if nodes == 1:
            return both, 0.0 * s
        return both * ((local - 1) / local), both * (1 / local)
    if algorithm == "direct":
        return f * (local - 1) / n * s, f * (n - local) / n * s
    if algorithm == "in_network":
        return (1 + 1 / n) * s, 0.0 * s
    up = f * (local - 1) / local * s
    if algorithm == "tree":
        busiest = float(trees.messages(nodes).sum(axis=0).max()) / 2
        return up, busiest / local * s
    crossing = s if kind == "all_to_all" else s / local
    return up, f * (nodes - 1) / nodes * crossing


def _busiest(kind: str, algorithm: str, group: Placement, local_size: int) -> tuple[float, float]:
    """Shares of the full buffer that the busiest member sends, up and out; of rooted kinds, sends or receives."""
    node, unit = group.node_of(local_size), 2.0 * group.local  # a block that divides into stripes and halves
    wires = flows.group_bytes(kind, algorithm, np.full(group.size, unit), node, group.first)
    full = unit * group.size
    ends = 2 if kind in ROOTED else 1
    up, out = (float(max(x.max() for x in wires[name][:ends])) / full for name in ("scale_up", "scale_out"))
    return up, out


@lru_cache(maxsize=256)
def _busiest_regular(kind: str, algorithm: str, local: int, nodes: int) -> tuple[float, float]:
    return _busiest(kind, algorithm, Placement(local, nodes, nodes, ""), local)


def _irregular_exchange(algorithm: str, s: Num, group: Placement, local_size: int) -> tuple[Num, Num]:
    """All-to-all over nodes that hold unequal numbers of ranks: those with most peers on either side."""
    node = group.node_of(local_size)
    counts = np.unique(node, return_counts=True)[1]
    n, local = group.size, group.local
    if algorithm == "direct":
        return (float(counts.max()) - 1) / n * s, (n - float(counts.min())) / n * s
    blocks_here = float(counts.max()) / local  # rails stay in the node between its blocks
    up = (local - 1) / local + (blocks_here - 1) * local / n
    return up * s, (n - float(counts.min())) / n * s


def _steps(kind: str, algorithm: str, group: Placement, local_size: int) -> tuple[int, int]:
    """Steps on the critical path in each dimension; a ring leaves a node f (nodes - 1) times on its way."""
    n, f, local, nodes = group.size, _phases(kind), group.local, group.nodes
    if algorithm == "direct":
        if group.regular:
            return f * (local - 1), f * (n - local)
        counts = np.unique(group.node_of(local_size), return_counts=True)[1]
        return f * (int(counts.max()) - 1), f * (n - int(counts.min()))
    if algorithm == "in_network":
        return 2, 0
    if algorithm in ("double_binary_tree", "halving_doubling"):
        up, out = paths.steps(kind, algorithm, group, local_size)
        return up, out
    if kind in ROOTED or algorithm == "ring":
        return f * (n - nodes), f * (nodes - 1)
    if algorithm == "bidirectional_ring":
        half = n // 2
        across = 0 if nodes == 1 else min(nodes - 1, -(-half // local))
        return f * (half - across), f * across
    if algorithm == "tree":
        across = 2 * trees.depth(group.blocks)
        return (2 * (local - 1), across) if nodes > 1 else (2 * (local - 1) + across, 0)
    return f * (local - 1) + f * (group.blocks - nodes), f * (nodes - 1)


def _serial(kind: str, algorithm: str, s: Num, group: Placement, local_size: int) -> dict[DimensionName, Num] | None:
    if algorithm != "halving_doubling":
        return None
    up, out = paths.serial(kind, group, local_size)
    return _crossed(up * s, out * s, group)


def _crossed(up: T, out: T, group: Placement) -> dict[DimensionName, T]:
    crossed: dict[DimensionName, T] = {}
    if group.local > 1 or not group.regular:
        crossed["scale_up"] = up
    if group.nodes > 1:
        crossed["scale_out"] = out
    return crossed


def _most(amount: Array) -> Array:
    most: Array = amount.max(axis=-1, keepdims=True)
    return most
