"""Small tables, and sets whose time is known in closed form: a launch, a chain, and bytes that share a bandwidth."""

from __future__ import annotations

import numpy as np

from archmodel.search.learned.measurements import TableSets, of_lists
from archmodel.search.learned.tables import TableFeatures


def make_tables(count: int, seed: int = 0, *, bins: bool = True) -> TableFeatures:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(17), count)
    return TableFeatures(
        tuple(f"t{i}" for i in range(count)),
        (10 ** rng.uniform(2, 7, count)).astype(np.int64),
        2 ** rng.integers(4, 8, count),
        np.round(10 ** rng.uniform(0, 1.7, count)),
        shares if bins else None,
    )


def seconds_of(tables: TableFeatures, sets) -> np.ndarray:
    """max(5 us, 2 us + bytes / 1 TB/s) of 4096 samples: not additive. Rows of small tables mostly hit a cache."""
    missed = 0.1 + 0.9 / (1.0 + np.exp(11.0 - np.log(tables.rows)))
    bytes_ = 4096 * 2.0 * tables.dim * tables.pooling * missed
    return np.array([max(5e-6, 2e-6 + bytes_[s].sum() / 1e12) for s in sets])


def make_sets(tables: TableFeatures, count: int, size: tuple[int, int] = (2, 8), seed: int = 1) -> TableSets:
    rng = np.random.default_rng(seed)
    several = [rng.permutation(len(tables))[: rng.integers(*size)] for _ in range(count)]
    sets = [np.array([t]) for t in range(len(tables))] + several
    return of_lists(sets, seconds_of(tables, sets), len(tables), 4096)
