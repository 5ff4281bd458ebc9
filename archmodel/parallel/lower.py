"""lower(workload, plan, layout) -> Program: one training (or inference) iteration as every rank issues it.

Issue order (what overlaps follows from it and from the streams): distribute indices, look up, start the exchange of
pooled vectors, bottom MLP meanwhile; interaction and top MLP; backward in reverse, all-reducing dense gradients bucket
by bucket; the gradient exchange of embeddings starts before the bottom MLP's backward; updates last.
Neo (arXiv 2104.05158) overlaps the same way. When the bottom MLP runs on one rank, both exchanges carry its output and
gradient too, so the first waits for it and its backward waits for the second.
"""

from __future__ import annotations

from archmodel.parallel import host
from archmodel.parallel.bottom import around_embeddings, bottom_of, reading_exchanged
from archmodel.parallel.counts import Counts, Expected
from archmodel.parallel.dense import (
    GradientBuckets,
    UpdatesAhead,
    backward,
    declare_parameters,
    forward,
    gradient,
    mask,
)
from archmodel.parallel.emit import Emitter
from archmodel.parallel.inputs import copy_inputs, declare_inputs
from archmodel.parallel.placement import Placement, split_evenly
from archmodel.parallel.plan import Plan
from archmodel.parallel.sparse import SparseLowering
from archmodel.program import Program
from archmodel.workloads.layers import EMBEDDINGS, Linear, Listed, unread
from archmodel.workloads.recommendation import Workload


def lower(workload: Workload, plan: Plan, placement: Placement, counts: Counts | None = None) -> Program:
    """The Program of one iteration. `counts`: access counts of a concrete batch; expectations when left out."""
    layout = placement.layout
    local_batch = split_evenly(workload.global_batch, layout.ranks)
    train = workload.mode == "train"
    e = Emitter(plan, layout, local_batch, lookahead=max(placement.prefetch, 1))
    counts = counts or Expected(workload.table_arrays, local_batch)
    layers = workload.layers()
    if any(isinstance(layer, Listed) for layer in layers):
        from archmodel.parallel import layered  # noqa: F401  (registers the lowering of listed layers)
    before, after = around_embeddings(layers)
    bottom = bottom_of(e, before)
    below = bottom.e if bottom else e
    after = reading_exchanged(after) if bottom else after
    declare_inputs(e, below, workload)
    declare_parameters([(below, before), (e, after)], train)
    sparse = SparseLowering(e, placement, counts, train, bottom)

    upper = GradientBuckets(e, after)
    lifo = train and plan.collective_order == "lifo"
    first = len(upper.planned()) if train else 0
    under = GradientBuckets(below, before, first)
    steps = [UpdatesAhead(buckets) for buckets in (under, upper)] if lifo else []
    host.begin(e)
    late = train and host.fetches_late(plan)
    if not late:
        copy_inputs(e, below, workload, counts)
        sparse.input()
    if not (late and placement.prefetch):
        sparse.fetch()
    sparse.lookup()
    if not bottom:
        sparse.exchange()
    under.cast("bottom")
    for layer in before:
        for step in steps:
            step.before(layer)
        forward(layer, below)
    if bottom:
        sparse.exchange()
    if sparse.exchanged:
        sparse.combine()
    else:
        e.activation(EMBEDDINGS, 0)
    upper.cast("top")
    for layer in after:
        for step in steps:
            step.before(layer)
        forward(layer, e)
    bottom_rank = below.only
    if not train:
        return e.program(bottom_rank)

    for name in unread(layers):  # given to the backward pass: the loss of a list of layers is no op
        e.buffer(gradient(name), "activation", e.buffers[name].elements, plan.precision.compute)
    relu_outputs = {x.output for x in layers if isinstance(x, Linear) and x.relu}
    for layer in reversed(after):
        backward(layer, e, relu_outputs)
        upper.after(layer)
    upper.flush()
    if sparse.exchanged:
        sparse.split()
        sparse.exchange_gradients()
    if bottom:
        mask(below, bottom.output, bottom.width, relu_outputs)
    for layer in reversed(before):
        backward(layer, below, relu_outputs)
        under.after(layer)
    under.flush()
    sparse.gradient_rows()
    host.step(e, (upper, under))
    fused = e.plan.sparse_update == "exact"
    if fused:
        sparse.update()
        sparse.write_back()
    if not lifo:
        upper.update()
        under.update()
    if not fused:  # frameworks step the dense layers first
        sparse.update()
        sparse.write_back()
    if late:
        copy_inputs(e, below, workload, counts)
        sparse.input()
        if placement.prefetch:
            sparse.fetch()
    return e.program(bottom_rank)
