"""One HTML file: sections of figures, tables and text, with plotly, style and script inside. It asks no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from archmodel import __version__
from archmodel.errors import ArchmodelError
from archmodel.report.html.figure import Figure
from archmodel.report.html.palette import THEMES
from archmodel.report.html.table import Table
from archmodel.report.html.text import markup, script_hash, script_json
from archmodel.report.words import one_line

Block = Figure | Table | str
"""Part of a section; a `str` is HTML that is safe already."""


@dataclass(frozen=True)
class Section:
    """`beside`: its blocks stand side by side where there is room."""

    name: str
    title: str
    blocks: Sequence[Block]
    beside: bool = False
    note: str = ""


@dataclass(frozen=True)
class Page:
    """`title` and `subtitle` are plain text, the latter also the page's description; `top` is HTML. `extra`: data for
    the scripts, in plain JSON types. `script`: one more of this package's scripts, which draws figures of its own."""

    title: str
    subtitle: str
    top: str
    sections: Sequence[Section]
    extra: Mapping[str, Any] = field(default_factory=dict)
    script: str = ""

    def html(self) -> str:
        """The whole file. The same content gives the same bytes."""
        blocks = [block for section in self.sections for block in section.blocks]
        figures = {block.name: block.packed() for block in blocks if isinstance(block, Figure)}
        tables = {block.name: block.spec() for block in blocks if isinstance(block, Table)}
        data = script_json({"themes": THEMES, "figures": figures, "tables": tables, **self.extra})
        scripts = [*(_asset(name) for name in (self.script, "page.js") if name), plotly_js()]
        allowed = " ".join(f"'{script_hash(code)}'" for code in scripts)
        policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src {allowed}",
                "style-src 'unsafe-inline'",
                "img-src data: blob:",
                "base-uri 'none'",
                "form-action 'none'",
            )
        )
        links = "".join(f'<a href="#{s.name}">{markup(s.title)}</a>' for s in self.sections if s.title)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f'<meta name="generator" content="archmodel {markup(__version__)}">\n'
            f'<meta name="description" content="{markup(one_line(self.subtitle))}">\n'
            f"<title>{markup(one_line(self.title))}</title>\n<style>{_asset('page.css')}</style>\n</head>\n<body>\n"
            f"<header><div><h1>{markup(one_line(self.title))}</h1><p>{markup(one_line(self.subtitle))}</p></div>"
            '<div class="tools"><button id="theme" type="button">dark</button>'
            '<button id="print" type="button">print</button></div></header>\n'
            f"<nav>{links}</nav>\n<main>\n{self.top}\n"
            + "\n".join(_section(section) for section in self.sections)
            + f"\n</main>\n<footer>archmodel {markup(__version__)}</footer>\n"
            '<noscript><p class="note">The figures and tables of this page are drawn by its script.</p></noscript>\n'
            f'<script type="application/json" id="page-data">{data}</script>\n'
            + "\n".join(f"<script>{code}</script>" for code in scripts)
            + "\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> None:
        """Writes it to `path`."""
        path.write_text(self.html(), encoding="utf-8")


def _section(section: Section) -> str:
    inner = "".join(_block(block, section.title) for block in section.blocks)
    body = f'<div class="beside">{inner}</div>' if section.beside else inner
    head = f"<h2>{markup(section.title)}</h2>" if section.title else ""
    note = f'<p class="note">{markup(section.note)}</p>' if section.note else ""
    return f'<section id="{section.name}">{head}{note}{body}</section>'


def _block(block: Block, above: str) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Table):
        caption = f"<h3>{markup(one_line(block.caption))}</h3>" if block.caption else ""
        return f'<div class="block">{caption}<div class="table" data-table="{block.name}"></div></div>'
    note = f'<p class="note">{markup(one_line(block.note))}</p>' if block.note else ""
    said = markup(one_line(block.takeaway))
    title = f"<h3>{markup(one_line(block.title))}</h3>" if block.title != above else ""
    return (
        f'<figure class="block"><figcaption><div>{title}<p class="takeaway">{said}</p></div>'
        f'<button type="button" class="png" data-figure="{block.name}" aria-label="save as picture">PNG</button>'
        "</figcaption>"
        f'<div class="plot" id="{block.name}" role="img" aria-label="{said}" style="min-height:{block.height}px"></div>'
        f"{note}</figure>"
    )


@cache
def _asset(name: str) -> str:
    return (resources.files("archmodel.report.html") / name).read_text(encoding="utf-8")


@cache
def plotly_js() -> str:
    """plotly.js as the Python package of plotly carries it, read without importing that."""
    spec = find_spec("plotly")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        file = Path(place) / "package_data" / "plotly.min.js"
        if file.exists():
            return file.read_text(encoding="utf-8")
    raise ArchmodelError("pages need plotly: pip install plotly")
