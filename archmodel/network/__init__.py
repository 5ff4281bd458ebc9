"""Networks: the fabrics that join GPUs in a node and nodes in a cluster, and the topology built from them.

Kinds beyond the common ones are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, Fabric, Fault, ScaleOut, ScaleUp
from archmodel.network.graph import Edge
from archmodel.network.nic import Nic
from archmodel.network.none import NoScaleOut, NoScaleUp
from archmodel.network.protocol import Protocol
from archmodel.network.rail_clos import RailClos
from archmodel.network.switch import Switch
from archmodel.network.topology import Topology, build_topology

if TYPE_CHECKING:
    from archmodel.network.custom import Custom, Link
    from archmodel.network.dimensions import Dimensions, NodeDimensions
    from archmodel.network.fat_tree import FatTree, NodeTree
    from archmodel.network.fully_connected import FullyConnected
    from archmodel.network.hybrid_cube_mesh import HybridCubeMesh
    from archmodel.network.pcie import Pcie
    from archmodel.network.torus import Mesh, NodeMesh, NodeTorus, Ring, Torus

_HOMES = {
    "Custom": "custom",
    "Link": "custom",
    "Dimensions": "dimensions",
    "NodeDimensions": "dimensions",
    "FatTree": "fat_tree",
    "NodeTree": "fat_tree",
    "FullyConnected": "fully_connected",
    "HybridCubeMesh": "hybrid_cube_mesh",
    "Pcie": "pcie",
    "Mesh": "torus",
    "NodeMesh": "torus",
    "NodeTorus": "torus",
    "Ring": "torus",
    "Torus": "torus",
}

__all__ = [
    "SCALE_OUT",
    "SCALE_UP",
    "Custom",
    "Dimension",
    "Dimensions",
    "Edge",
    "Fabric",
    "FatTree",
    "Fault",
    "FullyConnected",
    "HybridCubeMesh",
    "Link",
    "Mesh",
    "Nic",
    "NoScaleOut",
    "NoScaleUp",
    "NodeDimensions",
    "NodeMesh",
    "NodeTorus",
    "NodeTree",
    "Pcie",
    "Protocol",
    "RailClos",
    "Ring",
    "ScaleOut",
    "ScaleUp",
    "Switch",
    "Topology",
    "TopologyError",
    "Torus",
    "build_topology",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
