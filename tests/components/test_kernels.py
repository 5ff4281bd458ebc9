"""Laws of bandwidth-bound kernels, against limits, a simulated cache and measured kernels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.components import kernels

bytes_ = st.floats(0, 1e12)
shares = st.floats(0, 1)


@given(bytes_, st.floats(0, 1e15))
def test_a_stream_is_a_roofline_behind_one_latency(amount: float, flops: float) -> None:
    answer = kernels.streaming(amount, flops, bandwidth=2e12, peak=1e13, latency=4e-7)
    assert answer.total == pytest.approx(max(amount / 2e12, flops / 1e13) + (4e-7 if amount else 0))


def test_latency_times_bandwidth_bytes_get_half_the_rate() -> None:
    bandwidth, latency = 2e12, 4e-7
    half = kernels.streaming(bandwidth * latency, 0.0, bandwidth=bandwidth, peak=1.0, latency=latency)
    assert bandwidth * latency / half.total == pytest.approx(bandwidth / 2)


@given(bytes_, shares, st.floats(0, 1e9))
def test_misses_are_between_distinct_and_demanded_bytes(demanded: float, share: float, cache: float) -> None:
    misses = kernels.from_memory(demanded, demanded * share, cache)
    assert demanded * share * (1 - 1e-12) <= misses <= demanded * (1 + 1e-12)


def test_cache_limits() -> None:
    assert kernels.from_memory(1e9, 1e6, 1e6) == 1e6  # all distinct bytes fit
    assert kernels.from_memory(1e9, 1e6, 0.0) == 1e9  # no cache
    assert kernels.from_memory(1e9, 1e6, 5e5) == pytest.approx(1e6 + (1e9 - 1e6) / 2)
    assert kernels.from_memory(1e3, 1e6, 0.0) == 1e3  # fewer bytes demanded than an estimate calls distinct
    assert kernels.from_memory(0.0, 0.0, 1e6) == 0


@given(bytes_, shares, st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_larger_cache_never_misses_more(demanded: float, share: float, cache: float, more: float) -> None:
    small = kernels.from_memory(demanded, demanded * share, cache)
    assert kernels.from_memory(demanded, demanded * share, cache + more) <= small * (1 + 1e-12)


@given(bytes_, shares, shares, st.floats(0, 1e9))
def test_more_distinct_bytes_never_miss_less(demanded: float, a: float, b: float, cache: float) -> None:
    few, many = (kernels.from_memory(demanded, demanded * share, cache) for share in sorted((a, b)))
    assert few <= many * (1 + 1e-12)


@pytest.mark.parametrize("cache_rows", [50, 200, 500, 1000])
def test_misses_are_those_of_a_simulated_lru_cache_under_uniform_references(cache_rows: int) -> None:
    rows, lookups = 500, 20_000
    ids = np.random.default_rng(1).integers(0, rows, lookups)
    held: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for row in ids.tolist():
        misses += row not in held
        held[row] = None
        held.move_to_end(row)
        if len(held) > cache_rows:
            held.popitem(last=False)
    assert kernels.from_memory(float(lookups), float(len(set(ids.tolist()))), cache_rows) == pytest.approx(
        misses, rel=0.03
    )


def test_a_lookup_that_hits_the_cache_is_bound_by_the_cache() -> None:
    rates = {"gather_bandwidth": 1e12, "stream_bandwidth": 1e12}
    answer = kernels.pooled_lookup(1e9, 1e6, 0.0, cache=1e7, cache_bandwidth=5e12, **rates)
    assert answer.parts["l2"] == pytest.approx(1e9 / 5e12)
    assert answer.parts["memory"] == 0
    assert kernels.pooled_lookup(1e9, 1e6, 0.0, cache=1e7, **rates).total == pytest.approx(1e6 / 1e12)


def test_a_lookup_waits_for_offset_index_and_row() -> None:
    rates = {"cache": 0.0, "gather_bandwidth": 1e12, "stream_bandwidth": 1e12}
    assert kernels.pooled_lookup(1.0, 1.0, 0.0, latency=1e-6, **rates).parts["latency"] == pytest.approx(3e-6)
    assert kernels.pooled_lookup(0.0, 0.0, 0.0, latency=1e-6, **rates).total == 0


UPDATE = {
    "cache": 1e6, "sort_bytes_per_index": 104.0, "sort_bandwidth": 1e12, "gather_bandwidth": 1e12,
    "update_bandwidth": 5e11, "stream_bandwidth": 1e12,
}  # fmt: skip


def test_an_update_is_the_sum_of_its_stages() -> None:
    answer = kernels.exact_update(1e6, 4e8, 4e8, 2e8, 8e6, **UPDATE)
    assert answer.parts["sort"] == pytest.approx(104e6 / 1e12)
    assert answer.parts["memory"] == pytest.approx(4e8 / 1e12 + 2e8 / 5e11 + 8e6 / 1e12)


def test_gradient_rows_seen_again_hit_the_cache() -> None:
    again = kernels.exact_update(0.0, 4e8, 5e5, 0.0, 0.0, **UPDATE)
    assert again.total == pytest.approx(5e5 / 1e12)


def test_a_matrix_product_counts_a_multiply_add_as_two() -> None:
    flops, moved = kernels.matrix_product(2.0, 3.0, 5.0, 7.0, 4)
    assert (flops, moved) == (2 * 2 * 3 * 5 * 7, (10 + 15 + 6) * 4 * 7)
    assert kernels.matrix_product(0.0, 3.0, 5.0, 1.0, 4) == (0, 0)


A100_SCALE = [(16 * 4_861_142, 1633e9), (16 * 16_653_979, 1715e9), (16 * 57_055_564, 1741e9)]
"""(bytes, B/s) of A[i] = 0.25 B[i] in double precision, repeated in a CUDA graph on an A100 80 GB:
te42kyfo/gpu-benches@1c36d50, gpu-small-kernels/a100_80_graph.txt."""


@pytest.mark.parametrize(("moved", "rate"), A100_SCALE)
def test_streams_take_what_was_measured(device: Callable[[str], Any], moved: float, rate: float) -> None:
    assert float(device("a100_sxm_80gb").stream(moved).total) == pytest.approx(moved / rate, rel=0.06)


@given(bytes_, shares, bytes_, st.floats(0, 1e9))
def test_a_scatter_add_reads_and_writes_what_a_lookup_reads(
    a: float, share: float, streamed: float, cache: float
) -> None:
    rates = {"cache": cache, "gather_bandwidth": 1e12, "stream_bandwidth": 2e12}
    added = kernels.scatter_add(a, a * share, streamed, **rates)
    found = kernels.pooled_lookup(a, a * share, 0.0, **rates)
    assert added.total == pytest.approx(2 * found.total + streamed / 2e12)
    assert added.total >= (2 * a * share + streamed) / 2e12 * (1 - 1e-12)


def test_a_scatter_add_that_fits_the_cache_is_bound_by_it() -> None:
    rates = {"cache": 1e9, "gather_bandwidth": 1e12, "stream_bandwidth": 1e12, "cache_bandwidth": 4e12}
    assert kernels.scatter_add(8e8, 1e3, 0.0, latency=1e-6, **rates).total == pytest.approx(2e-6 + 2 * 8e8 / 4e12)
