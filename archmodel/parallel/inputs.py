"""What a rank is given of every batch, and its copy from host memory."""

from __future__ import annotations

import numpy as np

from archmodel.parallel.counts import Counts
from archmodel.parallel.emit import Emitter, per_rank
from archmodel.program import HostCopy, HostIssue
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import DENSE_INPUT
from archmodel.workloads.recommendation import Workload
from archmodel.workloads.tables import Tables

SPARSE_FEATURES = "sparse_features"
"""What an input pipeline leaves on every rank: indices of its own samples in all tables."""
LABELS = "labels"
HOST_FLOAT = itemsize("fp32")
"""Bytes of a dense feature or label in host memory."""


def declare_inputs(e: Emitter, dense: Emitter, workload: Workload) -> None:
    """Dense features on the ranks of `dense`, labels everywhere. What nothing copies is there an iteration ahead."""
    ahead = e.plan.prefetch_input or not e.plan.copy_input
    features = dense.batch * dense_width(workload)
    e.buffer(DENSE_INPUT, "input", features, e.plan.precision.compute, prefetched=ahead, copies=e.copies)
    if workload.mode == "train":
        e.buffer(LABELS, "input", e.batch, "fp32", prefetched=ahead, copies=e.copies)


def copy_inputs(e: Emitter, dense: Emitter, workload: Workload, counts: Counts) -> None:
    """Copy the batch from host memory: dense features, labels and row ids of each rank's samples."""
    if not e.plan.copy_input:
        return
    moved = HOST_FLOAT * dense_width(workload) * dense.local_batch.astype(np.float64)
    writes = [DENSE_INPUT]
    if workload.mode == "train":
        moved = moved + HOST_FLOAT * e.local_batch
        writes.append(LABELS)
    if len(workload.table_arrays):
        sparse = sparse_bytes(e, workload.table_arrays, counts)
        e.buffer(SPARSE_FEATURES, "input", sparse, "uint8", prefetched=e.plan.prefetch_input, copies=e.copies)
        moved = moved + sparse
        writes.append(SPARSE_FEATURES)
    if e.plan.pageable_input:
        e.op("host.fetch", "input", HostIssue(calls=float(len(writes))), (), (), ("host",))
    copy = HostCopy(per_rank(moved), e.plan.pageable_input)
    e.op("input.copy", "input", copy, (), tuple(writes), ("host",))


def sparse_bytes(e: Emitter, tables: Tables, counts: Counts) -> Array:
    """Row ids of each rank's samples, and the lengths of their bags unless all have one length, (ranks,)."""
    wires = e.plan.wires
    ids = counts.sample_indices() * itemsize(wires.index)
    return np.asarray(ids + e.local_batch * tables_with_lengths(tables) * itemsize(wires.length))


def tables_with_lengths(tables: Tables) -> int:
    """Tables that have lengths in a batch: none when the bags of every table are of one length, else all with rows."""
    filled = tables.num_embeddings > 0
    uneven = bool(np.any(tables.pooling_factor[filled] % 1))
    return int(filled.sum()) if uneven else 0


def dense_width(workload: Workload) -> int:
    """Dense features of a sample."""
    return int(getattr(workload, "dense_features", 0))
