"""What ops of listed layers share: the registry of what they do on a rank, and the tensors that they read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from archmodel.execute.arithmetic import Counted, Tally, plain
from archmodel.execute.listed.joining import joined, parted
from archmodel.execute.machine import Machine, Rank
from archmodel.program import Op
from archmodel.quantities import Array
from archmodel.workloads.layers import DENSE_INPUT, Listed, shares

Numbers = Array | Counted
Places = np.ndarray[Any, np.dtype[np.int64]]
Operation = Callable[[Rank, Any, Op], None]
OPERATIONS: dict[tuple[type, str], Operation] = {}
"""By kind of layer and the rest of the op's name."""


def operation(kind: type, *names: str) -> Callable[[Operation], Operation]:
    """Register what the ops `names` of a kind of layer do."""

    def register(body: Operation) -> Operation:
        OPERATIONS.update({(kind, name): body for name in names})
        return body

    return register


def operation_of(op: Op, machine: Machine) -> tuple[Operation, Listed] | None:
    """What an op of a listed layer does; None for other ops."""
    name, _, rest = op.name.partition(".")
    layer = machine.layers.get(name)
    found = OPERATIONS.get((type(layer), rest))
    return None if layer is None or found is None else (found, layer)


def flat(x: Array) -> Array:
    """(samples, everything else), also of no samples."""
    return x.reshape(len(x), int(np.prod(x.shape[1:])))


def shape_of(name: str, rank: Rank) -> tuple[int, int]:
    """(places, channels) of a tensor; the model's input is one place."""
    if name == DENSE_INPUT:
        return 1, rank.look(name).shape[1]
    return rank.machine.layers[name].out_shape


def _shares(rank: Rank, layer: Listed, which: int) -> list[int]:
    names, (places, channels) = layer.takes[which]
    return shares([int(np.prod(shape_of(name, rank))) for name in names], places * channels)


def taken(rank: Rank, layer: Listed, which: int = 0) -> Array:
    """What a layer reads, (samples, places, channels); counts reading its share of every tensor."""
    names, needed = layer.takes[which]
    for name, share in zip(names, _shares(rank, layer, which), strict=True):
        rank.touch(len(rank.look(name)) * share * rank.itemsize(name))
    values = [rank.look(name).reshape(len(rank.look(name)), *shape_of(name, rank)) for name in names]
    return joined(values, *needed)


def give(rank: Rank, layer: Listed, values: Array, which: int = 0) -> None:
    """Gradients of the tensors that a layer read, from that of what they were joined to: written, or added to what
    other layers gave (which is read). The sums are part of the product, and count no operations."""
    names, _ = layer.takes[which]
    parts = parted(plain(values), [shape_of(name, rank) for name in names])
    for name, share, part in zip(names, _shares(rank, layer, which), parts, strict=True):
        if name == DENSE_INPUT:
            continue
        target = f"{name}.gradient"
        moved = len(part) * share * rank.itemsize(target)
        if target in rank.values:
            rank.touch(moved)
            part = part + rank.look(target)
        rank.touch(moved)
        rank.place(target, part)


@contextmanager
def counted_under(rank: Rank, op: str) -> Iterator[None]:
    """What is done in here counts as work of another op, whose kernels run between those of the op at work."""
    machine, own, tally = rank.machine, rank.machine.op, rank.tally
    machine.op, rank.tally = op, Tally()
    yield
    machine.traffic.operate(op, rank.index, rank.tally.operations)
    machine.op, rank.tally = own, tally


def upstream(rank: Rank, layer: Listed) -> Numbers:
    """The gradient of a layer's output, read."""
    return rank.operand(f"{layer.output}.gradient")


def sigmoid(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)): four operations."""
    return np.divide(1.0, 1.0 + np.exp(-x))


def tanh(x: Numbers) -> Numbers:
    """1 - 2 / (1 + exp(2 x)): five operations."""
    return np.subtract(1.0, 2.0 / (1.0 + np.exp(2.0 * x)))
