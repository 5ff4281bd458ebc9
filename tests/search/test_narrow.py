"""Columns are cut narrower than TorchRec's 128 only where that is worth it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from archmodel.search import tasks
from archmodel.search.narrow import NARROW, solve_task
from archmodel.search.solver import Effort, solve
from archmodel.search.tasks import Task
from archmodel.search.torchrec import Topology


def few(tables: int, world: int, pooling: float) -> Task:
    names = tuple(f"t{i}" for i in range(tables))
    rows = np.full(tables, 4_000_000)
    heavy = np.where(np.arange(tables) == 0, 20.0, 1.0) * pooling
    return Task("few", names, rows, np.full(tables, 128), heavy, 4096, Topology(world, 8, 80 * 1024.0**3))


def test_few_uneven_tables_are_cut_narrower() -> None:
    task = few(12, 8, 1.0)
    chosen, options, found = solve_task(task, Effort())
    assert chosen.min_partition == NARROW and found.feasible
    assert options.columns[found.assignment.slot > 0].min() >= NARROW
    assert found.value < 0.99 * solve(tasks.options(task)).value
    kept, _, whole = solve_task(task, Effort(), narrow=False)
    assert kept is task and whole.value == solve(tasks.options(task)).value


def test_many_tables_one_rank_and_narrower_settings_are_left_alone() -> None:
    for task in (few(120, 8, 0.05), few(12, 1, 1.0), replace(few(12, 8, 1.0), min_partition=8)):
        chosen, _, found = solve_task(task, Effort())
        assert chosen is task
        assert found.value == solve(tasks.options(task)).value
