"""A lower bound on the largest rank's cost that knows about memory.

If a plan of value V fits, it uses only options whose shards cost at most V, its costs add up to at most ranks x V, and
its bytes to at most the sum of all limits. So with multipliers m >= 0 per tier, for every such plan

    ranks x V >= base + sum over tables of min over options with cost <= V of (work + m . bytes) - m . limits = g(V, m).

g falls as V grows, so no plan lies below the V where ranks x V meets g. Any m gives a valid bound (weak duality); the
search below looks for a good one. Everett, Generalized Lagrange Multiplier Method, Operations Research 11 (1963).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Array
from archmodel.search.options import IntArray, NoPlan, Options

_BISECTIONS = 24
_ROUNDS = 8
_QUADRUPLINGS = 12
"""Prices of bytes stay below 4^12 times the largest work per byte, so that rounding cannot matter in a bound."""


@dataclass(frozen=True)
class Bound:
    """The bound, the multipliers (tiers,) that prove it, and the options (T,) that the relaxed problem chooses."""

    value: float
    multipliers: Array
    slot: IntArray


def relaxed(
    options: Options, limit: float, multipliers: Array, cost_limit: Array | None = None
) -> tuple[IntArray, Array]:
    """Cheapest options (T,) with shards that cost at most `limit`, bytes priced by `multipliers`; their prices (T,)."""
    price = options.work + options.bytes @ multipliers if multipliers.any() else options.work
    price = np.where(options.cost <= (limit if cost_limit is None else cost_limit), price, np.inf)
    slot = price.argmin(1)
    return slot, price[np.arange(len(slot)), slot]


def dual(options: Options, limit: float, multipliers: Array) -> float:
    """g / ranks: no plan whose shards cost at most `limit` is below this."""
    _, price = relaxed(options, limit, multipliers)
    return float((options.start.sum() + price.sum() - multipliers @ options.limits.sum(0)) / options.ranks)


def lower_bound(options: Options) -> Bound:
    """The best bound that bisection over V and coordinate search over multipliers find."""
    tiers = options.limits.shape[1]
    if not len(options.names):
        return Bound(float(options.start.max(initial=0.0)), np.zeros(tiers), np.zeros(0, dtype=np.int64))
    floor = float(options.start.min() + options.cost.min(1).max())
    floor = max(floor, float(options.start.max()))
    slack = float(options.start.min())
    multipliers = prices(options, np.inf)
    low, previous = floor, -1.0
    for _ in range(_ROUNDS):
        low = max(low, _crossing(options, floor, slack, multipliers))
        if low <= previous * (1 + 1e-6) or not multipliers.any():
            break
        previous = low
        better = prices(options, low - slack)
        if np.allclose(better, multipliers, rtol=1e-9):
            break
        multipliers = better
    reach = max(low - slack, float(options.cost.min(1).max())) * (1 + 1e-6)
    slot, _ = relaxed(options, reach, multipliers)
    return Bound(low, multipliers, slot)


def _crossing(options: Options, floor: float, slack: float, multipliers: Array) -> float:
    """Least V, from below, where g(V)/ranks <= V."""
    low, high = floor, dual(options, floor - slack, multipliers)
    if high <= low:
        return low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        reached = dual(options, middle - slack, multipliers)
        if reached > middle:
            low = middle
        else:
            high = middle
        if high - low <= 1e-9 * high:
            break
    # options allowed at `high` are all that a plan below `high` can use
    return max(low, min(high, dual(options, high - slack, multipliers)))


def prices(options: Options, limit: float) -> Array:
    """Prices of bytes at which the relaxed problem's memory just fits: one tier after the other, twice round."""
    total = options.limits.sum(0)
    multipliers = np.zeros(len(total))
    used = _used(options, limit, multipliers)
    if (used <= total).all():
        return multipliers
    for _ in range(2):
        for k in range(len(total)):
            multipliers[k] = 0.0
            if _used(options, limit, multipliers)[k] <= total[k]:
                continue
            multipliers[k] = _least_price(options, limit, multipliers, k, float(total[k]))
    return multipliers


def _used(options: Options, limit: float, multipliers: Array) -> Array:
    slot, _ = relaxed(options, limit, multipliers)
    return np.asarray(options.bytes[np.arange(len(slot)), slot].sum(0))


def _least_price(options: Options, limit: float, multipliers: Array, k: int, total: float) -> float:
    trial = multipliers.copy()
    finite = np.isfinite(options.work)
    low, high = 0.0, float(options.work[finite].max(initial=1.0)) / max(total, 1.0)
    for _ in range(_QUADRUPLINGS):
        trial[k] = high
        if _used(options, limit, trial)[k] <= total:
            break
        low, high = high, high * 4
    else:
        return low  # it never fits: any price is a valid bound; the solver says what is to blame
    for _ in range(40):
        trial[k] = 0.5 * (low + high)
        low, high = (low, trial[k]) if _used(options, limit, trial)[k] <= total else (trial[k], high)
        if high - low <= 1e-7 * high:
            break
    return high


def blame(options: Options) -> NoPlan:
    """Why no plan fits: a table that no option of fits anywhere, or memories that are too small in total."""
    room = options.limits.max(0)
    valid = np.isfinite(options.cost)
    fits = valid & (options.memory <= room).all(2)
    bad = np.flatnonzero(~fits.any(1))
    gib, names = 1024.0**3, options.tiers
    if len(bad):
        t, tiers = int(bad[0]), len(names)
        used = options.memory[t, :, :tiers] / np.maximum(room[:tiers], 1.0)
        nearest = int(np.where(valid[t], used.max(1), np.inf).argmin())
        k = int(used[nearest].argmax())
        least = options.memory[t, nearest, k] / gib
        return NoPlan(
            f"table {options.names[t]} fits nowhere: its smallest shard needs {least:.2f} GiB of {names[k]} "
            f"({options.kinds[nearest]}, {options.kernels[nearest]}), a rank has {room[k] / gib:.2f} GiB for shards; "
            "allow more kinds or kernels (row_wise, a host-memory kernel), or more memory per rank"
        )
    held = np.where(valid[..., None], options.bytes, np.inf)[..., : len(names)]
    total = options.limits.sum(0)[: len(names)] / gib
    there = " and ".join(f"{amount:.2f} GiB of {name}" for name, amount in zip(names, total, strict=True))
    return NoPlan(
        f"no plan was found that fits: all tables at their smallest need {held[..., 0].min(1).sum() / gib:.2f} GiB of "
        f"{names[0]}, or {held.sum(2).min(1).sum() / gib:.2f} GiB of all memories together; {options.ranks} ranks have "
        f"{there} for shards; allow host-memory kernels, or more ranks"
    )
