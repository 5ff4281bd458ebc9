# ruff: noqa: N803, N806  (JEDEC's names)
"""Closed forms for gathers of vectors: what a channel's rate and latency are bound by. All broadcast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from archmodel.memory.cache import Popularity
from archmodel.memory.dram.banks import bank_wait, found_rows, placed
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.slots import cycles_of_slots, pattern, refresh_loss, thinned
from archmodel.quantities import Array, Num

_STEPS, _ROUNDS, _FEW = 12, 10, 4


@dataclass(frozen=True, slots=True)
class GatherBound:
    """Clock cycles per vector: `parts` by resource, each as if it were the only limit, and `together`; both without
    refresh, which takes away a share of the time."""

    parts: dict[str, Num]
    together: Num
    refresh: Num

    @property
    def cycles(self) -> Array:
        """Cycles per vector."""
        return np.asarray(self.together / (1.0 - np.asarray(self.refresh)))

    def limit(self) -> str:
        """The resource that bounds a single point."""
        return max(self.parts, key=lambda name: float(self.parts[name]))


def gather_bound(
    channel: DramChannel,
    vector_bytes: Num,
    *,
    ranks: Num | None = None,
    depth: Num | None = None,
    apart: bool = False,
    popularity: Popularity | None = None,
) -> GatherBound:
    """Saturated reads of vectors at random places of `ranks` ranks that share a data bus, `depth` bursts in the queue.

    With n bursts and A activates a vector (1; n when rows are closed after every burst), Q bursts in the queue and
    k = 2 Q / (n + 1) vectors that choose among many:

        bus       = n tBL + A switch tRTRS + (n - 1) lone min(tCCD_L - tBL, tRTRS or tCCD_L - tBL for one rank)
        switch    = max((1 - 1/R)^(a k), R max(0, 1 - 4 n tBL / (A tFAW)) / (a k))
        lone      = bank_groups^(-b k / R^s)
        activates = A max(tFAW / 4, tRRD_S) / R      and (R - 1) / (2 idle) more, as ranks have different numbers
        bank      = hold / (R banks)
        column    = n tCCD_L / (R bank_groups)
        queue     = `slots.cycles_of_slots`, with the time to the first read, and waits

    idle: vectors beyond those that are being opened. switch: no waiting vector of the same rank is ready, or the rank
    has spent its activates. lone: no read of another bank group is ready, so the bursts of one vector follow each other
    (of several ranks, k less those being opened). a, b, s: `Reordering`.

    first = opened tRP + tRCD + 1, or tRCD + 1 of a closed page; opened: another row was opened since the last refresh.
    A vector waits for its bank behind all that are there, and for what is left of the hold of one that just left,
    `tail` cycles, and of those before it:

        wait    = sum_j max(0, tail - j c) s + q s / c (wait hold + own (hold - own / 2)),   q = 1 - c / (own + wait)
        crowded = d rho bus / (1 - rho),   rho = bus / c (K - 2) / (K - 1),   K = Q / n

    and c = `slots.thinned` of the largest bound (near ties counting together, a norm), as the vectors under way vary
    with those that wait for a bank. A rank that refreshes loses its open rows, `slots.refresh_loss`. d and the factor
    of that deviation: `Reordering`.

    `popularity`: of DRAM rows that differ (of all ranks; else all are alike). A row of share p finds its bank with
    s = p + (1 - p) / (R banks) of all vectors and, where rows stay open, itself still open p / s of the times.

    `apart`: the bursts of a vector lie in banks of their own, n vectors of one burst.
    """
    t, fit = channel.timing, channel.reordering
    R = np.asarray(channel.ranks if ranks is None else ranks, dtype=np.float64)
    Q = np.maximum(np.floor(np.asarray(channel.queue if depth is None else depth, dtype=np.float64)), 1.0)
    n = channel.bursts(vector_bytes)
    vectors = n if apart else np.ones_like(n)
    n = np.ones_like(n) if apart else n
    closed = channel.page == "closed"
    popular = popularity is not None and not closed
    A = n if closed else np.ones_like(n)
    step = np.asarray(max(t.tRC, t.tRCD + t.tRTP + t.tRP) if closed else t.tCCD_L, dtype=np.float64)
    banks = placed(popularity, R * channel.banks)
    R, Q, n, A = (a[..., None] for a in np.broadcast_arrays(R, Q, n, A))
    shape = np.broadcast_shapes(R.shape, banks.share.shape[:-1])

    data, gaps = _bus(channel, R, Q, n, A)
    k = np.maximum(np.floor(Q / n), 1.0)
    full = t.tRCD + 1.0 + (0.0 if closed else t.tRP)
    miss = n * step if closed else np.maximum(t.tRC, t.tRP + t.tRCD + (n - 1.0) * step + t.tRTP)
    hit = n * step if closed else n * t.tCCD_L
    others = np.maximum(np.maximum(Q / n, 1.0) - 2.0, 0.0)
    crowd = others / (others + 1.0)
    enters = pattern(np.asarray(full), step, n, Q)

    def visit(c: Array) -> tuple[Array, Array, Array, Array]:
        """At c cycles per vector: share of vectors that find their row open, cycles that the busiest bank needs, time
        of a vector alone, its wait for its bank."""
        wait = found = np.zeros((*c.shape, banks.share.shape[-1]))
        x = wait
        for _ in range(_ROUNDS if popular else _FEW):
            new, other = (found, found) if closed else found_rows(banks, c, x, hit, t.tREFI)
            found = (found + new) / 2
            hold = miss[..., None] + found * (hit - miss)[..., None]
            hits = banks.mean(found)
            own = banks.mean(other * t.tRP + (1.0 - found) * (t.tRCD + 1.0)) + (n - 1.0) * step
            own = own + hits * t.tCCD_L
            inside = np.maximum(Q / n, (own + banks.mean(wait)) / c)
            wait = bank_wait(banks, c, own, hold, np.maximum(1.0 - 1.0 / inside, 0.0))
            # the time in the queue that is no wait for banks: of the bank that bounds all, or spent by all alike
            busy = np.minimum(banks.share * hold / c[..., None], 1.0) ** fit.sharpness
            rest = np.maximum(1.0 - (banks.count * busy).sum(-1, keepdims=True), 0.0)
            queued = np.maximum(Q / n * c - own - banks.mean(wait), 0.0)[..., None]
            x = np.minimum(wait, (Q / n * c)[..., None] / banks.share) + queued * (busy / banks.share + rest)
        return banks.mean(found), (banks.share * hold).max(-1), own, banks.mean(wait)

    def limits(c: Array) -> tuple[dict[str, Array], Array, Array, Array]:
        hits, bank, own, wait = visit(c)
        parts = {
            "bus": data + gaps,
            "activates": A * (1.0 - hits) * np.maximum(t.tFAW / 4.0, t.tRRD_S) / R,
            "bank": bank,
            "column": n * t.tCCD_L / (R * channel.bank_groups),
        }
        idle = np.maximum(k - full / np.maximum.reduce(np.broadcast_arrays(*parts.values())), R)
        uneven = parts["activates"] * (1.0 + (R - 1.0) / (2.0 * idle))
        shared = _norm([parts["bus"], uneven, parts["column"]], np.where(R > 1, fit.sharpness, fit.sharpness_alone))
        rho = crowd * np.minimum(data / c, 1.0)
        first = own - (n - 1.0) * step
        parts["queue"] = cycles_of_slots(first, step, n, Q, wait, fit.crowding * rho * data / (1.0 - rho), enters)
        under_way = np.maximum((own + wait) / parts["queue"], 1.0)
        stuck = np.minimum(wait / c / under_way, 1.0)
        spread = fit.stuck * np.sqrt(stuck * (1.0 - stuck) / under_way)
        return parts, thinned(shared, parts["queue"], spread), own, hits

    def excess(u: Array) -> Array:
        parts, others, _, _ = limits(np.exp(u))
        return np.log(_norm([others, parts["bank"]], fit.sharpness)) - u

    low = np.broadcast_to(np.log(n * t.tBL), shape)
    c = np.exp(_root(excess, low, low + np.log(4.0 * (full + miss + n * step) / (n * t.tBL))))
    parts, others, own, hits = limits(c)
    closing = t.tRC - t.tRP
    rate = A * (1.0 - hits) / (R * c)
    stop = t.tRFC + t.tRP + closing + np.expm1(-rate * closing) / np.maximum(rate, 1e-30)
    lost = refresh_loss(stop, R, k, c, k * parts["queue"]) + fit.lost * own / R * np.minimum(parts["queue"] / c, 1.0)
    refreshed = [others / (1.0 - np.minimum(R * lost / t.tREFI, 0.99)), parts["bank"] / (1.0 - stop / t.tREFI)]
    together = _norm(refreshed, fit.sharpness).mean(-1)
    means = {name: vectors * np.broadcast_to(part, shape).mean(-1) for name, part in parts.items()}
    return GatherBound(means, vectors * c.mean(-1), 1.0 - c.mean(-1) / together)


def _root(falling: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where `falling` crosses 0 between `low` and `high` (Illinois method)."""
    x, side = low, np.zeros(low.shape)
    at_low, at_high = (np.clip(falling(end), -1.0, 1.0) for end in (low, high))
    for _ in range(_STEPS):
        x = low + (high - low) * at_low / np.maximum(at_low - at_high, 1e-300)
        y = np.clip(falling(x), -1.0, 1.0)
        above = y > 0.0
        at_low = np.where(above, y, at_low / np.where(side < 0.0, 2.0, 1.0))
        at_high = np.where(above, at_high / np.where(side > 0.0, 2.0, 1.0), y)
        low, high, side = np.where(above, x, low), np.where(above, high, x), np.where(above, 1.0, -1.0)
    return np.asarray(x)


def _norm(parts: list[Num], power: Num) -> Array:
    """(sum_i p_i^power)^(1/power), without overflow."""
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in parts)))
    most = np.max(stacked, axis=0)
    return np.asarray(most * np.sum((stacked / most) ** power, axis=0) ** (1 / power))


def _visit(channel: DramChannel, R: Array, n: Array, popularity: Popularity | None) -> _Visit:
    t, closed = channel.timing, channel.page == "closed"
    banks = (R * channel.banks)[..., None]
    if popularity is None:
        p, accesses = np.zeros(1), np.ones(1)
    else:
        p, accesses = popularity.probability, popularity.rows * popularity.probability
    bank = p + (1.0 - p) / banks
    again = np.where(closed, 0.0, p / bank)
    n = n[..., None]
    if closed:
        hold = least = n * np.maximum(t.tRC, t.tRCD + t.tRTP + t.tRP) * np.ones_like(bank)
    else:
        miss = np.maximum(t.tRC, t.tRP + t.tRCD + (n - 1.0) * t.tCCD_L + t.tRTP)
        hold = miss + again**2 * (n * t.tCCD_L - miss)
        least = miss + again * (n * t.tCCD_L - miss)
    shares = np.broadcast_to(accesses, bank.shape)
    return _Visit(shares, bank, np.asarray(again), np.asarray(hold), np.asarray(least))


def _bus(channel: DramChannel, R: Array, Q: Array, n: Array, A: Array) -> tuple[Array, Array]:
    """Cycles of the data bus per vector, of `gather_bound`: of data and changes of rank, and between bursts."""
    t, fit = channel.timing, channel.reordering
    k = np.maximum(2.0 * Q / (n + 1.0), 1.0)
    full = t.tRCD + 1.0 + (0.0 if channel.page == "closed" else t.tRP)
    prepared = np.where(R > 1, np.maximum(k - full / (n * t.tBL), 0.1), k)
    ready = fit.same_rank * k
    spent = R * np.maximum(0.0, 1.0 - 4.0 * n * t.tBL / (A * t.tFAW)) / ready
    switch = np.where(R > 1, np.minimum(np.maximum((1.0 - 1.0 / R) ** ready, spent), 1.0 - 1.0 / R), 0.0)
    lone = float(channel.bank_groups) ** (-fit.other_group * prepared / R**fit.spread)
    gap = t.tCCD_L - t.tBL
    gap = np.where(R > 1, np.minimum(gap, np.maximum(t.tRTRS, 0.0)), gap)
    alone = 0.0 if channel.page == "closed" else (n - 1.0) * lone * gap
    return np.asarray(n * t.tBL + A * switch * t.tRTRS), np.asarray(alone)


def gather_bandwidth(
    channel: DramChannel, vector_bytes: Num, *, ranks: Num | None = None, depth: Num | None = None, apart: bool = False
) -> Array:
    """B/s of bursts of saturated random gathers: n burst_bytes / (c cycle), c of `gather_bound`."""
    bound = gather_bound(channel, vector_bytes, ranks=ranks, depth=depth, apart=apart)
    moved = channel.bursts(vector_bytes) * channel.burst_bytes
    return np.asarray(moved / (bound.cycles * channel.timing.cycle))


def gather_latency(
    channel: DramChannel, vector_bytes: Num, bandwidth: Num, *, ranks: Num | None = None, depth: Num | None = None
) -> Array:
    """Mean seconds from the arrival of a random vector to its last data, at a load of `bandwidth` (Poisson arrivals).

    With l vectors a cycle, and rho_x = l x service of x, every wait is that of one server with fixed service
    (Pollaczek-Khinchine), and a refresh is a vacation after which the backlog drains:

        L = conflict tRP + tRCD + tCL + (n - 1) tCCD_L + tBL
            + sum over bank, activates, bus of  rho_x / (2 (1 - rho_x)) service_x
            + share (tRFC + tRP) / (2 (1 - rho)),  share = (tRFC + tRP) / tREFI

    rho: of the bus or, if busier, the activates. conflict: another row was opened since the last refresh.
    Infinite at and above the saturated rate.
    """
    t = channel.timing
    R = np.asarray(channel.ranks if ranks is None else ranks, dtype=np.float64)
    bound = gather_bound(channel, vector_bytes, ranks=R, depth=depth)
    n = channel.bursts(vector_bytes)
    rate = np.asarray(bandwidth) / (n * channel.burst_bytes) * t.cycle
    closed = channel.page == "closed"
    A = n if closed else np.ones_like(n)
    per_bank = rate / (R * channel.banks)
    opened = 1.0 + np.expm1(-per_bank * t.tREFI) / np.maximum(per_bank * t.tREFI, 1e-30)
    conflict = np.zeros_like(opened) if closed else opened
    alone = conflict * t.tRP + t.tRCD + t.tCL + (n - 1.0) * (t.tRC if closed else t.tCCD_L) + t.tBL
    hold = np.asarray(A * t.tRC + (0.0 if closed else (n - 1.0) * t.tCCD_L))
    busy = np.minimum(rate * np.maximum(A * t.tFAW / 4.0 / R, bound.parts["bus"]), 1.0)
    stop = t.tRFC + t.tRP
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = _wait(per_bank, hold) + _wait(rate / R, A * t.tFAW / 4.0) + _wait(rate, bound.parts["bus"])
        total = alone + waits + stop / t.tREFI * stop / 2.0 / (1.0 - busy)
    return np.asarray(np.where(rate * bound.cycles < 1.0, total, np.inf) * t.cycle)


def _wait(rate: Num, service: Num) -> Array:
    """Mean wait before one server with fixed service: rho service / (2 (1 - rho))."""
    rho = np.minimum(np.asarray(rate) * service, 1.0)
    return np.asarray(rho * service / (2.0 * (1.0 - rho)))
