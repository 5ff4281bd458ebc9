"""What a near-memory unit is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Array, Num


@dataclass(frozen=True, slots=True)
class PooledLookups:
    """`poolings` sums of `pooling_factor` rows of `elements` numbers each. All broadcast.

    `row_overhead` bytes stand beside the numbers of a row: scale and bias (8 B) of rows stored in 8 bits.
    """

    poolings: Num
    pooling_factor: Num
    elements: Num
    element_bytes: Num = 4.0
    row_overhead: Num = 0.0
    weighted: bool = False
    sum_element_bytes: Num = 4.0

    @property
    def lookups(self) -> Num:
        """Rows asked for."""
        return self.poolings * self.pooling_factor

    @property
    def row_bytes(self) -> Num:
        """Bytes of a stored row."""
        return self.elements * self.element_bytes + self.row_overhead

    @property
    def quantised(self) -> Array:
        """1 where rows have a scale and a bias of their own, else 0."""
        return np.asarray(np.asarray(self.row_overhead) > 0, dtype=np.float64)

    @property
    def sum_bytes(self) -> Num:
        """Bytes of a pooled vector."""
        return self.elements * self.sum_element_bytes

    @property
    def multiplies_per_row(self) -> Num:
        """Multiplications of a row: by its weight, and by its scale when it is stored in 8 bits."""
        return self.elements * (float(self.weighted) + self.quantised)

    @property
    def adds_per_row(self) -> Num:
        """Additions of a row: to the sum, and its bias when it is stored in 8 bits."""
        return self.elements * (1.0 + self.quantised)
