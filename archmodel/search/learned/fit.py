"""Fits the cost of sets: a share of them is left out to judge it by, beside two simpler models that it must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.quantities import Array
from archmodel.search.learned.measurements import TableSets
from archmodel.search.learned.model import NOT_NEGATIVE, PARAMETERS, SetCost, loss
from archmodel.search.learned.scores import Score, score
from archmodel.search.learned.tables import TableFeatures
from archmodel.search.options import IntArray

LEFT_OUT = 0.2
"""Share of the sets that is not fitted."""
LEAST_SETS = 10
_FIRST, _PARTS, _HEAD = 32, 12, 16
"""Widths: AutoShard has 128, 32 and 64 for 856 tables; an order of magnitude fewer tables need fewer."""
_DECAY = 3e-3
_STEPS = 800


@dataclass(frozen=True)
class Linear:
    """The table-level linear baseline: seconds = c + sum over tables of w . x."""

    columns: tuple[str, ...]
    coefficients: Array

    def predict(self, tables: TableFeatures, sets: TableSets) -> Array:
        """Seconds (S,)."""
        return np.asarray(_linear_inputs(tables, sets) @ self.coefficients)

    def each(self, tables: TableFeatures) -> Array:
        """Seconds that every table adds (T,); may be negative."""
        return np.asarray(self.coefficients[1] + tables.matrix @ self.coefficients[2:])


def _linear_inputs(tables: TableFeatures, sets: TableSets) -> Array:
    each = np.concatenate([np.ones((len(tables), 1)), tables.matrix], axis=1)
    return np.concatenate([np.ones((len(sets), 1)), np.asarray(sets.matrix @ each)], axis=1)


def fit_linear(tables: TableFeatures, sets: TableSets) -> Linear:
    """Least squares of relative errors (of least norm where tables are too few to tell)."""
    inputs = _linear_inputs(tables, sets)
    scale = np.maximum(np.abs(inputs).max(0), 1e-300)
    system = inputs / scale / sets.seconds[:, None]
    found = np.linalg.lstsq(system, np.ones(len(sets)), rcond=1e-10)[0]
    return Linear(tables.columns, found / scale)


def singles(sets: TableSets) -> Array:
    """Seconds of every table alone (T,), the mean of the rows that have it alone; NaN where none has."""
    alone = np.flatnonzero(sets.counts == 1)
    table = sets.member[sets.start[alone]]
    count = np.bincount(table, minlength=sets.tables)
    total = np.bincount(table, sets.seconds[alone], minlength=sets.tables)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def additive(alone: Array, sets: TableSets) -> Array:
    """The sum of the single-table costs (S,); NaN where one of them was not measured."""
    return np.asarray(np.add.reduceat(alone[sets.member], sets.start[:-1])) if len(sets) else np.zeros(0)


@dataclass(frozen=True)
class Fitted:
    """The model, which sets were fitted (S,), the linear baseline, and scores by model on fitted and left-out sets of
    two tables and more."""

    model: SetCost
    fitted: IntArray
    left_out: IntArray
    linear: Linear
    scores: Mapping[str, Mapping[str, Score]]


def fit(
    tables: TableFeatures,
    sets: TableSets,
    *,
    seed: int = 0,
    left_out: float = LEFT_OUT,
    decay: float = _DECAY,
    steps: int = _STEPS,
) -> Fitted:
    """Fits by L-BFGS-B from a seeded start; the same input and seed give the same model.

    The sets left out are of two tables and more; single tables are always fitted (they are the sum's terms). Raises
    ArchmodelError for fewer than 10 sets, or sets of several tables too few to leave any out.
    """
    several = np.flatnonzero(sets.counts > 1)
    if len(sets) < LEAST_SETS or len(several) < 2:
        raise ArchmodelError(
            f"{len(sets)} sets, {len(several)} of two tables or more, are too few to fit; {LEAST_SETS} are needed at "
            "least, two of them of several tables"
        )
    rng = np.random.default_rng(seed)
    out = np.sort(rng.permutation(several)[: max(1, round(left_out * len(several)))]) if left_out > 0 else several[:0]
    kept = np.setdiff1d(np.arange(len(sets)), out)
    inside = sets.of(kept)
    model = _minimise(tables, inside, rng, decay, steps)
    linear = fit_linear(tables, inside)
    alone = singles(sets)
    scores = {
        where: compare(model, linear, alone, tables, sets.of(which))
        for where, which in (("fitted", np.intersect1d(kept, several)), ("left_out", out))
    }
    return Fitted(model, kept, out, linear, scores)


def compare(model: SetCost, linear: Linear, alone: Array, tables: TableFeatures, sets: TableSets) -> dict[str, Score]:
    """Scores of the learned cost, the table-level linear one, and the sum of singles on some sets."""
    return {
        "learned": score(model.predict(tables, sets.matrix), sets.seconds),
        "linear": score(linear.predict(tables, sets), sets.seconds),
        "sum of singles": score(additive(alone, sets), sets.seconds),
    }


def _minimise(tables: TableFeatures, sets: TableSets, rng: np.random.Generator, decay: float, steps: int) -> SetCost:
    from scipy.optimize import minimize

    used = np.unique(sets.member)
    seen = tables.matrix[used]
    mean, spread = seen.mean(0), seen.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    x = (tables.matrix - mean) / spread
    unit = float(np.exp(np.log(sets.seconds).mean()))
    target = sets.seconds / unit
    start = _start(x.shape[1], float(sets.counts.mean()), rng)
    shapes = {name: start[name].shape for name in PARAMETERS}
    bounds = [
        (0.0, None) if name in NOT_NEGATIVE else (None, None) for name in PARAMETERS for _ in range(start[name].size)
    ]
    matrix = sets.matrix

    def objective(flat: Array) -> tuple[float, Array]:
        value, gradient = loss(x, matrix, target, unpack(flat, shapes), decay)
        return value, pack(gradient)

    found = minimize(
        objective,
        pack(start),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
    )
    weights = unpack(np.asarray(found.x), shapes)
    model = SetCost(tables.columns, mean, spread, seen.min(0), seen.max(0), weights, unit, sets.batch)
    return replace(model, about={"steps": int(found.nit), "loss": float(found.fun)})


def _start(features: int, tables: float, rng: np.random.Generator) -> dict[str, Array]:
    """Random layers; a head that is linear in the sums but for small bends, with about unit cost at the mean set."""
    return {
        "A1": rng.normal(0.0, 1.0 / np.sqrt(features), (_FIRST, features)),
        "a1": np.zeros(_FIRST),
        "A2": rng.normal(0.0, 1.0 / np.sqrt(_FIRST), (_PARTS, _FIRST)),
        "a2": np.zeros(_PARTS),
        "W": rng.uniform(0.0, 2.0, (_HEAD, _PARTS)) / (tables * _PARTS),
        "b": rng.normal(0.0, 1.0, _HEAD),
        "u": np.full(_PARTS, 0.5 / (tables * _PARTS)),
        "v": np.full(_HEAD, 0.5 / _HEAD),
        "c": np.full(1, 0.1),
    }


def pack(weights: Mapping[str, Array]) -> Array:
    """All parameters in one row."""
    return np.concatenate([weights[name].ravel() for name in PARAMETERS])


def unpack(flat: Array, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The inverse of `pack`."""
    found, at = {}, 0
    for name in PARAMETERS:
        size = int(np.prod(shapes[name]))
        found[name] = flat[at : at + size].reshape(shapes[name])
        at += size
    return found
