"""Plans that follow a submitter put on each GPU what the submitter's log prints."""

import numpy as np
import pytest

from archmodel import catalogue, source
from archmodel.parallel.placement import SCOPES
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import resolve
from archmodel.program import Layout
from archmodel.workloads.recommendation import Dcnv2

PRINTED = {  # plan: nodes, hotness per GPU, GB per GPU (8 bytes an element), of all tables that are not replicated
    "mlperf_dcnv2_v30_8xa100": (
        [29, 28, 28, 28, 27, 25, 25, 24],
        [40.96829235, 51.2, 10.2800343, 10.24918221, 10.25772442, 44.13568717, 41.5666985, 0.42739917],
    ),
    "mlperf_dcnv2_v30_8xh100": (
        [28, 27, 27, 27, 27, 26, 26, 26],
        [40.96099942, 10.2400512, 10.24158413, 10.24007475, 10.24740352, 44.14322483, 41.62428518, 41.38739507],
    ),
    "mlperf_dcnv2_v30_4xh100": (
        [57.25, 57.25, 50.75, 48.75],
        [51.20011776, 51.21775718, 54.80752128, 51.85962189],
    ),
    "mlperf_dcnv2_v30_8x48gb": (
        [29.5, 28.5, 28.75, 27.75, 25.25, 24.5, 24.75, 25],
        [30.72001024, 30.72, 20.50531226, 20.48014746, 33.8896343, 20.49656013, 31.36453632, 20.90881741],
    ),
    "mlperf_dcnv2_v31_8xh100": (
        [26, 26, 24.5, 23.5, 23.5, 23.5, 22.5, 21.5],
        [25.6, 25.6, 46.08, 5.74202573, 5.17222195, 46.49500877, 46.09328435, 8.2823383],
    ),
    "mlperf_dcnv2_v31_4xh100": (
        [54.25, 54.25, 41.75, 40.75],
        [51.2, 51.2, 54.76988006, 51.89499904],
    ),
    "mlperf_dcnv2_v31_8xl40s": (
        [26.375, 26.375, 23.875, 23.875, 24.375, 22.375, 21.875, 21.875],
        [30.72, 30.72, 10.86202573, 10.29222195, 31.13500877, 30.74075136, 30.73328435, 33.86158694],
    ),
}
CAPACITY = {"hbm": 80e9, "ddr": 0.0}


def placement(plan, layout, batch=55_296):
    folder = catalogue.directory()
    model = source.validate(Dcnv2, source.read(folder / "workloads" / "mlperf_dcnv2.yaml"))
    read = source.validate(Plan, source.read(folder / "plans" / f"{plan}.yaml"))
    return resolve(read, model.table_arrays, layout, batch, CAPACITY)


def per_rank(placed, of_table, scopes=("rank", "node", "world")):
    """Sum over ranks' shards of a per-table amount, split by columns and, in a node or world, by rows: (ranks,)."""
    total = np.zeros(placed.layout.ranks)
    share = placed.columns / placed.tables.embedding_dim[placed.table]
    for scope in scopes:
        for block in placed.blocks(scope):
            rows = placed.tables.num_embeddings[placed.table[block.shards]][:, None]
            amount = (of_table[placed.table[block.shards]] * share[block.shards])[:, None] * block.rows / rows
            total += placed.per_rank(scope, block, amount)
    return total


@pytest.mark.parametrize("plan", PRINTED)
def test_hotness_per_gpu_is_what_the_log_prints(plan):
    hotness, _ = PRINTED[plan]
    placed = placement(plan, Layout(1, len(hotness)))
    assert per_rank(placed, placed.tables.pooling_factor) == pytest.approx(hotness, rel=1e-9)


@pytest.mark.parametrize("plan", PRINTED)
def test_memory_per_gpu_is_what_the_log_prints(plan):
    hotness, gigabytes = PRINTED[plan]
    placed = placement(plan, Layout(1, len(hotness)))
    size = placed.tables.num_embeddings * 128 * 8 / 1e9
    assert per_rank(placed, size) == pytest.approx(gigabytes, rel=1e-6)
    assert set(placed.dtype) == {"fp32"}
    assert set(placed.optimizer) == {"adagrad"}


@pytest.mark.parametrize("plan", [plan for plan in PRINTED if "_v31_" in plan])
def test_thirteen_small_tables_are_replicated_in_v31(plan):
    placed = placement(plan, Layout(1, len(PRINTED[plan][0])))
    replicated = [t for t, kind in enumerate(placed.sharding) if kind == "data_parallel"]
    assert replicated == [3, 5, 6, 7, 8, 12, 13, 15, 16, 17, 18, 24, 25]


@pytest.mark.parametrize(
    ("plan", "nodes", "cost"), [("mlperf_dcnv2_v31_8x8", 8, 61.5), ("mlperf_dcnv2_v31_16x8", 16, 41.75)]
)
def test_nodes_are_as_loaded_as_the_planners_rule_makes_them(plan, nodes, cost):
    """Cost of a node: hotness, and 67 / 4 for every table that it holds a part of."""
    placed = placement(plan, Layout(nodes, 8), 135_168)
    hotness = per_rank(placed, placed.tables.pooling_factor).reshape(nodes, 8)
    assert hotness == pytest.approx(np.repeat(hotness[:, :1], 8, axis=1), rel=0.004)  # last blocks are shorter
    shards = np.bincount(placed.home[placed.of_scope("node")], minlength=nodes)
    assert (hotness.sum(1) + 67 / 4 * shards).max() == pytest.approx(cost, rel=1e-6)
    assert len(placed.of_scope("rank")) == len(placed.of_scope("world")) == 0
    small = placed.tables.num_embeddings < 12_207
    assert [kind == "data_parallel" for kind in placed.sharding] == small.tolist()


def test_scopes_of_the_one_hot_plan_leave_every_gpu_the_same_work():
    folder = catalogue.directory()
    from archmodel.workloads.recommendation import Dlrm

    model = source.validate(Dlrm, source.read(folder / "workloads" / "mlperf_dlrm_v1.yaml"))
    read = source.validate(Plan, source.read(folder / "plans" / "mlperf_dlrm_v1_8gpu.yaml"))
    placed = resolve(read, model.table_arrays, Layout(1, 8), 55_296, CAPACITY)
    work = per_rank(placed, placed.tables.pooling_factor)
    assert work == pytest.approx(np.full(8, work[0]))
    assert {SCOPES[s] for s in placed.scope} == {"rank", "replica"}


@pytest.mark.parametrize("gpus", [8, 16])
def test_nvidias_placement_leaves_gpu_0_to_the_bottom_mlp(gpus):
    from archmodel.parallel.plan import TablesPlan

    folder = catalogue.directory()
    tables = source.validate(TablesPlan, source.read(folder / "plans" / f"nvidia_dlrm_large_{gpus}gpu_tables.yaml"))
    ranks = [entry.ranks for entry in tables.assign.values()]
    held = np.bincount([r[0] for r in ranks if r], minlength=gpus)
    assert len(ranks) == 26
    assert held[0] == 0
    assert held.max() <= -(-26 // (gpus - 1))
