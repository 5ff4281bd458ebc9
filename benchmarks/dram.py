"""How far closed form and simulator of a DRAM channel are apart: python benchmarks/dram.py (half a minute on one core).

Random vectors, then vectors in the order of a Zipf law, then a scan, on the parts the constants were fitted on
(DDR4-2400 8Gb x8, DDR5-4800 16Gb x8) and on one that they never saw (DDR4-2666).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from archmodel import catalogue, source
from archmodel.memory.access import Zipf
from archmodel.memory.batch_cache import paged
from archmodel.memory.dram.channel import DramChannel
from archmodel.memory.dram.gathers import gather_bound
from archmodel.memory.dram.simulate import Gathers, laid_out, random_gathers, serve
from archmodel.memory.dram.streams import stream_bound

VECTORS, TABLE = 8000, 1_000_000
RANKS, PAGES, SIZES = (1, 2, 3, 4), ("open", "closed"), (64, 128, 192, 256)
QUEUES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)


def part(name: str) -> DramChannel:
    file = catalogue.find(f"memories/{name}.yaml")
    return source.validate(DramChannel, source.read(file, catalogue=catalogue.directory()))


def faster(channel: DramChannel) -> DramChannel:
    """DDR4-2666 19-19-19 of the same chips: nanoseconds as before, in cycles of another clock."""
    new = {"clock": 1.333e9, "tRC": 62, "tRCD": 19, "tCL": 19, "tRP": 19, "tCCD_L": 7, "tRRD_L": 7, "tFAW": 28,
           "tRTP": 10, "tRFC": 467, "tREFI": 10400}  # fmt: skip
    return channel.model_copy(update={"timing": channel.timing.model_copy(update=new)})


def zipf(alpha: float, seed: int) -> np.ndarray:
    weights = np.arange(1.0, TABLE + 1) ** -alpha
    rng = np.random.default_rng(seed)
    return rng.permutation(TABLE)[rng.choice(TABLE, VECTORS, p=weights / weights.sum())]


def show(what: str, errors: dict[tuple[object, ...], float]) -> None:
    off = np.abs(list(errors.values()))
    worst = max(errors, key=lambda case: abs(errors[case]))
    print(f"{what:34s} {len(off):5d} cases, mean {off.mean():4.1%}, worst {errors[worst]:+6.1%} at {worst}, "
          f"{(off > 0.05).sum()} over 5 %")  # fmt: skip


def cases(
    channel: DramChannel, queues: tuple[int, ...] = QUEUES
) -> Iterator[tuple[tuple[object, ...], int, DramChannel]]:
    for ranks, page, queue, size in itertools.product(RANKS, PAGES, queues, SIZES):
        case = f"{ranks} ranks", page, f"queue {queue}", f"{size} B"
        yield case, size, channel.model_copy(update={"ranks": ranks, "page": page, "queue": queue})


def cycles(channel: DramChannel, gathers: Gathers) -> float:
    return serve(channel, gathers).cycles / len(gathers)


def main() -> None:
    ddr4, ddr5 = part("ddr4_2400_8gb_x8"), part("ddr5_4800_16gb_x8")
    for name, channel in {"DDR4-2400": ddr4, "DDR5-4800": ddr5, "DDR4-2666, not fitted": faster(ddr4)}.items():
        show(f"random, {name}", {
            case: float(gather_bound(c, size).cycles) / cycles(c, random_gathers(c, VECTORS, size, seed=1)) - 1
            for case, size, c in cases(channel)
        })  # fmt: skip
    for alpha in (0.6, 0.8, 1.0, 1.2):
        ids = [zipf(alpha, seed) for seed in range(4)]
        errors = {}
        for case, size, c in cases(ddr4, (1, 4, 12, 32, 64)):
            rows = paged(Zipf(alpha=alpha).popularity(float(TABLE)), c.row_bytes / size)
            measured = np.mean([cycles(c, laid_out(c, some, size)) for some in ids])
            errors[case] = float(gather_bound(c, size, popularity=rows).cycles) / measured - 1
        show(f"Zipf {alpha}, DDR4-2400", errors)
    for name, channel in {"DDR4-2400": ddr4, "DDR5-4800": ddr5}.items():
        errors = {}
        for case, size, c in cases(channel, (1, 4, 12, 32, 64)):
            scan = np.arange(VECTORS * 2)
            if c.row_bytes % (size // 64 * 64) == 0:
                errors[case] = float(stream_bound(c, size).cycles) / cycles(c, laid_out(c, scan, size)) - 1
        show(f"scan, {name}", errors)


if __name__ == "__main__":
    main()
