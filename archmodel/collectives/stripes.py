"""Stripes of a block: the parts that several rings or trees carry at once."""

from __future__ import annotations

import numpy as np

from archmodel.quantities import Array


def stripes(length: Array, parts: int) -> Array:
    """Lengths (..., parts): stripe c of a block of b is [floor(b c / parts), floor(b (c + 1) / parts))."""
    edges = np.floor(length[..., None] * np.arange(parts + 1) / parts)
    edges[..., -1] = length
    return np.diff(edges, axis=-1)
