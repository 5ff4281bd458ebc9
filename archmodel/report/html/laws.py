"""The laws behind the ops of a design: what they state and what they read, each group of ops once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archmodel.errors import ArchmodelError
from archmodel.quantities import show
from archmodel.report.explain import NOT_IN_A_FILE, Explanation, explain, reflowed
from archmodel.report.html.text import label, lines, markup
from archmodel.report.ranks import parts_on, slowest_rank
from archmodel.report.sources import origin_of, place
from archmodel.report.words import one_line

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.estimate.result import Estimate
    from archmodel.report.laws import Law
    from archmodel.report.reading import Input

MOST_INPUTS = 8
"""Inputs of a law that a figure tells; the section on laws has all."""

RATES = ("bandwidth", "flop_rate", "hertz", "lookup_rate", "transfer_rate")

Explained = dict[str, Explanation]
"""An explanation for every op; ops of one kind and group share it."""


def explained(estimate: Estimate) -> Explained:
    """Explanations by name of op. Ops alike in kind of work, precision, algorithm, streams, tiers and in the parts of
    their time are explained by the first of them."""
    found: Explained = {}
    known: dict[tuple[object, ...], Explanation | None] = {}
    for op in estimate.ops:
        work = op.op.work
        said = tuple(str(getattr(work, key, "")) for key in ("dtype", "kind", "algorithm", "group", "epilogue"))
        tiers = tuple(sorted(map(str, work.memory_bytes())))
        alike = (type(work), said, op.op.streams, tiers, tuple(sorted(parts_on(op, slowest_rank(op)))))
        if alike not in known:
            try:
                known[alike] = explain(estimate, op.name)
            except ArchmodelError:
                known[alike] = None
        answer = known[alike]
        if answer is not None:
            found[op.name] = answer
    return found


def hints(found: Explained) -> dict[str, str]:
    """By op, the law and its first inputs as a figure tells them: escaped."""
    made: dict[int, str] = {}
    for answer in found.values():
        if id(answer) not in made:
            first = answer.laws[0] if answer.laws else None
            law = first.name.removeprefix("archmodel.") if first else ""
            inputs = [f"{label(_brief(path), 40)} = {label(value(seen), 24)}" for path, seen in _first(answer)]
            made[id(answer)] = lines(
                f"law {label(law, 60)}" if law else "", label(_equation(first), 72) if first else "", *inputs
            )
    return {name: made[id(answer)] for name, answer in found.items()}


def _first(answer: Explanation) -> list[tuple[str, Input]]:
    """Rates first, then other quantities, then what is a plain number or a choice."""

    def rank(item: tuple[str, Input]) -> int:
        kind = item[1].dimension
        return 2 if kind is None else 0 if kind in RATES else 1

    return sorted(answer.inputs.items(), key=rank)[:MOST_INPUTS]


def _equation(law: Law) -> str:
    """The first equation that a law sets apart."""
    return next((line.strip() for line in law.text.splitlines() if line[:1] == " " and "=" in line), "")


def _brief(path: str) -> str:
    return path.removeprefix("system.").removeprefix("node.")


def value(seen: Input) -> str:
    """An input as it is shown."""
    found = seen.value
    if isinstance(found, bool | str):
        return one_line(str(found))
    if isinstance(found, list | tuple):
        return f"{len(found)} values"
    if isinstance(found, int | float) or hasattr(found, "shape"):
        return show(found, seen.dimension) if seen.dimension else f"{float(found):,.6g}"
    return one_line(str(found))


def section(found: Explained, design: Design) -> str:
    """Every explanation once, folded, as HTML."""
    members: dict[int, list[str]] = {}
    for name, answer in found.items():
        members.setdefault(id(answer), []).append(name)
    by_id = {id(answer): answer for answer in found.values()}
    return "".join(_folded(by_id[key], names, design) for key, names in members.items())


def _folded(answer: Explanation, names: list[str], design: Design) -> str:
    more = f" and {len(names) - 1:,} like it" if len(names) > 1 else ""
    kind = type(answer.op.op.work).__name__
    laws = "".join(
        f"<h4>{markup(law.name)}</h4><pre>{markup(reflowed(law.text))}</pre>" for law in answer.laws
    )  # what docstrings say, plugins' too
    rows = "".join(_input(path, seen, design) for path, seen in sorted(answer.inputs.items()))
    head = "<tr><th>input</th><th>value</th><th>status</th><th>source</th><th>where</th></tr>"
    ops = markup(" ".join(names))
    return (
        f'<details class="law" data-ops="{ops}">'
        f"<summary>{markup(names[0])}{more} <small>{markup(kind)}</small></summary>{laws}"
        f'<div class="scroll"><table class="plain"><thead>{head}</thead><tbody>{rows}</tbody></table></div></details>'
    )


def _input(path: str, seen: Input, design: Design) -> str:
    origin = origin_of(design, path)
    status = "default" if origin is None else origin.status or ("stated" if origin.source else "assumed")
    source = NOT_IN_A_FILE if origin is None else origin.source or ""
    cells = (path, value(seen), status, source, place(origin))
    return "<tr>" + "".join(f"<td>{markup(one_line(cell))}</td>" for cell in cells) + "</tr>"
