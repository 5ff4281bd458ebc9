"""Endpoints shared with compute: exact against the max-plus timeline, against arithmetic by hand, and within bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel import catalogue, estimate, load
from archmodel.components.endpoints import Ideal
from archmodel.estimate.contention import TOGETHER, makespan, shares, simulate_point
from archmodel.estimate.sharing import Shared, simulate, stacked
from archmodel.estimate.sharing_points import simulate_points
from archmodel.estimate.timeline import run
from archmodel.program import Collective, Elementwise, Layout, Op, Program

LAYOUT = Layout(1, 4)
STUDY = "dlrm_hybrid_torus3d_4x4x4"


def kernel(name, reads=(), writes=()):
    one = np.ones(1)
    return Op(name, "forward", Elementwise("relu", one, one, one, "fp32"), ("compute",), reads, writes)


def collective(name, reads=(), writes=()):
    work = Collective("all_reduce", "world", "ring", np.ones(4), "fp32", LAYOUT)
    return Op(name, "backward", work, ("scale_up",), reads, writes)


def program(*ops):
    return Program(ops, {}, LAYOUT, np.ones(1))


def seconds(*values):
    return tuple(np.array([v]) for v in values)


def system_with(design, endpoint):
    return design.system.model_copy(update={"node": design.system.node.model_copy(update={"endpoint": endpoint})})


@pytest.mark.parametrize("name", ["mlperf_dcnv2_dgx_h100", "nvidia_dlrm_xlarge_8xa100_amp", "mlperf_dcnv2_eos_8x8"])
def test_nothing_shared_is_the_max_plus_timeline(name):
    """Two independent ways to the same number: recurrence and events."""
    design = load(catalogue.find(name))
    answer = estimate(design)
    shared = simulate_point(design, system_with(design, Ideal()))
    assert float(shared.period) == pytest.approx(answer.iteration_time, rel=1e-12)
    assert float(shared.latency) == pytest.approx(answer.latency, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(times=st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), ranks=st.booleans())
def test_any_times_give_the_max_plus_timeline(times, ranks):
    p = program(
        kernel("a", ("u",), ("x",)),
        collective("r", ("x",), ("y",)),
        kernel("b", ("x",), ("z",)),
        kernel("c", ("y",), ("u",)),
    )
    spread = [np.array([t]) if not ranks else t * np.array([1.0, 0.7, 0.9, 0.4]) for t in times]
    spread[1] = np.array([times[1]])
    expected = run(p, spread)
    found = simulate(p, Shared(tuple(spread)))
    assert float(found.period) == pytest.approx(float(expected.period), rel=1e-9)


def test_a_kernel_beside_a_collective_by_hand():
    """a 1 s; then r (2 s) beside b (3 s, half speed): in 2 s b does 1 s of its work, then 2 s alone. 1 + 2 + 2."""
    p = program(kernel("a", (), ("x",)), collective("r", ("x",), ("y",)), kernel("b", ("x",), ("z",)))
    slow = {2: {1: np.array([2.0])}}
    found = simulate(p, Shared(seconds(1, 2, 3), slowed=slow), iterations=1)
    assert float(found.latency) == pytest.approx(5.0)
    assert [float(t[0]) for t in found.times] == pytest.approx([1.0, 2.0, 4.0])


def test_both_slow_each_other():
    """r 2 s at half speed beside b (1 s, full speed): 1 s does half a second of r, and 1.5 s are left alone."""
    p = program(kernel("a", (), ("x",)), collective("r", ("x",), ("y",)), kernel("b", ("x",), ("z",)))
    found = simulate(p, Shared(seconds(1, 2, 1), starved={1: {2: np.array([2.0])}}), iterations=1)
    assert float(found.times[1][0]) == pytest.approx(2.5)


def test_taking_turns_is_the_sum():
    p = program(kernel("a", (), ("x",)), collective("r", ("x",), ("y",)), kernel("b", ("x",), ("z",)))
    found = simulate(p, Shared(seconds(1, 2, 3), takes_turns=True), iterations=1)
    assert float(found.latency) == pytest.approx(6.0)


def test_last_in_first_out():
    """r0, r1, r2 are ready at 1, 2, 3 s and take 5 s each: r0 runs, then the last issued."""
    ops = []
    for i in range(3):
        ops += [kernel(f"k{i}", (), (f"x{i}",)), collective(f"r{i}", (f"x{i}",), (f"y{i}",))]
    p = program(*ops)
    times = Shared(seconds(1, 5, 1, 5, 1, 5))
    starts = {
        lifo: [float(s[0]) for s in simulate(p, times, lifo=lifo, iterations=1).start[1::2]] for lifo in (False, True)
    }
    assert starts[False] == pytest.approx([1, 6, 11])
    assert starts[True] == pytest.approx([1, 11, 6])


def data_parallel(layers):
    """Forward, backward, one all-reduce for each layer's gradient, weights stepped before they are read."""
    ops = []
    for i in range(layers):
        ops += [kernel(f"step{i}", (f"g{i}",), (f"w{i}",)), kernel(f"f{i}", (f"w{i}", f"x{i}"), (f"x{i + 1}",))]
    for i in reversed(range(layers)):
        ops += [kernel(f"b{i}", (f"x{i}",), (f"g{i}",)), collective(f"r{i}", (f"g{i}",), (f"g{i}",))]
    return program(*ops)


@settings(max_examples=60, deadline=None)
@given(
    layers=st.integers(2, 7), forward=st.floats(0.1, 5.0), backward=st.floats(0.01, 1.0), longer=st.floats(1.01, 8.0)
)
def test_the_period_of_data_parallel_layers_in_closed_form(layers, forward, backward, longer):
    """n layers; an all-reduce r takes longer than the rest of the backward pass, (n - 1) b. The first runs under
    that. In order of issue the first layer's comes last, and the next forward pass waits for all of them,

        n f + b + n r.

    Last in, first out, the first layer's runs second, and each of the others under the forward pass of the one before:

        b + 2 r + (n - 2) max(f, r) + 2 f.
    """
    n, f, b = layers, forward, backward
    r = longer * (n - 1) * b
    p = data_parallel(n)
    times = Shared(tuple(np.array([{"s": 0.0, "f": f, "b": b, "r": r}[op.name[0]]]) for op in p.ops))
    in_order, last_first = (simulate(p, times, lifo=lifo) for lifo in (False, True))
    assert float(in_order.period) == pytest.approx(n * f + b + n * r, rel=1e-9)
    assert float(last_first.period) == pytest.approx(b + 2 * r + (n - 2) * max(f, r) + 2 * f, rel=1e-9)


def test_lifo_needs_the_first_layer_first():
    """What the next forward pass needs first is reduced first: never slower here, and faster for GNMT."""
    design = load(catalogue.find("gnmt_torus3d_4x4x4"))
    slow = {"system.scale_out.link_bandwidth": [2e9, 2e9], "system.node.endpoint": {"kind": "ideal"}}
    lifo = estimate(design.with_(slow)).iteration_time
    fifo = estimate(design.with_({**slow, "plan.collective_order": "fifo"})).iteration_time
    assert lifo < fifo


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), lifo=st.booleans(), turns=st.booleans(), spread=st.sampled_from([0.0, 0.1, 1.0]))
def test_points_followed_together_are_the_points_one_by_one(seed, lifo, turns, spread):
    """Number by number, ties of events included (`spread` 0: whole seconds)."""
    rng = np.random.default_rng(seed)
    p, points = data_parallel(int(rng.integers(2, 6))), int(rng.integers(1, 8))

    def some(low, high):
        return rng.integers(low, high, (points, 1)) + spread * rng.random((points, 1))

    kernels = [i for i, op in enumerate(p.ops) if "compute" in op.streams]
    collectives = [i for i in range(len(p.ops)) if i not in kernels]
    shared = Shared(
        tuple(some(0, 4) for _ in p.ops),
        {i: {j: some(1, 3) for j in collectives} for i in kernels if rng.random() < 0.7},
        {j: {i: some(1, 3) for i in kernels if rng.random() < 0.7} for j in collectives},
        takes_turns=turns,
    )
    found = simulate_points(p, shared, lifo)
    expected = stacked([simulate(p, shared.at(i), lifo=lifo) for i in range(points)], (points,))
    two = simulate_points(p, shared, lifo, iterations=2).period
    assert two.tolist() == [float(simulate(p, shared.at(i), lifo=lifo, iterations=2).period) for i in range(points)]
    np.testing.assert_array_equal(found.period, expected.period)
    np.testing.assert_array_equal(found.latency, expected.latency)
    for name in ("times", "start", "previous_end"):
        for ours, theirs in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)


# --- designs -------------------------------------------------------------------------------------------------------


def changed(name, **endpoint):
    return load(catalogue.find(name)).with_({f"system.node.endpoint.{k}": v for k, v in endpoint.items()})


@pytest.mark.parametrize("name", [STUDY, "resnet50_torus3d_4x4x4"])
def test_sharing_stays_within_its_bounds(name):
    design = changed(name, always=False)
    shared = shares(design.program, design.system)
    assert shared.slowed
    timeline = simulate_point(design, design.system)
    for i, (took, alone) in enumerate(zip(timeline.times, shared.alone, strict=True)):
        most = 1 + sum(float(np.max(x)) - 1 for x in shared.slowed.get(i, {}).values())
        assert np.all(took >= alone * (1 - 1e-9))
        assert np.all(took <= alone * most * (1 + 1e-9))


def test_an_ideal_endpoint_is_the_fastest():
    design = load(catalogue.find(STUDY))
    best = estimate(design.with_({"system.node.endpoint": {"kind": "ideal"}})).iteration_time
    for kind in ({"kind": "no_overlap", "copy_width": 64.0}, {"kind": "sm_driven", "copy_width": 64.0, "sms": 4}):
        assert estimate(design.with_({"system.node.endpoint": kind})).iteration_time >= best * (1 - 1e-12)
    assert estimate(design).iteration_time >= best * (1 - 1e-12)


def test_kernels_that_compete_for_memory_slow_both():
    """Without a share of its own a collective is starved, and compute beside it is slower."""
    design = load(catalogue.find("resnet50_torus3d_4x4x4"))
    kernels = {"kind": "sm_driven", "copy_width": 64.0, "sms": 6, "chunk": 65536.0}
    shared = shares(design.program, design.with_({"system.node.endpoint": kernels}).system)
    assert max(float(np.max(x)) for row in shared.slowed.values() for x in row.values()) > 1.05
    assert max(float(np.max(x)) for row in shared.starved.values() for x in row.values()) > 1.05


def test_parts_add_up_and_contention_is_one():
    answer = estimate(changed("resnet50_torus3d_4x4x4", always=False))
    for op in answer.ops:
        assert np.allclose(op.time, op.end - op.start, rtol=1e-9, atol=1e-15)
    assert any("contention" in op.breakdown.parts for op in answer.ops)


@pytest.mark.parametrize("count", [3, 2 * TOGETHER])
@pytest.mark.parametrize("always", [True, False])
def test_points_give_what_scalars_give(count, always):
    rates = np.geomspace(8e9, 128e9, count)
    together = estimate(changed(STUDY, dma_bandwidth=rates, always=always))
    alone = [estimate(changed(STUDY, dma_bandwidth=float(r), always=always)) for r in rates]
    assert together.iteration_time == pytest.approx([e.iteration_time for e in alone], rel=1e-12)
    for i, op in enumerate(together.ops):
        for k, one in enumerate(alone):
            np.testing.assert_allclose(op.start[k], one.ops[i].start, rtol=1e-12)


def test_points_of_memory_bandwidth_slow_kernels_by_their_own():
    """What is left of memory differs from point to point."""
    design = load(catalogue.find(STUDY)).with_(
        {"system.node.endpoint": {"kind": "sm_driven", "copy_width": 64.0, "sms": 6}}
    )
    rates = np.linspace(400e9, 1.2e12, TOGETHER)
    together = estimate(design.with_({"system.node.gpu.hbm.bandwidth": rates})).iteration_time
    alone = [estimate(design.with_({"system.node.gpu.hbm.bandwidth": float(r)})).iteration_time for r in rates]
    assert together == pytest.approx(alone, rel=1e-12)


def test_what_if_the_engine_were_smaller():
    base = load(catalogue.find("resnet50_torus3d_4x4x4"))
    small = base.with_({
        "system.node.endpoint.sram": 2 * 2.0**20, "system.node.endpoint.state_machines": 8,
        "system.node.endpoint.dma_bandwidth": 64e9,
    })  # fmt: skip
    reduced = [sum(float(np.max(op.time)) for op in estimate(d).ops if "all_reduce" in op.name) for d in (base, small)]
    assert reduced[1] > 1.5 * reduced[0]


def test_two_iterations_take_at_least_two_periods_less_a_head_start():
    design = load(catalogue.find(STUDY))
    assert makespan(design, 2) > estimate(design).iteration_time
    assert makespan(design, 4) > makespan(design, 2)


def test_an_engine_draws_its_power_while_it_works():
    design = load(catalogue.find(STUDY))
    answer = estimate(design)
    working = sum(float(np.max(op.time)) for op in answer.ops if "compute" not in op.op.streams)
    assert answer.energy.parts["endpoints"] == pytest.approx(4.26 * 64 * working)
    none = estimate(design.with_({"system.node.endpoint": {"kind": "ideal"}}))
    assert "endpoints" not in none.energy.parts
