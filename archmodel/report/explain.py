"""Why an op takes as long as it does: the laws, what they read, where that comes from, the parts of the result."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from archmodel.errors import ArchmodelError, shown, suggestion
from archmodel.quantities import show
from archmodel.report.laws import Law, essential, laws_of
from archmodel.report.ranks import on_rank, parts_on, slowest_rank
from archmodel.report.reading import Input, Notes, Reading
from archmodel.report.sources import assumptions, origin_of, place, written
from archmodel.report.terminal import console, emit, phase_table, table
from archmodel.report.words import data, on, one_line, percent, plural, time, whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from archmodel.design import Design
    from archmodel.estimate.result import Estimate, OpEstimate
    from archmodel.source import Provenance
    from archmodel.system import System

_NETWORK = {"scale_up": ("system.node.scale_up",), "scale_out": ("system.node.nic", "system.scale_out")}
"""Where the constants of each kind of link stand in a design."""


@dataclass(frozen=True)
class Explanation:
    """One op on the rank where it takes longest. `parts` sum to `seconds`."""

    op: OpEstimate
    rank: int
    laws: tuple[Law, ...]
    inputs: Mapping[str, Input]
    parts: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Time of the op on that rank."""
        return on_rank(self.op.time, self.rank)


def explain(estimate: Estimate, name: str) -> Explanation:
    """Prices the op called `name` once more, noting what is read. `ArchmodelError` names the nearest op."""
    from archmodel.estimate.contention import issued_ahead
    from archmodel.estimate.machine import Machine
    from archmodel.estimate.price import price

    op = find_op(estimate, name)
    system, notes, network = estimate.design.system, Notes(), Notes()
    reader = cast("System", Reading(system, "system", notes))
    topology = type(system).topology(cast("System", Reading(system, "system", network)))
    program = estimate.program
    queued = program.graph_capture or issued_ahead(program, system, estimate.design.plan)
    machine = Machine(reader.gpu, topology, reader.node.host, system.node.gpus, queued, every_rank=True)
    notes.inputs.clear()
    before = set(network.inputs)
    packages = ("archmodel", type(system.gpu).__module__.partition(".")[0])
    _, laws = laws_of(lambda: price(op.op.work, machine), packages)
    inputs = {**_of_links(network, op, before), **notes.inputs}
    rank = slowest_rank(op)
    return Explanation(op, rank, essential(laws), inputs, parts_on(op, rank))


def find_op(estimate: Estimate, name: str) -> OpEstimate:
    """The op called `name`; `ArchmodelError` lists the members of a group of that name, or the nearest op."""
    by_name = {op.name: op for op in estimate.ops}
    if name in by_name:
        return by_name[name]
    members = [member for phase in estimate.phases if phase.name == name for member in phase.ops]
    if members:
        raise ArchmodelError(f"{name} is a group of ops: {', '.join(members)}")
    raise ArchmodelError(f"no op {shown(name)}; {suggestion(name, by_name)}")


def _of_links(network: Notes, op: OpEstimate, built: set[str]) -> dict[str, Input]:
    """What was read of the links that the op uses: while the topology was built, and by the law itself."""
    mine = tuple(prefix for stream in op.op.streams for prefix in _NETWORK.get(stream, ()))
    return {
        path: seen for path, seen in network.inputs.items() if mine and (path.startswith(mine) or path not in built)
    }


# --- on a terminal --------------------------------------------------------------------------------------------


def show_op(design: Design, name: str, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints the explanation of one op."""
    from archmodel.estimate.estimate import estimate

    answer = explain(estimate(design), name)
    op, out = answer.op, file or sys.stdout
    kind = type(op.op.work).__name__
    blocks: list[RenderableType] = [
        Text(one_line(op.name), "bold")
        + Text(f"   {kind} · {op.op.phase} · on {on('+'.join(op.op.streams))} · ")
        + Text(f"{time(answer.seconds)} on rank {answer.rank}, {time(op.median)} on the median rank")
    ]
    for title, block in (
        ("laws", _laws(answer.laws)),
        (f"work of rank {answer.rank}", _work(op, answer.rank)),
        ("inputs", _inputs(answer.inputs, design)),
        ("result", _result(answer)),
    ):
        blocks += [Text(f"\n{title}", "dim"), Padding(block, (0, 0, 0, 2))]
    emit(console(out, width), blocks, out)


def _laws(laws: tuple[Law, ...]) -> RenderableType:
    blocks: list[RenderableType] = []
    for law in laws:
        blocks += [Text(law.name, "bold"), Padding(Text(reflowed(law.text)), (0, 0, 0, 2))]
    return Group(*blocks)


def reflowed(text: str) -> str:
    """A docstring with the lines of each paragraph joined; equations and lists stay as they are set."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(p if re.search(r"^[\s\-|*]", p, re.MULTILINE) else p.replace("\n", " ") for p in paragraphs)


def _work(op: OpEstimate, rank: int) -> RenderableType:
    """The op's amounts on one rank, as its work names them, and what they come to."""
    work: Any = op.op.work
    rows = table("amount", "value", right=("value",))
    if is_dataclass(work):
        for field in fields(work):
            value = getattr(work, field.name)
            if isinstance(value, Mapping):
                for key, item in value.items():
                    rows.add_row(one_line(f"{field.name}.{key}"), _amount(item, rank))
            elif isinstance(value, np.ndarray | int | float) or (isinstance(value, str) and value):
                rows.add_row(field.name, _amount(value, rank))
    rows.add_row("all operations", show(on_rank(work.flops(), rank), "flops"))
    for tier, amount in work.memory_bytes().items():
        rows.add_row(f"all bytes of {tier}", data(on_rank(amount, rank)))
    for link, amount in work.wire_bytes().items():
        rows.add_row(f"all bytes sent on {link}", data(on_rank(amount, rank)))
    return rows


def _amount(value: Any, rank: int) -> str:
    if isinstance(value, bool | str):
        return one_line(str(value))
    number = on_rank(value, rank)
    return f"{number:,.0f}" if number == int(number) else f"{number:,.6g}"


def _inputs(inputs: Mapping[str, Input], design: Design) -> RenderableType:
    """A row per field, then the sources that the rows point to by number."""
    if not inputs:
        return Text("none")
    columns = ("field", "value", "status", "source", "where")
    long = max(map(len, inputs)) > _LONG
    rows = table(*columns, right=("value",), whole=columns[long:-1])
    rows.padding = (0, 2, 0, 0)
    sources: dict[str, int] = {}
    for path, seen in sorted(inputs.items()):
        origin = origin_of(design, path)
        text = one_line(origin.source or "") if origin else NOT_IN_A_FILE
        number = f"[{sources.setdefault(text, len(sources) + 1)}]" if text else ""
        rows.add_row(Text(one_line(path)), whole(_value(seen)), _status(origin), number, place(origin))
    notes = [Text(f"[{number}] {text}", "dim") for text, number in sources.items()]
    return Group(rows, Text(), *notes)


_LONG = 52
"""Characters of a field from which on its column wraps, so that the place in the file keeps room."""
NOT_IN_A_FILE = "no file gives it; what the field is when left out"


def _value(seen: Input) -> str:
    value = seen.value
    if isinstance(value, bool | str):
        return one_line(str(value))
    if isinstance(value, int | float | np.ndarray):
        return show(value, seen.dimension) if seen.dimension else f"{value:,.6g}"
    return f"{len(value)} values" if isinstance(value, list | tuple) else one_line(str(value))


def _status(origin: Provenance | None) -> Text:
    if origin is None:
        return Text("default", "yellow")
    status = origin.status or ("stated" if origin.source else "assumed")
    return Text(status, "yellow" if origin.assumed else "")


def _result(answer: Explanation) -> RenderableType:
    rows = table("part", "time", "share", right=("time", "share"))
    total = answer.seconds
    for name, seconds in answer.parts.items():
        rows.add_row(one_line(name), whole(time(seconds)), whole(percent(seconds / total)) if total else "")
    rows.add_row(Text("total", "bold"), Text(time(total), "bold"), "")
    return rows


def show_assumptions(design: Design, *, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints every fact of the design that no source backs, under what its author says about it."""
    out, found = file or sys.stdout, assumptions(design)
    count = plural(len(found), "value")
    blocks: list[RenderableType] = [Text(f"{one_line(design.name)}: {count} without a source")]
    reasons: dict[str, list[tuple[str, Provenance]]] = {}
    for path, origin in found.items():
        reasons.setdefault(origin.source or origin.note or "no word on it", []).append((path, origin))
    for reason, members in reasons.items():
        rows = table("", "", "", right=(), whole=("",))
        rows.show_header = False
        for path, origin in members:
            rows.add_row(Text(one_line(path)), whole(written(design, path)), Text(place(origin), "dim"))
        blocks += [Text(f"\n{one_line(reason)}"), Padding(rows, (0, 0, 0, 2))]
    emit(console(out, width), blocks, out)


def show_ops(design: Design, *, path: str, file: TextIO | None = None, width: int | None = None) -> None:
    """Prints the names of all ops, for a user who does not know them."""
    from archmodel.estimate.estimate import estimate

    answer, out = estimate(design), file or sys.stdout
    names = [one_line(op.name) for op in answer.ops]
    blocks: list[RenderableType] = [
        Padding(phase_table(answer), (0, 0, 0, 2)),
        Text("\nops", "dim"),
        Text("\n".join(f"  {name}" for name in names)),
        Text(f"\narchmodel explain {one_line(path)} {names[0] if names else 'OP'}", "dim"),
    ]
    emit(console(out, width), blocks, out)
