"""The copy of a batch from host memory: what it moves, when it is issued, what it fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archmodel.parallel.counts import Expected, Observed
from archmodel.parallel.lower import lower
from archmodel.parallel.placement import split_evenly
from archmodel.parallel.plan import Plan
from archmodel.program import HostCopy, Layout, Program
from archmodel.workloads.recommendation import Recommendation
from tests.execute.small import LAYOUTS, SHARDINGS, batches_of, cat, cross, dot, place

EVEN = {"t": {"num_embeddings": [40, 0, 57], "embedding_dim": 8, "pooling_factor": [3, 2, 1]}}
"""Bags of one length in every table that has rows: ids of 4 rows a sample."""


def program_of(workload: Recommendation, layout: Layout, **plan: Any) -> Program:
    p = Plan(**({"copy_input": True} | plan))
    return lower(workload, p, place(workload, p, layout))


def copied(program: Program) -> np.ndarray:
    work = program.op("input.copy").work
    assert isinstance(work, HostCopy)
    return np.broadcast_to(work.bytes, (program.ranks,))


def test_bytes_of_a_sample() -> None:
    sample = 5 * 4 + 4 + (3 + 1) * 8  # dense features and label in fp32, row ids of the tables that have rows
    assert copied(program_of(dot(batch=22, tables=EVEN), Layout(2, 3))).tolist() == [4 * sample] * 4 + [3 * sample] * 2
    narrow = program_of(dot(batch=24, tables=EVEN), Layout(2, 3), wires={"index": "int32"})
    assert copied(narrow).tolist() == [4 * (sample - 16)] * 6
    assert narrow.op("input.copy").work.flops().sum() == 0
    assert narrow.op("input.copy").work.wire_bytes() == {}
    inference = program_of(dot(batch=24, tables=EVEN, mode="inference"), Layout(2, 3))
    assert copied(inference).tolist() == [4 * (sample - 4)] * 6
    half = program_of(dot(batch=24, tables=EVEN), Layout(2, 3), precision={"compute": "fp16"})
    assert copied(half).tolist() == [4 * sample] * 6  # host data stay fp32
    assert copied(program_of(dot(batch=24, tables={}), Layout(2, 3))).tolist() == [4 * 24] * 6


def test_lengths_are_copied_only_where_bags_differ() -> None:
    uneven = {"t": EVEN["t"] | {"pooling_factor": [2.5, 2, 1]}}
    for length, size in (("int32", 4), ("int64", 8)):
        program = program_of(dot(batch=1, tables=uneven), Layout(1, 1), wires={"length": length})
        assert copied(program).tolist() == [5 * 4 + 4 + 3.5 * 8 + 2 * size]
    empty_uneven = {"t": EVEN["t"] | {"pooling_factor": [3, 2.5, 1]}}  # the table without rows has no bags
    assert copied(program_of(dot(batch=1, tables=empty_uneven), Layout(1, 1))).tolist() == [5 * 4 + 4 + 4 * 8]


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("mode", ["train", "inference"])
def test_it_heads_the_iteration_and_fills_the_inputs(mode: str, prefetch: bool) -> None:
    program = program_of(cross(mode=mode), Layout(1, 3), prefetch_input=prefetch)
    op = program.ops[0]
    labels = ("labels",) if mode == "train" else ()
    assert (op.name, op.phase, op.streams, op.reads) == ("input.copy", "input", ("host",), ())
    assert op.writes == ("dense_features", *labels, "sparse_features")
    assert [program.buffers[name].prefetched for name in op.writes] == [prefetch] * len(op.writes)
    assert np.array_equal(op.work.memory_bytes()["ddr"], op.work.memory_bytes()["hbm"])


def test_what_lies_in_device_memory_is_not_copied() -> None:
    program = program_of(cross(), Layout(1, 3), copy_input=False)
    assert not any(isinstance(op.work, HostCopy) for op in program.ops)
    assert "sparse_features" not in program.buffers
    assert program.buffers["dense_features"].prefetched


@given(st.integers(1, 40), st.sampled_from(LAYOUTS), st.sampled_from([cat, cross, dot]))
@settings(max_examples=40)
def test_expected_and_observed_row_ids(batch: int, layout: Layout, kind: Any) -> None:
    workload = kind(batch=batch)
    (samples,) = batches_of(workload, layout, 1)
    observed = Observed(samples.sparse).sample_indices()
    assert observed.sum() == sum(len(ids) for ids in samples.sparse.ids)
    expected = Expected(workload.table_arrays, split_evenly(batch, layout.ranks)).sample_indices()
    tables = workload.table_arrays
    filled = tables.num_embeddings > 0
    assert expected.sum() == pytest.approx(batch * tables.pooling_factor[filled].sum())
    assert (np.abs(observed - expected) <= samples.sparse.local_batch * len(tables)).all()


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_the_rest_of_the_program_is_the_same(sharding: str) -> None:
    with_copy, without = (program_of(cross(), Layout(2, 2), tables=sharding, copy_input=c) for c in (True, False))
    assert [op.name for op in with_copy.ops[1:]] == [op.name for op in without.ops]
