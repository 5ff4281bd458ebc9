"""Names of collectives, algorithms and fidelities, and the errors for names that do not serve."""

from __future__ import annotations

from typing import Literal

from archmodel.errors import ArchmodelError, suggestion

Kind = Literal[
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "point_to_point",
]
Algorithm = Literal[
    "ring",
    "bidirectional_ring",
    "tree",
    "double_binary_tree",
    "halving_doubling",
    "direct",
    "hierarchical",
    "in_network",
]
Fidelity = Literal["alpha_beta", "link_load", "protocol"]

_SCATTERING = ("ring", "bidirectional_ring", "halving_doubling", "direct", "hierarchical")
SERVES: dict[str, tuple[str, ...]] = {
    "all_reduce": (
        "ring",
        "bidirectional_ring",
        "tree",
        "double_binary_tree",
        "halving_doubling",
        "direct",
        "hierarchical",
        "in_network",
    ),
    "reduce_scatter": _SCATTERING,
    "all_gather": _SCATTERING,
    "all_to_all": ("direct", "hierarchical"),
    "broadcast": ("ring", "double_binary_tree", "direct", "in_network"),
    "reduce": ("ring", "double_binary_tree", "direct", "in_network"),
    "gather": ("direct",),
    "scatter": ("direct",),
    "point_to_point": ("direct",),
}
"""Algorithms that can carry out each kind."""

LIBRARY: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "tree", "in_network"),
    "reduce_scatter": ("ring",),
    "all_gather": ("ring",),
    "all_to_all": ("direct",),
    "broadcast": ("ring",),
    "reduce": ("ring",),
    "gather": ("direct",),
    "scatter": ("direct",),
    "point_to_point": ("direct",),
}
"""Algorithms that a collective library (NCCL) chooses among by itself: what `auto` means."""

ROOTED = ("broadcast", "reduce", "gather", "scatter")
"""Kinds in which one rank, the root, differs from the others."""

FIDELITIES: tuple[Fidelity, ...] = ("alpha_beta", "link_load", "protocol")


class CollectiveError(ArchmodelError, ValueError):
    """A collective that cannot be priced as asked; the message names what can."""


def switch_saves(ranks: int, fraction: float) -> float:
    """Buffers that a rank sends less, in time of a ring's rate, when the switch reduces at `fraction` of that rate:
    2 (n - 1) / n by the ring, (1 + 1 / n) / fraction by the switch. Below 0 the library takes the ring."""
    return 2.0 * (ranks - 1) / ranks - (1.0 + 1.0 / ranks) / fraction


def check_kind(kind: str) -> None:
    """Raises `CollectiveError` for an unknown kind."""
    if kind not in SERVES:
        raise CollectiveError(f"no collective is called {kind!r}; {suggestion(kind, SERVES)}")


def check_algorithm(kind: str, algorithm: str) -> None:
    """Raises `CollectiveError` for an unknown algorithm, or one that does not carry out `kind`."""
    check_kind(kind)
    known = {name: None for names in SERVES.values() for name in names}
    if algorithm not in known:
        choices = ("auto", *known)
        raise CollectiveError(f"no algorithm is called {algorithm!r}; {suggestion(algorithm, choices)}")
    if algorithm not in SERVES[kind]:
        verb = "does" if len(SERVES[kind]) == 1 else "do"
        raise CollectiveError(f"{algorithm} does not carry out {kind}; {', '.join(SERVES[kind])} {verb}")


def check_fidelity(fidelity: str) -> None:
    """Raises `CollectiveError` for an unknown fidelity."""
    if fidelity not in FIDELITIES:
        raise CollectiveError(f"no fidelity is called {fidelity!r}; {suggestion(fidelity, FIDELITIES)}")


def check_extent(algorithm: str, nodes: int) -> None:
    """Raises `CollectiveError` for an algorithm that cannot serve a group over `nodes` nodes."""
    if algorithm == "in_network" and nodes > 1:
        raise CollectiveError(
            f"in_network reduces inside the switch of one node; this group spans {nodes} nodes "
            "(ring, tree, direct or hierarchical serve it)"
        )
