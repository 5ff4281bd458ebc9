"""One rank out of per-rank arrays: (ranks,), or (1,) when all ranks are equal. Scalar evaluations only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate, OpEstimate
    from archmodel.quantities import Num


def on_rank(values: Num, rank: int) -> float:
    """The value of one rank."""
    row = np.ravel(values)
    return float(row[rank] if row.size > 1 else row[0])


def slowest_rank(op: OpEstimate) -> int:
    """The rank on which `op` takes longest."""
    return int(np.ravel(op.time).argmax())


def parts_on(op: OpEstimate, rank: int) -> dict[str, float]:
    """Seconds of every part of `op` on one rank, longest first, zeros left out."""
    parts = {name: on_rank(seconds, rank) for name, seconds in op.breakdown.parts.items()}
    return {name: s for name, s in sorted(parts.items(), key=lambda item: -item[1]) if s > 0}


def parts_of(ops: Iterable[OpEstimate]) -> dict[str, float]:
    """Seconds of every part of several ops together, on the rank that spends most on them, longest first."""
    members = list(ops)
    total = sum((np.ravel(op.time) for op in members), np.zeros(1))
    rank = int(np.asarray(total).argmax())
    parts: dict[str, float] = {}
    for op in members:
        for name, seconds in parts_on(op, rank).items():
            parts[name] = parts.get(name, 0.0) + seconds
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def busiest_and_median(estimate: Estimate) -> tuple[int, int]:
    """The rank with most work on its compute stream, and the one in the middle."""
    busy = np.broadcast_to(np.ravel(estimate.busy("compute")), estimate.program.ranks)
    order = np.argsort(busy, kind="stable")
    return int(busy.argmax()), int(order[len(order) // 2])
