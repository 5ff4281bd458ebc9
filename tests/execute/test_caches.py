"""Software-managed caches of rows: results as without them, counts those of exact simulators and of the Program."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.execute.caches import Level, RowCache
from archmodel.execute.machine import Machine
from archmodel.execute.parameters import initial
from archmodel.execute.run import run_plan
from archmodel.memory.cache_exact import CacheSimulator
from archmodel.memory.cascade import CascadeSimulator
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from tests.execute.small import batches_of, dot, holds, place

POLICIES = ("lru", "lfu", "fifo")


def plan(
    changes: dict | None,
    *,
    tier: str = "ssd",
    optimizer: str = "rowwise_adagrad",
    sharding: str = "table_wise",
    **more: object,
) -> Plan:
    entry = {"sharding": sharding, "tier": tier, "optimizer": optimizer, **more}
    if changes is not None:
        entry["cache"] = {"in": "hbm", **changes}
    return Plan(prefetch_input=True, tables={"default": entry})


@pytest.mark.parametrize("prefetch", [0, 1, 2, 3])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ways", [None, 4])
def test_training_through_a_cache_changes_no_bit(policy: str, ways: int | None, prefetch: int) -> None:
    cached = plan({"size": 9, "policy": policy, "ways": ways, "prefetch": prefetch})
    layout = Layout(1, 2)
    through = holds(dot(), cached, layout, steps=6)
    plain = holds(dot(), plan(None), layout, steps=6)
    assert np.array_equal(through.losses, plain.losses)
    assert all(np.array_equal(a, b) for a, b in zip(through.parameters.arrays, plain.parameters.arrays, strict=True))


def cascade(*levels: dict, prefetch: int = 1) -> list[dict]:
    """Caches above one another, in HBM, DDR and a memory behind CXL."""
    return [
        {"in": tier, "prefetch": prefetch, **level} for tier, level in zip(("hbm", "ddr", "cxl"), levels, strict=False)
    ]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize("top", POLICIES)
@pytest.mark.parametrize("lower", POLICIES)
def test_training_through_caches_above_one_another_changes_no_bit(top: str, lower: str, prefetch: int) -> None:
    levels = [{"size": 4, "policy": top, "ways": 2}, {"size": 12, "policy": lower, "ways": None}]
    levels += [{"size": 20, "policy": top, "ways": 4}] if top == lower else []
    through = holds(dot(), plan(None, cache=cascade(*levels, prefetch=prefetch)), Layout(1, 2), steps=6)
    plain = holds(dot(), plan(None), Layout(1, 2), steps=6)
    assert np.array_equal(through.losses, plain.losses)
    assert all(np.array_equal(a, b) for a, b in zip(through.parameters.arrays, plain.parameters.arrays, strict=True))


@pytest.mark.parametrize("sharding", ["column_wise", "row_wise", "grid_wise"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_caches_above_one_another_beside_others(sharding: str, optimizer: str) -> None:
    """Bytes of an entry are shared by level; a table that fits in HBM has none of them."""
    entry = {"sharding": sharding, "optimizer": optimizer, "tier": "ssd"}
    entry["cache"] = cascade({"size": "500 B", "policy": "lfu"}, {"size": "2 kB", "ways": 2})
    rules = [
        {"match": {"name": "t_0"}, "tier": "cxl", "cache": {"in": "ddr", "size": 9}},
        {"match": {"name": "t_4"}, "tier": "auto"},
    ]
    holds(dot(), Plan(prefetch_input=True, tables={"default": entry, "rules": rules}), Layout(2, 2), steps=4)


@pytest.mark.parametrize("sharding", ["column_wise", "row_wise", "table_row_wise", "grid_wise", "table_column_wise"])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_every_way_to_cut_and_every_optimizer(sharding: str, optimizer: str) -> None:
    cache = {"size": "30 %", "ways": 2, "prefetch": 1, "in": "ddr"}
    holds(dot(), plan(cache, optimizer=optimizer, sharding=sharding), Layout(2, 2), steps=4)


def test_caches_of_bytes_beside_uncached_tables_in_every_tier() -> None:
    rules = [
        {"match": {"name": "t_0"}, "tier": "ssd", "cache": {"in": "ddr", "size": "600 B", "ways": None}},
        {"match": {"name": "t_1"}, "tier": "scm", "cache": {"in": "hbm", "size": "64 B", "policy": "lfu"}},
        {"match": {"name": "t_2"}, "tier": "cxl"},
        {"match": {"name": "t_4"}, "tier": "ssd", "cache": {"in": "cxl", "size": 0.2, "policy": "fifo"}},
    ]
    default = {"sharding": "table_wise", "optimizer": "adagrad"}
    holds(dot(), Plan(prefetch_input=True, tables={"default": default, "rules": rules}), Layout(2, 2), steps=5)


@pytest.mark.parametrize("page", ["100 B", "64 B", "1 KiB"])
@pytest.mark.parametrize("policy", POLICIES)
def test_demand_paging_changes_no_bit_either(page: str, policy: str) -> None:
    paged = plan({"size": 0.4, "policy": policy, "ways": None, "prefetch": 0, "page": page}, tier="ddr")
    through = holds(dot(), paged, Layout(1, 2), steps=5)
    plain = holds(dot(), plan(None, tier="ddr"), Layout(1, 2), steps=5)
    assert np.array_equal(through.losses, plain.losses)


@pytest.mark.parametrize("prefetch", [0, 1])
def test_rows_added_one_by_one(prefetch: int) -> None:
    """Updates as torch.optim.SGD makes them, in caches and in place in host memory."""
    rules = [{"match": {"name": "t_4"}, "cache": {"in": "ddr", "size": 0.1, "prefetch": prefetch}}]
    default = {"sharding": "table_wise", "tier": "ssd", "optimizer": "sgd"}
    added = Plan(prefetch_input=True, sparse_update="rows", tables={"default": default, "rules": rules})
    holds(dot(), added, Layout(1, 2), steps=4)


def test_inference_through_a_cache_writes_nothing_home() -> None:
    workload = dot(mode="inference")
    holds(workload, plan({"size": 5, "ways": None, "prefetch": 0}), Layout(1, 2), steps=4)


@pytest.mark.parametrize("lower", [None, {"size": 8, "ways": None}])
@pytest.mark.parametrize("prefetch", [1, 2])
def test_rows_that_were_fetched_before_an_update_are_refreshed(
    prefetch: int, lower: dict | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hazard is there in this very run: without the refresh the result is another."""
    levels = [{"size": 3, "ways": None}, *([lower] if lower else [])]
    cached = plan(None, cache=cascade(*levels, prefetch=prefetch))
    machines: list[Machine] = []
    made = Machine.__post_init__
    monkeypatch.setattr(Machine, "__post_init__", lambda self: (machines.append(self), made(self))[1])
    right = holds(dot(), cached, Layout(1, 1), steps=6)
    caches = [s.cache for m in machines for r in m.ranks for s in r.shards["rank"] if s.cache is not None]
    assert sum(cache.refreshed for cache in caches) > 0

    monkeypatch.setattr(RowCache, "_refresh", lambda self, rows, values: None)
    workload, layout = dot(), Layout(1, 1)
    batches = batches_of(workload, layout, 6)
    wrong = run_plan(
        workload, cached, place(workload, cached, layout), steps=6, batches=batches, parameters=initial(workload, 0)
    )
    assert not np.array_equal(wrong.losses, right.losses)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.integers(1, 40),
    levels=st.lists(
        st.tuples(st.integers(1, 20), st.sampled_from(POLICIES), st.sampled_from([None, 1, 2, 4])),
        min_size=1,
        max_size=3,
    ),
    prefetch=st.integers(0, 3),
    unit=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
def test_caches_are_the_simulators_and_lose_nothing(
    rows: int, levels: list[tuple[int, str, int | None]], prefetch: int, unit: int, seed: int
) -> None:
    """Any stream of batches: fetched and written rows are the exact simulator's, and the values those of an array."""
    unit = unit if len(levels) == 1 else 1
    kinds = []
    for size, policy, ways in levels:
        places = min(size, -(-rows // unit))
        ways = ways if ways is None else min(ways, places)
        kinds.append((places if ways is None else places // ways * ways, policy, ways))
    rng = np.random.default_rng(seed)
    batches = [rng.integers(0, rows, rng.integers(0, 30)) for _ in range(8)]
    plain = rng.standard_normal((rows, 2))
    cache = RowCache({"weights": plain.copy()}, [Level(*kind, f"tier_{i}") for i, kind in enumerate(kinds)], unit)
    simulator = CascadeSimulator([CacheSimulator(-(-rows // unit), *kind) for kind in kinds])
    moved = []
    probed: list[list[int]] = []

    def bring(ids: np.ndarray) -> None:
        cache.probe(ids)
        probed.append(cache.fetch())

    for ids in batches[:prefetch]:
        bring(ids)
    for i, ids in enumerate(batches):
        if i + prefetch < len(batches):
            bring(batches[i + prefetch])
        cache.install()
        wanted = np.unique(ids)
        assert np.array_equal(cache.read("weights", ids), plain[ids])
        plain[wanted] += rng.standard_normal((len(wanted), 2))
        cache.write("weights", wanted, plain[wanted])
        moved.append(cache.write_back())
    for ids, fetched, written in zip(batches, probed, moved, strict=True):
        expected = simulator.feed(np.unique(ids // unit))
        assert fetched == list(expected.fetched)
        assert Counter(written) == Counter(expected.written)
    cache.settle()
    assert np.array_equal(cache.home["weights"], plain)
