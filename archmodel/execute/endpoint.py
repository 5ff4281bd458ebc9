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
    ranks = int(np.prod(sizes))
    if len(buffers) != ranks:
        raise ExecutionError(f"{len(buffers)} buffers for {ranks} ranks of {' x '.join(map(str, sizes))}")
    counted = Counted(ranks)
    memory = _Nothing() if engine else counted
    held = [np.asarray(b, dtype=np.float64).copy() for b in buffers]
    spans = [[(0, b.size)] for b in buffers]  # what of the buffer a rank works on: a stack of [start, end)
    many = ranks > 1
    if engine and many:
        counted.reads += [b.size for b in held]
    for phase in phases("all_reduce", sizes, schedule):
        for row in rows_of(sizes, phase.dimension):
            _PHASES[phase.kind](row, held, spans, counted, memory)
    if engine and many:
        counted.writes += [b.size for b in held]
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
