"""Dead links fail the build: every link of a built page must lead to a file that is there, and to an id in it."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

SHOWN = 20
"""Dead links that the message lists."""


class Anchors(HTMLParser):
    """Ids that a page has, and links that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))


@cache
def read(page: Path) -> Anchors:
    """Anchors of a page."""
    parser = Anchors()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def dead(folder: Path) -> list[str]:
    """Links inside of `folder` that lead nowhere, as `page: link`."""
    found = []
    for page in sorted(folder.rglob("*.html")):
        for link in read(page).links:
            at = urlsplit(link)
            if at.scheme or at.netloc:
                continue
            target = (page.parent / unquote(at.path)).resolve() if at.path else page
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{page.relative_to(folder)}: {link}: there is no such file")
            elif at.fragment and target.suffix == ".html" and unquote(at.fragment) not in read(target).ids:
                found.append(f"{page.relative_to(folder)}: {link}: the page has no such id")
    return found


def check(app: Sphinx, exception: Exception | None) -> None:
    """At the end of a build of pages. Raises SphinxError."""
    if exception is None and app.builder.format == "html":
        found = dead(Path(app.outdir))
        if found:
            more = f"\n... and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            raise SphinxError(f"{len(found)} dead links:\n" + "\n".join(found[:SHOWN]) + more)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
