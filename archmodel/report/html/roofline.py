"""Every kernel against the device's bounds: operations per byte of device memory, and operations per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.quantities import show
from archmodel.report.html import palette
from archmodel.report.html.figure import Figure, si_axis
from archmodel.report.html.text import label, lines
from archmodel.report.ranks import on_rank, slowest_rank
from archmodel.report.words import DEVICE_TIER, data, percent, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate


@dataclass(frozen=True)
class Kernel:
    """An op on the rank where it takes longest: FLOP, bytes of device memory, seconds, and what the roof allows."""

    name: str
    phase: str
    dtype: str
    flops: float
    bytes: float
    seconds: float
    roof: float

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes

    @property
    def rate(self) -> float:
        """FLOP/s."""
        return self.flops / self.seconds

    @property
    def bandwidth_bound(self) -> bool:
        """Whether the sloped part of the roof is what it is under."""
        return self.roof < 1.0


def kernels(estimate: Estimate) -> list[Kernel]:
    """Ops of the compute stream that compute something and touch device memory."""
    found = []
    bandwidth = _first(estimate.design.system.gpu.memory.bandwidth)
    for op in estimate.ops:
        rank, work = slowest_rank(op), op.op.work
        flops, seconds = on_rank(work.flops(), rank), on_rank(op.time, rank)
        moved = sum(on_rank(amount, rank) for tier, amount in work.memory_bytes().items() if tier == DEVICE_TIER)
        if "compute" not in op.op.streams or min(flops, seconds, moved) <= 0:
            continue
        dtype = str(getattr(work, "dtype", ""))
        peak = _peak(estimate, dtype)
        sloped = flops / moved * bandwidth / peak if peak else 0.0
        found.append(Kernel(op.name, op.op.phase, dtype, flops, moved, seconds, sloped))
    return found


def _first(value: Any) -> float:
    return float(np.ravel(value)[0])


def _peak(estimate: Estimate, dtype: str) -> float | None:
    try:
        return _first(estimate.design.system.gpu.peak(dtype))
    except ArchmodelError:
        return None


def roofline(estimate: Estimate) -> Figure:
    """Points over roofs, both axes logarithmic."""
    points = kernels(estimate)
    device = estimate.design.system.gpu
    bandwidth = _first(device.memory.bandwidth)
    used = [d for d in dict.fromkeys(p.dtype for p in points) if _peak(estimate, d)] or list(device.rates())[:1]
    peaks: dict[str, float] = {str(d): _peak(estimate, str(d)) or 0.0 for d in used}
    low = min([p.intensity for p in points], default=0.1) / 3
    high = max([p.intensity for p in points] + [3 * max(peaks.values()) / bandwidth]) * 3
    ridge = max(peaks.values()) / bandwidth
    roofs: list[dict[str, Any]] = [
        _line(
            [low, ridge],
            [low * bandwidth, ridge * bandwidth],
            f"{label(_memory(device))} {show(bandwidth, 'bandwidth')}",
        )
    ]
    for dtype, peak in sorted(peaks.items(), key=lambda item: -item[1]):
        roofs.append(_line([peak / bandwidth, high], [peak, peak], f"{label(dtype)} {show(peak, 'flop_rate')}", "dash"))
    longest = max((p.seconds for p in points), default=1.0)
    for phase in dict.fromkeys(p.phase for p in points):
        mine = [p for p in points if p.phase == phase]
        roofs.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(phase),
                "x": [p.intensity for p in mine],
                "y": [p.rate for p in mine],
                "marker": {
                    "color": palette.phase(phase),
                    "opacity": 0.8,
                    "size": [7 + 15 * (p.seconds / longest) ** 0.5 for p in mine],
                    "line": {"width": 0.5, "color": "rgba(128,128,128,0.9)"},
                },
                "hovertext": [_hover(p, bandwidth, peaks.get(p.dtype)) for p in mine],
                "hoverinfo": "text",
                "customdata": [p.name for p in mine],
            }
        )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "FLOP per byte of device memory"}, "tickformat": "~s", "dtick": 1},
        "yaxis": {"type": "log", **si_axis("FLOP/s"), "dtick": 1},
        "hovermode": "closest",
    }
    note = (
        "Size of a point: its time. Bytes are those that an op asks for: what a cache serves lifts it above the slope."
    )
    return Figure("roofline", "Roofline", _takeaway(points, peaks), roofs, layout, height=420, note=note)


def _memory(device: Any) -> str:
    return str(device.memory.name or "device memory")


def _line(x: list[float], y: list[float], name: str, dash: str = "solid") -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": palette.NEUTRAL, "width": 2, "dash": dash},
        "hovertext": [name, name],
        "hoverinfo": "text",
    }


def _hover(p: Kernel, bandwidth: float, peak: float | None) -> str:
    reached = [f"{percent(p.bytes / p.seconds / bandwidth)} of the memory's bandwidth"]
    if peak:
        reached.append(f"{percent(p.rate / peak)} of the {label(p.dtype)} peak")
    return lines(
        f"<b>{label(p.name, 60)}</b>",
        f"{time(p.seconds)}: {show(p.flops, 'flops')} on {data(p.bytes)}",
        f"{show(p.rate, 'flop_rate')}, {p.intensity:,.3g} FLOP/B",
        "<br>".join(reached),
    )


def _takeaway(points: list[Kernel], peaks: dict[str, float]) -> str:
    if not points:
        return "No op of the compute stream does arithmetic on device memory."
    whole = sum(p.seconds for p in points)
    slope = sum(p.seconds for p in points if p.bandwidth_bound)
    heavy = max(points, key=lambda p: p.flops)
    reached = heavy.rate / peaks[heavy.dtype] if heavy.dtype in peaks else None
    said = f"Ops below the memory slope take {percent(slope / whole)} of the kernel time"
    return (
        f"{said}; {heavy.name}, the largest product, reaches {percent(reached)} of its peak." if reached else f"{said}."
    )
