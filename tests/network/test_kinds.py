"""Tori, meshes, fat trees, named dimensions, listed links, faults: sizes, rates, graphs, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from archmodel.errors import DesignError
from archmodel.network import SCALE_OUT, SCALE_UP, Nic, ScaleUp, Topology, TopologyError, build_topology
from archmodel.source import read, strip, validate

NIC = Nic.model_validate({"bandwidth": 25e9})
TORUS = {"sizes": [4, 2, 3], "link_bandwidth": [100e9, 25e9, 10e9], "link_latencies": [1e-7, 5e-7, 5e-7]}


def made(kind: str, **fields: Any) -> ScaleUp:
    return SCALE_UP.resolve(kind).model_validate(fields)


def whole(kind: str, ranks: int, **fields: Any) -> Topology:
    return build_topology(made(kind, **fields), ranks_per_node=ranks)


def from_file(tmp_path: Path, text: str) -> Any:
    """A fabric as a design file gives it."""
    path = tmp_path / "fabric.yaml"
    path.write_text(text, encoding="utf-8")
    tree = read(path)
    return validate(SCALE_UP.resolve(tree["kind"]), tree)


# --- boxes ----------------------------------------------------------------------------------------------------


def test_a_torus_has_a_dimension_for_each_size() -> None:
    t = whole("torus", 24, **TORUS)
    assert [(d.name, d.kind, d.size) for d in t.dimensions] == [("x", "ring", 4), ("y", "line", 2), ("z", "ring", 3)]
    assert [d.bandwidth for d in t.dimensions] == [200e9, 25e9, 20e9]
    assert [d.latency for d in t.dimensions] == [1e-7, 5e-7, 5e-7]
    assert t.scale_up.bandwidth == 245e9
    assert t.ranks == t.graph().number_of_nodes() == 24
    assert t.graph().number_of_edges() == 24 + 12 + 24


def test_the_bisection_of_a_torus_is_that_of_its_narrowest_cut() -> None:
    nx = pytest.importorskip("networkx")
    t = whole("torus", 16, sizes=[4, 4], link_bandwidth=[10e9, 30e9])
    assert t.bisection("scale_up") == 4 * 2 * 10e9
    graph = t.graph()
    left = [r for r in range(16) if r % 4 < 2]
    graph.add_edges_from([("a", r) for r in left] + [("b", r) for r in range(16) if r not in left], bandwidth=1e18)
    assert nx.minimum_cut_value(graph, "a", "b", capacity="bandwidth") == t.bisection("scale_up")


@pytest.mark.parametrize(("ranks", "sizes", "kinds"), [(4, (4, 1), "ring"), (8, (4, 2), "line"), (2, (2, 1), "line")])
def test_part_of_a_torus_has_no_links_round_its_ends(ranks: int, sizes: tuple[int, ...], kinds: str) -> None:
    t = whole("torus", ranks, sizes=[4, 4], link_bandwidth=25e9)
    assert tuple(d.size for d in t.dimensions) == sizes
    assert [d.kind for d in t.dimensions if d.size > 1][-1] == kinds


def test_ranks_that_are_no_box_are_refused_with_the_nearest() -> None:
    with pytest.raises(TopologyError, match="6 GPUs are no box of 4 x 4; 4 or 8 may be"):
        whole("torus", 6, sizes=[4, 4], link_bandwidth=25e9)
    with pytest.raises(TopologyError, match="32 GPUs do not fit 4 x 4 = 16"):
        whole("mesh", 32, sizes=[4, 4], link_bandwidth=25e9)


def test_lists_must_have_a_value_for_each_dimension() -> None:
    with pytest.raises(ValidationError, match="link_bandwidth has 2 values for 3 dimensions"):
        made("torus", sizes=[4, 4, 4], link_bandwidth=[1e9, 2e9])
    with pytest.raises(ValidationError, match="2 different names are needed"):
        made("torus", sizes=[4, 4], link_bandwidth=1e9, axes=["a", "a"])


def test_a_torus_between_nodes_needs_no_nic() -> None:
    between = SCALE_OUT.resolve("torus").model_validate({"sizes": [4, 2], "link_bandwidth": 25e9, "axes": ["v", "h"]})
    t = build_topology(made("ring", link_bandwidth=100e9), ranks_per_node=4, nodes=8, scale_out=between)
    assert [d.name for d in t.dimensions] == ["scale_up", "v", "h"]
    assert [d.level for d in t.dimensions] == ["scale_up", "scale_out", "scale_out"]
    assert (t.extent("v"), t.extent("scale_up+h"), t.extent("world")) == ((1, 4), (4, 2), (4, 8))
    assert t.graph().edges[0, 4]["bandwidth"] == 25e9
    nx = pytest.importorskip("networkx")
    assert nx.is_connected(t.graph())


def test_names_are_told_apart_and_suggested() -> None:
    between = SCALE_OUT.resolve("torus").model_validate({"sizes": [2, 2], "link_bandwidth": 25e9})
    inside = made("torus", sizes=[2, 2], link_bandwidth=25e9)
    with pytest.raises(TopologyError, match="two dimensions are called x"):
        build_topology(inside, ranks_per_node=4, nodes=4, scale_out=between)
    t = whole("torus", 4, sizes=[2, 2], link_bandwidth=25e9, axes=["local", "vertical"])
    with pytest.raises(TopologyError, match="did you mean vertical"):
        t.spanned("vertcal")


# --- switches -------------------------------------------------------------------------------------------------


def test_an_oversubscribed_switch_forwards_less_at_once() -> None:
    fabric = made("switch", bandwidth=100e9, gpus=8, oversubscription=2.0)
    assert fabric.dimension(8).direct_bandwidth == 50e9
    assert fabric.dimension(4).direct_bandwidth == 100e9  # half of the ports share all of it
    assert fabric.dimension(8).bisection == 200e9
    with pytest.raises(ValidationError, match="oversubscription is below 1"):
        made("switch", bandwidth=1e9, oversubscription=0.5)


def test_a_fat_tree_hurts_what_crosses_it_and_nothing_else() -> None:
    tree = made("fat_tree", bandwidth=10e9, radix=[4, 4], oversubscription=[4.0])
    assert tree.dimension(4).direct_bandwidth == 10e9
    crossing = 4 * 12 / (10e9 * 4 / 4)  # each leaf's 4 x 12 messages over its uplink
    assert tree.dimension(16).direct_bandwidth == pytest.approx(15 / crossing)
    assert tree.dimension(16).ring_bandwidth == 10e9
    assert tree.dimension(16).bisection == 20e9
    with pytest.raises(TopologyError, match="17 GPUs do not fit a fat tree of 4 x 4 = 16"):
        tree.dimension(17)
    with pytest.raises(ValidationError, match="oversubscription has 2 values; 2 levels have 1"):
        made("fat_tree", bandwidth=1e9, radix=[4, 4], oversubscription=[1.0, 2.0])


def test_a_fat_tree_of_nodes() -> None:
    between = SCALE_OUT.resolve("fat_tree").model_validate({"radix": [2, 4], "oversubscription": [2.0]})
    t = build_topology(made("switch", bandwidth=300e9), ranks_per_node=4, nodes=8, nic=NIC, scale_out=between)
    assert t.dimensions[1].bandwidth == 25e9
    assert t.bisection("scale_out") == 4 * 4 * 25e9 / 2
    with pytest.raises(TopologyError, match="need a NIC"):
        build_topology(made("switch", bandwidth=300e9), ranks_per_node=4, nodes=8, scale_out=between)


def test_planes_of_switches_add_up_when_striped() -> None:
    """Four switch planes with a link each carry what one switch with their sum does; so do parallel links."""
    planes = [{"between": [g, f"plane {p}"], "bandwidth": 50e9} for g in range(8) for p in range(4)]
    parallel = [{"between": [g, "switch"], "bandwidth": 50e9, "count": 4} for g in range(8)]
    listed = [{"between": [g, "switch"], "bandwidth": 50e9} for g in range(8) for _ in range(4)]
    one = made("switch", bandwidth=200e9).dimension(8)
    for links in (planes, parallel, listed):
        d = made("graph", links=links).dimension(8)
        assert d.bandwidth == pytest.approx(one.bandwidth)
        assert d.direct_bandwidth == pytest.approx(one.direct_bandwidth)
        assert d.ring_bandwidth == pytest.approx(one.ring_bandwidth)
        assert d.bisection == pytest.approx(one.bisection)


# --- dimensions -----------------------------------------------------------------------------------------------

HIERARCHY = """
kind: dimensions
dimensions:
  package: {kind: ring, gpus: 2, link_bandwidth: 250 GiB/s, link_latency: 500 ns}
  scale_up: {kind: fully_connected, gpus: 8, link_bandwidth: 200 GB/s}
  scale_out: {kind: switch, gpus: 4, bandwidth: 400 Gbit/s, latency: 1 us}
"""


def test_named_dimensions_from_a_file(tmp_path: Path) -> None:
    t = build_topology(from_file(tmp_path, HIERARCHY), ranks_per_node=64)
    assert [(d.name, d.size) for d in t.dimensions] == [("package", 2), ("scale_up", 8), ("scale_out", 4)]
    assert t.dimensions[0].bandwidth == 250 * 2**30  # GiB is 2**30, GB is 1e9
    assert t.dimensions[1].bandwidth == 7 * 200e9
    assert t.dimensions[2].bandwidth == 50e9
    assert t.graph().number_of_nodes() == 64 + 16  # a switch for every row of the outer dimension


def test_a_dimension_without_a_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="dimension scale_out has no size; give it `gpus`"):
        from_file(tmp_path, HIERARCHY.replace("gpus: 4, ", ""))


def test_a_torus_inside_dimensions_keeps_its_axes() -> None:
    torus = {"kind": "torus", "gpus": 4, "sizes": [2, 2], "link_bandwidth": 1e9}
    t = whole("dimensions", 8, dimensions={"board": torus, "rack": {"kind": "switch", "gpus": 2, "bandwidth": 1e9}})
    assert [d.name for d in t.dimensions] == ["board.x", "board.y", "rack"]


# --- units, directions, unknown words -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bandwidth: 450", "has no unit"),
        ("bandwidth: 450 GB", "is an amount of data; a bandwidth is needed"),
        ("bandwidth: 450 Gb/s", "could be bits or bytes"),
        ("bandwidth: 900 GB/s bidirectional", "has no unit|per direction"),
        ("bandwith: 450 GB/s", "did you mean bandwidth"),
        ("bandwidth: 450 GB/s\nlink_latency: 500", "has no unit"),
        ("bandwidth: 0 GB/s", "is zero"),
        ("bandwidth: 450 GB/s\noversubscription: 0.5", "oversubscription is below 1"),
    ],
)
def test_what_could_be_read_two_ways_is_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DesignError, match=message):
        from_file(tmp_path, f"kind: switch\n{line}\n")


def test_bandwidths_are_per_direction() -> None:
    """900 GB/s of NVLink, both ways together, is a switch of 450 GB/s; rings and exchanges send at most that."""
    d = made("switch", bandwidth="450 GB/s").dimension(8)
    assert d.bandwidth == d.ring_bandwidth == 450e9
    ring = made("ring", link_bandwidth="50 GB/s").dimension(8)
    rates = (ring.bandwidth, ring.ring_bandwidth, ring.both_ways_bandwidth)
    assert rates == pytest.approx((100e9, 50e9, 100e9))


@pytest.mark.parametrize("kind", ["ring", "switch", "fully_connected", "torus", "graph", "fat_tree", "dimensions"])
def test_links_without_latency_work(kind: str) -> None:
    fields: dict[str, dict[str, Any]] = {
        "ring": {"link_bandwidth": 1e9},
        "switch": {"bandwidth": 1e9},
        "fully_connected": {"link_bandwidth": 1e9},
        "torus": {"sizes": [2, 2], "link_bandwidth": 1e9, "link_latencies": "0 s"},
        "graph": {"links": [{"between": [g, "s"], "bandwidth": 1e9} for g in range(4)]},
        "fat_tree": {"bandwidth": 1e9, "radix": [2, 2]},
        "dimensions": {"dimensions": {"a": {"kind": "ring", "gpus": 4, "link_bandwidth": 1e9}}},
    }
    t = whole(kind, 4, **fields[kind])
    assert t.scale_up.latency == 0.0
    assert t.scale_up.direct_bandwidth > 0


# --- graphs and faults ----------------------------------------------------------------------------------------


def test_disconnected_ranks_are_named() -> None:
    links = [{"between": [0, 1], "bandwidth": 1e9}, {"between": [2, 3], "bandwidth": 1e9}]
    with pytest.raises(TopologyError, match="no path of links joins rank 0 to ranks 2, 3"):
        made("graph", links=links).dimension(4)


def test_listed_links_are_checked() -> None:
    with pytest.raises(ValidationError, match="0 is linked to itself"):
        made("graph", links=[{"between": [0, 0], "bandwidth": 1e9}])
    with pytest.raises(ValidationError, match="names GPU 9; gpus is 8"):
        made("graph", gpus=8, links=[{"between": [0, 9], "bandwidth": 1e9}])
    with pytest.raises(ValidationError, match="numbered from 0"):
        made("graph", links=[{"between": [0, -1], "bandwidth": 1e9}])


def test_a_failed_link_sends_traffic_another_way() -> None:
    ring = made("ring", link_bandwidth=10e9, faults=[{"between": [0, 7]}])
    line = made("mesh", sizes=[8], link_bandwidth=10e9).dimension(8).axes[0]
    broken = ring.dimension(8)
    assert broken.direct_bandwidth == pytest.approx(line.direct_bandwidth)
    assert broken.bisection == line.bisection == 10e9
    assert whole("ring", 8, link_bandwidth=10e9).graph().number_of_edges() == 8
    assert build_topology(ring, ranks_per_node=8).graph().number_of_edges() == 7


def test_a_degraded_link_slows_rings_to_its_rate() -> None:
    fabric = made("switch", bandwidth=100e9, faults=[{"between": [3, "switch"], "remaining": 0.25}])
    d = fabric.dimension(8)
    assert d.ring_bandwidth == d.direct_bandwidth == d.bandwidth == 25e9
    assert fabric.dimension(2).ring_bandwidth == 100e9  # GPU 3 takes no part


def test_faults_of_links_that_are_not_there_are_refused() -> None:
    with pytest.raises(TopologyError, match="link between 0 and 2, which this fabric does not have"):
        made("ring", link_bandwidth=1e9, faults=[{"between": [0, 2]}]).dimension(8)
    with pytest.raises(TopologyError, match="a fault is listed twice"):
        made("ring", link_bandwidth=1e9, faults=[{"between": [0, 1]}, {"between": [1, 0]}]).dimension(8)
    with pytest.raises(TopologyError, match="joins rank 0 to rank 1"):
        made("switch", bandwidth=1e9, faults=[{"between": [1, "switch"]}]).dimension(2)


def test_shapes_follow_design_points() -> None:
    points = np.array([[1e9], [2e9], [4e9]])
    t = whole("torus", 8, sizes=[4, 2], link_bandwidth=[points, 1e9])
    assert np.shape(t.scale_up.direct_bandwidth) == (3, 1)
    d = made("switch", bandwidth=points, faults=[{"between": [0, "switch"], "remaining": 0.5}]).dimension(4)
    assert np.allclose(d.ring_bandwidth, points / 2)


def test_catalogue_fabrics_of_several_dimensions() -> None:
    directory = Path(__file__).parents[2] / "designs" / "fabrics"
    tree = read(directory / "torus_4x4x4.yaml")
    t = build_topology(validate(SCALE_UP.resolve(tree["kind"]), strip(tree)), ranks_per_node=64)
    assert [d.name for d in t.dimensions] == ["local", "vertical", "horizontal"]
    tree = read(directory / "nvlink_nvl72.yaml")
    rack = build_topology(validate(SCALE_UP.resolve(tree["kind"]), strip(tree)), ranks_per_node=72)
    assert rack.bisection("scale_up") == 36 * 900e9
