"""What users of simulators and libraries report, each as a test of its kind, with the number of the public report."""

from __future__ import annotations

import inspect
import tracemalloc

import numpy as np
import pytest

from archmodel import catalogue, collectives, load
from archmodel import estimate as estimate_design
from archmodel.collectives import CollectiveError, estimate
from archmodel.collectives.kinds import SERVES
from archmodel.errors import ArchmodelError
from archmodel.network import FullyConnected, Nic, RailClos, Switch, build_topology
from tests.collectives.machines import component, machine
from tests.collectives.test_estimate import EVERY, price, serves, topology


def test_slower_links_take_longer() -> None:
    """astra-sim 207: the same cycles whatever the topology."""
    for kind, algorithm in EVERY:
        fast, slow = (topology(8, 1, bandwidth=b) for b in (300e9, 6e9))
        before, after = (float(price(t, kind, algorithm, 1e9).time) for t in (fast, slow))
        assert after > 20 * before


def test_large_algorithms_agree_on_a_switch() -> None:
    """astra-sim 296: direct twice as fast as ring where nothing blocks."""
    t = topology(8, 1, table=False)
    for algorithm in ("ring", "bidirectional_ring", "direct", "halving_doubling", "hierarchical"):
        r = price(t, "all_reduce", algorithm, 16e9, fidelity="alpha_beta")
        assert r.time == pytest.approx(2 * 7 / 8 * 16e9 / (0.8 * 300e9), rel=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 12, 31, 33, 100, 1000])
def test_any_number_of_ranks_for_every_algorithm(n: int) -> None:
    """astra-sim 297 and hangs at N = 6 and 12: a time, or an error that says why."""
    for kind, algorithm in EVERY:
        for t in (topology(n, 1), topology(1, n)):
            if not serves(algorithm, t.nodes):
                with pytest.raises(CollectiveError, match="spans"):
                    price(t, kind, algorithm, 7.0)
                continue
            time = float(price(t, kind, algorithm, 7.0).time)
            assert np.isfinite(time)
            assert (time > 0) == (n > 1)


@pytest.mark.parametrize("ranks", [256, 65536])
def test_large_machines_need_little_memory(ranks: int) -> None:
    """astra-sim 285, SimAI 293: runs that never end or run out of memory."""
    t = topology(8, ranks // 8)
    tracemalloc.start()
    for kind, algorithm in EVERY:
        if serves(algorithm, t.nodes):
            price(t, kind, algorithm, np.geomspace(1, 1e9, 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64e6


def test_gathers_and_reductions_are_not_the_same_flows() -> None:
    """SimAI 147: all-reduce moves twice an all-gather's bytes. SimAI 74: sizes are per rank, and named so."""
    for algorithm in ("ring", "bidirectional_ring", "direct", "hierarchical"):
        t = topology(8, 2)
        reduced = price(t, "all_reduce", algorithm, 16e6)
        gathered = price(t, "all_gather", algorithm, 1e6)
        for wire, sent in gathered.wire_bytes.items():
            assert reduced.wire_bytes[wire] == pytest.approx(2 * float(sent))
    parameters = inspect.signature(estimate).parameters
    assert "per_rank_input_bytes" in parameters
    assert not {"size", "bytes", "comm_size"} & set(parameters)


def test_parallel_links_add_up() -> None:
    """SimAI 60: four planes of switches as one link of their sum."""
    planes = Switch.model_validate({"bandwidth": 4 * 112.5e9})
    t = build_topology(planes, ranks_per_node=8)
    assert price(t, "all_reduce", "ring", 1e10).bus_bandwidth == pytest.approx(450e9)


@pytest.mark.parametrize("nodes", [2, 3, 4, 16])
def test_only_two_nodes_show_more_than_the_interface(nodes: int) -> None:
    """nccl-tests 153, 169, 196, nccl 812, 1576: two nodes exchange S in a tree, not 2 (n - 1)/n S; rings never do."""
    t = topology(8, nodes, bandwidth=3e12, counts_tree_bytes=True)
    line = 8 * 25e9
    assert float(price(t, "all_reduce", "ring", 8e9).bus_bandwidth) <= line
    tree = price(t, "all_reduce", "tree", 8e9)
    if nodes != 3:  # the middle one of three sends 1.5 S: between the two
        assert (float(tree.bus_bandwidth) > line) == (nodes == 2)
    assert float(tree.time) >= float(tree.wire_bytes["scale_out"]) / 25e9


def test_bus_bandwidth_may_exceed_the_line_but_wires_do_not() -> None:
    """nccl-tests 312, nccl 1374: 480 GB/s shown on 450 GB/s links, as the switch adds up."""
    r = price(machine("nvswitch_h100", 8), "all_reduce", "auto", 2.0**34)
    assert float(r.bus_bandwidth) > 450e9
    assert float(r.wire_bytes["scale_up"]) / float(r.time) < 450e9


def test_per_direction_and_decimal_or_binary() -> None:
    """nccl 1367, nccl-tests 326, ml-engineering 38: half of 900 GB/s; torchcomms 141: 1024^3 is not 1e9."""
    h100 = component("fabrics/nvswitch_h100.yaml")
    assert h100.bandwidth == 450e9
    ring = price(machine("nvswitch_h100", 8), "all_gather", "ring", 2.0**31)
    assert 340e9 < float(ring.bus_bandwidth) < 375e9
    binary, decimal = (Switch.model_validate({"bandwidth": b}, context={"file": True}) for b in ("50 GiB/s", "50 GB/s"))
    assert float(binary.bandwidth) / float(decimal.bandwidth) == pytest.approx(1.073741824)
    for text in ("50 Gb/s", "50", "400 Gbps"):
        with pytest.raises(ValueError, match="bandwidth"):
            Switch.model_validate({"bandwidth": text}, context={"file": True})


@pytest.mark.parametrize(("kind", "algorithm"), EVERY)
def test_no_latency_and_no_bytes(kind: str, algorithm: str) -> None:
    """astra-sim 74: assertions at times of zero."""
    switch = Switch.model_validate({"bandwidth": 1e11, "in_network": {"base": 0.0}})
    clos, nic = RailClos.model_validate({}), Nic.model_validate({"bandwidth": 1e10})
    for nodes, fidelity in ((1, "alpha_beta"), (1, "link_load"), (1, "protocol"), (2, "alpha_beta"), (2, "protocol")):
        if serves(algorithm, nodes):
            t = build_topology(switch, ranks_per_node=3, nodes=nodes, nic=nic, scale_out=clos)
            time = np.asarray(price(t, kind, algorithm, np.array([0.0, 1.0]), fidelity=fidelity).time)
            assert time[0] == 0.0
            assert 0.0 < time[1] < 1e-6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e15])
def test_times_are_never_negative(scale: float) -> None:
    """astra-network-analytical 6: overflow at large sizes."""
    for kind, algorithm in EVERY:
        if algorithm != "in_network":
            assert 0 < float(price(topology(8, 4), kind, algorithm, scale).time) < 1e9


def test_a_pair_on_two_nodes_pays_for_the_interface() -> None:
    """autoparallel 527: two ranks on two nodes priced at NVLink; torchrec 237: two on one node at the interface."""
    t = topology(8, 2)
    near, far = (price(t, "all_reduce", "auto", 1e8, group=pair) for pair in ([0, 1], [0, 8]))
    assert (near.bound, far.bound) == ("scale_up", "scale_out")
    assert float(far.time) >= 1e8 / 25e9 > float(near.time)


def test_kinds_of_fabrics_say_what_blocks() -> None:
    """astra-sim 268, 294: nobody can tell what a bandwidth means. Each class and field says it."""
    for fabric in (Switch, FullyConnected, RailClos):
        assert fabric.__doc__
        for field in fabric.model_fields.values():
            if field.description and "bandwidth" in field.description:
                assert field.description
    assert "per direction" in str(Switch.model_fields["bandwidth"].description)
    assert "per direction" in str(FullyConnected.model_fields["link_bandwidth"].description)


def test_more_devices_share_the_work_and_one_clock_tells_the_time() -> None:
    """astra-sim 139: compute took as long on more devices. SimAI 181: two outputs gave two times."""
    base = load(catalogue.find("resnet50_torus3d_4x4x4"))
    few, many = (estimate_design(base.with_({"system.nodes": n, "system.scale_out.sizes": [n, 1]})) for n in (2, 8))
    for a, b in zip(few.ops, many.ops, strict=True):
        if "compute" in a.op.streams and a.op.phase == "forward":
            assert float(b.op.work.flops().max()) == pytest.approx(float(a.op.work.flops().max()) / 4)
            assert float(b.time.max()) <= float(a.time.max())
        np.testing.assert_allclose(a.end - a.start, a.time, rtol=1e-9, atol=1e-15)
    assert max(float(op.end.max()) for op in few.ops) - min(float(op.start.min()) for op in few.ops) == pytest.approx(
        float(few.latency)
    )


def test_names_that_nobody_knows() -> None:
    """Unknown keys and too few algorithms are errors, never a smaller collective."""
    bad: list[tuple[str, str]] = [
        ("all_redcue", "ring"),
        ("all_reduce", "rnig"),
        ("all_reduce", "ring+"),
        ("gather", "ring"),
    ]
    for kind, algorithm in bad:
        with pytest.raises(ArchmodelError):
            price(topology(), kind, algorithm, 1.0)
    with pytest.raises(ArchmodelError, match=r"names 2 algorithms|no algorithm"):
        price(topology(8, 2), "all_reduce", "ring+", 1.0, fidelity="link_load")
    assert set(collectives.__all__) >= {"estimate", "all_to_all_v", "CollectiveResult"}
    assert set(SERVES) >= {"broadcast", "reduce", "gather", "scatter", "point_to_point"}
