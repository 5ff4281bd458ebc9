"""Lowering of the dense layers: forward, backward, bucketed all-reduce of gradients, update. They are data parallel,
except those that an emitter of one rank alone is given: their gradients stay on that rank.

Tensors are named by the layers; the gradient of tensor `x` is `x.gradient`. The gradient of a tensor that several
layers read is accumulated in the epilogue of the product that comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

import numpy as np

from archmodel.parallel import algorithms
from archmodel.parallel.emit import Emitter
from archmodel.parallel.placement import split_evenly
from archmodel.parallel.plan import Plan
from archmodel.program import Collective, DotInteraction, Elementwise, Gemm
from archmodel.quantities import Array, Dtype, itemsize
from archmodel.workloads.layers import (
    DENSE_INPUT,
    BinaryCrossEntropy,
    Concatenate,
    Dot,
    Layer,
    Linear,
    Listed,
    LowRankCross,
)

OPTIMIZER_MOMENTS = {"sgd": 0, "adagrad": 1, "adam": 2}
OPTIMIZER_OPERATIONS = {"sgd": 2, "adagrad": 7, "adam": 12}
"""Operations per parameter of one step: counted from the update equations as the executor writes them."""

LOSS_KERNELS = (14, 4)
"""Kernels of binary_cross_entropy_with_logits and of its gradient, counted in PyTorch's source (aten Loss.cpp)."""


def gradient(tensor: str) -> str:
    """Name of the gradient of a tensor or parameter."""
    return f"{tensor}.gradient"


def one(x: float) -> Array:
    """An amount that is equal on all ranks, (1,)."""
    return np.array([float(x)])


def elementwise(
    e: Emitter, function: str, reads: float, writes: float, operations: float, dtype: Dtype | None = None
) -> Elementwise:
    """An elementwise kernel over `reads` / `writes` elements per local sample of the compute precision."""
    dtype = dtype or e.plan.precision.compute
    size = itemsize(dtype)
    return Elementwise(function, e.batch * reads * size, e.batch * writes * size, e.batch * operations, dtype)


def declare_parameters(groups: Sequence[tuple[Emitter, tuple[Layer, ...]]], train: bool) -> None:
    """Weights, biases, gradients and optimizer state of all dense layers, on the ranks that run them."""
    e = groups[0][0]
    plan, total = e.plan, np.zeros(1)
    master, compute = plan.precision.parameters, plan.precision.compute
    for at, layers in groups:
        for name, elements in parameters(layers).items():
            e.buffer(name, "parameter", at.each(elements), compute)
            if train:
                e.buffer(gradient(name), "gradient", at.each(elements), plan.wires.dense_gradient)
        total = total + at.each(sum(parameters(layers).values()))
    if train and itemsize(master) > itemsize(compute):
        e.buffer("dense.master", "parameter", total, master)
    moments = OPTIMIZER_MOMENTS[plan.dense_optimizer]
    if train and moments:
        e.buffer("dense.state", "optimizer_state", total * moments, master)


def parameters(layers: tuple[Layer, ...]) -> dict[str, int]:
    """Elements of every dense parameter, in forward order."""
    result: dict[str, int] = {}
    for layer in layers:
        if isinstance(layer, Linear):
            result[f"{layer.name}.weight"] = layer.out_features * layer.in_features
            result[f"{layer.name}.bias"] = layer.out_features
        elif isinstance(layer, LowRankCross):
            result[f"{layer.name}.down"] = layer.rank * layer.features
            result[f"{layer.name}.up"] = layer.features * layer.rank
            result[f"{layer.name}.bias"] = layer.features
        elif isinstance(layer, Listed):
            result |= {f"{layer.name}.{part}": elements for part, elements in layer.weights.items()}
    return result


def casts_parameters(plan: Plan) -> bool:
    """Whether dense parameters are cast in every pass: the compute precision is narrower, and no copy is kept in it."""
    precision = plan.precision
    return precision.cast_parameters and itemsize(precision.compute) < itemsize(precision.parameters)


@singledispatch
def forward(layer: Layer, e: Emitter) -> None:
    """Append the forward ops of a layer."""
    raise NotImplementedError(type(layer).__name__)


@singledispatch
def backward(layer: Layer, e: Emitter, relu_outputs: set[str]) -> None:
    """Append the backward ops of a layer."""
    raise NotImplementedError(type(layer).__name__)


@forward.register
def _(layer: Linear, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    fused = e.plan.fused_epilogues
    work = Gemm(
        e.batch,
        e.each(layer.out_features),
        e.each(layer.in_features),
        e.plan.precision.compute,
        transpose_b=True,
        epilogue="bias_relu" if layer.relu and fused else "bias",
        epilogue_reads=e.each(layer.out_features),
    )
    e.op(
        f"{layer.name}.forward",
        "forward",
        work,
        (layer.input, f"{layer.name}.weight", f"{layer.name}.bias"),
        (layer.output,),
    )
    if layer.relu and not fused:
        relu = elementwise(e, "relu", layer.out_features, layer.out_features, 0)
        e.op(f"{layer.name}.relu", "forward", relu, (layer.output,), (layer.output,))


@backward.register
def _(layer: Linear, e: Emitter, relu_outputs: set[str]) -> None:
    compute, n, fused = e.plan.precision.compute, layer.out_features, e.plan.fused_epilogues
    upstream = gradient(layer.output)
    if layer.input != DENSE_INPUT:
        e.activation(gradient(layer.input), layer.in_features)
        masked = fused and layer.input in relu_outputs
        work = Gemm(
            e.batch,
            e.each(layer.in_features),
            e.each(n),
            compute,
            epilogue="relu_grad" if masked else "",
            epilogue_reads=e.batch * layer.in_features if masked else e.each(0),
        )
        reads = (upstream, f"{layer.name}.weight", *([layer.input] if masked else []))
        e.op(f"{layer.name}.input_gradient", "backward", work, reads, (gradient(layer.input),))
        if not fused:
            mask(e, layer.input, layer.in_features, relu_outputs)
    weight, bias = gradient(f"{layer.name}.weight"), gradient(f"{layer.name}.bias")
    kept = e.plan.wires.dense_gradient
    work = Gemm(
        e.each(n),
        e.each(layer.in_features),
        e.batch,
        compute,
        transpose_a=True,
        epilogue="bias_grad" if fused else "",
        epilogue_writes=e.each(n if fused else 0),
        output_dtype=kept,
    )
    e.op(
        f"{layer.name}.weight_gradient",
        "backward",
        work,
        (upstream, layer.input),
        (weight, bias) if fused else (weight,),
    )
    if not fused:
        upstream_bytes = e.batch * n * itemsize(compute)
        total = Elementwise("bias_grad", upstream_bytes, e.each(n * itemsize(kept)), e.batch * n, compute)
        e.op(f"{layer.name}.bias_gradient", "backward", total, (upstream,), (bias,))


@forward.register
def _(layer: Dot, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    work = DotInteraction(e.batch, layer.features, layer.dim, e.plan.precision.compute)
    e.op(f"{layer.name}.forward", "forward", work, (layer.bottom, layer.embeddings), (layer.output,))


@backward.register
def _(layer: Dot, e: Emitter, relu_outputs: set[str]) -> None:
    e.activation(gradient(layer.bottom), layer.dim)
    e.activation(gradient(layer.embeddings), (layer.features - 1) * layer.dim)
    work = DotInteraction(e.batch, layer.features, layer.dim, e.plan.precision.compute, backward=True)
    e.op(
        f"{layer.name}.backward",
        "backward",
        work,
        (gradient(layer.output), layer.bottom, layer.embeddings),
        (gradient(layer.bottom), gradient(layer.embeddings)),
    )
    mask(e, layer.bottom, layer.dim, relu_outputs)


@forward.register
def _(layer: Concatenate, e: Emitter) -> None:
    e.activation(layer.output, layer.out_features)
    work = elementwise(e, "concatenate", layer.out_features, layer.out_features, 0)
    e.op(f"{layer.name}.forward", "forward", work, (layer.bottom, layer.embeddings), (layer.output,))


@backward.register
def _(layer: Concatenate, e: Emitter, relu_outputs: set[str]) -> None:
    e.activation(gradient(layer.bottom), layer.bottom_features)
    e.activation(gradient(layer.embeddings), layer.embedding_features)
    work = elementwise(e, "split", layer.out_features, layer.out_features, 0)
    e.op(
        f"{layer.name}.backward",
        "backward",
        work,
        (gradient(layer.output),),
        (gradient(layer.bottom), gradient(layer.embeddings)),
    )
    mask(e, layer.bottom, layer.bottom_features, relu_outputs)


def mask(e: Emitter, tensor: str, width: int, relu_outputs: set[str]) -> None:
    """Pass a gradient back through a ReLU that no product's epilogue covers."""
    if tensor in relu_outputs:
        work = elementwise(e, "relu_grad", 2 * width, width, width)
        e.op(f"{tensor}.relu_gradient", "backward", work, (gradient(tensor), tensor), (gradient(tensor),))


@forward.register
def _(layer: LowRankCross, e: Emitter) -> None:
    compute, n, r = e.plan.precision.compute, layer.features, layer.rank
    hidden, product = e.activation(f"{layer.name}.hidden", r), e.activation(f"{layer.name}.product", n)
    e.activation(layer.output, n)
    down, up, bias = (f"{layer.name}.{p}" for p in ("down", "up", "bias"))
    e.op(
        f"{layer.name}.down.forward",
        "forward",
        Gemm(e.batch, one(r), one(n), compute, transpose_b=True),
        (layer.input, down),
        (hidden,),
    )
    e.op(
        f"{layer.name}.up.forward",
        "forward",
        Gemm(e.batch, one(n), one(r), compute, transpose_b=True, epilogue="bias", epilogue_reads=one(n)),
        (hidden, up, bias),
        (product,),
    )
    e.op(
        f"{layer.name}.forward",
        "forward",
        elementwise(e, "cross", 3 * n, n, 2 * n),
        (layer.base, product, layer.input),
        (layer.output,),
    )


@backward.register
def _(layer: LowRankCross, e: Emitter, relu_outputs: set[str]) -> None:
    compute, n, r = e.plan.precision.compute, layer.features, layer.rank
    hidden, product = f"{layer.name}.hidden", f"{layer.name}.product"
    down, up = f"{layer.name}.down", f"{layer.name}.up"
    upstream, base = gradient(layer.output), f"{layer.base}.product_gradient"
    first_use = base not in e.buffers  # backward order: the last cross layer starts the sum
    e.activation(base, n)
    e.activation(gradient(product), n)
    e.activation(gradient(hidden), r)
    e.op(
        f"{layer.name}.backward",
        "backward",
        elementwise(e, "cross_grad", (3 if first_use else 4) * n, 2 * n, (2 if first_use else 3) * n),
        (upstream, layer.base, product, *([] if first_use else [base])),
        (gradient(product), base),
    )
    e.op(
        f"{layer.name}.up.weight_gradient",
        "backward",
        Gemm(
            one(n),
            one(r),
            e.batch,
            compute,
            transpose_a=True,
            epilogue="bias_grad",
            epilogue_writes=one(n),
            output_dtype=e.plan.wires.dense_gradient,
        ),
        (gradient(product), hidden),
        (gradient(up), gradient(f"{layer.name}.bias")),
    )
    e.op(
        f"{layer.name}.up.input_gradient",
        "backward",
        Gemm(e.batch, one(r), one(n), compute),
        (gradient(product), up),
        (gradient(hidden),),
    )
    e.op(
        f"{layer.name}.down.weight_gradient",
        "backward",
        Gemm(one(r), one(n), e.batch, compute, transpose_a=True, output_dtype=e.plan.wires.dense_gradient),
        (gradient(hidden), layer.input),
        (gradient(down),),
    )
    e.activation(gradient(layer.input), n)
    added = (upstream, base) if layer.input == layer.base else (upstream,)
    e.op(
        f"{layer.name}.down.input_gradient",
        "backward",
        Gemm(e.batch, one(n), one(r), compute, epilogue="add", epilogue_reads=e.batch * n * len(added)),
        (gradient(hidden), down, *added),
        (gradient(layer.input),),
    )


@forward.register
def _(layer: BinaryCrossEntropy, e: Emitter) -> None:
    e.activation("probability", 1)
    composed = not e.plan.fused_loss and "labels" in e.buffers
    work = replace(elementwise(e, "sigmoid", 1, 1, 4), kernels=LOSS_KERNELS[0] if composed else 1)
    name = "loss" if "labels" in e.buffers else "sigmoid"
    e.op(f"{name}.forward", "forward", work, (layer.input,), ("probability",))


@backward.register
def _(layer: BinaryCrossEntropy, e: Emitter, relu_outputs: set[str]) -> None:
    e.activation(gradient(layer.input), 1)
    element = itemsize(e.plan.precision.compute)
    read = e.batch * (element + itemsize(e.buffers["labels"].dtype))
    kernels = 1 if e.plan.fused_loss else LOSS_KERNELS[1]
    compute = e.plan.precision.compute
    work = Elementwise("cross_entropy_grad", read, e.batch * element, e.batch * 2, compute, kernels=kernels)
    e.op("loss.backward", "backward", work, ("probability", "labels"), (gradient(layer.input),))


class GradientBuckets:
    """Gathers dense gradients in backward order and all-reduces them bucket by bucket as they become ready.

    `first`: number of the first bucket. What one rank alone computes needs no all-reduce.
    """

    def __init__(self, e: Emitter, layers: tuple[Layer, ...], first: int = 0) -> None:
        self.e = e
        self.first = first
        self.layers = layers
        self.elements = parameters(layers)
        self.pending: list[str] = []
        self.buckets: list[list[str]] = []

    def after(self, layer: Layer) -> None:
        """The gradients of `layer` are complete."""
        self.pending += [p for p in self.elements if p.startswith(f"{layer.name}.")]
        size = itemsize(self.e.plan.wires.dense_gradient)
        if sum(self.elements[p] for p in self.pending) * size >= float(np.max(self.e.plan.gradient_bucket)):
            self.flush()

    def flush(self) -> None:
        """Close the bucket and all-reduce it."""
        if not self.pending:
            return
        e, names, i = self.e, tuple(gradient(p) for p in self.pending), self.first + len(self.buckets)
        plan = e.plan
        if casts_parameters(plan):
            self._pass(f"dense.cast_{i}", "cast_gradients", names, itemsize(plan.precision.compute))
        if plan.copy_buckets and e.layout.ranks > 1 and e.only is None:
            self._pass(f"dense.bucket_in_{i}", "fill_bucket", names, itemsize(plan.wires.dense_gradient), 1.0)
        if e.layout.ranks > 1 and e.only is None:
            total = sum(self.elements[p] for p in self.pending)
            dtype = e.plan.wires.dense_gradient
            e.buffer(f"dense.bucket_{i}", "communication", total, dtype)
            algorithm = algorithms.all_reduce(e.layout, total * itemsize(dtype), e.plan.all_reduce)
            work = Collective("all_reduce", "world", algorithm, blocks(total, e), dtype, e.layout)
            e.op(f"dense.all_reduce_{i}", "backward", work, names, names, e.streams("world"))
        self.buckets.append(self.pending)
        self.pending = []

    def _pass(self, name: str, function: str, gradients: tuple[str, ...], read: int, operations: float = 0.0) -> None:
        """A kernel for each gradient that reads `read` bytes an element and writes it in the all-reduce's format."""
        e, dtype = self.e, self.e.plan.wires.dense_gradient
        n = float(sum(self.elements[g.removesuffix(".gradient")] for g in gradients))
        work = Elementwise(
            function,
            e.each(n * read),
            e.each(n * itemsize(dtype)),
            e.each(n * operations),
            dtype,
            kernels=len(gradients),
        )
        e.op(name, "update" if function == "empty_bucket" else "backward", work, gradients, gradients)

    def cast(self, name: str) -> None:
        """Every parameter of these layers in the compute precision, a kernel each, before they are read."""
        e, precision = self.e, self.e.plan.precision
        if not casts_parameters(e.plan) or not self.elements:
            return
        n = float(sum(self.elements.values()))
        read, written = (e.each(n * itemsize(d)) for d in (precision.parameters, precision.compute))
        work = Elementwise(
            "cast_parameters", read, written, e.each(0), precision.parameters, kernels=len(self.elements)
        )
        e.op(f"{name}.cast_parameters", "forward", work, tuple(self.elements), ())

    def planned(self) -> list[list[str]]:
        """The buckets that the backward pass will fill, in its order."""
        ahead = GradientBuckets(replace(self.e, ops=[], buffers={}), self.layers, self.first)
        for layer in reversed(self.layers):
            ahead.after(layer)
        ahead.flush()
        return ahead.buckets

    def update(self) -> None:
        """One fused optimizer step per bucket."""
        for i, names in enumerate(self.buckets, self.first):
            self.step(i, names)

    def step(self, i: int, names: Sequence[str]) -> None:
        """The optimizer step of bucket `i`."""
        e = self.e
        if e.plan.copy_buckets and e.layout.ranks > 1 and e.only is None:
            gradients = tuple(gradient(p) for p in names)
            self._pass(f"dense.bucket_out_{i}", "empty_bucket", gradients, itemsize(e.plan.wires.dense_gradient))
        master, compute = e.plan.precision.parameters, e.plan.precision.compute
        optimizer = e.plan.dense_optimizer
        moments = OPTIMIZER_MOMENTS[optimizer]
        mixed = itemsize(master) > itemsize(compute)
        n = float(sum(self.elements[p] for p in names))
        weights = n * itemsize(master if mixed else compute)
        state = weights + n * moments * itemsize(master)  # weights and moments, read and written
        work = Elementwise(
            optimizer,
            e.each(n * itemsize(e.plan.wires.dense_gradient) + state),
            e.each(state + (n * itemsize(compute) if mixed else 0.0)),
            e.each(n * OPTIMIZER_OPERATIONS[optimizer]),
            master,
        )
        e.op(f"dense.update_{i}", "update", work, tuple(gradient(p) for p in names), tuple(names))


class UpdatesAhead:
    """Steps of the previous iteration's gradients, each just before the first layer that reads the weights: what lets
    all-reduces run on under the next forward pass, those of the first layers most urgently."""

    def __init__(self, buckets: GradientBuckets) -> None:
        self.buckets = buckets
        self.left = dict(enumerate(buckets.planned(), buckets.first))

    def before(self, layer: Layer) -> None:
        """`layer` is about to read its weights."""
        for i, names in list(self.left.items()):
            if any(p.startswith(f"{layer.name}.") for p in names):
                self.buckets.step(i, self.left.pop(i))


def blocks(total: float, e: Emitter) -> Array:
    """A buffer of `total` elements cut into one block per rank, (ranks,)."""
    return split_evenly(int(total), e.layout.ranks).astype(np.float64)
