"""Names of collectives, algorithms and fidelities, and the errors for names that do not serve."""

from __future__ import annotations

from typing import Literal

from archmodel.errors import ArchmodelError, suggestion

Kind = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
Algorithm = Literal["ring", "tree", "direct", "hierarchical", "in_network"]
Fidelity = Literal["alpha_beta", "protocol"]

SERVES: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "tree", "direct", "hierarchical", "in_network"),
    "reduce_scatter": ("ring", "direct", "hierarchical"),
    "all_gather": ("ring", "direct", "hierarchical"),
    "all_to_all": ("direct", "hierarchical"),
}
"""Algorithms that can carry out each kind."""

LIBRARY: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "tree", "in_network"),
    "reduce_scatter": ("ring",),
    "all_gather": ("ring",),
    "all_to_all": ("direct",),
}
"""Algorithms that a collective library (NCCL) chooses among by itself: what `auto` means."""

FIDELITIES: tuple[Fidelity, ...] = ("alpha_beta", "protocol")


class CollectiveError(ArchmodelError, ValueError):
    """A collective that cannot be priced as asked; the message names what can."""


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
        raise CollectiveError(f"{algorithm} does not carry out {kind}; {', '.join(SERVES[kind])} do")


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
