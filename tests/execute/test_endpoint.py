"""Endpoints run step by step on arrays: results equal numpy's, counts equal the closed forms."""

import numpy as np
import pytest

from archmodel.collectives import endpoint_traffic as counting
from archmodel.execute import endpoint
from archmodel.execute.errors import ExecutionError

BOXES = ((1,), (2,), (5,), (3, 2), (4, 1, 2), (4, 2, 2), (4, 4, 4), (2, 3, 4))


@pytest.mark.parametrize("sizes", BOXES)
@pytest.mark.parametrize("schedule", counting.SCHEDULES)
@pytest.mark.parametrize("engine", [False, True])
def test_an_all_reduce_sums_and_its_counts_are_the_closed_form(sizes, schedule, engine):
    ranks = int(np.prod(sizes))
    elements = 2 * ranks * ranks
    rng = np.random.default_rng(ranks)
    buffers = [rng.integers(-9, 9, elements).astype(float) for _ in range(ranks)]
    found, counted = endpoint.all_reduce(buffers, sizes, schedule, engine=engine)
    for result in found:
        assert np.array_equal(result, np.sum(buffers, axis=0))
    t = counting.traffic("all_reduce", sizes, schedule)
    reads, writes = (t.engine_reads, t.engine_writes) if engine else (t.reads, t.writes)
    for got, expected in (
        (counted.sent, t.sent),
        (counted.reads, reads),
        (counted.writes, writes),
        (counted.reduced, t.reduced),
    ):
        assert np.allclose(got, expected * elements, rtol=1e-12)


@pytest.mark.parametrize("sizes", BOXES)
@pytest.mark.parametrize("engine", [False, True])
def test_the_halves_of_an_all_reduce_do_theirs_and_count_as_the_closed_form_has_it(sizes, engine):
    ranks = int(np.prod(sizes))
    elements = 3 * ranks
    rng = np.random.default_rng(ranks)
    buffers = [rng.integers(-9, 9, elements).astype(float) for _ in range(ranks)]
    scattered, up = endpoint.reduce_scatter(buffers, sizes, engine=engine)
    gathered, down = endpoint.all_gather(scattered, sizes, engine=engine)
    for result in gathered:
        assert np.array_equal(result, np.sum(buffers, axis=0))
    assert [len(block) for block in scattered] == [3] * ranks
    for counted, kind in ((up, "reduce_scatter"), (down, "all_gather")):
        t = counting.traffic(kind, sizes)
        reads, writes = (t.engine_reads, t.engine_writes) if engine else (t.reads, t.writes)
        for got, expected in zip(
            (counted.sent, counted.reads, counted.writes, counted.reduced), (t.sent, reads, writes, t.reduced),
            strict=True,
        ):  # fmt: skip
            assert np.allclose(got, expected * elements, rtol=1e-12)


@pytest.mark.parametrize("elements", [0, 1, 7, 101])
def test_buffers_that_do_not_divide_are_summed_too(elements):
    buffers = [np.arange(elements) * (r + 1.0) for r in range(12)]
    found, _ = endpoint.all_reduce(buffers, (3, 4), "four_phase")
    for result in found:
        assert np.array_equal(result, np.sum(buffers, axis=0))


@pytest.mark.parametrize("sizes", [b for b in BOXES if b != (1,)])
@pytest.mark.parametrize("engine", [False, True])
def test_an_all_to_all_transposes_and_its_counts_are_the_closed_form(sizes, engine):
    ranks = int(np.prod(sizes))
    messages = np.random.default_rng(0).random((ranks, ranks, 3))
    found, counted = endpoint.all_to_all(messages, sizes, engine=engine)
    assert np.array_equal(found, messages.transpose(1, 0, 2))
    t = counting.all_to_all(sizes)
    brought = ranks * 3
    assert np.allclose(counted.sent, t.sent * brought)
    assert np.allclose(counted.reads, (t.engine_reads if engine else t.reads) * brought)
    assert np.allclose(counted.writes, (t.engine_writes if engine else t.writes) * brought)


def test_a_buffer_for_every_rank_is_needed():
    with pytest.raises(ExecutionError, match="3 buffers for 4 ranks of 2 x 2"):
        endpoint.all_reduce([np.zeros(4)] * 3, (2, 2))
