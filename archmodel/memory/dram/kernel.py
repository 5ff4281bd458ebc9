# ruff: noqa: N806  (JEDEC's names)
"""The event loop of the DRAM simulator: one function of arrays, compiled by numba where there is one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

TIMINGS = (
    "tRCD", "tRP", "tCL", "tBL", "tRC", "tRTP", "tCCD_S", "tCCD_L", "tRRD_S", "tRRD_L", "tFAW",
    "tRTRS", "tRFC", "tREFI",
)  # fmt: skip
"""Order of the timing array."""

COUNTERS = ("activates", "reads", "precharges", "refreshes", "rank_switches", "commands")
"""Order of the counters that come back."""


def drain(
    rank: Ints,
    group: Ints,
    bank: Ints,
    row: Ints,
    bursts: Ints,
    arrival: Ints,
    packet: Ints,
    timing: Ints,
    ranks: int,
    groups: int,
    banks: int,
    depth: int,
    private: bool,
    closed: bool,
    interval: float,
    in_flight: int,
    tail: int,
    staggered: bool,
) -> tuple[Ints, Ints, Ints]:
    """Serves N reads of `bursts` bursts each, first ready first come; (admitted, finished, counters), in clock cycles.

    rank, group, bank, row, bursts, arrival, packet: (N,), in order of arrival. A queue holds up to `depth` bursts.
    `private`: every rank has its own queue, command and data bus (near-memory processing); otherwise all share one.
    `closed`: a row is closed after every burst. `interval`: cycles between two reads entering a queue, in order:
    the first that finds its queue full holds up all behind it. `packet` ascends; at most `in_flight` packets are open,
    and one is open until `tail` cycles after its last read. `staggered`: ranks refresh in turn, else all together.
    """
    tRCD, tRP, tCL, tBL, tRC, tRTP = timing[0], timing[1], timing[2], timing[3], timing[4], timing[5]
    tCCD_S, tCCD_L, tRRD_S, tRRD_L, tFAW = timing[6], timing[7], timing[8], timing[9], timing[10]
    tRTRS, tRFC, tREFI = timing[11], timing[12], timing[13]
    never = np.int64(1) << np.int64(60)
    past = -(np.int64(1) << np.int64(40))
    count = len(rank)
    per_rank = groups * banks
    lanes = ranks if private else 1  # buses
    packets = int(packet[count - 1]) + 1 if count else 0

    open_row = np.full(ranks * per_rank, -1, dtype=np.int64)
    act_ok = np.zeros(ranks * per_rank, dtype=np.int64)
    read_ok = np.zeros(ranks * per_rank, dtype=np.int64)
    pre_ok = np.zeros(ranks * per_rank, dtype=np.int64)
    last_act = np.full(ranks * per_rank, past, dtype=np.int64)
    hits = np.zeros(ranks * per_rank, dtype=np.int64)  # queued reads of the open row
    group_act = np.full(ranks * groups, past, dtype=np.int64)
    group_read = np.full(ranks * groups, past, dtype=np.int64)
    rank_act = np.full(ranks, past, dtype=np.int64)
    rank_read = np.full(ranks, past, dtype=np.int64)
    window = np.full((ranks, 4), past, dtype=np.int64)  # the last four activates
    oldest_act = np.zeros(ranks, dtype=np.int64)
    refresh_at = np.zeros(ranks, dtype=np.int64)
    for r in range(ranks):
        refresh_at[r] = tREFI * (r + 1) // ranks if staggered else tREFI
    command_ok = np.zeros(lanes, dtype=np.int64)
    bus_read = np.full(lanes, past, dtype=np.int64)
    bus_rank = np.full(lanes, -1, dtype=np.int64)

    queue = np.zeros(depth * lanes + lanes, dtype=np.int64)  # reads, oldest first
    queued = 0
    load = np.zeros(lanes, dtype=np.int64)  # bursts held
    left = bursts.copy()
    admitted = np.zeros(count, dtype=np.int64)
    finished = np.zeros(count, dtype=np.int64)
    members = np.zeros(packets, dtype=np.int64)
    for i in range(count):
        members[packet[i]] += 1
    packet_end = np.zeros(packets, dtype=np.int64)
    oldest = 0
    counters = np.zeros(6, dtype=np.int64)

    head = 0
    now = np.int64(0)
    next_in = 0.0
    while head < count or queued > 0:
        event = never
        # refresh: close the rank's rows, then tRFC
        for r in range(ranks):
            if refresh_at[r] <= now:
                start = now
                for b in range(r * per_rank, (r + 1) * per_rank):
                    start = max(start, max(now, pre_ok[b]) + tRP if open_row[b] >= 0 else act_ok[b])
                for b in range(r * per_rank, (r + 1) * per_rank):
                    open_row[b] = -1
                    hits[b] = 0
                    act_ok[b] = start + tRFC
                refresh_at[r] += tREFI
                counters[3] += 1
            event = min(event, refresh_at[r])
        # packets that are over
        while oldest < packets and members[oldest] == 0:
            if packet_end[oldest] + tail > now:
                event = min(event, packet_end[oldest] + tail)
                break
            oldest += 1
        # admission, in order
        while head < count and packet[head] < oldest + in_flight:
            lane = rank[head] if private else 0
            ready = max(arrival[head], np.int64(np.ceil(next_in)))
            if ready > now:
                event = min(event, ready)
                break
            if load[lane] > 0 and load[lane] + bursts[head] > depth:
                break
            queue[queued] = head
            queued += 1
            load[lane] += bursts[head]
            admitted[head] = now
            next_in = max(next_in, float(now)) + interval
            b = (rank[head] * groups + group[head]) * banks + bank[head]
            if open_row[b] == row[head]:
                hits[b] += 1
            head += 1
        # the earliest command; of equals a read, then an activate, then the oldest
        best = never
        chosen = -1
        kind = 0
        for q in range(queued):
            i = queue[q]
            r = rank[i]
            lane = r if private else 0
            g = r * groups + group[i]
            b = g * banks + bank[i]
            at = max(now, command_ok[lane])
            if open_row[b] == row[i]:
                at = max(at, read_ok[b], group_read[g] + tCCD_L)
                at = max(at, rank_read[r] + tCCD_S)
                gap = tBL if bus_rank[lane] == r or bus_rank[lane] < 0 else tBL + tRTRS
                at = max(at, bus_read[lane] + gap)
                what = 0
            elif open_row[b] < 0:
                at = max(at, act_ok[b], group_act[g] + tRRD_L)
                at = max(at, rank_act[r] + tRRD_S, window[r, oldest_act[r]] + tFAW)
                what = 1
            else:
                if hits[b] > 0:
                    continue
                at = max(at, pre_ok[b])
                what = 2
            key = at * 4 + what
            if key < best:
                best = key
                chosen = q
                kind = what
        if chosen < 0 or best // 4 > event:
            if event == never:
                break
            now = event
            continue
        now = best // 4
        i = queue[chosen]
        r = rank[i]
        lane = r if private else 0
        g = r * groups + group[i]
        b = g * banks + bank[i]
        command_ok[lane] = now + 1
        counters[5] += 1
        if kind == 0:
            counters[1] += 1
            if bus_rank[lane] >= 0 and bus_rank[lane] != r:
                counters[4] += 1
            bus_rank[lane] = r
            bus_read[lane] = now
            rank_read[r] = now
            group_read[g] = now
            pre_ok[b] = max(pre_ok[b], now + tRTP)
            left[i] -= 1
            load[lane] -= 1
            if closed:
                open_row[b] = -1
                hits[b] = 0
                act_ok[b] = max(now + tRTP + tRP, last_act[b] + tRC)
            if left[i] == 0:
                finished[i] = now + tCL + tBL
                if not closed:
                    hits[b] -= 1
                members[packet[i]] -= 1
                packet_end[packet[i]] = max(packet_end[packet[i]], finished[i])
                for q in range(chosen, queued - 1):
                    queue[q] = queue[q + 1]
                queued -= 1
        elif kind == 1:
            counters[0] += 1
            open_row[b] = row[i]
            last_act[b] = now
            read_ok[b] = now + tRCD
            pre_ok[b] = now + tRC - tRP
            group_act[g] = now
            rank_act[r] = now
            window[r, oldest_act[r]] = now
            oldest_act[r] = (oldest_act[r] + 1) % 4
            found = 0
            for q in range(queued):
                j = queue[q]
                if (rank[j] * groups + group[j]) * banks + bank[j] == b and row[j] == row[i]:
                    found += 1
            hits[b] = found
        else:
            counters[2] += 1
            open_row[b] = -1
            act_ok[b] = max(now + tRP, last_act[b] + tRC)
    return admitted, finished, counters
