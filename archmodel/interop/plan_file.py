"""A design's plan as a file that `plan: {use: ...}` reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from archmodel.design import Design
from archmodel.errors import DesignError, Problem
from archmodel.search.plan_tables import written


def plan_document(design: Design) -> dict[str, Any]:
    """The whole plan of a design; its tables by name, as they came to be placed."""
    document: dict[str, Any] = {"name": f"Plan for {design.name}", "note": "written by archmodel plan"}
    given = design.plan.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for key in ("name", "source", "status", "note", "fitted_on", "tables"):
        given.pop(key, None)
    return {**document, **given, "tables": written(design)}


def plan_text(design: Design) -> str:
    """The plan file's text."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = None
    yaml.width = 118
    stream = io.StringIO()
    yaml.dump(plan_document(design), stream)
    return stream.getvalue()


def write_plan(design: Design, path: Path) -> None:
    """Write the plan file."""
    path.write_text(plan_text(design), encoding="utf-8")


def with_plan(design: Design, path: Path) -> Design:
    """The design under the plan of a plan file. Raises DesignError."""
    from archmodel import catalogue, source

    tree = source.read(path, catalogue=catalogue.directory())
    if "plan" in tree:
        why = "is part of a whole design; compare designs without naming one more"
        raise DesignError([Problem("plan", why, None, *tree.place("plan"))])
    return design.with_({"plan": tree})
