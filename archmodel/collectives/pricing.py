"""Seconds of a schedule on a topology: start-up and steps, then bytes over the slowest dimension.

    time = base + sum_d steps_d latency_d + max_d (x_d + sqrt(fill x_d)) + kept / copy_bandwidth
    x_d  = bytes sent_d / (bandwidth_d share_d efficiency_d fraction)

    x_d also has `exposed` of the time of one block, and a row with `line` moves in rounds instead of at a
    rate (`archmodel.network.protocol`).

Dimensions overlap: a collective's chunks are on the scale-up links while earlier ones are on the network
interface, and sends to GPUs and to interfaces run in one kernel, so the slower dimension sets the rate and
the latencies of both add up. Halving-doubling is the exception: its steps wait for each other, and the terms of its
dimensions add up. `base`, `fraction`, `fill` and, where it differs, the latency belong to a protocol; of those that
the library would use for such a message, the fastest is taken. Alpha-beta leaves out protocols: base 0, fraction 1,
no fill, no copy.

Which protocols the library would use: those whose `limit` holds, and of which it does not itself expect (`tuner`)
that a wider one is faster:

    expected = base' + sum_d steps_d latency'_d + max_d bytes sent_d / (line rate_d fraction'_d)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from archmodel.collectives.kinds import CollectiveError, Fidelity
from archmodel.collectives.schedule import Family, Schedule
from archmodel.network.dimension import Dimension
from archmodel.network.protocol import PLAIN, Protocol
from archmodel.quantities import Num

Names = np.ndarray[tuple[int, ...], np.dtype[np.str_]]
Truth = np.bool_ | np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Rows = tuple[Protocol, ...]
"""One protocol for each crossed dimension."""


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds by part, and what was chosen; every field broadcasts."""

    latency: Num
    bandwidth: Num
    copy: Num
    protocol: str | Names
    bound: str | Names

    @property
    def total(self) -> Num:
        return self.latency + self.bandwidth + self.copy


def price(dimensions: Sequence[Dimension], schedule: Schedule, fidelity: Fidelity) -> Price:
    """The schedule at the best protocol the library would use; zero time for a group of one rank."""
    crossed = [d for d in dimensions if d.name in schedule.steps]
    if not crossed:
        nothing = 0.0 * schedule.message
        return Price(nothing, nothing, nothing, "none", "none")
    best: Price | None = None
    options = list(_alternatives(crossed, schedule.family, fidelity))
    for name, rows in options:
        compared = schedule.family not in ("direct", "in_network")
        wider = [other for _, other in options if compared and _wider(other, rows)]
        candidate = _priced(name, rows, wider, crossed, schedule, fidelity)
        best = candidate if best is None else faster(best, candidate)
    if best is None:
        raise CollectiveError(f"the {crossed[0].kind} fabric has no {schedule.family} protocol")
    return best


def transfer(sent: Num, rate: Num, fill: Num) -> Num:
    """Seconds to send `sent` bytes in pipelined chunks: x + sqrt(fill x), x = sent / rate; >= sent / rate."""
    x = sent / rate
    return x + np.sqrt(fill * x)


def faster(a: Price, b: Price) -> Price:
    """The cheaper of two prices, element by element; `a` where they are equal."""
    a_wins = np.less_equal(a.total, b.total)
    if a_wins.all():
        return a
    if not a_wins.any():
        return b
    return choose(a_wins, a, b)


def choose(condition: Truth, a: Price, b: Price) -> Price:
    """`a` where the condition holds, else `b`."""
    return Price(
        latency=np.where(condition, a.latency, b.latency),
        bandwidth=np.where(condition, a.bandwidth, b.bandwidth),
        copy=np.where(condition, a.copy, b.copy),
        protocol=either(condition, a.protocol, b.protocol),
        bound=either(condition, a.bound, b.bound),
    )


def either(condition: Truth, a: str | Names, b: str | Names) -> str | Names:
    """Names by condition; a plain string where they agree."""
    if isinstance(a, str) and isinstance(b, str) and a == b:
        return a
    chosen: Names = np.where(condition, a, b)
    return chosen if chosen.ndim else str(chosen)


def _priced(
    name: str,
    rows: Rows,
    wider: list[Rows],
    crossed: list[Dimension],
    schedule: Schedule,
    fidelity: Fidelity,
) -> Price:
    """The schedule with one protocol per dimension; infinite where the library would not use it."""
    family = schedule.family
    latency: Num = _start(rows, family)
    for d, row in zip(crossed, rows, strict=True):
        latency = latency + _latency(d, row, schedule)
    allowed = _allowed(rows, schedule)
    if wider:
        allowed = np.logical_and(allowed, _not_expected_slower(rows, wider, crossed, schedule))
    slowest, bound = _bandwidth(rows, crossed, schedule)
    return Price(
        latency=np.where(allowed, latency, np.inf),
        bandwidth=slowest,
        copy=0.0 * schedule.kept if fidelity == "alpha_beta" else _copy(crossed, schedule.kept),
        protocol=name,
        bound=bound,
    )


def _bandwidth(rows: Rows, crossed: list[Dimension], schedule: Schedule) -> tuple[Num, str | Names]:
    """Seconds for the bytes, and the level that takes longest."""
    slowest: Num = -1.0
    bound: str | Names = crossed[0].level
    for d, row in zip(crossed, rows, strict=True):
        move = _move(d, row, schedule, schedule.sent[d.name])
        bound = either(np.less(slowest, move), d.level, bound)
        slowest = np.maximum(slowest, move)
    if schedule.serial is not None:
        in_turn: Num = 0.0
        for d, row in zip(crossed, rows, strict=True):
            in_turn = in_turn + _move(d, row, schedule, schedule.serial[d.name])
        slowest = np.maximum(slowest, in_turn)
    return slowest, bound


def _move(d: Dimension, row: Protocol, schedule: Schedule, sent: Num) -> Num:
    direct = schedule.family == "direct"
    if row.line is not None:
        return np.maximum(sent / _rate(d, schedule.family), _rounds(d, row, schedule, sent))
    share: Num = row.fraction
    if direct and row.peer_fraction is not None:
        share = np.minimum(1.0, row.peer_fraction * (schedule.steps[d.name] / schedule.phases))
    fill = row.direct_fill if direct and row.direct_fill is not None else row.fill
    rate = _rate(d, schedule.family) * share
    moving = transfer(sent, rate, fill)
    if direct or row.chunk is None:
        return moving
    return moving + row.exposed * np.minimum(_block(d, schedule, sent), row.chunk) / rate


def _block(d: Dimension, schedule: Schedule, sent: Num) -> Num:
    """Bytes that one step sends."""
    return sent / max(schedule.steps[d.name], 1)


def _round(d: Dimension, row: Protocol) -> Num:
    """Seconds in which all channels pass on one line each."""
    return row.channels * (row.line or 0.0) / (d.ring_bandwidth * row.fraction)


def _lines(row: Protocol, block: Num) -> tuple[Num, Num, Num]:
    """Of a row that moves in rounds: lines in a block, channels that it takes, whole rounds after the first."""
    assert row.line is not None
    lines = block / row.line
    channels = np.clip(lines, 1.0, row.channels)
    return lines, channels, np.maximum(np.ceil(lines / channels - 1e-9), 1.0) - 1.0


def _rounds(d: Dimension, row: Protocol, schedule: Schedule, sent: Num) -> Num:
    """Seconds of the rounds. A message to one peer has a channel to itself: its lines follow each other."""
    if schedule.family == "direct":
        lines, _, _ = _lines(row, schedule.message)
        return _round(d, row) * lines
    lines, _, more = _lines(row, _block(d, schedule, sent))
    blocks = schedule.steps[d.name] + (0 if schedule.relayed else 1)
    return blocks * _round(d, row) * (more + row.first_round * np.minimum(lines, 1.0))


def _rate(d: Dimension, family: Family) -> Num:
    rates = {
        "direct": d.direct_bandwidth,
        "exchange": d.direct_bandwidth,
        "tree": d.tree_bandwidth,
        "both_ways": d.both_ways_bandwidth,
    }
    return rates.get(family, d.ring_bandwidth)


def _start(rows: Rows, family: Family) -> Num:
    """One kernel starts once: the longest start-up of the dimensions."""
    starts = [row.direct_base if family == "direct" else row.base for row in rows]
    longest: Num = 0.0
    for start in starts:
        longest = np.maximum(longest, 0.0 if start is None else start)
    return longest


def _latency(d: Dimension, row: Protocol, schedule: Schedule) -> Num:
    """Ring and tree: every step in turn. Direct: one hop a phase, plus the cost of posting to every peer."""
    hop = d.latency if row.step_latency is None else row.step_latency
    steps = schedule.steps[d.name]
    if schedule.family == "direct":
        return schedule.phases * hop + steps * d.direct_latency
    if row.line is None:
        return steps * (hop + schedule.gathering * row.gather_step)
    lines, channels, more = _lines(row, _block(d, schedule, schedule.sent[d.name]))
    gathering = schedule.gathering * row.gather_round * _round(d, row) * (more + np.minimum(lines, 1.0))
    return steps * (hop + gathering) + row.widening * (1.0 - 1.0 / channels)


def _wider(other: Rows, rows: Rows) -> bool:
    """Whether the library compares the two, and takes `other` to be the one of more bandwidth."""
    pairs = [(b.tuner, a.tuner) for b, a in zip(other, rows, strict=True) if b.tuner and a.tuner]
    return bool(pairs) and all(np.all(np.greater(b.fraction, a.fraction)) for b, a in pairs)


def _not_expected_slower(rows: Rows, wider: list[Rows], crossed: list[Dimension], schedule: Schedule) -> Truth:
    mine = _expected(rows, crossed, schedule)
    answer: Truth = np.True_
    for other in wider:
        answer = np.logical_and(answer, np.less_equal(mine, _expected(other, crossed, schedule)))
    return answer


def _expected(rows: Rows, crossed: list[Dimension], schedule: Schedule) -> Num:
    """Seconds that the library's own tuner expects, over the dimensions whose protocols say."""
    start: Num = 0.0
    steps: Num = 0.0
    moving: Num = 0.0
    for d, row in zip(crossed, rows, strict=True):
        if row.tuner is not None:
            start = np.maximum(start, row.tuner.base)
            steps = steps + schedule.steps[d.name] * row.tuner.step_latency
            moving = np.maximum(moving, schedule.sent[d.name] / (d.bandwidth * row.tuner.fraction))
    return start + steps + moving


def _copy(crossed: list[Dimension], kept: Num) -> Num:
    rates = [d.copy_bandwidth for d in crossed if d.copy_bandwidth is not None]
    return kept / rates[0] if rates else 0.0 * kept


def _allowed(rows: Rows, schedule: Schedule) -> Truth:
    allowed: Truth = np.True_
    for row in rows:
        limit = row.direct_limit if schedule.family == "direct" else row.limit
        if limit is not None:
            allowed = np.logical_and(allowed, np.less_equal(schedule.message, limit))
    return allowed


def _alternatives(crossed: list[Dimension], family: Family, fidelity: Fidelity) -> Iterator[tuple[str, Rows]]:
    """Protocols to choose from: one row per dimension, of the same name where the tables share names."""
    if family == "in_network":
        row = crossed[0].in_network
        if row is None:
            raise CollectiveError(f"the {crossed[0].kind} fabric does not reduce in the network")
        plain = _bare(row) if fidelity == "alpha_beta" else row
        yield "in_network", (plain,)
        return
    if fidelity == "alpha_beta":
        yield "none", tuple(PLAIN for _ in crossed)
        return
    tables = [_usable(d.protocols or {"plain": PLAIN}, family) for d in crossed]
    if len(tables) == 1:
        yield from ((name, (row,)) for name, row in tables[0].items())
        return
    shared: dict[str, Rows] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        found = [row for table in tables if (row := _of_family(name, table)) is not None]
        if len(found) == len(tables):
            shared[name] = tuple(found)
    if any(all(_any_size(r, t, family) for r, t in zip(rows, tables, strict=True)) for rows in shared.values()):
        yield from shared.items()
        return
    for names in itertools.product(*tables):
        rows = tuple(table[name] for table, name in zip(tables, names, strict=True))
        yield "+".join(names), rows


def _of_family(name: str, table: Mapping[str, Protocol]) -> Protocol | None:
    """The row of that name; a table that does not tell `ll_narrow`, few channels, from `ll` has both under `ll`."""
    return table.get(name) or table.get(name.partition("_")[0])


def _any_size(row: Protocol, table: Mapping[str, Protocol], family: Family) -> bool:
    if (row.direct_limit if family == "direct" else row.limit) is not None:
        return False
    return family == "direct" or not any(_wider((other,), (row,)) for other in table.values())


def _bare(row: Protocol) -> Protocol:
    """An in-network row without start-up and fill."""
    return row.model_copy(update={"base": 0.0, "fill": 0.0})


def _usable(table: Mapping[str, Protocol], family: Family) -> dict[str, Protocol]:
    def used(row: Protocol) -> bool:
        return (row.direct_base if family == "direct" else row.base) is not None

    return {name: row for name, row in table.items() if used(row)}
