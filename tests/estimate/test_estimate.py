"""Estimates hold physical bounds, add up, and are the same on arrays of design points as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import archmodel as am
from archmodel.estimate.result import Estimate
from archmodel.quantities import itemsize

from .conftest import Maker

SHARDINGS = [
    "auto",
    "table_wise",
    "column_wise",
    "row_wise",
    "table_row_wise",
    "table_column_wise",
    "grid_wise",
    "data_parallel",
]
KNOBS = {
    "system.node.gpu.hbm.bandwidth": (5e11, 8e12),
    "system.node.scale_up.bandwidth": (1e11, 9e11),
    "system.node.nic.bandwidth": (1e10, 1e11),
    "system.node.gpu.launch.graph": (1e-7, 1e-5),
}
shared_fixture = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def bound(estimate: Estimate) -> float:
    """No iteration can be shorter than the busiest rank's FLOPs at peak, bytes at peak HBM, bytes at line rate."""
    system = estimate.design.system
    least = []
    flops = sum(
        (
            o.op.work.flops() / system.gpu.peak(getattr(o.op.work, "dtype", "fp32"))
            for o in estimate.ops
            if type(o.op.work).__name__ == "Gemm"
        ),
        np.zeros(1),
    )
    least.append(flops.max())
    for dim, rate in (("scale_up", system.topology().scale_up.bandwidth), ("scale_out", system.node.nic.bandwidth)):
        sent = sum((o.op.work.wire_bytes().get(dim, np.zeros(1)) for o in estimate.ops), np.zeros(1))
        least.append(float(np.max(sent / rate)))
    return float(max(least))


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_sharding_is_priced_within_its_bounds(small: Maker, nodes: int, sharding: str) -> None:
    estimate = am.estimate(small(nodes, sharding))
    assert np.isfinite(estimate.iteration_time)
    assert estimate.iteration_time >= bound(estimate)
    assert estimate.latency >= estimate.iteration_time - 1e-12
    assert estimate.throughput == pytest.approx(4096 / estimate.iteration_time)
    assert 0 <= estimate.exposed_communication <= estimate.iteration_time


def test_parts_of_every_op_sum_to_its_time(small: Maker) -> None:
    estimate = am.estimate(small())
    for o in estimate.ops:
        assert sum(np.broadcast_to(p, o.time.shape) for p in o.breakdown.parts.values()) == pytest.approx(o.time)
        assert all(np.all(np.asarray(p) >= 0) for p in o.breakdown.parts.values())


def test_phases_hold_every_op_once(small: Maker) -> None:
    estimate = am.estimate(small())
    assert sorted(n for p in estimate.phases for n in p.ops) == sorted(o.name for o in estimate.ops)
    assert all(p.slowest >= p.median for p in estimate.phases)


@pytest.mark.parametrize(("nodes", "prefetch"), [(1, False), (2, False), (2, True)])
def test_exposed_time_is_idle_compute(small: Maker, nodes: int, prefetch: bool) -> None:
    estimate = am.estimate(small(nodes, prefetch=prefetch))
    assert sum(s.seconds for s in estimate.critical_path) == pytest.approx(estimate.iteration_time, rel=1e-6)
    exposed = {o.name: estimate.exposed(o) for o in estimate.ops}
    for o in estimate.ops:
        assert 0 <= exposed[o.name] <= float(o.end.max() - o.start.min()) + 1e-12
        if "compute" in o.op.streams:
            assert exposed[o.name] == 0
    assert sum(exposed.values()) >= estimate.exposed_communication * (1 - 1e-6)
    assert sum(p.exposed for p in estimate.phases) == pytest.approx(sum(exposed.values()))


def test_points_equal_scalars(small: Maker) -> None:
    design = small(prefetch=True)
    rng = np.random.default_rng(3)
    points = {path: rng.uniform(low, high, 7) for path, (low, high) in KNOBS.items()}
    together = am.estimate(design.with_(points))
    for i in range(7):
        alone = am.estimate(design.with_({path: float(v[i]) for path, v in points.items()}))
        assert together.iteration_time[i] == pytest.approx(alone.iteration_time, rel=1e-12)
        assert together.exposed_communication[i] == pytest.approx(alone.exposed_communication, rel=1e-9, abs=1e-15)
        assert together.energy is not None and alone.energy is not None
        assert together.energy.iteration[i] == pytest.approx(alone.energy.iteration, rel=1e-12)


def test_points_may_span_a_grid(small: Maker) -> None:
    a, b = np.array([1e12, 2e12, 4e12])[:, None], np.array([2e11, 4e11])[None, :]
    grid = am.estimate(small().with_({"system.node.gpu.hbm.bandwidth": a, "system.node.scale_up.bandwidth": b}))
    assert grid.iteration_time.shape == (3, 2)
    assert np.all(np.diff(grid.iteration_time, axis=0) <= 0) and np.all(np.diff(grid.iteration_time, axis=1) <= 0)


@shared_fixture
@given(path=st.sampled_from(sorted(KNOBS)), share=st.floats(0.05, 0.95), nodes=st.sampled_from([1, 2]))
def test_better_hardware_is_never_slower(small: Maker, path: str, share: float, nodes: int) -> None:
    low, high = KNOBS[path]
    middle = low + share * (high - low)
    worse, better = (high, low) if path.endswith("graph") else (low, high)
    times = am.estimate(small(nodes).with_({path: np.array([worse, middle, better])})).iteration_time
    assert times[0] >= times[1] * (1 - 1e-12) >= times[2] * (1 - 2e-12)


def test_elasticities_are_slopes_and_bounded(small: Maker) -> None:
    design = small()
    estimate = am.estimate(design)
    for path, slope in list(estimate.elasticities.items())[:4]:
        part = design
        for name in path.split("."):
            part = part[name] if isinstance(part, dict) else getattr(part, name)
        nudged = am.estimate(design.with_({path: float(part) * 1.001})).iteration_time
        assert np.log(nudged / estimate.iteration_time) / np.log(1.001) == pytest.approx(slope, abs=5e-3)
    assert all(-1.0001 <= slope <= 1.0001 for slope in estimate.elasticities.values())
    # scaling every rate up and every time down by 1 % makes everything 1 % faster
    rates = sum(s for p, s in estimate.elasticities.items() if s < 0)
    times = sum(s for p, s in estimate.elasticities.items() if s > 0)
    assert times - rates == pytest.approx(1.0, abs=0.02)


def test_bound_shares_sum_to_one(small: Maker) -> None:
    found = am.estimate(small()).bound
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.resource == max(found.shares, key=lambda k: found.shares[k])


def test_prefetching_the_input_never_costs_time(small: Maker) -> None:
    for nodes in (1, 2):
        without, ahead = (am.estimate(small(nodes, prefetch=p)).iteration_time for p in (False, True))
        assert ahead <= without * (1 + 1e-12)


def test_memory_counts_rows_state_and_copies(small: Maker) -> None:
    design = small(nodes=1, sharding="table_wise")
    memory = am.estimate(design).memory["hbm"]
    tables = design.workload.table_arrays
    rows = float((tables.num_embeddings * tables.embedding_dim).sum()) * 4
    state = float(tables.num_embeddings.sum()) * 4  # one fp32 a row
    dense = design.workload.dense_parameters * 4
    assert memory.parts["parameter"].sum() == pytest.approx(rows + dense * 4)
    assert memory.parts["optimizer_state"].sum() == pytest.approx(state)
    assert memory.need.max() == pytest.approx(sum(np.broadcast_to(p, 4) for p in memory.parts.values()).max())


def test_a_plan_that_does_not_fit_says_so(small: Maker) -> None:
    estimate = am.estimate(small().with_({"system.node.gpu.hbm.capacity": "0.1 GB", "plan.tables.default.tier": "hbm"}))
    assert not estimate.fits and not estimate.memory["hbm"].fits
    assert "parameter" in estimate.memory["hbm"].overflow


def test_rows_in_host_memory_cost_the_host_link(small: Maker) -> None:
    design = small(nodes=1, sharding="table_wise")
    moved = design.with_({"plan.tables.rules": [{"match": {"rows": "> 800000"}, "tier": "ddr"}]})
    near, far = am.estimate(design), am.estimate(moved)
    assert far.memory["ddr"].worst > 0 and far.memory["hbm"].worst < near.memory["hbm"].worst
    assert far.iteration_time > near.iteration_time
    op = far.op("table.lookup")
    link = design.system.node.host.bandwidth_per_device(4)
    assert np.broadcast_to(op.breakdown.parts["host_link"], 4) == pytest.approx(
        np.broadcast_to(op.op.work.row_bytes["ddr"] / link, 4)
    )


def test_energy_lies_between_idle_and_busy(small: Maker) -> None:
    estimate = am.estimate(small())
    system = estimate.design.system
    assert estimate.energy is not None and estimate.cost is not None
    others = system.node.other_power * system.nodes
    low, high = (p * system.ranks + others for p in (system.gpu.idle_power, system.gpu.busy_power))
    assert low <= estimate.energy.power <= high
    parts = estimate.energy.parts
    demanded = sum(float(np.broadcast_to(o.op.work.memory_bytes()["hbm"], system.ranks).sum()) for o in estimate.ops)
    assert parts["device memory"] == pytest.approx(
        min(demanded * system.gpu.hbm.energy_per_byte, parts["device compute"] + parts["device memory"])
    )
    assert parts["host memory"] == 0
    assert estimate.cost.per_million_samples > 0


def test_one_rank_moves_nothing(small: Maker) -> None:
    estimate = am.estimate(small().with_({"system.nodes": 1, "system.node.gpus": 1}))
    assert estimate.exposed_communication == 0
    assert all(not o.op.work.wire_bytes() for o in estimate.ops)


def test_inference_is_the_forward_part(small: Maker) -> None:
    train, serve = am.estimate(small()), am.estimate(small().with_({"workload.mode": "inference"}))
    forward = [o.name for o in train.ops if o.op.phase in ("input", "forward")]
    assert [o.name for o in serve.ops] == [*forward[:-1], "sigmoid.forward"]
    assert forward[-1] == "loss.forward"
    assert serve.iteration_time < train.iteration_time


def test_tf32_is_stored_in_four_bytes() -> None:
    assert itemsize("tf32") == 4
