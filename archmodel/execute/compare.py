"""Programs against what was counted, op by op and rank by rank; numbers must be equal, not close."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np

from archmodel.execute.report import BufferRow, Count, OpRow
from archmodel.execute.traffic import Traffic
from archmodel.program import (
    CacheProbe,
    EmbeddingLookup,
    EmbeddingScatterAdd,
    EmbeddingUpdate,
    Op,
    Program,
    RowMove,
)
from archmodel.quantities import Array

Pairs = list[tuple[Array, Array]]
"""(by the Program, as counted) for every step, both (ranks,)."""


def compare_ops(programs: Sequence[Program], traffic: Sequence[Traffic]) -> tuple[OpRow, ...]:
    """One row per op. `programs`: one per step, lowered from that step's batch."""
    rows = []
    for i, op in enumerate(programs[0].ops):
        ops = [program.ops[i] for program in programs]
        ranks, name = programs[0].ranks, op.name
        flops = [(wide(o.work.flops(), ranks), t.flops[name]) for o, t in zip(ops, traffic, strict=True)]
        memory = _by_key(
            [{str(tier): b for tier, b in o.work.memory_bytes().items()} for o in ops],
            [t.memory[name] for t in traffic],
            ranks,
        )
        wire = _by_key([o.work.wire_bytes() for o in ops], [t.wire[name] for t in traffic], ranks)
        amounts = _by_key([further_amounts(o) for o in ops], [t.amounts[name] for t in traffic], ranks)
        rows.append(OpRow(name, count(flops), memory, wire, amounts))
    stray = {name for t in traffic for part in (t.flops, t.memory, t.wire) for name in part} - {r.op for r in rows}
    unknown = Count(0.0, 1.0, "was counted but is no op of the Program")
    rows += [OpRow(name, unknown, {}, {}, {}) for name in sorted(stray)]
    return tuple(rows)


def compare_buffers(programs: Sequence[Program], traffic: Sequence[Traffic]) -> tuple[BufferRow, ...]:
    """One row per buffer."""
    ranks = programs[0].ranks
    return tuple(
        BufferRow(
            name,
            count(
                [(wide(p.buffers[name].elements, ranks), t.held[name]) for p, t in zip(programs, traffic, strict=True)]
            ),
        )
        for name in programs[0].buffers
    )


def further_amounts(op: Op) -> dict[str, Array]:
    """Per-rank fields of an embedding work that no total shows: indices, bags, distinct row bytes, rows moved, ..."""
    if not isinstance(op.work, EmbeddingLookup | EmbeddingScatterAdd | EmbeddingUpdate | CacheProbe | RowMove):
        return {}
    result: dict[str, Array] = {}
    for f in fields(op.work):
        value = getattr(op.work, f.name)
        if isinstance(value, dict):
            result |= {f"{f.name}.{tier}": amount for tier, amount in value.items()}
        elif isinstance(value, np.ndarray) and f.name != "operations":
            result[f.name] = value
    return result


def count(pairs: Pairs) -> Count:
    """Totals, and the first step and rank where the two differ."""
    differs = ""
    for step, (program, counted) in enumerate(pairs):
        unequal = np.flatnonzero(~(program == counted))
        if len(unequal) and not differs:
            r = int(unequal[0])
            differs = f"{program[r]:,.16g} by the Program, {counted[r]:,.16g} counted (step {step}, rank {r})"
    totals = [float(sum(pair[i].sum() for pair in pairs)) for i in range(2)]
    return Count(totals[0], totals[1], differs)


def wide(values: Array | float, ranks: int) -> Array:
    """Per-rank amounts on every rank."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (ranks,))


def _by_key(programs: Sequence[dict[str, Array]], counted: Sequence[dict[str, Array]], ranks: int) -> dict[str, Count]:
    zero = np.zeros(ranks)
    keys: Iterable[str] = dict.fromkeys(key for amounts in (*programs, *counted) for key in amounts)
    steps = list(zip(programs, counted, strict=True))
    return {
        key: count([(wide(p.get(key, zero), ranks), wide(c.get(key, zero), ranks)) for p, c in steps]) for key in keys
    }
