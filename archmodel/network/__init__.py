"""Networks: the fabrics that join GPUs in a node and nodes in a cluster, and the topology built from them."""

from archmodel.network.dimension import Dimension
from archmodel.network.errors import TopologyError
from archmodel.network.fabric import SCALE_OUT, SCALE_UP, Fabric, ScaleOut, ScaleUp
from archmodel.network.fully_connected import FullyConnected
from archmodel.network.hybrid_cube_mesh import HybridCubeMesh
from archmodel.network.nic import Nic
from archmodel.network.none import NoScaleOut, NoScaleUp
from archmodel.network.pcie import Pcie
from archmodel.network.protocol import Protocol
from archmodel.network.rail_clos import RailClos
from archmodel.network.switch import Switch
from archmodel.network.topology import Topology, build_topology

__all__ = [
    "SCALE_OUT",
    "SCALE_UP",
    "Dimension",
    "Fabric",
    "FullyConnected",
    "HybridCubeMesh",
    "Nic",
    "NoScaleOut",
    "NoScaleUp",
    "Pcie",
    "Protocol",
    "RailClos",
    "ScaleOut",
    "ScaleUp",
    "Switch",
    "Topology",
    "TopologyError",
    "build_topology",
]
