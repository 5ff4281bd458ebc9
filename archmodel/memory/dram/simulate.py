"""The reference simulator: every activate, read, precharge and refresh of a trace of gathers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.memory.compiled import fast
from archmodel.memory.dram import kernel
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.kernel import COUNTERS, TIMINGS, Ints

MOST_QUEUED = 1 << 20


class DramTraceError(ArchmodelError, ValueError):
    """A trace that a channel cannot serve."""


@dataclass(frozen=True, slots=True)
class Gathers:
    """N reads of aligned vectors: place, bursts of one row, arrival (cycle) and packet of each, all (N,) and ascending
    in arrival and packet."""

    rank: Ints
    group: Ints
    bank: Ints
    row: Ints
    bursts: Ints
    arrival: Ints
    packet: Ints

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True)
class Served:
    """When each vector entered the queue and had all its data (cycles), and what the channel did."""

    gathers: Gathers
    admitted: Ints
    finished: Ints
    counts: dict[str, int]
    cycle: float
    burst_bytes: float

    @property
    def cycles(self) -> int:
        """Cycles from the start to the last data."""
        return int(self.finished.max(initial=0))

    @property
    def time(self) -> float:
        """Seconds from the start to the last data."""
        return self.cycles * self.cycle

    @property
    def bandwidth(self) -> float:
        """B/s of data bursts over the whole run."""
        return self.counts["reads"] * self.burst_bytes / self.time if self.cycles else 0.0

    @property
    def latency(self) -> float:
        """Mean seconds from arrival, or from entering a full queue, to the last burst of a vector."""
        if not len(self.finished):
            return 0.0
        return float((self.finished - self.admitted).mean()) * self.cycle


def random_gathers(
    channel: DramChannel,
    vectors: int,
    vector_bytes: float,
    *,
    seed: int = 0,
    interval: float = 0.0,
    bank_interleaved: bool = False,
    ranks: int | None = None,
) -> Gathers:
    """`vectors` aligned vectors anywhere in the channel, every `interval` cycles (Poisson arrivals; 0: all at once).

    A vector lies in one row, or with `bank_interleaved` its bursts lie in consecutive bank groups, as mappings made for
    streaming put them.
    """
    rng = np.random.default_rng(seed)
    bursts = int(channel.bursts(vector_bytes))
    if bursts * channel.burst_bytes > channel.row_bytes and not bank_interleaved:
        raise DramTraceError(f"a vector of {vector_bytes:g} B does not fit into a row of {channel.row_bytes:g} B")
    rank = rng.integers(0, ranks or channel.ranks, vectors)
    group = rng.integers(0, channel.bank_groups, vectors)
    bank = rng.integers(0, channel.banks_per_group, vectors)
    row = rng.integers(0, channel.rows, vectors)
    arrival = (
        np.cumsum(rng.exponential(interval, vectors)).astype(np.int64) if interval else np.zeros(vectors, np.int64)
    )
    size = np.full(vectors, bursts)
    if bank_interleaved:
        step = np.tile(np.arange(bursts), vectors)
        rank, group, bank, row, arrival = (np.repeat(a, bursts) for a in (rank, group, bank, row, arrival))
        line = group + channel.bank_groups * bank + step
        group, bank = line % channel.bank_groups, line // channel.bank_groups % channel.banks_per_group
        size = np.ones(len(rank), np.int64)
    return Gathers(rank, group, bank, row, size, arrival, np.zeros(len(rank), np.int64))


def laid_out(channel: DramChannel, ids: Ints, vector_bytes: float) -> Gathers:
    """Reads of the vectors `ids` (N,) of a table that lies row after row of DRAM, rows dealt to ranks, then to bank
    groups and banks in turn, as many whole vectors as fit in each; all there at once."""
    bursts = int(channel.bursts(vector_bytes))
    each = int(channel.row_bytes // (bursts * channel.burst_bytes))
    if each == 0:
        raise DramTraceError(f"a vector of {vector_bytes:g} B does not fit into a row of {channel.row_bytes:g} B")
    rest, rank = np.divmod(np.asarray(ids, dtype=np.int64) // each, channel.ranks)
    rest, group = np.divmod(rest, channel.bank_groups)
    row, bank = np.divmod(rest, channel.banks_per_group)
    none = np.zeros(len(rank), np.int64)
    return Gathers(rank, group, bank, row, none + bursts, none, none)


def serve(
    channel: DramChannel,
    gathers: Gathers,
    *,
    private: bool = False,
    depth: int | None = None,
    interval: float = 0.0,
    packets_in_flight: int = MOST_QUEUED,
    packet_tail: int = 0,
    staggered: bool = True,
    ranks: int | None = None,
    compiled: bool = True,
) -> Served:
    """Runs the trace. `private`: ranks work on their own, each with a queue of `depth` bursts (near-memory processing);
    `interval`: cycles between two reads that enter, in order; packets and
    refreshes (`staggered` over the ranks or all together) as in `kernel.drain`.

    Raises DramTraceError for places that the channel does not have and for arrays out of order.
    """
    ranks = ranks or channel.ranks
    depth = depth or channel.queue
    _check(channel, gathers, ranks)
    timing = np.array([getattr(channel.timing, name) for name in TIMINGS], dtype=np.float64)
    if (timing != np.round(timing)).any():
        raise DramTraceError("the simulator needs timing parameters in whole cycles")
    run: Callable[..., tuple[Ints, Ints, Ints]] = fast(kernel.drain) if compiled else kernel.drain
    columns = (gathers.rank, gathers.group, gathers.bank, gathers.row, gathers.bursts, gathers.arrival, gathers.packet)
    admitted, finished, counters = run(
        *(np.ascontiguousarray(column, dtype=np.int64) for column in columns),
        timing.astype(np.int64),
        int(ranks),
        int(channel.bank_groups),
        int(channel.banks_per_group),
        int(depth),
        bool(private),
        channel.page == "closed",
        float(interval),
        int(packets_in_flight),
        int(packet_tail),
        bool(staggered),
    )
    counts = dict(zip(COUNTERS, counters.tolist(), strict=True))
    return Served(gathers, admitted, finished, counts, float(channel.timing.cycle), float(channel.burst_bytes))


def _check(channel: DramChannel, gathers: Gathers, ranks: int) -> None:
    limits = {"rank": ranks, "group": channel.bank_groups, "bank": channel.banks_per_group, "row": channel.rows}
    for name, limit in limits.items():
        values = getattr(gathers, name)
        if len(values) and (values.min() < 0 or values.max() >= limit):
            raise DramTraceError(f"{name} {values.min()} to {values.max()} is not within 0 to {limit - 1}")
    if len(gathers) and gathers.bursts.min() < 1:
        raise DramTraceError("every read needs a burst at least")
    for name in ("arrival", "packet"):
        values = getattr(gathers, name)
        if len(values) and (values[0] < 0 or (np.diff(values) < 0).any()):
            raise DramTraceError(f"{name} must ascend from 0")
