"""Fits the learned cost of sets of tables to measured ones, and says how well it predicts sets left out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.quantities import Array
from archmodel.search.learned import file
from archmodel.search.learned.fit import Fitted, fit
from archmodel.search.learned.measurements import TableSets, read_measurements
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.scores import Score
from archmodel.search.learned.tables import TableFeatures, read_tables


@dataclass(frozen=True, slots=True)
class TablesCalibration:
    """The learned cost (`model`), what it was fitted on and judged by, and its predictions (S,) in seconds."""

    model: SetCost
    fitted: Fitted
    tables: TableFeatures
    sets: TableSets
    predicted: Array

    @property
    def scores(self) -> Mapping[str, Mapping[str, Score]]:
        """Scores by part of the table (fitted, left_out) and by model, of sets of two tables and more."""
        return self.fitted.scores

    def json(self) -> str:
        """The model's file."""
        return file.text(self.model)

    def to_dict(self) -> dict[str, Any]:
        """What the model's file holds but the weights, for `--json`."""
        return {k: v for k, v in file.to_dict(self.model).items() if k not in ("weights", "features")}

    def worst(self, count: int = 5) -> list[tuple[int, float]]:
        """Sets predicted worst, by number, with predicted / measured - 1."""
        error = self.predicted / self.sets.seconds - 1.0
        return [(int(s), float(error[s])) for s in np.argsort(-np.abs(error), kind="stable")[:count]]


def calibrate_tables(
    measurements: str | Path, tables: str | Path, *, seed: int = 0, date: datetime.date | None = None
) -> TablesCalibration:
    """Fits a learned cost to a table of measured sets (see `read_measurements`) of the tables in another file (see
    `read_tables`). A seeded fifth of the sets of several tables is left out. Raises DesignError, ArchmodelError."""
    known = read_tables(tables)
    sets = read_measurements(measurements, known)
    found = fit(known, sets, seed=seed)
    learned, held_out = found.scores["fitted"]["learned"], found.scores["left_out"]["learned"]
    fitted_on = (
        f"{len(found.fitted):,} of {len(sets):,} sets of {Path(measurements).name}, "
        f"{date or datetime.datetime.now(tz=datetime.UTC).date()}; mean absolute error "
        f"{100 * learned.mape:.1f} % there, {100 * held_out.mape:.1f} % on the sets left out"
    )
    residuals = {where: {name: s.to_dict() for name, s in by.items()} for where, by in found.scores.items()}
    model = found.model.with_about(fitted_on=fitted_on, residuals=residuals, seed=seed)
    return TablesCalibration(model, found, known, sets, model.predict(known, sets.matrix))
