"""Which rows are worth keeping, from how rows are accessed."""

from __future__ import annotations

import numpy as np

from archmodel.memory.access import AccessDistribution
from archmodel.quantities import Array


def reused_share(access: AccessDistribution, num_embeddings: Array, draws: Array) -> Array:
    """Share of `draws` lookups that go to rows looked up more than once: what profiling marks as hot.

        s = 1 - (U(n) - U(n - 1))

    since n (U(n) - U(n - 1)) rows are drawn exactly once among n, U(n) being the expected distinct rows. The hit rate
    of an ideal cache, 1 - U(n) / n, is never above it.
    """
    n = np.asarray(draws, dtype=np.float64)
    rows = np.asarray(num_embeddings, dtype=np.float64)
    return np.asarray(1.0 - (access.expected_unique(rows, n) - access.expected_unique(rows, n - 1.0)))
