"""Designs over memory tiers: time, traffic, memory, energy, cost, bound, wear; and what none of them may break."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import archmodel as am
from archmodel.cli import commands
from archmodel.errors import DesignError
from archmodel.estimate.estimate import estimate
from archmodel.interop import torchrec
from archmodel.program import RowMove
from archmodel.search.plan_tables import written

TIERED = """
name: tiers
system:
  nodes: 2
  node:
    gpus: 4
    gpu: {use: devices/h100_sxm_80gb.yaml}
    scale_up: {use: fabrics/nvswitch_h100.yaml}
    nic: {bandwidth: 400 Gbit/s}
    host:
      ddr: {capacity: 2 TB, bandwidth: 300 GB/s}
      link: {bandwidth: 55 GB/s, latency: 1 us}
      tiers:
        cxl: {memory: {use: memories/cxl_ddr5_256gb.yaml}, count: 2}
        ssd: {memory: {use: memories/optane_p5800x_512b.yaml}, count: 4}
    other_power: 3 kW
    price: 300 kUSD
  scale_out: {use: fabrics/ib_ndr_400g.yaml}
  economics: {lifetime: 35000 h, electricity: 0.1 USD/kWh}
workload:
  kind: dlrm
  interaction: cat
  global_batch: 16384
  dense_features: 13
  bottom_mlp: [256, 64]
  top_mlp: [512, 128, 1]
  tables:
    big: {count: 4, num_embeddings: 4000000, embedding_dim: 64, pooling_factor: 10, access: {kind: zipf, alpha: 1.05}}
    wide: {count: 5, num_embeddings: 100000, embedding_dim: 128, pooling_factor: 2.5, access: {kind: zipf, alpha: 1.1}}
plan:
  prefetch_input: true
  tables:
    default: {sharding: row_wise, optimizer: rowwise_adagrad}
    rules:
      - match: {name: big_*}
        tier: ssd
        cache: {in: hbm, size: 10 %, policy: lru, ways: 32, prefetch: 1}
"""
CACHE = "plan.tables.rules[0].cache"
RULE = "plan.tables.rules[0]"
SSD = "system.node.host.tiers.ssd"
Maker = Callable[..., am.Design]


@pytest.fixture
def tiered(tmp_path: Path) -> Maker:
    """Makes the design with changed paths."""

    def make(changes: dict[str, Any] | None = None) -> am.Design:
        path = tmp_path / "tiered.yaml"
        path.write_text(TIERED)
        design = am.load(path)
        return design.with_(changes) if changes else design

    return make


@pytest.mark.parametrize("where", ["hbm", "ddr", "cxl"])
@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_traffic_of_a_cached_tier(tiered: Maker, where: str, prefetch: int) -> None:
    answer = estimate(tiered({f"{CACHE}.in": where, f"{CACHE}.prefetch": prefetch}))
    use, cache = answer.tiers["ssd"], answer.caches["row"]
    fetched = cache.fetched / 2  # of one of two nodes
    row = 64 * 4 + 4
    assert use.read == pytest.approx(fetched * row)
    assert use.written == pytest.approx(cache.written / 2 * row)
    assert use.read_moved == pytest.approx(fetched * 512)
    assert cache.written == pytest.approx(cache.fetched)
    assert 0 < cache.row_hit_rate < cache.hit_rate < 1
    assert answer.memory["ssd"].worst == pytest.approx(4 * 4e6 * row / 8, rel=1e-6)
    staged = answer.program.buffers[f"row.staged.{where}"]
    assert float(staged.bytes.max()) == pytest.approx(cache.fetched / 8 * row * (1 + prefetch))
    held = answer.program.buffers[f"row.cache.{where}"]
    assert float(held.bytes.max()) == pytest.approx(4 * 4e5 / 8 * row, rel=1e-3)


def test_inference_writes_nothing_and_wears_nothing_out(tiered: Maker) -> None:
    answer = estimate(tiered({"workload.mode": "inference"}))
    assert answer.tiers["ssd"].written == 0
    assert np.isinf(answer.tiers["ssd"].lifetime_days)
    assert not any(isinstance(o.op.work, RowMove) and o.op.work.write_back for o in answer.ops)


def test_lifetime_is_the_allowance_over_what_is_written(tiered: Maker) -> None:
    answer = estimate(tiered())
    use = answer.tiers["ssd"]
    allowed = 4 * 400e9 * 100 * 5 * 365
    assert use.lifetime_days == pytest.approx(allowed / (use.written_moved / answer.iteration_time) / 86400)


@pytest.mark.parametrize("change", [{}, {f"{RULE}.cache": None}, {f"{RULE}.tier": "cxl"}, {f"{CACHE}.in": "ddr"}])
def test_no_tier_is_faster_than_its_peak(tiered: Maker, change: dict[str, Any]) -> None:
    """On every node, for every op and for the iteration: bytes over time are within bandwidth and reads within IOPS."""
    design = tiered(change)
    answer, host = estimate(design), design.system.node.host
    assert host is not None
    for op in answer.ops:
        for tier, bytes_ in op.op.work.memory_bytes().items():
            if tier != "hbm":
                node = float(np.broadcast_to(bytes_, 8).reshape(2, 4).sum(1).max())
                assert node <= float(host.tier(tier).bandwidth) * float(op.time.max()) * (1 + 1e-9)
        if isinstance(op.op.work, RowMove):
            assert float(op.breakdown.total.max()) > 0
    for use in answer.tiers.values():
        assert (
            use.read_moved + use.written_moved <= float(host.tier(use.tier).bandwidth) * answer.iteration_time * 1.001
        )
        assert use.busy <= 1


def test_a_larger_cache_fetches_less_and_is_never_slower(tiered: Maker) -> None:
    answers = [estimate(tiered({f"{CACHE}.size": size})) for size in (0.001, 0.01, 0.05, 0.2, 0.6, 1.0)]
    fetched = [a.caches["row"].fetched for a in answers[:-1]]
    assert all(b < a for a, b in pairwise(fetched))
    times = [a.iteration_time for a in answers[:-1]]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(times))


def test_prefetching_hides_what_is_not_late(tiered: Maker) -> None:
    """Ahead, the iteration takes as long as the busier of device and drives; in line, as both together."""
    slow = {f"{SSD}.count": 1}
    fast = {f"{SSD}.count": 4096, f"{CACHE}.size": 0.5, f"{CACHE}.in": "ddr", f"{CACHE}.prefetch": 2}
    for change in (slow, fast):
        line, ahead = (estimate(tiered({**change, f"{CACHE}.prefetch": p})) for p in (0, 2))
        moves = sum(float(o.time.max()) for o in line.ops if isinstance(o.op.work, RowMove))
        assert line.iteration_time >= ahead.iteration_time
        assert ahead.iteration_time >= moves * (1 - 1e-9)
    assert ahead.stall == 0
    assert line.iteration_time >= ahead.iteration_time + 0.9 * line.op("row.cache_fetch").slowest
    assert estimate(tiered(slow)).stall > 0


def test_routes_that_are_late_at_once_stall_once(tiered: Maker) -> None:
    """Tables cut in four ways wait for the same drives; a rank does not wait longer than it is idle."""
    cache = {"in": "hbm", "size": 0.01, "prefetch": 1}
    rules = [{"match": {"name": f"big_{i}"}, "tier": "ssd", "cache": cache, "sharding": sharding}
             for i, sharding in enumerate(("row_wise", "table_row_wise", "table_wise", "column_wise"))]  # fmt: skip
    answer = estimate(tiered({f"{SSD}.count": 1, "plan.tables.rules": rules}))
    late = [o for o in answer.ops if isinstance(o.op.work, RowMove)]
    assert sum(answer.exposed(o) for o in late) > answer.iteration_time  # told apart they would add up
    idle = answer.iteration_time - float(answer.busy("compute").max())
    assert 0.5 * idle < answer.stall <= idle


def test_bound_and_levers_name_the_tier(tiered: Maker) -> None:
    answer = estimate(tiered({f"{SSD}.count": 1, f"{CACHE}.size": 0.01}))
    assert answer.bound.resource == "ssd"
    assert any(path.startswith("system.node.host.tiers.ssd.memory.") for path in answer.elasticities)
    assert min(answer.elasticities.values()) == answer.elasticities["system.node.host.tiers.ssd.memory.write_iops"]


def test_design_points_are_one_pass(tiered: Maker) -> None:
    rates = np.array([1e5, 1e6, 4e6])
    many = estimate(tiered({f"{SSD}.memory.read_iops": rates}))
    each = [estimate(tiered({f"{SSD}.memory.read_iops": float(r)})) for r in rates]
    assert np.allclose(many.iteration_time, [e.iteration_time for e in each], rtol=1e-9)
    assert np.allclose(many.tiers["ssd"].busy, [e.tiers["ssd"].busy for e in each], rtol=1e-9)
    assert np.allclose(many.tiers["ssd"].lifetime_days, [e.tiers["ssd"].lifetime_days for e in each], rtol=1e-9)


def test_drives_cost_and_draw_power(tiered: Maker) -> None:
    few, many = (estimate(tiered({f"{SSD}.count": n, "system.node.host.ddr.bandwidth": "1 TB/s"})) for n in (400, 800))
    assert few.cost is not None and many.cost is not None and few.energy is not None and many.energy is not None
    more = few.cost.capital / few.iteration_time, many.cost.capital / many.iteration_time
    assert (more[1] - more[0]) * 35000 * 3600 == pytest.approx(2 * 400 * 1224, rel=1e-6)
    assert many.energy.parts["ssd"] / many.iteration_time >= 2 * 800 * 3 * (1 - 1e-9)
    assert many.energy.parts["ssd"] / many.iteration_time <= 2 * 800 * 14


def test_uncached_rows_are_read_where_they_lie(tiered: Maker) -> None:
    answer = estimate(tiered({f"{RULE}.cache": None}))
    assert not answer.caches
    lookup = answer.op("row.lookup").op.work
    assert float(np.max(lookup.rows["ssd"])) == pytest.approx(4 * 16384 * 10 / 8)  # type: ignore[attr-defined]
    assert answer.tiers["ssd"].read_moved == pytest.approx((4 * 16384 * 10 + answer_unique(answer)) / 2 * 512, rel=1e-6)


def answer_unique(answer: am.Estimate) -> float:
    work = answer.op("row.update").op.work
    return float(np.broadcast_to(work.rows["ssd"], 8).sum())  # type: ignore[attr-defined]


def test_more_than_all_tiers_hold_is_named_with_what_would_help(tiered: Maker, tmp_path: Path) -> None:
    path = tmp_path / "tiered.yaml"
    tiered()
    result = CliRunner().invoke(
        commands,
        ["evaluate", str(path), "--set", f"{SSD}.count=1", "--set", "workload.tables.big.num_embeddings=40000000000"],
    )
    assert result.exit_code == 1
    (line,) = (one for one in result.stderr.splitlines() if one.startswith("does not fit: ssd"))
    assert "ssd of node 0 needs " in line and "GB more of ssd on node 0" in line


def test_auto_fills_tier_after_tier(tiered: Maker) -> None:
    design = tiered(
        {f"{RULE}.tier": "auto", "workload.tables.big.num_embeddings": 3_000_000_000, f"{CACHE}.size": "1 GiB"}
    )
    answer = estimate(design)
    assert set(design.placement.tier) >= {"hbm", "ddr"}
    assert answer.fits


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (f"{RULE}.tier", "nvme", "no memory of the system is called nvme"),
        (f"{CACHE}.in", "ssd", "already"),
        (f"{CACHE}.policy", "mru", "lru"),
        (f"{CACHE}.prefetch", "-1", "0"),
        (f"{CACHE}.size", "0 B", "holds nothing"),
        (f"{SSD}.count", "0", "1"),
        ("system.node.host.tiers.hbm.count", "2", "memory"),
    ],
)
def test_bad_input_is_named_with_its_place(tiered: Maker, tmp_path: Path, path: str, value: str, says: str) -> None:
    tiered()
    with pytest.raises(DesignError) as caught:
        am.load(tmp_path / "tiered.yaml", sets={path: value})
    assert says in str(caught.value)
    assert path.replace("hbm.count", "hbm") in str(caught.value)


def test_paging_needs_to_know_what_a_fault_costs(tiered: Maker) -> None:
    paged = {f"{CACHE}.page": "64 KiB", f"{CACHE}.prefetch": 0, f"{CACHE}.ways": None, f"{RULE}.tier": "ddr"}
    with pytest.raises(am.ArchmodelError, match="fault_time"):
        estimate(tiered(paged))
    answer = estimate(tiered({**paged, "system.node.host.link.fault_time": "2 us"}))
    rows = estimate(tiered({f"{CACHE}.prefetch": 0, f"{RULE}.tier": "ddr"}))
    assert answer.iteration_time > 3 * rows.iteration_time
    assert answer.op("row.cache_fetch").breakdown.parts["page_faults"] is not None


def test_reports_know_the_new_ops(tiered: Maker, tmp_path: Path) -> None:
    tiered()
    path = str(tmp_path / "tiered.yaml")
    run = CliRunner().invoke
    text = run(commands, ["evaluate", path]).stdout
    assert "worn out in" in text and "hits of indices" in text
    found = json.loads(run(commands, ["evaluate", path, "--json"]).stdout)
    assert found["tiers"]["ssd"]["lifetime_days"] > 0 and 0 < found["caches"]["row"]["hit_rate"] < 1
    for op, law in (
        ("row.cache_fetch", "archmodel.estimate.tiers.moving"),
        ("row.cache_write_back", "archmodel.memory.host_tier.contended"),
        ("row.cache_probe", "exact_update"),
    ):
        result = run(commands, ["explain", path, op])
        assert result.exit_code == 0, result.output
        assert law in result.stdout
    trace = tmp_path / "trace.json"
    assert run(commands, ["evaluate", path, "--trace", str(trace)]).exit_code == 0
    assert "row.cache_fetch" in trace.read_text()


PMM = {"memory": {"capacity": 1e12, "bandwidth": 40e9, "access_granularity": 256.0}, "count": 2}
DRIVE = {"kind": "block", "capacity": 1e12, "bandwidth": 3e9, "access_granularity": 4096.0, "latency": 1e-4}
TWO_HOMES = [
    {"match": {"name": f"big_{i}"}, "tier": tier, "cache": {"in": "hbm", "size": "10 %", "ways": 32}}
    for i, tier in enumerate(("pmm", "pmm", "ddr", "ddr"))
]


def test_memory_on_the_channels_of_another_takes_time_there(tiered: Maker) -> None:
    """Rows of both in one fetch: what crosses the channels, in lines of 32 B, at their peak."""

    def answer(bandwidth: float, **more: str) -> am.Estimate:
        host = "system.node.host"
        changes = {f"{host}.tiers": {"pmm": PMM | more}, f"{host}.ddr.bandwidth": bandwidth}
        return estimate(tiered({**changes, f"{host}.link.bandwidth": 1e12, "plan.tables.rules": TWO_HOMES}))

    own, shared = answer(20e9), answer(20e9, channels_of="ddr")
    fetch = shared.op("row.cache_fetch")
    assert isinstance(fetch.op.work, RowMove)
    rows = {home: 4 * float(fetch.op.work.units[f"{home}:hbm"].max()) for home in ("pmm", "ddr")}  # of a node
    assert rows["pmm"] == pytest.approx(rows["ddr"])
    alone = sum(float(np.max(fetch.breakdown.parts[part])) for part in ("latency", "launch"))
    assert fetch.slowest - alone == pytest.approx((rows["pmm"] + rows["ddr"]) * 288 / 20e9)
    assert own.op("row.cache_fetch").slowest - alone == pytest.approx(rows["ddr"] * 288 / 20e9)
    busy = {name: [a.tiers[name].busy * a.iteration_time for a in (own, shared)] for name in ("ddr", "pmm")}
    assert busy["ddr"][1] == pytest.approx(2 * busy["ddr"][0])
    assert busy["pmm"][1] == pytest.approx(busy["pmm"][0])
    wide = [answer(2e12), answer(2e12, channels_of="ddr")]  # each by its own law where channels are never short
    assert wide[0].op("row.cache_fetch").slowest == pytest.approx(wide[1].op("row.cache_fetch").slowest)
    assert wide[1].op("row.cache_fetch").slowest - alone == pytest.approx(rows["pmm"] * 512 / 80e9)


@pytest.mark.parametrize(
    ("tier", "says"),
    [
        (PMM | {"channels_of": "drr"}, "did you mean ddr"),
        (PMM | {"channels_of": "pmm"}, "no other memory"),
        (PMM | {"channels_of": "ssd"}, "no channels of its own"),
        ({"memory": DRIVE | {"read_iops": 5e5, "queue_depth": 64.0}, "channels_of": "ddr"}, "is for memory modules"),
        ({"memory": PMM["memory"] | {"link_bandwidth": 3e10}, "channels_of": "ddr"}, "behind a link"),
    ],
)
def test_channels_that_no_memory_is_on(tiered: Maker, tier: dict[str, Any], says: str) -> None:
    with pytest.raises(DesignError) as caught:
        tiered({"system.node.host.tiers.pmm": tier})
    (problem,) = caught.value.problems
    assert problem.field == "system.node.host.tiers"
    assert "tier pmm" in problem.message and says in problem.message


def test_sweeps_write_down_tiers(tiered: Maker) -> None:
    columns = ["tier.ssd.busy", "tier.ssd.lifetime_days", "throughput"]
    found = am.sweep(tiered(), {f"{SSD}.count": [1, 4], f"{CACHE}.size": [0.01, 0.1]}, outputs=columns)
    busy, days = (np.asarray(found[name], dtype=float) for name in columns[:2])
    assert np.all((busy > 0) & (busy <= 1))
    assert np.all(np.isfinite(days))
    with pytest.raises(am.ArchmodelError, match=r"tier\.ssd\.busy"):
        am.sweep(tiered(), {f"{SSD}.count": [1]}, outputs=["tier.ssd.bussy"])


CASCADE = [
    {"in": "hbm", "size": "1 %", "policy": "lru", "ways": 32, "prefetch": 2},
    {"in": "ddr", "size": "20 %", "policy": "lru", "ways": 8, "prefetch": 2},
]


def test_caches_above_one_another_take_work_from_the_home(tiered: Maker) -> None:
    one, both = estimate(tiered({CACHE: CASCADE[0]})), estimate(tiered({CACHE: CASCADE}))
    use, row = both.caches["row"], 64 * 4 + 4
    top, lower = use.levels["hbm"], use.levels["ddr"]
    assert (top.asked, top.fetched) == pytest.approx((use.rows, one.caches["row"].fetched))
    assert lower.asked == pytest.approx(top.fetched)
    assert use.fetched == pytest.approx(lower.fetched) and lower.fetched < 0.7 * top.fetched
    assert use.written == pytest.approx(use.fetched)  # as many rows go home as come
    assert top.written == pytest.approx(top.fetched)
    fetch, back = (both.op(f"row.cache_{name}").op.work for name in ("fetch", "write_back"))
    assert isinstance(fetch, RowMove) and isinstance(back, RowMove)
    assert set(fetch.bytes) == {"ssd:ddr", "ddr:hbm"}
    assert set(back.bytes) == {"ssd:ddr", "ddr:hbm", "ssd:hbm"}
    assert both.tiers["ssd"].read == pytest.approx(use.fetched / 2 * row)
    assert both.tiers["ssd"].written == pytest.approx(use.written / 2 * row)
    caught = float(np.broadcast_to(back.units["ddr:hbm"], 8).sum())
    assert both.tiers["ddr"].read == pytest.approx((top.fetched + lower.written) / 2 * row)
    assert both.tiers["ddr"].written == pytest.approx((lower.fetched + caught) / 2 * row)
    held, staged = (both.program.buffers[f"row.{name}.ddr"] for name in ("cache", "staged"))
    assert both.memory["ddr"].worst == pytest.approx(float(held.bytes.max() + staged.bytes.max()))
    assert float(staged.bytes.max()) == pytest.approx(3 * lower.fetched / 8 * row)
    assert both.iteration_time < one.iteration_time
    assert (
        both.tiers["ssd"].lifetime_days * both.iteration_time**-1 > one.tiers["ssd"].lifetime_days / one.iteration_time
    )


def test_a_larger_lower_cache_is_never_slower_and_a_full_one_needs_no_home(tiered: Maker) -> None:
    answers = [
        estimate(tiered({CACHE: [CASCADE[0], CASCADE[1] | {"size": s}]})) for s in (0.01, 0.05, 0.2, 0.6, "100 %")
    ]
    fetched = [a.caches["row"].fetched for a in answers]
    assert all(b < a for a, b in pairwise(fetched)) and fetched[-1] == 0
    assert all(b.iteration_time <= a.iteration_time * (1 + 1e-9) for a, b in pairwise(answers))


def test_caches_above_one_another_in_reports_plan_files_and_checks(tiered: Maker, tmp_path: Path) -> None:
    design = tiered({CACHE: CASCADE})
    assert am.check(design).passed
    again = design.with_({"plan.tables": written(design)})
    assert np.allclose(again.placement.cache_share, design.placement.cache_share, atol=1e-5)
    assert estimate(again).iteration_time == pytest.approx(estimate(design).iteration_time, rel=1e-3)
    with pytest.raises(am.ArchmodelError, match="big_0 is cached in hbm and ddr; TorchRec knows one cache"):
        torchrec.from_design(design)
    path, run = str(tmp_path / "tiered.yaml"), CliRunner().invoke
    sets = ["--set", f"{CACHE}={json.dumps(CASCADE)}", "--set", f"{CACHE}[1].size=30 %"]
    assert "in DDR" in run(commands, ["evaluate", path, *sets]).stdout
    levels = json.loads(run(commands, ["evaluate", path, *sets, "--json"]).stdout)["caches"]["row"]["levels"]
    assert list(levels) == ["hbm", "ddr"] and 0 < levels["ddr"]["hit_rate"] < 1
    assert run(commands, ["explain", path, "row.cache_fetch", *sets]).exit_code == 0


def test_a_lower_cache_that_whole_sets_make_smaller_is_written_and_checked_too(tiered: Maker) -> None:
    levels = [{"in": "hbm", "size": 1010, "ways": None}, {"in": "ddr", "size": 1010, "ways": 32}]
    design = tiered({CACHE: levels})
    share = design.placement.cache_share[:, design.placement.cached]
    assert np.all(share[1] < share[0])
    again = design.with_({"plan.tables": written(design)})
    assert np.allclose(again.placement.cache_share, design.placement.cache_share, atol=1e-6)
    assert am.check(design, steps=1).passed


@pytest.mark.parametrize(
    ("cache", "path", "says"),
    [
        ({"in": "hbm"}, f"{CACHE}.size", "is missing"),
        ({"in": "hbm", "size": 5, "polcy": "lru"}, f"{CACHE}.polcy", "did you mean policy"),
        ([CASCADE[0], {"in": "ddr"}], f"{CACHE}[1].size", "is missing"),
        ([CASCADE[0], {"in": "ddr", "size": 5, "polcy": "lru"}], f"{CACHE}[1].polcy", "did you mean policy"),
        ([CASCADE[0], CASCADE[1] | {"size": "1 kB"}], f"{CACHE}[1].size", "fewer than the"),
        ("hbm", CACHE, "is not a mapping"),
    ],
)
def test_one_cache_and_several_name_the_place_of_a_mistake(tiered: Maker, cache: Any, path: str, says: str) -> None:
    with pytest.raises(DesignError) as caught:
        tiered({CACHE: cache})
    assert any(p.field == path and says in p.message for p in caught.value.problems), str(caught.value)


def test_check_runs_caches_and_says_what_it_shrank(tiered: Maker) -> None:
    report = am.check(tiered({f"{CACHE}.prefetch": 2}))
    assert report.passed
    assert any(note.startswith("caches: the same share") for note in report.shrunk)
    moved = {row.op: row.memory["ssd"] for row in report.ops if "ssd" in row.memory}
    assert set(moved) == {"row.cache_fetch", "row.cache_write_back"}
    assert all(count.program == count.counted > 0 for count in moved.values())


# --- memory that sums rows ----------------------------------------------------------------------------------


NEAR = """
use: deeprecsys_rmc1_1xa100.yaml
system: {node: {host: {tiers: {nmp: {memory: {use: memories/recnmp_4x4x2.yaml}}}}}}
plan: {tables: {default: {sharding: table_wise, tier: nmp}}}
"""


@pytest.fixture
def near(tmp_path: Path) -> Maker:
    """Makes the design of one A100 whose host has RecNMP DIMMs and the tables in them, with changed paths."""

    def make(changes: dict[str, Any] | None = None) -> am.Design:
        path = tmp_path / "near.yaml"
        path.write_text(NEAR)
        return am.load(path).with_(changes or {})

    return make


def test_only_sums_cross_the_link(near: Maker) -> None:
    """RMC1: 256 samples, 8 tables of 32 fp32 numbers, 80 rows a sum."""
    link = 1e6
    slow = estimate(near({"system.node.host.link.bandwidth": link}))
    assert slow.op("table.lookup").breakdown.parts["host_link"].item() == pytest.approx(256 * 8 * 128 / link)
    rows = estimate(near({"system.node.host.link.bandwidth": link, "plan.tables.default.tier": "ddr"}))
    assert rows.op("table.lookup").breakdown.parts["host_link"].item() == pytest.approx(256 * 8 * 80 * 128 / link)


def test_the_units_say_how_long_sums_take(near: Maker) -> None:
    design = near()
    memory = design.system.node.host.tiers["nmp"].memory  # type: ignore[union-attr]
    answer = estimate(design)
    expected = memory.sum_time(256 * 8 * 80 * 128.0, 256 * 8 * 80.0, 256 * 8.0, 256 * 8 * 128.0)
    assert answer.op("table.lookup").breakdown.parts["nmp"].item() == pytest.approx(expected)
    use = answer.tiers["nmp"]
    assert (use.read, use.written) == (256 * 8 * 80 * 128, 0)
    assert use.busy == pytest.approx(expected / answer.iteration_time)
    assert answer.energy.parts["nmp"] == pytest.approx(  # type: ignore[union-attr]
        memory.sum_energy(256 * 8 * 80 * 128.0, 256 * 8 * 80.0, 256 * 8.0, 256 * 8 * 128.0)
    )


def test_updates_of_rows_in_it_are_plain_reads_and_writes(near: Maker) -> None:
    trained = near({"workload.mode": "train"})
    plain = trained.with_({"plan.tables.default.tier": "ddr", "system.node.host.ddr.bandwidth": "76.8 GB/s"})
    update = [estimate(design).op("table.update").breakdown.parts for design in (trained, plain)]
    assert update[0]["nmp"].item() == pytest.approx(update[1]["ddr"].item())


def test_sums_run_as_they_are_priced(near: Maker) -> None:
    report = am.check(near())
    assert report.passed, report.problems
