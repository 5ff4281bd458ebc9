"""What the executor counts while it runs one batch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from archmodel.quantities import Array

PerRank = dict[str, Array]


@dataclass
class Traffic:
    """Counts of one batch by op (and tier, or link class), each an array (ranks,).

    flops[op]; memory[op][tier] bytes read and written; wire[op][link] bytes sent; amounts[op][name] further fields of
    the op's Work (indices, distinct row bytes, ...); held[buffer] elements that a buffer had.
    """

    ranks: int
    flops: PerRank = field(init=False)
    memory: dict[str, PerRank] = field(init=False)
    wire: dict[str, PerRank] = field(init=False)
    amounts: dict[str, PerRank] = field(init=False)
    held: PerRank = field(init=False)

    def __post_init__(self) -> None:
        def none() -> Array:
            return np.zeros(self.ranks)

        def nested() -> PerRank:
            return defaultdict(none)

        self.flops, self.held = nested(), nested()
        self.memory, self.wire, self.amounts = (defaultdict(nested) for _ in range(3))

    def operate(self, op: str, rank: int, operations: float) -> None:
        """`operations` were done by `op`."""
        self.flops[op][rank] += operations

    def touch(self, op: str, rank: int, tier: str, bytes_: float) -> None:
        """`bytes_` were read from or written to a memory tier."""
        self.memory[op][tier][rank] += bytes_

    def send(self, op: str, rank: int, link: str, bytes_: float) -> None:
        """`bytes_` left the rank on a link."""
        self.wire[op][link][rank] += bytes_

    def note(self, op: str, rank: int, name: str, amount: float) -> None:
        """A further amount of the op."""
        self.amounts[op][name][rank] += amount

    def hold(self, buffer: str, rank: int, elements: float) -> None:
        """A buffer holds this many elements."""
        self.held[buffer][rank] = elements
