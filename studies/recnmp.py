"""RecNMP (ISCA 2020, arXiv 1912.12953) from its inputs: predicted against published, and a page of figures.

    python studies/recnmp.py [-o recnmp.html]

Nothing here is fitted to a result. Inputs are the files of designs/memories (the paper's tables and a few marked
assumptions), the hit rates of the paper's traces, which are not public, and the shares of its host's profile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
from _page import Claim, Row, Study, compared, main, mean_error

from archmodel import catalogue, source
from archmodel.components.base import Component
from archmodel.memory.access import Zipf
from archmodel.memory.compiled import available
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.nmp import ColumnNmp, DimmNmp, HostGather, NmpUnit, PooledLookups, RankNmp
from archmodel.memory.nmp.instruction import command_share, ranks_fed
from archmodel.memory.nmp.locality import reused_share
from archmodel.memory.nmp.simulate import simulate_packets
from archmodel.memory.nmp.unit import host_energy, host_time

PAPER = "RecNMP (ISCA 2020, arXiv 1912.12953)"
C = TypeVar("C", bound=Component)


# --- published figures --------------------------------------------------------------------------------------

FIG_14A = f"{PAPER}, Fig. 14a, read off the vector figure"
SPEEDUP = {
    (2, 1): 1.615, (2, 2): 1.721, (2, 4): 1.836, (2, 8): 1.957,
    (4, 1): 2.402, (4, 2): 2.919, (4, 4): 3.329, (4, 8): 3.633,
    (8, 1): 3.375, (8, 2): 4.322, (8, 4): 5.310, (8, 8): 6.137,
}  # fmt: skip
COLOURED = {2: 1.957, 4: 3.831, 8: 7.353}
FIG_15A = f"{PAPER}, Fig. 15a: 8 ranks, 8 poolings a packet"
LADDER = {"base": 6.14, "+ RankCache": 7.20, "+ scheduling": 8.76, "+ profiling": 9.75}
FIG_15B = f"{PAPER}, Fig. 15b"
SIZES = tuple(2**k * 1024 for k in range(3, 11))
CACHE_SPEEDUP = (7.942, 8.459, 8.982, 9.545, 9.713, 9.547, 9.122, 8.538)
FIG_18A = f"{PAPER}, Fig. 18a"
END_TO_END = {
    "RMC1-small": {2: 1.607, 4: 2.053, 8: 2.352},
    "RMC1-large": {2: 1.740, 4: 2.363, 8: 2.826},
    "RMC2-small": {2: 1.873, 4: 2.630, 8: 3.227},
    "RMC2-large": {2: 2.104, 4: 3.181, 8: 4.154},
}
ENERGY_SAVING = 0.458
RECROSS = {"CPU": 15.5, "TensorDIMM": 9.3, "RecNMP": 7.9}
"""Times that ReCross (ISCA 2023) says it is faster than each, on DDR5-4800 with two ranks (tRCD = tCL = tRP = 40, tRC
116), vectors of 64 numbers, 80 a pooling, batches of 32: read in a note on the paper, not in the paper. What it makes
of its rivals' designs is its own."""
NOTE = "ReCross (ISCA 2023), figures from a note on it"
TENSORDIMM = "published: 6.2 to 17.6 on average, whole models on a prototype whose inputs could not be read"
THREADS = {1: 6.11, 4: 17.99, 8: 29.91, 12: 42.18, 20: 44.0, 24: 47.13, 30: 49.19, 36: 51.77}

# --- inputs that the paper measured ---------------------------------------------------------------------------

ROW_BYTES = 128
"""32 numbers of 4 B a row (SecNDP, HPCA 2022, Table I, same models)."""
POOLING = 80
POOLINGS = 256
HITS_15B = (0.2497, 0.3057, 0.3645, 0.4195, 0.4534, 0.4639, 0.4655, 0.4657)
"""Hit rate by SIZES with scheduling and profiling (Fig. 15b)."""
HITS_12 = {"base": 0.0, "+ RankCache": 0.2647, "+ scheduling": 0.4137, "+ profiling": 0.4487}
"""Hit rate of eight tables together in a cache of 1 MB (Fig. 12)."""
IDEAL_HITS = 0.468
"""One less first accesses (Fig. 15b's ceiling)."""
HOST_PROFILE = {
    "RMC1-small": (0.6324, 0.3466, 0.0209),
    "RMC1-large": (0.6998, 0.2830, 0.0171),
    "RMC2-small": (0.7397, 0.2439, 0.0162),
    "RMC2-large": (0.8057, 0.1806, 0.0136),
}
"""Shares of sums of rows, fully connected layers and others on the host (Fig. 18a)."""
RELIEVED = {
    "RMC1-small": (0.3270, 0.0188),
    "RMC1-large": (0.2494, 0.0156),
    "RMC2-small": (0.2062, 0.0133),
    "RMC2-large": (0.1363, 0.0099),
}
"""The latter two, in shares of the host's time, once sums of rows have left the caches (Fig. 18a)."""


# --- parts ----------------------------------------------------------------------------------------------------


def read(cls: type[C], name: str) -> C:
    """A part of designs/memories."""
    tree = source.read(catalogue.find(f"memories/{name}.yaml"), catalogue=catalogue.directory())
    return source.validate(cls, tree)


@cache
def channel() -> DramChannel:
    return read(DramChannel, "ddr4_2400_recnmp")


def unit(ranks: int, packet: int = 8, *, coloured: bool = False, cached: bool = False) -> RankNmp:
    """RecNMP with `ranks` ranks on the channel, two a DIMM."""
    part = read(RankNmp, "recnmp" if cached else "recnmp_base")
    return part.model_copy(
        update={"dimms": max(1, ranks // 2), "ranks_per_dimm": min(2, ranks), "poolings_per_packet": packet,
                "page_colouring": coloured}
    )  # fmt: skip


def lookups(row_bytes: int = ROW_BYTES, **more: Any) -> PooledLookups:
    return PooledLookups(POOLINGS, POOLING, row_bytes // 4, **more)


def speedup(part: NmpUnit, work: PooledLookups | None = None, **more: Any) -> float:
    """Host over unit for the same lookups."""
    work = work or lookups()
    return float(host_time(work, channel()) / part.serve(work, channel(), **more).time.total)


def hit_rate(step: str, capacity: float) -> float:
    """Of a step of the ladder: its hit rate at 1 MB, scaled to other sizes as the complete one (Fig. 15b) scales."""
    curve = float(np.interp(np.log2(capacity), np.log2(SIZES), HITS_15B))
    return HITS_12[step] / HITS_12["+ profiling"] * curve if step != "+ profiling" else curve


@cache
def hot_share(rows: int = 1_000_000, draws: int = 256 * POOLING) -> float:
    """Share of lookups that profiling sends to the cache: those of rows seen twice or more, under the Zipf law whose
    ideal hit rate is the paper's."""
    from scipy.optimize import brentq

    def miss(alpha: float) -> float:
        unique = Zipf(alpha=alpha).expected_unique(np.array(rows), np.array(draws))
        return float(1.0 - unique / draws - IDEAL_HITS)

    return float(reused_share(Zipf(alpha=brentq(miss, 0.1, 2.0)), np.array(rows), np.array(draws)))


# --- what is reproduced -----------------------------------------------------------------------------------------


def rank_parallelism() -> Iterator[Row]:
    for (ranks, packet), published in SPEEDUP.items():
        yield Row("speedup", f"{ranks} ranks, {packet} poolings", speedup(unit(ranks, packet)), published, FIG_14A)
    for ranks, published in COLOURED.items():
        yield Row("speedup", f"{ranks} ranks, coloured", speedup(unit(ranks, 1, coloured=True)), published, FIG_14A)


def optimised(step: str, ranks: int = 8, capacity: float | None = None) -> float:
    """Speedup at a step of the ladder. With fewer ranks each cache serves more rows, so
    its hit rate is that of a smaller cache on the paper's eight ranks."""
    part = unit(ranks, cached=step != "base")
    if part.cache is not None and capacity is not None:
        part = part.model_copy(update={"cache": part.cache.model_copy(update={"capacity": capacity})})
    share = hot_share() if step == "+ profiling" else 1.0
    return speedup(part, hit_rate=lambda size: hit_rate(step, float(size) * ranks / 8), cached_share=share)


def ladder() -> Iterator[Row]:
    for step, published in LADDER.items():
        yield Row("ladder", step, optimised(step), published, FIG_15A)


def cache_sizes() -> Iterator[Row]:
    for size, published in zip(SIZES, CACHE_SPEEDUP, strict=True):
        name = f"RankCache {size // 1024} KB"
        yield Row("cache size", name, optimised("+ profiling", capacity=size), published, FIG_15B)


def end_to_end() -> Iterator[Row]:
    """Amdahl's law with the host's profile: 1 / (sums / S + the rest), the rest as on the host and as relieved."""
    for model, by_ranks in END_TO_END.items():
        sums, dense, others = HOST_PROFILE[model]
        for ranks, published in by_ranks.items():
            faster = optimised("+ profiling", ranks)
            total = sums + dense + others
            name = f"{model}, {ranks} ranks"
            yield Row("end to end", name, total / (sums / faster + sum(RELIEVED[model])), published, FIG_18A,
                      "other layers as measured once sums have left the caches")  # fmt: skip
            yield Row("end to end, host's rest", name, total / (sums / faster + dense + others), published, FIG_18A,
                      "other layers as on the host")  # fmt: skip


def commands() -> Iterator[Row]:
    instruction = unit(8).instruction
    where = f"{PAPER}, section III and Fig. 8(d)"
    yield Row("commands", "share of C/A, 64 B", float(command_share(channel(), 1.0)), 0.75, where)
    yield Row("commands", "instruction bits", instruction.bits, 79, where)
    yield Row("commands", "ranks fed, 64 B", float(ranks_fed(channel(), instruction, 1.0)), 8, where)
    yield Row("commands", "poolings a packet at most", instruction.tags, 16, where)


def energy() -> Iterator[Row]:
    """Saving of memory energy, by what is counted. The paper does not give its accounting."""
    where = f"{PAPER}, abstract"
    for row_bytes in (64, 128):
        work = lookups(row_bytes)
        host = float(sum(host_energy(work, channel()).values()))
        plain = unit(8).serve(work, channel())
        cached = unit(8, cached=True).serve(work, channel(), hit_rate=HITS_15B[4], cached_share=hot_share())
        cases = {
            "all parts": plain.total_energy,
            "without wires of instructions": plain.total_energy - plain.energy["instructions"],
            "all parts, with RankCache": cached.total_energy,
        }
        for name, used in cases.items():
            first = row_bytes == 64 and name == "all parts"
            saving = 1.0 - float(used) / host
            yield Row("energy saving", f"{row_bytes} B, {name}", saving, ENERGY_SAVING if first else None, where)


def host_threads() -> Iterator[Row]:
    host = read(HostGather, "skylake_gather")
    for threads, published in THREADS.items():
        note = "sharpness is fitted on 4 threads and more"
        yield Row("host GB/s", f"{threads} threads", float(host.bandwidth(threads)) / 1e9, published,
                  f"{PAPER}, Fig. 6, batch 256", note)  # fmt: skip


def registers() -> Iterator[Row]:
    """The formula of rank loads against the simulator, by rows in flight on a rank (fewer poolings without numba)."""
    work = lookups() if available() else replace(lookups(), poolings=POOLINGS // 10 // 8 * 8)
    for ranks in (2, 4, 8):
        for packet in (1, 8):
            part = unit(ranks, packet)
            formula = speedup(part)
            for depth in (4, 8, 16, 64):
                run = simulate_packets(part, channel(), work, registers=depth)
                name = f"{ranks} ranks, {packet} poolings, {depth} registers"
                yield Row("simulated", name, run.speedup, None, "", f"formula {formula:.2f}")


def alternatives() -> Iterator[Row]:
    for name, cls in (("tensordimm", ColumnNmp), ("chameleon_like", DimmNmp)):
        for row_bytes in (64, 128, 256):
            part = read(cls, name)
            yield Row("alternative", f"{part.name}, {row_bytes} B", speedup(part, lookups(row_bytes)))
    for row_bytes in (64, 128, 256):
        yield Row("alternative", f"RecNMP-base, {row_bytes} B", speedup(unit(8), lookups(row_bytes)))
    small = PooledLookups(POOLINGS, POOLING, 32, element_bytes=1.0, row_overhead=8.0)
    yield Row("alternative", "RecNMP-base, 32 numbers in 8 bits (40 B)", speedup(unit(8), small))


def elsewhere() -> Iterator[Row]:
    """The alternatives where another paper ran them, and TensorDIMM's own claim beside sums of its kind."""
    ddr5 = read(DramChannel, "ddr5_4800_16gb_x8")
    ddr5 = ddr5.model_copy(update={"ranks": 2, "timing": ddr5.timing.model_copy(update={"tRC": 116.0})})
    work = PooledLookups(32, 80, 64)
    faster = {}
    for name, part in {"TensorDIMM": read(ColumnNmp, "tensordimm"), "RecNMP": read(RankNmp, "recnmp_base"),
                       "Chameleon": read(DimmNmp, "chameleon_like")}.items():  # fmt: skip
        here = part.model_copy(update={"dimms": 1, "ranks_per_dimm": 2, "poolings_per_packet": 8})
        faster[name] = float(host_time(work, ddr5) / here.serve(work, ddr5).time.total)
        published = RECROSS["CPU"] / RECROSS[name] if name in RECROSS else None
        yield Row("elsewhere", f"{name} over a CPU, 2 ranks of DDR5", faster[name], published, NOTE, "second hand")
    ratio = faster["RecNMP"] / faster["TensorDIMM"]
    yield Row("elsewhere", "RecNMP over TensorDIMM, the same", ratio, RECROSS["TensorDIMM"] / RECROSS["RecNMP"],
              NOTE, "second hand")  # fmt: skip
    for ranks in (8, 16):
        for row_bytes in (256, 512, 1024):
            part = read(ColumnNmp, "tensordimm").model_copy(update={"dimms": ranks // 2})
            name = f"TensorDIMM-like, {ranks} ranks, {row_bytes} B"
            yield Row("elsewhere", name, speedup(part, lookups(row_bytes)), None, "", TENSORDIMM)


STUDIES = {
    "ranks": ("Ranks and packets", rank_parallelism),
    "ladder": ("Cache, scheduling, profiling", ladder),
    "sizes": ("Size of the cache", cache_sizes),
    "models": ("End to end", end_to_end),
    "commands": ("Commands", commands),
    "energy": ("Energy", energy),
    "host": ("The host", host_threads),
    "registers": ("The formula against the simulator", registers),
    "others": ("Other units", alternatives),
    "elsewhere": ("Units in another paper", elsewhere),
}


@cache
def found(name: str) -> tuple[Row, ...]:
    """Rows of a study."""
    return tuple(STUDIES[name][1]())


def rows() -> list[Row]:
    """Everything, in order."""
    return [row for name in STUDIES for row in found(name)]


# --- output -----------------------------------------------------------------------------------------------------


def claims() -> list[Claim]:
    """What was published, what comes out, and why."""
    ranks, steps, sizes, saved = (found(name) for name in ("ranks", "ladder", "sizes", "energy"))
    relieved = [row for row in found("models") if row.target == "end to end"]
    best = max(sizes, key=lambda row: row.predicted).case
    simulated = {row.case: row.predicted for row in found("registers")}
    savings = [row.predicted for row in saved]
    return [
        Claim(
            f"Pooled lookups on 2, 4 and 8 ranks are {SPEEDUP[2, 8]}, {SPEEDUP[4, 8]} and {SPEEDUP[8, 8]} times as "
            "fast "
            "as on the host, with 8 poolings a packet (Fig. 14a).",
            f"{', '.join(f'{speedup(unit(n)):.2f}' for n in (2, 4, 8))}. Over all bars: {mean_error(ranks)}.",
            "Rows are taken as 128 B, as a later paper on the same models says: with 64 B rows four activates per tFAW "
            "bound a rank. The formula of rank loads is optimistic with one pooling a packet, where ten rows a rank do "
            "not average out bank conflicts: simulated, it stays at "
            f"{simulated['8 ranks, 1 poolings, 64 registers']:.2f} "
            f"however many registers there are; published is {SPEEDUP[8, 1]}.",
        ),
        Claim(
            f"A cache in each rank, scheduling and profiling bring {', '.join(map(str, LADDER.values()))} "
            "(Fig. 15a); a cache of 128 KB is the best (Fig. 15b).",
            f"{', '.join(f'{row.predicted:.2f}' for row in steps)}; best is the {best}. Over all sizes: "
            f"{mean_error(sizes)}.",
            "Hit rates are the paper's, whose traces are not public. The ladder is low probably because a rank is "
            "busiest "
            "partly for rows that repeat, which its cache takes away; the formula takes hits evenly.",
        ),
        Claim(
            f"Whole models are up to {END_TO_END['RMC2-large'][8]} times as fast (RMC2-large on 8 ranks, Fig. 18a).",
            f"{max(row.predicted for row in relieved):.2f}. Over 12 bars: {mean_error(relieved)}.",
            "Shares of the host's time are the paper's. They imply sums 8.0 to 8.5 times as fast on 8 ranks; Fig. 15a "
            "says 9.75, the model between the two. A cache beside one of two ranks serves four times the rows, so it "
            "is "
            "given the hit rate of a cache of a quarter of the size.",
        ),
        Claim(
            f"{ENERGY_SAVING:.1%} of memory energy saved (abstract).",
            f"{savings[0]:.1%} when all parts of 64 B rows are counted, {min(savings):.0%} to {max(savings):.0%} by "
            "what "
            "is counted.",
            "The paper does not give its accounting, so no one of these is the figure that it states.",
        ),
    ]


def build() -> Study:
    """The whole study."""
    known = [row for row in rows() if row.error is not None]
    said = f"{len(known)} published figures: {mean_error(known)}."
    parts = []
    for name, (title, _) in STUDIES.items():
        here = found(name)
        for index, target in enumerate(dict.fromkeys(row.target for row in here)):
            mine = [row for row in here if row.target == target]
            parts.append(compared(f"{name}-{index}" if index else name, target.capitalize() if index else title, mine,
                                  SAID.get(name, "")))  # fmt: skip
    return Study("RecNMP: near-memory lookups, predicted against published", said, claims(), parts)


SAID = {
    "registers": "Rows in flight on a rank decide how near the simulator comes to the formula of rank loads, and one "
    "pooling a packet never does.",
    "others": "Units that cut a row over ranks gain with long rows; those that hold it whole gain with ranks.",
}


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "recnmp", arguments)


if __name__ == "__main__":
    sys.exit(run())
