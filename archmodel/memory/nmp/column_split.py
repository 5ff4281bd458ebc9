"""Rows cut into columns over all ranks (TensorDIMM, arXiv 1908.03072)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from archmodel.memory.nmp.unit import NMP, NmpUnit
from archmodel.memory.nmp.work import PooledLookups
from archmodel.quantities import Array, Num


@NMP.register
class ColumnNmp(NmpUnit):
    """Every rank holds row_bytes / ranks of every row: even loads, but an activate and a whole burst of every rank."""

    kind: Literal["column_nmp"] = "column_nmp"

    def lane_rows(self, lookups: Num) -> Array:
        return np.asarray(lookups, dtype=np.float64)

    def lane_row_bytes(self, work: PooledLookups) -> Num:
        return work.row_bytes / self.lanes

    def copies(self) -> Num:
        return float(self.lanes)

    def partials(self, work: PooledLookups) -> Array:
        """One: the slices of a sum are not added but set side by side."""
        return np.ones(())
