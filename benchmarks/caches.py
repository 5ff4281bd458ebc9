"""Speed and accuracy of the cache simulators on this machine: `python benchmarks/caches.py [accesses in millions]`.

A table of a million rows under Zipf exponents; accesses per CPU second of one core, compilation not counted, set-up
counted. Errors are in points of hit rate: of the sampled stack distances, and of Che's approximation, against the exact
ones.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable

import numpy as np

from archmodel.memory.access import Zipf
from archmodel.memory.cache_exact import CacheSimulator, SampledDistances, StackDistances
from archmodel.memory.compiled import available

ROWS = 1_000_000
SIZES = np.array([100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000])
TARGETS = {"lru": 80.0, "stack distances": 12.0, "sampled distances": 150.0}


def machine() -> str:
    """Name of the processor, as far as the system says."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith(("model name", "cpu MHz"))]
        return f"{names[0]} {names[1]} MHz" if len(names) > 1 else platform.processor()
    except OSError:
        return platform.processor()


Runner = CacheSimulator | StackDistances | SampledDistances


def rate(ids: np.ndarray, make: Callable[[], Runner]) -> tuple[float, object]:
    """Million accesses per CPU second, the best of three, and what was run last."""
    make().feed(ids[:2000])  # compiles
    best, last = np.inf, None
    for _ in range(3):
        start = time.process_time()
        last = make()
        last.feed(ids)
        best = min(best, time.process_time() - start)
    return len(ids) / best / 1e6, last


def main() -> None:
    """Prints a line per exponent and simulator."""
    count = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 20_000_000
    print(f"{machine()}, numba {'yes' if available() else 'no'}, {ROWS:,} rows, {count:,} accesses")
    rng = np.random.default_rng(0)
    for alpha in (0.6, 0.8, 1.05, 1.2):
        law = Zipf(alpha=alpha)
        ids = rng.permutation(ROWS)[law.sample(ROWS, count, rng)].astype(np.int32)
        whole, sampled = StackDistances(ROWS), SampledDistances(ROWS)
        speeds: dict[str, float] = {}
        for name, make in {
            "lru": lambda: CacheSimulator(ROWS, ROWS // 10),
            "fifo": lambda: CacheSimulator(ROWS, ROWS // 10, "fifo"),
            "lfu": lambda: CacheSimulator(ROWS, ROWS // 10, "lfu"),
            "lru 32-way": lambda: CacheSimulator(ROWS, ROWS // 10, "lru", 32),
            "stack distances": lambda: StackDistances(ROWS),
            "sampled distances": lambda: SampledDistances(ROWS),
        }.items():
            speeds[name], last = rate(ids, make)
            if isinstance(last, StackDistances):
                whole = last
            elif isinstance(last, SampledDistances):
                sampled = last
        exact = whole.hit_rate(SIZES)
        print(f"zipf {alpha}: million accesses per second")
        for name, speed in speeds.items():
            target = TARGETS.get(name)
            print(f"  {name:<18} {speed:7.1f}" + (f"   target {target:.0f}" if target else ""))
        closed = law.hit_rate(ROWS, SIZES.astype(float), draws=float(count))
        print(f"  sampled off by {100 * np.abs(sampled.hit_rate(SIZES) - exact).max():.2f} points at most", end="")
        print(f", Che's approximation by {100 * np.abs(closed - exact).max():.2f}")


if __name__ == "__main__":
    main()
