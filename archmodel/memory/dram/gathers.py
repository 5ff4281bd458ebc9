# ruff: noqa: N803, N806  (JEDEC's names)
"""Closed forms for gathers of vectors: what a channel's rate and latency are bound by. All broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from archmodel.memory.cache import Popularity
from archmodel.memory.dram.banks import Banks, bank_wait, found_rows, placed
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.slots import cycles_of_slots, pattern, refresh_loss, thinned
from archmodel.quantities import Array, Num

_STEPS, _ROUNDS, _POPULAR_ROUNDS = 9, 3, 8
"""Steps towards the rate; at each, towards the wait for banks, and with popular rows to be found open."""


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

    With n bursts and A activates a vector (1; n when rows are closed after every burst), h of the vectors finding their
    row open, Q bursts in the queue and k = 2 Q / (n + 1) vectors that choose among many:

        bus       = n tBL + A switch tRTRS + (n - 1) lone min(tCCD_L - tBL, tRTRS or tCCD_L - tBL for one rank)
        switch    = max((1 - 1/R)^(a k), R max(0, 1 - 4 n tBL / (A tFAW)) / (a k))
        lone      = bank_groups^(-b k / R^s)
        activates = A (1 - h) max(tFAW / 4, tRRD_S) / R    and (R - 1) / (2 idle) more, as ranks have different numbers
        column    = n tCCD_L / (R bank_groups)             and (R bank_groups - 1) / (2 idle) more
        bank      = hold x share of all vectors, of the bank where that is most
        queue     = `slots.cycles_of_slots`, with the time to the first read, and waits

    idle: vectors beyond those that are being opened. switch: no waiting vector of the same rank is ready, or the rank
    has spent its activates. lone: no read of another bank group is ready, so the bursts of one vector follow each other
    (of several ranks, k less those being opened). a, b, s: `Reordering`.

    first = opened tRP + tRCD + 1, or tRCD + 1 of a closed page, or tCCD_L of an open row; opened: another row was
    opened since the last refresh. Waits for banks: `banks.bank_wait`; for the data bus

        crowded = d rho bus / (1 - rho),   rho = bus / c (K - 2) / (K - 1),   K = Q / n

    and c = `slots.thinned` of bus, activates and columns (of several ranks near ties count together, a norm; one rank
    keeps step with the slowest), as the vectors under way vary with those that wait for a bank; d and the factor of
    that deviation: `Reordering`. The norm of it and of the busiest bank is what all allow together. A rank that
    refreshes loses its open rows, `slots.refresh_loss`; the busiest bank stands still, whatever is queued.

    `popularity`: of DRAM rows that differ (of all ranks; else all are alike), dealt to banks by chance: `banks.placed`,
    `banks.found_rows`.

    `apart`: the bursts of a vector lie in banks of their own, n vectors of one burst.
    """
    R = np.asarray(channel.ranks if ranks is None else ranks, dtype=np.float64)
    Q = np.maximum(np.floor(np.asarray(channel.queue if depth is None else depth, dtype=np.float64)), 1.0)
    n = channel.bursts(vector_bytes)
    vectors = n if apart else np.ones_like(n)
    n = np.ones_like(n) if apart else n
    banks = placed(popularity, R * channel.banks)
    R, Q, n = (a[..., None] for a in np.broadcast_arrays(R, Q, n))  # the last axis: classes of layouts
    load = _load(channel, R, Q, n, banks, popularity is not None)
    t, sharpness = channel.timing, channel.reordering.sharpness

    def excess(u: Array) -> Array:
        limits = load.limits(np.exp(u))
        return np.log(_norm([limits.others, limits.parts["bank"]], sharpness)) - u

    low = np.broadcast_to(np.log(n * t.tBL), np.broadcast_shapes(n.shape, banks.share.shape[:-1]))
    longest = 4.0 * (load.full + load.miss + n * load.step)
    c = np.exp(_root(excess, low, low + np.log(longest / (n * t.tBL))))
    limits = load.limits(c)
    closing = t.tRC - t.tRP
    rate = load.A * (1.0 - limits.hits) / (R * c)
    stop = t.tRFC + t.tRP + closing + np.expm1(-rate * closing) / np.maximum(rate, 1e-30)
    lost = R * refresh_loss(stop, R, load.k, c, load.k * limits.parts["queue"])
    stopped = [
        limits.others / (1.0 - np.minimum(lost / t.tREFI, 0.99)),
        limits.parts["bank"] / (1.0 - np.minimum(stop / t.tREFI, 0.99)),
    ]
    parts = {name: vectors * np.broadcast_to(part, c.shape).mean(-1) for name, part in limits.parts.items()}
    together = vectors * c.mean(-1)
    return GatherBound(parts, together, 1.0 - together / (vectors * _norm(stopped, sharpness).mean(-1)))


@dataclass(frozen=True, slots=True)
class _Limits:
    parts: dict[str, Array]
    """Cycles per vector by resource."""
    others: Array
    """Of all but the busiest bank together."""
    hits: Array
    """Share of the vectors that find their row open."""


@dataclass(frozen=True, slots=True)
class _Load:
    """Of `gather_bound`, with the classes of layouts as last axis: what does not depend on the rate, and what does."""

    channel: DramChannel
    R: Array
    Q: Array
    n: Array
    banks: Banks
    popular: bool
    closed: bool
    A: Array
    """Activates of a vector that finds its row closed."""
    k: Array
    """Whole vectors in the queue."""
    step: Array
    """Cycles between two reads of a vector."""
    full: float
    """Cycles to the first read of a vector whose bank has another row open."""
    miss: Array
    """Cycles that a vector holds its bank when it opens its row."""
    data: Array
    gaps: Array
    """Cycles of the data bus: of data and changes of rank, and between bursts."""
    enters: tuple[Array, Array]
    """Of `slots.pattern`."""

    def visit(self, c: Array) -> tuple[Array, Array, Array, Array]:
        """At c cycles per vector: share of vectors that find their row open, cycles that the busiest bank needs, time
        of a vector alone, its wait for its bank."""
        t, banks, Q, n = self.channel.timing, self.banks, self.Q, self.n
        hit = n * t.tCCD_L
        found = other = wait = np.zeros((*c.shape, banks.share.shape[-1]))
        if not self.closed:
            found, other = found_rows(banks, c, wait, hit, float(t.tREFI))
        queued = (Q / n * c)[..., None]
        for _ in range(_POPULAR_ROUNDS if self.popular else _ROUNDS):
            hold = self.miss[..., None] + found * (hit - self.miss)[..., None]
            hits = banks.mean(found)
            own = banks.mean(other * t.tRP + (1.0 - found) * (t.tRCD + 1.0)) + hits * t.tCCD_L + (n - 1.0) * self.step
            inside = np.maximum(Q / n, (own + banks.mean(wait)) / c)
            wait = bank_wait(banks, c, own, hold, np.maximum(1.0 - 1.0 / inside, 0.0))
            if not self.popular or self.closed:
                continue
            # time in the queue that is no wait for banks: spent by all alike, or before the bank that bounds all
            bound = np.minimum(banks.share * hold / c[..., None], 1.0) ** self.channel.reordering.sharpness
            alike = np.maximum(1.0 - (banks.count * bound).sum(-1, keepdims=True), 0.0)
            rest = np.maximum(queued - (own + banks.mean(wait))[..., None], 0.0)
            x = np.minimum(wait, queued / banks.share) + rest * (bound / banks.share + alike)
            again, other = found_rows(banks, c, x, hit, float(t.tREFI))
            found = (found + again) / 2.0
        return hits, (banks.share * hold).max(-1), own, banks.mean(wait)

    def limits(self, c: Array) -> _Limits:
        """What each resource allows at c cycles per vector."""
        t, fit, R, Q, n = self.channel.timing, self.channel.reordering, self.R, self.Q, self.n
        hits, bank, own, wait = self.visit(c)
        parts = {
            "bus": self.data + self.gaps,
            "activates": self.A * (1.0 - hits) * np.maximum(t.tFAW / 4.0, t.tRRD_S) / R,
            "bank": bank,
            "column": n * t.tCCD_L / (R * self.channel.bank_groups),
        }
        idle = np.maximum(self.k - self.full / np.maximum.reduce(np.broadcast_arrays(*parts.values())), R)
        activates = parts["activates"] * (1.0 + (R - 1.0) / (2.0 * idle))
        column = parts["column"] * (1.0 + (R * self.channel.bank_groups - 1.0) / (2.0 * idle))
        shared = _norm([parts["bus"], activates, column], np.where(R > 1.0, fit.sharpness, np.inf))
        others = np.maximum(np.maximum(Q / n, 1.0) - 2.0, 0.0)
        rho = others / (others + 1.0) * np.minimum(self.data / c, 1.0)
        crowded = fit.crowding * rho * self.data / (1.0 - rho)
        first = own - (n - 1.0) * self.step
        parts["queue"] = cycles_of_slots(first, self.step, n, Q, wait, crowded, self.enters)
        under_way = np.maximum((own + wait) / parts["queue"], 1.0)
        stuck = np.minimum(wait / c / under_way, 1.0)
        spread = fit.stuck * np.sqrt(stuck * (1.0 - stuck) / under_way)
        return _Limits(parts, thinned(shared, parts["queue"], spread), hits)


def _load(channel: DramChannel, R: Array, Q: Array, n: Array, banks: Banks, popular: bool) -> _Load:
    t, closed = channel.timing, channel.page == "closed"
    A = n if closed else np.ones_like(n)
    step = np.asarray(max(t.tRC, t.tRCD + t.tRTP + t.tRP) if closed else t.tCCD_L, dtype=np.float64)
    full = float(t.tRCD + 1.0 + (0.0 if closed else t.tRP))
    miss = n * step if closed else np.maximum(t.tRC, t.tRP + t.tRCD + (n - 1.0) * step + t.tRTP)
    data, gaps = _bus(channel, R, Q, n, A)
    k = np.maximum(np.floor(Q / n), 1.0)
    enters = pattern(np.asarray(full), step, n, Q)
    return _Load(channel, R, Q, n, banks, popular, closed, A, k, step, full, np.asarray(miss), data, gaps, enters)


def _root(falling: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where `falling` crosses 0 between `low` and `high` (Illinois method)."""
    at_low, at_high = (np.clip(falling(end), -1.0, 1.0) for end in (low, high))
    x, side = low, np.zeros(low.shape)
    for _ in range(_STEPS):
        x = low + (high - low) * at_low / np.maximum(at_low - at_high, 1e-300)
        y = np.clip(falling(x), -1.0, 1.0)
        above = y > 0.0
        at_low = np.where(above, y, at_low / np.where(side < 0.0, 2.0, 1.0))
        at_high = np.where(above, at_high / np.where(side > 0.0, 2.0, 1.0), y)
        low, high, side = np.where(above, x, low), np.where(above, high, x), np.where(above, 1.0, -1.0)
    return x


def _norm(parts: Sequence[Num], power: Num) -> Array:
    """(sum_i p_i^power)^(1/power), without overflow."""
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in parts)))
    most = np.max(stacked, axis=0)
    return np.asarray(most * np.sum((stacked / most) ** power, axis=0) ** (1 / power))


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
