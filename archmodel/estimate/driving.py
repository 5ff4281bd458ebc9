"""What an endpoint makes of a collective: its time when it has to be driven, and what it takes from compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.collectives import endpoint_traffic as counting
from archmodel.collectives.pipeline import Phase, pipelined
from archmodel.collectives.schedule import over_dimensions
from archmodel.components.breakdown import Breakdown
from archmodel.components.endpoint import Endpoint, Moves
from archmodel.estimate.links import links_of_all_to_all, links_of_collective
from archmodel.estimate.machine import Machine
from archmodel.network.dimension import Dimension
from archmodel.program import AllToAll, Collective
from archmodel.quantities import Num, itemsize

A_BYTE = 1.0
"""The smallest chunk."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A collective driven by an endpoint. `memory_bytes`: bandwidth that it takes of the device's memory, in bytes;
    `limit`: the endpoint's resource that needs longest, and `limits` the seconds of each."""

    breakdown: Breakdown
    moves: Moves
    memory_bytes: Num
    limits: dict[str, Num]


def driven(work: Collective | AllToAll, machine: Machine, endpoint: Endpoint) -> Driven:
    """Time of `work`:

        t = latency + max(links, endpoint)

    where `links` is what the network needs for the bytes, and `endpoint` the longest of its limits. What it adds to
    the links is the part "endpoint".
    """
    axes = machine.topology.spanned(work.group)
    links = _links(work, machine, endpoint, axes)
    moves = _moves(work, axes, links)
    limits = endpoint.limits(moves, machine.device)
    slowest: Num = 0.0
    for seconds in limits.values():
        slowest = np.maximum(slowest, seconds)
    carried = links.total - links.parts.get("latency", 0.0)
    added = {"endpoint": np.maximum(slowest - carried, 0.0)} if limits else {}
    return Driven(Breakdown({**links.parts, **added}), moves, endpoint.memory_bytes(moves), limits)


def _links(work: Collective | AllToAll, machine: Machine, endpoint: Endpoint, axes: tuple[Dimension, ...]) -> Breakdown:
    """The network's own time; ring phases over a product of dimensions are pipelined in the endpoint's chunks."""
    if isinstance(work, AllToAll):
        return links_of_all_to_all(work, machine)
    if len(axes) < 2 or not any(level.axes for level in machine.topology.levels):
        return links_of_collective(work, machine)
    return in_chunks(work.kind, axes, _buffer(work), endpoint.chunk)


def in_chunks(kind: str, axes: tuple[Dimension, ...], buffer: Num, chunk: Num | None) -> Breakdown:
    """A collective in ring phases over `axes`, inner to outer, its buffer in chunks of `chunk` bytes (a byte at a time,
    when left out): `archmodel.collectives.pipeline` with as many chunks in flight as cover all latencies. Rings run
    both ways round at once."""
    buffer = np.asarray(buffer, dtype=np.float64)
    whole = over_dimensions(kind, buffer, axes)
    count = np.maximum(buffer / (A_BYTE if chunk is None else np.asarray(chunk)), 1.0)

    def phases(k: Num) -> list[Phase]:
        return [
            Phase(
                whole.steps[d.name] * np.asarray(d.latency), whole.sent[d.name] / k / np.asarray(d.both_ways_bandwidth)
            )
            for d in axes
        ]

    found = pipelined(phases, count, np.inf)
    some = buffer > 0
    levels: dict[str, Num] = {}
    for i, d in enumerate(axes):
        carried = np.where(np.equal(found.busiest, i) & some, found.time - found.latency, 0.0)
        levels[d.level] = levels.get(d.level, 0.0) + carried
    latency = np.where(some, found.latency, 0.0)
    return Breakdown({"latency": latency, **{name: part for name, part in levels.items() if np.any(part)}})


def _buffer(work: Collective | AllToAll) -> Num:
    """Bytes that go through on each rank: the whole buffer, or what a rank brings."""
    if isinstance(work, Collective):
        largest: Num = np.max(work.buffer_elements, keepdims=True) * itemsize(work.dtype)
        return largest
    return work.traffic.totals(work.layout, work.group)[0]


def _moves(work: Collective | AllToAll, axes: tuple[Dimension, ...], links: Breakdown) -> Moves:
    sizes = [axis.size for axis in axes]
    buffer = np.asarray(_buffer(work))
    if isinstance(work, AllToAll):
        t = counting.all_to_all(sizes, [axis.kind for axis in axes])
    else:
        t = counting.traffic(work.kind, sizes)
    latency = links.parts.get("latency", 0.0)
    carried = links.total - latency
    return Moves(
        sent=t.sent * buffer,
        reads=t.reads * buffer,
        writes=t.writes * buffer,
        reduced=t.reduced * buffer,
        engine_reads=t.engine_reads * buffer,
        engine_writes=t.engine_writes * buffer,
        buffer=buffer,
        path_latency=latency,
        path_seconds_per_byte=_path(work, axes, carried / np.maximum(buffer, 1.0)),
    )


def _path(work: Collective | AllToAll, axes: tuple[Dimension, ...], otherwise: Num) -> Num:
    """Seconds for one byte through all phases, alone."""
    if isinstance(work, AllToAll) or len(axes) < 2:
        return otherwise
    sent = over_dimensions(work.kind, 1.0, axes).sent
    total: Num = 0.0
    for d in axes:
        total = total + sent[d.name] / np.asarray(d.both_ways_bandwidth)
    return total
