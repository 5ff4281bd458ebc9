"""Expected misses of caches that batches of distinct rows pass, against caches that run them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.memory.access import AccessDistribution, Uniform, Zipf
from archmodel.memory.batch_cache import batch_misses, paged
from archmodel.memory.cache import Popularity
from archmodel.memory.cache_exact import CacheError, CacheSimulator

ROWS = 3000
WITHIN = {"lru": 0.03, "fifo": 0.035, "lfu": 0.06}
"""Largest error, as a share of the distinct rows of a batch; for LFU where these are at most half of the cache."""


def ran(
    distribution: AccessDistribution, draws: int, places: int, policy: str, ways: int | None, page: int = 1
) -> tuple[float, float]:
    """(misses, distinct rows) of a batch, measured after the cache is full."""
    rng = np.random.default_rng(draws + places)
    ids = rng.permutation(ROWS)
    simulator = CacheSimulator(-(-ROWS // page), places, policy, ways)  # type: ignore[arg-type]
    misses, distinct = [], []
    for _ in range(500 if draws < ROWS else 200):
        wanted = np.unique(ids[distribution.sample(ROWS, draws, rng)] // page)
        distinct.append(len(wanted))
        misses.append(len(wanted) - int(simulator.feed(wanted).sum()))
    half = len(misses) // 2
    return float(np.mean(misses[half:])), float(np.mean(distinct[half:]))


@pytest.mark.parametrize("distribution", [Uniform(), Zipf(alpha=0.8), Zipf(alpha=1.05), Zipf(alpha=1.2)], ids=str)
@pytest.mark.parametrize("ways", [None, 8, 32])
@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu"])
def test_expectations_are_within_their_stated_error(
    policy: str, ways: int | None, distribution: AccessDistribution
) -> None:
    for draws in (60, 600):
        for places in (320, 960, 1600):
            measured, distinct = ran(distribution, draws, places, policy, ways)
            if policy == "lfu" and distinct > places / 2:
                continue  # most rows have been in every batch: counts are equal, and recency decides
            expected = float(batch_misses(distribution.popularity(float(ROWS)), places, draws, policy, ways))  # type: ignore[arg-type]
            assert abs(expected - measured) <= WITHIN[policy] * distinct


@pytest.mark.parametrize(("draws", "places"), [(2400, 600), (2400, 1800), (4500, 2100), (4500, 2700)])
@pytest.mark.parametrize("ways", [None, 8, 32])
def test_fifo_caches_that_a_batch_nearly_fills(ways: int | None, draws: int, places: int) -> None:
    """Sets that a batch overruns lose all, others nothing, and chance carries them from one to the other."""
    for distribution in (Uniform(), Zipf(alpha=0.8)):
        measured, distinct = ran(distribution, draws, places, "fifo", ways)
        expected = float(batch_misses(distribution.popularity(float(ROWS)), places, draws, "fifo", ways))
        assert abs(expected - measured) <= 0.09 * distinct


@settings(max_examples=80, deadline=None)
@given(
    st.one_of(st.just(Uniform()), st.builds(Zipf, alpha=st.floats(0, 2))),
    st.integers(1, 10**7),
    st.floats(0, 1e7),
    st.sampled_from(["lru", "fifo", "lfu"]),
    st.sampled_from([None, 1, 4, 32]),
)
def test_in_bounds_and_never_rising_as_the_cache_grows(
    distribution: AccessDistribution, rows: int, draws: float, policy: str, ways: int | None
) -> None:
    popularity = distribution.popularity(np.full(24, float(rows)))
    sizes = (ways or 1) * np.ceil(np.geomspace(1, 2 * rows, 24) / (ways or 1))
    found = batch_misses(popularity, sizes, np.full(24, draws), policy, ways)  # type: ignore[arg-type]
    distinct = popularity.unique(np.full(24, draws))
    assert np.all((found >= 0) & (found <= distinct))
    assert np.all(np.diff(found) <= 1e-6 * np.maximum(distinct[0], 1.0))
    assert found[-1] == 0


def test_a_part_of_the_rows_has_its_part_of_the_misses() -> None:
    """Row blocks are caches of their own: a quarter of the rows in a quarter of the cache."""
    whole = Zipf(alpha=1.05).popularity(1e6)
    part = Popularity(whole.probability, whole.rows / 4)
    for policy in ("lru", "fifo", "lfu"):
        assert batch_misses(part, 25_000, 50_000, policy) == pytest.approx(  # type: ignore[arg-type]
            float(batch_misses(whole, 100_000, 50_000, policy)) / 4,
            rel=1e-9,  # type: ignore[arg-type]
        )


def test_no_cache_misses_everything_and_one_row_is_held() -> None:
    popularity = Zipf(alpha=1.0).popularity(1000.0)
    assert batch_misses(popularity, 0, 50) == pytest.approx(float(popularity.unique(50)))
    assert batch_misses(Uniform().popularity(1.0), 1, 50) == 0
    with pytest.raises(CacheError, match="lru"):
        batch_misses(popularity, 10, 50, "lur")  # type: ignore[arg-type]


@pytest.mark.parametrize("distribution", [Uniform(), Zipf(alpha=1.05)], ids=str)
def test_pages_of_rows(distribution: AccessDistribution) -> None:
    pages = paged(distribution.popularity(float(ROWS)), 10.0)
    assert (pages.rows * pages.probability).sum() == pytest.approx(1.0)
    assert pages.rows.sum() == pytest.approx(ROWS / 10)
    measured, distinct = ran(distribution, 60, 100, "lru", None, page=10)
    assert float(pages.unique(60)) == pytest.approx(distinct, rel=0.02)
    assert abs(float(batch_misses(pages, 100, 60)) - measured) <= 0.03 * distinct
    same = paged(pages, 1.0)
    assert np.allclose(same.rows, pages.rows)
    assert np.array_equal(same.probability, pages.probability)
