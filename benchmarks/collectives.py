"""How long it takes to price collectives: every algorithm, 20 sizes, at 1,024 and 65,536 ranks; by the library's
protocols on nodes of eight, and by the links of one switch and of a torus.

python benchmarks/collectives.py
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from archmodel.collectives import estimate  # noqa: E402
from archmodel.collectives.kinds import SERVES, Fidelity  # noqa: E402
from archmodel.network import SCALE_UP, Nic, RailClos, Switch, Topology, build_topology  # noqa: E402

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


def switch(nodes: int) -> Topology:
    """As many ranks on one switch."""
    return build_topology(Switch.model_validate({"bandwidth": 50e9, "link_latency": 5e-7}), ranks_per_node=8 * nodes)


def torus(nodes: int) -> Topology:
    """As many on a torus of packages of eight."""
    sizes = [8, 1 << (nodes.bit_length() // 2), nodes >> (nodes.bit_length() // 2)]
    block = {"sizes": sizes, "link_bandwidth": [200e9, 25e9, 25e9], "link_latencies": 5e-7}
    return build_topology(SCALE_UP.resolve("torus").model_validate(block), ranks_per_node=8 * nodes)


def price_all(topology: Topology, fidelity: Fidelity) -> None:
    """All-reduce and all-to-all by every algorithm that serves, and hierarchical in the best chunks."""
    alone = ("double_binary_tree", "halving_doubling") if len(topology.dimensions) > 1 else ()
    for kind in KINDS:
        for algorithm in SERVES[kind]:
            if algorithm != "in_network" and (fidelity == "protocol" or algorithm not in alone):
                estimate(topology, kind, algorithm, per_rank_input_bytes=SIZES, fidelity=fidelity)
    estimate(topology, "all_reduce", "hierarchical", per_rank_input_bytes=SIZES, chunks="auto", fidelity=fidelity)


MACHINES: tuple[tuple[str, Fidelity, Callable[[int], Topology]], ...] = (
    ("nodes of 8, protocol", "protocol", cluster),
    ("one switch, link_load", "link_load", switch),
    ("torus, link_load", "link_load", torus),
)


def main() -> None:
    for nodes, target in ((128, 0.050), (8192, 1.0)):
        for name, fidelity, machine in MACHINES:
            topology = machine(nodes)
            start = time.process_time()
            price_all(topology, fidelity)
            first = time.process_time() - start
            start = time.process_time()
            price_all(topology, fidelity)
            again = time.process_time() - start
            tracemalloc.start()
            price_all(machine(2 * nodes), fidelity)  # another size, so that nothing is remembered
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            print(
                f"{topology.ranks:>6} ranks, {name:21}: {1e3 * first:6.1f} ms, again {1e3 * again:5.1f} ms, "
                f"{peak / 1e6:5.1f} MB at most for twice the ranks   target {1e3 * target:.0f} ms"
            )


if __name__ == "__main__":
    main()
