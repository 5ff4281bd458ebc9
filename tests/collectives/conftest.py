"""Machines that the collective tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archmodel.network import SCALE_OUT, SCALE_UP, Nic, Topology, build_topology
from archmodel.source import read, strip, validate

DESIGNS = Path(__file__).parents[2] / "designs"


def component(path: str) -> Any:
    """A block of the catalogue."""
    tree = read(DESIGNS / path)
    if path.startswith("nics/"):
        return validate(Nic, strip(tree))
    family: Any = SCALE_OUT if tree["kind"] == "rail_clos" else SCALE_UP
    return validate(family.resolve(tree["kind"]), strip(tree))


def machine(
    node: str, ranks: int, nodes: int = 1, network: str = "ib_hdr_200g", nic: str = "cx6_hdr_200g", **nic_fields: Any
) -> Topology:
    """A topology of catalogue fabrics."""
    return build_topology(
        component(f"fabrics/{node}.yaml"),
        ranks_per_node=ranks,
        nodes=nodes,
        nic=component(f"nics/{nic}.yaml").model_copy(update=nic_fields),
        scale_out=component(f"fabrics/{network}.yaml"),
        gpus_per_node=8 if ranks <= 8 else 16,
    )


@pytest.fixture(scope="session")
def build() -> Callable[..., Topology]:
    return machine
