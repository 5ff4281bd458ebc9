"""How narrow columns are cut when nobody says: TorchRec's 128 columns, or fewer where those leave much on the table.

TorchRec cuts no narrower than 128 columns unless a constraint (`min_partition`) allows it. Few large tables on many
ranks then cannot be balanced; whoever knows that sets `min_partition: 16`. The planner sees it from its own bound.
"""

from __future__ import annotations

from dataclasses import replace

from archmodel.search import tasks
from archmodel.search.options import Options, Solution
from archmodel.search.solver import Effort, solve
from archmodel.search.tasks import Task

NARROW = 16
"""Columns that fill a 64-byte line of fp32."""
FAR = 0.01
"""Gap from which narrower cuts are tried."""


def solve_task(task: Task, effort: Effort, *, narrow: bool = True) -> tuple[Task, Options, Solution]:
    """The best plan of a task, with the task and the options that it was chosen from: those of the task, or, when the
    first plans of those are more than 1 % above their bound (and `narrow`), also those of down to 16 columns a shard.
    Raises NoPlan."""
    options = tasks.options(task)
    finer = replace(task, min_partition=min(NARROW, task.min_partition))
    ranks = task.topology.world_size
    if narrow and ranks > 1 and finer.min_partition < task.min_partition and (task.dim >= 2 * NARROW).any():
        first = solve(options, Effort(budget=effort.budget, rounds=0, seed=effort.seed))
        if first.gap > FAR and not first.interrupted:
            share = None if effort.budget is None else 0.5 * effort.budget
            fine = tasks.options(finer)
            found = solve(fine, replace(effort, budget=share))
            if found.value < (1 - FAR) * first.value or found.interrupted:
                return finer, fine, found
            whole = solve(options, replace(effort, budget=share))
            return (finer, fine, found) if found.value < whole.value else (task, options, whole)
    return task, options, solve(options, effort)
