"""Lowering of listed layers: convolutions, LSTMs, attention, token tables, exchanges. Data parallel, but for exchanges.

The gradient of a tensor that several layers read is written by each of them in turn, the last one adding up.
"""

from __future__ import annotations

import numpy as np

from archmodel.parallel.dense import backward, elementwise, forward, gradient
from archmodel.parallel.emit import Emitter
from archmodel.program import AllToAll, Convolution, Elementwise, Gemm, OuterTraffic, Products
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import DENSE_INPUT, Attention, Conv, Exchange, Listed, Lookup, Lstm

CELL_OPERATIONS = 24
"""Operations of an LSTM cell per element of its state: three sigmoids and two tanh of four, three products, a sum."""
SCORE_OPERATIONS = 6
"""Operations of an additive score per query, key and element: a sum, a tanh of four, and a product (added in place)."""


def _weights(layer: Listed) -> tuple[str, ...]:
    return tuple(f"{layer.name}.{name}" for name in layer.weights)


def _gradients(layer: Listed) -> tuple[str, ...]:
    return tuple(gradient(name) for name in _weights(layer))


def _inward(layer: Listed, e: Emitter) -> tuple[str, ...]:
    """Gradients of the tensors that a layer reads, declared; the model's input has none."""
    names = tuple(name for name in layer.inputs if name != DENSE_INPUT)
    for name in names:
        e.buffer(gradient(name), "activation", e.buffers[name].elements, e.plan.precision.compute)
    return tuple(gradient(name) for name in names)


def _convolution(m: Array, n: Array, k: Array, moved: Array, e: Emitter) -> Convolution:
    return Convolution(m, n, k, moved, e.plan.precision.compute)


@forward.register
def _(layer: Conv, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    moved = e.batch * (layer.in_positions * layer.in_channels + layer.out_features) + e.each(layer.parameters)
    depth = layer.kernel**2 * layer.in_channels
    work = _convolution(e.batch * layer.positions, e.each(layer.out_channels), e.each(depth), moved, e)
    e.op(f"{layer.name}.forward", "forward", work, (*layer.inputs, *_weights(layer)), (layer.output,))


@backward.register
def _(layer: Conv, e: Emitter, relu_outputs: set[str]) -> None:
    upstream, inward = gradient(layer.output), _inward(layer, e)
    moved = e.batch * (layer.in_positions * layer.in_channels + layer.out_features) + e.each(layer.parameters)
    taps = layer.kernel**2
    if inward:
        depth = taps * layer.out_channels * layer.positions / layer.in_positions
        work = _convolution(e.batch * layer.in_positions, e.each(layer.in_channels), e.each(depth), moved, e)
        e.op(f"{layer.name}.input_gradient", "backward", work, (upstream, *_weights(layer)), inward)
    depth_of_sum = e.batch * layer.positions
    work = _convolution(e.each(layer.out_channels), e.each(taps * layer.in_channels), depth_of_sum, moved, e)
    e.op(f"{layer.name}.weight_gradient", "backward", work, (upstream, *layer.inputs), _gradients(layer))


@forward.register
def _(layer: Lstm, e: Emitter) -> None:
    compute, h, both = e.plan.precision.compute, layer.hidden, layer.directions
    gates = e.activation(f"{layer.name}.gates", layer.steps * 4 * h * both)
    e.activation(layer.output, layer.out_features)
    wide, narrow = e.each(4 * h * both), e.each(layer.in_features)
    work = Gemm(e.batch * layer.steps, wide, narrow, compute, transpose_b=True)
    e.op(f"{layer.name}.input.forward", "forward", work, (*layer.inputs, *_weights(layer)), (gates,))
    steps = Products(e.batch, e.each(4 * h), e.each(h), e.each(both), layer.steps, compute)
    e.op(f"{layer.name}.recurrent.forward", "forward", steps, (gates, *_weights(layer)), (gates,))
    states = layer.steps * h * both
    cell = elementwise(e, "lstm_cell", 5 * states, 2 * states, CELL_OPERATIONS * states)
    e.op(f"{layer.name}.cell.forward", "forward", cell, (gates,), (layer.output,))


@backward.register
def _(layer: Lstm, e: Emitter, relu_outputs: set[str]) -> None:
    compute, h, both = e.plan.precision.compute, layer.hidden, layer.directions
    upstream, inward, gates = gradient(layer.output), _inward(layer, e), f"{layer.name}.gates"
    e.activation(gradient(gates), layer.steps * 4 * h * both)
    states = layer.steps * h * both
    cell = elementwise(e, "lstm_cell_grad", 7 * states, 5 * states, 2 * CELL_OPERATIONS * states)
    e.op(f"{layer.name}.cell.backward", "backward", cell, (upstream, gates), (gradient(gates),))
    steps = Products(e.batch, e.each(h), e.each(4 * h), e.each(both), layer.steps, compute)
    reads = (gradient(gates), *_weights(layer))
    e.op(f"{layer.name}.recurrent.input_gradient", "backward", steps, reads, (gradient(gates),))
    rows = e.batch * layer.steps
    if inward:
        work = Gemm(rows, e.each(layer.in_features), e.each(4 * h * both), compute)
        e.op(f"{layer.name}.input_gradient", "backward", work, reads, inward)
    kept = e.plan.wires.dense_gradient
    wide = e.each(4 * h * both)
    work = Gemm(wide, e.each(layer.in_features), rows, compute, transpose_a=True, output_dtype=kept)
    found = _gradients(layer)
    e.op(f"{layer.name}.weight_gradient", "backward", work, (gradient(gates), *layer.inputs), (found[0], found[2]))
    own = Products(e.each(4 * h), e.each(h), rows, e.each(both), 1, compute)
    reads = (gradient(gates), layer.output)
    e.op(f"{layer.name}.recurrent.weight_gradient", "backward", own, reads, (found[1],))


@forward.register
def _(layer: Attention, e: Emitter) -> None:
    compute, w, q, k = e.plan.precision.compute, layer.width, layer.queries, layer.keys
    looking = e.activation(f"{layer.name}.projected", (q + k) * w)
    scores = e.activation(f"{layer.name}.scores", q * k)
    e.activation(layer.output, layer.out_features)
    for part, places in (("query", q), ("key", k)):
        work = Gemm(e.batch * places, e.each(w), e.each(w), compute, transpose_b=True)
        e.op(f"{layer.name}.{part}.forward", "forward", work, (*layer.inputs, *_weights(layer)), (looking,))
    score = elementwise(e, "additive_score", (q + k) * w, q * k, SCORE_OPERATIONS * q * k * w)
    e.op(f"{layer.name}.score.forward", "forward", score, (looking,), (scores,))
    context = Products(e.each(q), e.each(w), e.each(k), e.batch, 1, compute)
    e.op(f"{layer.name}.context.forward", "forward", context, (scores, *layer.inputs), (layer.output,))


@backward.register
def _(layer: Attention, e: Emitter, relu_outputs: set[str]) -> None:
    compute, w, q, k = e.plan.precision.compute, layer.width, layer.queries, layer.keys
    upstream, inward = gradient(layer.output), _inward(layer, e)
    looking, scores = f"{layer.name}.projected", f"{layer.name}.scores"
    e.activation(gradient(looking), (q + k) * w)
    e.activation(gradient(scores), q * k)
    to_scores = Products(e.each(q), e.each(k), e.each(w), e.batch, 1, compute)
    reads = (upstream, scores, *layer.inputs)
    e.op(f"{layer.name}.context.score_gradient", "backward", to_scores, reads, (gradient(scores),))
    to_keys = Products(e.each(k), e.each(w), e.each(q), e.batch, 1, compute)
    e.op(f"{layer.name}.context.key_gradient", "backward", to_keys, reads, inward)
    score = elementwise(e, "additive_score_grad", (q + k) * w + q * k, (q + k) * w, 2 * SCORE_OPERATIONS * q * k * w)
    found = _gradients(layer)
    reads = (gradient(scores), looking)
    e.op(f"{layer.name}.score.backward", "backward", score, reads, (gradient(looking), found[2]))
    for which, (part, places) in enumerate((("query", q), ("key", k))):
        rows = e.batch * places
        work = Gemm(rows, e.each(w), e.each(w), compute)
        reads = (gradient(looking), *_weights(layer))
        e.op(f"{layer.name}.{part}.input_gradient", "backward", work, reads, inward)
        kept = e.plan.wires.dense_gradient
        work = Gemm(e.each(w), e.each(w), rows, compute, transpose_a=True, output_dtype=kept)
        reads = (gradient(looking), *layer.inputs)
        e.op(f"{layer.name}.{part}.weight_gradient", "backward", work, reads, (found[which],))


@forward.register
def _(layer: Lookup, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    work = elementwise(e, "token_lookup", layer.out_features, layer.out_features, 0)
    e.op(f"{layer.name}.forward", "forward", work, (*layer.inputs, *_weights(layer)), (layer.output,))


@backward.register
def _(layer: Lookup, e: Emitter, relu_outputs: set[str]) -> None:
    """The dense gradient is cleared, and the rows of the batch are added to it."""
    compute, kept = itemsize(e.plan.precision.compute), itemsize(e.plan.wires.dense_gradient)
    rows = e.batch * layer.out_features
    read, written = rows * (compute + kept), rows * kept + e.each(layer.parameters * kept)
    work = Elementwise("token_lookup_grad", read, written, rows, e.plan.precision.compute)
    e.op(f"{layer.name}.weight_gradient", "backward", work, (gradient(layer.output),), _gradients(layer))


def _returned(layer: Exchange) -> str:
    return f"{layer.name}.returned"


@forward.register
def _(layer: Exchange, e: Emitter) -> None:
    e.activation(layer.output, layer.width)
    if e.layout.ranks > 1:
        reads = (*layer.inputs, *((_returned(layer),) if _trains(e) else ()))
        work = _exchange(layer, e, forward_way=True)
        e.op(f"{layer.name}.forward", "forward", work, reads, (layer.output,), e.streams("world"))


@backward.register
def _(layer: Exchange, e: Emitter, relu_outputs: set[str]) -> None:
    e.activation(_returned(layer), layer.width)
    if e.layout.ranks > 1:
        work = _exchange(layer, e, forward_way=False)
        e.op(
            f"{layer.name}.backward",
            "backward",
            work,
            (gradient(layer.output),),
            (_returned(layer),),
            e.streams("world"),
        )


def _exchange(layer: Exchange, e: Emitter, *, forward_way: bool) -> AllToAll:
    wires, ranks = e.plan.wires, e.layout.ranks
    dtype = wires.lookup_forward if forward_way else wires.lookup_backward
    share = e.local_batch.astype(np.float64) * layer.width * itemsize(dtype) / ranks
    send, receive = (share, np.ones(ranks)) if forward_way else (np.ones(ranks), share)
    return AllToAll("world", OuterTraffic(send, receive), dtype, e.layout)


def _trains(e: Emitter) -> bool:
    return "labels" in e.buffers
