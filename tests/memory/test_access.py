"""Expected distinct rows: closed forms and quadrature against brute-force sums and drawn samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.memory.access import AccessDistribution, Uniform, Zipf


def brute_force(alpha: float, rows: int, draws: float) -> float:
    """sum_i 1 - (1 - p_i)^n over every row."""
    p = np.arange(1.0, rows + 1) ** -alpha
    p /= p.sum()
    if draws == 0:
        return 0.0
    with np.errstate(divide="ignore"):
        return float(-np.expm1(draws * np.log1p(-p)).sum())


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 1.0, 1.05, 1.2, 2.0, 5.0])
@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 66, 100, 1000, 100_000])
def test_zipf_equals_the_sum_over_all_rows(alpha: float, rows: int) -> None:
    draws = np.array([0.0, 1.0, 2.0, 10.0, 1000.0, 65536.0, 1e7])
    expected = np.array([brute_force(alpha, rows, n) for n in draws])
    found = Zipf(alpha=alpha).expected_unique(np.full(len(draws), float(rows)), draws)
    assert np.allclose(found, expected, rtol=2e-4, atol=1e-12)


def test_uniform_is_zipf_of_exponent_zero() -> None:
    rows, draws = np.meshgrid([1.0, 7.0, 64.0, 1e4, 1e8], [0.0, 1.0, 5.0, 1e5])
    flat = Uniform().expected_unique(rows.ravel(), draws.ravel())
    assert np.allclose(flat, Zipf(alpha=0.0).expected_unique(rows.ravel(), draws.ravel()), rtol=1e-3)


DISTRIBUTIONS = [Uniform(), Zipf(alpha=0.8), Zipf(alpha=1.3)]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_mean_of_drawn_samples(distribution: AccessDistribution) -> None:
    rng = np.random.default_rng(0)
    for rows, draws in ((10, 7), (500, 200), (90, 1)):
        counts = np.array([len(np.unique(distribution.sample(rows, draws, rng))) for _ in range(800)])
        expected = float(distribution.expected_unique(np.array([float(rows)]), np.array([float(draws)]))[0])
        assert abs(counts.mean() - expected) < 5 * counts.std() / np.sqrt(len(counts)) + 1e-3 * expected


@given(st.sampled_from(DISTRIBUTIONS), st.integers(0, 10**9), st.floats(0, 1e9))
def test_bounds(distribution: AccessDistribution, rows: int, draws: float) -> None:
    found = float(distribution.expected_unique(np.array([float(rows)]), np.array([draws]))[0])
    assert 0.0 <= found <= min(rows, draws) * (1 + 1e-9)
    if rows and draws >= 1:
        assert found >= min(1.0, draws) * (1 - 1e-3)


@given(st.sampled_from(DISTRIBUTIONS), st.integers(1, 10**7), st.floats(0, 1e7), st.floats(1, 100))
def test_more_draws_touch_no_fewer_rows(
    distribution: AccessDistribution, rows: int, draws: float, factor: float
) -> None:
    few, many = distribution.expected_unique(np.full(2, float(rows)), np.array([draws, draws * factor]))
    assert many >= few * (1 - 1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_samples_are_in_range_and_popular_first(distribution: AccessDistribution) -> None:
    drawn = distribution.sample(50, 20_000, np.random.default_rng(1))
    assert drawn.min() >= 0
    assert drawn.max() <= 49
    assert drawn.dtype == np.int64
    counts = np.bincount(drawn, minlength=50)
    if isinstance(distribution, Zipf):
        assert counts[0] > counts[10] > counts[49]
    assert len(distribution.sample(50, 0, np.random.default_rng(1))) == 0
