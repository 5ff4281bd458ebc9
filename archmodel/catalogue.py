"""The catalogue: devices, networks, memories, access distributions, systems, workloads, plans and designs.

An installed wheel carries it as `archmodel/_designs`; in a checkout it is `designs` beside the package.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from archmodel.errors import ArchmodelError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["device", "endpoint", "fabric", "memory", "access", "system", "workload", "plan", "design"]

KINDS: dict[str, Kind] = {
    "devices": "device",
    "endpoints": "endpoint",
    "fabrics": "fabric",
    "memories": "memory",
    "access": "access",
    "systems": "system",
    "workloads": "workload",
    "plans": "plan",
}
"""What the files of each folder are; those at the top are designs."""

HEAD = 40
"""Lines of a file that are looked at for its title and source."""

_SUFFIX = ".yaml"
_LINE = re.compile(r"(name|source|use):[ \t]+(\S.*)")
_FOLDED = frozenset({">", ">-", "|", "|-"})


class CatalogueError(ArchmodelError):
    """No catalogue, or nothing of that name in it."""


class Entry(NamedTuple):
    """One file of the catalogue: its path there, what it is, its title and where its values come from."""

    path: str
    kind: Kind
    title: str
    source: str


@lru_cache(maxsize=1)
def directory() -> Path:
    """Folder of the catalogue. Raises CatalogueError when the package came without one."""
    package = Path(__file__).resolve().parent
    places = (package / "_designs", package.parent / "designs")
    for place in places:
        if place.is_dir():
            return place
    raise CatalogueError(f"no catalogue; looked for {' and '.join(map(str, places))}")


def entries(kind: Kind | None = None) -> tuple[Entry, ...]:
    """Every file of the catalogue (of one kind), designs first, then by folder and name; reads only heads."""
    folder = directory()
    found = [_entry(folder, path) for path in _files(folder)]
    return tuple(entry for entry in found if kind in (None, entry.kind))


def find(use_path: str) -> Path:
    """The file for a path as `use:` writes it, e.g. systems/dgx_h100.yaml; the suffix may be left out.

    Raises CatalogueError, which names the nearest files.
    """
    folder = directory()
    known = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    wanted = PurePosixPath(use_path).as_posix()
    for name in (wanted, wanted + _SUFFIX):
        if name in known:
            return known[name]
    close = nearest(wanted.removesuffix(_SUFFIX), [name.removesuffix(_SUFFIX) for name in known])
    meant = f"; the nearest are {', '.join(close)}" if close else ""
    raise CatalogueError(f"the catalogue has no {use_path}{meant}")


def located(path: str | Path) -> Path:
    """`path` where there is such a file, else the catalogue's file of that name, else `path` as it is."""
    here = Path(path)
    inside = directory() / here
    return inside if not here.exists() and not here.is_absolute() and inside.is_file() else here


def _files(folder: Path) -> Iterator[Path]:
    """Paths of the catalogue's files: those at the top, then folder by folder."""
    for place in (folder, *(folder / name for name in KINDS)):
        if place.is_dir():
            with os.scandir(place) as items:
                names = sorted(item.name for item in items if item.name.endswith(_SUFFIX) and item.is_file())
            yield from (place / name for name in names)


def _entry(folder: Path, path: Path) -> Entry:
    said = _head(path)
    name = path.relative_to(folder)
    kind = KINDS[name.parts[0]] if len(name.parts) > 1 else "design"
    return Entry(name.as_posix(), kind, said.get("name", path.stem), said.get("source") or _inherited(said, path))


def _inherited(said: dict[str, str], path: Path) -> str:
    """The source of the file that this one starts from, or of the one that that starts from, when it names none."""
    seen = {path}
    while "use" in said and (path := path.parent / said["use"]) not in seen and path.is_file():
        seen.add(path)
        said = _head(path)
        if "source" in said:
            return said["source"]
    return ""


def _head(path: Path) -> dict[str, str]:
    """Top-level `name:`, `source:` and `use:` among the first lines of a file, as text."""
    said: dict[str, str] = {}
    folded: str | None = None
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in islice(file, HEAD):
            text = line.rstrip()
            if folded is not None and (text.startswith(" ") or not text):
                said[folded] = f"{said[folded]} {text.strip()}".strip()
                continue
            folded = None
            match = _LINE.fullmatch(text)
            if match is not None:
                key, value = match.groups()
                folded = key if value in _FOLDED else None
                said[key] = "" if folded else _unquoted(value)
            if {"name", "source"} <= said.keys() and folded is None:
                break
    return said


def _unquoted(text: str) -> str:
    """A one-line YAML scalar without its quotes."""
    for quote, escaped in (('"', '\\"'), ("'", "''")):
        if len(text) >= 2 and text[0] == text[-1] == quote:
            return text[1:-1].replace(escaped, quote)
    return text
