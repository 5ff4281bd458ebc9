"""What a Program needs of each memory tier, per rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archmodel.program import Program, Tier
from archmodel.quantities import Array, Num

LIVE_ROLES = ("activation", "communication")
"""Roles of buffers that are held only while some op still needs them."""


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of one tier: `parts` by role (ranks,), their sum `need` (ranks,), and the `capacity` of one rank."""

    tier: Tier
    parts: Mapping[str, Array]
    capacity: Num
    devices: int = 1

    @property
    def shared(self) -> bool:
        """Whether the devices of a node share it."""
        return self.tier != "hbm"

    @property
    def remedy(self) -> str:
        """The smallest change of this tier that would make the worst rank or node fit; empty when it does."""
        least = float(np.min(np.asarray(self.capacity)))
        over = self.worst - least
        if over <= 0:
            return ""
        if self.shared:
            node = self.worst_rank // self.devices
            return f"{over * self.devices / 1e9:,.1f} GB more of {self.tier} on node {node} would hold it"
        return f"{over / 1e9:,.1f} GB more of {self.tier} on rank {self.worst_rank} would hold it"

    @property
    def need(self) -> Array:
        """Bytes needed on each rank, (ranks,)."""
        return np.asarray(sum(self.parts.values(), np.zeros(1)))

    @property
    def worst_rank(self) -> int:
        """Rank that needs most."""
        return int(np.broadcast_to(self.need, np.shape(self.need)).argmax())

    @property
    def worst(self) -> float:
        """Bytes needed on the worst rank."""
        return float(self.need.max())

    @property
    def fits(self) -> bool | np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether the worst rank's need is within capacity; an array over design points when capacity is one."""
        fits = self.worst <= np.asarray(self.capacity)
        return bool(fits) if fits.ndim == 0 else fits[..., 0]

    @property
    def overflow(self) -> str:
        """What takes most on the worst rank: "parameter 31.2 GB, activation 8.1 GB" (bytes by role, largest first)."""
        worst = self.worst_rank
        rows = sorted(((float(_at(v, worst)), k) for k, v in self.parts.items()), reverse=True)
        return ", ".join(f"{k} {v / 1e9:.1f} GB" for v, k in rows if v > 0)


def _at(values: Array, rank: int) -> float:
    return float(values[rank] if len(values) > 1 else values[0])


def needs(program: Program, capacity: Mapping[Tier, Num], reserved: Mapping[Tier, Num]) -> dict[str, MemoryNeed]:
    """Need of every tier that the system has or the program uses.

    Parameters, optimizer state, caches, gradients and inputs are held throughout; activations and communication buffers
    from the first op that writes them to the last that uses them, of which the peak counts. Every memory but HBM is the
    node's: a rank needs its share of what all of its node do.
    """
    tiers: list[Tier] = [*capacity, *dict.fromkeys(b.tier for b in program.buffers.values() if b.tier not in capacity)]
    found = {}
    for tier in tiers:
        parts = {**_held(program, tier), **_reserved(reserved, tier)}
        if tier != "hbm":
            parts = {role: _node_mean(amount, program.layout.local_size) for role, amount in parts.items()}
        found[tier] = MemoryNeed(tier, parts, capacity.get(tier, 0.0), program.layout.local_size)
    return found


def _node_mean(amount: Array, devices: int) -> Array:
    """The mean over each node, on every rank of it."""
    if len(amount) == 1 or devices == 1:
        return amount
    return np.asarray(np.repeat(amount.reshape(-1, devices).mean(1), devices))


def _reserved(reserved: Mapping[Tier, Num], tier: Tier) -> dict[str, Array]:
    amount = np.atleast_1d(np.asarray(reserved.get(tier, 0.0), dtype=np.float64))
    return {"reserved": amount} if amount.any() else {}


def _held(program: Program, tier: Tier) -> dict[str, Array]:
    parts: dict[str, Array] = {}
    for b in program.buffers.values():
        if b.tier == tier and b.role not in LIVE_ROLES:
            parts[b.role] = parts.get(b.role, np.zeros(1)) + b.bytes
    if tier == "hbm":
        parts["activation"] = peak_live(program)
    return parts


def peak_live(program: Program) -> Array:
    """Most bytes of activations and communication buffers alive at once, (ranks,) or (1,)."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, op in enumerate(program.ops):
        for name in (*op.writes, *op.reads):
            first.setdefault(name, i)
            last[name] = i
    live = {n: b for n, b in program.buffers.items() if b.role in LIVE_ROLES and n in first}
    width = max((len(b.elements) for b in live.values()), default=1)
    change = np.zeros((len(program.ops) + 1, width))
    for name, b in live.items():
        change[first[name]] += b.bytes
        change[last[name] + 1] -= b.bytes
    named = np.asarray(np.cumsum(change, axis=0).max(0))
    unnamed = sum((b.bytes for n, b in program.buffers.items() if b.role in LIVE_ROLES and n not in first), np.zeros(1))
    return np.asarray(named + unnamed)
