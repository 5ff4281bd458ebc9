"""Which algorithm a collective library takes, decided from bytes and ranks alone.

The Program has to name the algorithm, because the executor runs it and its bytes on every wire are counted. Lowering
knows no seconds, so the library's choice between ring and tree is made where the two cost the same in bytes.
"""

from __future__ import annotations

import math
from typing import Literal

from archmodel.collectives.kinds import switch_saves
from archmodel.program import Algorithm, Layout

STEP_BYTES = 408e3
"""What an interface could send during one step of a network algorithm: 8.5 us (a tree step over the network in NCCL
2.30's tuner, src/graph/tuning.cc) at 48 GB/s (a 400 Gbit/s interface, nccl-tests issue 267)."""
TREE_FRACTION = 0.92
"""Bandwidth of trees over the network in units of the ring's (same tuner)."""

SWITCH_BYTES = 10e6
"""What a GPU's links could carry while a reduction in the switch starts up: it takes 27 us longer than a ring of 8, at
366 GB/s (the two start-ups and the rate of fabrics/nvswitch_h100.yaml)."""


def reduce_scatter(layout: Layout) -> Algorithm:
    """Algorithm of a reduce-scatter or all-gather over all ranks: ring inside one level of the network, hierarchical
    over two (as many rings, one for each rail, do)."""
    return "hierarchical" if layout.nodes > 1 and layout.local_size > 1 else "ring"


def all_reduce(
    layout: Layout, buffer_bytes: float, planned: Literal["auto", "ring", "hierarchical", "in_network"] = "auto"
) -> Algorithm:
    """Algorithm of an all-reduce over all ranks: the `planned` one, or by itself:

    Over the N interfaces of a rail, each with a share s of the buffer, a ring takes 2 (N - 1) steps and sends
    2 (N - 1) / N s; a double binary tree takes 2 log2 N steps and sends 2 s at a fraction of the rate. The tree is
    taken when what it saves in steps (in bytes that could be sent meanwhile) is more than what it sends on top. NCCL's
    tuner compares the same two terms. Up to three nodes trees never pay.

    Inside a node whose switch reduces, a rank of n sends (1 + 1/n) s at a share of the ring's rate (`in_network` of the
    layout), which is less than the ring's 2 (n - 1) / n s from five ranks on, where NCCL takes the switch too. It is
    taken when what it saves is more than what its start-up costs. Between nodes reduction in the network (SHARP) has to
    be switched on, and is left out.
    """
    if planned != "auto":
        return planned
    n = layout.nodes
    if n == 1 and layout.in_network > 0 and buffer_bytes > 0:
        saved = switch_saves(layout.ranks, layout.in_network)
        return "in_network" if saved * buffer_bytes > SWITCH_BYTES else "ring"
    if n < 4 or layout.local_size == 1:
        return reduce_scatter(layout)
    share = buffer_bytes / layout.local_size
    sent_on_top = share * (2.0 / TREE_FRACTION - 2.0 * (n - 1) / n)
    steps_saved = 2.0 * (n - 1) - 2.0 * math.ceil(math.log2(n))
    return "tree" if sent_on_top < steps_saved * STEP_BYTES else "hierarchical"
