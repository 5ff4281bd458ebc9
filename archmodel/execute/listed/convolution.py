"""Convolutions and linear layers: the implicit product that they are priced as."""

from __future__ import annotations

import numpy as np

from archmodel.execute.arithmetic import plain
from archmodel.execute.listed.base import Places, give, operation, taken, upstream
from archmodel.execute.machine import Rank
from archmodel.program import Op
from archmodel.quantities import Array
from archmodel.workloads.layers import Conv


def taps(layer: Conv) -> list[tuple[slice | Places, slice | Places]]:
    """For every tap of the kernel, row by row: (places of the output, places of the input that it meets there).
    Outside the image are zeros, (kernel - 1) // 2 places before it."""
    if layer.kernel == 1 and layer.stride == 1:
        return [(slice(None), slice(None))]
    out, stride, edge = round(layer.positions**0.5), layer.stride, (layer.kernel - 1) // 2
    side = out * stride
    found: list[tuple[slice | Places, slice | Places]] = []
    for u in range(layer.kernel):
        for v in range(layer.kernel):
            rows, columns = (np.arange(out) * stride + t - edge for t in (u, v))
            here, there = ((rows >= 0) & (rows < side)), ((columns >= 0) & (columns < side))
            places = np.flatnonzero(np.outer(here, there))
            found.append((places, (rows[here][:, None] * side + columns[there]).ravel()))
    return found


def patches(layer: Conv, x: Array) -> Array:
    """(samples x positions, taps x channels): what the kernel meets at each place of the output."""
    met = np.zeros((len(x), layer.positions, layer.kernel**2, layer.in_channels))
    for tap, (places, sources) in enumerate(taps(layer)):
        met[:, places, tap] = x[:, sources]
    return met.reshape(len(x) * layer.positions, layer.kernel**2 * layer.in_channels)


@operation(Conv, "forward")
def conv(rank: Rank, layer: Conv, op: Op) -> None:
    """y = patches(x) W^T + b."""
    x = taken(rank, layer)
    weight = rank.operand(f"{layer.name}.weight")
    y = plain(rank.counting(patches(layer, x)) @ weight.T)
    if layer.bias:
        y = y + rank.read(f"{layer.name}.bias")
    rank.write(layer.output, y.reshape(len(x), layer.out_features))


@operation(Conv, "input_gradient")
def conv_input_gradient(rank: Rank, layer: Conv, op: Op) -> None:
    """Tap by tap dy W_tap, added where the tap met the input: sums of the product itself."""
    dy = upstream(rank, layer)
    samples = len(dy)
    dy = dy.reshape(samples * layer.positions, layer.out_channels)
    weight = rank.operand(f"{layer.name}.weight")
    dx = np.zeros((samples, layer.in_positions, layer.in_channels))
    for tap, (places, sources) in enumerate(taps(layer)):
        columns = slice(tap * layer.in_channels, (tap + 1) * layer.in_channels)
        part = plain(dy @ weight[:, columns]).reshape(samples, layer.positions, layer.in_channels)
        dx[:, sources] += part[:, places]
    give(rank, layer, dx)


@operation(Conv, "weight_gradient")
def conv_weight_gradient(rank: Rank, layer: Conv, op: Op) -> None:
    """dW = dy^T patches(x), db = sum dy."""
    x, dy = taken(rank, layer), upstream(rank, layer)
    dy = dy.reshape(len(x) * layer.positions, layer.out_channels)
    rank.write(f"{layer.name}.weight.gradient", plain(dy.T @ rank.counting(patches(layer, x))))
    if layer.bias:
        rank.write(f"{layer.name}.bias.gradient", plain(dy).sum(0))
