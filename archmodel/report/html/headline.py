"""The figures on top of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archmodel.quantities import show
from archmodel.report.html.text import markup
from archmodel.report.ranks import on_rank
from archmodel.report.words import DIMENSION, data, money, one_line, percent, signed, time

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate

Card = tuple[str, str, str, str]
"""Heading, value, remark, and "good", "bad" or nothing. Plain text."""


def cards(estimate: Estimate) -> list[Card]:
    """What one looks at first."""
    period, bound = float(estimate.iteration_time), estimate.bound
    tight = max(
        (need for need in estimate.memory.values() if need.worst > 0),
        key=lambda need: need.worst / max(on_rank(need.capacity, need.worst_rank), 1.0),
        default=None,
    )
    filled = ""
    if tight is not None:
        capacity = data(on_rank(tight.capacity, tight.worst_rank))
        filled = f"{tight.tier.upper()} {data(tight.worst)} of {capacity} on rank {tight.worst_rank}"
    exposed = float(estimate.exposed_communication)
    found = [
        ("iteration time", time(period), f"latency {time(estimate.latency)}", ""),
        ("throughput", show(estimate.throughput, "sample_rate"), f"{estimate.samples:,} samples an iteration", ""),
        ("memory", "fits" if estimate.fits else "does not fit", filled, "good" if estimate.fits else "bad"),
        (
            "bound by",
            one_line(bound.resource),
            f"{percent(bound.shares.get(bound.resource, 0.0))} of the critical path, most in {one_line(bound.op)}",
            "",
        ),
        (
            "exposed communication",
            percent(exposed / period),
            f"{time(exposed)}; compute idle {percent(bound.compute_idle)}",
            "",
        ),
    ]
    for name, row in estimate.published.items():
        used = "calibrated on it" if row["calibrated"] else "held out"
        said = f"{show(float(row['published']), DIMENSION.get(name, 'ratio'))} published, {used}"
        found.append((f"{name.replace('_', ' ')} against published", signed(float(row["error"]), 1), said, ""))
    if estimate.energy is not None:
        power = f"{show(float(estimate.energy.power), 'watts')} mean power"
        found.append(("energy", show(float(estimate.energy.per_sample), "joules_per_sample"), power, ""))
    if estimate.cost is not None:
        usd, many = _readable(float(estimate.cost.per_million_samples))
        found.append(("cost", money(usd), f"per {many} samples", ""))
    return found


def _readable(usd: float) -> tuple[float, str]:
    """Dollars for a million samples, or for as many more that it comes to a cent."""
    for many in ("million", "billion"):
        if usd >= 0.01 or usd <= 0:
            return usd, many
        usd *= 1e3
    return usd, "trillion"


def as_html(found: list[Card]) -> str:
    """Cards side by side."""
    items = "".join(
        f'<div class="card {mood}"><span class="what">{markup(what)}</span><b>{markup(value)}</b>'
        f'<span class="remark">{markup(remark)}</span></div>'
        for what, value, remark, mood in found
    )
    return f'<div class="cards">{items}</div>'
