"""Design points with an endpoint engine, followed one by one and together: points of the link latency of three
workloads on a 3D torus, with an engine that takes nothing from compute and with kernels that share memory with it.

python benchmarks/endpoints.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from archmodel import catalogue, estimate, load  # noqa: E402
from archmodel.estimate import contention  # noqa: E402

DESIGNS = ("dlrm_hybrid_torus3d_4x4x4", "gnmt_torus3d_4x4x4", "resnet50_torus3d_4x4x4")
KERNELS = {"kind": "sm_driven", "copy_width": 64.0, "sms": 6}
AFEW, MANY = 20, 500


def main() -> int:
    """Prints CPU milliseconds a point, and the largest relative difference between the two ways."""
    print(f"{'':44}  {f'{AFEW} one by one':>15} {f'{AFEW} together':>12} {f'{MANY} together':>13}  ratio  difference")
    for name in DESIGNS:
        for label, changes in (("engine", {}), ("kernels", {"system.node.endpoint": KERNELS})):
            design = load(catalogue.find(name)).with_(changes)
            estimate(design)
            apart, expected = timed(design, AFEW, together=False)
            few, found = timed(design, AFEW, together=True)
            many, _ = timed(design, MANY, together=True)
            difference = np.max(np.abs(found - expected) / expected)
            print(
                f"{name:34}  {label:8}  {apart:12.2f} ms {few:9.2f} ms {many:10.2f} ms"
                f"  {apart / many:4.0f}x  {difference:.0e}"
            )
    return 0


def timed(design: Any, points: int, *, together: bool) -> tuple[float, Any]:
    """CPU milliseconds a point, and iteration times."""
    contention.TOGETHER, before = 2 if together else points + 1, contention.TOGETHER
    several = design.with_({"system.node.scale_up.link_latency": np.linspace(90e-9, 500e-9, points)})
    start = time.process_time()
    found = estimate(several).iteration_time
    taken = 1e3 * (time.process_time() - start) / points
    contention.TOGETHER = before
    return taken, found


if __name__ == "__main__":
    sys.exit(main())
