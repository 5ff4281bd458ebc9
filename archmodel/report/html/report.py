"""The page of one design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archmodel.report.html import headline, laws, network, tables
from archmodel.report.html.balance import balance
from archmodel.report.html.elasticities import elasticities
from archmodel.report.html.memory import memory
from archmodel.report.html.page import Page, Section
from archmodel.report.html.roofline import roofline
from archmodel.report.html.timeline import timeline
from archmodel.report.html.traffic import traffic
from archmodel.report.html.waterfall import waterfall
from archmodel.report.sources import assumptions
from archmodel.report.words import plural

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate


def report(estimate: Estimate) -> Page:
    """Everything about one design point."""
    design = estimate.design
    known = laws.explained(estimate)
    listed, wired = tables.inputs(design), network.blocks(estimate)
    assumed = len(assumptions(design))
    figures = tables.published(estimate)
    held = [table for table in (tables.tiers(estimate), tables.caches(estimate)) if table.rows]
    sections = [
        Section("where", "Where the time goes", [waterfall(estimate), tables.phases(estimate)]),
        Section("time", "Timeline", [timeline(estimate, laws.hints(known))]),
        Section("kernels", "Kernels and traffic", [roofline(estimate), traffic(estimate)], beside=True),
        *([Section("net", "Network", wired)] if wired else []),
        Section("ranks", "Ranks", [memory(estimate), balance(estimate)], beside=True),
        *([Section("below", "Memories and caches", held)] if held else []),
        Section("levers", "What one percent more buys", [elasticities(estimate)]),
        *([Section("facts", "Predicted against published", [figures])] if figures.rows else []),
        Section("tables", "Embedding tables", [tables.plan(design)] if len(design.placement.tables) else [_NONE]),
        Section("all", "All ops", [tables.ops(estimate)]),
        Section("laws", "Laws", [laws.section(known, design)], note=_LAWS),
        Section(
            "sources",
            "Values and their sources",
            [listed],
            note=f"{plural(assumed, 'value')} of {len(listed.rows):,} rest on no source; they come first.",
        ),
    ]
    ranks = f"{plural(estimate.program.ranks, 'rank')} on {plural(design.layout.nodes, 'node')}"
    subtitle = f"{ranks}, batch {estimate.samples:,}, {plural(len(estimate.ops), 'op')} an iteration"
    return Page(design.name or "unnamed design", subtitle, headline.as_html(headline.cards(estimate)), sections)


_NONE = "<p>The workload has no embedding tables.</p>"
_LAWS = "What each kind of op is priced by, as the code that priced it states it, with the values that it read."
