"""LSTM layers: kernels of products and of cells take turns, step by step, each counted under its own op."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from archmodel.execute.arithmetic import plain
from archmodel.execute.listed.base import Numbers, counted_under, flat, give, operation, sigmoid, taken, tanh
from archmodel.execute.machine import Rank
from archmodel.program import Op
from archmodel.workloads.layers import Lstm


def activations(gates: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Input, forget, candidate, output."""
    i, f, g, o = np.split(gates, 4, axis=-1)
    return sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)


def steps_of(layer: Lstm) -> Iterator[tuple[int, int, int | None]]:
    """(direction, time step, the one before it in that direction), in the order of computation."""
    for s in range(layer.steps):
        for d in range(layer.directions):
            t, before = (s, s - 1) if d == 0 else (layer.steps - 1 - s, layer.steps - s)
            yield d, t, before if s else None


@operation(Lstm, "input.forward")
def lstm_input(rank: Rank, layer: Lstm, op: Op) -> None:
    """W x_t + b for all steps at once."""
    x = taken(rank, layer)
    weight, bias = rank.operand(f"{layer.name}.input"), rank.read(f"{layer.name}.bias")
    gates = plain(rank.counting(x.reshape(-1, layer.in_features)) @ weight.T) + bias
    rank.write(f"{layer.name}.gates", flat(gates))


@operation(Lstm, "recurrent.forward")
def lstm_forward(rank: Rank, layer: Lstm, op: Op) -> None:
    """U h_{t-1}, added to the gates of step t, and the cell: kernels in turn."""
    name, h = layer.name, layer.hidden
    recurrent, size = rank.look(f"{name}.recurrent"), rank.itemsize(f"{name}.gates")
    gates = rank.look(f"{name}.gates").reshape(-1, layer.steps, layer.directions, 4 * h).copy()
    samples = len(gates)
    states, outputs = (np.zeros((samples, layer.steps, layer.directions, h)) for _ in range(2))
    nothing = np.zeros((samples, h))
    for d, t, before in steps_of(layer):
        last, state = (nothing, nothing) if before is None else (outputs[:, before, d], states[:, before, d])
        rank.touch((last.size + recurrent[d].size + 2 * gates[:, t, d].size) * size)
        gates[:, t, d] += plain(rank.counting(last) @ recurrent[d].T)
        with counted_under(rank, f"{name}.cell.forward"):
            rank.touch((gates[:, t, d].size + 3 * state.size) * size)
            i, f, g, o = activations(rank.counting(gates[:, t, d]))
            now = f * rank.counting(state) + i * g
            states[:, t, d], outputs[:, t, d] = plain(now), plain(o * tanh(now))
    for tensor, values in ((f"{name}.gates", gates), (f"{name}.states", states), (name, outputs)):
        rank.place(tensor, flat(values))


@operation(Lstm, "cell.backward")
def lstm_backward(rank: Rank, layer: Lstm, op: Op) -> None:
    """The cell's gradient at step t, and dgates_t U, added to the gradient of h_{t-1}: kernels in turn. The gradient of
    the initial state is made as well, and dropped."""
    name, h = layer.name, layer.hidden
    recurrent, size = rank.look(f"{name}.recurrent"), rank.itemsize(f"{name}.gates")
    shape = (-1, layer.steps, layer.directions)
    gates = rank.look(f"{name}.gates").reshape(*shape, 4 * h)
    states = rank.look(f"{name}.states").reshape(*shape, h)
    dh = rank.look(f"{name}.gradient").reshape(*shape, h).copy()
    samples, dgates = len(dh), np.zeros(gates.shape)
    carried = np.zeros((samples, layer.directions, h))
    for d, t, before in reversed(list(steps_of(layer))):
        old = np.zeros((samples, h)) if before is None else states[:, before, d]
        rank.touch(13 * old.size * size)
        i, f, g, o = activations(rank.counting(gates[:, t, d]))
        through, dy = tanh(rank.counting(states[:, t, d])), np.asanyarray(rank.counting(dh[:, t, d]))
        dc = rank.counting(carried[:, d]) + dy * o * (1.0 - through * through)
        parts = (
            dc * g * i * (1.0 - i),
            dc * rank.counting(old) * f * (1.0 - f),
            dc * i * (1.0 - g * g),
            dy * through * o * (1.0 - o),
        )
        dgates[:, t, d] = np.concatenate([plain(part) for part in parts], axis=-1)
        carried[:, d] = plain(dc * f)
        with counted_under(rank, f"{name}.recurrent.input_gradient"):
            rank.touch((dgates[:, t, d].size + recurrent[d].size + 2 * old.size) * size)
            back = plain(rank.counting(dgates[:, t, d]) @ recurrent[d])
        if before is not None:
            dh[:, before, d] += back
    made = ((f"{name}.gradient", dh), (f"{name}.gates.gradient", dgates), (f"{name}.carried", carried))
    for tensor, values in made:
        rank.place(tensor, flat(values))


@operation(Lstm, "cell.forward", "recurrent.input_gradient")
def lstm_done(rank: Rank, layer: Lstm, op: Op) -> None:
    """Its kernels have run, in turn with those of the op before it."""


@operation(Lstm, "input_gradient")
def lstm_input_gradient(rank: Rank, layer: Lstm, op: Op) -> None:
    """dx = dgates W."""
    dgates: Numbers = rank.operand(f"{layer.name}.gates.gradient")
    dx = plain(dgates.reshape(-1, 4 * layer.hidden * layer.directions) @ rank.operand(f"{layer.name}.input"))
    give(rank, layer, dx.reshape(len(dgates), layer.steps, layer.in_features))


@operation(Lstm, "weight_gradient")
def lstm_weight_gradient(rank: Rank, layer: Lstm, op: Op) -> None:
    """dW = dgates^T x, db = sum dgates."""
    x = taken(rank, layer)
    wide = 4 * layer.hidden * layer.directions
    dgates: Numbers = rank.operand(f"{layer.name}.gates.gradient").reshape(-1, wide)
    rank.write(f"{layer.name}.input.gradient", plain(dgates.T @ rank.counting(x.reshape(-1, layer.in_features))))
    rank.write(f"{layer.name}.bias.gradient", plain(dgates).sum(0))


@operation(Lstm, "recurrent.weight_gradient")
def lstm_recurrent_gradient(rank: Rank, layer: Lstm, op: Op) -> None:
    """dU = sum_t dgates_t^T h_{t-1}, for each direction."""
    h = layer.hidden
    dgates = rank.operand(f"{layer.name}.gates.gradient").reshape(-1, layer.steps, layer.directions, 4 * h)
    outputs = rank.read(layer.output).reshape(-1, layer.steps, layer.directions, h)
    last = np.zeros(outputs.shape)
    last[:, 1:, 0] = outputs[:, :-1, 0]
    if layer.directions > 1:
        last[:, :-1, 1] = outputs[:, 1:, 1]
    found = [
        plain(dgates[:, :, d].reshape(-1, 4 * h).T @ rank.counting(last[:, :, d].reshape(-1, h)))
        for d in range(layer.directions)
    ]
    rank.write(f"{layer.name}.recurrent.gradient", np.stack(found))
