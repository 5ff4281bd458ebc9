"""Closed-form hit rates against exact simulators, limits and bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel import catalogue, source
from archmodel.memory.access import AccessDistribution, ReuseHistogram, Uniform, Zipf
from archmodel.memory.cache import characteristic_draws, shared_misses
from archmodel.memory.cache_exact import CacheSimulator, pin
from archmodel.memory.cache_policy import POLICIES, CacheError


def published(year: int) -> ReuseHistogram:
    file = Path(catalogue.directory()) / "access" / f"meta_dlrm_{year}.yaml"
    return ReuseHistogram.model_validate(source.strip(source.read(file)))


DISTRIBUTIONS = {
    **{f"zipf {alpha}": Zipf(alpha=alpha) for alpha in (0.6, 0.8, 1.0, 1.2)},
    "meta 2021": published(2021),
    "meta 2022": published(2022),
    "uniform": Uniform(),
}
CASES = [
    ("ideal", None), ("lru", None), ("lru", 1), ("lru", 4), ("lru", 32), ("fifo", None), ("fifo", 1), ("fifo", 4),
    ("lfu", None), ("lfu", 4), ("lfu", 32),
]  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("draws", [20_000, 400_000])
def test_within_two_points_of_the_exact_caches(name: str, draws: int) -> None:
    """From empty caches, some of which never fill; the chance of one trace included."""
    distribution, rows = DISTRIBUTIONS[name], 50_000
    rng = np.random.default_rng(7)
    ids = rng.permutation(rows)[distribution.sample(rows, draws, rng)]
    counts = np.bincount(ids, minlength=rows)
    for policy, ways in CASES:
        for cache_rows in (300, 3000, 20_000):
            pinned = pin(counts, cache_rows) if policy == "ideal" else None
            cache = CacheSimulator(rows, cache_rows, policy, ways, pinned)
            cache.feed(ids)
            expected = float(distribution.hit_rate(rows, cache_rows, policy, ways, draws))
            assert abs(expected - cache.hit_rate) < 0.02, (policy, ways, cache_rows)


ANY = st.sampled_from(list(DISTRIBUTIONS.values()))


@settings(max_examples=40, deadline=None)
@given(
    ANY,
    st.integers(0, 10**7),
    st.sampled_from(POLICIES),
    st.sampled_from([None, 1, 8]),
    st.one_of(st.none(), st.floats(0, 1e8)),
)
def test_in_bounds_and_never_falling(
    distribution: AccessDistribution, rows: int, policy: str, ways: int | None, draws: float | None
) -> None:
    ways = None if policy == "ideal" else ways
    sizes = np.concatenate([[0.0], (ways or 1) * np.ceil(np.geomspace(1, 2 * max(rows, 1), 9))])
    found = distribution.hit_rate(rows, sizes, policy, ways, draws)
    assert found.shape == sizes.shape and found[0] == 0
    assert np.all((found >= 0) & (found <= 1))
    assert np.all(np.diff(found) >= -1e-6)
    if rows and draws is None and ways is None:
        assert found[-1] == pytest.approx(1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("draws", [None, 0.0, 2.0, 1e6])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_a_table_without_rows(distribution: AccessDistribution, policy: str, draws: float | None) -> None:
    found = distribution.hit_rate(0, np.array([0.0, 1.0, 8.0]), policy, None, draws)
    assert found[0] == 0 and np.all((found >= 0) & (found <= 1))


@settings(max_examples=30, deadline=None)
@given(ANY, st.integers(1, 10**6), st.integers(1, 1000))
def test_pinning_the_most_popular_is_best_in_the_long_run(
    distribution: AccessDistribution, rows: int, cache_rows: int
) -> None:
    best = distribution.hit_rate(rows, cache_rows, "ideal")
    for policy in ("lru", "fifo"):
        assert distribution.hit_rate(rows, cache_rows, policy) <= best + 1e-2
    assert distribution.hit_rate(rows, cache_rows, "fifo") <= distribution.hit_rate(rows, cache_rows, "lru") + 1e-6


def test_uniform_rows_hit_as_the_share_held() -> None:
    sizes = np.array([1.0, 10.0, 500.0, 1000.0])
    for policy in POLICIES:
        assert Uniform().hit_rate(1000, sizes, policy) == pytest.approx(sizes / 1000, abs=1e-6)


def test_it_broadcasts_over_tables_and_sizes() -> None:
    tables, sizes = np.array([10.0, 1e4, 1e7]), np.array([[5.0], [500.0]])
    both = Zipf(alpha=0.9).hit_rate(tables, sizes, "lru", draws=1e5)
    assert both.shape == (2, 3)
    assert both[1, 1] == pytest.approx(float(Zipf(alpha=0.9).hit_rate(1e4, 500.0, "lru", draws=1e5)))


def test_the_characteristic_time_fills_the_cache() -> None:
    spread = Zipf(alpha=1.0).popularity(1e6)
    time = characteristic_draws(spread, np.array(1e4))
    assert spread.unique(time) == pytest.approx(1e4, rel=1e-6)
    assert np.isinf(characteristic_draws(spread, np.array(1e6)))


def test_a_cache_shared_by_tables() -> None:
    """Against one LRU over interleaved draws of two tables with rows of the same size; alone it is the table's own."""
    rng, rows, draws = np.random.default_rng(2), np.array([20_000, 5000]), np.array([60_000, 30_000])
    kinds = [Zipf(alpha=0.8), Uniform()]
    spread = [kind.popularity(float(r)) for kind, r in zip(kinds, rows, strict=True)]
    ids = [kind.sample(int(r), int(n), rng) for kind, r, n in zip(kinds, rows, draws, strict=True)]
    mixed = np.concatenate([ids[0], rows[0] + ids[1]])
    order = np.argsort(np.concatenate([np.sort(rng.random(n)) for n in draws]))
    cache = CacheSimulator(int(rows.sum()), 4000)
    missed = 1 - cache.feed(mixed[order])
    first = mixed[order] < rows[0]
    exact = np.array([missed[first].sum(), missed[~first].sum()])
    found = shared_misses(spread, draws, np.array([64.0, 64.0]), 4000 * 64.0)
    assert np.abs(found - exact).max() < 0.02 * draws.max()
    alone = shared_misses(spread[:1], draws[:1], np.array([64.0]), 4000 * 64.0)
    assert alone == pytest.approx(draws[0] * (1 - float(kinds[0].hit_rate(rows[0], 4000, draws=draws[0]))), rel=1e-6)
    in_turn = shared_misses(spread, draws, np.array([64.0, 64.0]), 4000 * 64.0, interleaved=False)
    assert in_turn[0] == pytest.approx(alone[0]) and np.all(in_turn <= found + 1e-6)
    roomy = shared_misses(spread, draws, np.array([64.0, 64.0]), 1e12)
    assert roomy == pytest.approx(
        [float(kind.expected_unique(r, n)) for kind, r, n in zip(kinds, rows, draws, strict=True)]
    )


@pytest.mark.parametrize(
    ("cache_rows", "policy", "ways", "message"),
    [
        (-1, "lru", None, "-1"),
        (np.nan, "lru", None, "nan"),
        (5, "arc", None, "no cache policy"),
        (5, "lru", 0, "0 ways"),
    ],
)
def test_what_is_refused(cache_rows: float, policy: str, ways: int | None, message: str) -> None:
    with pytest.raises(CacheError, match=message):
        Uniform().hit_rate(10, cache_rows, policy, ways)
