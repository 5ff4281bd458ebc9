"""Hierarchical collectives in chunks: while one chunk is in one dimension, the next is in the one before.

A buffer is cut into k equal chunks; a chunk goes through its phases, one dimension after the other (reduce-scatter
inner to outer, all-gather back), and a dimension serves one chunk at a time. With T_d the time that a chunk spends in
dimension d, all its phases there together,

    T = (k - 1) max_d T_d + sum_d T_d,        k max_d T_d <= T

which is the time of the last chunk when no dimension but the busiest is ever waited for. T_d = a_d + b_d / k, latency
and bytes: more chunks hide the bytes of all other dimensions and pay the busiest one's latency again and again. Of one
dimension T = k a + b: cutting only costs.

A dimension that has m chunks in flight at once starts the next while others wait out their latencies (an engine with a
state machine for each chunk). By Little's law it takes one in every

    x_d = max(b_d / k, T_d / m),        T = (k - 1) max_d x_d + sum_d T_d

so m = 1 is the law above, and many in flight pay latencies once: T = sum_d (a_d + b_d / k) + (1 - 1/k) max_d b_d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from archmodel.collectives.kinds import CollectiveError
from archmodel.quantities import Num

MOST = 4096
"""Most chunks that `auto` cuts: beyond that pieces are smaller than what links and kernels handle at once."""

Chunks = int | str | None


@dataclass(frozen=True, slots=True)
class Phase:
    """One dimension's part of a chunk: `latency` and `bandwidth` seconds."""

    latency: Num
    bandwidth: Num

    @property
    def total(self) -> Num:
        return self.latency + self.bandwidth


@dataclass(frozen=True, slots=True)
class Pipelined:
    """Seconds of all chunks: `latency` what it would take without bytes; `phases` of one chunk; `busiest` dimension."""

    chunks: Num
    time: Num
    latency: Num
    busiest: Num


def check_chunks(chunks: Chunks) -> None:
    """Raises `CollectiveError` for anything but a positive whole number, "auto" and None."""
    fine = (
        chunks is None or chunks == "auto" or (isinstance(chunks, int) and not isinstance(chunks, bool) and chunks > 0)
    )
    if not fine:
        raise CollectiveError(f"chunks is {chunks!r}; write a whole number from 1 on, or 'auto'")


def pipelined(phases_of: Callable[[Num], Sequence[Phase]], chunks: Num, in_flight: Num = 1.0) -> Pipelined:
    """`chunks` equal chunks (1 or more, whole or not), `in_flight` of them at once in a dimension; `phases_of(k)`
    prices the phases of one of k."""
    return _joined(phases_of(chunks), chunks, in_flight)


def optimal(phases_of: Callable[[Num], Sequence[Phase]]) -> Pipelined:
    """The number of chunks, 1 to `MOST`, that takes the least time, element by element.

    T(k) is the largest of one function per dimension, each a_m k + (sum_d b_d - b_m) / k + constants, when phases are
    latency and bytes alone: convex, so its least value lies where one of them has its own, or two of them cross. Both
    sides of all these points are tried (and a geometric grid, for protocols that change with the size of a chunk).
    """
    whole = phases_of(1.0)
    tried: list[Num] = [float(2**i) for i in range(MOST.bit_length())]
    total: Num = 0.0
    for phase in whole:
        total = total + phase.bandwidth
    for i, phase in enumerate(whole):
        tried += _around(np.sqrt(_ratio(total - phase.bandwidth, phase.latency)))
        for other in whole[:i]:
            tried += _around(_ratio(phase.bandwidth - other.bandwidth, other.latency - phase.latency))
    best: Pipelined | None = None
    for k in tried:
        candidate = _joined(phases_of(k), k)
        best = candidate if best is None else _shorter(best, candidate)
    assert best is not None
    return best


def _joined(phases: Sequence[Phase], k: Num, in_flight: Num = 1.0) -> Pipelined:
    once: Num = 0.0
    latency: Num = 0.0
    longest: Num = -1.0
    its_latency: Num = 0.0
    busiest: Num = 0
    for d, phase in enumerate(phases):
        once, latency = once + phase.total, latency + phase.latency
        interval = np.maximum(phase.bandwidth, phase.total / in_flight)
        longer = np.greater(interval, longest)
        busiest = np.where(longer, d, busiest)
        its_latency = np.where(longer, interval - phase.bandwidth, its_latency)
        longest = np.maximum(longest, interval)
    return Pipelined(k, once + (k - 1.0) * longest, latency + (k - 1.0) * its_latency, busiest)


def _around(k: Num) -> list[Num]:
    """Whole numbers on both sides, within bounds."""
    low = np.clip(np.floor(np.where(np.isfinite(k), k, MOST)), 1.0, MOST)
    return [low, np.minimum(low + 1.0, MOST)]


def _ratio(a: Num, b: Num) -> Num:
    """a / b where that is positive; infinite for b = 0, and 1 where a / b is negative or 0 / 0."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    with np.errstate(over="ignore"):
        quotient = np.divide(a, b, out=np.where(a > 0, np.inf, 1.0), where=b != 0)
    return np.asarray(np.where(quotient > 0, quotient, 1.0))


def _shorter(a: Pipelined, b: Pipelined) -> Pipelined:
    """The faster; of equals the one of fewer chunks."""
    a_wins = np.less(a.time, b.time) | (np.equal(a.time, b.time) & np.less_equal(a.chunks, b.chunks))

    def pick(x: Num, y: Num) -> Num:
        return np.where(a_wins, x, y)

    return Pipelined(
        pick(a.chunks, b.chunks), pick(a.time, b.time), pick(a.latency, b.latency), pick(a.busiest, b.busiest)
    )
