"""Tables in tiers and caches: sizes as plans write them, hierarchical placement, and what no plan can ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import CacheSize, Plan
from archmodel.parallel.resolve import PlanError, resolve
from archmodel.program import Layout
from tests.execute.small import cat

TABLES = {
    "hot": {"num_embeddings": 1000, "embedding_dim": 16, "pooling_factor": 40},
    "warm": {"num_embeddings": 10_000, "embedding_dim": 16, "pooling_factor": 10},
    "cold": {"num_embeddings": 100_000, "embedding_dim": 16, "pooling_factor": 1},
    "one": {"num_embeddings": 1, "embedding_dim": 16, "pooling_factor": 1},
}
ROOM = {"hbm": 1e5, "ddr": 1e6, "ssd": 1e9}


def place(
    default: dict[str, Any],
    room: dict[str, float] = ROOM,
    *,
    layout: Layout | None = None,
    prefetch_input: bool = True,
    **more: Any,
) -> Placement:
    workload = cat(batch=64, tables=TABLES)
    plan = Plan(tables={"default": {"sharding": "table_wise", **default}, **more}, prefetch_input=prefetch_input)
    return resolve(plan, workload.table_arrays, layout or Layout(1, 1), 64, room)


def problem(default: dict[str, Any], *, prefetch_input: bool = True) -> tuple[str, str]:
    plan = Plan(tables={"default": {"sharding": "table_wise", **default}}, prefetch_input=prefetch_input)
    with pytest.raises(PlanError) as caught:
        resolve(plan, cat(tables=TABLES).table_arrays, Layout(1, 1), 64, ROOM)
    ((where, what),) = caught.value.problems
    return where, what


def refused(cache: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Plan(tables={"default": {"tier": "ssd", "cache": {"in": "hbm", "size": 10, **cache}}})
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        ("4 GiB", 4 * 2**30, "bytes"),
        ("20 %", 0.2, "share"),
        (0.25, 0.25, "share"),
        (1000, 1000, "rows"),
        (1.0, 1, "rows"),
    ],
)
def test_sizes(written: object, amount: float, unit: str) -> None:
    assert CacheSize.read(written) == CacheSize(amount, unit)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, "0 B", 0.0, "0 %", -5])
def test_a_cache_that_holds_nothing_is_refused(size: object) -> None:
    assert "holds nothing" in refused({"size": size})


@pytest.mark.parametrize("size", ["150 %", 2.5])
def test_a_cache_larger_than_its_table_by_share_is_refused(size: object) -> None:
    assert "times the table" in refused({"size": size})


@pytest.mark.parametrize("size", ["big", None, [1], True, "4 GB/s"])
def test_what_is_no_size_is_refused(size: object) -> None:
    assert "4 GiB" in refused({"size": size})


@pytest.mark.parametrize(
    "cache", [{"policy": "mru"}, {"prefetch": -1}, {"ways": 0}, {"write": "through"}, {"of": "ddr"}]
)
def test_what_no_cache_is(cache: dict[str, Any]) -> None:
    assert next(iter(cache)) in refused(cache)


def test_unknown_tiers_are_named_with_the_nearest() -> None:
    assert problem({"tier": "sdd"}) == (
        "plan.tables.default.tier",
        "no memory of the system is called sdd; did you mean ssd?",
    )
    where, what = problem({"tier": "ssd", "cache": {"in": "hmb", "size": 5}})
    assert where == "plan.tables.default.cache.in"
    assert "hbm" in what


def test_a_cache_in_its_own_tier_or_a_slower_one_is_refused() -> None:
    """The slower one would be a circle: a home that is the cache of its cache."""
    assert "already" in problem({"tier": "ddr", "cache": {"in": "ddr", "size": 5}})[1]
    assert "slower" in problem({"tier": "ddr", "cache": {"in": "ssd", "size": 5}})[1]
    assert "already" in problem({"tier": "hbm", "cache": {"in": "hbm", "size": 5}})[1]


def test_rows_are_fetched_ahead_only_when_their_indices_are_there() -> None:
    where, what = problem({"tier": "ssd", "cache": {"in": "hbm", "size": 5, "prefetch": 1}}, prefetch_input=False)
    assert where.endswith("cache.prefetch")
    assert "prefetch_input" in what
    paged = {"in": "hbm", "size": 5, "page": "4 KiB"}
    assert "1 batch ahead, but pages" in problem({"tier": "ddr", "cache": paged | {"prefetch": 1}})[1]


def test_caches_fetch_ahead_as_far_as_they_can_unless_told() -> None:
    rows, paged = {"in": "hbm", "size": 5}, {"in": "hbm", "size": 5, "page": "4 KiB"}
    assert place({"tier": "ssd", "cache": rows}).prefetch == 1
    assert place({"tier": "ssd", "cache": rows}, prefetch_input=False).prefetch == 0
    assert place({"tier": "ssd", "cache": paged}).prefetch == 0
    both = [{"match": {"name": "hot"}, "cache": rows | {"prefetch": 2}}]
    assert place({"tier": "ssd", "cache": rows}, rules=both).prefetch == 2


def test_all_caches_fetch_as_far_ahead() -> None:
    with pytest.raises(PlanError, match="as far ahead"):
        place(
            {"tier": "ssd", "cache": {"in": "hbm", "size": 5, "prefetch": 1}},
            rules=[{"match": {"name": "hot"}, "cache": {"in": "ddr", "size": 5, "prefetch": 2}}],
        )


def test_replicas_have_no_cache_and_no_other_tier() -> None:
    assert "nothing to cache" in problem({"sharding": "data_parallel", "cache": {"in": "hbm", "size": 5}})[1]
    assert "hbm" in problem({"sharding": "data_parallel", "tier": "ssd"})[1]


def test_hottest_tables_per_byte_go_to_the_fastest_tier_that_has_room() -> None:
    found = dict(zip(TABLES, place({"tier": "auto"}).tier, strict=True))
    assert found == {"hot": "hbm", "one": "hbm", "warm": "ddr", "cold": "ssd"}
    assert place({}).tier == place({"tier": "auto"}).tier
    assert set(place({"tier": "auto"}, {"hbm": 1e9, "ddr": 1e9}).tier) == {"hbm"}


def test_room_of_caches_is_kept_and_only_what_lies_below_is_cached() -> None:
    placed = place({"tier": "auto", "cache": {"in": "hbm", "size": "80 kB", "ways": None}})
    assert dict(zip(TABLES, placed.tier, strict=True))["hot"] == "ddr"
    placed = place({"tier": "auto", "cache": {"in": "ddr", "size": "100 kB", "ways": None}})
    assert placed.cached.tolist() == [False, False, True, False]
    assert placed.read_tier == ("hbm", "ddr", "ddr", "hbm")


def units(placed: Placement) -> list[int]:
    return [int(u) for b in placed.blocks("rank") for u in placed.cache_units("rank", b).sum(1)]


def test_rows_shares_and_bytes_of_a_cache() -> None:
    cache = {"in": "hbm", "ways": None}
    assert units(place({"tier": "ssd", "cache": {**cache, "size": 400}})) == [400, 400, 400, 1]
    assert units(place({"tier": "ssd", "cache": {**cache, "size": 0.1}})) == [100, 1000, 10_000, 1]
    tenth = (1000 + 10_000 + 100_000 + 1) * 64 / 10
    assert units(place({"tier": "ssd", "cache": {**cache, "size": f"{tenth} B"}})) == [100, 1000, 10_000, 1]
    assert units(place({"tier": "ssd", "cache": {**cache, "size": "1 TB"}})) == [1000, 10_000, 100_000, 1]


def test_whole_sets_and_pages() -> None:
    assert units(place({"tier": "ssd", "cache": {"in": "hbm", "size": 100, "ways": 32}})) == [96, 96, 96, 1]
    paged = {"in": "hbm", "size": 0.5, "ways": None, "page": "640 B", "prefetch": 0}
    assert units(place({"tier": "ssd", "cache": paged})) == [50, 500, 5000, 1]


def test_bytes_of_a_rank_are_shared_over_ranks_and_columns() -> None:
    """Half of the columns take half of the bytes: the same rows."""
    cache = {"in": "hbm", "size": 0.1, "ways": None}
    whole = place({"tier": "ssd", "cache": cache})
    cut = place({"tier": "ssd", "sharding": "column_wise", "column_shards": 2, "cache": cache}, layout=Layout(1, 2))
    assert np.allclose(whole.cache_share, cut.cache_share)


HBM, DDR = {"in": "hbm", "size": 5}, {"in": "ddr", "size": 50}


@pytest.mark.parametrize(
    ("caches", "where", "says"),
    [
        ([HBM, HBM], "cache[1].in", "where the cache above is already"),
        ([DDR, HBM], "cache[1].in", "hbm is faster than ddr, the cache above it"),
        ([HBM, {"in": "ssd", "size": 50}], "cache[1].in", "already"),
        ([HBM, {"in": "sdd", "size": 50}], "cache[1].in", "did you mean ssd"),
        (
            [HBM, DDR | {"size": 4}],
            "cache[1].size",
            "4 rows of table hot on a rank, fewer than the 5 of the cache above it",
        ),
        ([HBM | {"size": "10 kB"}, DDR | {"size": "9 kB"}], "cache[1].size", "of the cache above it"),
        (
            [HBM | {"size": 0.3}, DDR | {"size": 200}],
            "cache[1].size",
            "200 rows of table hot on a rank, fewer than the 300 of",
        ),
        ([HBM, DDR | {"page": "640 B", "prefetch": 0}], "cache[1].page", "pages come from the home"),
        ([HBM | {"prefetch": 1}, DDR | {"prefetch": 2}], "cache[1].prefetch", "as far ahead"),
    ],
)
def test_caches_that_cannot_lie_above_one_another(caches: list[dict[str, Any]], where: str, says: str) -> None:
    plan = Plan(
        tables={"default": {"sharding": "table_wise", "tier": "ssd", "cache": caches}},
        prefetch_input="page" not in caches[1],
    )
    with pytest.raises(PlanError) as caught:
        resolve(plan, cat(tables=TABLES).table_arrays, Layout(1, 1), 64, ROOM)
    assert any(path == f"plan.tables.default.{where}" and says in what for path, what in caught.value.problems)


def test_caches_above_one_another_are_listed_from_the_top_down() -> None:
    placed = place({"tier": "ssd", "cache": [HBM | {"ways": None}, DDR | {"ways": None, "size": 0.1}]})
    assert placed.levels == 2
    assert placed.read_tier == ("hbm",) * 4
    assert placed.chain[:, 0].tolist() == ["hbm", "ddr", "ssd"]
    (b,) = placed.blocks("rank")
    assert placed.cache_units("rank", b, 1)[:, 0].tolist() == [100, 1000, 10_000, 1]
    assert np.allclose(placed.cache_share[:, 2], [5e-5, 0.1])


def test_a_list_of_one_cache_is_that_cache() -> None:
    assert place({"tier": "ssd", "cache": [HBM]}).caches == place({"tier": "ssd", "cache": HBM}).caches


def test_an_empty_list_leaves_out_the_caches_of_the_default() -> None:
    rules = [
        {"match": {"name": "hot"}, "cache": []},
        {"match": {"name": "one"}, "sharding": "data_parallel", "cache": []},
    ]
    rules[1]["tier"] = "hbm"
    assert place({"tier": "ssd", "cache": [HBM, DDR]}, rules=rules).cached.tolist() == [False, True, True, False]


def test_only_caches_above_a_table_are_its_own() -> None:
    """Tables placed in host memory have the cache in HBM; bytes of the one there are for those below."""
    caches = [{"in": "hbm", "size": "8 kB", "ways": None}, {"in": "ddr", "size": "100 kB", "ways": None}]
    placed = place({"tier": "auto", "cache": caches})
    assert dict(zip(TABLES, placed.tier, strict=True)) == {"hot": "hbm", "warm": "ddr", "cold": "ssd", "one": "hbm"}
    assert [[c.tier for c in each] for each in placed.caches] == [[], ["hbm"], ["hbm", "ddr"], []]
    held = placed.cache_units("rank", next(iter(placed.blocks("rank"))), 1)[:, 0] * 64
    assert held.tolist() == pytest.approx([0, 0, 100_000, 0], abs=64)


def test_memory_that_the_plan_reserves_is_not_filled_with_tables() -> None:
    """HBM of 1e5 B holds "hot" (64 kB) and "one"; half of it reserved, "hot" goes to host memory."""
    workload = cat(batch=64, tables=TABLES)

    def placed(reserve: float) -> tuple[str, ...]:
        plan = Plan(tables={"default": {"sharding": "table_wise"}}, memory_reserve=reserve)
        return resolve(plan, workload.table_arrays, Layout(1, 1), 64, ROOM).tier

    assert placed(0.0)[0] == "hbm" and placed(0.5)[0] == "ddr"
    assert placed(0.5)[3] == "hbm"


def test_the_schema_takes_one_cache_or_a_list() -> None:
    cache = Plan.model_json_schema()["$defs"]["TablePlan"]["properties"]["cache"]["anyOf"]
    item = {"$ref": "#/$defs/CachePlan"}
    assert cache == [item, {"type": "array", "items": item}, {"type": "null"}]
