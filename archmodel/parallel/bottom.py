"""The layers below the interaction when one rank runs them alone, for the whole batch.

NVIDIA's PyTorch DLRM does so: GPU 0 runs the bottom MLP and its output travels as one more vector of that GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from archmodel.parallel.emit import Emitter
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import EMBEDDINGS, Concatenate, Dot, Layer, Linear
from archmodel.workloads.recommendation import Workload

BOTTOM = "bottom.features"
"""The bottom MLP's output for a rank's own samples, after the exchange."""


@dataclass(frozen=True)
class Bottom:
    """The bottom MLP on one rank: `e` emits for that rank alone; `output` is the tensor it leaves, `width` columns."""

    e: Emitter
    output: str
    width: int


def around_embeddings(layers: tuple[Layer, ...]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Layers before the first that reads the pooled embeddings, and the rest."""
    for i, layer in enumerate(layers):
        if getattr(layer, "embeddings", None) == EMBEDDINGS:
            return layers[:i], layers[i:]
    return layers, ()


def bottom_of(e: Emitter, before: tuple[Layer, ...]) -> Bottom | None:
    """Where the plan puts `before` if on one rank of several; None when every rank runs them, or there are none."""
    rank = e.plan.bottom_mlp.rank
    if rank is None or e.layout.ranks == 1 or not before:
        return None
    last = before[-1]
    assert isinstance(last, Linear)  # what a bottom MLP is made of
    return Bottom(e.alone(rank), last.output, last.out_features)


def reading_exchanged(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers above, reading what came out of the exchange in place of the bottom MLP's output."""
    return tuple(replace(x, bottom=BOTTOM) if isinstance(x, Dot | Concatenate) else x for x in layers)


def bottom_load(workload: Workload, plan: Plan, layout: Layout) -> Array:
    """Bytes that the bottom MLP moves on each rank beside the tables, (ranks,): tensors between its layers, and its
    output on the wire. Zeros when all ranks run it."""
    load, rank = np.zeros(layout.ranks), plan.bottom_mlp.rank
    if rank is None or not 0 <= rank < layout.ranks:
        return load
    linear = [x for x in around_embeddings(workload.layers())[0] if isinstance(x, Linear)]
    if linear:
        tensors = sum(x.in_features + x.out_features for x in linear) * itemsize(plan.precision.compute)
        wire = linear[-1].out_features * itemsize(plan.wires.lookup_forward)
        load[rank] = workload.global_batch * (tensors + wire)
    return load
