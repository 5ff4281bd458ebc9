"""The reference's gradients against central finite differences of its loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from archmodel.execute.reference import Gradients, Inputs, Matrix, Model
from archmodel.execute.report import SLOPE, GradientRow

STEPS = (1e-5, 1e-4, 1e-6)
"""Steps of the differences, tried in turn: a large one may cross the kink of a ReLU, a small one loses digits."""
ROUNDING = 4 * np.finfo(np.float64).eps
"""Share of a loss that its own rounding may be: a difference quotient tells nothing below that over its step."""
SAMPLES = 12
"""Samples of the batch that the loss is taken over."""


def slopes(model: Model, batch: Inputs, names: Sequence[str], samples: int, seed: int) -> tuple[GradientRow, ...]:
    """One row per tensor that has elements; `names` are those of the tables."""
    batch = first_samples(batch, SAMPLES)
    grads = model.gradients(batch)
    rng = np.random.default_rng([seed, 6])
    rows = []
    for name, values, gradient, touched in _tensors(model, grads, names):
        if not values.size:
            continue
        largest = float(np.abs(gradient).max()) or 1.0
        places = _places(gradient, touched, samples, rng)
        worst = max(_error(model, batch, values, gradient, place, largest) for place in places)
        rows.append(GradientRow(name, len(places), worst))
    return tuple(rows)


def _tensors(
    model: Model, grads: Gradients, names: Sequence[str]
) -> Iterator[tuple[str, Matrix, Matrix, npt.NDArray[np.bool_]]]:
    """Name, values, gradient and touched rows of every tensor."""
    for name, values in model.dense.items():
        yield name, values, grads.dense[name], np.ones(len(values), dtype=np.bool_)
    yield from zip(names, model.tables, grads.tables, grads.touched, strict=True)


def _places(
    gradient: Matrix, touched: npt.NDArray[np.bool_], samples: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """The element with the largest gradient, random ones of touched rows, and one of a row that nothing touched."""
    flat = {int(np.abs(gradient).argmax())}
    row_size = gradient[0].size
    rows = np.flatnonzero(touched)
    if len(rows):
        columns = rng.integers(0, row_size, samples)
        flat |= {int(r) * row_size + int(c) for r, c in zip(rng.choice(rows, samples), columns, strict=True)}
    idle = np.flatnonzero(~touched)
    if len(idle):
        flat.add(int(rng.choice(idle)) * row_size)
    return [tuple(int(i) for i in np.unravel_index(f, gradient.shape)) for f in sorted(flat)]


def first_samples(batch: Inputs, count: int) -> Inputs:
    """The first samples of a batch."""
    ends = [int(lengths[:count].sum()) for lengths in batch.lengths]
    ids = [i[:end] for i, end in zip(batch.ids, ends, strict=True)]
    return Inputs(batch.dense[:count], batch.labels[:count], [n[:count] for n in batch.lengths], ids)


def _error(
    model: Model, batch: Inputs, values: Matrix, gradient: Matrix, place: tuple[int, ...], largest: float
) -> float:
    """|difference quotient - gradient| / largest gradient for the first step where it is at most `SLOPE`, else the
    smallest. What rounding explains of it counts only up to `SLOPE`."""
    kept, best = values[place], np.inf
    for h in STEPS:
        values[place] = kept + h
        above = model.loss(batch)
        values[place] = kept - h
        below = model.loss(batch)
        off = abs((above - below) / (2 * h) - float(gradient[place])) / largest
        best = min(best, max(off - ROUNDING * abs(above) / (h * largest), min(off, SLOPE)))
        if best <= SLOPE:
            break
    values[place] = kept
    return best
