"""The order in which the simulated network takes collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from archmodel.execute.machine import Machine
from archmodel.execute.traffic import Traffic
from archmodel.program import AllToAll, Collective, Op


@dataclass
class Queue:
    """The network's queue of all-reduces. In order of issue (fifo) each runs when it is issued. Last in, first out,
    they wait until an op needs what one of them makes, and the network takes the last issued first until that is done.
    Counts go to the step that issued a collective."""

    machine: Machine
    traffic: Sequence[Traffic]
    run: Callable[[Op, Machine], None]
    lifo: bool
    waiting: list[tuple[int, Op]] = field(default_factory=list)
    order: list[tuple[int, str]] = field(default_factory=list)

    def do(self, op: Op, step: int) -> None:
        """Run or queue an op that `step` issues."""
        self.settle(op)
        collective = isinstance(op.work, AllToAll | Collective)
        if self.lifo and isinstance(op.work, Collective) and op.work.kind == "all_reduce":
            self.waiting.append((step, op))
            return
        if collective:
            self.order.append((step, op.name))
        self.run(op, self.machine)

    def settle(self, op: Op) -> None:
        """Finish what the op waits for: what it reads or overwrites is reduced."""
        touched = {*op.reads, *op.writes}
        while any(touched.intersection(other.writes) for _, other in self.waiting):
            self._next()

    def drain(self) -> None:
        """Finish everything."""
        while self.waiting:
            self._next()

    def _next(self) -> None:
        step, op = self.waiting.pop()
        now, self.machine.traffic = self.machine.traffic, self.traffic[step]
        self.order.append((step, op.name))
        self.run(op, self.machine)
        self.machine.traffic = now
