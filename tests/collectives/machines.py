"""Machines that the collective tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archmodel.network import SCALE_OUT, SCALE_UP, Nic, Topology, build_topology
from archmodel.source import read, strip, validate

DESIGNS = Path(__file__).parents[2] / "designs"


def component(path: str) -> Any:
    """A fabric of the catalogue."""
    tree = read(DESIGNS / path)
    family: Any = SCALE_OUT if tree["kind"] == "rail_clos" else SCALE_UP
    return validate(family.resolve(tree["kind"]), strip(tree))


def machine(
    node: str,
    ranks: int,
    nodes: int = 1,
    network: str = "ib_hdr_200g",
    nic: str = "200 Gbit/s",
    per_node: int | None = None,
) -> Topology:
    """A topology of catalogue fabrics and of interfaces of a line rate."""
    return build_topology(
        component(f"fabrics/{node}.yaml"),
        ranks_per_node=ranks,
        nodes=nodes,
        nic=Nic.model_validate({"bandwidth": nic, "per_node": per_node}),
        scale_out=component(f"fabrics/{network}.yaml"),
        gpus_per_node=8 if ranks <= 8 else 16,
    )
