"""Pages of the reference, made from the code at every build: one per package, and one of every kind's fields."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

PACKAGES = {
    "quantities": "Quantities and units",
    "errors": "Errors",
    "source": "Reading files",
    "components": "Devices and endpoints",
    "memory": "Memories, caches, near-memory units",
    "network": "Fabrics",
    "collectives": "Collectives",
    "system": "Systems",
    "workloads": "Workloads",
    "program": "The Program",
    "design": "Designs",
    "parallel": "Plans and lowering",
    "estimate": "The estimate",
    "execute": "The executor",
    "search": "Planner and search",
    "sweep": "Sweeps",
    "validation": "Published facts",
    "calibrate": "Calibration",
    "interop": "Other tools' files",
}
_SKIPPED = {"archmodel.memory.cache_kernels"}
"""Compiled loops: no public names."""


def modules(package: str) -> list[str]:
    """A package's modules by name, itself first."""
    root = importlib.import_module(f"archmodel.{package}")
    found = [root.__name__]
    if hasattr(root, "__path__"):
        found += sorted(m.name for m in pkgutil.walk_packages(root.__path__, f"{root.__name__}.") if "._" not in m.name)
    return [name for name in found if name not in _SKIPPED]


def page(package: str, title: str) -> str:
    """The page of a package."""
    lines = [f"# {title}", ""]
    for name in modules(package):
        whole = hasattr(importlib.import_module(name), "__path__")  # a package's names are at home in its modules
        shown = ["   :no-members:"] if whole else []
        lines += [f"## `{name}`", "", "```{eval-rst}", f".. automodule:: {name}", *shown, "```", ""]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text of a table's cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def kinds() -> str:
    """Fields of every kind that a design file may name."""
    from archmodel.components.base import Family, fields
    from archmodel.design import json_schema

    json_schema()  # every family has its home by now
    lines = ["# Fields of every kind", "", "Made from the classes that read design files.", ""]
    for family in Family.registry.values():
        for kind, cls in family.kinds().items():
            lines += [
                f"## {family.name}: `{kind}`",
                "",
                "| field | unit or type | default | meaning |",
                "|---|---|---|---|",
            ]
            for row in fields(cls):
                default = "required" if row.required else cell(str(row.default))
                unit = cell(row.dimension or row.type)
                lines.append(f"| `{row.name}` | {unit} | {default} | {cell(row.description)} |")
            lines.append("")
    return "\n".join(lines)


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    pages = {f"{name}.md": page(name, title) for name, title in PACKAGES.items()}
    pages["kinds.md"] = kinds()
    names = "\n".join(name.removesuffix(".md") for name in ["kinds.md", *(f"{n}.md" for n in PACKAGES)])
    pages["index.md"] = f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Writes the pages before they are read."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
