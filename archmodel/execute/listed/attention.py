"""Additive attention."""

from __future__ import annotations

import numpy as np

from archmodel.execute.arithmetic import plain
from archmodel.execute.listed.base import Numbers, flat, give, operation, taken, tanh, upstream
from archmodel.execute.machine import Rank
from archmodel.program import Op
from archmodel.workloads.layers import Attention

PARTS = ("query", "key")


def _project(rank: Rank, layer: Attention, op: Op) -> None:
    """W q, or U k."""
    part = op.name.split(".")[1]
    x = taken(rank, layer, PARTS.index(part))
    y = plain(rank.counting(x.reshape(-1, layer.width)) @ rank.operand(f"{layer.name}.{part}").T)
    rank.write(f"{layer.name}.projected_{part}", flat(y))


def _project_input_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    part = op.name.split(".")[1]
    dy = rank.operand(f"{layer.name}.projected_{part}.gradient")
    dx = plain(dy.reshape(-1, layer.width) @ rank.operand(f"{layer.name}.{part}"))
    give(rank, layer, dx.reshape(len(dy), *layer.takes[PARTS.index(part)][1]), PARTS.index(part))


def _project_weight_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    part = op.name.split(".")[1]
    x = taken(rank, layer, PARTS.index(part)).reshape(-1, layer.width)
    dy = rank.operand(f"{layer.name}.projected_{part}.gradient").reshape(-1, layer.width)
    rank.write(f"{layer.name}.{part}.gradient", plain(dy.T @ rank.counting(x)))


for _part in PARTS:
    operation(Attention, f"{_part}.forward")(_project)
    operation(Attention, f"{_part}.input_gradient")(_project_input_gradient)
    operation(Attention, f"{_part}.weight_gradient")(_project_weight_gradient)


def _pairs(rank: Rank, layer: Attention) -> tuple[Numbers, Numbers]:
    """tanh(W q_i + U k_j), (samples, queries, keys, width), and v."""
    q, k = (rank.operand(f"{layer.name}.projected_{part}") for part in PARTS)
    sums = q.reshape(-1, layer.queries, 1, layer.width) + k.reshape(-1, 1, layer.keys, layer.width)
    return tanh(sums), rank.operand(f"{layer.name}.score")


@operation(Attention, "score.forward")
def score(rank: Rank, layer: Attention, op: Op) -> None:
    """softmax_j(v^T tanh(W q_i + U k_j))."""
    looked, v = _pairs(rank, layer)
    scores = (looked * v).sum(-1)
    weights = np.exp(scores - plain(scores).max(-1, keepdims=True))
    rank.write(f"{layer.name}.scores", flat(plain(weights / weights.sum(-1, keepdims=True))))


@operation(Attention, "context.forward")
def context(rank: Rank, layer: Attention, op: Op) -> None:
    """sum_j a_ij k_j."""
    weights = rank.operand(f"{layer.name}.scores").reshape(-1, layer.queries, layer.keys)
    found = plain(weights @ taken(rank, layer, 1))
    rank.write(layer.output, flat(found))


@operation(Attention, "context.score_gradient")
def context_score_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    """da_ij = dcontext_i . k_j."""
    dy = upstream(rank, layer).reshape(-1, layer.queries, layer.width)
    found = plain(dy @ taken(rank, layer, 1).transpose(0, 2, 1))
    rank.write(f"{layer.name}.scores.gradient", flat(found))


@operation(Attention, "context.key_gradient")
def context_key_gradient(rank: Rank, layer: Attention, op: Op) -> None:
    """dk_j = sum_i a_ij dcontext_i."""
    dy = upstream(rank, layer).reshape(-1, layer.queries, layer.width)
    weights = rank.operand(f"{layer.name}.scores").reshape(-1, layer.queries, layer.keys)
    give(rank, layer, plain(weights.transpose(0, 2, 1) @ dy), 1)


@operation(Attention, "score.backward")
def score_backward(rank: Rank, layer: Attention, op: Op) -> None:
    """Through the softmax, ds = a (da - sum_j a da), and through tanh."""
    places = (-1, layer.queries, layer.keys)
    da = rank.operand(f"{layer.name}.scores.gradient").reshape(*places)
    a = rank.operand(f"{layer.name}.scores").reshape(*places)
    looked, v = _pairs(rank, layer)
    ds = (a * (da - (a * da).sum(-1, keepdims=True)))[..., None]
    rank.write(f"{layer.name}.score.gradient", plain((ds * looked).sum((0, 1, 2))))
    through = ds * v * (1.0 - looked * looked)
    for part, axis in zip(PARTS, (2, 1), strict=True):
        total = plain(through.sum(axis))
        rank.write(f"{layer.name}.projected_{part}.gradient", flat(total))
