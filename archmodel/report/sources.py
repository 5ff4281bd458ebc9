"""Which values a result rests on that no source backs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from archmodel import catalogue, source
from archmodel.report.words import one_line
from archmodel.source.provenance import is_cited

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.source import Provenance

FACTS = ("system.", "workload.")
"""Parts of a design that state facts; a plan, a name and published figures are no assumptions."""

CHOICES = frozenset({"system.nodes", "workload.global_batch", "workload.mode"})
"""The user's question, which needs no source."""

_ITEM = re.compile(r"\[\d+\]$")


def assumptions(design: Design) -> dict[str, Provenance]:
    """Facts of the design whose status is assumed or that name no source, by path; a list counts once."""
    found: dict[str, Provenance] = {}
    for path, origin in design.provenance.items():
        if path.startswith(FACTS) and path not in CHOICES and origin.assumed:
            found.setdefault(_ITEM.sub("", path), origin)
    return found


def origin_of(design: Design, path: str) -> Provenance | None:
    """Where the value at `path` comes from; that of its first item for a list; None when no file gives it."""
    known = design.provenance
    return known.get(path) or known.get(f"{path}[0]")


def written(design: Design, path: str) -> str:
    """A value as its file has it, in short."""
    value = source.at(design.tree, path)
    if is_cited(value):
        value = value["value"]
    if isinstance(value, list):
        more = ", ..." if len(value) > 4 else ""
        return one_line(", ".join(map(str, value[:4])) + more)
    return one_line(str(value))


def place(origin: Provenance | None) -> str:
    """`x.yaml:12`: file and line of a value; files of the catalogue as `designs/...`, wherever it is installed."""
    if origin is None:
        return ""
    file = origin.file or ""
    shelf = str(catalogue.directory())
    if os.path.isabs(file) and os.path.commonpath([shelf, file]) == shelf:
        file = os.path.join("designs", os.path.relpath(file, shelf))
    return one_line(f"{file}:{origin.line}" if origin.line else file)
