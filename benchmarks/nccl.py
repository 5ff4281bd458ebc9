"""How well a node's fabric predicts times of nccl-tests that its constants have not seen.

    python benchmarks/nccl.py TABLE.csv

TABLE.csv: system (a100_sxm, h100_sxm), op, num_gpus, size_bytes, time_us. Printed are mean absolute errors: of the
catalogue's constants, which were fitted to such a table; of every size by constants fitted without the rows of that
size; and of one generation by the other's constants, link speed and clock. About two CPU minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import archmodel as am
from archmodel.calibrate import network
from archmodel.calibrate.fabric import constants_of

NODES = {"a100_sxm": "dgx_a100", "h100_sxm": "dgx_h100"}
CLOCKS = {"a100_sxm": 1.41e9, "h100_sxm": 1.98e9}
"""Highest clocks of the two, at which their collectives run (datasheets)."""

SWITCH = {"in_network.base": 33.4e-6, "in_network.fraction": 0.85}
"""Reduction in the switch as NCCL's tuner expects it (src/graph/tuning.cc): the switch's, so it is not transferred."""


def main(path: Path) -> None:
    """All figures."""
    nodes = {system: am.load_system(f"systems/{name}.yaml").node.scale_up for system, name in NODES.items()}
    constants = {system: constants_of(node) for system, node in nodes.items()}
    print(f"{'':10} {'fitted':>8} {'sizes left out':>16} {'from the other':>16}")
    for system, other in zip(NODES, reversed(NODES), strict=True):
        measured, node = network.read(path, system), nodes[system]
        link = float(np.max(node.bandwidth)), float(np.max(node.protocols["ll"].tuner.fraction))

        def machine(given: Mapping[str, float], link: tuple[float, float] = link) -> network.Machine:
            return network.in_node(network.switch(given, *link))

        mine = network.Fit(constants[system], np.zeros(len(measured.time)))
        moved = network.transferred(constants[other], CLOCKS[system] / CLOCKS[other])
        moved = {name: value for name, value in moved.items() if not name.startswith("in_network")}
        if node.in_network is not None:
            moved |= SWITCH
        errors = (
            network.predict(network.in_node(node), measured) / measured.time - 1,
            network.leave_sizes_out(measured, mine, machine),
            network.predict(machine(moved), measured) / measured.time - 1,
        )
        fitted, left_out, transferred = (f"{np.abs(e).mean():.2%}" for e in errors)
        print(f"{system:10} {fitted:>8} {left_out:>16} {transferred:>16}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
