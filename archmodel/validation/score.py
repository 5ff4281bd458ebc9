"""Predictions held against published figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.estimate.estimate import estimate
from archmodel.validation.facts import FactError, PublishedFact, Quantity, facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Row:
    """One published figure and its prediction, both in SI; `error` is predicted over published, less one."""

    id: str
    group: str
    quantity: Quantity
    published: float
    predicted: float
    error: float
    calibrated: bool
    source: str
    note: str


@dataclass(frozen=True)
class Summary:
    """Errors of one group, of either its calibrated or its held-out facts: |error|, as fractions."""

    group: str
    calibrated: bool
    count: int
    median: float
    mean: float
    worst: float
    worst_id: str


ALL = "all"
"""Group of the summary lines over every group."""


def scoreboard(published: Iterable[PublishedFact] | None = None) -> tuple[Row, ...]:
    """Predict every published figure (of the package, unless some are given), in order.

    Raises FactError, naming every fact whose design does not load or cannot be estimated: none is left out.
    """
    rows: list[Row] = []
    problems: list[str] = []
    for fact in facts() if published is None else published:
        try:
            rows.append(predict(fact))
        except ArchmodelError as error:
            problems.append(f"{fact.id} ({fact.design}): {error}")
    if problems:
        raise FactError("\n".join(problems))
    return tuple(rows)


def predict(fact: PublishedFact) -> Row:
    """One figure and its prediction. Raises ArchmodelError when its design cannot be estimated."""
    answer = estimate(fact.load())
    predicted = float(getattr(answer, fact.quantity))
    overflowing = [tier for tier, need in answer.memory.items() if not need.fits]
    notes = [fact.note] if fact.note else []
    if overflowing:
        notes.append(f"does not fit its {' and '.join(overflowing)}")
    return Row(
        id=fact.id,
        group=fact.group,
        quantity=fact.quantity,
        published=fact.value,
        predicted=predicted,
        error=predicted / fact.value - 1.0,
        calibrated=fact.calibrated,
        source=fact.source,
        note="; ".join(notes),
    )


def summary(rows: Sequence[Row]) -> tuple[Summary, ...]:
    """Errors by group, in order of appearance, then over all; held-out facts apart from calibrated ones."""
    groups = [*dict.fromkeys(row.group for row in rows), ALL]
    lines = [_summary(rows, group, calibrated) for group in groups for calibrated in (True, False)]
    return tuple(line for line in lines if line is not None)


def _summary(rows: Sequence[Row], group: str, calibrated: bool) -> Summary | None:
    mine = [row for row in rows if group in (row.group, ALL) and row.calibrated is calibrated]
    if not mine:
        return None
    errors = np.abs([row.error for row in mine])
    worst = mine[int(errors.argmax())]
    return Summary(
        group=group,
        calibrated=calibrated,
        count=len(mine),
        median=float(np.median(errors)),
        mean=float(errors.mean()),
        worst=worst.error,
        worst_id=worst.id,
    )
