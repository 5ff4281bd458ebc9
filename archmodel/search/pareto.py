"""Pareto fronts and the volume that they dominate. Every objective is to be small here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array

_BLOCK = 1 << 20
"""Comparisons of a block: 1 MiB of truth values."""


def front(values: Array) -> npt.NDArray[np.bool_]:
    """Which of the points (n, objectives) no other one dominates: is at most in all objectives, and less in one.

    Equal points do not dominate each other. NaN is refused with ValueError.
    """
    values = np.asarray(values, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError("a point with an unknown objective has no place in a front")
    order = np.lexsort(values.T[::-1])  # whoever dominates a point stands before it
    kept = np.empty((0, values.shape[1]))
    mask = np.zeros(len(values), dtype=bool)
    start = 0
    while start < len(order):
        rows = order[start : start + max(1, min(256, _BLOCK // max(1, len(kept))))]
        start += len(rows)
        rows = rows[~_dominated(values[rows], kept)]
        rows = rows[~_dominated(values[rows], values[rows])]
        mask[rows] = True
        kept = np.concatenate([kept, values[rows]])
    return mask


def _dominated(points: Array, by: Array) -> npt.NDArray[np.bool_]:
    """Which of `points` some of `by` dominates."""
    at_most = np.ones((len(points), len(by)), dtype=bool)
    less = np.zeros((len(points), len(by)), dtype=bool)
    for i in range(points.shape[1]):
        at_most &= by[None, :, i] <= points[:, None, i]
        less |= by[None, :, i] < points[:, None, i]
    found: npt.NDArray[np.bool_] = np.any(at_most & less, axis=1)
    return found


def hypervolume(values: Array, reference: Array) -> float:
    """Volume that the points (n, objectives) dominate within `reference` (objectives,): exact, by slicing.

    Slices along the last objective are areas of one objective less (Zitzler, ETH dissertation 13398, 1999; While et
    al., IEEE Trans. Evolutionary Computation 10(1), 2006). Points that are not below the reference in all add nothing.
    """
    values, reference = np.asarray(values, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    inside = values[np.all(values < reference, axis=1)] if len(values) else values.reshape(0, len(reference))
    return _volume(np.unique(inside[front(inside)], axis=0), reference) if len(inside) else 0.0


def _volume(points: Array, reference: Array) -> float:
    """Of points that do not dominate each other, none of them twice."""
    if points.shape[1] == 1:
        return float(reference[0] - points[:, 0].min())
    if points.shape[1] == 2:
        ordered = points[np.argsort(points[:, 0])]  # so the second objective falls
        widths = np.append(ordered[1:, 0], reference[0]) - ordered[:, 0]
        return float(np.sum(widths * (reference[1] - ordered[:, 1])))
    ordered = points[np.argsort(points[:, -1], kind="stable")]
    ends = np.append(ordered[1:, -1], reference[-1])
    total, kept = 0.0, np.empty((0, points.shape[1] - 1))
    for point, end in zip(ordered, ends, strict=True):
        if not _covers(kept, point[:-1]):
            kept = np.concatenate([kept[~np.all(point[:-1] <= kept, axis=1)], point[None, :-1]])
        if end > point[-1]:
            total += float(end - point[-1]) * _volume(kept, reference[:-1])
    return total


def _covers(points: Array, point: Array) -> bool:
    return bool(np.any(np.all(points <= point, axis=1)))
