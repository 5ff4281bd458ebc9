"""What the `function` of an Elementwise work computes: one function on one rank, operands in the order of the op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from archmodel.execute.arithmetic import Counted, plain
from archmodel.execute.embedding import gradient_rows, row_sums
from archmodel.execute.machine import SCOPE_OF_ROUTE, Rank
from archmodel.execute.optimizers import STEPS
from archmodel.execute.shards import Bags, Shard
from archmodel.parallel.inputs import SPARSE_FEATURES
from archmodel.parallel.placement import ROUTES, Scope
from archmodel.program import Op
from archmodel.quantities import Array, itemsize

Function = Callable[[Rank, Op], None]
FUNCTIONS: dict[str, Function] = {}


def function(name: str) -> Callable[[Function], Function]:
    """Register a function under the name that Programs use."""

    def register(body: Function) -> Function:
        FUNCTIONS[name] = body
        return body

    return register


def operands(rank: Rank, op: Op) -> list[Counted]:
    """Everything that the op reads, in order."""
    return [rank.operand(name) for name in op.reads]


# --- dense layers -------------------------------------------------------------------------------------------------


@function("concatenate")
def concatenate(rank: Rank, op: Op) -> None:
    """[a, b, ...] side by side."""
    rank.write(op.writes[0], np.concatenate([plain(x) for x in operands(rank, op)], axis=1))


@function("split")
def split(rank: Rank, op: Op) -> None:
    """The gradient of `concatenate`: the first part is as wide as the tensor that the first result is a gradient of."""
    (whole,) = (plain(x) for x in operands(rank, op))
    first = rank.look(op.writes[0].removesuffix(".gradient")).shape[1]
    for name, part in zip(op.writes, np.split(whole, [first], axis=1), strict=True):
        rank.write(name, part)


@function("relu")
def relu(rank: Rank, op: Op) -> None:
    """max(x, 0): a comparison, no arithmetic."""
    (x,) = operands(rank, op)
    rank.write(op.writes[0], np.where(plain(x) > 0, plain(x), 0.0))


@function("bias_grad")
def bias_grad(rank: Rank, op: Op) -> None:
    """Sum of dy over the batch."""
    (upstream,) = operands(rank, op)
    rank.write(op.writes[0], upstream.sum(0))


@function("relu_grad")
def relu_grad(rank: Rank, op: Op) -> None:
    """dy where y > 0."""
    gradient, saved = operands(rank, op)
    rank.write(op.writes[0], gradient * (saved > 0))


@function("cross")
def cross(rank: Rank, op: Op) -> None:
    """x0 * product + x."""
    base, product, x = operands(rank, op)
    rank.write(op.writes[0], base * product + x)


@function("cross_grad")
def cross_grad(rank: Rank, op: Op) -> None:
    """d product = dy * x0, and dy * product, added to what later layers left, for x0."""
    upstream, base, product, *so_far = operands(rank, op)
    to_base = upstream * product
    rank.write(op.writes[0], upstream * base)
    rank.write(op.writes[1], to_base + so_far[0] if so_far else to_base)


@function("sigmoid")
def sigmoid(rank: Rank, op: Op) -> None:
    """1 / (1 + exp(-x)): the click probability."""
    (x,) = operands(rank, op)
    with np.errstate(over="ignore"):
        rank.write(op.writes[0], 1.0 / (1.0 + np.exp(-x)))


@function("cross_entropy_grad")
def cross_entropy_grad(rank: Rank, op: Op) -> None:
    """(p - label) / global batch: gradient of the mean cross-entropy by the logit."""
    probability, label = operands(rank, op)
    rank.write(op.writes[0], (probability - label) / float(sum(rank.machine.local_batch)))


def _dense_step(optimizer: str) -> Function:
    def step(rank: Rank, op: Op) -> None:
        plan, machine = rank.machine.plan, rank.machine
        kept, used = itemsize(plan.precision.parameters), itemsize(plan.precision.compute)
        for gradient, name in zip(op.reads, op.writes, strict=True):
            g, w = rank.operand(gradient), rank.counting(rank.look(name))
            before = rank.optimizer_state[name]
            state = {k: rank.counting(v) for k, v in before.items()}
            weights, after = STEPS[optimizer](
                w, g, dict(state), machine.settings.dense_rate, machine.step, machine.settings
            )
            rank.values[name] = plain(weights)
            rank.optimizer_state[name] = {k: plain(v) for k, v in after.items()}
            moments = sum(v.size for v in before.values())
            if kept > used:  # a master copy is stepped, and rounded into the copy that layers read
                rank.touch(2 * w.size * kept + w.size * used)
            else:
                rank.touch(2 * w.size * used)
            rank.touch(2 * moments * kept)

    return step


for _optimizer in ("sgd", "adagrad", "adam"):
    FUNCTIONS[_optimizer] = _dense_step(_optimizer)


@function("cast_parameters")
def cast_parameters(rank: Rank, op: Op) -> None:
    """Every parameter in the compute precision; the same numbers."""
    precision = rank.machine.plan.precision
    for name in op.reads:
        rank.touch(rank.look(name).size * (itemsize(precision.parameters) + itemsize(precision.compute)))


@function("cast_gradients")
def cast_gradients(rank: Rank, op: Op) -> None:
    """Every gradient from the compute precision to that of its all-reduce; the same numbers."""
    for name in op.reads:
        values = rank.look(name)
        rank.touch(values.size * itemsize(rank.machine.plan.precision.compute))
        rank.write(name, values)


@function("fill_bucket")
def fill_bucket(rank: Rank, op: Op) -> None:
    """Every gradient copied and scaled for the mean. Losses are means over all ranks' samples here: times one."""
    for name in op.reads:
        rank.write(name, rank.operand(name) * 1.0)


@function("empty_bucket")
def empty_bucket(rank: Rank, op: Op) -> None:
    """Every gradient copied back."""
    for name in op.reads:
        rank.write(name, rank.read(name))


# --- embeddings ---------------------------------------------------------------------------------------------------


def route_scope(name: str) -> Scope:
    """Scope of the route that a buffer or op belongs to."""
    return SCOPE_OF_ROUTE[name.split(".")[0]]


def segments(rank: Rank, scope: Scope) -> list[Shard]:
    """Shards behind the columns of a route's feature vectors, in order: what every rank knows of the placement."""
    machine = rank.machine
    if scope == "rank":
        return [shard for other in machine.ranks for shard in other.shards[scope]]
    if scope == "node":
        local_size = machine.program.layout.local_size
        return [shard for first in machine.ranks[::local_size] for shard in first.shards[scope]]
    return machine.ranks[0].shards[scope]


def embedding_columns(rank: Rank, scope: Scope) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each column of a route's features belongs among all tables' columns side by side, and, behind them, those
    of a bottom MLP that one rank runs: they come after that rank's tables."""
    machine = rank.machine
    dims = machine.placement.tables.embedding_dim
    first = np.cumsum(dims) - dims
    columns = [first[s.table] + np.arange(s.column_start, s.column_end) for s in segments(rank, scope)]
    if scope == "rank" and machine.program.bottom_rank is not None:
        before = sum(len(other.shards[scope]) for other in machine.ranks[: machine.program.bottom_rank + 1])
        columns.insert(before, dims.sum() + np.arange(machine.bottom_width))
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns])


@function("cast")
def cast(rank: Rank, op: Op) -> None:
    """The same numbers in another format."""
    (x,) = operands(rank, op)
    rank.write(op.writes[0], plain(x))


@function("combine")
def combine(rank: Rank, op: Op) -> None:
    """Columns of all routes' features in table order, and apart from them those of a bottom MLP that one rank runs."""
    parts = [plain(x) for x in operands(rank, op)]
    out = np.full((parts[0].shape[0], sum(p.shape[1] for p in parts)), np.nan)
    for name, part in zip(op.reads, parts, strict=True):
        out[:, embedding_columns(rank, route_scope(name))] = part
    tables = int(rank.machine.placement.tables.embedding_dim.sum())
    for name, part in zip(op.writes, np.split(out, [tables], axis=1), strict=False):
        rank.write(name, part)


@function("add_padded")
def add_padded(rank: Rank, op: Op) -> None:
    """The gradient of a slice, padded with zeros to all features, added to the gradient of all. The interaction has
    added what is in the slice already; zeros are added to everything."""
    whole = [rank.look(name) for name in op.reads]
    size = itemsize(rank.machine.plan.precision.compute)
    for name, part in zip(op.writes, whole, strict=True):
        padding = np.zeros(part.shape)
        rank.touch(2 * padding.size * size)  # written, read
        rank.write(name, rank.operand(name) + padding)


@function("separate")
def separate(rank: Rank, op: Op) -> None:
    """The reverse of `combine`."""
    whole = np.concatenate([plain(x) for x in operands(rank, op)], axis=1)
    for name in op.writes:
        rank.write(name, whole[:, embedding_columns(rank, route_scope(name))])


def bags_for(rank: Rank, scope: Scope, source: str) -> list[Bags | None]:
    """Indices for every shard of a route: what arrived, or the rank's own samples when nothing has to travel."""
    if source != SPARSE_FEATURES:
        return rank.arrived(source)
    wires = rank.machine.plan.wires
    found: list[Bags | None] = [
        rank.own_features[s.table].within(s.row_start, s.row_end) if s.present else None for s in rank.shards[scope]
    ]
    sizes = [
        b.ids.size * itemsize(wires.index) + b.lengths.size * itemsize(wires.length) for b in found if b is not None
    ]
    rank.hold(f"{ROUTES[scope]}.indices", sum(sizes))
    return found


def _scale_of(rank: Rank, what: object) -> float:
    """Factor of a pass over gradient rows. No loss is scaled here, so that unscaling multiplies by one."""
    return {"rate": -rank.machine.settings.sparse_rate, "loss": 1.0}[str(what)]


@function("gradient_rows")
def rows_of_gradients(rank: Rank, op: Op) -> None:
    """A row for every index: the gradient of its bag, scaled by the learning rate if the work says so."""
    wires, scale = rank.machine.plan.wires, op.work.arguments.get("scale")  # type: ignore[attr-defined]
    source, upstream = op.reads
    scope = route_scope(op.name)
    shards, bags = rank.shards[scope], bags_for(rank, scope, source)
    rows = gradient_rows(shards, bags, rank.look(upstream))
    rank.touch(rows.size * itemsize(wires.lookup_backward))
    for wanted in bags:
        if wanted is not None:
            rank.touch(wanted.ids.size * itemsize(wires.index) + wanted.lengths.size * itemsize(wires.length))
    rank.write(op.writes[0], rows if scale is None else rank.counting(rows) * _scale_of(rank, scale))


@function("scale_rows")
def scale_rows(rank: Rank, op: Op) -> None:
    """Every row times one factor."""
    (rows,) = operands(rank, op)
    rank.write(op.writes[0], rows * _scale_of(rank, op.work.arguments["scale"]))  # type: ignore[attr-defined]


@function("dense_embedding_gradient")
def dense_embedding_gradient(rank: Rank, op: Op) -> None:
    """Gradient of every row of the replicated tables, zero where the rank's samples touch none."""
    wires = rank.machine.plan.wires
    source, upstream_name = op.reads
    scope = route_scope(op.name)
    upstream = rank.look(upstream_name)
    dense: list[Array] = []
    for shard, wanted in zip(rank.shards[scope], bags_for(rank, scope, source), strict=True):
        full = np.zeros(shard.weights.shape)
        if wanted is not None:
            gathered = upstream[:, shard.span][wanted.bag_of_id]
            rows, sums = row_sums(rank.counting(gathered), wanted.ids)
            full[rows] = plain(sums)
            rank.touch(wanted.ids.size * itemsize(wires.index) + wanted.lengths.size * itemsize(wires.length))
            rank.touch(gathered.size * itemsize(wires.lookup_backward))
        dense.append(full.ravel())
    rank.write(op.writes[0], np.concatenate(dense))


@function("dense_embedding_update")
def dense_embedding_update(rank: Rank, op: Op) -> None:
    """Step every row of the replicated tables with the summed gradient."""
    machine = rank.machine
    gradient = rank.operand(op.reads[0])
    shards = rank.shards[route_scope(op.name)]
    ends = np.cumsum([s.weights.size for s in shards])[:-1]
    for shard, flat in zip(shards, np.split(gradient, ends), strict=True):
        g = rank.counting(flat.reshape(shard.weights.shape))
        state = {name: rank.counting(s) for name, s in shard.state.items()}
        rate, settings = machine.settings.sparse_rate, machine.settings
        weights, after = STEPS[shard.optimizer](
            rank.counting(shard.weights), g, dict(state), rate, machine.step, settings
        )
        rank.touch(2 * (shard.weights.size * itemsize(shard.dtype) + shard.state_bytes), shard.tier)
        shard.weights = plain(weights)
        shard.state = {name: plain(values) for name, values in after.items()}
