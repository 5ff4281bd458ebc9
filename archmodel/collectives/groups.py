"""Who takes part: a part of the topology by name, or any ranks.

A named group ("world", "node", "rail", or dimensions joined by +) is one of equal groups that tile the machine and
act at once. A list of ranks is one group by itself; a list of lists, several disjoint ones that act at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from archmodel.collectives.kinds import CollectiveError
from archmodel.network.topology import Topology

Ints = npt.NDArray[np.int64]
Group = str | Sequence[int] | Sequence[Sequence[int]]
"""A name, ranks, or several lists of ranks."""

SHOWN = 8
"""Ranks that a label lists before it counts."""


@dataclass(frozen=True, eq=False, slots=True)
class Placement:
    """How a group sits on nodes: `blocks` blocks of `local` ranks each, a block inside one node.

    Where its nodes hold equally many of its ranks, a block is all of a node's (`blocks == nodes`). Elsewhere `local`
    is the largest number that divides the ranks on each node. `members` (n,) are the ranks, node by node (None for a
    named group), `first` the position among them of the one that was listed first: the root of rooted kinds.
    """

    local: int
    blocks: int
    nodes: int
    label: str
    members: Ints | None = None
    first: int = 0

    @property
    def size(self) -> int:
        """Ranks of the group."""
        return self.local * self.blocks

    @property
    def regular(self) -> bool:
        """Equally many ranks on every node."""
        return self.blocks == self.nodes

    def node_of(self, local_size: int) -> Ints:
        """Node of each member, (n,); of a named group, with the first node called 0."""
        if self.members is not None:
            return self.members // local_size
        return np.arange(self.size) // self.local


def placements(topology: Topology, group: Group) -> list[Placement]:
    """The groups that a request names, all of one size. Raises `CollectiveError` or `TopologyError`."""
    if isinstance(group, str):
        local, nodes = topology.extent(group)
        return [Placement(local, nodes, nodes, group)]
    listed = list(group)
    if not listed:
        raise CollectiveError("a group of no ranks; list at least one")
    several = not all(isinstance(x, int | np.integer) for x in listed)
    groups = [_ranks(x, topology) for x in (listed if several else [listed])]
    _check_apart(groups)
    sizes = {len(ranks) for ranks in groups}
    if len(sizes) > 1:
        raise CollectiveError(f"groups of {' and '.join(map(str, sorted(sizes)))} ranks; price each size by itself")
    return [placed(ranks, topology.local_size) for ranks in groups]


def placed(ranks: Ints, local_size: int) -> Placement:
    """Distinct ranks, in any order, as a group."""
    members = np.sort(ranks)
    _, counts = np.unique(members // local_size, return_counts=True)
    local = gcd(*counts.tolist())
    return Placement(
        local=local,
        blocks=len(members) // local,
        nodes=len(counts),
        label=_label(ranks),
        members=members,
        first=int(np.searchsorted(members, ranks[0])),
    )


def _ranks(listed: object, topology: Topology) -> Ints:
    if isinstance(listed, str) or not isinstance(listed, Sequence | np.ndarray) or not len(listed):
        raise CollectiveError(f"{listed!r} is no group; write a name, a list of ranks, or a list of such lists")
    if not all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in listed):
        raise CollectiveError(f"a group lists {listed!r}; ranks are whole numbers")
    ranks = np.array(listed, dtype=np.int64)
    outside = ranks[(ranks < 0) | (ranks >= topology.ranks)]
    if outside.size:
        raise CollectiveError(f"a group lists rank {outside[0]}; there are ranks 0 to {topology.ranks - 1}")
    return ranks


def _check_apart(groups: Sequence[Ints]) -> None:
    found, counts = np.unique(np.concatenate(groups), return_counts=True)
    if (counts > 1).any():
        twice = int(found[counts > 1][0])
        if len(groups) == 1:
            raise CollectiveError(f"rank {twice} is listed twice")
        raise CollectiveError(
            f"rank {twice} is in two groups; groups that act at once are disjoint, price overlapping ones one by one"
        )


def _label(ranks: Ints) -> str:
    steps = np.unique(np.diff(ranks))
    if len(ranks) > 2 and len(steps) == 1:
        stride = "" if steps[0] == 1 else f" by {steps[0]}"
        return f"ranks {ranks[0]} to {ranks[-1]}{stride}"
    if len(ranks) > SHOWN:
        return f"{len(ranks)} ranks from {ranks.min()} to {ranks.max()}"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks.tolist()))}"
