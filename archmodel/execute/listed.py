"""Listed layers on arrays: what the ops that `archmodel.parallel.layered` emits do on one rank, counted as they do it.

A tensor is kept as (samples, places x channels). Convolutions run as the implicit products that they are priced as;
of an LSTM the kernels of products and cells take turns, step by step, each counted under its own op. What a list leaves
out is not run: normalisation, activations, dropout. Where a layer needs another size than the tensors that it reads
have in all (a pooling or an interaction that the list leaves out), they are brought to size by `joined`, uncounted.
Gradients start from a loss that is no op of the Program: half of the mean square distance of every output that nothing
takes from the sample's label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from archmodel.execute.arithmetic import Counted, Tally, plain
from archmodel.execute.errors import ExecutionError
from archmodel.execute.joining import joined, parted
from archmodel.execute.machine import Machine, Rank
from archmodel.program import Op
from archmodel.quantities import Array
from archmodel.workloads.layers import DENSE_INPUT, Attention, Conv, Exchange, Listed, Lookup, Lstm, shares, unread

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


# --- tensors ------------------------------------------------------------------------------------------------------


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
    values = [rank.look(name).reshape(-1, *shape_of(name, rank)) for name in names]
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


# --- convolutions and linear layers -------------------------------------------------------------------------------


def taps(layer: Conv) -> list[tuple[slice | Places, slice | Places]]:
    """For every tap of the kernel, row by row: (places of the output, places of the input that it meets there).
    Outside the image are zeros, (kernel - 1) // 2 places before it."""
    if layer.kernel == 1 and layer.stride == 1:
        return [(slice(None), slice(None))]
    out, stride, edge = round(layer.positions**0.5), layer.stride, (layer.kernel - 1) // 2
    side = out * stride
    found: list[tuple[slice | Places, slice | Places]] = []
    for u in range(layer.kernel):
        for v in range(layer.kernel):
            rows, columns = (np.arange(out) * stride + t - edge for t in (u, v))
            here, there = ((rows >= 0) & (rows < side)), ((columns >= 0) & (columns < side))
            places = np.flatnonzero(np.outer(here, there))
            found.append((places, (rows[here][:, None] * side + columns[there]).ravel()))
    return found


def patches(layer: Conv, x: Array) -> Array:
    """(samples x positions, taps x channels): what the kernel meets at each place of the output."""
    met = np.zeros((len(x), layer.positions, layer.kernel**2, layer.in_channels))
    for tap, (places, sources) in enumerate(taps(layer)):
        met[:, places, tap] = x[:, sources]
    return met.reshape(len(x) * layer.positions, -1)


@operation(Conv, "forward")
def conv(rank: Rank, layer: Conv, op: Op) -> None:
    """y = patches(x) W^T + b."""
    x = taken(rank, layer)
    weight = rank.operand(f"{layer.name}.weight")
    y = plain(rank.counting(patches(layer, x)) @ weight.T)
    if layer.bias:
        y = y + rank.read(f"{layer.name}.bias")
    rank.write(layer.output, y.reshape(len(x), -1))


@operation(Conv, "input_gradient")
def conv_input_gradient(rank: Rank, layer: Conv, op: Op) -> None:
    """Tap by tap dy W_tap, added where the tap met the input: sums of the product itself."""
    dy = upstream(rank, layer)
    samples = len(dy)
    dy = dy.reshape(samples * layer.positions, layer.out_channels)
    weight = rank.operand(f"{layer.name}.weight")
    dx = np.zeros((samples, layer.in_positions, layer.in_channels))
    for tap, (places, sources) in enumerate(taps(layer)):
        columns = slice(tap * layer.in_channels, (tap + 1) * layer.in_channels)
        part = plain(dy @ weight[:, columns]).reshape(samples, layer.positions, -1)
        dx[:, sources] += part[:, places]
    give(rank, layer, dx)


@operation(Conv, "weight_gradient")
def conv_weight_gradient(rank: Rank, layer: Conv, op: Op) -> None:
    """dW = dy^T patches(x), db = sum dy."""
    x, dy = taken(rank, layer), upstream(rank, layer)
    dy = dy.reshape(len(x) * layer.positions, layer.out_channels)
    rank.write(f"{layer.name}.weight.gradient", plain(dy.T @ rank.counting(patches(layer, x))))
    if layer.bias:
        rank.write(f"{layer.name}.bias.gradient", plain(dy).sum(0))


# --- LSTM ---------------------------------------------------------------------------------------------------------


def sigmoid(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)): four operations."""
    return np.divide(1.0, 1.0 + np.exp(-x))


def tanh(x: Numbers) -> Numbers:
    """1 - 2 / (1 + exp(2 x)): five operations."""
    return np.subtract(1.0, 2.0 / (1.0 + np.exp(2.0 * x)))


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
    rank.write(f"{layer.name}.gates", gates.reshape(len(x), -1))


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
        rank.place(tensor, values.reshape(samples, -1))


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
        rank.place(tensor, values.reshape(samples, -1))


@operation(Lstm, "cell.forward", "recurrent.input_gradient")
def lstm_done(rank: Rank, layer: Lstm, op: Op) -> None:
    """Its kernels have run, in turn with those of the op before it."""


@operation(Lstm, "input_gradient")
def lstm_input_gradient(rank: Rank, layer: Lstm, op: Op) -> None:
    """dx = dgates W."""
    dgates: Numbers = rank.operand(f"{layer.name}.gates.gradient")
    dx = plain(dgates.reshape(len(dgates) * layer.steps, -1) @ rank.operand(f"{layer.name}.input"))
    give(rank, layer, dx.reshape(len(dgates), layer.steps, -1))


@operation(Lstm, "weight_gradient")
def lstm_weight_gradient(rank: Rank, layer: Lstm, op: Op) -> None:
    """dW = dgates^T x, db = sum dgates."""
    x = taken(rank, layer)
    dgates: Numbers = rank.operand(f"{layer.name}.gates.gradient").reshape(len(x) * layer.steps, -1)
    rank.write(f"{layer.name}.input.gradient", plain(dgates.T @ rank.counting(x.reshape(len(dgates), -1))))
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


# --- attention ----------------------------------------------------------------------------------------------------

PARTS = ("query", "key")


def _project(rank: Rank, layer: Attention, op: Op) -> None:
    """W q, or U k."""
    part = op.name.split(".")[1]
    x = taken(rank, layer, PARTS.index(part))
    y = plain(rank.counting(x.reshape(-1, layer.width)) @ rank.operand(f"{layer.name}.{part}").T)
    rank.write(f"{layer.name}.projected_{part}", y.reshape(len(x), -1))


def _project_input_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    part = op.name.split(".")[1]
    dy = rank.operand(f"{layer.name}.projected_{part}.gradient")
    dx = plain(dy.reshape(-1, layer.width) @ rank.operand(f"{layer.name}.{part}"))
    give(rank, layer, dx.reshape(len(dy), -1, layer.width), PARTS.index(part))


def _project_weight_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    part = op.name.split(".")[1]
    x = taken(rank, layer, PARTS.index(part)).reshape(-1, layer.width)
    dy = rank.operand(f"{layer.name}.projected_{part}.gradient").reshape(-1, layer.width)
    rank.write(f"{layer.name}.{part}.gradient", plain(dy.T @ rank.counting(x)))


for _part in PARTS:
    operation(Attention, f"{_part}.forward")(_project)
    operation(Attention, f"{_part}.input_gradient")(_project_input_gradient)
    operation(Attention, f"{_part}.weight_gradient")(_project_weight_gradient)


def _pairs(rank: Rank, layer: Attention) -> tuple[Numbers, Numbers]:
    """tanh(W q_i + U k_j), (samples, queries, keys, width), and v."""
    q, k = (rank.operand(f"{layer.name}.projected_{part}") for part in PARTS)
    sums = q.reshape(-1, layer.queries, 1, layer.width) + k.reshape(-1, 1, layer.keys, layer.width)
    return tanh(sums), rank.operand(f"{layer.name}.score")


@operation(Attention, "score.forward")
def score(rank: Rank, layer: Attention, op: Op) -> None:
    """softmax_j(v^T tanh(W q_i + U k_j))."""
    looked, v = _pairs(rank, layer)
    scores = (looked * v).sum(-1)
    weights = np.exp(scores - plain(scores).max(-1, keepdims=True))
    rank.write(f"{layer.name}.scores", plain(weights / weights.sum(-1, keepdims=True)).reshape(len(looked), -1))


@operation(Attention, "context.forward")
def context(rank: Rank, layer: Attention, op: Op) -> None:
    """sum_j a_ij k_j."""
    weights = rank.operand(f"{layer.name}.scores").reshape(-1, layer.queries, layer.keys)
    found = plain(weights @ taken(rank, layer, 1))
    rank.write(layer.output, found.reshape(len(found), -1))


@operation(Attention, "context.score_gradient")
def context_score_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    """da_ij = dcontext_i . k_j."""
    dy = upstream(rank, layer).reshape(-1, layer.queries, layer.width)
    found = plain(dy @ taken(rank, layer, 1).transpose(0, 2, 1))
    rank.write(f"{layer.name}.scores.gradient", found.reshape(len(found), -1))


@operation(Attention, "context.key_gradient")
def context_key_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    """dk_j = sum_i a_ij dcontext_i."""
    dy = upstream(rank, layer).reshape(-1, layer.queries, layer.width)
    weights = rank.operand(f"{layer.name}.scores").reshape(-1, layer.queries, layer.keys)
    give(rank, layer, plain(weights.transpose(0, 2, 1) @ dy), 1)


@operation(Attention, "score.backward")
def score_backward(rank: Rank, layer: Attention, op: Op) -> None:
    """Through the softmax, ds = a (da - sum_j a da), and through tanh."""
    places = (-1, layer.queries, layer.keys)
    da = rank.operand(f"{layer.name}.scores.gradient").reshape(*places)
    a = rank.operand(f"{layer.name}.scores").reshape(*places)
    looked, v = _pairs(rank, layer)
    ds = (a * (da - (a * da).sum(-1, keepdims=True)))[..., None]
    rank.write(f"{layer.name}.score.gradient", plain((ds * looked).sum((0, 1, 2))))
    through = ds * v * (1.0 - looked * looked)
    for part, axis in zip(PARTS, (2, 1), strict=True):
        total = plain(through.sum(axis))
        rank.write(f"{layer.name}.projected_{part}.gradient", total.reshape(len(total), -1))


# --- tokens -------------------------------------------------------------------------------------------------------

SPREAD = 997.0
"""What a feature is multiplied by to make a token of it."""


def tokens(rank: Rank, layer: Lookup) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Token ids (samples, tokens), read: each lookup takes further features of the input, and begins again after the
    last."""
    if layer.inputs != (DENSE_INPUT,):
        raise ExecutionError(f"{layer.name}: tokens come from the input (after: []), not from {layer.inputs[0]}")
    before = 0
    for other in rank.machine.layers.values():
        if other is layer:
            break
        before += other.tokens if isinstance(other, Lookup) else 0
    features = rank.look(DENSE_INPUT)
    columns = (before + np.arange(layer.tokens)) % features.shape[1]
    rank.touch(len(features) * layer.tokens * rank.itemsize(DENSE_INPUT))
    return (np.floor(np.abs(features[:, columns]) * SPREAD) % layer.rows).astype(np.int64)


@operation(Lookup, "forward")
def token_lookup(rank: Rank, layer: Lookup, op: Op) -> None:
    """Rows of the table."""
    rows = rank.look(f"{layer.name}.weight")[tokens(rank, layer)]
    rank.touch(rows.size * rank.itemsize(f"{layer.name}.weight"))
    rank.write(layer.output, rows.reshape(len(rows), -1))


@operation(Lookup, "weight_gradient")
def token_gradient(rank: Rank, layer: Lookup, op: Op) -> None:
    """Cleared, then row by row read, added to and written."""
    name = f"{layer.name}.weight.gradient"
    ids, dy = tokens(rank, layer).ravel(), upstream(rank, layer).reshape(-1, layer.width)
    whole = rank.counting(np.zeros((layer.rows, layer.width)))
    for row, gradient in zip(ids, dy, strict=True):
        whole[row] = whole[row] + gradient
    rank.touch(2 * dy.size * rank.itemsize(name))
    rank.write(name, plain(whole))


# --- exchanges ----------------------------------------------------------------------------------------------------


def vectors(features: Array, width: int) -> Array:
    """Vectors that the unlisted tables of an exchange give for samples: their features, over and over."""
    return features[:, np.arange(width) % features.shape[1]]


def parts_of(machine: Machine, layer: Exchange, rank: int) -> int:
    """Elements of a rank's samples that each owner has. Raises ExecutionError where they are not equally many."""
    elements, ranks = machine.local_batch[rank] * layer.width, machine.program.ranks
    if elements % ranks:
        raise ExecutionError(
            f"{layer.name}: {layer.width} elements for each of {machine.local_batch[rank]} samples are not cut equally "
            f"over {ranks} ranks; a width that {ranks} divides is"
        )
    return elements // ranks


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
