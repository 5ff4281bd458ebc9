"""Links of the manual, the README and design files: those inside lead somewhere, those outside are addresses.

Whether a server answers is not asked: tests use no network.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")])
SOURCES = sorted([*(ROOT / "designs").rglob("*.yaml"), *(ROOT / "studies").rglob("*.yaml")])
CODE = sorted([*(ROOT / "archmodel").rglob("*.py"), *(ROOT / "studies").glob("*.py")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
ADDRESS = re.compile(r"https?://[^\s\"'`<>\]})\\]+")
LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)", re.IGNORECASE)


def slugs(file: Path) -> set[str]:
    """Anchors of headings, as GitHub and MyST make them."""
    heads = re.findall(r"^#{1,6} (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def wrong(address: str) -> str:
    """What is wrong with an address; empty when nothing is."""
    try:
        at = urlsplit(address)
        host = at.hostname or ""
        _ = at.port
    except ValueError as error:
        return str(error)
    if at.scheme not in ("http", "https"):
        return "is no web address"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        if len(labels) < 2 or not all(LABEL.fullmatch(label) for label in labels) or labels[-1].isdecimal():
            return f"{host or 'nothing'} is no host"
    if re.search(r"%(?![0-9A-Fa-f]{2})", address):
        return "has a % that begins no escape"
    if not address.isascii():
        return "has characters that must be escaped"
    return ""


@pytest.mark.parametrize("file", TEXTS, ids=lambda f: str(f.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(file: Path) -> None:
    for link in LINK.findall(file.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if ":" in path:
            assert wrong(link) == "", link
            continue
        target = (file.parent / path).resolve() if path else file
        if not target.exists() and path.startswith("reference/"):
            continue  # written by the build of the manual, which fails on dead links by itself
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            assert anchor in slugs(target), f"{link}: no such heading"


def test_addresses_are_addresses() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {address}": wrong(address)
        for file in [*TEXTS, *SOURCES, *CODE]
        for address in (a.rstrip(".,;:") for a in ADDRESS.findall(file.read_text(encoding="utf-8")))
    }
    assert {where: problem for where, problem in found.items() if problem} == {}
    assert len(found) >= 3


@pytest.mark.parametrize(
    "address",
    [
        "https://",
        "https://nowhere",
        "http://a..b/",
        "https://-x.org",
        "https://x.org:port/",
        "https://x.org/%zz",
        "ftp://x.org",
    ],
)
def test_what_is_no_address_is_found(address: str) -> None:
    assert wrong(address)


# --- the build of the manual ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def links() -> ModuleType:
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("links", ROOT / "docs" / "_ext" / "links.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_dead_links_of_built_pages(links: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top">1</a><a href="#gone">2</a><a href="sub/a.html#b%20c">3</a>'
        '<a href="sub/none.html">4</a><a href="https://example.org/#x">5</a><a href="sub/a.html#z">6</a>'
    )
    (tmp_path / "sub" / "a.html").write_text('<p id="b c"></p><a href="../index.html#top">7</a><a href="..">8</a>')
    assert [line.split(": ", 2)[1] for line in links.dead(tmp_path)] == ["#gone", "sub/none.html", "sub/a.html#z"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Here\n\n[there](#there)", "there"),
        ("# Here\n\n[page](page.md)", "page.md"),
        ("# Here\n\n<a href='#raw'>raw</a>", "#raw: the page has no such id"),
        ("# Here\n\n[up](#here)", ""),
    ],
)
def test_a_dead_link_fails_the_build(links: ModuleType, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "index.md").write_text(text, encoding="utf-8")
    names = "myst_parser,sphinx.ext.autodoc,equations,links"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(ROOT / "docs")]
    command += ["-D", f"extensions={names}", "-D", "html_theme=basic", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (not said), done.stderr
    assert said in done.stderr
