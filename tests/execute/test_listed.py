"""Lists of layers on arrays: equal to the reference, counted as the Program has it, and caught when they are not."""

import numpy as np
import pytest

import archmodel
from archmodel import catalogue, check, load
from archmodel.components.base import Component
from archmodel.execute import listed
from archmodel.execute import run as running
from archmodel.execute.batch import draw
from archmodel.execute.check import check_plan, inputs
from archmodel.execute.errors import ExecutionError
from archmodel.execute.listed.reference import ListedModel
from archmodel.execute.parameters import initial
from archmodel.execute.run import run_plan
from archmodel.execute.settings import Settings
from archmodel.execute.shrink import shrink
from archmodel.workloads.layered import Layered
from archmodel.workloads.layers import Attention, Conv, Exchange, Lookup, Lstm

BASE = "dlrm_hybrid_torus3d_4x4x4"

CASES = {
    "a convolution of every kind": {
        "dense_features": 192,
        "layers": {
            "wide": {"kind": "conv", "in_channels": 3, "out_channels": 5, "kernel": 3, "size": 8, "bias": True},
            "even": {"kind": "conv", "in_channels": 5, "out_channels": 4, "kernel": 2, "size": 4, "stride": 2},
            "point": {"kind": "conv", "in_channels": 4, "out_channels": 6, "size": 2, "stride": 2, "bias": True},
            "around": {"kind": "conv", "after": ["even"], "in_channels": 4, "out_channels": 6, "size": 2, "stride": 2},
            "sum": {"kind": "conv", "after": ["point", "around"], "in_channels": 6, "out_channels": 3, "size": 2},
            "whole": {"kind": "linear", "in_features": 12, "out_features": 2, "bias": True},
        },
    },
    "sequences, both ways, and attention": {
        "dense_features": 9,
        "layers": {
            "words": {"kind": "lookup", "rows": 31, "width": 6, "tokens": 4},
            "there": {"kind": "lstm", "in_features": 6, "hidden": 5, "tokens": 4, "bidirectional": True},
            "others": {"kind": "lookup", "after": [], "rows": 7, "width": 10, "tokens": 3},
            "look": {"kind": "attention", "after": ["others", "there"], "width": 10, "queries": 3, "keys": 4},
            "self": {"kind": "attention", "after": ["look"], "width": 10, "queries": 3, "keys": 3},
            "both": {"kind": "lstm", "after": ["look", "self"], "in_features": 20, "hidden": 4, "tokens": 3},
            "added": {"kind": "lstm", "after": ["look", "self"], "in_features": 10, "hidden": 3, "tokens": 3},
            "out": {"kind": "linear", "after": ["both", "added"], "in_features": 7, "out_features": 5, "tokens": 3},
        },
    },
    "what the list leaves out, and two ends": {
        "dense_features": 5,
        "layers": {
            "tables": {"kind": "exchange", "after": [], "width": 48},
            "below": {"kind": "linear", "after": [], "in_features": 5, "out_features": 8, "bias": True},
            "above": {"kind": "linear", "after": ["tables", "below"], "in_features": 130, "out_features": 6},
            "fewer": {"kind": "linear", "after": ["above", "tables"], "in_features": 11, "out_features": 4},
            "places": {"kind": "linear", "after": ["above"], "in_features": 6, "out_features": 3, "tokens": 4},
            "pooled": {"kind": "linear", "after": ["places"], "in_features": 3, "out_features": 2, "tokens": 2},
        },
    },
}


def design_with(layers, **workload):
    return load(catalogue.find(BASE)).with_({"workload": {"kind": "layers", "layers": layers, **workload}})


def design_of(case):
    return design_with(**{"global_batch": 256, **CASES[case]})


def check_of(case, **changes):
    design = design_of(case)
    plan = design.plan.model_copy(update=changes)
    return check_plan(design.workload, plan, design.placement)


@pytest.mark.parametrize("name", ["gnmt", "dlrm_hybrid"])
def test_designs_of_the_catalogue_run(name):
    report = check(load(catalogue.find(f"{name}_torus3d_4x4x4")))
    assert report.passed, report.failures
    assert report.results[0] <= 1e-12
    assert all(t.exact <= 1e-9 and t.moved > 0 for t in report.tensors)
    assert any("not run, as the list leaves them out" in note for note in report.shrunk)


def test_resnet_50_runs_every_layer():
    """53 convolutions and the classifier: 269 ops equal to the Program on every rank, 54 weights to the reference."""
    report = check(load(catalogue.find("resnet50_torus3d_4x4x4")), steps=2)
    assert report.passed, report.failures
    assert len(report.ops) == 269
    assert len(report.tensors) == 54


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_every_kind_of_layer_and_of_joining(case, order):
    report = check_of(case, collective_order=order)
    assert report.passed, report.failures


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_weights_stepped_late_are_stepped_as_often(optimizer):
    """Adam's correction counts the steps: one that is a step ahead would show."""
    report = check_of("sequences, both ways, and attention", collective_order="lifo", dense_optimizer=optimizer)
    assert report.passed, report.failures


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch", [250, 5])
def test_batches_that_are_uneven_or_leave_ranks_without_samples(case, batch):
    design = design_with(**{**CASES[case], "global_batch": batch})
    report = check_plan(design.workload, design.plan, design.placement)
    assert report.passed, report.failures


def test_a_stride_that_does_not_divide_binary_fractions():
    layers = {
        "a": {"kind": "conv", "in_channels": 2, "out_channels": 4, "size": 3, "stride": 3},
        "b": {"kind": "conv", "in_channels": 4, "out_channels": 5, "kernel": 4, "size": 3},
        "c": {"kind": "conv", "in_channels": 5, "out_channels": 7, "kernel": 5, "size": 1, "stride": 3},
    }
    design = design_with(layers, global_batch=128, dense_features=162)
    report = check_plan(design.workload, design.plan, design.placement)
    assert report.passed, report.failures


@pytest.mark.parametrize("name", ["nvidia_dlrm_small_1xa100_amp", "neo_a_zionex_16x8"])
def test_recommendation_models_last_in_first_out(name):
    design = load(catalogue.find(name))
    late = design.plan.model_copy(
        update={"collective_order": "lifo", "dense_optimizer": "adam", "prefetch_input": True, "copy_input": True}
    )
    report = check_plan(design.workload, late, design.placement)
    assert report.passed, report.failures


def test_inference_runs_too():
    design = design_of("a convolution of every kind").with_({"workload.mode": "inference"})
    report = check(design)
    assert report.passed, report.failures


def small_run(case, order="fifo", **arguments):
    design = design_of(case)
    small = shrink(design.workload, design.plan.model_copy(update={"collective_order": order}), design.placement)
    return small, run_plan(small.workload, small.plan, small.placement, **arguments)


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_collectives_changes_no_bit(case):
    (_, fifo), (_, lifo) = (small_run(case, order) for order in ("fifo", "lifo"))
    assert fifo.digest == lifo.digest
    assert sorted(fifo.order) == sorted(lifo.order)


def test_last_in_first_out_takes_the_first_layers_gradients_first():
    """All-reduces of one step wait until the next forward pass needs them: 0 (the last layer's) is taken last."""
    for order, expected in (("fifo", [0, 1, 2, 3, 4, 5]), ("lifo", [5, 4, 3, 2, 1, 0])):
        _, execution = small_run("a convolution of every kind", order)
        for step in range(3):
            taken = [int(name.rsplit("_", 1)[1]) for issued, name in execution.order if issued == step]
            assert taken == expected


WRONG = {
    "convolutions forget the padding": (Conv, "input_gradient", lambda x: 1.001 * x),
    "LSTM input gradients are off": (Lstm, "input_gradient", lambda x: x + 1e-7),
    "key gradients are lost": (Attention, "context.key_gradient", lambda x: 0.0 * x),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_gradient_is_caught(what, monkeypatch):
    kind, name, wrong = WRONG[what]
    module = {Conv: listed.convolution, Lstm: listed.lstm, Attention: listed.attention}[kind]
    original = module.give

    def give(rank, layer, values, which=0):
        at = rank.machine.op == f"{layer.name}.{name}" and isinstance(layer, kind)
        original(rank, layer, wrong(values) if at else values, which)

    monkeypatch.setattr(module, "give", give)
    case = "a convolution of every kind" if kind is Conv else "sequences, both ways, and attention"
    report = check_of(case)
    assert any("differs from the reference" in f or "its change by training" in f for f in report.failures)


@pytest.mark.parametrize(("kind", "name"), [(Conv, "forward"), (Lstm, "recurrent.forward"), (Lookup, "forward")])
def test_work_that_is_not_counted_is_caught(kind, name, monkeypatch):
    original = listed.OPERATIONS[kind, name]

    def twice(rank, layer, op):
        original(rank, layer, op)
        rank.touch(1.0)

    monkeypatch.setitem(listed.OPERATIONS, (kind, name), twice)
    case = "a convolution of every kind" if kind is Conv else "sequences, both ways, and attention"
    assert any(name in f and "hbm bytes" in f for f in check_of(case).failures)


def test_a_product_done_twice_is_caught(monkeypatch):
    original = listed.OPERATIONS[Conv, "weight_gradient"]

    def more(rank, layer, op):
        original(rank, layer, op)
        rank.counting(np.ones((2, 2))) @ np.ones((2, 2))

    monkeypatch.setitem(listed.OPERATIONS, (Conv, "weight_gradient"), more)
    assert any("FLOP" in f for f in check_of("a convolution of every kind").failures)


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_gradients_of_an_exchange_come_back_to_their_owners(order, monkeypatch):
    """Together the owners hold what the reference says the gradient of the exchanged vectors is."""
    case = "what the list leaves out, and two ends"
    design = design_of(case)
    small = shrink(design.workload, design.plan.model_copy(update={"collective_order": order}), design.placement)
    seen = {}
    gather = running.gather
    monkeypatch.setattr(running, "gather", lambda machine: seen.update(machine=machine) or gather(machine))
    start = initial(small.workload, 0)
    batch = draw(small.workload, small.placement.layout.ranks, 0, 0)
    run_plan(small.workload, small.plan, small.placement, steps=1, batches=[batch], parameters=start)
    model = ListedModel(
        workload=small.workload, tables=[], dense={n: v.copy() for n, v in start.dense.items()},
        dense_optimizer="sgd", table_optimizers=[], column_blocks=[], settings=Settings(),
    )  # fmt: skip
    model.gradients(inputs(batch))
    machine = seen["machine"]
    ranks, per_rank = machine.program.ranks, machine.local_batch[0]
    assert ranks > 1
    returned = np.stack([rank.look("tables.returned") for rank in machine.ranks])  # owner, (samples of, part)
    whole = returned.reshape(ranks, ranks, -1).transpose(1, 0, 2).reshape(ranks * per_rank, -1)
    assert np.allclose(whole, model.exchanged["tables"][:, 0], rtol=0, atol=1e-12 * np.abs(whole).max())


def test_a_design_runs_at_its_own_size():
    design = design_of("a convolution of every kind")
    execution = archmodel.execute(design, steps=2)
    assert np.isfinite(execution.losses).all()
    assert execution.predictions.shape == (2, 256)


def test_what_cannot_be_run_is_said():
    exchange = {"tables": {"kind": "exchange", "after": [], "width": 7}}
    with pytest.raises(ExecutionError, match="7 elements for each of 1 samples are not cut equally over 64 ranks"):
        archmodel.execute(design_with(exchange, global_batch=64))
    words = {
        "a": {"kind": "linear", "in_features": 1, "out_features": 4},
        "w": {"kind": "lookup", "rows": 4, "width": 2, "tokens": 2},
    }
    with pytest.raises(ExecutionError, match="w: tokens come from the input"):
        archmodel.execute(design_with(words, global_batch=64))


def test_shrunk_lists_keep_how_tensors_are_joined():
    """But for the last pooling of ResNet-50, whose small image has one place."""
    for name, others in (("resnet50", {"fc1000"}), ("gnmt", set()), ("dlrm_hybrid", set())):
        design = load(catalogue.find(f"{name}_torus3d_4x4x4"))
        small = shrink(design.workload, design.plan, design.placement).workload
        pairs = zip(joins(design.workload), joins(small), strict=True)
        assert {a[0] for a, b in pairs if a != b} == others
        assert list(small.layer_list) == list(design.workload.layer_list)


def joins(workload):
    shape = {"dense_features": (1, workload.dense_features)}
    found = []
    for layer in workload.layers():
        for names, (places, channels) in layer.takes:
            sizes = [shape[n] for n in names]
            same = all(p == places for p, _ in sizes)
            flat = len(sizes) == 1 and sizes[0][0] * sizes[0][1] == places * channels
            side = same and sum(c for _, c in sizes) == channels
            added = same and all(c == channels for _, c in sizes)
            found.append((layer.name, flat, side, added))
        shape[layer.name] = layer.out_shape
    return found


def test_kinds_are_all_known():
    kinds = {kind for kind, _ in listed.OPERATIONS}
    assert kinds == {Conv, Lstm, Attention, Lookup}
    assert issubclass(Layered, Component)
    assert Exchange("x", (), 4).takes == ()
