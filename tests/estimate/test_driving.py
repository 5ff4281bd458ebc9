"""Collectives that an endpoint has to drive."""

import numpy as np
import pytest

from archmodel import catalogue, load, load_system
from archmodel.collectives import endpoint_traffic as counting
from archmodel.collectives import estimate as collective
from archmodel.collectives.pipeline import Phase, pipelined
from archmodel.collectives.schedule import over_dimensions
from archmodel.estimate.contention import machine_of
from archmodel.estimate.driving import driven, in_chunks
from archmodel.estimate.price import price
from archmodel.program import Collective

TORI = ("4x2x2", "4x4x2", "4x4x4", "4x8x4")


def topology(torus):
    return load_system(catalogue.find(f"systems/torus3d_{torus}")).topology()


@pytest.mark.parametrize("torus", TORI)
def test_an_accelerator_sends_what_the_study_says(torus):
    axes = topology(torus).spanned("world")
    assert [float(a.bandwidth) for a in axes] == [400e9, 50e9, 50e9]
    assert "x".join(str(a.size) for a in axes) == torus


@pytest.mark.parametrize("torus", TORI)
def test_bytes_by_dimension_are_those_of_the_collectives(torus):
    t = topology(torus)
    axes = t.spanned("world")
    sent = counting.traffic("all_reduce", [a.size for a in axes]).by_dimension
    found = collective(t, "all_reduce", "hierarchical", per_rank_input_bytes=1e6).wire_bytes
    assert [found[a.name] for a in axes] == pytest.approx([1e6 * s for s in sent])


@pytest.mark.parametrize("torus", TORI)
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_a_pipeline_lies_between_its_slowest_dimension_and_one_after_the_other(torus, size):
    axes = topology(torus).spanned("world")
    sent = counting.traffic("all_reduce", [a.size for a in axes]).by_dimension
    each = [size * s / float(a.both_ways_bandwidth) for s, a in zip(sent, axes, strict=True)]
    time = [in_chunks("all_reduce", axes, size, chunk) for chunk in (None, 65536.0, 1e12)]
    latency = float(time[0].parts["latency"])
    carried = [float(t.total) - latency for t in time]
    assert carried[0] == pytest.approx(max(each) + (sum(each) - max(each)) / size)  # byte by byte
    assert carried[2] == pytest.approx(sum(each))
    assert carried[0] <= carried[1] <= carried[2] * (1 + 1e-12)


@pytest.mark.parametrize("torus", TORI)
@pytest.mark.parametrize("size", [1e5, 1e6, 1e9])
def test_an_endpoint_pipelines_by_the_law_of_the_collectives(torus, size):
    """Of `collectives.estimate` in as many chunks it differs in two inputs: chunks in flight cover the busiest
    dimension's latency, of which there all but one are paid again, and rings are used both ways round, where links on
    rings of more than two carry as much again. Both differences are bounded by what they are."""
    t = topology(torus)
    axes = t.spanned("world")
    chunks = 16
    library = collective(
        t, "all_reduce", "hierarchical", per_rank_input_bytes=size, chunks=chunks, fidelity="alpha_beta"
    )
    driven_by_engine = in_chunks("all_reduce", axes, size, size / chunks)
    plan = over_dimensions("all_reduce", size, axes)
    one_way = [Phase(plan.steps[a.name] * a.latency, plan.sent[a.name] / a.ring_bandwidth / chunks) for a in axes]
    assert float(library.time) == pytest.approx(float(pipelined(lambda k: one_way, float(chunks)).time), rel=1e-12)
    covered = float(pipelined(lambda k: one_way, float(chunks), np.inf).time)
    most = max(float(p.latency) for p in one_way)
    assert covered <= float(library.time) <= covered + (chunks - 1) * most + 1e-12
    gain = max(float(a.both_ways_bandwidth / a.ring_bandwidth) for a in axes)
    assert 1.0 <= gain <= 2.0
    assert covered / gain <= float(driven_by_engine.total) <= covered * (1 + 1e-12)


def test_nothing_takes_no_time():
    assert float(in_chunks("all_reduce", topology("4x4x4").spanned("world"), 0.0, 65536.0).total) == 0.0


@pytest.mark.parametrize(("given", "expected"), [(450e9, 450e9 / 3.265625), (128e9, 128e9 / 3.265625)])
def test_memory_sets_the_rate_of_kernels(given, expected):
    """Bytes of buffer per second: memory bandwidth over what is read for each (hierarchical, 4 x 4 x 4)."""
    base = load(catalogue.find("resnet50_torus3d_4x4x4"))
    kernels = {"kind": "sm_driven", "copy_width": 64.0, "sms": 80, "memory_bandwidth": given, "counts": "reads"}
    design = base.with_({"system.node.endpoint": kernels})
    work = Collective("all_reduce", "world", "hierarchical", np.full(64, 2.0**20), "fp32", design.layout)
    found = driven(work, machine_of(design.program, design.system), design.system.node.endpoint)
    links = float(in_chunks("all_reduce", topology("4x4x4").spanned("world"), 2.0**28, None).total)
    seconds = max(2.0**28 / expected, links)
    assert np.asarray(found.breakdown.total).item() == pytest.approx(seconds, rel=1e-3)


def test_without_an_endpoint_the_fabric_says():
    design = load(catalogue.find("mlperf_dcnv2_dgx_h100"))
    machine = machine_of(design.program, design.system)
    assert machine.endpoint is None
    op = next(op for op in design.program.ops if isinstance(op.work, Collective))
    assert "endpoint" not in price(op.work, machine).parts
