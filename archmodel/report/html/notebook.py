"""What notebooks show, and figures by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from archmodel.errors import ArchmodelError, shown, suggestion
from archmodel.quantities import show
from archmodel.report.html import headline, tables
from archmodel.report.html.balance import balance
from archmodel.report.html.elasticities import elasticities
from archmodel.report.html.figure import Figure
from archmodel.report.html.memory import memory
from archmodel.report.html.network import network
from archmodel.report.html.roofline import roofline
from archmodel.report.html.text import markup
from archmodel.report.html.timeline import timeline
from archmodel.report.html.traffic import traffic
from archmodel.report.html.waterfall import waterfall
from archmodel.report.words import one_line, percent, plural, time

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure  # type: ignore[import-untyped]

    from archmodel.design import Design
    from archmodel.estimate.result import Estimate
    from archmodel.search.planner import Plan
    from archmodel.sweep.results import Results

FIGURES: dict[str, Callable[[Estimate], Figure]] = {
    "timeline": timeline,
    "waterfall": waterfall,
    "roofline": roofline,
    "balance": balance,
    "memory": memory,
    "traffic": traffic,
    "network": network,
    "elasticities": elasticities,
}
"""Figures of an estimate (one design point) by name."""


def figure(estimate: Estimate, name: str) -> PlotlyFigure:
    """One of `FIGURES`. Raises ArchmodelError for another name, and for an estimate of many design points."""
    if name not in FIGURES:
        raise ArchmodelError(f"no figure {shown(name)}; {suggestion(name, FIGURES)}")
    if estimate.timeline.period.ndim:
        raise ArchmodelError("a figure shows one design point; this estimate holds many")
    return FIGURES[name](estimate).to_plotly()


_LEFT = "style='text-align:left'"


def _box(title: str, rows: list[tuple[str, str]], below: str = "") -> str:
    """A heading and pairs, without styles that would not suit a dark notebook."""
    body = "".join(
        f"<tr><th {_LEFT}>{markup(name)}</th><td {_LEFT}>{markup(one_line(value))}</td></tr>" for name, value in rows
    )
    return f"<div><h4>{markup(one_line(title))}</h4><table><tbody>{body}</tbody></table>{below}</div>"


def design_html(design: Design) -> str:
    """Machine, model and plan in a few lines."""
    layout, found = design.layout, design.placement.tables
    device = design.system.gpu.name or "device"
    rows = [
        ("machine", f"{plural(layout.nodes, 'node')} of {layout.local_size} {device}"),
        (
            "workload",
            f"{design.workload.name or ''} batch {design.workload.global_batch:,}, {plural(len(found), 'table')}",
        ),
        ("tables", _counts(design)),
        *((f"published {name}", f"{fact.value:,.6g}, {fact.source}") for name, fact in design.published.items()),
        ("file", str(design.path or "")),
    ]
    return _box(design.name or "unnamed design", [(name, value) for name, value in rows if value])


def _counts(design: Design) -> str:
    counted: dict[str, int] = {}
    for kind, tier in zip(design.placement.sharding, design.placement.tier, strict=True):
        counted[f"{kind} in {tier}"] = counted.get(f"{kind} in {tier}", 0) + 1
    return ", ".join(f"{n:,} {kind}" for kind, n in sorted(counted.items(), key=lambda item: -item[1]))


def estimate_html(estimate: Estimate) -> str:
    """The headline and the phases; of many design points, their ranges."""
    if estimate.timeline.period.ndim:
        rows = [
            ("iteration time", show(estimate.iteration_time, "seconds")),
            ("throughput", show(estimate.throughput, "sample_rate")),
            ("design points", f"{estimate.timeline.period.size:,}"),
        ]
        return _box(estimate.design.name, rows)
    rows = [(what, f"{value} ({remark})" if remark else value) for what, value, remark, _ in headline.cards(estimate)]
    return _box(estimate.design.name or "unnamed design", rows, tables.phases(estimate).static(40))


def plan_html(plan: Plan) -> str:
    """How good a plan is, and where the largest tables go."""
    rows = [
        ("iteration time", time(plan.value)),
        ("lower bound", f"{time(plan.lower_bound)} (gap {percent(plan.gap, 2)})"),
        ("memory", "fits" if plan.fits else "does not fit"),
        ("tables", _counts(plan.design)),
    ]
    return _box(f"Plan for {plan.design.name}", rows, tables.plan(plan.design).static())


def results_html(results: Results) -> str:
    """Axes, ranges of the outputs, and the best point."""
    from archmodel.report.html.opening import kind_of

    def worded(name: str, value: Any) -> str:
        kind = kind_of(results.units.get(name, ""))
        return show(value, kind) if kind and isinstance(value, int | float) else str(value)

    ranges = results.ranges()
    rows = [("points", f"{results.points:,}, {sum(results.reasons.values()):,} without an answer")]
    rows += [(name, f"{worded(name, low)} to {worded(name, high)}") for name, (low, high) in ranges.items()]
    best = results.best() if "throughput" in results.outputs else None
    if best is not None:
        at = ", ".join(f"{name} {worded(name, best[name])}" for name in results.inputs)
        rows.append(("most throughput", f"{worded('throughput', best['throughput'])} at {at}"))
    return _box(str(results.meta.get("name", "sweep")), rows)
