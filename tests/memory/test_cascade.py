"""Caches above one another: what they fetch and write, told row by row; and what is known of it beforehand."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archmodel.memory.access import Uniform, Zipf
from archmodel.memory.access_base import AccessDistribution
from archmodel.memory.batch_cache import batch_misses, batch_moves
from archmodel.memory.cache_exact import CacheSimulator
from archmodel.memory.cache_policy import CacheError
from archmodel.memory.cascade import CascadeSimulator

POLICIES = ("lru", "lfu", "fifo")
Kinds = list[tuple[str, int | None]]


class Versions:
    """LRU caches above a home, every copy of a row with the number of the batch that wrote it: dictionaries, the row
    that was used longest ago first."""

    def __init__(self, rows: int, sizes: list[int]) -> None:
        self.copies: list[dict[int, int]] = [*({} for _ in sizes), dict.fromkeys(range(rows), -1)]
        self.sizes = sizes
        self.latest = dict(self.copies[-1])

    def batch(self, number: int, wanted: list[int]) -> tuple[list[int], Counter[tuple[int, int]]]:
        """(rows fetched into every level, rows written by level that they leave and level that takes them)."""
        before = [dict(level) for level in self.copies]
        asked, fetched, went = wanted, [], []
        for i, size in enumerate(self.sizes):
            level, missed = self.copies[i], [r for r in asked if not self.use(i, r, size)]
            topmost = {r for r in before[i] if not any(r in above for above in before[:i])}
            went += [(i, r) for r in topmost if r in missed or (r not in level and r not in wanted)]
            fetched.append(len(missed))
            asked = missed
        moved: Counter[tuple[int, int]] = Counter()
        for i, row in went:
            assert before[i][row] == self.latest[row]  # what is written down is the newest, and nothing is lost
            moved[i, self.write(i, row, before[i][row])] += 1
        for row in wanted:
            self.latest[row] = number
            if row in self.copies[0]:
                self.copies[0][row] = number
            else:
                moved[0, self.write(0, row, number)] += 1
        return fetched, moved

    def use(self, i: int, row: int, size: int) -> bool:
        """Whether level i had the row, which it has now."""
        level = self.copies[i]
        copy = level.pop(row, None)
        if copy is None and len(level) == size:
            level.pop(next(iter(level)))
        level[row] = self.latest[row] if copy is None else copy
        return copy is not None

    def write(self, i: int, row: int, copy: int) -> int:
        to = next(j for j in range(i + 1, len(self.copies)) if row in self.copies[j])
        self.copies[to][row] = copy
        return to

    def newest(self, row: int) -> int:
        return next(level[row] for level in self.copies if row in level)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.integers(1, 30),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
)
def test_moves_are_those_of_copies_with_versions(rows: int, sizes: list[int], seed: int) -> None:
    """And the topmost copy is always the newest."""
    sizes = [min(s, rows) for s in np.cumsum(sizes).tolist()]
    rng = np.random.default_rng(seed)
    versions = Versions(rows, sizes)
    cascade = CascadeSimulator([CacheSimulator(rows, size) for size in sizes])
    for number in range(12):
        wanted = np.unique(rng.integers(0, rows, rng.integers(0, 20)))
        fetched, moved = versions.batch(number, wanted.tolist())
        found = cascade.feed(wanted)
        assert list(found.fetched) == fetched
        assert {path: n for path, n in found.written.items() if n} == moved
        assert all(versions.newest(row) == versions.latest[row] for row in range(rows))
        assert [set(np.flatnonzero(level.inside).tolist()) for level in cascade.levels] == [
            *map(set, versions.copies[:-1])
        ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ways", [None, 2])
def test_one_level_writes_what_came_less_the_places_that_were_empty(policy: str, ways: int | None) -> None:
    rng = np.random.default_rng(1)
    cache, alone = (CacheSimulator(50, 10, policy, ways) for _ in range(2))  # type: ignore[arg-type]
    cascade = CascadeSimulator([cache])
    for _ in range(30):
        wanted, held = np.unique(rng.zipf(1.3, 25) % 50), alone.held
        missed = len(wanted) - int(alone.feed(wanted).sum())
        found = cascade.feed(wanted)
        assert found.fetched == (missed,)
        assert found.written == {(0, 1): missed - (alone.held - held)}
        assert cache.inside.sum() == cache.held == alone.held


ROWS = 3000
SIZES = [(90, 320), (320, 960), (960, 2400)]
WITHIN = {("lru", "lru"): 0.05, ("fifo", "lru"): 0.05, ("lfu", "lru"): 0.06, ("lru", "lfu"): 0.06}
"""Largest error of what the lower level fetches, as a share of the distinct rows of a batch."""


@lru_cache(maxsize=4)
def batches(distribution: AccessDistribution, draws: int) -> list[np.ndarray]:
    rng = np.random.default_rng(draws)
    ids = rng.permutation(ROWS)
    return [np.unique(ids[distribution.sample(ROWS, draws, rng)]) for _ in range(600 if draws < 100 else 250)]


def ran(wanted: list[np.ndarray], sizes: tuple[int, ...], kinds: Kinds) -> np.ndarray:
    """(fetched into the top, into the lower level, written from one to the other, from the top home) of a batch, once
    the caches are full."""
    cascade = CascadeSimulator([CacheSimulator(ROWS, s, p, w) for s, (p, w) in zip(sizes, kinds, strict=True)])  # type: ignore[arg-type]
    moves = [(*m.fetched, m.written[0, 1], m.written[0, 2]) for m in map(cascade.feed, wanted)]
    return np.mean(moves[len(moves) // 2 :], axis=0)


@pytest.mark.parametrize("alpha", [0.6, 0.9, 1.2])
@pytest.mark.parametrize("draws", [60, 600])
@pytest.mark.parametrize("ways", [(None, None), (32, 8)])
@pytest.mark.parametrize("policies", WITHIN, ids="-".join)
def test_expectations_of_a_lower_level_are_within_their_stated_error(
    policies: tuple[str, str], ways: tuple[int | None, int | None], draws: int, alpha: float
) -> None:
    kinds = list(zip(policies, ways, strict=True))
    wanted, popularity = batches(Zipf(alpha=alpha), draws), Zipf(alpha=alpha).popularity(float(ROWS))
    distinct = float(np.mean([len(w) for w in wanted]))
    for sizes in SIZES:
        if "lfu" in policies and distinct > sizes[policies.index("lfu")] / 2:
            continue  # counts are equal, and recency decides
        moves = batch_moves(popularity, sizes, draws, kinds)  # type: ignore[arg-type]
        expected = (*moves.fetched, moves.written[0, 1], moves.written[0, 2])
        error = np.abs(np.array([float(x) for x in expected]) - ran(wanted, sizes, kinds)) / distinct
        assert error[0] <= 0.06 and error[1] <= WITHIN[policies]
        assert error[2:].max() <= 0.08


@settings(max_examples=40, deadline=None)
@example(Uniform(), 11687, 6.5e-305, [("lru", None), ("fifo", None)], 0.0)
@given(
    st.one_of(st.just(Uniform()), st.builds(Zipf, alpha=st.floats(0, 2))),
    st.integers(1, 10**7),
    st.floats(0, 1e7),
    st.lists(st.tuples(st.sampled_from(POLICIES), st.sampled_from([None, 1, 8])), min_size=1, max_size=3),
    st.floats(0, 1),
)
def test_as_many_rows_go_home_as_come(
    distribution: AccessDistribution, rows: int, draws: float, kinds: Kinds, share: float
) -> None:
    popularity = distribution.popularity(np.full(6, float(rows)))
    sizes = [np.ceil(np.geomspace(1, 2 * rows, 6) * share / 2**i) * 8 for i in range(len(kinds))][::-1]
    moves = batch_moves(popularity, sizes, np.full(6, draws), kinds)  # type: ignore[arg-type]
    distinct, home = popularity.unique(np.full(6, draws)), len(kinds)
    for level, fetched in enumerate(moves.fetched):
        assert np.all((fetched >= 0) & (fetched <= (moves.fetched[level - 1] if level else distinct)))
        down = sum(n for (above, below), n in moves.written.items() if above <= level < below)
        assert np.allclose(down, fetched, rtol=1e-9, atol=1e-9)
    assert all(np.all(n >= -1e-9) for n in moves.written.values())
    assert np.allclose(sum(n for (_, below), n in moves.written.items() if below == home), moves.fetched[-1], atol=1e-9)
    assert np.array_equal(moves.fetched[0], batch_misses(popularity, sizes[0], np.full(6, draws), *kinds[0]))  # type: ignore[arg-type]


def test_a_lower_cache_that_is_no_larger_than_the_one_above_finds_next_to_nothing() -> None:
    """LRU below LRU: what is asked for is what has not been for as long as the top remembers."""
    popularity = Zipf(alpha=0.8).popularity(1e6)
    moves = batch_moves(popularity, [1e5, 1e5], 5e3, [("lru", None), ("lru", None)])
    assert float(moves.fetched[1]) == pytest.approx(float(moves.fetched[0]), rel=0.1)
    everything = batch_moves(popularity, [1e5, 1e6], 5e3, [("lru", None), ("lru", None)])
    assert float(everything.fetched[1]) == 0
    assert float(everything.written[0, 1]) == pytest.approx(float(everything.fetched[0]))
    with pytest.raises(CacheError, match="lru"):
        batch_moves(popularity, [1e5, 1e6], 5e3, [("lru", None), ("lur", None)])  # type: ignore[list-item]
