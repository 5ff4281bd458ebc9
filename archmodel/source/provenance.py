"""Where the numbers of a tree come from.

A value may be written with its birth certificate, `{value: 2039 GB/s, source: "...", status: datasheet}`;
or the `source:`, `status:` or `fitted_on:` of a mapping speaks for all values below it that stand in the
same file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from archmodel.source.tree import Located, LocatedList, Mark, join

CITATION = frozenset({"value", "source", "status", "calibrated", "note"})
"""The keys of a cited value."""

KEPT = ("published",)
"""Top-level entries whose cited values stay mappings."""

ABOUT = frozenset({"name", "kind", "source", "status", "note", "fitted_on"})
"""Entries of a mapping that say something about it and are no values themselves."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one value comes from; `source` and `status` are None where nothing says so."""

    source: str | None = None
    status: str | None = None
    file: str | None = None
    line: int | None = None
    note: str | None = None
    calibrated: bool = False

    @property
    def assumed(self) -> bool:
        """Whether the value has no source, or says itself that it is an assumption."""
        return self.status == "assumed" or self.source is None


def is_cited(node: Any) -> bool:
    """Whether `node` is a value written with its source."""
    return isinstance(node, Mapping) and "value" in node and node.keys() <= CITATION


def strip(tree: Any, *, keep: Collection[str] = KEPT) -> Any:
    """Plain mappings and lists, every cited value replaced by its value, except below the top keys `keep`."""
    if isinstance(tree, Mapping) and not is_cited(tree):
        return {key: _plain(item) if key in keep else _stripped(item) for key, item in tree.items()}
    return _stripped(tree)


def _stripped(node: Any) -> Any:
    if isinstance(node, Mapping):
        if is_cited(node):
            return _plain(node["value"])
        return {key: _stripped(item) for key, item in node.items()}
    return [_stripped(item) for item in node] if isinstance(node, list) else node


def _plain(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _plain(item) for key, item in node.items()}
    return [_plain(item) for item in node] if isinstance(node, list) else node


def provenance(tree: Located) -> dict[str, Provenance]:
    """The origin of every value below `tree`, by path."""
    found: dict[str, Provenance] = {}
    _collect(tree, tree.path, tree.mark, {}, found)
    return found


def _collect(
    node: Any, path: str, mark: Mark, blocks: Mapping[str | None, Provenance], found: dict[str, Provenance]
) -> None:
    """`blocks` holds, per file, what the enclosing mappings say."""
    if is_cited(node):
        found[path] = _cited(node, mark, blocks.get(mark.file))
    elif isinstance(node, Located):
        inner = _said(node, blocks)
        for key, item in node.items():
            if key not in ABOUT:
                _collect(item, join(path, key), node.place(key), inner, found)
    elif isinstance(node, LocatedList):
        for index, item in enumerate(node):
            _collect(item, join(path, index), node.place(index), blocks, found)
    else:
        block = blocks.get(mark.file, Provenance())
        found[path] = Provenance(block.source, block.status, mark.file, mark.line)


def _said(node: Located, blocks: Mapping[str | None, Provenance]) -> Mapping[str | None, Provenance]:
    """`blocks`, with what `node` says about the values of its own file."""
    said = [key for key in ("source", "fitted_on", "status") if isinstance(node.get(key), str)]
    if not said:
        return blocks
    inner = dict(blocks)
    for key in said:
        file = node.place(key).file
        old = inner.get(file, Provenance())
        text = node[key]
        if key == "source":
            inner[file] = Provenance(text, old.status, file)
        elif key == "fitted_on":
            inner[file] = Provenance(text, "fitted", file)
        else:
            inner[file] = Provenance(old.source, text, file)
    return inner


def _cited(node: Mapping[str, Any], mark: Mark, block: Provenance | None) -> Provenance:
    own = "source" in node or "status" in node
    base = Provenance() if own or block is None else block
    return Provenance(
        source=_text(node.get("source")) or base.source,
        status=_text(node.get("status")) or base.status,
        file=mark.file,
        line=mark.line,
        note=_text(node.get("note")),
        calibrated=node.get("calibrated") is True,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
