"""Loads of links in an iteration: all bytes of the Program, and no more than the estimate's time holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import archmodel as am
from archmodel.estimate.result import Estimate
from archmodel.program import AllToAll, PairTraffic
from archmodel.quantities import Array
from archmodel.report.link_loads import iteration_loads, messages

DESIGNS = (
    "mlperf_dcnv2_dgx_h100",
    "nvidia_dlrm_large_dgx1_amp",
    "mlperf_dcnv2_l40s_8gpu",
    "neo_a_zionex_16x8",
    "neo_f_zionex_4x8_ssd",
    "dlrm_hybrid_torus3d_4x4x4",
    "gnmt_torus3d_4x4x4",
)


@pytest.fixture(scope="module", params=DESIGNS)
def each(request: pytest.FixtureRequest) -> Estimate:
    return am.estimate(am.load(f"designs/{request.param}.yaml"))


def wires(estimate: Estimate, name: str) -> Array:
    total = np.zeros(estimate.program.ranks)
    for op in estimate.program.ops:
        total = total + op.work.wire_bytes().get(name, np.zeros(1))
    return total


def test_messages_are_the_wire_bytes_of_the_program(each: Estimate) -> None:
    system, ranks = each.design.system, each.program.ranks
    topology = system.topology(ranks)
    node = np.arange(ranks) // topology.local_size
    near = node[:, None] == node
    for op in each.program.ops:
        sent = op.work.wire_bytes()
        if not sent or getattr(op.work, "algorithm", "") == "in_network":
            continue
        pairs = messages(op.work, topology, system.node.endpoint is not None)
        assert pairs is not None
        for name, mask in (("scale_up", near), ("scale_out", ~near)):
            wanted = float(np.sum(np.broadcast_to(sent.get(name, np.zeros(1)), ranks)))
            assert float(np.where(mask, pairs, 0.0).sum()) == pytest.approx(wanted, rel=1e-9, abs=1e-6)


def test_first_links_carry_what_ranks_send(each: Estimate) -> None:
    """Where ranks hang on switches alone, nobody forwards: the links out of ranks carry the Program's bytes."""
    found, unknown = iteration_loads(each)
    assert unknown == 0
    total = float(wires(each, "scale_up").sum() + wires(each, "scale_out").sum())
    leaving = np.array([isinstance(a, int) for a, _ in found.ends])
    between_ranks = any(isinstance(a, int) and isinstance(b, int) for a, b in found.ends)
    out = float(found.bytes[leaving].sum())
    assert out >= total * (1 - 1e-9) if between_ranks else out == pytest.approx(total, rel=1e-9)
    if not between_ranks:
        ranks = np.array([a if isinstance(a, int) else -1 for a, _ in found.ends])
        inner = np.arange(len(ranks)) < found.inside
        for name, mask in (("scale_up", inner), ("scale_out", ~inner)):
            carried = np.bincount(ranks[mask & leaving], found.bytes[mask & leaving], each.program.ranks)
            assert carried == pytest.approx(wires(each, name), rel=1e-9, abs=1e-6)


def test_no_link_is_busier_than_its_stream(each: Estimate) -> None:
    """Line rate bounds what is priced: links need no longer than the ops that use them take."""
    found, _ = iteration_loads(each)
    busy = max(float(np.max(each.busy(stream))) for stream in ("scale_up", "scale_out"))
    assert found.seconds.max() <= busy * (1 + 1e-9)
    assert found.seconds.max() <= float(each.iteration_time)


def test_observed_messages_are_routed_as_they_are() -> None:
    design = am.load("designs/mlperf_dcnv2_dgx_h100.yaml")
    work = next(op.work for op in design.program.ops if isinstance(op.work, AllToAll))
    pairs = np.random.default_rng(0).random((8, 8))
    topology = design.system.topology(8)
    found = messages(type(work)(work.group, PairTraffic(pairs), work.dtype, work.layout), topology, False)
    assert found == pytest.approx(np.where(np.eye(8, dtype=bool), 0.0, pairs))


def test_works_of_unknown_kinds_are_counted_and_said(two_node_design: Path) -> None:
    from dataclasses import replace

    from archmodel.report.html.network import network

    @dataclass(frozen=True)
    class Gossip:
        def wire_bytes(self) -> dict[str, Array]:
            return {"scale_up": np.full(16, 5e6)}

    estimate = am.estimate(am.load(two_node_design))
    op = next(o for o in estimate.program.ops if o.work.wire_bytes())
    ops = tuple(replace(o, work=Gossip()) if o is op else o for o in estimate.program.ops)
    changed = replace(estimate, program=replace(estimate.program, ops=ops))
    assert iteration_loads(changed)[1] == 16 * 5e6
    assert "80.0 MB of ops whose messages are not known" in network(changed).note
