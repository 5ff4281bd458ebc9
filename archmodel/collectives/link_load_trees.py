"""Two trees whose messages are not cut: what simulators make of a double binary tree.

A library cuts its trees' messages into small pieces that follow each other (`link_load`: bytes count once). Sent whole,
each level waits for the one below. ASTRA-sim does that, and puts each chunk of the buffer on one tree: even chunks on
one whose inner ranks are the leaves of the other. n = 2^k ranks: rank n - 1 (in the other tree 0) is the root, and the
others are numbered in order under its only child, so that level j joins ranks 2^j apart. With t_j one whole message
over level j and a the time to add one up, the first chunk takes

    2 sum_j t_j + (2 k - 1) a,    and through ports that all messages of a rank share, 2 (k - 1) m / B on top

(inner ranks have two children, whose messages follow each other). A rank begins its next chunk when it has sent the
last message of this one. So each further chunk overlaps with the one before: by the last hop t_0 where links are never
busy; where they are, its first message takes the link of the last one of before, and gains that link's latency alone;
through shared ports, both latencies and k messages: the two trees' late halves are different ranks.
"""

from __future__ import annotations

import numpy as np

from archmodel.collectives.kinds import CollectiveError
from archmodel.collectives.link_load_endpoint import IDEAL, Endpoint
from archmodel.collectives.link_load_wires import Wire
from archmodel.network.shape import Switches
from archmodel.quantities import Num


def whole_trees(
    wire: Wire,
    full: Num,
    chunks: int = 1,
    *,
    endpoint: Endpoint = IDEAL,
    store_and_forward: bool = False,
) -> Num:
    """Seconds of an all-reduce of `full` bytes over one dimension of 2^k ranks, in whole messages of full / chunks.

    `store_and_forward`: links hold whole messages and take one at a time; else they cut through and are never busy.
    Raises `CollectiveError` for other numbers of ranks.
    """
    n = wire.size
    if n < 2 or n & (n - 1):
        raise CollectiveError(f"whole-message trees are over a power of two of ranks, two or more; these are {n}")
    levels, m = n.bit_length() - 1, full / chunks
    hops = [_level(wire, j, m, endpoint, store_and_forward) for j in range(levels)]
    rate = wire.shape.bandwidth * wire.efficiency
    serial = endpoint.floor(m / rate)
    shared = store_and_forward and isinstance(wire.shape, Switches)
    adds = 3 * endpoint.floor(m / endpoint.memory_bandwidth)
    first = 2 * sum(hops, start=0.0 * serial) + (2 * levels - 1) * adds + (2 * levels + 1) * endpoint.delay
    first = first + (2 * (levels - 1) * serial if shared else 0.0)
    gained = hops[0] + endpoint.delay
    if store_and_forward:
        early = levels * serial + wire.shape.latency if shared else 0.0
        gained = early + wire.shape.latency + 2 * endpoint.delay
    return first + (chunks - 1) * (first - gained)


def _level(wire: Wire, level: int, m: Num, end: Endpoint, stores: bool) -> Num:
    """One whole message between ranks 2^level apart."""
    apart = 1 << level
    pattern = wire.shape.between(np.array([apart - 1]), np.array([2 * apart - 1]))
    one = m / (pattern.bandwidth * wire.efficiency)
    if stores:
        return pattern.hops * end.floor(pattern.latency / pattern.hops + one)
    return end.floor(pattern.latency + one)
