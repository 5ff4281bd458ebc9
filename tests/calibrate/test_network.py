"""The fit finds the constants of a fabric from its own times, and reads tables with care."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from archmodel import catalogue, source
from archmodel.calibrate import network
from archmodel.calibrate.fabric import constants_of
from archmodel.calibrate.network import CalibrationError, Measurements, in_node, in_nodes, predict
from archmodel.network import SCALE_UP, Nic, RailClos, Switch, build_topology
from archmodel.source import strip
from tests.collectives.machines import component

BANDWIDTH = 400e9
TRUE = {
    "efficiency": 0.75,
    "latency": 1.2e-6,
    "direct_latency": 0.3e-6,
    "copy": 2.0,
    "ll.base": 9e-6,
    "ll.fraction": 0.5,
    "ll.gather_round": 0.5,
    "ll.widening": 2e-6,
    "simple.base": 20e-6,
    "simple.direct_base": 13e-6,
    "simple.step_latency": 3e-6,
    "simple.exposed": 0.5,
    "simple.direct_fill": 9e-6,
}


def table(kinds: tuple[str, ...], ranks: tuple[int, ...], sizes: np.ndarray) -> Measurements:  # type: ignore[type-arg]
    rows = [(k, n, s) for k in kinds for n in ranks for s in sizes]
    names, counts, lengths = zip(*rows, strict=True)
    return Measurements(names, np.array(counts), np.array(lengths), np.ones(len(rows)))


def timed(measured: Measurements, machine: network.Machine) -> Measurements:
    return Measurements(measured.kind, measured.ranks, measured.size, predict(machine, measured))


def test_the_fit_recovers_a_fabric_from_its_own_times() -> None:
    true = network.switch(TRUE, BANDWIDTH)
    measured = timed(table(("all_reduce", "all_to_all"), (2, 8), 512 * 4.0 ** np.arange(11)), in_node(true))
    fit = network.fit_switch(measured, BANDWIDTH, without=("in_network",), evaluations=1500)
    assert fit.mean_absolute_error < 0.02
    between = timed(table(("all_gather",), (4,), 1024 * 4.0 ** np.arange(10)), in_node(true))
    found = network.switch(fit.constants, BANDWIDTH)
    assert np.abs(predict(in_node(found), between) / between.time - 1).mean() < 0.05


def test_leaving_sizes_out_of_an_exact_table_costs_little() -> None:
    true = network.switch(TRUE, BANDWIDTH)
    measured = timed(table(("all_reduce", "all_to_all"), (2, 8), 512 * 16.0 ** np.arange(5)), in_node(true))

    def machine(constants: Mapping[str, float]) -> network.Machine:
        return in_node(network.switch(constants, BANDWIDTH))

    errors = network.leave_sizes_out(measured, network.Fit(TRUE, np.zeros(20)), machine, evaluations=20)
    assert np.abs(errors).max() < 1e-6


def test_a_network_is_fitted_with_a_known_node() -> None:
    node = Switch.model_validate({"bandwidth": BANDWIDTH, "latency": 1e-6})
    nic = Nic.model_validate({"bandwidth": 12.5e9})
    constants = {**network.RAIL_START, "efficiency": 0.7}
    true = network.rail_clos(constants, 20e-6)
    sizes = 64 * 8.0 ** np.arange(9)
    measured = timed(table(("all_reduce",), (16,), sizes), in_nodes(node, true, nic, 8))
    fit = network.fit_rail_clos(measured, node, nic, gpus=8, latency=20e-6)
    assert fit.mean_absolute_error < 0.02


@pytest.mark.parametrize("kinds", [("all_to_all",), ("all_reduce", "all_to_all")])
def test_all_to_alls_between_nodes(kinds: tuple[str, ...]) -> None:
    node = Switch.model_validate({"bandwidth": BANDWIDTH, "latency": 1e-6})
    nic = Nic.model_validate({"bandwidth": 12.5e9})
    both = len(kinds) > 1
    own = {"direct_latency": 1e-6, "simple.direct_base": 90e-6, **({"direct_fraction": 0.6} if both else {})}
    true = network.rail_clos({**network.RAIL_START, "efficiency": 0.7, **own}, 20e-6)
    measured = timed(table(kinds, (16, 32), 4096 * 16.0 ** np.arange(5)), in_nodes(node, true, nic, 8))
    assert set(network.rail_start(measured)) >= set(own)
    fit = network.fit_rail_clos(measured, node, nic, gpus=8, latency=20e-6)
    assert fit.mean_absolute_error < 0.02


def test_a_generation_is_transferred_by_its_clock_and_links() -> None:
    """Shares stay, start-ups and latencies shorten with the clock; twice the links move large buffers twice as fast."""
    moved = network.transferred(TRUE, 1.5)
    for name in ("efficiency", "copy", "ll.fraction", "ll.gather_round", "simple.exposed"):
        assert moved[name] == TRUE[name]
    for name in ("latency", "direct_latency", "ll.base", "ll.widening", "simple.step_latency", "simple.direct_fill"):
        assert moved[name] == TRUE[name] / 1.5
    large = table(("all_reduce", "all_to_all"), (8,), np.array([2.0**40]))
    slow = predict(in_node(network.switch(TRUE, BANDWIDTH)), large)
    fast = predict(in_node(network.switch(moved, 2 * BANDWIDTH)), large)
    np.testing.assert_allclose(fast, slow / 2, rtol=2e-3)


def test_catalogue_of_generations_never_measured() -> None:
    """V100 has A100's constants by its clock; B200 has H100's, but for what NCCL's tuner takes of its switch."""
    a100, v100 = (constants_of(component(f"fabrics/nvswitch_{name}.yaml")) for name in ("a100", "v100_dgx2"))
    for name, value in network.transferred(a100, 1.53 / 1.41).items():
        assert v100[name] == pytest.approx(value, rel=2e-3), name
    h100, b200 = (constants_of(component(f"fabrics/nvswitch_{name}.yaml")) for name in ("h100", "b200"))
    for name, value in h100.items():
        expected = value * 0.74 / 0.85 if name == "in_network.fraction" else value
        assert b200[name] == pytest.approx(expected, rel=2e-3), name


NEXT = """
use: fabrics/nvswitch_h100.yaml
name: next
note: transferred
gpus: {value: 16, source: announced, status: assumed}
clock: {value: 1.06, source: boost clocks, status: assumed}
bandwidth: {value: 1.2 TB/s, source: announced, status: assumed}
copy_bandwidth: {value: 3.472 TB/s, source: as on H100, status: assumed}
"""


def test_a_generation_by_yaml_alone_is_the_transferred_one(tmp_path: Path) -> None:
    """A file that names the nearest generation, its links and its clock gives what `transferred` gives."""
    (tmp_path / "next.yaml").write_text(NEXT, encoding="utf-8")
    tree = strip(source.read(tmp_path / "next.yaml", catalogue=catalogue.directory()))
    written = source.validate(SCALE_UP.resolve("switch"), tree)
    assert isinstance(written, Switch)
    h100 = component("fabrics/nvswitch_h100.yaml")
    moved = network.switch(network.transferred(constants_of(h100), 1.06), 1.2e12, 0.313)
    measured = table(
        ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"), (2, 4, 8), np.geomspace(512, 2.0**33, 40)
    )
    np.testing.assert_allclose(predict(in_node(written), measured), predict(in_node(moved), measured), rtol=2e-3)
    assert constants_of(written) == pytest.approx(network.transferred(constants_of(h100), 1.06), rel=1e-3)


def test_clocks_of_dimensions_and_of_networks_are_their_own() -> None:
    ring = {"kind": "ring", "gpus": 4, "link_bandwidth": 1e9, "latency": 1e-6, "clock": 2.0}
    block = {"dimensions": {"a": ring, "b": {**ring, "clock": 1.0}}}
    t = build_topology(SCALE_UP.resolve("dimensions").model_validate(block), ranks_per_node=16)
    assert [d.latency for d in t.dimensions] == [0.5e-6, 1e-6]
    clos = RailClos.model_validate(
        {"latency": 6e-6, "clock": 1.5, "protocols": {"simple": {"base": 3e-6, "direct_base": 3e-6}}}
    )
    nodes = build_topology(Switch(bandwidth=1e11), ranks_per_node=2, nodes=2, nic=Nic(bandwidth=1e10), scale_out=clos)
    assert nodes.scale_out is not None and nodes.scale_out.protocols is not None
    assert (nodes.scale_out.latency, nodes.scale_out.protocols["simple"].base) == (4e-6, 2e-6)


def test_constants_are_spelled_with_units() -> None:
    fit = network.Fit(TRUE, np.zeros(1))
    spelled = network.summary(fit)
    assert spelled["latency"] == "1.200 us"
    assert spelled["ll.fraction"] == "50.00 %"
    assert spelled["copy"] == "2.000"


def test_reading_a_table(tmp_path: Path) -> None:
    path = tmp_path / "nccl.csv"
    path.write_text(
        "system,op,num_gpus,size_bytes,time_us\n"
        "other,all_reduce,2,512,9\n"
        "mine,alltoall,4,1024,12.5\n"
        "mine,all_gather,4,4096,10\n"
    )
    measured = network.read(path, "mine")
    assert measured.kind == ("all_to_all", "all_gather")
    np.testing.assert_allclose(measured.time, [12.5e-6, 10e-6])
    np.testing.assert_allclose(measured.input_bytes(), [1024, 1024])


@pytest.mark.parametrize(
    ("row", "message"),
    [("mine,all_rdeuce,2,512,9", ":2 "), ("mine,all_reduce,two,512,9", ":2 "), ("other,all_reduce,2,512,9", "no rows")],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "nccl.csv"
    path.write_text(f"system,op,num_gpus,size_bytes,time_us\n{row}\n")
    with pytest.raises(CalibrationError, match=message):
        network.read(path, "mine")


def test_a_table_without_a_column(tmp_path: Path) -> None:
    path = tmp_path / "nccl.csv"
    path.write_text("system,op,num_gpus,size_bytes\nmine,all_reduce,2,512\n")
    with pytest.raises(CalibrationError, match=":2 "):
        network.read(path, "mine")
