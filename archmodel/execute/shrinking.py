"""What shrinking any workload takes: a small layout, narrow widths, and the small design that results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from archmodel.workloads.recommendation import Workload

MOST_RANKS = 8
KEPT_WIDTH = 16
"""Widths up to this stay as they are."""
ROOM = {"hbm": 1e18, "ddr": 1e18}
"""Bytes per rank while the shrunk plan is placed: tiers are carried over, not chosen."""
OTHER_LAYOUTS = (Layout(1, 1), Layout(1, 3), Layout(3, 2))
"""Ranks that a design is run on besides its own; the last only for designs of several nodes."""


@dataclass(frozen=True)
class Small:
    """A design that can be run. `notes`: what was changed, a line each."""

    workload: Workload
    plan: Plan
    placement: Placement
    notes: tuple[str, ...]
    place: Callable[[Layout], tuple[Plan, Placement]]
    """The same kinds of shards on another layout."""


def other_layouts(layout: Layout) -> list[Layout]:
    """Layouts that a small design is run on besides its own."""
    some = OTHER_LAYOUTS if layout.nodes > 1 else OTHER_LAYOUTS[:-1]
    others = [replace(other, in_network=layout.in_network) for other in some]
    return [other for other in others if other != layout]


def small_layout(layout: Layout) -> Layout:
    """At most MOST_RANKS ranks; several nodes stay several, small nodes stay whole."""
    if layout.ranks <= MOST_RANKS:
        return layout
    if layout.nodes == 1:
        return replace(layout, local_size=MOST_RANKS)
    local = min(layout.local_size, MOST_RANKS // 2)
    return replace(layout, nodes=min(layout.nodes, MOST_RANKS // local), local_size=local)


def narrowed(widths: Iterable[int]) -> dict[int, int]:
    """Small widths for large: those up to KEPT_WIDTH stay, larger ones keep their order and remainder by four."""
    result: dict[int, int] = {}
    last = KEPT_WIDTH
    for width in sorted(set(widths)):
        if width <= KEPT_WIDTH:
            result[width] = width
            continue
        last += 1 + (width - last - 1) % 4
        result[width] = last
    return result


def changed(model: Any, **changes: Any) -> Any:
    """A validated copy of a pydantic model with fields changed."""
    kept = {name: getattr(model, name) for name in type(model).model_fields}
    return type(model).model_validate(kept | changes)


def layouts_line(old: Layout, new: Layout) -> list[str]:
    """A line on the ranks, where they became fewer."""
    return [f"ranks: {_nodes(old)} -> {_nodes(new)}"] if old != new else []


def _nodes(layout: Layout) -> str:
    return f"{layout.ranks} ({layout.nodes} node{'s' if layout.nodes > 1 else ''} of {layout.local_size})"
