"""The simulator of one fused kernel for many tables: caches, bandwidths, latencies, and that costs do not add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel import catalogue, source
from archmodel.components.gpu import Gpu
from archmodel.components.kernels import LOOKUP_CHAIN
from archmodel.components.multi_table import FusedKernel, TableBatch, simulate, table_batch
from archmodel.components.multi_table.batch import LONGEST_RUN, reuse_bins
from archmodel.components.multi_table.kernel import reference, run_blocks
from archmodel.components.multi_table.simulate import INDEX, OFFSET, RUN, SORTED, THREADS_PER_SM, WARPS
from archmodel.memory.access import AccessError, Uniform, Zipf
from archmodel.memory.compiled import fast


def v100() -> FusedKernel:
    tree = source.read(catalogue.find("devices/v100_sxm2_16gb.yaml"), catalogue=catalogue.directory())
    return FusedKernel.of(source.validate(Gpu, tree))


@pytest.fixture(scope="module")
def kernel() -> FusedKernel:
    return v100()


def table(rows: int = 5000, columns: int = 32, pooling: float = 3.0, batch: int = 512, seed: int = 0) -> TableBatch:
    return table_batch(Zipf(alpha=1.05), rows=rows, columns=columns, pooling=pooling, batch=batch, seed=seed)


def looped(keys, sizes, start, rounds, streamed, slots=1, capacity=1e9, bandwidth=1e12, chain=3, function=None):
    result, count = np.zeros(5), len(sizes)
    (function or fast(run_blocks))(
        np.asarray(keys, dtype=np.int32), np.asarray(sizes, dtype=np.int32), np.asarray(start, dtype=np.int64),
        np.asarray(rounds, dtype=np.int32), np.asarray(streamed, dtype=np.float64), slots, capacity, bandwidth, 1e15,
        3e-7, 1e-7, chain, np.full(count, -1, dtype=np.int32), np.full(count, -1, dtype=np.int32),
        np.zeros(count, dtype=np.int8), result,
    )  # fmt: skip
    return result


@settings(max_examples=60, deadline=None)
@given(
    keys=st.lists(st.integers(0, 11), min_size=1, max_size=120),
    sizes=st.lists(st.integers(1, 9), min_size=12, max_size=12),
    capacity=st.integers(1, 40),
)
def test_the_cache_is_an_exact_lru_of_bytes(keys, sizes, capacity):
    """One block reads all keys in order: hits are those of an ordered dictionary; what missed came from memory."""
    found = looped(keys, sizes, [0, len(keys)], [1], [0.0], capacity=float(capacity))
    assert found[4] == reference(keys, sizes, capacity)
    assert found[2] == sum(sizes[k] for k in keys)
    assert found[1] <= found[2]


def test_compiled_and_plain_are_the_same():
    rng = np.random.default_rng(0)
    keys, sizes = rng.integers(0, 50, 600), rng.integers(1, 100, 50)
    arguments = (keys, sizes, np.arange(0, 601, 20), rng.integers(1, 4, 30), rng.random(30) * 1e3, 4, 900.0, 1e10)
    assert looped(*arguments).tolist() == looped(*arguments, function=run_blocks).tolist()


def test_one_lookup_takes_its_chain_of_latencies(kernel):
    """One bag of one row: forward is a launch and three loads that wait for each other; the update has a gradient and
    a row to read."""
    one = table(rows=1, pooling=1.0, batch=1)
    found = simulate([one], kernel)
    assert found.forward.time == pytest.approx(kernel.launch + LOOKUP_CHAIN * kernel.memory_latency, rel=1e-12)
    assert found.backward.time == pytest.approx(kernel.launch + (LOOKUP_CHAIN + 1) * kernel.memory_latency, rel=1e-12)
    assert found.sort == kernel.launch + kernel.sort_bytes / kernel.sort_bandwidth


def test_bytes_are_those_of_the_lookups_when_the_cache_holds_everything(kernel):
    """Every distinct row once; indices, offsets and sums beside; the update reads gradients and rows, writes rows."""
    tables = [table(seed=s, columns=c) for s, c in ((0, 16), (1, 128))]
    found = simulate(tables, replace(kernel, cache=1e12))
    forward = backward = 0
    for one in tables:
        row = one.columns * kernel.weight_bytes
        forward += one.unique * row + len(one.ids) * INDEX
        forward += one.batch * (OFFSET + one.columns * kernel.output_bytes)
        segments = int((-(-one.reuse // LONGEST_RUN)).sum())
        used = len(np.unique(np.repeat(np.arange(one.batch), np.diff(one.offsets))))
        backward += used * one.columns * kernel.output_bytes + one.unique * row
        backward += len(one.ids) * SORTED + segments * (RUN + row)
    assert found.forward.memory_bytes == pytest.approx(forward, rel=1e-12)
    assert found.backward.memory_bytes == pytest.approx(backward, rel=1e-12)
    assert found.forward.hits == found.forward.accesses - sum(one.unique for one in tables)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 4),
    pooling=st.floats(0.2, 40.0),
    columns=st.sampled_from([4, 32, 256]),
    slots=st.integers(1, 400),
    order=st.sampled_from(["table", "bag"]),
)
def test_no_run_beats_its_bandwidths(count, pooling, columns, slots, order):
    machine = replace(v100(), slots=slots, order=order)
    found = simulate([table(pooling=pooling, columns=columns, batch=300, seed=s) for s in range(count)], machine)
    for run in (found.forward, found.backward):
        assert run.time >= run.memory_bytes / machine.memory_bandwidth
        assert run.time >= run.cache_bytes / machine.cache_bandwidth
        assert run.time >= machine.launch + machine.memory_latency
        assert 0 <= run.hits <= run.accesses


def test_a_long_run_is_bound_by_memory(kernel):
    """Uniform lookups in a table far beyond the cache: at least 95 % of the memory's rate."""
    big = table_batch(Uniform(), rows=10**7, columns=128, pooling=20, batch=8192, seed=0)
    run = simulate([big], kernel).forward
    assert run.time < 1.05 * run.memory_bytes / kernel.memory_bandwidth


def test_few_tables_do_not_fill_the_machine(kernel):
    """Sums of single tables are above the time of the set, the more tables the further; but no table is free."""
    tables = [table(pooling=1.0, batch=2048, seed=s) for s in range(16)]
    own = [simulate([one], kernel).time for one in tables]
    together = [simulate(tables[:n], kernel).time for n in (1, 2, 4, 8, 16)]
    ratio = [sum(own[:n]) / t for n, t in zip((1, 2, 4, 8, 16), together, strict=True)]
    assert ratio[0] == 1.0
    assert ratio == sorted(ratio)
    assert ratio[-1] > 2.0
    assert together == sorted(together)


def test_tables_that_run_at_once_fight_for_the_cache(kernel):
    """Two tables that fit one by one and not together: hits are lost when their blocks alternate."""
    tables = [table_batch(Uniform(), rows=1500, columns=32, pooling=8, batch=4096, seed=s) for s in range(2)]
    row = 32 * kernel.weight_bytes
    machine = replace(kernel, cache=1.1 * 1500 * row, order="bag")
    alone = sum(simulate([one], machine).forward.hits for one in tables)
    assert alone == sum(len(one.ids) - one.unique for one in tables)
    both = simulate(tables, machine)
    assert both.forward.hits < 0.8 * alone
    in_turn = simulate(tables, replace(machine, order="table"))
    assert both.forward.hits < in_turn.forward.hits <= alone


def test_the_order_of_blocks_moves_the_same_lookups(kernel):
    tables = [table(seed=s, pooling=p) for s, p in enumerate((1.0, 2.5, 7.0))]
    a, b = (simulate(tables, replace(kernel, cache=1e12, order=order)) for order in ("table", "bag"))
    assert a.forward.memory_bytes == pytest.approx(b.forward.memory_bytes, rel=1e-12)
    assert (a.forward.accesses, a.forward.hits) == (b.forward.accesses, b.forward.hits)
    assert (a.backward.accesses, a.backward.hits) == (b.backward.accesses, b.backward.hits)


def test_no_tables_take_no_time(kernel):
    assert simulate([], kernel).time == 0.0


def test_slots_are_those_of_blocks_of_512_threads(kernel):
    assert kernel.slots == 80 * THREADS_PER_SM // (32 * WARPS)


# --- batches


def test_the_update_sees_every_lookup_once():
    one = table(rows=40, pooling=5.5, batch=400, seed=3)
    stream, begin = one.by_row
    ends = begin[1:] - 1
    assert (stream[ends] < one.unique).all()
    gradients = np.delete(stream, ends) - one.unique
    bags = np.repeat(np.arange(one.batch), np.diff(one.offsets))
    assert np.bincount(gradients, minlength=one.batch).tolist() == np.bincount(bags, minlength=one.batch).tolist()
    assert np.diff(begin).max() <= LONGEST_RUN + 1
    rows = np.repeat(stream[ends], np.diff(begin) - 1)
    assert sorted(zip(rows.tolist(), gradients.tolist(), strict=True)) == sorted(
        zip(one.ids.tolist(), bags.tolist(), strict=True)
    )


def test_bins_end_at_powers_of_two():
    bins = reuse_bins(np.array([1, 1, 2, 3, 4, 5, 32768, 32769]))
    assert (bins * 8).tolist() == [2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]


def test_pooling_that_is_no_whole_number():
    one = table(pooling=2.25, batch=4000)
    assert set(np.diff(one.offsets).tolist()) == {2, 3}
    assert one.pooling == pytest.approx(2.25, abs=0.05)


@pytest.mark.parametrize("bad", [{"rows": 0}, {"columns": 0}, {"batch": 0}, {"pooling": 0.0}])
def test_a_batch_of_nothing_is_refused(bad):
    with pytest.raises(AccessError, match="must be above zero"):
        table(**bad)
