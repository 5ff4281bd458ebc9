"""Speed of searches on this machine, and how near NSGA-II comes to exact fronts: `python benchmarks/search.py`.

A rate is points over the CPU seconds of this process, times two cores; everything counts: checks, evaluation, the
record, the front. Shares of hypervolume are those of the exact front, from the same reference.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(name, "1")

CORES = 2
HBM, LINK, PEAK = (f"system.node.{field}" for field in ("gpu.hbm.bandwidth", "scale_up.bandwidth", "gpu.peaks.fp16"))
NUMERIC: dict[str, Any] = {
    "design": str(ROOT / "designs" / "mlperf_dlrm_v1_dgx_h100.yaml"),
    "knobs": {
        HBM: {"from": "1 TB/s", "to": "8 TB/s", "count": 60},
        LINK: {"from": "100 GB/s", "to": "900 GB/s", "count": 50},
        PEAK: {"from": "300 TFLOP/s", "to": "3000 TFLOP/s", "count": 60},
    },
    "objectives": ["throughput", "energy_per_sample"],
    "outputs": ["iteration_time"],
}
"""180,000 points of one design, as arrays."""

MIXED: dict[str, Any] = {
    "design": str(ROOT / "designs" / "mlperf_dcnv2_eos_8x8.yaml"),
    "set": {"plan": "auto"},
    "knobs": {
        HBM: {"from": "2 TB/s", "to": "8 TB/s", "count": 7},
        "system.node.nic.bandwidth": ["100 Gbit/s", "200 Gbit/s", "400 Gbit/s", "800 Gbit/s"],
        "system.nodes": [2, 4, 8, 16],
        "system.node.gpu": ["h100_sxm_80gb", "a100_sxm_80gb", "h200_sxm_141gb"],
        "workload.global_batch": [65536, 135168, 270336, 540672],
    },
    "constraints": {"peak_power": "<= 150 kW"},
    "objectives": ["throughput", "latency", "peak_power"],
}
"""1,344 points of 48 designs."""


def row(what: str, value: str) -> None:
    """One line of the report."""
    print(f"{what:<66} {value:>44}", flush=True)


def main() -> None:
    import archmodel as am

    with tempfile.TemporaryDirectory() as folder:
        used = time.process_time()
        found = am.search(NUMERIC, out=Path(folder) / "front.parquet")
        used = time.process_time() - used
        count, size = len(found.points.codes), (Path(folder) / "front.sqlite").stat().st_size
        row(f"{count:,} points of DLRM on 8 ranks, recorded", f"{CORES * count / used:,.0f}/s, {size / 2**20:,.0f} MiB")
        used = time.process_time()
        am.search(NUMERIC, out=Path(folder) / "front.parquet")
        row("  the same again, from the record", f"{time.process_time() - used:.1f} s of CPU")
    used = time.process_time()
    exact = am.search(MIXED)
    used = time.process_time() - used
    row(
        f"{len(exact.points.codes):,} points of DCNv2, 48 designs, exact",
        f"{used:.1f} s of CPU, front of {len(exact.front)}",
    )
    for points in (100, 200, 400):
        shares = []
        used = time.process_time()
        for seed in range(5):
            asked = {**MIXED, "method": "nsga2", "reference": dict(exact.reference)}
            shares.append(am.search(asked, points=points, seed=seed).hypervolume / exact.hypervolume)
        used = (time.process_time() - used) / 5
        what = f"{min(shares):.2%} to {max(shares):.2%} of the hypervolume, {used:.1f} s of CPU"
        row(f"  NSGA-II, {points} points, 5 seeds", what)


if __name__ == "__main__":
    sys.exit(main())
