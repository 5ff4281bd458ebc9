"""Two plans of one workload side by side: which tables differ, and what that does to time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.estimate.result import Estimate
from archmodel.search.plan_tables import written


@dataclass(frozen=True)
class Difference:
    """A table that the plans hold otherwise: what each says of it."""

    name: str
    first: Mapping[str, Any]
    second: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """`phases`: seconds on the slowest rank, (first, second), largest change first; `memory`: bytes of the worst rank
    by tier; `tables`: those that differ, `same`: how many do not."""

    first: Estimate
    second: Estimate
    phases: Mapping[str, tuple[float, float]]
    memory: Mapping[str, tuple[float, float]]
    tables: tuple[Difference, ...]
    same: int

    @property
    def ratio(self) -> float:
        """Iteration time of the second over that of the first."""
        return float(self.second.iteration_time) / float(self.first.iteration_time)


def compare(first: Estimate, second: Estimate) -> Comparison:
    """Compare the plans of two estimates. Raises ArchmodelError when their tables have different names."""
    a, b = (written(e.design)["assign"] for e in (first, second))
    alone = sorted(set(a) ^ set(b))
    if alone:
        raise ArchmodelError(f"the plans are of different workloads: only one of them has table {alone[0]}")
    different = tuple(Difference(n, a[n], b[n]) for n in a if a[n] != b[n])
    times = [{p.name: float(np.max(p.slowest)) for p in e.phases} for e in (first, second)]
    names = dict.fromkeys([*times[0], *times[1]])
    phases = {n: (times[0].get(n, 0.0), times[1].get(n, 0.0)) for n in names}
    tiers = dict.fromkeys([*first.memory, *second.memory])
    memory = {t: tuple(e.memory[t].worst if t in e.memory else 0.0 for e in (first, second)) for t in tiers}
    return Comparison(
        first,
        second,
        dict(sorted(phases.items(), key=lambda kv: -abs(kv[1][1] - kv[1][0]))),
        {t: (x[0], x[1]) for t, x in memory.items()},
        different,
        len(a) - len(different),
    )
