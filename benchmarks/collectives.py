"""How long it takes to price collectives: every algorithm, 20 sizes, at 1,024 and 65,536 ranks.

python benchmarks/collectives.py
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from archmodel.collectives import estimate  # noqa: E402
from archmodel.collectives.kinds import SERVES  # noqa: E402
from archmodel.network import Nic, RailClos, Switch, Topology, build_topology  # noqa: E402

SIZES = np.geomspace(1e3, 1e9, 20)
KINDS = ("all_reduce", "all_to_all")


def cluster(nodes: int) -> Topology:
    """Nodes of eight ranks on a switch, a rail-optimised network between them."""
    return build_topology(
        Switch.model_validate({"bandwidth": 450e9, "latency": 1e-6}),
        ranks_per_node=8,
        nodes=nodes,
        nic=Nic.model_validate({"bandwidth": 50e9}),
        scale_out=RailClos.model_validate({"latency": 5e-6}),
    )


def price_all(topology: Topology, fidelity: str = "protocol") -> None:
    """All-reduce and all-to-all by every algorithm that serves several nodes, and hierarchical in the best chunks."""
    for kind in KINDS:
        for algorithm in SERVES[kind]:
            if algorithm != "in_network":
                estimate(topology, kind, algorithm, per_rank_input_bytes=SIZES, fidelity=fidelity)  # type: ignore[arg-type]
    estimate(topology, "all_reduce", "hierarchical", per_rank_input_bytes=SIZES, chunks="auto")


def main() -> None:
    for nodes, target in ((128, 0.050), (8192, 1.0)):
        topology = cluster(nodes)
        start = time.process_time()
        price_all(topology)
        first = time.process_time() - start
        start = time.process_time()
        price_all(topology)
        again = time.process_time() - start
        tracemalloc.start()
        price_all(cluster(nodes + 1))  # another size, so that nothing is remembered
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(
            f"{topology.ranks:>6} ranks: {1e3 * first:6.1f} ms, again {1e3 * again:5.1f} ms, "
            f"{peak / 1e6:5.1f} MB at most   target {1e3 * target:.0f} ms"
        )


if __name__ == "__main__":
    main()
