"""What each all-to-all of a Program carries: how a rank packs its messages and what it makes of those that come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from archmodel.execute.collectives import all_to_all
from archmodel.execute.errors import ExecutionError
from archmodel.execute.functions import route_scope
from archmodel.execute.listed.exchange import parts_of, vectors
from archmodel.execute.machine import NOTHING, Machine
from archmodel.execute.network import Payload
from archmodel.execute.shards import Bags, joined
from archmodel.program import Op
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import DENSE_INPUT, Exchange

Messages = dict[tuple[int, int], list[tuple[Payload, str]]]


def input_exchange(machine: Machine, op: Op, members: Sequence[int]) -> None:
    """Every rank sends every other, for each shard with rows there, its samples' lengths and row ids in the shard."""
    scope, wires = route_scope(op.name), machine.plan.wires
    messages: Messages = {}
    for source in members:
        for target in members:
            packed: list[tuple[Payload, str]] = []
            for shard in machine.ranks[target].shards[scope]:
                if shard.present:
                    mine = machine.ranks[source].own_features[shard.table].within(shard.row_start, shard.row_end)
                    packed += [(mine.lengths, wires.length), (mine.ids, wires.index)]
            messages[source, target] = packed
    received = all_to_all(machine.network, members, messages)
    _count_memory(machine, messages)
    for target in members:
        rank = machine.ranks[target]
        arrived: list[Bags | None] = []
        position = 0
        for shard in rank.shards[scope]:
            if not shard.present:
                arrived.append(None)
                continue
            parts = []
            for source in machine.sources(scope):
                lengths, ids = received[source, target][position : position + 2]
                parts.append(Bags(lengths.astype(np.int64), ids.astype(np.int64)))
            arrived.append(joined(parts))
            position += 2
        (rank.coming_batch.bags if machine.ahead else rank.bags)[op.writes[0]] = arrived
        sizes = [b.ids.size * itemsize(wires.index) + b.lengths.size * itemsize(wires.length) for b in arrived if b]
        rank.hold(op.writes[0], sum(sizes))


def _count_memory(machine: Machine, messages: Messages) -> None:
    """Every message is read where it is sent from and written where it arrives, also what a rank keeps."""
    for (source, target), packed in messages.items():
        size = sum(values.size * itemsize(dtype) for values, dtype in packed)
        machine.ranks[source].touch(size)
        machine.ranks[target].touch(size)


def rows_exchange(machine: Machine, op: Op, members: Sequence[int]) -> None:
    """Rows are samples, in member order: each member gets its own samples' vectors, from all, side by side. A rank's
    vectors may lie in several buffers, of which those that it has nothing in are left out."""
    dtype = machine.program.buffers[op.writes[0]].dtype
    batches = [machine.local_batch[rank] for rank in members]
    edges = np.cumsum(batches)[:-1]
    messages: Messages = {}
    for source in members:
        brought = [v for name in op.reads if (v := machine.ranks[source].read(name)).shape != NOTHING]
        vectors = np.concatenate(brought, axis=1) if brought else np.zeros((sum(batches), 0))
        _expect(op, vectors, rows=sum(batches), columns=machine.columns(source, route_scope(op.name)))
        for target, part in zip(members, np.split(vectors, edges), strict=True):
            messages[source, target] = [(part, dtype)]
    received = all_to_all(machine.network, members, messages)
    for target in members:
        parts = [_numbers(received[source, target][0]) for source in members]
        machine.ranks[target].write(op.writes[0], np.concatenate(parts, axis=1))


def columns_exchange(machine: Machine, op: Op, members: Sequence[int]) -> None:
    """The reverse: each member gets the columns that it made, of all members' samples."""
    scope, dtype = route_scope(op.name), machine.program.buffers[op.reads[0]].dtype
    widths = [machine.columns(rank, scope) for rank in members]
    messages: Messages = {}
    for source in members:
        vectors = machine.ranks[source].read(op.reads[0])
        _expect(op, vectors, rows=machine.local_batch[source], columns=sum(widths))
        for target, part in zip(members, np.split(vectors, np.cumsum(widths)[:-1], axis=1), strict=True):
            messages[source, target] = [(part, dtype)]
    received = all_to_all(machine.network, members, messages)
    for target in members:
        parts = [_numbers(received[source, target][0]) for source in members]
        rank, vectors = machine.ranks[target], np.concatenate(parts)
        if scope != "rank" or machine.program.bottom_rank is None:
            rank.write(op.writes[0], vectors)
            continue
        *pooled, bottom = op.writes
        tables, rest = np.split(vectors, [rank.width(scope)], axis=1)
        for name in pooled:
            rank.write(name, tables)
        rank.write(bottom, rest if target == machine.program.bottom_rank else np.zeros(NOTHING))


def listed_exchange(machine: Machine, op: Op, layer: Exchange) -> None:
    """Vectors of unlisted tables: of every rank's samples each owner has an equal part, and sends it; backward the same
    parts of the gradient go back to their owners."""
    forward_way = op.phase == "forward"
    members = list(machine.layout_ranks)
    parts: dict[int, Sequence[Array]] = {}
    for rank in machine.ranks:
        size = parts_of(machine, layer, rank.index)
        mine = vectors(rank.look(DENSE_INPUT), layer.width) if forward_way else rank.look(op.reads[0])
        whole = mine.ravel()
        parts[rank.index] = [whole[j * size : (j + 1) * size] for j in members]
    dtype = _wire(machine, forward_way)
    messages: Messages = {}
    for samples_of in members:
        for owner in members:
            pair = (owner, samples_of) if forward_way else (samples_of, owner)
            messages[pair] = [(parts[samples_of][owner], dtype)]
    received = all_to_all(machine.network, members, messages)
    _count_memory(machine, messages)
    for target in members:
        arrived = np.concatenate([_numbers(received[source, target][0]) for source in members])
        values = arrived.reshape(machine.local_batch[target], layer.width) if forward_way else arrived
        machine.ranks[target].place(op.writes[0], values)


def _wire(machine: Machine, forward_way: bool) -> str:
    wires = machine.plan.wires
    return wires.lookup_forward if forward_way else wires.lookup_backward


def _numbers(payload: Payload) -> Array:
    return payload.astype(np.float64, copy=False)


def _expect(op: Op, values: Array, rows: int, columns: int | None = None) -> None:
    wanted = (rows, values.shape[1] if columns is None else columns)
    if values.shape != wanted:
        raise ExecutionError(f"{op.name}: {op.reads[0]} has shape {values.shape}, {wanted} is needed")


EXCHANGES: dict[str, Callable[[Machine, Op, Sequence[int]], None]] = {
    "input_all_to_all": input_exchange,
    "pooled_all_to_all": rows_exchange,
    "gradient_all_to_all": columns_exchange,
}
"""By the part of the op's name after its route."""
