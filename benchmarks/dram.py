"""How far closed form and simulator of a DRAM channel are apart: python benchmarks/dram.py (eight minutes on one core).

Random vectors, then vectors in the order of a Zipf law, then a scan, on the parts the constants were fitted on
(DDR4-2400 8Gb x8, DDR5-4800 16Gb x8) and on others that they never saw. Where popular rows lie is chance, and the rate
differs by a tenth and more between two tables, so what is compared is the mean over tables laid out at random; the
standard error that is left is printed.
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
QUEUES, FEW_QUEUES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64), (1, 4, 12, 32, 64)
FITTED = {"DDR4-2400": "ddr4_2400_8gb_x8", "DDR5-4800": "ddr5_4800_16gb_x8"}
HELD_OUT = {
    "DDR4-2666, not fitted": "ddr4_2666_8gb_x8", "DDR4-3200, not fitted": "ddr4_3200_8gb_x8",
    "DDR4-2933 x16, not fitted": "ddr4_2933_8gb_x16", "DDR5-5600, not fitted": "ddr5_5600_16gb_x8",
    "DDR5-6400, not fitted": "ddr5_6400_16gb_x8",
}  # fmt: skip
ZIPF = {"DDR4-2400": {0.6: 8, 0.8: 8, 1.0: 32, 1.2: 32}, "DDR5-4800": {1.0: 32, 1.2: 32}}
"""Tables over which the mean is taken."""


def part(name: str) -> DramChannel:
    file = catalogue.find(f"memories/{name}.yaml")
    return source.validate(DramChannel, source.read(file, catalogue=catalogue.directory()))


def zipf(alpha: float, seed: int) -> np.ndarray:
    weights = np.arange(1.0, TABLE + 1) ** -alpha
    rng = np.random.default_rng(seed)
    return rng.permutation(TABLE)[rng.choice(TABLE, VECTORS, p=weights / weights.sum())]


def show(what: str, errors: dict[tuple[object, ...], float], more: str = "") -> None:
    off = np.abs(list(errors.values()))
    print(f"{what:34s} {len(off):5d} cases, mean {off.mean():4.1%}, worst {off.max():5.1%}, "
          f"{(off > 0.05).sum()} over 5 %{more}", flush=True)  # fmt: skip
    for case, error in errors.items():
        if abs(error) > 0.05:
            print(f"{'':34s} {error:+6.1%} at {', '.join(map(str, case))}")


def cases(
    channel: DramChannel, queues: tuple[int, ...] = QUEUES
) -> Iterator[tuple[tuple[object, ...], int, DramChannel]]:
    for ranks, page, queue, size in itertools.product(RANKS, PAGES, queues, SIZES):
        case = f"{ranks} ranks", page, f"queue {queue}", f"{size} B"
        yield case, size, channel.model_copy(update={"ranks": ranks, "page": page, "queue": queue})


def cycles(channel: DramChannel, gathers: Gathers) -> float:
    return serve(channel, gathers).cycles / len(gathers)


def popular(channel: DramChannel, alpha: float, tables: int) -> tuple[dict[tuple[object, ...], float], str]:
    ids = [zipf(alpha, seed) for seed in range(tables)]
    errors, noise = {}, []
    for case, size, c in cases(channel, FEW_QUEUES):
        rows = paged(Zipf(alpha=alpha).popularity(float(TABLE)), c.row_bytes / size)
        measured = [cycles(c, laid_out(c, some, size)) for some in ids]
        errors[case] = float(gather_bound(c, size, popularity=rows).cycles) / float(np.mean(measured)) - 1
        noise.append(np.std(measured, ddof=1) / np.sqrt(tables) / np.mean(measured))
    return errors, f"; standard error of {tables} tables {np.mean(noise):.1%}, at most {max(noise):.1%}"


def main() -> None:
    for name, file in (FITTED | HELD_OUT).items():
        show(f"random, {name}", {
            case: float(gather_bound(c, size).cycles) / cycles(c, random_gathers(c, VECTORS, size, seed=1)) - 1
            for case, size, c in cases(part(file))
        })  # fmt: skip
    for name, laws in ZIPF.items():
        for alpha, tables in laws.items():
            show(f"Zipf {alpha}, {name}", *popular(part(FITTED[name]), alpha, tables))
    for name, file in (FITTED | HELD_OUT).items():
        scan = np.arange(VECTORS * 4)
        show(f"scan, {name}", {
            case: float(stream_bound(c, size).cycles) / cycles(c, laid_out(c, scan, size)) - 1
            for case, size, c in cases(part(file), FEW_QUEUES)
            if c.row_bytes % size == 0
        })  # fmt: skip


if __name__ == "__main__":
    main()
