"""Collectives over a box of ranks on real arrays, counting every byte that endpoints read, write and send.

Two endpoints: kernels that work in the device's memory, and an engine with memory of its own. Steps are those of
`archmodel.collectives.endpoint_traffic`, whose closed forms the counts must equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np

from archmodel.collectives.endpoint_traffic import Schedule, phases
from archmodel.execute.errors import ExecutionError
from archmodel.quantities import Array


@dataclass
class Counted:
    """Elements per rank, (ranks,): on links, from and to device memory, and sums done."""

    ranks: int
    sent: Array = field(init=False)
    reads: Array = field(init=False)
    writes: Array = field(init=False)
    reduced: Array = field(init=False)

    def __post_init__(self) -> None:
        for name in ("sent", "reads", "writes", "reduced"):
            setattr(self, name, np.zeros(self.ranks))


Rows = list[list[int]]


def rows_of(sizes: Sequence[int], dimension: int) -> Rows:
    """Ranks of every row along a dimension; rank = i_0 + n_0 (i_1 + n_1 (...))."""
    places = np.arange(int(np.prod(sizes))).reshape(tuple(reversed(sizes)))
    lines = np.moveaxis(places, len(sizes) - 1 - dimension, -1)
    return [[int(r) for r in line] for line in lines.reshape(-1, sizes[dimension])]


def all_reduce(
    buffers: Sequence[Array], sizes: Sequence[int], schedule: Schedule = "hierarchical", *, engine: bool = False
) -> tuple[list[Array], Counted]:
    """Every rank's sum of all buffers, phase by phase over rings, and what it took. Raises ExecutionError.

    `engine`: buffers are read once into the engine's memory and results written once from there.
    """
    return _through("all_reduce", buffers, sizes, schedule, engine)


def reduce_scatter(
    buffers: Sequence[Array], sizes: Sequence[int], *, engine: bool = False
) -> tuple[list[Array], Counted]:
    """The block of the sum that each rank is left, and what it took; an engine writes that block only."""
    held, counted = _through("reduce_scatter", buffers, sizes, "hierarchical", engine)
    return [b[_own(rank, b.size, sizes)] for rank, b in enumerate(held)], counted


def all_gather(blocks: Sequence[Array], sizes: Sequence[int], *, engine: bool = False) -> tuple[list[Array], Counted]:
    """All equal blocks on every rank, as `reduce_scatter` left them; an engine reads a rank's own, which is in place,
    and writes the others."""
    total = sum(b.size for b in blocks)
    buffers = [np.zeros(total) for _ in blocks]
    for rank, block in enumerate(blocks):
        buffers[rank][_own(rank, total, sizes)] = block
    return _through("all_gather", buffers, sizes, "hierarchical", engine)


def _spans(rank: int, size: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """What a rank works on: the whole buffer, its block of that along the first dimension, its block of this, ..."""
    spans = [(0, size)]
    for n in sizes:
        if n > 1:
            spans.append(_blocks(spans[-1], n)[rank % n])
        rank //= n
    return spans


def _own(rank: int, size: int, sizes: Sequence[int]) -> slice:
    return slice(*_spans(rank, size, sizes)[-1])


def _through(
    kind: str, buffers: Sequence[Array], sizes: Sequence[int], schedule: Schedule, engine: bool
) -> tuple[list[Array], Counted]:
    """All phases of a collective."""
    ranks = int(np.prod(sizes))
    if len(buffers) != ranks:
        raise ExecutionError(f"{len(buffers)} buffers for {ranks} ranks of {' x '.join(map(str, sizes))}")
    counted = Counted(ranks)
    memory = _Nothing() if engine else counted
    held = [np.asarray(b, dtype=np.float64).copy() for b in buffers]
    gathers = kind == "all_gather"
    spans = [_spans(r, b.size, sizes) if gathers else [(0, b.size)] for r, b in enumerate(held)]
    if engine and ranks > 1:
        own = np.array([_own(r, b.size, sizes).stop - _own(r, b.size, sizes).start for r, b in enumerate(held)])
        whole = np.array([b.size for b in held])
        counted.reads += own if gathers else whole
        counted.writes += {"all_reduce": whole, "reduce_scatter": own, "all_gather": whole - own}[kind]
    for phase in phases(kind, sizes, schedule):
        for row in rows_of(sizes, phase.dimension):
            _PHASES[phase.kind](row, held, spans, counted, memory)
    return held, counted


class _Nothing:
    """Memory that nothing is counted in: the engine's own."""

    def __init__(self) -> None:
        self.reads: dict[int, float] = _Sink()
        self.writes: dict[int, float] = _Sink()


class _Sink(dict[int, float]):
    def __missing__(self, key: int) -> float:
        return 0.0

    def __setitem__(self, key: int, value: float) -> None:
        pass


def _blocks(span: tuple[int, int], n: int) -> list[tuple[int, int]]:
    start, end = span
    cuts = [start + (end - start) * i // n for i in range(n + 1)]
    return list(pairwise(cuts))


def _scatter(row: list[int], held: list[Array], spans: list[list[tuple[int, int]]], c: Counted, m: object) -> None:
    """Reduce-scatter: member i ends with the sum of block i, and works on that."""
    blocks = _reduce(row, held, spans, c, m)
    for i, rank in enumerate(row):
        _write(m, rank, blocks[i])  # the sum
        spans[rank].append(blocks[i])


def _reduce(
    row: list[int], held: list[Array], spans: list[list[tuple[int, int]]], c: Counted, m: object
) -> list[tuple[int, int]]:
    """n - 1 steps in which partial sums go once round the ring. Sums stay in registers; the last is the caller's."""
    n = len(row)
    blocks = _blocks(spans[row[0]][-1], n)
    flying: dict[int, Array] = {}
    for step in range(n - 1):
        arriving: dict[int, Array] = {}
        for i, rank in enumerate(row):
            block = blocks[(i - 1 - step) % n]
            if step == 0:
                _read(m, rank, block)
                flying[rank] = held[rank][slice(*block)].copy()
            c.sent[rank] += block[1] - block[0]
            arriving[row[(i + 1) % n]] = flying[rank]
        for i, rank in enumerate(row):
            block = blocks[(i - 2 - step) % n]
            _write(m, rank, block)  # it lands in memory
            _read(m, rank, block)  # what landed
            _read(m, rank, block)  # and the rank's own
            flying[rank] = arriving[rank] + held[rank][slice(*block)]
            c.reduced[rank] += block[1] - block[0]
    for i, rank in enumerate(row):
        held[rank][slice(*blocks[i])] = flying[rank]
    return blocks


def _gather(row: list[int], held: list[Array], spans: list[list[tuple[int, int]]], c: Counted, m: object) -> None:
    """All-gather of the blocks that the members work on, which together are what they worked on before."""
    for rank in row:
        spans[rank].pop()
    _spread(row, held, spans, c, m, in_registers=False)


def _spread(
    row: list[int], held: list[Array], spans: list[list[tuple[int, int]]], c: Counted, m: object, in_registers: bool
) -> None:
    n = len(row)
    blocks = _blocks(spans[row[0]][-1], n)
    for step in range(n - 1):
        arriving: dict[int, Array] = {}
        for i, rank in enumerate(row):
            block = blocks[(i - step) % n]
            if step or not in_registers:
                _read(m, rank, block)
            c.sent[rank] += block[1] - block[0]
            arriving[row[(i + 1) % n]] = held[rank][slice(*block)].copy()
        for i, rank in enumerate(row):
            block = blocks[(i - 1 - step) % n]
            _write(m, rank, block)  # in place
            held[rank][slice(*block)] = arriving[rank]


def _all(row: list[int], held: list[Array], spans: list[list[tuple[int, int]]], c: Counted, m: object) -> None:
    """All-reduce in one kernel: the last sum is sent on from registers while it is written."""
    blocks = _reduce(row, held, spans, c, m)
    for i, rank in enumerate(row):
        _write(m, rank, blocks[i])
    _spread(row, held, spans, c, m, in_registers=True)


def _read(memory: object, rank: int, block: tuple[int, int]) -> None:
    memory.reads[rank] += block[1] - block[0]  # type: ignore[attr-defined]


def _write(memory: object, rank: int, block: tuple[int, int]) -> None:
    memory.writes[rank] += block[1] - block[0]  # type: ignore[attr-defined]


_PHASES: dict[str, Callable[..., None]] = {"reduce_scatter": _scatter, "all_gather": _gather, "all_reduce": _all}


def all_to_all(messages: Array, sizes: Sequence[int], *, engine: bool = False) -> tuple[Array, Counted]:
    """`messages` (ranks, ranks, elements) from each rank to each; returns what each holds after, (to, from, elements).

    Every message goes the shorter way round each ring in turn, one hop at a time; clockwise where both are equal, of
    which an even ring has for half of the ranks. Ranks that it passes read and write it, unless an engine does.
    """
    ranks = int(np.prod(sizes))
    counted = Counted(ranks)
    elements = messages.shape[-1]
    result = np.empty_like(messages)
    places = list(product(*(range(n) for n in reversed(sizes))))
    place_of = [tuple(reversed(p)) for p in places]
    rank_of = {p: r for r, p in enumerate(place_of)}
    for source in range(ranks):
        for target in range(ranks):
            route = _route(place_of[source], place_of[target], sizes)
            stops = [rank_of[p] for p in route]
            for here, there in pairwise(stops):
                counted.sent[here] += elements
                if not engine or here == source:
                    counted.reads[here] += elements
                if not engine or there == target:
                    counted.writes[there] += elements
            result[target, source] = messages[source, target]
    return result, counted


def _route(a: tuple[int, ...], b: tuple[int, ...], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    here = list(a)
    route = [tuple(here)]
    for d, n in enumerate(sizes):
        ahead = (b[d] - here[d]) % n
        step = 1 if ahead <= n - ahead else -1
        while here[d] != b[d]:
            here[d] = (here[d] + step) % n
            route.append(tuple(here))
    return route
