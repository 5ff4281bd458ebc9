"""Drawn batches: right lengths, right ids, the same samples on any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.execute.batch import bag_lengths, draw, popularity_order
from tests.execute.small import TABLES, cat, cross


def test_shapes_and_ranges() -> None:
    workload = cross(batch=50)
    batch = draw(workload, 3, 0, 0)
    assert batch.dense.shape == (50, 5)
    assert set(batch.labels) == {0.0, 1.0}
    assert batch.sparse.local_batch.tolist() == [17, 17, 16]
    for lengths, ids, rows, pooling in zip(
        batch.sparse.lengths,
        batch.sparse.ids,
        TABLES["t"]["num_embeddings"],
        TABLES["t"]["pooling_factor"],
        strict=True,
    ):
        assert len(lengths) == 50
        assert lengths.sum() == len(ids)
        if not rows:
            assert not lengths.any()
            continue
        assert set(lengths) <= {int(np.floor(pooling)), int(np.ceil(pooling))}
        assert ((ids >= 0) & (ids < rows)).all()


def test_the_same_samples_on_any_ranks_and_others_in_the_next_step() -> None:
    workload = cat()
    one, five, later, other = (
        draw(workload, 1, 7, 2),
        draw(workload, 5, 7, 2),
        draw(workload, 1, 7, 3),
        draw(workload, 1, 8, 2),
    )
    assert np.array_equal(one.dense, five.dense)
    assert all(np.array_equal(a, b) for a, b in zip(one.sparse.ids, five.sparse.ids, strict=True))
    assert not np.array_equal(one.dense, later.dense)
    assert not np.array_equal(one.dense, other.dense)


@pytest.mark.parametrize("pooling", [0.0, 0.25, 1.0, 2.7, 100.0])
def test_bag_lengths_have_the_right_mean(pooling: float) -> None:
    lengths = bag_lengths(pooling, 40_000, np.random.default_rng(0))
    assert set(lengths) <= {int(np.floor(pooling)), int(np.ceil(pooling))}
    assert abs(lengths.mean() - pooling) < 5 * 0.5 / np.sqrt(40_000)
    if pooling % 1 == 0:
        assert (lengths == pooling).all()


def test_popular_rows_are_spread_over_the_table() -> None:
    order = popularity_order(1000, 0, 0)
    assert sorted(order) == list(range(1000))
    assert abs(order[:100].mean() - 500) < 120
    assert not np.array_equal(order, popularity_order(1000, 0, 1))
    assert np.array_equal(order, popularity_order(1000, 0, 0))


def test_ids_follow_the_distribution() -> None:
    tables = {
        "t": {"num_embeddings": 100, "embedding_dim": 2, "pooling_factor": 20, "access": {"kind": "zipf", "alpha": 1.0}}
    }
    ids = draw(cat(batch=5000, tables=tables), 1, 0, 0).sparse.ids[0]
    order = popularity_order(100, 0, 0)
    share = np.bincount(ids, minlength=100)[order] / len(ids)
    expected = (1 / np.arange(1.0, 101)) / (1 / np.arange(1.0, 101)).sum()
    assert np.abs(share - expected).max() < 5 * np.sqrt(0.25 * 0.2 / len(ids)) * 2
