"""Lowering of listed layers: FLOPs, gradients, exchanges, and weights stepped ahead."""

import numpy as np
import pytest

from archmodel import catalogue, load
from archmodel.program import AllToAll, Collective

NAMES = ("resnet50", "gnmt", "dlrm_hybrid")


@pytest.fixture(scope="module", params=NAMES)
def design(request):
    return load(catalogue.find(f"{request.param}_torus3d_4x4x4"))


def matrix_flops(program, phase):
    kinds = ("Gemm", "Products", "Convolution")
    ops = [op for op in program.ops if op.phase == phase and type(op.work).__name__ in kinds]
    return sum(float(np.max(op.work.flops())) for op in ops)


def test_forward_does_the_products_of_the_model(design):
    local = design.workload.global_batch / design.layout.ranks
    elementwise = 0.0
    for layer in design.workload.layers():
        if type(layer).__name__ == "Attention":  # its scores are no product of matrices
            elementwise += 2 * layer.queries * layer.keys * layer.width
    expected = local * (design.workload.flops_per_sample - elementwise)
    assert matrix_flops(design.program, "forward") == pytest.approx(expected, rel=1e-12)


def test_backward_does_twice_as_many_but_for_the_first_layers(design):
    forward, backward = (matrix_flops(design.program, phase) for phase in ("forward", "backward"))
    assert backward == pytest.approx(2 * forward, rel=0.03)


def test_every_gradient_is_reduced_once(design):
    program = design.program
    reduced = [op for op in program.ops if isinstance(op.work, Collective)]
    names = [name for op in reduced for name in op.reads]
    assert sorted(names) == sorted(n for n, b in program.buffers.items() if b.role == "gradient")
    elements = sum(float(np.max(op.work.buffer_elements)) for op in reduced)
    assert elements == design.workload.dense_parameters


def test_weights_are_stepped_before_the_layer_that_reads_them(design):
    order = [op.name for op in design.program.ops]
    updates = [op for op in design.program.ops if op.phase == "update"]
    assert {name for op in updates for name in op.writes} == {
        name for name, b in design.program.buffers.items() if b.role == "parameter" and name != "dense.master"
    }
    for op in updates:
        reading = [o.name for o in design.program.ops if o.phase == "forward" and set(o.reads) & set(op.writes)]
        assert order.index(op.name) < min(order.index(name) for name in reading)
    in_order = design.with_({"plan.collective_order": "fifo"})
    assert sorted(op.name for op in in_order.program.ops) == sorted(order)
    assert in_order.program.ops[-1].phase == "update"


def test_an_exchange_sends_its_bytes_both_ways():
    program = load(catalogue.find("dlrm_hybrid_torus3d_4x4x4")).program
    exchanges = [op for op in program.ops if isinstance(op.work, AllToAll)]
    assert [op.name for op in exchanges] == ["embedding.forward", "embedding.backward"]
    for op in exchanges:
        brought, _ = op.work.traffic.totals(op.work.layout, "world")
        assert np.allclose(brought, 98_304)


def test_one_accelerator_reduces_and_exchanges_nothing():
    design = load(catalogue.find("dlrm_hybrid_torus3d_4x4x4")).with_(
        {"system.nodes": 1, "system.node.gpus": 1, "workload.global_batch": 512, "system.node.endpoint": None}
    )
    assert not any(isinstance(op.work, AllToAll | Collective) for op in design.program.ops)


def test_inference_has_no_backward(design):
    program = design.with_({"workload.mode": "inference"}).program
    assert {op.phase for op in program.ops} == {"forward"}
