"""What an algorithm asks of the network: steps and bytes per dimension, size of a message, what stays put."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from archmodel.collectives import trees, volume
from archmodel.collectives.kinds import check_algorithm, check_extent
from archmodel.network.dimension import DimensionName
from archmodel.quantities import Array, Num

Family = Literal["ring", "tree", "direct", "in_network"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Per rank, for the rank that sends most: dimensions that a group does not cross are absent.

    `steps` on the critical path (ring, tree) or messages to peers (direct); `phases` of a direct exchange;
    `message`: bytes of one step, or to one peer; `kept`: bytes copied within the rank's own memory.
    """

    family: Family
    steps: Mapping[DimensionName, int]
    sent: Mapping[DimensionName, Num]
    message: Num
    kept: Num
    phases: int = 1


def even(kind: str, algorithm: str, full_bytes: Num, local: int, nodes: int) -> Schedule:
    """Equal blocks: `full_bytes` is the buffer of all n = local * nodes ranks' blocks (all_to_all: one rank's
    input).

    Closed forms of `archmodel.collectives.volume`, per rank, with f = 2 for all-reduce and 1 otherwise:

    - ring: f (n - 1)/n S in all, of which 1/local over scale-out when both dimensions are crossed
    - hierarchical: f (local - 1)/local S up, f (nodes - 1)/nodes S/local out
    - tree: 2 (local - 1)/local S up, and S/local over the double tree of the nodes out (busiest member)
    - direct: f (local - 1)/n S up, f (n - local)/n S out
    - in_network: (1 + 1/n) S up
    """
    check_algorithm(kind, algorithm)
    check_extent(algorithm, nodes)
    n, phases = local * nodes, _phases(kind)
    up, out = _even_bytes(kind, algorithm, full_bytes, local, nodes)
    return Schedule(
        family=_family(algorithm, kind),
        steps=_crossed(*_steps(kind, algorithm, local, nodes), local, nodes),
        sent=_crossed(up, out, local, nodes),
        message=full_bytes / n,
        kept=0.0 if algorithm == "in_network" else full_bytes / n,
        phases=phases,
    )


def uneven(kind: str, algorithm: str, blocks: Array, local_size: int, group: str) -> Schedule:
    """Blocks of any sizes (..., ranks), in bytes; sent and kept are those of the busiest rank, (..., 1)."""
    grid = volume.partition(blocks, local_size, group)
    nodes, local = grid.shape[-2:]
    sent = volume.sent_bytes(kind, algorithm, blocks, local_size, group)
    busiest = {name: _most(amount) for name, amount in sent.items()}
    largest = _most(blocks)
    return Schedule(
        family=_family(algorithm, kind),
        steps=_crossed(*_steps(kind, algorithm, local, nodes), local, nodes),
        sent=_crossed(busiest["scale_up"], busiest["scale_out"], local, nodes),
        message=largest,
        kept=np.zeros_like(largest) if algorithm == "in_network" else largest,
        phases=_phases(kind),
    )


def _phases(kind: str) -> int:
    return 2 if kind == "all_reduce" else 1


def _family(algorithm: str, kind: str) -> Family:
    if algorithm == "hierarchical":
        return "direct" if kind == "all_to_all" else "ring"
    families: dict[str, Family] = {
        "ring": "ring",
        "tree": "tree",
        "direct": "direct",
        "in_network": "in_network",
    }
    return families[algorithm]


def _even_bytes(kind: str, algorithm: str, s: Num, local: int, nodes: int) -> tuple[Num, Num]:
    n, f = local * nodes, _phases(kind)
    if algorithm == "ring":
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


def _steps(kind: str, algorithm: str, local: int, nodes: int) -> tuple[int, int]:
    """Steps on the critical path in each dimension; a ring leaves a node f (nodes - 1) times on its way."""
    n, f = local * nodes, _phases(kind)
    if algorithm == "direct":
        return f * (local - 1), f * (n - local)
    if algorithm == "in_network":
        return 2, 0
    if algorithm == "tree":
        return 2 * (local - 1), 2 * trees.depth(nodes)
    if algorithm == "ring":
        return f * (n - nodes), f * (nodes - 1)
    return f * (local - 1), f * (nodes - 1)


def _crossed(up: T, out: T, local: int, nodes: int) -> dict[DimensionName, T]:
    crossed: dict[DimensionName, T] = {}
    if local > 1:
        crossed["scale_up"] = up
    if nodes > 1:
        crossed["scale_out"] = out
    return crossed


def _most(amount: Array) -> Array:
    most: Array = amount.max(axis=-1, keepdims=True)
    return most
