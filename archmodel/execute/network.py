"""Mailboxes between simulated ranks: the only way that a number gets from one rank to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from archmodel.execute.errors import ExecutionError
from archmodel.program import Layout
from archmodel.quantities import Array

Payload = npt.NDArray[np.generic]


@dataclass
class Network:
    """`count(rank, link, elements, dtype)` hears of every message; `cast` rounds the floats that travel."""

    layout: Layout
    count: Callable[[int, str, int, str], None]
    cast: Callable[[Array, str], Array]
    mail: dict[tuple[int, int], deque[Payload]] = field(default_factory=dict)

    def send(self, source: int, target: int, values: Payload, dtype: str) -> None:
        """Send a copy of `values`, each as `dtype`."""
        if source == target:
            raise ExecutionError(f"rank {source} sends to itself over a wire")
        same_node = source // self.layout.local_size == target // self.layout.local_size
        self.count(source, "scale_up" if same_node else "scale_out", values.size, dtype)
        moved = self.cast(np.asarray(values, dtype=np.float64), dtype) if values.dtype.kind == "f" else values
        self.mail.setdefault((source, target), deque()).append(moved.copy())

    def to_switch(self, rank: int, values: Array, dtype: str) -> Array:
        """Send `values` to the switch of the rank's node; what arrives there."""
        self.count(rank, "scale_up", values.size, dtype)
        return self.cast(np.asarray(values, dtype=np.float64), dtype).copy()

    def receive(self, source: int, target: int) -> Payload:
        """The oldest message from `source` that `target` has not yet taken."""
        waiting = self.mail.get((source, target))
        if not waiting:
            raise ExecutionError(f"rank {target} waits for a message from rank {source} that was never sent")
        return waiting.popleft()

    def receive_numbers(self, source: int, target: int) -> Array:
        """The same, for floats."""
        return self.receive(source, target).astype(np.float64, copy=False)

    @property
    def quiet(self) -> bool:
        """True when every message has been taken."""
        return not any(self.mail.values())
