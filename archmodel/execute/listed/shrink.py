"""A small list of layers that takes every route of a big one: the same layers in the same order, joined in the same
ways, with fewer ranks, samples, channels, places and rows.

What is kept: kernels, strides, directions, biases; which tensors lie side by side and which are added up; whether the
batch is even; several nodes; the number of gradient buckets; the order of collectives. Images are divided by what all
their sides divide by; sequences and places become few; every exchange gets a width that the ranks of all runs divide.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, lcm, prod
from typing import Any

import numpy as np

from archmodel.execute.errors import ExecutionError
from archmodel.execute.shrinking import ROOM, Small, changed, layouts_line, narrowed, other_layouts, small_layout
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import resolve
from archmodel.program import Layout
from archmodel.workloads.layered import (
    INPUT,
    AttentionSpec,
    ConvSpec,
    ExchangeSpec,
    Layered,
    LayerSpec,
    LinearSpec,
    LookupSpec,
    LstmSpec,
)

SAMPLES = 24
"""Samples of the shrunk batch: as many for each of 1, 2, 3, 4, 6 or 8 ranks."""
UNEVEN = 3
"""Further ones where the batch is uneven."""
FEW = 2
"""Places and steps up to this many stay as they are; larger ones become few, in order."""
MOST_TOKENS = 97
MOST_WIDTH = 48
"""Of an exchange."""


def shrink_listed(workload: Layered, plan: Plan, placement: Placement) -> Small:
    """The small design. Raises ExecutionError for kinds of layers that it does not know."""
    layout = small_layout(placement.layout)
    specs = dict(workload.layer_list)
    channels = narrowed(_widths(specs))
    places = _few(_places(specs))
    image = _image(specs)
    ranks = lcm(layout.ranks, *(other.ranks for other in other_layouts(layout)))
    small: dict[str, LayerSpec] = {}
    shape: dict[str, tuple[int, int]] = {}  # before
    now: dict[str, tuple[int, int]] = {}
    features = _features(workload, specs, channels, places, image)
    previous: tuple[str, ...] = (INPUT,)
    for (name, spec), layer in zip(specs.items(), workload.layers(), strict=True):
        reads = previous if spec.after is None else (spec.after or (INPUT,))

        def width(needed: int, reads: tuple[str, ...] = reads) -> int:
            """Channels that a layer which takes `needed` of the tensors that it reads takes of the small ones."""
            found = [shape[r][1] for r in reads if r in shape]
            if len(found) < len(reads) or not found:
                return channels[needed]
            if all(c == needed for c in found):
                return now[reads[0]][1]
            return sum(now[r][1] for r in reads) if sum(found) == needed else channels[needed]

        changes: dict[str, Any]
        if isinstance(spec, ConvSpec):
            depth = spec.in_channels if reads == (INPUT,) else width(spec.in_channels)
            changes = {"in_channels": depth, "out_channels": channels[spec.out_channels], "size": spec.size // image}
        elif isinstance(spec, LinearSpec):
            whole = reads == (INPUT,) and spec.in_features == workload.dense_features
            depth = (features if whole else _flat(spec, reads, shape, now)) or width(spec.in_features)
            changes = {
                "in_features": depth,
                "out_features": channels[spec.out_features],
                "tokens": places[spec.tokens],
            }
        elif isinstance(spec, LstmSpec):
            hidden = channels[spec.hidden]
            changes = {"in_features": width(spec.in_features), "hidden": hidden, "tokens": places[spec.tokens]}
        elif isinstance(spec, AttentionSpec):
            queries, keys = places[spec.queries], places[spec.keys]
            changes = {"width": width(spec.width, reads[:1]), "queries": queries, "keys": keys}
        elif isinstance(spec, LookupSpec):
            rows = min(spec.rows, MOST_TOKENS)
            changes = {"rows": rows, "width": channels[spec.width], "tokens": places[spec.tokens]}
        elif isinstance(spec, ExchangeSpec):
            changes = {"width": ranks * max(min(spec.width, MOST_WIDTH) // ranks, 1)}
        else:
            raise ExecutionError(f"{name}: layers of kind {spec.kind} cannot be shrunk")  # type: ignore[attr-defined]
        small[name] = type(spec).model_validate({**_fields(spec), **changes})
        shape[name] = layer.out_shape  # type: ignore[union-attr]
        now[name] = small[name].layer(name, reads).out_shape
        previous = (name,)
    even = workload.global_batch % placement.layout.ranks == 0
    batch = min(workload.global_batch, SAMPLES if even else SAMPLES + UNEVEN)
    update = {"layer_list": small, "dense_features": features, "global_batch": batch}
    after = workload.model_copy(update=update)
    share = after.dense_parameters / max(workload.dense_parameters, 1)
    bucket = max(float(np.max(plan.gradient_bucket)) * share, 1e-3)

    def place(on: Layout) -> tuple[Plan, Placement]:
        smaller = changed(plan, gradient_bucket=bucket, memory_reserve=0.0)
        return smaller, resolve(smaller, after.table_arrays, on, batch, ROOM)

    notes = _notes(workload, after, placement.layout, layout, image)
    return Small(after, *place(layout), notes, place)


def _fields(spec: LayerSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in type(spec).model_fields}


CHANNELS = ("in_channels", "out_channels", "in_features", "out_features", "hidden", "width")
PLACES = ("tokens", "queries", "keys")


def _widths(specs: dict[str, LayerSpec]) -> list[int]:
    listed = [s for s in specs.values() if not isinstance(s, ExchangeSpec)]
    return [int(getattr(s, f)) for s in listed for f in CHANNELS if hasattr(s, f)]


def _places(specs: dict[str, LayerSpec]) -> list[int]:
    return [int(getattr(s, f)) for s in specs.values() for f in PLACES if hasattr(s, f)]


def _few(numbers: Iterable[int]) -> dict[int, int]:
    """Small numbers for large ones, in the same order."""
    found: dict[int, int] = {}
    for number in sorted(set(numbers)):
        found[number] = number if number <= FEW else max([FEW, *found.values()]) + 1
    return found


def _image(specs: dict[str, LayerSpec]) -> int:
    """What all sides of images divide by."""
    return gcd(*(s.size for s in specs.values() if isinstance(s, ConvSpec))) or 1


def _flat(
    spec: LinearSpec, reads: tuple[str, ...], shape: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]
) -> int | None:
    """Width of a layer that takes a whole tensor of several places as one."""
    whole = len(reads) == 1 and reads[0] in shape and spec.tokens == 1 and shape[reads[0]][0] > 1
    return prod(now[reads[0]]) if whole and prod(shape[reads[0]]) == spec.in_features else None


def _features(
    workload: Layered, specs: dict[str, LayerSpec], channels: dict[int, int], places: dict[int, int], image: int
) -> int:
    """Elements of the small input: an image where the first layers take one, tokens for the lookups, or few."""
    tokens = sum(places[s.tokens] for s in specs.values() if isinstance(s, LookupSpec))
    if tokens:
        return tokens
    for spec in specs.values():
        if isinstance(spec, ConvSpec) and spec.in_channels * (spec.size * spec.stride) ** 2 == workload.dense_features:
            return channels[spec.in_channels] * (spec.size // image * spec.stride) ** 2
    return channels.get(workload.dense_features) or narrowed([workload.dense_features])[workload.dense_features]


def _notes(before: Layered, after: Layered, old: Layout, new: Layout, image: int) -> tuple[str, ...]:
    notes = layouts_line(old, new)
    if before.global_batch != after.global_batch:
        notes.append(f"global batch: {before.global_batch:,} -> {after.global_batch}")
    if image > 1:
        notes.append(f"images: sides divided by {image}")
    changed_to: dict[str, None] = {}
    for name, spec in before.layer_list.items():
        for field in (*CHANNELS, *PLACES, "rows"):
            was, now = getattr(spec, field, None), getattr(after.layer_list[name], field, None)
            if was != now:
                changed_to.setdefault(f"{was:,} -> {now}", None)
    if changed_to:
        notes.append("sizes: " + ", ".join(list(changed_to)[:8]) + (", ..." if len(changed_to) > 8 else ""))
    notes.append(f"layers: all {len(before.layer_list)}, each in full: forward, backward, optimizer")
    notes.append("not run, as the list leaves them out: normalisation, activations, dropout")
    stand_ins = _brought_to_size(after)
    if stand_ins:
        notes.append(
            "brought to size by means, repetition or turns, for an op that the list leaves out, before: "
            + ", ".join(stand_ins[:6])
            + (", ..." if len(stand_ins) > 6 else "")
        )
    if any(isinstance(s, ExchangeSpec) for s in before.layer_list.values()):
        notes.append("an exchange carries the sample's features in place of vectors of tables, which are not listed")
    notes.append("loss: half the mean square distance of outputs from labels, no op of the Program")
    return tuple(notes)


def _brought_to_size(workload: Layered) -> list[str]:
    """Layers whose inputs do not have the size that they take."""
    shape: dict[str, tuple[int, int]] = {}
    found = []
    for layer in workload.layers():
        for names, (places, channels) in layer.takes:  # type: ignore[union-attr]
            sizes = [shape.get(name, (1, workload.dense_features)) for name in names]
            flat = len(sizes) == 1 and prod(sizes[0]) == places * channels
            same = all(p == places for p, _ in sizes)
            side_by_side = same and sum(c for _, c in sizes) == channels
            added_up = same and all(c == channels for _, c in sizes)
            if not (flat or side_by_side or added_up):
                found.append(layer.name)
        shape[layer.name] = layer.out_shape  # type: ignore[union-attr]
    return found
