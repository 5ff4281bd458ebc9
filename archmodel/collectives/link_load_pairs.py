"""An all-to-all of unequal messages on its links.

Messages go through the dimensions inner to outer: in dimension d from the sender's place to the receiver's, in the row
whose inner places are the receiver's already and whose outer ones are still the sender's. Direct: all start together.
Hierarchical: one exchange for each dimension (of listed ranks: inside blocks, then between them), in which what goes
the same way is one message. The busiest link of the busiest row counts, and for latency the longest message.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from archmodel.collectives.groups import Placement
from archmodel.collectives.link_load import Law, Step, result_of
from archmodel.collectives.link_load_wires import Wire, nested, wires_of
from archmodel.collectives.result import CollectiveResult
from archmodel.network.shape import Ints
from archmodel.network.topology import Topology
from archmodel.quantities import Array


def price_pairs(topology: Topology, groups: Sequence[Placement], algorithm: str, pairs: Array) -> CollectiveResult:
    """Time of `pairs[i, j]` bytes from the i-th to the j-th rank of one group, all i and j at once."""
    wires = wires_of(topology, groups)
    levels = nested(topology, groups) if algorithm == "hierarchical" else wires
    law = Law("all_to_all", wires, levels)
    n = len(pairs)
    priced = law.together(steps_of_pairs(levels, algorithm, pairs), 1.0)
    full = float(pairs.sum(axis=1).max(initial=0.0))
    return result_of("all_to_all", algorithm, full, priced, 1.0, topology, groups, n)


def steps_of_pairs(wires: Sequence[Wire], algorithm: str, pairs: Array) -> list[Step]:
    """Steps whose shares are bytes."""
    source, target = np.nonzero(np.where(np.eye(len(pairs), dtype=bool), 0.0, pairs))
    if not source.size:
        return []
    amount = pairs[source, target]
    steps = []
    for d in range(len(wires)):
        a, b, row = _in_dimension(wires, d, source, target)
        size, moving = wires[d].size, a != b
        key = ((row * size + a) * size + b)[moving]
        if not key.size:
            continue
        ways, place = np.unique(key, return_inverse=True)
        joined = np.bincount(place, weights=amount[moving])
        largest = float(joined.max() if algorithm == "hierarchical" else amount.max())
        rest, to = np.divmod(ways, size)
        at, start = np.divmod(rest, size)
        pattern = wires[d].shape.between(start, to, joined / largest, at)
        sent = float(np.bincount(at * size + start, weights=joined).max())
        peers = int(np.bincount(at * size + start).max())
        steps.append(Step((wires[d],), (pattern,), largest, sent=(sent,), peers=peers))
    if algorithm == "hierarchical":
        return steps
    posts = int(np.bincount(source).max())
    crossed = tuple(step.wires[0] for step in steps)
    patterns, sends = tuple(step.patterns[0] for step in steps), tuple(step.sent[0] for step in steps)
    return [Step(crossed, patterns, float(amount.max()), sent=sends, peers=posts)]


def _in_dimension(wires: Sequence[Wire], d: int, source: Ints, target: Ints) -> tuple[Ints, Ints, Ints]:
    """Places of senders and receivers in dimension d, and the row that each message is in."""
    inner, size = prod(wire.size for wire in wires[:d]), wires[d].size
    a, b = source // inner % size, target // inner % size
    return a, b, target % inner + inner * (source // (inner * size))
