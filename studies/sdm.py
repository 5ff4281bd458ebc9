"""Embedding rows read from drives: blocks of 512 B against 4 KiB, and caches of rows against caches of blocks.

    python studies/sdm.py [-o sdm.html]

What Software Defined Memory (arXiv 2110.11489) says about drives below recommendation models, from published figures of
drives and tables. Nothing is fitted. Inputs are the files of designs/memories and designs/access.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from _page import Claim, Row, Study, compared, main

from archmodel import catalogue, source
from archmodel.memory.access import AccessFamily
from archmodel.memory.block import BlockTier
from archmodel.memory.queueing import closed_throughput

PAPER = "Software Defined Memory (arXiv 2110.11489)"
CLAIM = (
    f"{PAPER}: of a block of 4 KiB a row of 128 to 512 B is used, 8 to 32 times less than is read (secondary source)"
)
REVIEW = "AnandTech 11209, page 4: random reads of 4 KiB"


# --- inputs -----------------------------------------------------------------------------------------------------

PUBLISHED_AMPLIFICATION = {128: 32.0, 512: 8.0}
ROW_SIZES = (64, 128, 256, 512)
ROW_BYTES = 128
DRIVES = {
    "P4800X, 4 KiB": "optane_p4800x",
    "P4800X, 512 B": "optane_p4800x_512b",
    "P5800X, 4 KiB": "optane_p5800x",
    "P5800X, 512 B": "optane_p5800x_512b",
    "SZ985, 4 KiB": "z_nand_sz985",
    "PM1725a, 4 KiB": "nand_tlc_pm1725a",
    "PM9A3, 4 KiB": "nand_tlc_pm9a3",
}
PAIRS = (("P4800X, 4 KiB", "P4800X, 512 B"), ("P5800X, 4 KiB", "P5800X, 512 B"))
MEASURED = {
    # most reads/s, at depth 1, 99th percentile and mean at depth 1, at depth 16
    "P3700 800 GB": (460e3, 12.8e3, 96 / 77.9, 167.2e3),
    "9100 MAX 2.4 TB": (750e3, 9.2e3, 117 / 107.7, 135.7e3),
}
TABLE_ROWS = 100_000
"""Rows of the table that caches are simulated for; a table of the published batch has 150,000 distinct rows."""
DRAWS = 400_000
CACHE_SHARES = (0.01, 0.03, 0.1, 0.3)
QUERIES = 1000.0
"""Queries/s that reads are counted for."""


def drive(name: str) -> BlockTier:
    tree = source.read(catalogue.find(f"memories/{DRIVES[name]}.yaml"), catalogue=catalogue.directory())
    return source.validate(BlockTier, tree)


@cache
def accesses(year: int = 2021) -> Any:
    tree = source.read(catalogue.find(f"access/meta_dlrm_{year}.yaml"))
    return source.validate(AccessFamily.resolve(tree["kind"]), tree)


def lookups_per_query() -> float:
    """13,535: indices of the published batch over its 65,536 samples."""
    return float(accesses().indices) / 65_536


# --- figures ----------------------------------------------------------------------------------------------------


def amplification() -> Iterator[Row]:
    """Bytes read for a useful one."""
    for name in ("P5800X, 4 KiB", "P5800X, 512 B"):
        for size in ROW_SIZES:
            published = PUBLISHED_AMPLIFICATION.get(size) if name.endswith("4 KiB") else None
            found = float(drive(name).amplification(size * 1e6, 1e6))
            yield Row("read amplification", f"rows of {size} B, blocks of {name.split(', ')[1]}",
                      found, published, CLAIM if published else "")  # fmt: skip


def queue_depth() -> Iterator[Row]:
    """Thousand reads/s at queue depth 16, from those at depth 1 and the specified maximum."""
    for name, (most, alone, tail, measured) in MEASURED.items():
        variation = (tail - 1.0) / (np.log(100.0) - 1.0)
        rate = closed_throughput(16.0, 1.0 / alone, most / alone, variation)
        yield Row("thousand reads/s at depth 16", name, float(rate) / 1e3, measured / 1e3, REVIEW)
        ideal = min(16.0 * alone, most)
        yield Row("thousand reads/s at depth 16", f"{name}, Little's law alone", ideal / 1e3, measured / 1e3, REVIEW)
    rate = float(drive("P4800X, 4 KiB").request_rate(16.0))
    yield Row("thousand reads/s at depth 16", "P4800X 375 GB", rate / 1e3, 584.8, REVIEW,
              "bound by the 550 that are specified for this depth")  # fmt: skip


def useful_bandwidth() -> Iterator[Row]:
    """GB/s of rows out of one drive."""
    for name in DRIVES:
        for size in ROW_SIZES:
            time = float(drive(name).read_time(size * 1e6, 1e6))
            yield Row("useful GB/s of a drive", f"{name}, rows of {size} B", size * 1e6 / time / 1e9)


def lru(keys: list[int], size: int) -> float:
    """Share of hits of a cache of `size` keys, second half of the accesses."""
    held: OrderedDict[int, None] = OrderedDict()
    hits, half = 0, len(keys) // 2
    for number, key in enumerate(keys):
        if key in held:
            held.move_to_end(key)
            hits += number >= half
        else:
            held[key] = None
            if len(held) > size:
                held.popitem(last=False)
    return hits / (len(keys) - half)


@cache
def hit_rates(draws: int | None = None) -> dict[tuple[float, int], float]:
    """Hits of LRU caches of a share of the table's bytes, by rows in an entry (1: a row; 4 and 32: a block)."""
    rng = np.random.default_rng(0)
    ranks = accesses().sample(TABLE_ROWS, DRAWS if draws is None else draws, rng)
    rows = rng.permutation(TABLE_ROWS)[ranks]
    return {
        (share, entry): lru((rows // entry).tolist(), max(int(share * TABLE_ROWS / entry), 1))
        for share in CACHE_SHARES
        for entry in (1, 512 // ROW_BYTES, 4096 // ROW_BYTES)
    }


def caching() -> Iterator[Row]:
    names = {1: "rows", 4: "blocks of 512 B", 32: "blocks of 4 KiB"}
    for (share, entry), rate in hit_rates().items():
        note = ""
        if entry == 1:
            formula = float(accesses().hit_rate(float(TABLE_ROWS), share * TABLE_ROWS, "lru"))
            note = f"closed form {formula:.3f}"
        yield Row("hit rate", f"{share:.0%} of the table as {names[entry]}", rate, note=note)


def queries() -> Iterator[Row]:
    """Queries/s of one drive, and what a drive's host reads for 1,000 queries/s."""
    lookups = lookups_per_query()
    for share in (0.0, *CACHE_SHARES):
        missed = lookups * (1.0 - (hit_rates()[share, 1] if share else 0.0))
        yield Row("million reads/s for 1,000 queries/s", f"{share:.0%} of the rows cached", missed * QUERIES / 1e6)
        for name in DRIVES:
            time = float(drive(name).read_time(missed * 1e4 * ROW_BYTES, missed * 1e4))
            yield Row("queries/s of a drive", f"{name}, {share:.0%} of the rows cached", 1e4 / time)
    for name in DRIVES:
        missed = lookups * (1.0 - hit_rates()[0.1, 1])
        moved = float(drive(name).moved_bytes(missed * QUERIES * ROW_BYTES, missed * QUERIES))
        yield Row("GB/s into the host for 1,000 queries/s", f"{name}, 10% of the rows cached", moved / 1e9)


def small_blocks() -> Iterator[Row]:
    """What 512 B gain over 4 KiB on the same drive."""
    for whole, small in PAIRS:
        first, second = (drive(name) for name in (whole, small))
        size, count = ROW_BYTES * 1e6, 1e6
        faster = float(first.read_time(size, count)) / float(second.read_time(size, count))
        saved = float(first.moved_bytes(size, count)) / float(second.moved_bytes(size, count))
        name = whole.split(",")[0]
        yield Row("512 B over 4 KiB", f"{name}, rows/s", faster)
        yield Row("512 B over 4 KiB", f"{name}, bytes over PCIe and through host memory saved", saved)


def latency() -> Iterator[Row]:
    """Microseconds, at half of the drive's peak of reads."""
    for name in DRIVES:
        tier = drive(name)
        load = 0.5 * float(tier.request_rate(1e9))
        yield Row("microseconds at half load", f"{name}, mean", 1e6 * float(tier.mean_latency(load)))
        percentile = float(tier.latency_percentile(load))
        yield Row("microseconds at half load", f"{name}, 99th percentile", 1e6 * percentile)


def endurance() -> Iterator[Row]:
    """Days that a drive lasts when all its rows are rewritten every hour."""
    for name in DRIVES:
        tier = drive(name)
        yield Row("days, rewritten hourly", name, float(tier.lifetime_days(np.asarray(tier.capacity) / 3600.0)))


STUDIES = {
    "amplification": ("Read amplification", amplification),
    "depth": ("Queue depth", queue_depth),
    "bandwidth": ("Useful bandwidth", useful_bandwidth),
    "hits": ("Caches of rows and of blocks", caching),
    "queries": ("Queries", queries),
    "small": ("Small blocks", small_blocks),
    "latency": ("Latency", latency),
    "wear": ("Endurance", endurance),
}


@cache
def found(name: str) -> tuple[Row, ...]:
    """Rows of a study."""
    return tuple(STUDIES[name][1]())


def rows() -> list[Row]:
    """Everything, in order."""
    return [row for name in STUDIES for row in found(name)]


# --- output -----------------------------------------------------------------------------------------------------


def gains() -> dict[str, float]:
    """Of 512 B over 4 KiB."""
    return {row.case: row.predicted for row in found("small")}


def claims() -> list[Claim]:
    """What was published, what comes out, and why."""
    read = {row.case: row.predicted for row in found("amplification")}
    depth = {row.case: row.error or 0.0 for row in found("depth")}
    plain = [error for case, error in depth.items() if case.endswith("alone")]
    gained = gains()
    return [
        Claim(
            f"{CLAIM}. The paper saves 5 to 29 % of power.",
            f"{read['rows of 128 B, blocks of 4 KiB']:.0f} and {read['rows of 512 B, blocks of 4 KiB']:.0f} times; in "
            f"blocks of 512 B {read['rows of 128 B, blocks of 512 B']:.0f} and "
            f"{read['rows of 512 B, blocks of 512 B']:.0f}. Small blocks move "
            f"{gained['P5800X, bytes over PCIe and through host memory saved']:.0f} times fewer bytes on every drive, "
            f"but give more rows a second only where it answers more small reads: {gained['P5800X, rows/s']:.1f} times "
            "on "
            f"the P5800X, {gained['P4800X, rows/s']:.1f} on the P4800X.",
            "Read amplification is arithmetic and agrees. The 4 million reads/s of 512 B of the P5800X are an "
            "assumption. "
            "The power saving is not predicted: the power of the hosts of the paper is not public.",
        ),
        Claim(
            "Three drives at queue depth 16, measured: "
            f"{', '.join(f'{row.published:.0f}' for row in found('depth')[::2])} "
            f"thousand reads/s ({REVIEW}).",
            "; ".join(f"{case} {error:+.1%}" for case, error in depth.items() if not case.endswith("alone"))
            + f". Little's law alone is {min(plain):.1%} and {max(plain):.1%} high.",
            "Reads meet in the same channel of a NAND drive, which Little's law does not see. The P4800X was measured "
            "6 % "
            "above what it is specified for, which bounds the prediction.",
        ),
    ]


def build() -> Study:
    """The whole study."""
    gained = gains()
    saved = gained["P5800X, bytes over PCIe and through host memory saved"]
    said = (
        f"Blocks of 512 B instead of 4 KiB move {saved:.0f} times fewer bytes on any drive, and give "
        f"{gained['P5800X, rows/s']:.1f} times the rows a second on a P5800X, {gained['P4800X, rows/s']:.1f} times on "
        "a "
        "P4800X."
    )
    parts = []
    for name, (title, _) in STUDIES.items():
        for index, target in enumerate(dict.fromkeys(row.target for row in found(name))):
            mine = [row for row in found(name) if row.target == target]
            parts.append(
                compared(f"{name}-{index}" if index else name, upper(target) if index else title, mine, extremes(mine))
            )
    return Study("Embedding rows read from drives", said, claims(), parts)


def upper(text: str) -> str:
    """With a capital."""
    return text[:1].upper() + text[1:]


def extremes(found: Sequence[Row]) -> str:
    """The least and the most of rows without published ones; empty where there are."""
    if any(row.published is not None for row in found):
        return ""
    if found[0].target == "hit rate":
        rates = hit_rates()
        return (
            f"With 10 % of the table in memory a cache of rows hits {rates[0.1, 1]:.0%}, of blocks of 512 B "
            f"{rates[0.1, 4]:.0%}, of 4 KiB {rates[0.1, 32]:.0%}: rows lie in any order, so those beside a hot row are "
            "cold."
        )
    low, high = min(found, key=lambda row: row.predicted), max(found, key=lambda row: row.predicted)
    if low.predicted == high.predicted:
        return f"{upper(found[0].target)}: {low.predicted:.3g} everywhere."
    return f"{upper(found[0].target)}: from {low.predicted:.3g} ({low.case}) to {high.predicted:.3g} ({high.case})."


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "sdm", arguments)


if __name__ == "__main__":
    sys.exit(run())
