# ruff: noqa: N803, N806  (JEDEC's names)
"""Closed form for vectors read one after the other: what a channel gives a scan. Broadcasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.gathers import GatherBound
from archmodel.quantities import Array, Num

_REFRESHES = 128
"""Refreshes that a scan is followed over; the first half of them is left out."""


def stream_bound(
    channel: DramChannel, vector_bytes: Num, *, ranks: Num | None = None, depth: Num | None = None
) -> GatherBound:
    """Saturated reads of consecutive vectors, rows dealt to ranks and banks in turn, a row of m bursts on one bank.

    A bank alone gives a burst every `step` cycles: tCCD_L, or a row cycle when rows are closed after every burst. Of Q
    bursts in the queue, `ahead` = Q - n - first / step can be of further rows, whose banks work beside it once they are
    open, `first` = tRCD + 1 cycles after they came (and tRP where no refresh closed their bank). So a burst finds
    j = 2 ahead / m of them and takes

        max(step / (1 + j), tBL + tRTRS)      for whole j, straight lines between

    (without tRTRS for one row, or where there are more rows than ranks, two of which are then on one rank),

    and open rows need what opening one takes beyond the bursts that are queued before it:

        opening = max(0, first - max(Q - n + 1, 1) tCCD_L) / m

    Refreshes: `_refreshes`.
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
    scan = _Scan(channel, R, n, m, np.asarray(first), float(step))
    cycles = n * np.maximum(scan.burst(Q), t.tBL)
    parts: dict[str, Num] = {"bus": n * t.tBL, "bank": n * scan.burst(Q)}
    return GatherBound(parts, cycles, _refreshes(scan, Q, cycles / n))


@dataclass(frozen=True, slots=True)
class _Scan:
    """Of `stream_bound`."""

    channel: DramChannel
    R: Array
    n: Array
    m: Array
    first: Array
    step: float

    def ahead(self, Q: Array) -> Array:
        """Bursts of further rows that are being read."""
        return np.maximum(Q - self.n - self.first / self.step, 0.0)

    def beside(self, rows: Array) -> Array:
        """Cycles per burst when so many rows are read beside each other."""
        t = self.channel.timing
        change = np.where((rows > 1) & (rows <= self.R), t.tRTRS, 0.0)
        return np.maximum(self.step / rows, np.where(rows > 1, t.tBL + change, 0.0))

    def burst(self, Q: Array) -> Array:
        """Cycles per burst of the banks."""
        j = 2.0 * self.ahead(Q) / self.m
        whole = np.floor(j)
        row = self.beside(1.0 + whole)
        row = row + (j - whole) * (self.beside(2.0 + whole) - row)
        if self.channel.page == "closed":
            return np.asarray(row)
        return np.asarray(row + np.maximum(self.first - np.maximum(Q - self.n + 1.0, 1.0) * self.step, 0.0) / self.m)


def _refreshes(scan: _Scan, Q: Array, c: Array) -> Array:
    """Share of the time that refreshes take of a scan, which visits the ranks in turn as they do.

    The scan moves by a row in m c cycles. Refresh i, of rank i mod R, comes tREFI / R after the last one and finds the
    scan at row k, of rank k mod R, with a share g of the way to the next one done; in the first 2 ahead / m of a row
    the last one is read beside it. It delays the scan by

        left - (bursts of other rows meanwhile) (cycles that they take else)

    left: tRFC + tRP + max(tRTP - step, 0) + tRCD when it stops a row that is being read, max(0, tRFC + tRP - d m c)
    when the scan comes to that rank only after d rows; tRFC of both when rows are closed. Other rows: the rest of the
    last one, one every `step`; or, where the bursts of the stopped row leave room in the queue, those that follow at
    the rate of a queue that is so much shorter, until they come to that rank again. The delay moves the scan against
    the next refresh, so that the two often fall in step.

    With open rows and a queue for more than half a row two rows begin and end together: none is read ahead.
    """
    t, R, m = scan.channel.timing, scan.R, scan.m
    closed = scan.channel.page == "closed"
    away = t.tRFC + (0.0 if closed else t.tRP)
    here = away + (0.0 if closed else max(t.tRTP - scan.step, 0.0) + t.tRCD)
    ahead = scan.ahead(Q)
    ahead = np.where((ahead > m / 2.0) & (not closed), 0.0, ahead)
    both = np.where(ahead > 0.0, scan.beside(np.full_like(R, 2.0)), c)
    alone = np.where(ahead > 0.0, scan.step, c)
    row, gap = m * c, t.tREFI / R
    at, lost = gap / row, np.zeros_like(row)
    for i in range(_REFRESHES):
        k = np.floor(at)
        g, d = at - k, np.mod(i - k, R)
        two = g < 2.0 * ahead / m
        last = np.where(two, np.maximum(ahead - g * m / 2.0, 0.0), 0.0)
        stops, stops_last = d == 0.0, (d == R - 1.0) & two & (R > 1.0)
        unread = np.where(stops, np.where(two, m - g * m / 2.0, m * (1.0 - g) + ahead), m)
        unread = np.where(stops_last, last, unread)
        left = np.where(stops | stops_last, here, np.maximum(away - (d - g) * row, 0.0))
        room = Q - unread
        slower = np.maximum(scan.burst(np.maximum(room, scan.n)), t.tBL)
        follow = np.where((R > 1.0) & (room >= scan.n), np.minimum(left / slower, (R - 1.0) * m), 0.0)
        rest = np.minimum(left / scan.step, np.where(stops, last, ahead))
        rest = np.where(stops_last | (R == 1.0), 0.0, rest)
        delay = left - np.maximum(follow, rest) * np.where(stops & ~two & ~stops_last, alone, both)
        at = at + (gap - delay) / row
        lost = lost + np.where(i >= _REFRESHES // 2, delay, 0.0)
    return np.asarray(np.clip(lost / ((_REFRESHES - _REFRESHES // 2) * gap), -0.5, 0.99))
