"""Expected access counts against the mean of drawn batches, and exact counts against plain loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from archmodel.execute.batch import draw
from archmodel.parallel.counts import Batch, Counts, Expected, Observed
from archmodel.parallel.placement import Placement, split_evenly
from archmodel.parallel.plan import Plan
from archmodel.program import Layout, PairTraffic
from archmodel.quantities import Array
from tests.execute.small import SHARDINGS, cat, place

TABLES = {
    "zipf": {
        "num_embeddings": [40, 7],
        "embedding_dim": 8,
        "pooling_factor": [3, 2],
        "access": {"kind": "zipf", "alpha": 1.1},
    },
    "flat": {"num_embeddings": [31, 0], "embedding_dim": 8, "pooling_factor": [1, 4]},
}
LAYOUT = Layout(2, 2)
SEEDS = 400


def placed(sharding: str, batch: int = 18) -> tuple[Placement, object]:
    workload = cat(batch=batch, tables=TABLES)
    return place(workload, Plan(tables=sharding), LAYOUT), workload


def means(observe: Callable[[Counts], Array], workload: object) -> tuple[Array, Array]:
    """Mean over batches and its standard error; every seed has its own permutation of rows."""
    found = np.stack([observe(Observed(draw(workload, LAYOUT.ranks, seed, 0).sparse)) for seed in range(SEEDS)])  # type: ignore[arg-type]
    return found.mean(0), found.std(0) / np.sqrt(SEEDS)


def agree(observe: Callable[[Counts], Array], workload: object) -> None:
    expected = observe(Expected(workload.table_arrays, split_evenly(workload.global_batch, LAYOUT.ranks)))  # type: ignore[attr-defined]
    mean, error = means(observe, workload)
    assert expected.shape == mean.shape
    assert (np.abs(mean - expected) <= 5 * error + 2e-3 * expected + 1e-9).all()
    assert expected.sum() > 0


@pytest.mark.parametrize("sharding", ["table_wise", "row_wise", "table_row_wise", "column_wise"])
def test_indices_and_distinct_rows(sharding: str) -> None:
    placement, workload = placed(sharding)
    scope = {"row_wise": "world", "table_row_wise": "node"}.get(sharding, "rank")
    for name in ("indices", "unique"):

        def observe(counts: Counts, name: str = name) -> Array:
            blocks = list(placement.blocks(scope))  # type: ignore[arg-type]
            return np.concatenate([getattr(counts, name)(placement, b) for b in blocks])

        agree(observe, workload)


def test_replicated_tables() -> None:
    placement, workload = placed("data_parallel")
    shards = placement.of_scope("replica")
    agree(lambda counts: counts.local_indices(placement, shards), workload)
    agree(lambda counts: counts.local_unique(placement, shards), workload)


@pytest.mark.parametrize("sharding", ["table_wise", "row_wise", "grid_wise"])
def test_input_traffic(sharding: str) -> None:
    placement, workload = placed(sharding)
    scope = {"row_wise": "world", "grid_wise": "node"}.get(sharding, "rank")

    def observe(counts: Counts) -> Array:
        traffic = counts.input_traffic(placement, scope, 8, 4)  # type: ignore[arg-type]
        split = traffic.split(LAYOUT, "world")
        return np.stack([*traffic.totals(LAYOUT, "world"), *split["scale_up"], *split["scale_out"]])

    agree(observe, workload)


def test_observed_counts_of_a_batch_by_hand() -> None:
    workload = cat(batch=3, tables={"a": {"num_embeddings": 5, "embedding_dim": 4}})
    placement = place(workload, Plan(tables="row_wise"), Layout(1, 2))
    # rows 0..2 on rank 0, rows 3..4 on rank 1; samples 0, 1 on rank 0 and sample 2 on rank 1
    batch = Batch(np.array([2, 1]), [np.array([2, 0, 3])], [np.array([0, 4, 3, 3, 1])])
    counts = Observed(batch)
    (blocks,) = placement.blocks("world")
    assert counts.indices(placement, blocks).tolist() == [[2, 3]]
    assert counts.unique(placement, blocks).tolist() == [[2, 2]]
    traffic = counts.input_traffic(placement, "world", 8, 4)
    assert isinstance(traffic, PairTraffic)
    assert traffic.pairs.tolist() == [[8 + 2 * 4, 8 + 2 * 4], [8 + 4, 2 * 8 + 4]]
    assert batch.sample_start.tolist() == [0, 2, 3]
    assert batch.rank_of_id[0].tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_every_index_is_counted_once(sharding: str) -> None:
    placement, workload = placed(sharding)
    batch = draw(workload, LAYOUT.ranks, 0, 0).sparse  # type: ignore[arg-type]
    counts, total = Observed(batch), 0.0
    for scope in ("rank", "node", "world"):
        for blocks in placement.blocks(scope):  # type: ignore[arg-type]
            share = placement.columns[blocks.shards][:, None] / 8
            total += float((counts.indices(placement, blocks) * share).sum())
    shards = placement.of_scope("replica")
    total += float(counts.local_indices(placement, shards).sum())
    assert np.isclose(total, sum(len(ids) for ids in batch.ids))


def test_fewer_samples_than_ranks() -> None:
    placement, workload = placed("data_parallel", batch=3)
    local = split_evenly(3, 4)
    assert local.tolist() == [1, 1, 1, 0]
    expected = Expected(workload.table_arrays, local).local_unique(placement, placement.of_scope("replica"))  # type: ignore[attr-defined]
    assert not expected[3].any()
    assert (expected[0] <= [3, 2, 1, 0]).all()
