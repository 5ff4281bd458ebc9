"""Run a Program in program order on simulated ranks: `run(work, op, machine)` per kind of work, and `run_plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from archmodel.errors import suggestion
from archmodel.execute import collectives, listed
from archmodel.execute.arithmetic import Tally, plain
from archmodel.execute.batch import Samples, draw
from archmodel.execute.coverage import tiling_problems
from archmodel.execute.embedding import fetch, lookup, probe, scatter_add, update, write_back
from archmodel.execute.errors import ExecutionError
from archmodel.execute.exchange import EXCHANGES, listed_exchange
from archmodel.execute.formats import FORMATS
from archmodel.execute.functions import FUNCTIONS, bags_for, route_scope
from archmodel.execute.gather import gather
from archmodel.execute.listed import operation_of
from archmodel.execute.machine import Machine, Rank, WireMode
from archmodel.execute.parameters import Parameters, digest, initial
from archmodel.execute.queue import Queue
from archmodel.execute.settings import Settings
from archmodel.execute.shards import Bags
from archmodel.execute.traffic import Traffic
from archmodel.parallel.inputs import HOST_FLOAT, SPARSE_FEATURES, tables_with_lengths
from archmodel.parallel.lower import lower
from archmodel.parallel.placement import ROUTES, Placement, Scope
from archmodel.parallel.plan import Plan
from archmodel.program import (
    AllToAll,
    CacheProbe,
    Collective,
    DotInteraction,
    Elementwise,
    EmbeddingLookup,
    EmbeddingScatterAdd,
    EmbeddingUpdate,
    Gemm,
    HostCopy,
    HostIssue,
    Op,
    Program,
    RowMove,
)
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import EMBEDDINGS, Exchange
from archmodel.workloads.recommendation import Workload


@singledispatch
def run(work: object, op: Op, machine: Machine) -> None:
    """Do one op's work on every rank."""
    raise ExecutionError(f"{op.name}: the executor has no rule for work of kind {type(work).__name__}")


@run.register
def _(work: Gemm, op: Op, machine: Machine) -> None:
    for rank in machine.ranks:
        a, b, *extra = (rank.operand(name) for name in op.reads)
        product = plain((a.T if work.transpose_a else a) @ (b.T if work.transpose_b else b))
        # the epilogue is fused into the product and counts no operations
        if work.epilogue in ("bias", "bias_relu"):
            product = product + plain(extra[0])
        if work.epilogue == "bias_relu":
            product = np.maximum(product, 0.0)
        elif work.epilogue == "relu_grad":
            product = np.where(plain(extra[0]) > 0, product, 0.0)
        elif work.epilogue == "add":
            product = product + sum(plain(x) for x in extra)
        elif work.epilogue == "bias_grad":
            rank.write(op.writes[1], plain(a).sum(0))
        elif work.epilogue not in ("", "bias"):
            raise ExecutionError(f"{op.name}: the executor has no epilogue {work.epilogue!r}")
        rank.write(op.writes[0], product)


@run.register
def _(work: Elementwise, op: Op, machine: Machine) -> None:
    if work.function not in FUNCTIONS:
        raise ExecutionError(
            f"{op.name}: no function is called {work.function!r}; {suggestion(work.function, FUNCTIONS)}"
        )
    for rank in machine.ranks:
        FUNCTIONS[work.function](rank, op)


@run.register
def _(work: DotInteraction, op: Op, machine: Machine) -> None:
    for rank in machine.ranks:
        *upstream, bottom, embeddings = (plain(rank.operand(name)) for name in op.reads)
        vectors = np.concatenate([bottom, embeddings], axis=1).reshape(len(bottom), work.features, work.dim)
        x = rank.counting(vectors)
        rows, columns = np.tril_indices(vectors.shape[1], -1)
        if not work.backward:
            z = plain(x @ x.transpose(0, 2, 1))
            rank.write(op.writes[0], np.concatenate([bottom, z[:, rows, columns]], axis=1))
            continue
        dz = np.zeros((len(bottom), vectors.shape[1], vectors.shape[1]))
        dz[:, rows, columns] = upstream[0][:, work.dim :]
        dz[:, columns, rows] = upstream[0][:, work.dim :]  # dZ + dZ^T
        dx = plain(rank.counting(dz) @ x)
        rank.write(op.writes[0], dx[:, 0] + upstream[0][:, : work.dim])
        rank.write(op.writes[1], dx[:, 1:].reshape(len(bottom), embeddings.shape[1]))


@run.register
def _(work: EmbeddingLookup, op: Op, machine: Machine) -> None:
    scope = route_scope(op.name)
    for rank in machine.ranks:
        bags = bags_for(rank, scope, op.reads[0])
        whole = op.reads[0].endswith(".indices")
        samples = sum(machine.local_batch) if whole else machine.local_batch[rank.index]
        rank.place(op.writes[0], lookup(rank, rank.shards[scope], bags, samples, work.output_dtype))


@run.register
def _(work: EmbeddingUpdate, op: Op, machine: Machine) -> None:
    scope = route_scope(op.name)
    for rank in machine.ranks:
        bags = bags_for(rank, scope, op.reads[0])
        update(rank, rank.shards[scope], bags, rank.look(op.reads[1]), machine.settings.sparse_rate, machine.step)


@run.register
def _(work: CacheProbe, op: Op, machine: Machine) -> None:
    scope = route_scope(op.name)
    for rank in machine.ranks:
        probe(rank, rank.shards[scope], bags_for(rank, scope, op.reads[0]), op.writes[0])


@run.register
def _(work: RowMove, op: Op, machine: Machine) -> None:
    scope = route_scope(op.name)
    for rank in machine.ranks:
        if work.write_back:
            if machine.train:
                write_back(rank, rank.shards[scope])
            continue
        for tier, taken in fetch(rank, rank.shards[scope], _bags_of(rank, scope)).items():
            rank.hold(f"{op.name.split('.')[0]}.staged.{tier}", taken)


@run.register
def _(work: EmbeddingScatterAdd, op: Op, machine: Machine) -> None:
    scope = route_scope(op.name)
    for rank in machine.ranks:
        bags = bags_for(rank, scope, op.reads[0])
        scatter_add(rank, rank.shards[scope], bags, rank.look(op.reads[1]))


@run.register
def _(work: HostIssue, op: Op, machine: Machine) -> None:
    """Takes time, not data."""


@run.register
def _(work: HostCopy, op: Op, machine: Machine) -> None:
    wires = machine.plan.wires
    uneven = tables_with_lengths(machine.placement.tables)
    filled = machine.placement.tables.num_embeddings > 0
    for rank in machine.ranks:
        dense = machine.give_dense(rank) * HOST_FLOAT
        bags = machine.give_sparse(rank)
        sparse = sum(b.ids.size * itemsize(wires.index) for b in bags)
        if uneven:
            sparse += sum(b.lengths.size * itemsize(wires.length) for b, has in zip(bags, filled, strict=True) if has)
        if SPARSE_FEATURES in op.writes:
            rank.hold(SPARSE_FEATURES, sparse)
        for tier in ("ddr", "hbm"):
            rank.touch(dense + sparse, tier)


@run.register
def _(work: AllToAll, op: Op, machine: Machine) -> None:
    name, _, what = op.name.partition(".")
    if isinstance(layer := machine.layers.get(name), Exchange):
        listed_exchange(machine, op, layer)
        return
    if what not in EXCHANGES:
        raise ExecutionError(f"{op.name}: the executor does not know what it carries; {suggestion(what, EXCHANGES)}")
    for members in machine.program.layout.members(work.group).tolist():
        EXCHANGES[what](machine, op, members)


@run.register
def _(work: Collective, op: Op, machine: Machine) -> None:
    for members in machine.program.layout.members(work.group).tolist():
        inputs = {r: [machine.ranks[r].read(name) for name in op.reads] for r in members}
        flat = {r: np.concatenate([x.ravel() for x in arrays]) for r, arrays in inputs.items()}
        blocks = [int(work.blocks[r]) for r in members]
        if work.kind == "all_reduce":
            result = collectives.all_reduce(machine.network, members, flat, blocks, work.algorithm, work.dtype)
        elif work.kind == "reduce_scatter":
            result = collectives.reduce_scatter(machine.network, members, flat, blocks, work.algorithm, work.dtype)
        elif work.kind == "all_gather":
            if any(flat[r].size != size for r, size in zip(members, blocks, strict=True)):
                raise ExecutionError(f"{op.name}: the buffers are not of the sizes that the Program gives their blocks")
            result = collectives.all_gather(machine.network, members, flat, work.algorithm, work.dtype)
        else:
            raise ExecutionError(f"{op.name}: {work.kind} is no collective of one buffer")
        for r in members:
            _write_collective(work, op, machine, r, inputs[r], result[r])


def _write_collective(work: Collective, op: Op, machine: Machine, r: int, inputs: list[Array], result: Array) -> None:
    """Give the flat result its shape again and write it."""
    rank = machine.ranks[r]
    if work.kind == "all_reduce":
        ends = np.cumsum([x.size for x in inputs])[:-1]
        for name, part, old in zip(op.writes, np.split(result, ends), inputs, strict=True):
            rank.write(name, part.reshape(old.shape))
        bucket = op.name.replace("all_reduce", "bucket")
        if bucket in machine.program.buffers:
            rank.hold(bucket, result.size)
        return
    if work.kind == "all_gather":
        rows = sum(machine.local_batch)
    else:
        rows = machine.local_batch[r] if work.group == "world" else machine.rail_batch(r)
    rank.write(op.writes[0], result.reshape(rows, inputs[0].shape[1]))


@dataclass(frozen=True)
class Execution:
    """What a run left. `losses` (steps,) are means over the global batch before each step (NaN without labels);
    `predictions` (steps, global_batch) click probabilities; `embeddings` (global_batch, width) the pooled vectors
    of the first step, tables side by side; `traffic` one per step. Of a list of layers `predictions` are means of the
    outputs that nothing takes. `order`: collectives as the network took them, (step that issued it, op)."""

    losses: Array
    predictions: Array
    embeddings: Array
    parameters: Parameters
    traffic: tuple[Traffic, ...]
    order: tuple[tuple[int, str], ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of every bit of the results."""
        return digest(self.losses, self.predictions, self.embeddings, *self.parameters.arrays)


def run_plan(
    workload: Workload,
    plan: Plan,
    placement: Placement,
    *,
    steps: int = 3,
    seed: int = 0,
    wires: WireMode = "exact",
    program: Program | None = None,
    batches: Sequence[Samples] | None = None,
    parameters: Parameters | None = None,
    settings: Settings | None = None,
) -> Execution:
    """Run `steps` iterations of the design's Program and gather what they leave.

    `wires`: "exact" computes and communicates in float64; "planned" rounds what travels to the plan's formats.
    `program`: lowered from the other arguments when left out; its ops, shapes and algorithms matter, not its
    counts. `batches` (steps of them) and `parameters` are drawn from `seed` when left out. Raises ExecutionError.
    """
    if problems := tiling_problems(placement):
        raise ExecutionError("; ".join(problems))
    program = program or lower(workload, plan, placement)
    train = workload.mode == "train"
    _check_wires(plan, wires)
    if batches is None:
        batches = [draw(workload, program.ranks, seed, step) for step in range(steps)]
    if len(batches) != steps or steps < 1:
        raise ExecutionError(f"{steps} steps need as many batches, at least one; {len(batches)} were given")
    _check_batches(batches, placement, program)
    layers = listed.layers_by_name(workload.layers())
    machine = Machine(program, placement, plan, train, settings or Settings(), wires, layers)
    machine.fill(parameters or initial(workload, seed))
    traffic = tuple(Traffic(program.ranks) for _ in batches)
    losses, predictions, embeddings = [], [], []
    network = Queue(machine, traffic, do, lifo=train and plan.collective_order == "lifo")
    depth = max(placement.prefetch, 1) if plan.prefetch_input else 0
    inputs = [op for op in program.ops if depth and _is_ahead(op, placement)]
    early = {op.name for op in inputs}
    first_backward = next((i for i, op in enumerate(program.ops) if op.phase == "backward"), len(program.ops))
    ahead = [op for op in program.ops[:first_backward] if op.phase == "update"]
    for k in range(min(depth, len(batches))):
        _fetch(machine, inputs, batches[k], traffic[k], k + 1)
    if depth:
        machine.turn()
    for i, batch in enumerate(batches):
        machine.take(batch, traffic[i])
        machine.begin()
        listed.begin(machine)
        for at, op in enumerate(program.ops):
            if at == first_backward:
                listed.begin_backward(machine)
            if at < first_backward and op.phase == "update":
                if i:
                    _step_late(op, machine, network, traffic, i)
            elif op.name not in early:
                network.do(op, i)
            elif i + depth < len(batches):
                _fetch(machine, [op], batches[i + depth], traffic[i + depth], depth)
                machine.take(batch, traffic[i])
        if train:
            listed.end_backward(machine)
        machine.turn()
        loss, found = _result(machine, batch)
        losses.append(loss)
        predictions.append(found)
        if i == 0:
            embeddings = [rank.look(EMBEDDINGS) for rank in machine.ranks]
    for op in ahead:
        _step_late(op, machine, network, traffic, len(batches))
    network.drain()
    if not machine.network.quiet:
        raise ExecutionError("a message was sent that nobody took")
    parameters = gather(machine)
    order = tuple(network.order)
    return Execution(np.array(losses), np.stack(predictions), np.concatenate(embeddings), parameters, traffic, order)


def _step_late(op: Op, machine: Machine, network: Queue, traffic: Sequence[Traffic], i: int) -> None:
    """In iteration `i`, step weights by the gradients of the one before, in whose counts it belongs."""
    now, step = machine.traffic, machine.step
    network.settle(op)
    machine.traffic, machine.step = traffic[i - 1], i
    do(op, machine)
    machine.traffic, machine.step = now, step


def _check_wires(plan: Plan, wires: str) -> None:
    if wires not in ("exact", "planned"):
        raise ExecutionError(f'wires is "exact" or "planned", not {wires!r}')
    for name in ("lookup_forward", "lookup_backward", "dense_gradient"):
        dtype = getattr(plan.wires, name)
        if wires == "planned" and dtype not in FORMATS:
            raise ExecutionError(
                f"plan.wires.{name}: {dtype} holds no real numbers without a scale; {', '.join(FORMATS)} do"
            )


def do(op: Op, machine: Machine) -> None:
    """Run one op and count the operations that its arithmetic did."""
    machine.op = op.name
    for rank in machine.ranks:
        rank.tally = Tally()
    if found := operation_of(op, machine):
        operation, layer = found
        for rank in machine.ranks:
            operation(rank, layer, op)
    else:
        run(op.work, op, machine)
    for rank in machine.ranks:
        machine.traffic.operate(op.name, rank.index, rank.tally.operations)


def _bags_of(rank: Rank, scope: Scope) -> list[Bags | None]:
    """Indices for every shard of a route, of the batch that the op at work serves."""
    name = f"{ROUTES[scope]}.indices"
    distributed = rank.machine.program.ranks > 1
    return bags_for(rank, scope, name if distributed else SPARSE_FEATURES)


def _is_ahead(op: Op, placement: Placement) -> bool:
    """Whether an op works for a later batch when inputs are prefetched."""
    cached = isinstance(op.work, CacheProbe) or (isinstance(op.work, RowMove) and not op.work.write_back)
    return placement.prefetch > 0 if cached else op.phase == "input"


def _fetch(machine: Machine, ops: Sequence[Op], batch: Samples, traffic: Traffic, ahead: int) -> None:
    """Copy and distribute a batch, and fetch rows for it, ahead of its turn."""
    machine.ahead = ahead
    machine.take(batch, traffic)
    for op in ops:
        do(op, machine)
    machine.ahead = 0


def _check_batches(batches: Sequence[Samples], placement: Placement, program: Program) -> None:
    rows = placement.tables.num_embeddings
    declared = np.broadcast_to(program.local_batch, (program.ranks,))
    for b, samples in enumerate(batches):
        if not np.array_equal(samples.sparse.local_batch, declared):
            raise ExecutionError(
                f"batch {b} is cut over ranks as {samples.sparse.local_batch}, the Program as {declared}"
            )
        if len(samples.sparse.ids) != len(rows):
            raise ExecutionError(f"batch {b} has indices for {len(samples.sparse.ids)} tables of {len(rows)}")
        for t, (lengths, ids) in enumerate(zip(samples.sparse.lengths, samples.sparse.ids, strict=True)):
            name = placement.tables.names[t]
            if len(lengths) != len(samples) or lengths.sum() != len(ids):
                raise ExecutionError(f"batch {b}: lengths and row ids of table {name} do not agree")
            if len(ids) and not (ids.min() >= 0 and ids.max() < rows[t]):
                raise ExecutionError(f"batch {b}: a row id of table {name} is outside its {rows[t]} rows")


def _result(machine: Machine, batch: Samples) -> tuple[float, Array]:
    """Mean loss over the global batch (of a recommendation model: of log(1 + exp(z)) - label z), and predictions."""
    if machine.layers:
        loss, predictions = listed.losses(machine, batch.labels)
        return (loss if machine.train else float("nan")), predictions
    predictions = np.concatenate([rank.look("probability")[:, 0] for rank in machine.ranks])
    if not machine.train:
        return float("nan"), predictions
    logit = machine.program.op("loss.forward").reads[0]
    z = np.concatenate([rank.look(logit)[:, 0] for rank in machine.ranks])
    return float(np.mean(np.logaddexp(0.0, z) - batch.labels * z)), predictions
