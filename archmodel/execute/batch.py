"""Concrete batches drawn from a workload's access distributions.

The same seed and step give the same samples whatever the number of ranks; ranks own consecutive samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.parallel.counts import Batch
from archmodel.parallel.placement import split_evenly
from archmodel.program import IntArray
from archmodel.quantities import Array
from archmodel.workloads.recommendation import Workload

_PERMUTATION, _IDS, _DENSE = 1, 2, 3


@dataclass(frozen=True)
class Samples:
    """One batch: `sparse` row ids, `dense` features (global_batch, dense_features), `labels` 0 or 1 (global_batch,)."""

    sparse: Batch
    dense: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)


def draw(workload: Workload, ranks: int, seed: int, step: int) -> Samples:
    """Batch number `step` of the stream that `seed` names."""
    tables, batch = workload.table_arrays, workload.global_batch
    lengths, ids = [], []
    for t in range(len(tables)):
        rng = np.random.default_rng([seed, _IDS, step, t])
        rows = int(tables.num_embeddings[t])
        lengths.append(bag_lengths(float(tables.pooling_factor[t]) if rows else 0.0, batch, rng))
        distribution = tables.distributions[int(tables.distribution_of[t])]
        drawn = distribution.sample(rows, int(lengths[-1].sum()), rng) if rows else np.zeros(0, dtype=np.int64)
        ids.append(popularity_order(rows, seed, t)[drawn])
    rng = np.random.default_rng([seed, _DENSE, step])
    dense = rng.standard_normal((batch, int(getattr(workload, "dense_features", 0))))
    labels = rng.integers(0, 2, batch).astype(np.float64)
    return Samples(Batch(split_evenly(batch, ranks), lengths, ids), dense, labels)


def bag_lengths(pooling_factor: float, samples: int, rng: np.random.Generator) -> IntArray:
    """Indices of each sample: the pooling factor if whole, else its floor or ceiling with the right mean."""
    low = int(np.floor(pooling_factor))
    return low + (rng.random(samples) < pooling_factor - low).astype(np.int64)


def popularity_order(rows: int, seed: int, table: int) -> IntArray:
    """Row id of every popularity rank: one fixed permutation per table, (rows,)."""
    return np.random.default_rng([seed, _PERMUTATION, table]).permutation(rows)
