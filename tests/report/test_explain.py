from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archmodel import Estimate, estimate, load
from archmodel.estimate.machine import Machine
from archmodel.estimate.price import price
from archmodel.report.explain import explain, reflowed
from archmodel.report.laws import Law, essential, laws_of
from archmodel.report.reading import Notes, Reading
from archmodel.report.sources import origin_of


@pytest.fixture(scope="module")
def answer(two_node_design: Path) -> Estimate:
    return estimate(load(two_node_design))


def test_a_docstring_is_set_anew_except_where_it_is_set_on_purpose() -> None:
    text = "One\nsentence.\n\n    t = a\n      + b\n\n- a list\n- of two"
    assert reflowed(text) == "One sentence.\n\n    t = a\n      + b\n\n- a list\n- of two"


def one_of_each_kind(answer: Estimate) -> list[str]:
    return list({(type(op.op.work), op.op.streams): op.name for op in answer.ops}.values())


def test_parts_sum_to_the_time_of_every_op(answer: Estimate) -> None:
    for op in answer.ops:
        told = explain(answer, op.name)
        assert sum(told.parts.values()) == pytest.approx(told.seconds, rel=1e-12)
        assert told.seconds == op.slowest


def test_every_kind_of_op_has_laws_and_inputs(answer: Estimate) -> None:
    for name in one_of_each_kind(answer):
        told = explain(answer, name)
        assert told.inputs, name
        assert told.laws, name


def test_inputs_are_fields_of_the_design_with_an_origin_where_a_file_gives_them(answer: Estimate) -> None:
    told = explain(answer, "table.lookup")
    assert told.inputs["system.node.gpu.hbm.bandwidth"].value == answer.design.system.gpu.hbm.bandwidth
    assert told.inputs["system.node.gpu.hbm.bandwidth"].dimension == "bandwidth"
    origin = origin_of(answer.design, "system.node.gpu.hbm.bandwidth")
    assert origin is not None
    assert origin.source
    assert origin.line


def test_only_links_that_an_op_uses_are_its_inputs(answer: Estimate) -> None:
    links = ("system.node.scale_up", "system.node.nic", "system.scale_out")
    assert not [path for path in explain(answer, "top_0.forward").inputs if path.startswith(links)]
    exchange = explain(answer, "table.pooled_all_to_all").inputs
    assert all(any(path.startswith(link) for path in exchange) for link in links)


def test_what_is_not_read_makes_no_difference(answer: Estimate) -> None:
    """The inputs of a lookup are complete: changing every other rate of the machine leaves its time alone."""
    told = explain(answer, "table.lookup")
    design = answer.design
    for path in ("system.node.scale_up.bandwidth", "system.node.nic.bandwidth", "system.scale_out.latency"):
        assert path not in told.inputs
        changed = estimate(design.with_({path: 1e-6 if path.endswith("latency") else 1e9}))
        assert changed.op("table.lookup").slowest == told.op.slowest


def test_a_stand_in_prices_like_the_machine_itself(answer: Estimate) -> None:
    system, notes = answer.design.system, Notes()
    reader = Reading(system, "system", notes)
    assert isinstance(reader, type(system))
    machine = Machine(
        reader.gpu, type(system).topology(reader), reader.node.host, system.node.gpus, answer.program.graph_capture
    )
    for op in answer.ops:
        told = price(op.op.work, machine)
        for part, seconds in op.breakdown.parts.items():
            np.testing.assert_array_equal(told.parts[part], seconds)


def test_a_law_that_changes_the_device_is_explained_too() -> None:
    """Convolutions are priced on a copy of the device whose memory never limits."""
    layered = estimate(load("designs/resnet50_torus3d_4x4x4.yaml"))
    told = explain(layered, next(op.name for op in layered.ops if type(op.op.work).__name__ == "Convolution"))
    assert sum(told.parts.values()) == pytest.approx(told.seconds, rel=1e-12)
    assert any(path.endswith("hbm.bandwidth") for path in told.inputs)


def test_laws_are_the_documented_functions_that_run() -> None:
    from archmodel.collectives.pricing import transfer

    seconds, laws = laws_of(lambda: transfer(1e9, 1e9, 0.0))
    assert seconds == 1.0
    assert [law.name for law in laws] == ["archmodel.collectives.pricing", "archmodel.collectives.pricing.transfer"]
    assert essential(laws) == laws[:1]


def test_equations_come_before_arithmetic_in_the_text_and_that_before_plain_words() -> None:
    words = Law("f", "Bytes of one rank.\n\nMore about it, where rank = 0.")
    passing = Law("g", "max(bytes / bandwidth, flops / peak): the roofline.")
    apart = Law("h", "Seconds.\n\n    t = a + b")
    assert essential((words, passing, apart)) == (apart,)
    assert essential((words, passing)) == (passing,)
    assert essential((words,)) == (words,)
