"""Exact operation counts of public models, from the layers and from the lowered Program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from archmodel.parallel.lower import lower
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import resolve
from archmodel.program import DotInteraction, Gemm, Layout, Program
from archmodel.workloads.recommendation import Dcnv2, Dlrm, Recommendation

TABLES = {"cat": {"count": 26, "num_embeddings": 1000, "embedding_dim": 128}}
MLPS: dict[str, Any] = {"dense_features": 13, "bottom_mlp": [512, 256, 128], "top_mlp": [1024, 1024, 512, 256, 1]}
BATCH = 96


def mlperf_dcnv2(**more: Any) -> Dcnv2:
    """MLPerf Training v3.0: 3 cross layers of rank 512 over 27 x 128 features."""
    return Dcnv2(**({"global_batch": BATCH, "tables": TABLES, "cross_layers": 3, "cross_rank": 512} | MLPS | more))


def nvidia_dlrm(**more: Any) -> Dlrm:
    """NVIDIA DeepLearningExamples DLRM (and MLPerf v1): dot interaction of 27 vectors."""
    return Dlrm(**({"global_batch": BATCH, "tables": TABLES, "interaction": "dot"} | MLPS | more))


def program_of(workload: Recommendation, layout: Layout, **plan: Any) -> Program:
    p = Plan(**({"tables": "table_wise"} | plan))
    placement = resolve(p, workload.table_arrays, layout, workload.global_batch, {"hbm": 1e18, "ddr": 1e18})
    return lower(workload, p, placement)


def multiply_adds(program: Program, phase: str) -> float:
    """Products of matrices, over all ranks, per sample."""
    total = 0.0
    for op in program.ops:
        if op.phase == phase and isinstance(op.work, Gemm | DotInteraction):
            total += float(np.broadcast_to(op.work.flops(), (program.ranks,)).sum()) / 2
    return total / float(np.broadcast_to(program.local_batch, (program.ranks,)).sum())


BOTTOM = 13 * 512 + 512 * 256 + 256 * 128
CROSS = 3 * 2 * (27 * 128) * 512
DCN_TOP = 3456 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
DOT = 27 * 27 * 128
PAIRS = 27 * 26 // 2
DLRM_TOP = (128 + PAIRS) * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256


def test_published_totals() -> None:
    """16.03 M multiply-adds for DCNv2; NVIDIA's 2,459,520 for DLRM count the interaction padded from 479 to 480."""
    assert BOTTOM + CROSS + DCN_TOP == 16_030_464
    assert BOTTOM + DOT + DLRM_TOP == 2_459_520 - 1024


@pytest.mark.parametrize("layout", [Layout(1, 1), Layout(1, 5), Layout(2, 3), Layout(16, 8)], ids=str)
def test_forward_and_backward_of_a_program(layout: Layout) -> None:
    for workload, total in ((mlperf_dcnv2(), 16_030_464), (nvidia_dlrm(), 2_458_496)):
        program = program_of(workload, layout)
        first = 13 * 512  # no gradient by the input features
        dot = DOT if isinstance(workload, Dlrm) else 0  # backward is one product, not two
        assert multiply_adds(program, "forward") == total
        assert multiply_adds(program, "backward") == 2 * total - first - dot


def test_layers_say_the_same() -> None:
    assert nvidia_dlrm().flops_per_sample == 2 * 2_458_496
    assert mlperf_dcnv2().flops_per_sample == 2 * 16_030_464 + 3 * 3 * 3456  # the products, sums and biases of crosses


def test_parameters() -> None:
    biases = 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1
    assert mlperf_dcnv2().dense_parameters == BOTTOM + CROSS + DCN_TOP + biases + 3 * 3456
    assert nvidia_dlrm().dense_parameters == BOTTOM + DLRM_TOP + biases
    for workload in (mlperf_dcnv2(), nvidia_dlrm()):
        program = program_of(workload, Layout(2, 2))
        held = [b for b in program.buffers.values() if b.role == "parameter" and not b.name.startswith("table.")]
        assert sum(float(b.elements[0]) for b in held) == workload.dense_parameters


def test_lookups_add_every_element_that_they_gather() -> None:
    hot = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
    assert sum(hot) == 214
    tables = {"cat": {"count": 26, "num_embeddings": 10**6, "embedding_dim": 128, "pooling_factor": hot}}
    program = program_of(mlperf_dcnv2(tables=tables), Layout(2, 4))
    work = program.op("table.lookup").work
    assert np.broadcast_to(work.flops(), (8,)).sum() == BATCH * 214 * 128
    rows = np.broadcast_to(work.memory_bytes()["hbm"] - work.streamed_bytes(), (8,)).sum()  # type: ignore[attr-defined]
    assert rows == BATCH * 214 * 512  # 109.6 kB per sample in fp32
