"""Exact simulators against a brute-force reference, compiled and as plain Python."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.memory import cache_exact
from archmodel.memory import cache_kernels as kernels
from archmodel.memory.access import Zipf
from archmodel.memory.cache_exact import CacheSimulator, SampledDistances, StackDistances, pin, set_of
from archmodel.memory.cache_policy import CacheError


def reference(ids: list[int], cache_rows: int, policy: str, ways: int | None) -> list[int]:
    """Dictionaries, one access after the other."""
    sets = 1 if ways is None else cache_rows // ways
    room = cache_rows if ways is None else ways
    which = [0] * len(ids) if ways is None else set_of(ids, sets).tolist()
    held: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(sets)]
    count: dict[int, int] = {}
    found = []
    for row, home in zip(ids, which, strict=True):
        mine = held[home]
        count[row] = count.get(row, 0) + 1
        found.append(int(row in mine))
        if row in mine:
            if policy != "fifo":
                mine.move_to_end(row)
            continue
        if len(mine) == room:
            victim = next(iter(mine)) if policy != "lfu" else min(mine, key=lambda one: count[one])
            if policy == "lfu" and count[row] < count[victim]:
                continue
            del mine[victim]
        mine[row] = None
    return found


def stack_reference(ids: list[int], rows: int) -> list[int]:
    """A list that is searched."""
    histogram, stack = [0] * (rows + 1), []
    for row in ids:
        depth = len(stack) - stack.index(row) if row in stack else 0
        histogram[depth] += 1
        if depth:
            stack.remove(row)
        stack.append(row)
    return histogram


@st.composite
def traces(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    rows = draw(st.integers(1, 300))
    length = draw(st.integers(0, 1500))
    skew = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rows, np.minimum((rows * rng.random(length) ** skew).astype(np.int64), rows - 1)


def check(trace: tuple[int, np.ndarray], policy: str, ways: int | None, size: float) -> None:
    rows, ids = trace
    cache_rows = max(int(size * (rows + 2)), ways or 0)
    cache = CacheSimulator(rows, cache_rows, policy, ways)
    found = np.concatenate([cache.feed(piece) for piece in np.array_split(ids, 3)])
    expected = reference(ids.tolist(), cache_rows, policy, ways) if cache_rows else [0] * len(ids)
    assert found.tolist() == expected
    assert (cache.hits, cache.accesses) == (sum(expected), len(ids))
    distances = StackDistances(rows)
    for piece in np.array_split(ids, 3):
        distances.feed(piece)
    assert distances.histogram.tolist() == stack_reference(ids.tolist(), rows)
    if policy == "lru" and ways is None:
        assert distances.hits([cache_rows]) == [cache.hits]


POLICY = st.sampled_from(["lru", "fifo", "lfu"])
WAYS = st.sampled_from([None, 1, 2, 8])


@settings(max_examples=60, deadline=None)
@given(traces(), POLICY, WAYS, st.floats(0, 1))
def test_compiled_equals_the_reference(
    trace: tuple[int, np.ndarray], policy: str, ways: int | None, size: float
) -> None:
    check(trace, policy, ways, size)


@settings(max_examples=30, deadline=None)
@given(traces(), POLICY, WAYS, st.floats(0, 1))
def test_plain_python_equals_the_reference(
    trace: tuple[int, np.ndarray], policy: str, ways: int | None, size: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_exact, "fast", lambda function: function)
        check(trace, policy, ways, size)


@given(st.integers(0, 2**32 - 1))
def test_bits_of_a_word_are_counted(word: int) -> None:
    assert kernels.ones_in(word) == word.bit_count()


def test_positions_run_out_and_are_numbered_anew() -> None:
    """Long enough for every renumbering to happen several times."""
    rng = np.random.default_rng(0)
    ids = rng.zipf(1.3, 60_000) % 50
    check((50, ids), "lru", None, 0.4)
    sampled = SampledDistances(50, rate=1.0, hot=0)
    whole = StackDistances(50)
    for piece in np.array_split(np.tile(ids, 8), 5):
        sampled.feed(piece)
        whole.feed(piece)
    sizes = np.arange(51)
    assert np.allclose(sampled.hit_rate(sizes), whole.hit_rate(sizes))


@settings(max_examples=25, deadline=None)
@given(traces(), st.integers(0, 400))
def test_a_sample_of_all_rows_is_exact(trace: tuple[int, np.ndarray], hot: int) -> None:
    """But for the accesses to hot rows, of which some are looked at; without hot rows the figures are equal."""
    rows, ids = trace
    sampled, whole = SampledDistances(rows, 1.0, hot=0), StackDistances(rows)
    sampled.feed(ids)
    whole.feed(ids)
    sizes = np.arange(rows + 1)
    assert np.allclose(sampled.hit_rate(sizes), whole.hit_rate(sizes))
    some = SampledDistances(rows, 0.5, hot)
    some.feed(ids)
    rates = some.hit_rate(sizes)
    assert np.all(np.diff(rates) >= -1e-12) and np.all((rates >= 0) & (rates <= 1))


@pytest.mark.parametrize("alpha", [0.6, 0.9, 1.2])
def test_a_small_sample_is_within_a_point(alpha: float) -> None:
    rng = np.random.default_rng(4)
    rows = 200_000
    ids = rng.permutation(rows)[Zipf(alpha=alpha).sample(rows, 1_500_000, rng)]
    sampled, whole = SampledDistances(rows, 1 / 32), StackDistances(rows)
    sampled.feed(ids)
    whole.feed(ids)
    sizes = np.array([200, 1000, 5000, 20_000, 50_000, 100_000, 200_000])
    assert np.abs(sampled.hit_rate(sizes) - whole.hit_rate(sizes)).max() < 0.01


def test_larger_lru_never_misses_more_and_pinning_is_best() -> None:
    rng = np.random.default_rng(1)
    ids = rng.permutation(1000)[Zipf(alpha=0.9).sample(1000, 20_000, rng)]
    counts = np.bincount(ids, minlength=1000)
    for ways in (None, 4):
        for policy in ("lru", "fifo", "lfu"):
            rates = []
            for cache_rows in (4, 40, 400, 1000):
                cache = CacheSimulator(1000, cache_rows, policy, ways)
                cache.feed(ids)
                best = CacheSimulator(1000, cache_rows, "ideal", pinned=pin(counts, cache_rows))
                best.feed(ids)
                assert cache.hits <= best.hits
                rates.append(cache.hit_rate)
            assert rates == sorted(rates)


def test_a_cache_of_the_whole_table_misses_each_row_once() -> None:
    ids = np.array([3, 1, 3, 0, 1, 3])
    for policy in ("lru", "fifo", "lfu"):
        cache = CacheSimulator(4, 10**9, policy)
        assert cache.feed(ids).tolist() == [0, 0, 1, 0, 1, 1]


def test_no_cache_no_rows_no_accesses() -> None:
    empty = CacheSimulator(10, 0)
    assert empty.feed([1, 1]).tolist() == [0, 0] and empty.hit_rate == 0
    assert CacheSimulator(0, 5).feed([]).tolist() == []
    assert StackDistances(0).hit_rate([0, 5]).tolist() == [0, 0]
    one = CacheSimulator(1, 1, "lfu", 1)
    assert one.feed([0, 0]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CacheSimulator(10, 2).feed([0, 3, -1]), "access 2 is to row -1 of a table of 10 rows"),
        (lambda: CacheSimulator(10, 2).feed([10]), "access 0 is to row 10"),
        (lambda: CacheSimulator(10, 2).feed([1.5]), "float64"),
        (lambda: StackDistances(10).feed([[1]]), "shape"),
        (lambda: CacheSimulator(10, 2, "lruu"), "did you mean lru"),
        (lambda: CacheSimulator(10, -1), "-1 rows"),
        (lambda: CacheSimulator(10, 2, "lru", 0), "0 ways"),
        (lambda: CacheSimulator(10, 2, "lru", 4), "less than one set"),
        (lambda: CacheSimulator(2**40, 2), "can be run"),
        (lambda: CacheSimulator(10, 2, "ideal"), "pinned"),
        (lambda: CacheSimulator(10, 2, "ideal", pinned=[1, 2, 3]), "3 rows are pinned"),
        (lambda: SampledDistances(10, 0.0), "sampling rate"),
        (lambda: StackDistances(10).hits([-1]), "0 rows or more"),
    ],
)
def test_what_is_refused(make, message: str) -> None:
    with pytest.raises(CacheError, match=message):
        make()
