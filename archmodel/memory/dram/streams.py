# ruff: noqa: N806  (JEDEC's names)
"""Closed form for vectors read one after the other: what a channel gives a scan. Broadcasts."""

from __future__ import annotations

import numpy as np

from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.gathers import GatherBound
from archmodel.quantities import Array, Num


def stream_bound(
    channel: DramChannel, vector_bytes: Num, *, ranks: Num | None = None, depth: Num | None = None
) -> GatherBound:
    """Saturated reads of consecutive vectors, rows dealt to ranks and banks in turn, a row of m bursts on one bank.

    A bank alone gives a burst every `step` cycles: tCCD_L, or a row cycle when rows are closed after every burst. Q
    bursts in the queue are of j = 2 (Q - n - first / step) / m further rows, whose banks work beside it once they are
    open, `first` = tRCD + 1 cycles after they came (and tRP where no refresh closed their bank), so that a burst takes

        max(step / (1 + j), tBL + tRTRS)      for whole j, straight lines between

    (without tRTRS for one row, or where there are more rows than ranks, two of which are then on one rank),

    and open rows need what opening one takes beyond the bursts that are queued before it:

        opening = max(0, first - max(Q - n + 1, 1) tCCD_L) / m

    A refresh stops the stream when it is at that rank, or runs into it within the stop.
    """
    t = channel.timing
    R = np.asarray(channel.ranks if ranks is None else ranks, dtype=np.float64)
    Q = np.maximum(np.floor(np.asarray(channel.queue if depth is None else depth, dtype=np.float64)), 1.0)
    n = channel.bursts(vector_bytes)
    R, Q, n = np.broadcast_arrays(R, Q, n)
    closed = channel.page == "closed"
    m = np.maximum(channel.row_bytes / channel.burst_bytes, n)
    step = max(t.tRC, t.tRCD + t.tRTP + t.tRP) if closed else t.tCCD_L
    again = R * channel.banks * m * t.tBL  # cycles from one row of a bank to the next, at least
    first = t.tRCD + 1.0 + (0.0 if closed else t.tRP * np.maximum(1.0 - again / t.tREFI, 0.0))
    j = 2.0 * np.maximum(Q - n - first / step, 0.0) / m
    whole = np.floor(j)

    def burst(rows: Array) -> Array:
        change = np.where((rows > 1) & (rows <= R), t.tRTRS, 0.0)
        return np.maximum(step / rows, np.where(rows > 1, t.tBL + change, 0.0))

    row = burst(1.0 + whole) + (j - whole) * (burst(2.0 + whole) - burst(1.0 + whole))
    opening = 0.0 if closed else np.maximum(first - np.maximum(Q - n + 1.0, 1.0) * step, 0.0) / m
    parts: dict[str, Num] = {"bus": n * t.tBL, "bank": n * (row + opening)}
    cycles = np.maximum(parts["bus"], parts["bank"])
    stop = np.asarray(t.tRFC + t.tRP, dtype=np.float64)
    run = m * cycles / n
    later: Array = np.where(R > 1, np.minimum(stop, run) * (stop - np.minimum(stop, run) / 2) / run, 0.0)
    return GatherBound(parts, cycles, np.minimum((stop + later) / t.tREFI, 0.99))
