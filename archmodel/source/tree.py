"""Ordinary mappings and lists that remember where in which file each entry stands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from archmodel.errors import DesignError, Problem, shown
from archmodel.source import limits

Segment: TypeAlias = str | int


class Mark(NamedTuple):
    """A place: lines and columns count from 1; a value that was set by hand has no line."""

    file: str | None = None
    line: int | None = None
    column: int | None = None


NOWHERE = Mark()


class Located(dict[str, Any]):
    """A mapping with its dotted path, its own place, and the place of each of its keys."""

    __slots__ = ("fresh", "mark", "marks", "path")

    def __init__(self, items: Mapping[str, Any] | None = None, path: str = "", mark: Mark = NOWHERE) -> None:
        super().__init__(items or {})
        self.path = path
        self.mark = mark
        self.marks: dict[str, Mark] = {}
        self.fresh = False
        """Whether it starts from a file of its own (`use:`) and so inherits nothing when it overrides."""

    def place(self, key: str) -> Mark:
        """Where `key` stands, or the mapping itself when the key is not in it."""
        return self.marks.get(key, self.mark)

    def problem(self, key: str | None, message: str, value: str | None = None) -> Problem:
        """A problem with the entry `key` (or, for None, with the whole mapping), located."""
        mark = self.mark if key is None else self.place(key)
        return Problem(self.path if key is None else join(self.path, key), message, value, *mark)

    def copy(self) -> Located:
        """A shallow copy with its own marks."""
        new = Located(self, self.path, self.mark)
        new.marks = dict(self.marks)
        new.fresh = self.fresh
        return new


class LocatedList(list[Any]):
    """A list with its dotted path, its own place, and the place of each of its items."""

    __slots__ = ("mark", "marks", "path")

    def __init__(self, items: Sequence[Any] = (), path: str = "", mark: Mark = NOWHERE) -> None:
        super().__init__(items)
        self.path = path
        self.mark = mark
        self.marks: dict[int, Mark] = {}

    def place(self, index: int) -> Mark:
        """Where item `index` stands, or the list itself."""
        return self.marks.get(index, self.mark)

    def problem(self, index: int | None, message: str, value: str | None = None) -> Problem:
        """A problem with item `index` (or, for None, with the whole list), located."""
        mark = self.mark if index is None else self.place(index)
        return Problem(self.path if index is None else join(self.path, index), message, value, *mark)

    def copy(self) -> LocatedList:
        """A shallow copy with its own marks."""
        new = LocatedList(self, self.path, self.mark)
        new.marks = dict(self.marks)
        return new


def place(node: Any, segment: str | int, otherwise: Mark) -> Mark:
    """Where `node[segment]` stands, or `otherwise` when `node` does not know."""
    marks: Mapping[Any, Mark] = getattr(node, "marks", {})
    return marks.get(segment, otherwise)


# --- paths --------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r'[^.\[\]"\s]+')
_SEGMENT = re.compile(r'\.?(?P<key>[^.\[\]"\s]+)|\[(?P<index>[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')


def join(path: str, segment: Segment) -> str:
    """`system.node` and `gpu` to `system.node.gpu`; an index or a key with dots goes into brackets."""
    if isinstance(segment, int):
        return f"{path}[{segment}]"
    if not _PLAIN.fullmatch(segment):
        return f"{path}[{json.dumps(segment, ensure_ascii=False)}]"
    return f"{path}.{segment}" if path else segment


def split(path: str) -> list[Segment]:
    """The inverse of `join`: the segments of `plan.rules[0].tier`; `DesignError` when it is no path."""
    segments: list[Segment] = []
    position = 0
    while position < len(path):
        match = _SEGMENT.match(path, position)
        if match is None or (match["key"] and path.startswith(".", position) != bool(segments)):
            break
        if match["index"]:
            segments.append(int(match["index"]))
        else:
            segments.append(json.loads(match["quoted"]) if match["quoted"] else match["key"])
        position = match.end()
    if position < len(path) or not segments:
        raise DesignError(Problem(path, "is no path; write it as in system.node.gpu or plan.rules[0].tier"))
    return segments


def at(tree: Any, path: str) -> Any:
    """The value at `path`; `KeyError` when there is none."""
    node = tree
    for segment in split(path) if path else []:
        if not _holds(node, segment):
            raise KeyError(path)
        node = node[segment]
    return node


def mark_at(tree: Any, path: str) -> Mark:
    """The place of `path`, or of the nearest thing around it that has one."""
    node, mark = tree, getattr(tree, "mark", NOWHERE)
    for segment in split(path) if path else []:
        if not _holds(node, segment):
            return mark
        mark, node = place(node, segment, mark), node[segment]
    return mark


def problem_at(tree: Any, path: str, message: str, value: str | None = None) -> Problem:
    """A located problem for a field that is named by its path: what checks after validation use."""
    return Problem(path, message, value, *mark_at(tree, path))


def _holds(node: Any, segment: Segment) -> bool:
    if isinstance(segment, int):
        return isinstance(node, list) and 0 <= segment < len(node)
    return isinstance(node, Mapping) and segment in node


# --- changing -----------------------------------------------------------------------------------------------


def set_path(tree: Located, path: str, value: Any, *, origin: str = "with_") -> Located:
    """A new tree with `value` at `path`; everything beside the path is shared, `tree` stays as it was.

    Missing mappings on the way are created; what cannot be walked through is a `DesignError`. `origin` stands
    where problems with the value name their file. Arrays, numbers, text, mappings and lists are fine.
    """
    new: Located = _set(tree, split(path), value, Mark(origin), "", path)
    return new


def _set(node: Any, segments: list[Segment], value: Any, mark: Mark, here: str, whole: str) -> Any:
    if not segments:
        return located(value, here, mark)
    segment, rest = segments[0], segments[1:]
    if isinstance(segment, int):
        if not isinstance(node, list):
            raise _stuck(whole, f"{here or 'the top'} is not a list", mark)
        if segment >= len(node):
            raise _stuck(whole, f"{here} has {len(node)} item{'' if len(node) == 1 else 's'}", mark)
        items = node.copy() if isinstance(node, LocatedList) else LocatedList(node, here, mark)
        items[segment] = _set(items[segment], rest, value, mark, join(here, segment), whole)
        if not rest:
            items.marks[segment] = mark
        return items
    if not (node is None or isinstance(node, Mapping)):
        raise _stuck(whole, f"{here} is {shown(node)}, not a mapping", mark)
    mapping = node.copy() if isinstance(node, Located) else Located(node, here, mark)
    if not rest or segment not in mapping:
        mapping.marks[segment] = mark
    mapping[segment] = _set(mapping.get(segment), rest, value, mark, join(here, segment), whole)
    return mapping


def _stuck(path: str, message: str, mark: Mark) -> DesignError:
    return DesignError(Problem(path, f"cannot be set: {message}", None, *mark))


def located(value: Any, path: str = "", mark: Mark = NOWHERE, depth: int = 0) -> Any:
    """`value` with every mapping and list in it located, all at `mark`; other values as they are."""
    if isinstance(value, str | np.ndarray):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        _check_depth(path, mark, depth)
        mapping = Located(None, path, mark)
        for key, item in value.items():
            if not isinstance(key, str):
                raise DesignError(Problem(path, f"has the key {shown(key)}, which is not text", None, *mark))
            mapping[key] = located(item, join(path, key), mark, depth + 1)
            mapping.marks[key] = mark
        return mapping
    if isinstance(value, list | tuple):
        _check_depth(path, mark, depth)
        items = (located(item, join(path, index), mark, depth + 1) for index, item in enumerate(value))
        new = LocatedList(list(items), path, mark)
        new.marks = dict.fromkeys(range(len(new)), mark)
        return new
    return value


def _check_depth(path: str, mark: Mark, depth: int) -> None:
    if depth >= limits.DEPTH:
        raise DesignError(Problem(path, f"is nested more than {limits.DEPTH} deep", None, *mark))


def clone(node: Any) -> Any:
    """A deep copy of located mappings and lists; values are shared."""
    if isinstance(node, Located):
        mapping = node.copy()
        for key, item in node.items():
            mapping[key] = clone(item)
        return mapping
    if isinstance(node, LocatedList):
        items = node.copy()
        items[:] = [clone(item) for item in node]
        return items
    return node


def settle(node: Any, path: str = "") -> None:
    """Writes into every mapping and list below `node` the path it ended up at."""
    if isinstance(node, Located):
        node.path = path
        for key, item in node.items():
            if isinstance(item, Located | LocatedList):
                settle(item, join(path, key))
    elif isinstance(node, LocatedList):
        node.path = path
        for index, item in enumerate(node):
            if isinstance(item, Located | LocatedList):
                settle(item, join(path, index))
