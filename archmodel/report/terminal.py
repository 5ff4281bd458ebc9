"""An estimate as a terminal shows it. Text from design files is never read as markup."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from archmodel.quantities import show
from archmodel.report.ranks import on_rank, parts_of, parts_on, slowest_rank
from archmodel.report.sources import assumptions
from archmodel.report.words import (
    DIMENSION,
    NO_BREAK,
    data,
    money,
    on,
    one_line,
    percent,
    plural,
    shares,
    signed,
    time,
    whole,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from archmodel.estimate.memory import MemoryNeed
    from archmodel.estimate.result import Bound, Estimate
    from archmodel.estimate.use import CacheUse, TierUse

WIDE = 120
"""Columns when the output is no terminal."""

LEVERS = 6
"""How many resources the line of elasticities names."""

LEAST_LEVER = 0.005
"""Elasticity below which a resource is not named: it would be shown as nothing."""


def console(file: TextIO | None = None, width: int | None = None) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no guessing at colours."""
    out = file or sys.stdout
    if width is None and not out.isatty():
        width = WIDE
    return Console(file=out, width=width, markup=False, emoji=False, highlight=False)


def emit(screen: Console, blocks: Iterable[RenderableType], file: TextIO) -> None:
    """Prints blocks one below the other, without spaces at the ends of lines."""
    with screen.capture() as captured:
        for block in blocks:
            screen.print(block)
    lines = captured.get().replace(NO_BREAK, " ").split("\n")
    file.write("\n".join(line.rstrip() for line in lines))


def show_estimate(
    estimate: Estimate, *, path: str, ops: bool = False, file: TextIO | None = None, width: int | None = None
) -> None:
    """Prints the whole report of one design point. `path`: the design as the user wrote it, for hints."""
    out = file or sys.stdout
    screen = console(out, width)
    emit(screen, report(estimate, path=path, ops=ops, width=screen.width), out)


def report(estimate: Estimate, *, path: str, ops: bool = False, width: int = WIDE) -> list[RenderableType]:
    """Blocks of the report, from the headline to the assumptions."""
    blocks: list[RenderableType] = [headline(estimate, width), Text(), *summary(estimate, width), Text()]
    blocks += [_indented(phase_table(estimate)), Text()]
    if ops:
        blocks += [_indented(op_table(estimate)), Text()]
    if estimate.memory:
        blocks += [_indented(memory_table(estimate.memory.values())), Text()]
    if estimate.caches or any(use.tier != "ddr" for use in estimate.tiers.values()):
        blocks += [_indented(tier_table(estimate.tiers.values())), Text()]
    if estimate.caches:
        blocks += [_indented(cache_table(estimate.caches.values())), Text()]
    return [*blocks, *closing(estimate, path, width)]


# --- headline and summary -------------------------------------------------------------------------------------


def headline(estimate: Estimate, width: int) -> RenderableType:
    """`Neo model A on 16 ZionEX nodes          128 ranks · batch 65,536 · fits (hbm 31.2 of 40 GB on rank 57)`."""
    ranks = plural(estimate.program.ranks, "rank")
    facts = Text(f"{ranks} · batch {estimate.samples:,} · ")
    facts.append_text(_fit(estimate))
    title = Text(one_line(estimate.design.name) or "unnamed design", style="bold")
    if title.cell_len + facts.cell_len + 2 > width:
        return Group(title, facts)
    return title + Text(" " * (width - title.cell_len - facts.cell_len)) + facts


def _fit(estimate: Estimate) -> Text:
    needs = list(estimate.memory.values())
    tight = [need for need in needs if not need.fits] or needs[:1]
    amounts = ", ".join(
        f"{need.tier.upper()} {_of(need.worst, on_rank(need.capacity, need.worst_rank))} on rank {need.worst_rank}"
        for need in tight
    )
    detail = f" ({amounts})" if amounts else ""
    return Text(f"fits{detail}", "green") if estimate.fits else Text(f"does not fit{detail}", "bold red")


def _of(need: float, capacity: float) -> str:
    """`31.2 of 40.0 GB`, or with both units where they differ."""
    first, second = data(need), data(capacity)
    unit = second.rpartition(" ")[2]
    return f"{first.removesuffix(' ' + unit)} of {second}"


def summary(estimate: Estimate, width: int) -> list[Text]:
    """Iteration, throughput, published figures, energy, cost; then what bounds the iteration."""
    exposed = estimate.exposed_communication
    facts = [
        _fact("iteration", time(estimate.iteration_time)),
        _fact("throughput", show(estimate.throughput, "sample_rate")),
        *(_published(quantity, row) for quantity, row in estimate.published.items()),
    ]
    if estimate.energy is not None:
        facts.append(_fact("energy", show(float(estimate.energy.per_sample), "joules_per_sample")))
    if estimate.cost is not None:
        facts.append(_fact("cost", f"{money(float(estimate.cost.per_million_samples))} / Msample"))
    waiting = [
        _fact("latency", time(estimate.latency)),
        _fact("exposed communication", f"{time(exposed)} ({percent(exposed / estimate.iteration_time)})"),
    ]
    return [flow(facts, width), flow(waiting, width), flow(_bound(estimate.bound), width)]


def _fact(name: str, value: str) -> Text:
    return Text(f"{name}  ", "dim") + Text(value)


def _published(quantity: str, row: dict[str, Any]) -> Text:
    value = show(float(row["published"]), DIMENSION.get(quantity, "ratio"))
    label = "published" if quantity == "throughput" else f"published {one_line(quantity)}"
    used = ", calibrated on it" if row["calibrated"] else ""
    return _fact(label, f"{value} ({signed(float(row['error']), 1)}{used})")


def _bound(bound: Bound) -> list[Text]:
    share = percent(bound.shares.get(bound.resource, 0.0))
    where = f"{one_line(bound.op)} on rank {bound.rank}"
    others = [f"{one_line(name)} {percent(part)}" for name, part in bound.shares.items() if name != bound.resource]
    facts = [_fact("bound by", f"{one_line(bound.resource)}, {share} of the critical path, most in {where}")]
    if others:
        facts.append(_fact("then", ", ".join(others[:3])))
    return [*facts, _fact("compute idle", percent(bound.compute_idle))]


def flow(items: Sequence[Text], width: int, indent: int = 2, gap: int = 5) -> Text:
    """Items side by side with gaps, on as many lines as it takes; an item too long for one is folded by the console."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + gap + item.cell_len <= width:
            lines[-1] = lines[-1] + Text(" " * gap) + item
        else:
            lines.append(Text(" " * indent) + item)
    return Text("\n").join(lines)


# --- tables ---------------------------------------------------------------------------------------------------


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> Table:
    """A table without rules, in the look of this package; columns named in `right` are numbers, and the text of
    those named in `whole` is not divided as long as there is room."""
    numbers, undivided = set(right), set(whole)
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in numbers else "left",
            overflow="fold",
            no_wrap=column in undivided,
        )
    return made


def _indented(block: RenderableType) -> RenderableType:
    return Padding(block, (0, 0, 0, 2))


def phase_table(estimate: Estimate) -> Table:
    """A row per group of ops, in program order."""
    numbers = ("slowest", "median", "exposed")
    rows = table("phase", "", "slowest", "median", "exposed", "on", "time goes to", right=numbers)
    last = None
    for phase in estimate.phases:
        parts = parts_of(estimate.op(name) for name in phase.ops)
        rows.add_row(
            Text("" if phase.phase == last else phase.phase, "dim"),
            Text(one_line(phase.name)),
            whole(time(phase.slowest)),
            whole(time(phase.median)),
            whole(time(phase.exposed)) if phase.exposed else Text(""),
            on(phase.stream),
            shares(parts),
        )
        last = phase.phase
    return rows


def op_table(estimate: Estimate) -> Table:
    """A row per op, in program order, with its amounts on the rank on which it takes longest."""
    numbers = ("slowest", "median", "FLOP", "memory", "wire")
    rows = table(
        "op", "slowest", "median", "on", "time goes to", "FLOP", "memory", "wire", right=numbers, whole=("op",)
    )
    for op in estimate.ops:
        rank, work = slowest_rank(op), op.op.work
        flops = on_rank(work.flops(), rank)
        memory = sum(on_rank(amount, rank) for amount in work.memory_bytes().values())
        wire = sum(on_rank(amount, rank) for amount in work.wire_bytes().values())
        rows.add_row(
            Text(one_line(op.name)),
            whole(time(op.slowest)),
            whole(time(op.median)),
            on("+".join(op.op.streams)),
            shares(parts_on(op, rank), most=2),
            whole(show(flops, "flops")) if flops else "",
            whole(data(memory)) if memory else "",
            whole(data(wire)) if wire else "",
        )
    return rows


def memory_table(needs: Iterable[MemoryNeed]) -> Table:
    """A row per tier in use: what its worst rank needs of what it has, and for what."""
    numbers = ("need", "capacity", "filled")
    rows = table("memory", "need", "capacity", "filled", "worst rank", "for", right=numbers)
    for need in needs:
        if need.worst == 0:
            continue
        rank = need.worst_rank
        capacity = on_rank(need.capacity, rank)
        rows.add_row(
            need.tier.upper(),
            whole(data(need.worst)),
            whole(data(capacity)),
            Text(whole(percent(need.worst / capacity)) if capacity else "-", "" if need.fits else "bold red"),
            str(rank),
            ", ".join(whole(part) for part in makeup(need)),
        )
    return rows


def tier_table(uses: Iterable[TierUse]) -> Table:
    """A row per memory of a node: what an iteration moves there on the busiest node, and how long it lasts."""
    numbers = ("read", "medium reads", "written", "medium writes", "busy", "worn out in")
    rows = table("node memory", *numbers, right=numbers)
    for use in uses:
        days = float(np.min(use.lifetime_days))
        rows.add_row(
            use.tier.upper(),
            *(whole(data(x)) if x else "" for x in (use.read, use.read_moved, use.written, use.written_moved)),
            whole(percent(float(np.max(use.busy)))),
            whole(f"{days:,.0f} days") if np.isfinite(days) else "",
        )
    return rows


def cache_table(caches: Iterable[CacheUse]) -> Table:
    """A row per route with caches: of all ranks together, what is looked up, found and moved in an iteration; and, of
    several tiers of caches, one for each."""
    numbers = ("indices", "distinct rows", "fetched", "written home", "hits of rows", "hits of indices")
    rows = table("caches", *numbers, right=numbers)
    for use in caches:
        counts = (use.indices, use.rows, use.fetched, use.written)
        rows.add_row(
            use.route,
            *(f"{x:,.0f}" for x in counts),
            whole(percent(use.row_hit_rate, 1)),
            whole(percent(use.hit_rate, 1)),
        )
        for level in use.levels.values() if len(use.levels) > 1 else ():
            moved = (f"{x:,.0f}" for x in (level.asked, level.fetched, level.written))
            rows.add_row(f"  in {level.tier.upper()}", "", *moved, whole(percent(level.hit_rate, 1)), "")
    return rows


def makeup(need: MemoryNeed, times: int = 1) -> list[str]:
    """What the worst rank holds, `times` over, the largest first: `parameter 31.2 GB`."""
    held = {role: times * on_rank(amount, need.worst_rank) for role, amount in need.parts.items()}
    largest = sorted(held.items(), key=lambda item: -item[1])
    return [f"{role.replace('_', ' ')} {data(amount)}" for role, amount in largest if amount > 0]


# --- what to do about it --------------------------------------------------------------------------------------


def closing(estimate: Estimate, path: str, width: int) -> list[Text]:
    """What one more percent of each resource buys, and how much rests on assumptions."""
    levers = [
        f"{one_line(name.removeprefix('system.'))} {signed(slope / 100, 2)}"
        for name, slope in list(estimate.elasticities.items())[:LEVERS]
        if abs(slope) >= LEAST_LEVER
    ]
    lines = []
    if levers:
        lines.append(flow([Text("one percent more of it changes the iteration by", "dim")], width))
        lines.append(flow([Text(lever) for lever in levers], width, indent=4, gap=3))
    left = estimate.design.automatic_tables
    if left:
        what = f"{left:,} tables are placed by a rule of thumb"
        lines.append(flow([Text(f"{what} (archmodel plan {one_line(path)} looks for better places)", "dim")], width))
    count = len(assumptions(estimate.design))
    hint = f" (archmodel explain {one_line(path)} --assumptions)" if count else ""
    lines.append(flow([Text(f"assumptions: {count:,} not from a source{hint}", "dim")], width))
    return lines
