"""Tables of tokens, and the tokens that a sample has."""

from __future__ import annotations

from typing import Any

import numpy as np

from archmodel.execute.arithmetic import plain
from archmodel.execute.errors import ExecutionError
from archmodel.execute.listed.base import flat, operation, upstream
from archmodel.execute.machine import Rank
from archmodel.program import Op
from archmodel.workloads.layers import DENSE_INPUT, Lookup

SPREAD = 997.0
"""What a feature is multiplied by to make a token of it."""


def tokens(rank: Rank, layer: Lookup) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Token ids (samples, tokens), read: each lookup takes further features of the input, and begins again after the
    last."""
    if layer.inputs != (DENSE_INPUT,):
        raise ExecutionError(f"{layer.name}: tokens come from the input (after: []), not from {layer.inputs[0]}")
    before = 0
    for other in rank.machine.layers.values():
        if other is layer:
            break
        before += other.tokens if isinstance(other, Lookup) else 0
    features = rank.look(DENSE_INPUT)
    columns = (before + np.arange(layer.tokens)) % features.shape[1]
    rank.touch(len(features) * layer.tokens * rank.itemsize(DENSE_INPUT))
    return (np.floor(np.abs(features[:, columns]) * SPREAD) % layer.rows).astype(np.int64)


@operation(Lookup, "forward")
def token_lookup(rank: Rank, layer: Lookup, op: Op) -> None:
    """Rows of the table."""
    rows = rank.look(f"{layer.name}.weight")[tokens(rank, layer)]
    rank.touch(rows.size * rank.itemsize(f"{layer.name}.weight"))
    rank.write(layer.output, flat(rows))


@operation(Lookup, "weight_gradient")
def token_gradient(rank: Rank, layer: Lookup, op: Op) -> None:
    """Cleared, then row by row read, added to and written."""
    name = f"{layer.name}.weight.gradient"
    ids, dy = tokens(rank, layer).ravel(), upstream(rank, layer).reshape(-1, layer.width)
    whole = rank.counting(np.zeros((layer.rows, layer.width)))
    for row, gradient in zip(ids, dy, strict=True):
        whole[row] = whole[row] + gradient
    rank.touch(2 * dy.size * rank.itemsize(name))
    rank.write(name, plain(whole))
