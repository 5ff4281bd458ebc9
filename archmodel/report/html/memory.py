"""What every rank needs of every memory, by what it is for, against what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, si_axis
from archmodel.report.html.text import label, lines
from archmodel.report.ranks import on_rank
from archmodel.report.words import data, percent

if TYPE_CHECKING:
    from archmodel.estimate.memory import MemoryNeed
    from archmodel.estimate.result import Estimate

MOST_BARS = 160
"""Bars of one tier; with more ranks, each shows the rank that needs most of consecutive ones."""

FAR = 0.15
"""Share of its capacity below which a tier is drawn without the line of its capacity, so that its bars are seen."""


def memory(estimate: Estimate) -> Figure:
    """A row of stacked bars for every tier that holds something."""
    needs = [need for need in estimate.memory.values() if need.worst > 0]
    ranks = estimate.program.ranks
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"barmode": "stack", "bargap": 0.0 if ranks > 32 else 0.15, "hovermode": "closest"}
    shapes, notes, seen = [], [], set[str]()
    step = 1.0 / max(len(needs), 1)
    for i, need in enumerate(needs):
        suffix = "" if i == 0 else str(i + 1)
        shown = _shown(need, ranks)
        for role, amount in need.parts.items():
            held = np.broadcast_to(np.ravel(amount), ranks)[shown]
            if held.max() > 0:
                traces.append(_bars(need, role, held, shown, suffix, role not in seen))
                seen.add(role)
        bottom = 1.0 - step * (i + 1)
        top = bottom + step * (0.86 if len(needs) > 1 else 1.0)
        capacity = on_rank(need.capacity, need.worst_rank)
        far = need.worst < FAR * capacity
        high = 1.5 * need.worst if far else 1.1 * max(capacity, need.worst)
        layout[f"yaxis{suffix}"] = {
            **si_axis("B", label(need.tier.upper())),
            "domain": [max(bottom, 0.0), top],
            "range": [0.0, high],
        }
        layout[f"xaxis{suffix}"] = {
            "anchor": f"y{suffix}",
            "showgrid": False,
            "title": {"text": "rank"} if i == len(needs) - 1 else {"text": ""},
        }
        if ranks <= 16:
            layout[f"xaxis{suffix}"]["dtick"] = 1
        line = {"color": palette.BAD, "width": 2, "dash": "dash"}
        at = {"xref": "paper", "yref": f"y{suffix}", "x0": 0, "x1": 1, "y0": capacity, "y1": capacity}
        if not far:
            shapes.append({"type": "line", **at, "line": line})
        where = {"xref": "paper", "x": 1, "xanchor": "right", "yref": f"y{suffix}", "yanchor": "top"}
        said = f"capacity {data(capacity)}{', far above' if far else ''}"
        place = {**where, "y": high if far else capacity}
        notes.append({**place, "text": said, "showarrow": False, "font": {"size": 11}})
    layout |= {"shapes": shapes, "annotations": notes}
    several = ranks > MOST_BARS
    return Figure(
        "memory",
        "Memory by tier and rank",
        _takeaway(needs),
        traces,
        layout,
        height=70 + 210 * max(len(needs), 1),
        note=f"Each bar is the fullest of {-(-ranks // MOST_BARS)} consecutive ranks." if several else "",
    )


def _shown(need: MemoryNeed, ranks: int) -> Any:
    """Ranks that get a bar."""
    if ranks <= MOST_BARS:
        return np.arange(ranks)
    whole = np.broadcast_to(np.ravel(need.need), ranks)
    per = -(-ranks // MOST_BARS)
    return np.array([i + int(whole[i : i + per].argmax()) for i in range(0, ranks, per)])


def _bars(need: MemoryNeed, role: str, held: Any, shown: Any, suffix: str, first: bool) -> dict[str, Any]:
    name = label(role.replace("_", " "))
    whole = np.broadcast_to(np.ravel(need.need), max(int(shown.max()) + 1, np.size(need.need)))
    return {
        "type": "bar",
        "name": name,
        "legendgroup": role,
        "showlegend": first,
        "x": shown,
        "y": held,
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "marker": {"color": palette.role(role), "line": {"width": 0}},
        "hovertext": [
            lines(f"rank {rank}, {label(need.tier.upper())}", f"{name} {data(float(h))} of {data(float(whole[rank]))}")
            for rank, h in zip(shown, held, strict=True)
        ],
        "hoverinfo": "text",
    }


def _takeaway(needs: list[MemoryNeed]) -> str:
    said = []
    for need in needs:
        capacity = on_rank(need.capacity, need.worst_rank)
        filled = f"{percent(need.worst / capacity)} of {data(capacity)}" if capacity else "of a tier with no capacity"
        verdict = "" if need.fits else ", which does not fit"
        held = {role: on_rank(amount, need.worst_rank) for role, amount in need.parts.items()}
        most = max(held, key=lambda role: held[role]).replace("_", " ")
        said.append(f"{need.tier.upper()} is fullest on rank {need.worst_rank}: {filled}{verdict}, most of it {most}")
    return ". ".join(said) + "." if said else "No memory is needed."
