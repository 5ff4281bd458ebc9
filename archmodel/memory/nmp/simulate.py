"""Packets of pooled lookups on simulated ranks: what the rank-load formula leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.simulate import MOST_QUEUED, Gathers, random_gathers, serve
from archmodel.memory.nmp.unit import NmpUnit
from archmodel.memory.nmp.work import PooledLookups


@dataclass(frozen=True, slots=True)
class RankRun:
    """Cycles of simulated packets, of the host reading the same rows over the channel, and the busiest rank's rows."""

    cycles: int
    host_cycles: int
    busiest_rows: float

    @property
    def speedup(self) -> float:
        """Host over units."""
        return self.host_cycles / self.cycles


def simulate_packets(
    unit: NmpUnit,
    channel: DramChannel,
    work: PooledLookups,
    *,
    seed: int = 0,
    registers: int | None = None,
    barrier: bool = True,
    staggered: bool = False,
    host_ranks: int = 2,
    compiled: bool = True,
) -> RankRun:
    """Rows on ranks by chance (or by colour: a table's poolings on one rank, tables in turn), instructions in order at
    the rate of the pins, `registers` rows in flight per rank: the first instruction that finds its rank full holds up
    all others. With `barrier` packets do not overlap. Ranks refresh together or `staggered`."""
    poolings, factor = int(np.ravel(work.poolings)[0]), int(np.ravel(work.pooling_factor)[0])
    row_bytes, count = float(np.ravel(work.row_bytes)[0]), poolings * factor
    size = int(channel.bursts(row_bytes))
    plain = random_gathers(channel, count, row_bytes, seed=seed, ranks=unit.ranks)
    pooling = np.repeat(np.arange(poolings), factor)
    packet = pooling // unit.packet
    rank = plain.rank
    order = np.arange(count)
    if unit.page_colouring:
        rank = pooling % unit.ranks
        turn = pooling // unit.ranks  # one pooling of every rank's table at a time, rows in turn
        order = np.lexsort((rank, np.arange(count) % factor, turn))
        packet = np.zeros(count, np.int64)
    group, bank, row = plain.group, plain.bank, plain.row
    near = Gathers(rank[order], group[order], bank[order], row[order], plain.bursts, plain.arrival, packet)
    t = channel.timing
    tail = int(unit.add_cycles + (unit.multiply_cycles if work.weighted else 0)) if barrier else 0
    sums = int(channel.bursts(work.sum_bytes)) * int(t.tBL)
    done = serve(
        channel,
        near,
        private=True,
        depth=(registers or unit.registers) * size,
        interval=float(unit.dispatch_cycles(channel, float(size))),
        packets_in_flight=1 if barrier and not unit.page_colouring else MOST_QUEUED,
        packet_tail=tail + unit.packet * sums if barrier and not unit.page_colouring else 0,
        staggered=staggered,
        ranks=unit.ranks,
        compiled=compiled,
    )
    exposed = poolings * sums if unit.page_colouring else unit.packet * sums
    alone = serve(channel, random_gathers(channel, count, row_bytes, seed=seed, ranks=host_ranks), ranks=host_ranks,
                  compiled=compiled)  # fmt: skip
    loads = np.zeros((int(packet.max(initial=0)) + 1, unit.ranks))
    np.add.at(loads, (packet, rank), 1)
    return RankRun(done.cycles + exposed, alone.cycles, float(loads.max(axis=1).sum()))
