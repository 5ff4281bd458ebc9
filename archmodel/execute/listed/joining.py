"""How a listed layer makes one tensor of those that it reads, and what that makes of gradients on the way back.

Tensors are (samples, places, channels). Side by side where their channels add up to those needed; added up where each
has as many as are needed. Where the list leaves something out between them (a pooling, an interaction) they are first
brought to the places needed, as means over blocks of places (squares of an image) or by repetition, and then to the
channels needed, round and round. All of it is linear, and none of it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from archmodel.quantities import Array

Places = np.ndarray[Any, np.dtype[np.int64]]


def joined(values: Sequence[Array], places: int, channels: int) -> Array:
    """One tensor (samples, places, channels) of several."""
    if len(values) == 1 and values[0].shape[1] * values[0].shape[2] == places * channels:
        return values[0].reshape(len(values[0]), places, channels)
    placed = [_to_places(x, places) for x in values]
    if all(x.shape[2] == channels for x in placed):
        return np.asarray(np.sum(placed, axis=0))
    whole = np.concatenate(placed, axis=2)
    source, target = _channels(whole.shape[2], channels)
    return _added(whole, 2, source, target, channels)


def parted(gradient: Array, shapes: Sequence[tuple[int, int]]) -> list[Array]:
    """Gradients (samples, elements) of tensors of `shapes` from that of what `joined` makes of them."""
    samples, places, channels = gradient.shape
    if len(shapes) == 1 and shapes[0][0] * shapes[0][1] == places * channels:
        return [gradient.reshape(samples, places * channels)]
    if all(c == channels for _, c in shapes):
        pieces = [gradient for _ in shapes]
    else:
        total = sum(c for _, c in shapes)
        source, target = _channels(total, channels)
        whole = _added(gradient, 2, target, source, total)
        pieces = np.split(whole, np.cumsum([c for _, c in shapes])[:-1], axis=2)
    return [_from_places(x, p).reshape(samples, p * c) for x, (p, c) in zip(pieces, shapes, strict=True)]


def _channels(have: int, need: int) -> tuple[Places, Places]:
    """Channels that are had and needed, matched round and round until each has been met."""
    turn = np.arange(max(have, need))
    return turn % have, turn % need


def _match(have: int, need: int) -> tuple[Places, Places]:
    """(place had, place needed) for every match: blocks of a square image, else of a row."""
    small, large = sorted((have, need))
    a, b = isqrt(small), isqrt(large)
    at = np.arange(large)
    if a * a == small and b * b == large and b % a == 0:
        row, column = at // b, at % b
        block = row // (b // a) * a + column // (b // a)
    else:
        block = at * small // large
    return (at, block) if have >= need else (block, at)


def _to_places(x: Array, places: int) -> Array:
    if x.shape[1] == places:
        return x
    source, target = _match(x.shape[1], places)
    return _added(x, 1, source, target, places) / np.bincount(target, minlength=places)[None, :, None]


def _from_places(gradient: Array, places: int) -> Array:
    if gradient.shape[1] == places:
        return gradient
    source, target = _match(places, gradient.shape[1])
    shared = gradient / np.bincount(target, minlength=gradient.shape[1])[None, :, None]
    return _added(shared, 1, target, source, places)


def _added(x: Array, axis: int, source: Places, target: Places, size: int) -> Array:
    """Slices `source` of an axis added up at `target` of one of `size`."""
    moved = np.moveaxis(x, axis, 0)
    out = np.zeros((size, *moved.shape[1:]))
    np.add.at(out, target, moved[source])
    return np.ascontiguousarray(np.moveaxis(out, 0, axis))
