"""lower(workload, plan, layout) -> Program: one training (or inference) iteration as every rank issues it.

Issue order (what overlaps follows from it and from the streams): distribute indices, look up, start the exchange of
pooled vectors, bottom MLP meanwhile; interaction and top MLP; backward in reverse, all-reducing dense gradients bucket
by bucket; the gradient exchange of embeddings starts before the bottom MLP's backward; updates last.
Neo (arXiv 2104.05158) overlaps the same way.
"""

from __future__ import annotations

from archmodel.parallel.counts import Counts, Expected
from archmodel.parallel.dense import GradientBuckets, backward, declare_parameters, forward
from archmodel.parallel.emit import Emitter
from archmodel.parallel.placement import Placement, split_evenly
from archmodel.parallel.plan import Plan
from archmodel.parallel.sparse import SparseLowering
from archmodel.program import Program
from archmodel.workloads.layers import DENSE_INPUT, EMBEDDINGS, Layer, Linear
from archmodel.workloads.recommendation import Workload


def lower(workload: Workload, plan: Plan, placement: Placement, counts: Counts | None = None) -> Program:
    """The Program of one iteration. `counts`: access counts of a concrete batch; expectations when left out."""
    layout = placement.layout
    local_batch = split_evenly(workload.global_batch, layout.ranks)
    train = workload.mode == "train"
    e = Emitter(plan, layout, local_batch)
    layers = workload.layers()
    _declare_inputs(e, workload)
    declare_parameters(e, layers, train)
    sparse = SparseLowering(e, placement, counts or Expected(workload.table_arrays, local_batch), train)
    before, after = _around_embeddings(layers)

    sparse.input()
    if sparse.routes:
        sparse.lookup()
        sparse.exchange()
    for layer in before:
        forward(layer, e)
    if sparse.routes:
        sparse.combine()
    else:
        e.activation(EMBEDDINGS, 0)
    for layer in after:
        forward(layer, e)
    if not train:
        return e.program()

    relu_outputs = {x.output for x in layers if isinstance(x, Linear) and x.relu}
    buckets = GradientBuckets(e, layers)
    for layer in reversed(after):
        backward(layer, e, relu_outputs)
        buckets.after(layer)
    buckets.flush()
    if sparse.routes:
        sparse.split()
        sparse.exchange_gradients()
    for layer in reversed(before):
        backward(layer, e, relu_outputs)
        buckets.after(layer)
    buckets.flush()
    if sparse.routes:
        sparse.update()
    buckets.update()
    return e.program()


def _declare_inputs(e: Emitter, workload: Workload) -> None:
    width = getattr(workload, "dense_features", 0)
    e.buffer(DENSE_INPUT, "input", e.batch * width, e.plan.precision.compute, prefetched=True)
    if workload.mode == "train":
        e.buffer("labels", "input", e.batch, "fp32", prefetched=True)


def _around_embeddings(layers: tuple[Layer, ...]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Layers before the first that reads the pooled embeddings, and the rest."""
    for i, layer in enumerate(layers):
        if getattr(layer, "embeddings", None) == EMBEDDINGS:
            return layers[:i], layers[i:]
    return layers, ()
