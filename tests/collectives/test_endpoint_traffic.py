"""Memory traffic of collectives, in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel.collectives import CollectiveError
from archmodel.collectives import endpoint_traffic as counting

TORI = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4))
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 64, 1024])
def test_an_all_reduce_in_memory_reads_three_bytes_for_two_it_sends(n):
    t = counting.traffic("all_reduce", [n])
    assert t.reads_per_sent == pytest.approx(1.5, rel=1e-12)
    assert t.sent == pytest.approx(2 * (n - 1) / n, rel=1e-12)
    assert (t.engine_reads, t.engine_writes) == (1.0, 1.0)


@pytest.mark.parametrize("torus", TORI)
def test_the_closed_form_of_a_torus_in_four_phases(torus):
    length, v, h = torus
    t = counting.traffic("all_reduce", torus, "four_phase")
    around = (v - 1) / v + (h - 1) / h
    assert t.sent == pytest.approx(2 * (length - 1) / length + 2 * around / length, rel=1e-12)
    reads = (2 * length - 1) / length + 3 * around / length + (length - 1) / length
    assert t.reads == pytest.approx(reads, rel=1e-12)


def test_an_engine_needs_three_and_a_half_times_less_memory():
    """The abstract of ACE (arXiv 2007.00156) has 3.5 on average. No constant is fitted, but the count has two readings,
    both known when this one was taken: each phase a kernel (3.51), or phases fused (3.26, below)."""
    saved = [counting.traffic("all_reduce", torus, "four_phase").reads_saved for torus in TORI]
    assert np.mean(saved) == pytest.approx(3.5, rel=0.01)
    assert saved == sorted(saved)


def test_phases_in_one_kernel_would_save_less():
    """Two reads for every byte sent in a reduce-scatter, one in an all-gather: what fused phases read."""
    t = counting.traffic("all_reduce", (4, 4, 4), "four_phase")
    assert t.reads - 1 / 4 == pytest.approx(3.375, rel=1e-12)


@given(sizes=SIZES, kind=st.sampled_from(["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]))
def test_an_engine_never_moves_more(sizes, kind):
    t = counting.traffic(kind, sizes)
    assert t.engine_reads <= t.reads + 1e-12
    assert t.engine_writes <= t.writes + 1e-12
    assert sum(t.by_dimension) == pytest.approx(t.sent)
    assert t.reads >= t.sent - 1e-12  # what is sent was read
    assert t.writes >= t.sent - 1e-12  # what arrives is written


@given(sizes=SIZES)
def test_an_all_reduce_moves_what_its_halves_do(sizes):
    whole = counting.traffic("all_reduce", sizes)
    halves = [counting.traffic(kind, sizes) for kind in ("reduce_scatter", "all_gather")]
    assert whole.sent == pytest.approx(sum(t.sent for t in halves))
    assert whole.reduced == pytest.approx(sum(t.reduced for t in halves))
    ranks = int(np.prod(sizes))
    assert whole.sent == pytest.approx(2 * (ranks - 1) / ranks)  # as a ring over all


def test_one_rank_moves_nothing():
    for kind in ("all_reduce", "all_to_all"):
        t = counting.traffic(kind, (1, 1))
        assert (t.sent, t.reads, t.writes, t.engine_reads) == (0, 0, 0, 0)
        assert t.reads_saved == 1
    assert counting.needed_bandwidth("all_reduce", (1,), (1e9,)) != counting.needed_bandwidth(
        "all_reduce", (2,), (1e9,)
    )


def test_messages_of_an_all_to_all_pass_through_the_ranks_on_their_way():
    t = counting.all_to_all((4, 4, 4))
    assert t.sent == 3.0
    assert t.engine_reads == pytest.approx(63 / 64)
    assert counting.all_to_all((8,), ["switch"]).sent == 7 / 8
    assert counting.all_to_all((4,), ["line"]).sent == pytest.approx(15 / 12)  # |i - j| over 16 pairs: 20


def test_bandwidth_that_keeps_the_slowest_dimension_busy():
    links = (400e9, 50e9, 50e9)
    rate = counting.in_step("all_reduce", (4, 4, 4), links, "four_phase")
    assert rate == pytest.approx(50e9 / 0.375)
    engine = counting.needed_bandwidth("all_reduce", (4, 4, 4), links, "four_phase", engine=True)
    assert engine == pytest.approx(rate)
    kernels = counting.needed_bandwidth("all_reduce", (4, 4, 4), links, "four_phase")
    assert kernels / engine == pytest.approx(3.625)
    points = counting.needed_bandwidth("all_reduce", (4, 4, 4), (400e9, np.array([25e9, 50e9]), 50e9), "four_phase")
    assert points.shape == (2,)
    assert points[0] == pytest.approx(kernels / 2)


def test_what_is_not_known_is_said():
    with pytest.raises(CollectiveError, match="no schedule is called 'four'"):
        counting.traffic("all_reduce", (4, 4), "four")  # type: ignore[arg-type]
    with pytest.raises(CollectiveError, match="broadcast is not made of ring phases"):
        counting.traffic("broadcast", (4, 4))
