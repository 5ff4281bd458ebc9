"""What options of tables cost under our own laws, as arrays over tables and options."""

from __future__ import annotations

from dataclasses import dataclass

from archmodel.parallel.placement import SCOPES
from archmodel.quantities import Array


@dataclass(frozen=True)
class Terms:
    """Seconds of one shard on each rank that it touches, (T, O): local work, exchange, and rows that its cache moves,
    beside other work; and what no estimate of the shard's work can be below."""

    local: Array
    exchange: Array
    moves: Array
    floors: Floors


@dataclass(frozen=True)
class Floors:
    """Least seconds of one shard on each rank that it touches, (T, O): of `lookup` and `update` under their laws with
    every table alone in the cache and the cache itself for nothing; of the exchanges of indices, pooled vectors and
    their gradients beyond what the first column costs, at the rate of all columns at once, spread evenly; `link`: of
    all three on the link that every route uses."""

    lookup: Array
    update: Array
    input: Array
    forward: Array
    backward: Array
    link: Array


Chord = tuple[float, float]


@dataclass(frozen=True)
class Chords:
    """(seconds however little, seconds per column or byte) of exchanges by scope; `shared`: forward and backward on
    the link that every route uses."""

    input: dict[str, Chord]
    forward: dict[str, Chord]
    backward: dict[str, Chord]
    shared: dict[str, Chord]


def no_chords() -> Chords:
    """Exchanges that cost nothing."""
    return Chords(*(dict[str, Chord]((scope, (0.0, 0.0)) for scope in SCOPES) for _ in range(4)))
