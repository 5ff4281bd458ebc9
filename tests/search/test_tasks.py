"""Tasks: what TorchRec's users report, as it should be."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.errors import ArchmodelError
from archmodel.search import tasks
from archmodel.search.baselines import BASELINES, baseline, differencing, greedy, hugectr_options
from archmodel.search.bound import lower_bound
from archmodel.search.options import Assignment, NoPlan
from archmodel.search.solver import Effort, solve
from archmodel.search.tasks import Constraint, Task
from archmodel.search.torchrec import Topology


def task(
    rows: list[int], dim: list[int], pooling: list[float], world: int = 8, hbm: float = 80.0, **more: object
) -> Task:
    batch = more.pop("batch", 512)
    return Task(
        "t",
        tuple(f"t{i}" for i in range(len(rows))),
        np.array(rows, dtype=np.int64),
        np.array(dim, dtype=np.int64),
        np.array(pooling, dtype=float),
        batch,  # type: ignore[arg-type]
        Topology(world, more.pop("local", 8), hbm * 1024**3, more.pop("ddr", 128) * 1024.0**3),  # type: ignore[arg-type,operator]
        **more,  # type: ignore[arg-type]
    )


def drawn(tables: int, world: int, seed: int, hbm: float = 80.0) -> Task:
    random = np.random.default_rng(seed)
    rows = (10 ** random.uniform(1, 7.5, tables)).astype(int).tolist()
    return task(
        rows,
        random.choice([16, 32, 64, 128, 256], tables).tolist(),
        np.exp(random.normal(1.0, 1.0, tables)).tolist(),
        world,
        hbm,
    )


def tiles(plan: dict, t: Task) -> None:
    """Every table is in the plan, its shards cover it once, on ranks that are."""
    assert set(plan) == set(t.names)
    for i, name in enumerate(t.names):
        entry = plan[name]
        assert all(0 <= r < t.topology.world_size for r in entry["ranks"])
        if entry["sharding_type"] == "data_parallel":
            assert len(entry["ranks"]) == t.topology.world_size
            continue
        area = sum(int(s["shard_sizes"][0]) * int(s["shard_sizes"][1]) for s in entry["shards"])
        assert area == int(t.rows[i]) * int(t.dim[i])
        assert len(entry["shards"]) == len(entry["ranks"])
        for shard, rank in zip(entry["shards"], entry["ranks"], strict=True):
            assert shard["placement"] == f"rank:{rank}/cuda:{rank % t.topology.local_world_size}"


@pytest.mark.parametrize(
    ("tables", "world", "hbm"), [(20, 8, 80), (60, 16, 80), (30, 8, 1.5), (5, 1, 80), (40, 12, 80), (9, 4, 80)]
)
def test_plans_are_whole_fit_and_lie_above_the_bound(tables: int, world: int, hbm: float) -> None:
    t = drawn(tables, world, seed=tables, hbm=hbm)
    options = tasks.options(t)
    found = solve(options, Effort(rounds=4))
    assert found.feasible and found.assignment.fits(options)
    assert found.lower_bound <= found.value * (1 + 1e-12)
    assert found.value == found.assignment.value(options)
    tiles(tasks.to_plan(t, options, found.assignment), t)


def test_the_same_seed_gives_the_same_plan() -> None:
    options = tasks.options(drawn(40, 16, 3))
    a, b = (solve(options, Effort(seed=5)) for _ in range(2))
    assert a.assignment.homes == b.assignment.homes and a.value == b.value


def test_small_cases_are_optimal() -> None:
    """Against every assignment of three tables to two ranks."""
    t = task([1000, 200_000, 50_000], [64, 128, 64], [3.0, 10.0, 20.0], world=2, local=2)
    options = tasks.options(t)
    best = np.inf
    slots = [np.flatnonzero(np.isfinite(options.cost[i])) for i in range(3)]
    for a in slots[0]:
        for b in slots[1]:
            for c in slots[2]:
                for homes in np.ndindex(2, 2, 2):
                    placed = [
                        (h,) if options.scope[s] == 0 else (0,) if options.scope[s] == 1 else ()
                        for h, s in zip(homes, (a, b, c), strict=True)
                    ]
                    candidate = Assignment(np.array([a, b, c]), tuple(placed))
                    if max(options.count[range(3), [a, b, c]]) == 1:
                        best = min(best, candidate.value(options))
    found = solve(options, Effort(rounds=50))
    assert found.value <= best * (1 + 1e-12)
    assert lower_bound(options).value <= best * (1 + 1e-12)


def test_a_bound_that_knows_memory_is_higher() -> None:
    roomy, tight = (tasks.options(drawn(40, 8, 2, hbm)) for hbm in (80, 3.0))
    assert lower_bound(tight).value > lower_bound(roomy).value
    found = solve(tight)
    assert found.feasible and found.value >= lower_bound(tight.that_fit()).value


@pytest.mark.parametrize("pooling", [float("nan"), -1.0, float("inf")])
def test_pooling_that_is_no_number_names_the_table(pooling: float) -> None:
    with pytest.raises(ArchmodelError, match="table t1: pooling"):
        task([10, 10], [64, 64], [1.0, pooling])


def test_batch_zero_duplicates_and_no_tables_are_refused() -> None:
    with pytest.raises(ArchmodelError, match="batch_per_rank 0"):
        task([10], [64], [1.0], batch=0)
    with pytest.raises(ArchmodelError, match="no tables"):
        task([], [], [])
    with pytest.raises(ArchmodelError, match="used twice"):
        Task("t", ("a", "a"), np.array([1, 1]), np.array([4, 4]), np.array([1.0, 1.0]), 1, Topology(1, 1))


def test_zero_rows_and_zero_pooling_cost_nothing_to_hold() -> None:
    t = task([0, 1000], [64, 64], [1.0, 0.0])
    found = solve(tasks.options(t))
    assert found.feasible
    tiles(tasks.to_plan(t, tasks.options(t), found.assignment), t)


def test_constraints() -> None:
    with pytest.raises(ArchmodelError, match="constraint for t_0: no such table"):
        task([10], [64], [1.0], constraints={"t_0": Constraint()})
    with pytest.raises(ArchmodelError, match="row_wize is unknown; did you mean row_wise"):
        task([10], [64], [1.0], constraints={"t0": Constraint(("row_wize",))})
    with pytest.raises(NoPlan, match="table t0: nothing on cuda is data_parallel with fused"):
        tasks.options(task([10], [64], [1.0], constraints={"t0": Constraint(("data_parallel",), ("fused",))}))
    for kind in ("row_wise", "table_row_wise", "data_parallel", "table_column_wise", "grid_shard"):
        t = task([1000] * 3, [256] * 3, [2.0] * 3, world=16, constraints={"t1": Constraint((kind,))})
        options = tasks.options(t)
        plan = tasks.to_plan(t, options, solve(options).assignment)
        assert plan["t1"]["sharding_type"] == kind
        tiles(plan, t)


def test_a_tables_own_cache_and_weights_change_its_options_alone() -> None:
    """TorchRec's cache_params.load_factor and is_weighted."""
    plain = tasks.options(task([10**6] * 3, [64] * 3, [5.0] * 3))
    own = {"t1": Constraint(load_factor=0.5), "t2": Constraint(is_weighted=True)}
    other = tasks.options(task([10**6] * 3, [64] * 3, [5.0] * 3, constraints=own))
    cached = np.array([k == "fused_uvm_caching" for k in plain.kernels])
    assert np.array_equal(plain.cost[0], other.cost[0]) and np.array_equal(plain.memory[0], other.memory[0])
    assert (other.cost[1, cached] < plain.cost[1, cached]).all() and (
        other.memory[1, cached, 0] > plain.memory[1, cached, 0]
    ).all()
    assert np.array_equal(plain.cost[1, ~cached], other.cost[1, ~cached])
    assert (other.cost[2] > plain.cost[2]).all() and np.array_equal(plain.memory[2], other.memory[2])


def test_two_tables_that_must_both_leave_are_found() -> None:
    """Twelve equal tables, eight of which fit one to a rank: two must be cut by rows and cached, two by rows in HBM."""
    t = task([5_000_000] * 12, [64] * 12, [10.0] * 12, hbm=0.9)
    found = solve(tasks.options(t))
    assert found.feasible and found.value == pytest.approx(2.7839302793005394)  # what HiGHS proves to be the least


def test_a_table_too_large_is_named_with_what_would_help() -> None:
    t = task([100_000_000], [256], [1.0], hbm=80, constraints={"t0": Constraint(("table_wise",), ("fused",))})
    with pytest.raises(NoPlan, match=r"table t0 fits nowhere: its smallest shard needs 95\.\d+ GiB of hbm.*row_wise"):
        solve(tasks.options(t))
    anyhow = solve(tasks.options(task([100_000_000], [256], [1.0])))
    assert anyhow.feasible
    held = {"t0": Constraint(("row_wise",), ("fused_uvm",))}
    with pytest.raises(NoPlan, match=r"t0 fits nowhere: .* \d+\.\d+ GiB of ddr \(row_wise, fused_uvm\), a rank has 16"):
        solve(tasks.options(task([10**9], [256], [1.0], world=2, local=2, ddr=16, constraints=held)))


def test_no_hbm_left() -> None:
    with pytest.raises(NoPlan, match="no hbm is left"):
        tasks.options(task([10], [64], [1.0], hbm=0.0))


def test_row_wise_shards_of_short_tables() -> None:
    """5 rows over 4 ranks: 2, 2, 1, 0 (torchrec#1591)."""
    t = task([5], [16], [1.0], world=4, local=4, constraints={"t0": Constraint(("row_wise",))})
    options = tasks.options(t)
    plan = tasks.to_plan(t, options, solve(options).assignment)
    assert [s["shard_sizes"][0] for s in plan["t0"]["shards"]] == [2, 2, 1, 0]


def test_more_hosts_than_a_world_has_take_no_node_wide_shards() -> None:
    options = tasks.options(task([10], [64], [1.0], world=4, local=8))
    assert "table_row_wise" not in options.kinds


@pytest.mark.parametrize("name", BASELINES)
def test_search_is_never_worse_than_a_baseline(name: str) -> None:
    t = drawn(50, 8, 11)
    options = tasks.options(t)
    plan = baseline(name, t, options)
    assert solve(options).value <= plan.value(options)


def test_baselines_as_published() -> None:
    memory, limits = np.ones((4, 1)), np.full((2, 1), 2.0)
    assert greedy(np.array([4.0, 3.0, 2.0, 1.0]), memory, limits).tolist() == [0, 1, 1, 0]
    assert greedy(np.array([4.0, 3.0, 2.0, 1.0]), memory, np.full((2, 1), 1.0)) is None
    parts = differencing(np.array([8.0, 7.0, 6.0, 5.0, 4.0]), 2)  # the textbook case: 16 against 14
    assert sorted(np.bincount(parts, [8.0, 7.0, 6.0, 5.0, 4.0]).tolist()) == [14.0, 16.0]


def test_hugectr_cost_beats_the_published_plan() -> None:
    """MLPerf Training v3.1, 8 H100: the submission's log prints hotness 26 + tables 3.5 as its largest cost."""
    rows = [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10]
    rows += [2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36]
    hotness = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
    options = hugectr_options(
        tuple(map(str, range(26))),
        np.array(rows),
        128,
        np.array(hotness, dtype=float),
        8,
        bandwidth_ratio=7.0,
        work_ratio=4.0,
        memory_limit=60e9,
        replicate_below=0.008e9,
    )
    found = solve(options)
    replicated = [t for t in range(26) if options.kinds[found.assignment.slot[t]] == "dp"]
    assert replicated == [3, 5, 6, 7, 8, 12, 13, 15, 16, 17, 18, 24, 25]
    assert found.feasible and found.value <= 29.5


def test_anytime_never_gets_worse_with_budget() -> None:
    """Progress reports fall, and the first report already is a whole plan."""
    seen: list[tuple[float, float, float]] = []
    options = tasks.options(drawn(60, 16, 4))
    found = solve(options, Effort(budget=0.3, progress=lambda *report: seen.append(report)))
    values = [value for _, value, _ in seen]
    assert values == sorted(values, reverse=True)
    assert found.value == pytest.approx(values[-1]) and found.lower_bound <= values[-1]


def test_an_interrupt_keeps_the_best_plan() -> None:
    calls = 0

    def stop(*_: float) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    found = solve(tasks.options(drawn(60, 16, 4)), Effort(rounds=50, tolerance=0.0, progress=stop))
    assert found.interrupted and found.feasible
