"""What a run does before, between and after the passes of a list of layers: inputs, the loss, results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archmodel.execute.listed.exchange import vectors
from archmodel.execute.machine import Machine
from archmodel.quantities import Array
from archmodel.workloads.layers import DENSE_INPUT, Exchange, Listed, unread


def begin(machine: Machine) -> None:
    """Forget the gradients of the last iteration. What an exchange brings is there where nobody has to send it."""
    for rank in machine.ranks:
        for layer in machine.layers.values():
            rank.values.pop(f"{layer.output}.gradient", None)
            if isinstance(layer, Exchange) and machine.program.ranks == 1:
                rank.place(layer.output, vectors(rank.look(DENSE_INPUT), layer.width))


def begin_backward(machine: Machine) -> None:
    """The gradient of the loss by the outputs that nobody takes: (y - label) / (batch x width)."""
    batch = float(sum(machine.local_batch))
    for rank in machine.ranks:
        for name in unread(list(machine.layers.values())):
            y = rank.look(name)
            rank.place(f"{name}.gradient", (y - rank.look("labels")) / (batch * y.shape[1]))


def end_backward(machine: Machine) -> None:
    """Gradients of an exchange come back to the one rank that has all its tables."""
    for rank in machine.ranks if machine.program.ranks == 1 else ():
        for layer in machine.layers.values():
            if isinstance(layer, Exchange):
                rank.place(f"{layer.name}.returned", rank.look(f"{layer.name}.gradient").ravel())


def losses(machine: Machine, labels: Array) -> tuple[float, Array]:
    """Mean loss over the batch, and for every sample the mean of the outputs that nobody takes."""
    names = unread(list(machine.layers.values()))
    outputs = [np.concatenate([rank.look(name) for rank in machine.ranks]) for name in names]
    each = sum((0.5 * ((y - labels[:, None]) ** 2).mean(1) for y in outputs), np.zeros(len(labels)))
    return float(each.mean()), np.concatenate(outputs, axis=1).mean(1)


def layers_by_name(layers: Sequence[object]) -> dict[str, Listed]:
    """The listed ones."""
    return {layer.name: layer for layer in layers if isinstance(layer, Listed)}
