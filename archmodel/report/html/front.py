"""Which points no other point beats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array


def front(x: Array, y: Array, *, x_up: bool, y_up: bool) -> npt.NDArray[np.bool_]:
    """Points (N,) that no other is at least as good as in both and better in one; `x_up`: more x is better. Points with
    NaN are on no front; equal points all are."""
    a = np.where(np.isfinite(x) & np.isfinite(y), np.asarray(x, dtype=np.float64) * (-1.0 if x_up else 1.0), np.inf)
    b = np.where(np.isfinite(a), np.asarray(y, dtype=np.float64) * (-1.0 if y_up else 1.0), np.inf)
    order = np.lexsort((b, a))
    a, b = a[order], b[order]
    least = np.minimum.accumulate(b) if len(b) else b
    start = np.searchsorted(a, a, side="left")  # the first of equal a
    best_here = b == b[start] if len(b) else b.astype(bool)
    better_before = np.concatenate([[np.inf], least])[start] if len(b) else b
    kept = best_here & (b < better_before) & np.isfinite(a)
    result = np.zeros(len(a), dtype=bool)
    result[order] = kept
    return result
