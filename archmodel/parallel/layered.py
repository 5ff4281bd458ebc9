"""Lowering of listed layers: convolutions, LSTMs, attention, token tables, exchanges. Data parallel, but for exchanges.

The gradient of a tensor that several layers read is written by each of them in turn, the last one adding up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.parallel.dense import backward, elementwise, forward, gradient
from archmodel.parallel.emit import Emitter
from archmodel.program import AllToAll, Convolution, Elementwise, Gemm, OuterTraffic, Products
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import DENSE_INPUT, Attention, Conv, Exchange, Listed, Lookup, Lstm, shares

CELL_OPERATIONS = 26
"""Operations of an LSTM cell per element of its state: three sigmoids of four, two tanh of five, three products and a
sum."""
CELL_BACKWARD = 44
"""Of its backward pass: the activations again (22), the gradient of the state (5), of four gates (16), and on (1)."""
SCORE_OPERATIONS = 8
"""Operations of an additive score per query, key and element: a sum, a tanh of five, a product and its sum."""
SCORE_BACKWARD = 14
"""Of its backward pass: sum and tanh again (6), the gradient of v (2), of the sum (4), to query and to key (2)."""
SOFTMAX_OPERATIONS = 4
"""Operations of a softmax per score: less the largest, exponential, sum, quotient; and as many backward."""


def _weights(layer: Listed) -> tuple[str, ...]:
    return tuple(f"{layer.name}.{name}" for name in layer.weights)


def _gradients(layer: Listed) -> tuple[str, ...]:
    return tuple(gradient(name) for name in _weights(layer))


def _width(name: str, e: Emitter) -> int:
    """Elements per sample of a tensor."""
    return round(float(e.buffers[name].elements.max()) / float(e.batch.max()))


def _taken(layer: Listed, e: Emitter, which: int = 0) -> int:
    """Elements per sample that a layer reads of its inputs."""
    names, (places, channels) = layer.takes[which]
    return sum(shares([_width(name, e) for name in names], places * channels))


@dataclass(frozen=True)
class _Inward:
    """Gradients of tensors that a layer reads: elements per sample `written`, and `read` where others wrote before."""

    names: tuple[str, ...]
    so_far: tuple[str, ...]
    written: int
    read: int


def _inward(layer: Listed, e: Emitter, which: int = 0) -> _Inward:
    """Declares them; the model's input has none."""
    tensors, (places, channels) = layer.takes[which]
    each = shares([_width(name, e) for name in tensors], places * channels)
    names: list[str] = []
    so_far: list[str] = []
    written = read = 0
    for name, share in zip(tensors, each, strict=True):
        if name == DENSE_INPUT:
            continue
        names.append(gradient(name))
        written += share
        if gradient(name) in e.buffers:
            so_far.append(gradient(name))
            read += share
        e.buffer(gradient(name), "activation", e.buffers[name].elements, e.plan.precision.compute)
    return _Inward(tuple(names), tuple(so_far), written, read)


@forward.register
def _(layer: Conv, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    read = e.batch * _taken(layer, e) + e.each(layer.parameters)
    depth = layer.kernel**2 * layer.in_channels
    m, n, k = e.batch * layer.positions, e.each(layer.out_channels), e.each(depth)
    work = Convolution(m, n, k, read, e.batch * layer.out_features, e.plan.precision.compute)
    e.op(f"{layer.name}.forward", "forward", work, (*layer.inputs, *_weights(layer)), (layer.output,))


@backward.register
def _(layer: Conv, e: Emitter, relu_outputs: set[str]) -> None:
    compute, kept = e.plan.precision.compute, e.plan.wires.dense_gradient
    upstream, inward = gradient(layer.output), _inward(layer, e)
    taps = layer.kernel**2
    weight = f"{layer.name}.weight"
    if inward.names:
        depth = taps * layer.out_channels * layer.positions / layer.in_positions
        read = e.batch * (layer.out_features + inward.read) + e.each(layer.weights["weight"])
        m, n = e.batch * layer.in_positions, e.each(layer.in_channels)
        work = Convolution(m, n, e.each(depth), read, e.batch * inward.written, compute)
        e.op(f"{layer.name}.input_gradient", "backward", work, (upstream, weight, *inward.so_far), inward.names)
    m, n, k = e.each(layer.out_channels), e.each(taps * layer.in_channels), e.batch * layer.positions
    read = e.batch * (_taken(layer, e) + layer.out_features)
    work = Convolution(m, n, k, read, e.each(layer.parameters), compute, kept)
    e.op(f"{layer.name}.weight_gradient", "backward", work, (upstream, *layer.inputs), _gradients(layer))


@forward.register
def _(layer: Lstm, e: Emitter) -> None:
    """The kernels of the last two ops take turns, one of each for every time step."""
    compute, h, both = e.plan.precision.compute, layer.hidden, layer.directions
    gates = e.activation(f"{layer.name}.gates", layer.steps * 4 * h * both)
    saved = e.activation(f"{layer.name}.states", layer.steps * h * both)
    e.activation(layer.output, layer.out_features)
    weight, recurrent, bias = _weights(layer)
    wide, narrow = e.each(4 * h * both), e.each(layer.in_features)
    further = e.batch * (_taken(layer, e) - layer.steps * layer.in_features)
    work = Gemm(
        e.batch * layer.steps, wide, narrow, compute, transpose_b=True, epilogue="bias", epilogue_reads=wide + further
    )
    e.op(f"{layer.name}.input.forward", "forward", work, (*layer.inputs, weight, bias), (gates,))
    steps = Products(e.batch, e.each(4 * h), e.each(h), e.each(both), layer.steps, compute, accumulate=True)
    e.op(f"{layer.name}.recurrent.forward", "forward", steps, (gates, recurrent), (gates,))
    states = layer.steps * h * both
    cell = elementwise(e, "lstm_cell", 5 * states, 2 * states, CELL_OPERATIONS * states)
    e.op(f"{layer.name}.cell.forward", "forward", cell, (gates,), (layer.output, saved))


@backward.register
def _(layer: Lstm, e: Emitter, relu_outputs: set[str]) -> None:
    """The kernels of the first two ops take turns, as forward."""
    compute, h, both = e.plan.precision.compute, layer.hidden, layer.directions
    upstream, inward, gates = gradient(layer.output), _inward(layer, e), f"{layer.name}.gates"
    weight, recurrent, _ = _weights(layer)
    e.activation(gradient(gates), layer.steps * 4 * h * both)
    carried = e.activation(f"{layer.name}.carried", h * both)
    states = layer.steps * h * both
    cell = elementwise(e, "lstm_cell_grad", 8 * states, 5 * states, CELL_BACKWARD * states)
    reads: tuple[str, ...] = (upstream, gates, f"{layer.name}.states")
    e.op(f"{layer.name}.cell.backward", "backward", cell, reads, (gradient(gates), carried))
    steps = Products(e.batch, e.each(h), e.each(4 * h), e.each(both), layer.steps, compute, accumulate=True)
    reads = (gradient(gates), recurrent, upstream)
    e.op(f"{layer.name}.recurrent.input_gradient", "backward", steps, reads, (upstream,))
    rows, wide, narrow = e.batch * layer.steps, e.each(4 * h * both), e.each(layer.in_features)
    needed = layer.steps * layer.in_features
    if inward.names:
        work = Gemm(
            rows,
            narrow,
            wide,
            compute,
            epilogue="add" if inward.so_far else "",
            epilogue_reads=e.batch * inward.read,
            epilogue_writes=e.batch * (inward.written - needed),
        )
        e.op(f"{layer.name}.input_gradient", "backward", work, (gradient(gates), weight, *inward.so_far), inward.names)
    kept = e.plan.wires.dense_gradient
    work = Gemm(
        wide,
        narrow,
        rows,
        compute,
        transpose_a=True,
        epilogue="bias_grad",
        epilogue_reads=e.batch * (_taken(layer, e) - needed),
        epilogue_writes=wide,
        output_dtype=kept,
    )
    found = _gradients(layer)
    e.op(f"{layer.name}.weight_gradient", "backward", work, (gradient(gates), *layer.inputs), (found[0], found[2]))
    own = Products(e.each(4 * h), e.each(h), rows, e.each(both), 1, compute, output_dtype=kept)
    reads = (gradient(gates), layer.output)
    e.op(f"{layer.name}.recurrent.weight_gradient", "backward", own, reads, (found[1],))


@forward.register
def _(layer: Attention, e: Emitter) -> None:
    compute, w, q, k = e.plan.precision.compute, layer.width, layer.queries, layer.keys
    scores = e.activation(f"{layer.name}.scores", q * k)
    e.activation(layer.output, layer.out_features)
    projected = []
    for which, (part, places) in enumerate((("query", q), ("key", k))):
        projected.append(e.activation(f"{layer.name}.projected_{part}", places * w))
        further = e.batch * (_taken(layer, e, which) - places * w)
        work = Gemm(e.batch * places, e.each(w), e.each(w), compute, transpose_b=True, epilogue_reads=further)
        reads = (*layer.takes[which][0], f"{layer.name}.{part}")
        e.op(f"{layer.name}.{part}.forward", "forward", work, reads, (projected[-1],))
    size = itemsize(compute)
    read, operations = e.batch * (q + k) * w + e.each(w), q * k * (SCORE_OPERATIONS * w + SOFTMAX_OPERATIONS)
    score = Elementwise("additive_score", read * size, e.batch * q * k * size, e.batch * operations, compute)
    e.op(f"{layer.name}.score.forward", "forward", score, (*projected, f"{layer.name}.score"), (scores,))
    further = e.batch * (_taken(layer, e, 1) - k * w)
    context = Products(e.each(q), e.each(w), e.each(k), e.batch, 1, compute, added=further)
    e.op(f"{layer.name}.context.forward", "forward", context, (scores, *layer.takes[1][0]), (layer.output,))


@backward.register
def _(layer: Attention, e: Emitter, relu_outputs: set[str]) -> None:
    compute, w, q, k = e.plan.precision.compute, layer.width, layer.queries, layer.keys
    upstream, scores = gradient(layer.output), f"{layer.name}.scores"
    looking = [f"{layer.name}.projected_{part}" for part in ("query", "key")]
    e.activation(gradient(scores), q * k)
    further = e.batch * (_taken(layer, e, 1) - k * w)
    to_scores = Products(e.each(q), e.each(k), e.each(w), e.batch, 1, compute, added=further)
    reads: tuple[str, ...] = (upstream, *layer.takes[1][0])
    e.op(f"{layer.name}.context.score_gradient", "backward", to_scores, reads, (gradient(scores),))
    inward = _inward(layer, e, 1)
    if inward.names:
        to_keys = Products(e.each(k), e.each(w), e.each(q), e.batch, 1, compute, added=_further(inward, k * w, e))
        reads = (upstream, scores, *inward.so_far)
        e.op(f"{layer.name}.context.key_gradient", "backward", to_keys, reads, inward.names)
    found = _gradients(layer)
    for name, places in zip(looking, (q, k), strict=True):
        e.activation(gradient(name), places * w)
    size, kept = itemsize(compute), e.plan.wires.dense_gradient
    read = (e.batch * ((q + k) * w + 2 * q * k) + e.each(w)) * size
    written = e.batch * (q + k) * w * size + e.each(w * itemsize(kept))
    operations = e.batch * q * k * (SCORE_BACKWARD * w + SOFTMAX_OPERATIONS)
    score = Elementwise("additive_score_grad", read, written, operations, compute)
    reads = (gradient(scores), scores, *looking, f"{layer.name}.score")
    e.op(f"{layer.name}.score.backward", "backward", score, reads, (*(gradient(x) for x in looking), found[2]))
    for which, (part, places) in enumerate((("query", q), ("key", k))):
        rows, mine = e.batch * places, gradient(looking[which])
        inward = _inward(layer, e, which)
        if inward.names:
            work = Gemm(
                rows,
                e.each(w),
                e.each(w),
                compute,
                epilogue="add" if inward.so_far else "",
                epilogue_reads=e.batch * inward.read,
                epilogue_writes=e.batch * (inward.written - places * w),
            )
            reads = (mine, f"{layer.name}.{part}", *inward.so_far)
            e.op(f"{layer.name}.{part}.input_gradient", "backward", work, reads, inward.names)
        further = e.batch * (_taken(layer, e, which) - places * w)
        work = Gemm(e.each(w), e.each(w), rows, compute, transpose_a=True, epilogue_reads=further, output_dtype=kept)
        reads = (mine, *layer.takes[which][0])
        e.op(f"{layer.name}.{part}.weight_gradient", "backward", work, reads, (found[which],))


def _further(inward: _Inward, needed: int, e: Emitter) -> Array:
    """Elements that gradients of several tensors, or of one that has some already, move beside the product's own."""
    return e.batch * (inward.read + inward.written - needed)


@forward.register
def _(layer: Lookup, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    work = elementwise(e, "token_lookup", layer.tokens + layer.out_features, layer.out_features, 0)
    e.op(f"{layer.name}.forward", "forward", work, (*layer.inputs, *_weights(layer)), (layer.output,))


@backward.register
def _(layer: Lookup, e: Emitter, relu_outputs: set[str]) -> None:
    """The dense gradient is cleared, and the rows of the batch are added to it."""
    compute, kept = itemsize(e.plan.precision.compute), itemsize(e.plan.wires.dense_gradient)
    rows = e.batch * layer.out_features
    read = rows * (compute + kept) + e.batch * layer.tokens * compute
    written = rows * kept + e.each(layer.parameters * kept)
    work = Elementwise("token_lookup_grad", read, written, rows, e.plan.precision.compute)
    reads = (gradient(layer.output), *layer.inputs)
    e.op(f"{layer.name}.weight_gradient", "backward", work, reads, _gradients(layer))


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
    e.buffer(
        _returned(layer),
        "activation",
        e.each(e.local_batch.sum() * layer.width / e.layout.ranks),
        e.plan.precision.compute,
    )
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
    share = e.local_batch.astype(np.float64) * layer.width * itemsize(dtype) / ranks  # of a rank's samples, by owner
    send, receive = (np.ones(ranks), share) if forward_way else (share, np.ones(ranks))
    return AllToAll("world", OuterTraffic(send, receive), dtype, e.layout)


def _trains(e: Emitter) -> bool:
    return "labels" in e.buffers
