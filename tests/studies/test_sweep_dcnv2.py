"""The study of DCNv2 runs, and what it prints follows from its table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parent.parent.parent / "studies" / "sweep_dcnv2.py"


def study() -> Any:
    spec = importlib.util.spec_from_file_location("sweep_dcnv2", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_more_bandwidth_of_either_is_never_slower_and_both_help_more_than_each_alone() -> None:
    module = study()
    table = module.swept()
    assert table.points == 6_400 and not table.reasons
    for batch in module.BATCHES:
        grid = np.reshape(table["throughput"][table[module.BATCH] == batch], (40, 40))
        assert (np.diff(grid, axis=0) >= -1e-9 * grid[1:]).all()
        assert (np.diff(grid, axis=1) >= -1e-9 * grid[:, 1:]).all()
        assert grid[-1, -1] > max(grid[0, -1], grid[-1, 0])
    assert len(module.report(table)) == 1 + len(module.BATCHES)
    assert len(module.balance(table)) == 4
