"""Building topologies: who sits where, what joins them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.network import NoScaleUp, RailClos, Switch, TopologyError, build_topology
from archmodel.network.nic import Nic
from archmodel.network.topology import place

SWITCH = Switch.model_validate({"bandwidth": "300 GB/s", "gpus": 8})
NIC = Nic.model_validate({"bandwidth": "200 Gbit/s"})
CLOS = RailClos.model_validate({"latency": "5 us"})


def test_ranks_are_local_size_times_nodes() -> None:
    topology = build_topology(SWITCH, ranks_per_node=8, nodes=3, nic=NIC, scale_out=CLOS)
    assert (topology.ranks, topology.local_size, topology.nodes) == (24, 8, 3)
    assert [d.name for d in topology.dimensions] == ["scale_up", "scale_out"]
    assert [d.size for d in topology.dimensions] == [8, 3]


def test_part_of_a_node() -> None:
    topology = build_topology(SWITCH, ranks_per_node=2, gpus_per_node=8)
    assert topology.ranks == 2
    assert topology.scale_out is None
    assert topology.scale_up.bandwidth == 300e9


@pytest.mark.parametrize(("group", "extent"), [("world", (8, 3)), ("node", (8, 1)), ("rail", (1, 3))])
def test_extent_of_groups(group: str, extent: tuple[int, int]) -> None:
    topology = build_topology(SWITCH, ranks_per_node=8, nodes=3, nic=NIC, scale_out=CLOS)
    assert topology.extent(group) == extent


def test_unknown_names_are_refused_with_the_nearest() -> None:
    topology = build_topology(SWITCH, ranks_per_node=8)
    with pytest.raises(TopologyError, match="did you mean world"):
        topology.extent("wrld")
    with pytest.raises(TopologyError, match="did you mean scale_up"):
        topology.bisection("scale_pu")


def test_more_nodes_need_a_network() -> None:
    with pytest.raises(TopologyError, match="need a scale_out fabric"):
        build_topology(SWITCH, ranks_per_node=8, nodes=2, nic=NIC)
    with pytest.raises(TopologyError, match="need a NIC"):
        build_topology(SWITCH, ranks_per_node=8, nodes=2, scale_out=CLOS)


def test_more_ranks_than_the_fabric_joins() -> None:
    with pytest.raises(TopologyError, match="fabric of 8 GPUs"):
        build_topology(SWITCH, ranks_per_node=9)
    with pytest.raises(TopologyError, match="a node of 4 GPUs"):
        build_topology(SWITCH, ranks_per_node=8, gpus_per_node=4)
    with pytest.raises(TopologyError, match="need a scale_up fabric"):
        build_topology(NoScaleUp.model_validate({}), ranks_per_node=2)
    with pytest.raises(TopologyError, match="at least one"):
        build_topology(SWITCH, ranks_per_node=0)


def test_place_fills_nodes() -> None:
    assert place(2, 8) == (2, 1)
    assert place(8, 8) == (8, 1)
    assert place(24, 8) == (8, 3)
    with pytest.raises(TopologyError, match="8 or 16 do"):
        place(12, 8)
    with pytest.raises(TopologyError, match="at least one"):
        place(0, 8)


def test_graph_joins_every_rank_and_knows_its_bandwidth() -> None:
    nx = pytest.importorskip("networkx")
    topology = build_topology(SWITCH, ranks_per_node=4, nodes=3, nic=NIC, scale_out=CLOS)
    graph = topology.graph()
    assert nx.is_connected(graph)
    assert sum(data["kind"] == "gpu" for _, data in graph.nodes(data=True)) == 12
    assert graph.edges[0, "node 0 switch"]["bandwidth"] == 300e9
    assert graph.edges[5, "leaf 1"]["bandwidth"] == 25e9


def test_graph_cut_equals_bisection() -> None:
    nx = pytest.importorskip("networkx")
    topology = build_topology(SWITCH, ranks_per_node=8)
    graph = topology.graph()
    graph.add_edges_from([("left", g) for g in range(4)] + [("right", g) for g in range(4, 8)], bandwidth=1e18)
    cut = nx.minimum_cut_value(graph, "left", "right", capacity="bandwidth")
    assert cut == topology.bisection("scale_up") == 4 * 300e9


def test_fields_may_be_arrays_over_design_points() -> None:
    fast = np.array([[300e9], [450e9]])
    topology = build_topology(Switch.model_validate({"bandwidth": fast}), ranks_per_node=8)
    assert np.shape(topology.scale_up.ring_bandwidth) == (2, 1)
