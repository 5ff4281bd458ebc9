# ruff: noqa: N806  (JEDEC's names)
"""Closed forms for gathers of random vectors: what a channel's rate and latency are bound by. All broadcast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.memory.dram.channel import DramChannel
from archmodel.quantities import Array, Num

_SHARP, _SOFT = 12.0, 3.0
"""Exponents of the norms that stand for the largest of several bounds: of resources that a long queue keeps busy (two
equal ones together cost 6 % more), and of those with what a short queue allows (26 % more)."""


@dataclass(frozen=True, slots=True)
class GatherBound:
    """Clock cycles per vector by resource, each as if it were the only limit; and what refresh takes away."""

    parts: dict[str, Num]
    refresh: Num

    @property
    def cycles(self) -> Array:
        """Cycles per vector, from the largest bound, near ties counting together:

        c = ((sum_i c_i^12)^(3/12) + queue^3)^(1/3) / (1 - refresh)
        """
        busy = _norm([part for name, part in self.parts.items() if name != "queue"], _SHARP)
        return np.asarray(_norm([busy, self.parts["queue"]], _SOFT) / (1.0 - self.refresh))

    def limit(self) -> str:
        """The resource that bounds a single point."""
        return max(self.parts, key=lambda name: float(self.parts[name]))


def gather_bound(
    channel: DramChannel, vector_bytes: Num, *, ranks: Num | None = None, depth: Num | None = None, apart: bool = False
) -> GatherBound:
    """Saturated reads of vectors at random places of `ranks` ranks that share a data bus, `depth` bursts in the queue.

    With n bursts and A activates a vector (1; n when rows are closed after every burst, or its bursts lie `apart`), and
    k = 2 depth / (n + 1) vectors waiting (a slot frees with every burst that is read):

        bus       = n tBL + A switch tRTRS + (n - 1) lone min(tCCD_L - tBL, tRTRS or tCCD_L - tBL for one rank)
        switch    = max((1 - 1/R)^(a k), R max(0, 1 - 4 n tBL / (A tFAW)) / (a k))
        lone      = bank_groups^(-b k / R^s)
        activates = A max(tFAW / 4, tRRD_S) / R
        bank      = A tRC / (R banks)
        column    = n tCCD_L / (R bank_groups)
        queue     = (tRP + tRCD + serial + 1) / k     a vector leaves the queue with its last read
        refresh   = R E[max(0, tRFC + tRP - T)] / tREFI,  T uniform in 0 .. 2 k (R - 1) c

    switch: no waiting vector of the same rank is ready, or the rank has spent its activates. lone: no read of another
    bank group is ready, so the bursts of one vector follow each other. A refreshing rank stops the channel once the
    queue has filled up with its vectors, T later: k (R - 1) others on average, but first-ready scheduling serves ranks
    in long runs, so the queue may hold none or only such vectors when it starts. a, b, s: `Reordering`.
    """
    t, fit = channel.timing, channel.reordering
    R = np.asarray(channel.ranks if ranks is None else ranks, dtype=np.float64)
    Q = np.asarray(channel.queue if depth is None else depth, dtype=np.float64)
    n = channel.bursts(vector_bytes)
    scattered = channel.page == "closed" or apart
    A = n if scattered else np.ones_like(n)
    k = np.maximum(2.0 * Q / (n + 1.0), 1.0)
    ready = fit.same_rank * k
    spent = R * np.maximum(0.0, 1.0 - 4.0 * n * t.tBL / (A * t.tFAW)) / ready
    switch = np.where(R > 1, np.minimum(np.maximum((1.0 - 1.0 / R) ** ready, spent), 1.0 - 1.0 / R), 0.0)
    lone = float(channel.bank_groups) ** (-fit.other_group * k / R**fit.spread)
    step = t.tCCD_L - t.tBL
    step = np.where(R > 1, np.minimum(step, np.maximum(t.tRTRS, 0.0)), step)
    bus = n * t.tBL + A * switch * t.tRTRS + (0.0 if scattered else 1.0) * (n - 1.0) * lone * step
    serial = 0.0 if apart else (n - 1.0) * (t.tRC if channel.page == "closed" else t.tCCD_L)
    parts = {
        "bus": bus,
        "activates": A * np.maximum(t.tFAW / 4.0, t.tRRD_S) / R,
        "bank": A * t.tRC / (R * channel.banks),
        "column": n * t.tCCD_L / (R * channel.bank_groups),
        "queue": (t.tRP + t.tRCD + serial + 1.0) / k,
    }
    most = np.maximum.reduce(np.broadcast_arrays(*parts.values()))
    stop, fill = t.tRFC + t.tRP, 2.0 * k * (R - 1.0) * most
    stopped = np.where(fill < stop, stop - fill / 2.0, stop**2 / np.maximum(2.0 * fill, 1e-30))
    return GatherBound(dict(parts), np.minimum(R * stopped / t.tREFI, 0.99))


def gather_bandwidth(
    channel: DramChannel, vector_bytes: Num, *, ranks: Num | None = None, depth: Num | None = None, apart: bool = False
) -> Array:
    """B/s of bursts of saturated random gathers: n burst_bytes / (c cycle), c of `gather_bound`."""
    bound = gather_bound(channel, vector_bytes, ranks=ranks, depth=depth, apart=apart)
    moved = channel.bursts(vector_bytes) * channel.burst_bytes
    return np.asarray(moved / (bound.cycles * channel.timing.cycle))


def _norm(parts: list[Num], power: float) -> Array:
    """(sum_i p_i^power)^(1/power), without overflow."""
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in parts)))
    most = np.max(stacked, axis=0)
    return np.asarray(most * np.sum((stacked / most) ** power, axis=0) ** (1 / power))


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
