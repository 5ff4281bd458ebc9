"""What moves in an iteration: from each group of ops to the memories and links that carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure
from archmodel.report.html.text import label, labels
from archmodel.report.words import DEVICE_TIER, STREAMS, data, percent

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

MOST_GROUPS = 12
"""Groups with a band of their own; the rest are one."""

DEVICE = f"{DEVICE_TIER} memory"

MANY = 24
"""With more groups of ops than that, kinds of work stand in their place."""

Flows = dict[tuple[str, str], float]


def flows(estimate: Estimate) -> Flows:
    """Mean bytes per rank and iteration by (group of ops, tier or link): reads and writes of a memory, bytes sent on a
    link."""
    many = len({(phase.name, phase.phase) for phase in estimate.phases}) > MANY
    found: Flows = {}
    for phase in estimate.phases:
        for name in phase.ops:
            work = estimate.op(name).op.work
            group = f"{type(work).__name__ if many else phase.name} ({phase.phase})"
            amounts = {f"{tier} memory": amount for tier, amount in work.memory_bytes().items()}
            for carrier, amount in {**amounts, **work.wire_bytes()}.items():
                key = (group, str(carrier))
                found[key] = found.get(key, 0.0) + float(np.mean(amount))
    return {key: amount for key, amount in found.items() if amount > 0}


def used(estimate: Estimate) -> dict[str, float]:
    """Share of the iteration in which each memory or link is at work: bytes over what its bandwidth could move, links
    by the time that their stream is occupied on the busiest rank, memories of the node as `Estimate.tiers` says."""
    period = float(estimate.iteration_time)
    shares = {
        stream: float(np.max(estimate.busy(stream))) / period
        for stream in ("scale_up", "scale_out")
        if np.max(estimate.busy(stream)) > 0
    }
    tiers = {f"{use.tier} memory": float(np.max(use.busy)) for use in estimate.tiers.values()}
    moved = sum(amount for (_, carrier), amount in flows(estimate).items() if carrier == DEVICE)
    bandwidth = float(np.ravel(estimate.design.system.gpu.memory.bandwidth)[0])
    return {**tiers, **({DEVICE: moved / bandwidth / period} if moved else {}), **shares}


def traffic(estimate: Estimate) -> Figure:
    """A Sankey diagram: groups to the left, memories and links to the right."""
    bands = _fewer(flows(estimate))
    busy = used(estimate)
    groups = list(dict.fromkeys(group for group, _ in bands))
    carriers = list(dict.fromkeys(carrier for _, carrier in bands))
    total = {c: sum(amount for (_, carrier), amount in bands.items() if carrier == c) for c in carriers}
    told = {c: f"{_name(c)} {data(total[c])}" + (f", busy {percent(busy[c])}" if c in busy else "") for c in carriers}
    index = {name: i for i, name in enumerate([*(f"g {g}" for g in groups), *(f"c {c}" for c in carriers)])}
    colours = [palette.colour(c.removesuffix(" memory")) for c in carriers]
    trace = {
        "type": "sankey",
        "arrangement": "fixed",
        "node": {
            "label": [*labels(groups, 34), *(label(told[c], 60) for c in carriers)],
            "color": [*([palette.NEUTRAL] * len(groups)), *colours],
            "pad": 9,
            "thickness": 12,
            "line": {"width": 0},
            "hovertemplate": "%{label}<extra></extra>",
        },
        "link": {
            "source": [index[f"g {group}"] for group, _ in bands],
            "target": [index[f"c {carrier}"] for _, carrier in bands],
            "value": list(bands.values()),
            "color": [palette.faint(palette.colour(carrier.removesuffix(" memory")), 0.45) for _, carrier in bands],
            "customdata": [data(amount) for amount in bands.values()],
            "hovertemplate": "%{source.label} to %{target.label}: %{customdata}<extra></extra>",
        },
        "valueformat": ".3s",
        "valuesuffix": "B",
        "textfont": {"size": 11},
    }
    return Figure(
        "traffic",
        "Traffic between tiers and on links",
        _takeaway(total, busy),
        [trace],
        {"margin": {"l": 4, "r": 4, "t": 8, "b": 8}},
        height=max(300, 90 + 24 * len(groups)),
        narrow={"font.size": 9},
        note="Bytes of the mean rank in one iteration: reads and writes of a memory before any cache, bytes sent on "
        "links. Busy: what the bandwidth would need for the bytes, or, for links, how long the busiest rank uses them.",
    )


def _name(carrier: str) -> str:
    return STREAMS.get(carrier, carrier.replace(" memory", "").upper() if carrier.endswith(" memory") else carrier)


def _fewer(bands: Flows) -> Flows:
    size: dict[str, float] = {}
    for (group, _), amount in bands.items():
        size[group] = size.get(group, 0.0) + amount
    kept = set(sorted(size, key=lambda group: -size[group])[:MOST_GROUPS])
    result: Flows = {}
    for (group, carrier), amount in bands.items():
        key = (group if group in kept else "other ops", carrier)
        result[key] = result.get(key, 0.0) + amount
    return result


def _takeaway(total: dict[str, float], busy: dict[str, float]) -> str:
    if not total:
        return "Nothing moves."
    ranked = sorted(total.items(), key=lambda item: -item[1])
    moved = ", ".join(f"{data(n)} {'through' if c.endswith(' memory') else 'over the'} {_name(c)}" for c, n in ranked)
    most = max(busy, key=lambda c: busy[c], default="")
    return f"A rank moves {moved}." + (f" Busiest is {_name(most)}, {percent(busy[most])} of the time." if most else "")
