"""How long design points with an endpoint engine take: 20 points of the link latency of three workloads on a 3D torus.

python benchmarks/endpoints.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from archmodel import catalogue, estimate, load  # noqa: E402

POINTS = np.linspace(90e-9, 500e-9, 20)
DESIGNS = ("dlrm_hybrid_torus3d_4x4x4", "gnmt_torus3d_4x4x4", "resnet50_torus3d_4x4x4")


def main() -> int:
    """Prints CPU milliseconds a point: of one, and of twenty at once."""
    for name in DESIGNS:
        design = load(catalogue.find(name))
        estimate(design)
        taken = []
        for d in (design, design.with_({"system.node.scale_up.link_latency": POINTS})):
            start = time.process_time()
            estimate(d)
            taken.append(1e3 * (time.process_time() - start))
        print(f"{name:28}  one {taken[0]:7.1f} ms   of {len(POINTS)} {taken[1] / len(POINTS):7.1f} ms a point")
    return 0


if __name__ == "__main__":
    sys.exit(main())
