"""How evenly the ranks are loaded: time of every group of ops on every rank, against the mean of the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archmodel.report.html.figure import Figure
from archmodel.report.html.text import labels
from archmodel.report.words import one_line, percent, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate
    from archmodel.quantities import Array

MOST_COLUMNS = 256
"""Columns of the map; with more ranks, each column is the largest of consecutive ranks."""

OPS = 40
"""Up to so many ops have a row each; more are grouped as in the table of phases."""

EVEN = 0.002
"""Difference from the mean that is called none."""


def loads(estimate: Estimate) -> dict[str, Array]:
    """Seconds of every op, or group of ops, on every rank, and of each stream together."""
    ranks = estimate.program.ranks
    if len(estimate.ops) <= OPS:
        rows = {op.name: np.array(np.broadcast_to(np.ravel(op.time), ranks)) for op in estimate.ops}
    else:
        rows = {}
        for phase in estimate.phases:
            times = sum((np.ravel(estimate.op(name).time) for name in phase.ops), np.zeros(1))
            rows[f"{phase.name} ({phase.phase})"] = np.array(np.broadcast_to(times, ranks))
    rows["all compute"] = np.array(np.broadcast_to(np.ravel(estimate.busy("compute")), ranks))
    return {name: times for name, times in rows.items() if times.max() > 0}


def balance(estimate: Estimate) -> Figure:
    """A heat map, rows in program order; 0 % is the mean of the ranks."""
    rows = loads(estimate)
    ranks = estimate.program.ranks
    per = -(-ranks // MOST_COLUMNS)
    uneven = {name: float(times.max() / times.mean() - 1.0) for name, times in rows.items()}
    shown = [name for name in rows if uneven[name] > EVEN or name == "all compute"]
    z = [_binned(100 * (rows[name] / rows[name].mean() - 1.0), per) for name in shown]
    seconds = [_binned(rows[name], per) for name in shown]
    reach = max((float(np.max(np.abs(row))) for row in z), default=0.0)
    reach = max(reach, 1.0)  # per cent
    names = labels(shown, 34)
    x = [int(i * per) for i in range(len(z[0]))] if z else []
    trace = {
        "type": "heatmap",
        "x": x,
        "y": names,
        "z": z,
        "customdata": seconds,
        "zmin": -reach,
        "zmax": reach,
        "zmid": 0,
        "autocolorscale": True,
        "xgap": 1 if len(x) <= 64 else 0,
        "ygap": 1,
        "colorbar": {"ticksuffix": " %", "thickness": 12, "outlinewidth": 0, "title": {"text": "from mean"}},
        "hovertemplate": "%{y}<br>rank %{x}: %{customdata:.3s}s, %{z:+.2f} % from the mean<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "rank" if per == 1 else f"rank (the largest of {per} each)"}, "showgrid": False},
        "yaxis": {
            "type": "category",
            "tickvals": list(range(len(shown))),
            "ticktext": names,
            "range": [len(shown) - 0.5, -0.5],
            "showgrid": False,
            "fixedrange": True,
        },
    }
    even = len(rows) - len(shown)
    note = f"{even} more rows differ by less than {percent(EVEN, 1)} between ranks and are left out." if even else ""
    return Figure(
        "balance",
        "Balance over ranks",
        _takeaway(rows, uneven, ranks),
        [trace],
        layout,
        height=100 + 24 * max(len(shown), 2),
        narrow={"yaxis.ticktext": labels(shown, 16), "yaxis.tickfont.size": 10},
        note=note,
    )


def _binned(row: Array, per: int) -> Array:
    if per == 1:
        return row
    padded = np.concatenate([row, np.full(-len(row) % per, row[-1])])
    return np.asarray(padded.reshape(-1, per).max(1))


def _takeaway(rows: dict[str, Array], uneven: dict[str, float], ranks: int) -> str:
    if ranks == 1:
        return "One rank, so nothing to balance."
    single = {name: over for name, over in uneven.items() if name != "all compute"}
    worst = max(single, key=lambda name: float(rows[name].max() - rows[name].mean()), default="")
    if not worst or single[worst] <= EVEN:
        return f"All {ranks:,} ranks carry the same load."
    rank = int(rows[worst].argmax())
    lost = float(rows[worst].max() - rows[worst].mean())
    compute = (
        f" All compute together: {percent(uneven['all compute'], 1)} above the mean." if "all compute" in uneven else ""
    )
    return (
        f"Most is lost in {one_line(worst)}: rank {rank} takes {time(lost)} ({percent(single[worst], 1)}) longer than "
        f"the mean rank.{compute}"
    )
