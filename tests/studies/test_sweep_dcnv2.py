"""The study of DCNv2 runs, and what it says follows from its table."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def test_more_bandwidth_of_either_is_never_slower_and_both_help_more_than_each_alone(study: ModuleType) -> None:
    table = study.swept()
    assert table.points == 6_400
    assert not table.reasons
    for batch in study.BATCHES:
        grid = np.reshape(table["throughput"][table[study.BATCH] == batch], (40, 40))
        assert (np.diff(grid, axis=0) >= -1e-9 * grid[1:]).all()
        assert (np.diff(grid, axis=1) >= -1e-9 * grid[:, 1:]).all()
        assert grid[-1, -1] > max(grid[0, -1], grid[-1, 0])
    assert len(study.corners(table)) == len(study.BATCHES)
    assert len(study.balance(table)) == 4
    page = study.study(table)
    assert "3.55x" in page.claims[0].predicted
    assert len([line for line in page.lines() if "Scale-up at" in line]) == 3
