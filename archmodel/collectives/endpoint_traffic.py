"""What a collective asks of the endpoint that drives it: bytes read from and written to memory for every byte sent.

Two ways to drive a collective over rings are counted, block by block.

**In memory**, as kernels on the device's own cores do. What arrives lands in memory; each phase is a kernel of its own,
and within one a step is one of

    send                      read 1
    receive, reduce, send     arrival 1 written; arrival and own block read
    receive, reduce           the same, and the sum written (in an all-reduce it is sent on from the same registers)
    receive, send             arrival 1 written in place, and read to be sent on

**In the engine**, from memory of its own: every byte of the buffer is read once, goes through all phases there, and
every byte of the result is written once.

With blocks of S / n, over a ring of n (n > 1), in units of S:

    phase            sent          read, in memory    written, in memory    reduced
    reduce-scatter   (n - 1)/n     (2 n - 1)/n        1                     (n - 1)/n
    all-gather       (n - 1)/n     (n - 1)/n          (n - 1)/n             0
    all-reduce       2 (n - 1)/n   3 (n - 1)/n        (2 n - 1)/n           (n - 1)/n

S is what the ring holds in all: the input of a reduce-scatter, the output of an all-gather. So an all-reduce in memory
reads 1.5 bytes for each byte that it sends, whatever the ring. `archmodel.execute.endpoint` runs these steps on arrays
and counts the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from archmodel.collectives.kinds import CollectiveError
from archmodel.errors import suggestion
from archmodel.quantities import Num

RingKind = Literal["reduce_scatter", "all_gather", "all_reduce"]
Schedule = Literal["hierarchical", "four_phase"]
SCHEDULES: tuple[Schedule, ...] = ("hierarchical", "four_phase")


@dataclass(frozen=True, slots=True)
class Phase:
    """A ring collective over one dimension of `size` ranks; `held`: what its ring holds, per byte of buffer."""

    kind: RingKind
    dimension: int
    size: int
    held: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes on one rank, per byte of its buffer (input of an all-reduce, reduce-scatter or all-to-all, output of an
    all-gather). `sent`: on all links, what is passed on included. `reads`, `writes`, `reduced`: driven in memory.
    `engine_reads`, `engine_writes`: driven by an engine with memory of its own. `by_dimension`: of `sent`."""

    sent: float
    reads: float
    writes: float
    reduced: float
    engine_reads: float
    engine_writes: float
    by_dimension: tuple[float, ...]

    @property
    def reads_per_sent(self) -> float:
        """Bytes read from memory for each byte sent, driven in memory."""
        return self.reads / self.sent if self.sent else 0.0

    @property
    def engine_reads_per_sent(self) -> float:
        """Bytes read from memory for each byte sent, driven by an engine."""
        return self.engine_reads / self.sent if self.sent else 0.0

    @property
    def reads_saved(self) -> float:
        """How many times less memory an engine reads to drive the network at the same rate."""
        return self.reads / self.engine_reads if self.engine_reads else 1.0

    @property
    def saved(self) -> float:
        """The same of reads and writes together."""
        both = self.engine_reads + self.engine_writes
        return (self.reads + self.writes) / both if both else 1.0


def ring(kind: RingKind, n: int) -> tuple[float, float, float, float]:
    """(sent, read, written, reduced) bytes of one ring phase in memory, per byte that the ring holds (table above)."""
    if n < 2:
        return 0.0, 0.0, 0.0, 0.0
    part = (n - 1) / n
    if kind == "reduce_scatter":
        return part, (2 * n - 1) / n, 1.0, part
    if kind == "all_gather":
        return part, part, part, 0.0
    return 2 * part, 3 * part, (2 * n - 1) / n, part


def phases(kind: str, sizes: Sequence[int], schedule: Schedule = "hierarchical") -> tuple[Phase, ...]:
    """Phases of a collective over a box of `sizes`, inner to outer; dimensions of one rank drop out.

    hierarchical: reduce-scatters up, an all-reduce over the last dimension, all-gathers down; each dimension works on
    what the ones before it leave. four_phase: reduce-scatter over the first, an all-reduce over each of the others in
    turn on the same share, all-gather over the first. Raises `CollectiveError`.
    """
    if schedule not in SCHEDULES:
        raise CollectiveError(f"no schedule is called {schedule!r}; {suggestion(schedule, SCHEDULES)}")
    if kind not in ("all_reduce", "reduce_scatter", "all_gather"):
        raise CollectiveError(f"{kind} is not made of ring phases")
    used = [(d, n) for d, n in enumerate(sizes) if n > 1]
    if not used:
        return ()
    shares = [1.0 / prod(n for _, n in used[:i]) for i in range(len(used))]
    up = [Phase("reduce_scatter", d, n, s) for (d, n), s in zip(used, shares, strict=True)]
    down = [Phase("all_gather", d, n, s) for (d, n), s in zip(used, shares, strict=True)][::-1]
    if kind == "reduce_scatter":
        return tuple(up)
    if kind == "all_gather":
        return tuple(down)
    if schedule == "hierarchical" or len(used) == 1:
        (d, n), s = used[-1], shares[-1]
        return (*up[:-1], Phase("all_reduce", d, n, s), *down[1:])
    inner = 1.0 / used[0][1]
    return (up[0], *(Phase("all_reduce", d, n, inner) for d, n in used[1:]), down[-1])


def traffic(kind: str, sizes: Sequence[int], schedule: Schedule = "hierarchical") -> Traffic:
    """Traffic of a collective over a box of `sizes`, per byte of the buffer; exact for blocks that divide evenly.

    For an L x V x H torus in four phases, an all-reduce sends

        2 (L - 1)/L + (1/L) (2 (V - 1)/V + 2 (H - 1)/H)

    and in memory reads

        (2 L - 1)/L + (1/L) (3 (V - 1)/V + 3 (H - 1)/H) + (L - 1)/L

    where an engine reads 1. All-to-all: see `all_to_all`. Raises `CollectiveError`.
    """
    if kind == "all_to_all":
        return all_to_all(sizes)
    sent = reads = writes = reduced = 0.0
    by_dimension = [0.0] * len(sizes)
    for phase in phases(kind, sizes, schedule):
        s, r, w, a = (phase.held * x for x in ring(phase.kind, phase.size))
        sent, reads, writes, reduced = sent + s, reads + r, writes + w, reduced + a
        by_dimension[phase.dimension] += s
    ranks = prod(sizes)
    inside = 1.0 if ranks > 1 else 0.0
    once_in = inside / ranks if kind == "all_gather" else inside
    once_out = inside / ranks if kind == "reduce_scatter" else inside
    if kind == "all_gather":
        once_out = inside - inside / ranks  # its own block is in place
    return Traffic(sent, reads, writes, reduced, once_in, once_out, tuple(by_dimension))


def all_to_all(sizes: Sequence[int], kinds: Sequence[str] | None = None) -> Traffic:
    """Traffic of an all-to-all of one buffer byte, cut into equal messages, passed on from neighbour to neighbour along
    each dimension in turn. `kinds` of dimensions: "ring" (the default), "line", any other: one hop through a switch.

        sent = sum_d h_d,   h_d = floor(n^2 / 4) / n        (ring, the shorter way: mean hops, own place included)
                            h_d = (n^2 - 1) / (3 n)         (line)
                            h_d = (n - 1) / n               (one hop)

    In memory every byte sent is read, and every one that arrives is written; an engine reads what its own rank sends
    and writes what its own rank is sent, (N - 1)/N each, and passes the rest on from its own memory.
    """
    hops = tuple(_hops(n, kind) for n, kind in zip(sizes, kinds or ["ring"] * len(sizes), strict=True))
    sent, own = sum(hops), 1.0 - 1.0 / prod(sizes)
    return Traffic(sent, sent, sent, 0.0, own, own, hops)


def _hops(n: int, kind: str) -> float:
    if kind == "ring":
        return float(n * n // 4) / n
    return (n * n - 1) / (3 * n) if kind == "line" else (n - 1) / n


def in_step(kind: str, sizes: Sequence[int], bandwidths: Sequence[Num], schedule: Schedule = "hierarchical") -> Num:
    """Buffer bytes per second that a fully pipelined collective gets through the links: the slowest dimension's rate,

        1 / max_d (sent_d / bandwidth_d)

    `bandwidths`: B/s that a rank sends along each dimension. Infinite where nothing is sent.
    """
    slowest: Num = 0.0
    for sent, bandwidth in zip(traffic(kind, sizes, schedule).by_dimension, bandwidths, strict=True):
        slowest = np.maximum(slowest, sent / np.asarray(bandwidth))
    with np.errstate(divide="ignore"):
        rate = np.divide(1.0, slowest)
    return float(rate) if np.ndim(rate) == 0 else rate


def needed_bandwidth(
    kind: str,
    sizes: Sequence[int],
    bandwidths: Sequence[Num],
    schedule: Schedule = "hierarchical",
    *,
    engine: bool = False,
    writes: bool = False,
) -> Num:
    """B/s of memory that keep the slowest dimension of the network busy: reads, and with `writes` also writes."""
    t = traffic(kind, sizes, schedule)
    per_byte = t.engine_reads if engine else t.reads
    if writes:
        per_byte += t.engine_writes if engine else t.writes
    rate = in_step(kind, sizes, bandwidths, schedule)
    return per_byte * rate if t.sent else 0.0 * rate
