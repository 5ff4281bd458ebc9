"""Fits, published histograms, bytes per tier, imbalance."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from archmodel.memory.access import AccessDistribution, AccessError, ReuseHistogram, Uniform, Zipf
from tests.memory.test_cache import published

KINDS = [Uniform(), Zipf(alpha=0.7), Zipf(alpha=1.1), published(2021), published(2022)]


@pytest.mark.parametrize("alpha", [0.5, 0.8, 1.0, 1.3])
def test_a_fit_finds_the_exponent(alpha: float) -> None:
    rng = np.random.default_rng(3)
    counts = np.bincount(rng.permutation(20_000)[Zipf(alpha=alpha).sample(20_000, 400_000, rng)])
    assert Zipf.fit(counts, 20_000).alpha == pytest.approx(alpha, abs=0.03)


def test_fits_that_cannot_be() -> None:
    with pytest.raises(AccessError, match="9 rows of 10 or more"):
        Zipf.fit([10] * 9 + [1] * 100, 1000)
    with pytest.raises(AccessError, match="more than 5 rows"):
        Zipf.fit([10] * 20, 5)
    for bad in ([-1.0, 20.0], [np.nan], [[1.0]]):
        with pytest.raises(AccessError, match="counts"):
            Zipf.fit(bad, 10)


@pytest.mark.parametrize("year", [2021, 2022])
def test_a_batch_has_the_published_histogram(year: int) -> None:
    histogram = published(year)
    rows, indices = histogram.expected_histogram()
    assert np.abs(rows - histogram.row_share).max() < 1e-3
    assert np.abs(indices - histogram.index_share).max() < 1e-3
    draws = histogram.indices / histogram.tables
    assert float(histogram.expected_unique(1e9, draws)) == pytest.approx(histogram.unique_rows / histogram.tables, 1e-4)


def test_drawn_batches_have_it_too() -> None:
    """Counted rows of one drawn batch of an average table, against the file."""
    histogram = published(2021)
    draws = round(histogram.indices / histogram.tables)
    counts = np.bincount(histogram.sample(10**7, draws, np.random.default_rng(0)))
    counts = counts[counts > 0]
    assert len(counts) == pytest.approx(histogram.unique_rows / histogram.tables, rel=0.01)
    edges = [0, *histogram.edges, np.inf]
    for low, high, share in zip(edges, edges[1:], histogram.row_share, strict=False):
        assert np.mean((counts > low) & (counts <= high)) == pytest.approx(share, abs=0.003)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_share": (1.0,)}, "has 1 bins; 3 are needed"),
        ({"row_share": (0.5, 0.5, 0.5)}, "adds up to 1.500"),
        ({"index_share": (1.5, -0.5, 0.0)}, "outside 0 to 1"),
        ({"edges": (2.0, 1.0)}, "must rise"),
        ({"unique_rows": 200.0}, "more than the 100 indices"),
        ({"indices": 0.0}, "is zero"),
    ],
)
def test_histograms_that_are_none(change: dict[str, object], message: str) -> None:
    good = {
        "indices": 100.0,
        "unique_rows": 50.0,
        "edges": (1.0, 2.0),
        "row_share": (0.5, 0.2, 0.3),
        "index_share": (0.25, 0.2, 0.55),
    }
    ReuseHistogram(**good)
    with pytest.raises(ValidationError, match=message):
        ReuseHistogram(**{**good, **change})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_popularity_is_one_and_falls(kind: AccessDistribution) -> None:
    tables = np.array([1.0, 2.0, 63.0, 65.0, 1000.0, 1e5, 1e8])
    spread = kind.popularity(tables)
    assert np.allclose((spread.rows * spread.probability).sum(-1), 1.0)
    assert np.all(spread.rows.sum(-1) <= tables * (1 + 1e-3) + 1e-6)
    used = np.where(spread.rows > 0, spread.probability, np.inf)
    assert np.all(np.diff(np.minimum.accumulate(used, axis=-1), axis=-1) <= 0)
    assert np.all((spread.probability >= 0) & (spread.probability <= 1 + 1e-12))
    assert np.allclose(kind.hot_share(tables, tables), 1.0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_tiers_serve_every_byte(kind: AccessDistribution) -> None:
    tables, caches = np.array([100.0, 1e5]), np.array([[10.0, 30.0], [1000.0, 1e6]])
    for cold in (False, True):
        served = kind.bytes_per_tier(tables, 5e4, 256.0, caches, cold=cold)
        assert served.shape == (2, 3)
        assert np.all(served >= -1e-6) and served.sum(-1) == pytest.approx(5e4 * 256)
    assert kind.bytes_per_tier(tables, 5e4, 256.0, caches)[1, 2] == pytest.approx(0, abs=1e-3)
    assert kind.bytes_per_tier(tables, 5e4, 256.0, [[0.0], [0.0]])[:, 1] == pytest.approx(5e4 * 256)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("shards", [2, 16])
def test_imbalance_is_that_of_drawn_batches(kind: AccessDistribution, shards: int) -> None:
    rows, draws, rng = 40_000, 20_000, np.random.default_rng(5)
    measured = []
    for _ in range(60):
        shard = rng.permutation(rows) % shards
        load = np.bincount(shard[kind.sample(rows, draws, rng)], minlength=shards)
        measured.append(load.max() / load.mean())
    error = 4 * np.std(measured) / np.sqrt(len(measured))
    assert kind.imbalance(rows, draws, shards) == pytest.approx(np.mean(measured), abs=error + 0.02)
    assert kind.imbalance(rows, draws, 1) == 1 and kind.imbalance(0, draws, shards) == 1
    with pytest.raises(AccessError, match="0 shards"):
        kind.imbalance(rows, draws, 0)
