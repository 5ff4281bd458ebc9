"""YAML 1.2 text to a located tree: mappings, lists, text, numbers, booleans and null, nothing else.

ruamel.yaml (pure Python) turns text into parse events; the tree is built from those events here, so that no
tag, object or constructor of a YAML library is ever involved, and so that a limit stops the reading where
it is hit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from archmodel.errors import DesignError, Problem, escape, shown
from archmodel.source import limits
from archmodel.source.tree import Located, LocatedList, Mark, clone, join, settle

if TYPE_CHECKING:
    from collections.abc import Iterator


class LimitError(DesignError):
    """A design that is larger than archmodel reads; nothing further is read."""


@dataclass(slots=True)
class Budget:
    """What has been read and copied so far, over all the files of one design."""

    bytes: int = 0
    parsed: int = 0
    copied: int = 0

    @property
    def nodes(self) -> int:
        """Keys, values, lists and mappings so far."""
        return self.parsed + self.copied

    def parse(self, mark: Mark, field: str = "") -> None:
        """Counts one node of a file."""
        self.parsed += 1
        if self.parsed > limits.NODES:
            why = f"brings the design above {limits.NODES:,} keys and values, the most that is read"
            raise LimitError(Problem(field, why, None, *mark))

    def copy(self, nodes: int, mark: Mark, field: str = "") -> None:
        """Counts `nodes` that are about to be copied."""
        self.copied += nodes
        if self.copied > limits.COPIES:
            why = f"expands to more than {limits.COPIES:,} keys and values, the most that is read"
            raise LimitError(Problem(field, why, None, *mark))


def scalar(text: str, *, origin: str = "--set") -> Any:
    """The value a design file would have with `text` in it: "32" is a number, "400 Gbit/s" is text."""
    problems: list[Problem] = []
    value, _ = build(text, origin, Budget(), problems)
    if problems:
        raise DesignError(problems)
    settle(value)
    return value


def build(text: str, file: str, budget: Budget, problems: list[Problem]) -> tuple[Any, int]:
    """The tree that `text` describes and its depth.

    What can be stepped over (a key given twice, a tag) is added to `problems`; what cannot (bad syntax, a
    limit) is raised as `DesignError`.
    """
    builder = _Builder(file, budget, problems)
    for event in _events(text, file):
        builder.take(event)
    return builder.result, builder.deepest


def _events(text: str, file: str) -> Iterator[Event]:
    """ruamel's events; whatever it trips over becomes one located problem."""
    yaml = YAML(typ="safe", pure=True)
    try:
        yield from yaml.parse(text)
    except MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        mark = Mark(file, where.line + 1, where.column + 1) if where else Mark(file)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise DesignError(Problem("", f"is not YAML: {_one_line(what)}", None, *mark)) from None
    except ReaderError as error:
        mark = Mark(file, *_line_and_column(text, error.position))
        what = "holds a character that YAML does not allow"
        raise DesignError(Problem("", what, f"{escape(chr(error.character))}", *mark)) from None
    except Exception as error:  # a parser tripped by a hostile file must not take us down with it
        raise DesignError(Problem("", f"is not YAML that can be read ({type(error).__name__})", None, file)) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


# --- plain scalars, as the YAML 1.2 core schema reads them --------------------------------------------------

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def plain(text: str) -> str | int | float | bool | None:
    """What unquoted `text` means. Digits may be grouped with underscores: 1_000_000."""
    if text in _WORDS:
        return _WORDS[text]
    if not (text[0].isdigit() or text[0] in "+-."):
        return text
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= limits.DIGITS else text
    if _BASED.fullmatch(text):
        return int(text, 0) if len(text) <= limits.DIGITS else text
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "", 1)) if _SPECIAL.fullmatch(text) else text


# --- events to a tree ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is being read."""

    node: Located | LocatedList
    anchor: str | None
    before: int
    is_key: bool = False
    key: str | None = None
    has_key: bool = False
    skip: bool = False


_UNFINISHED = object()


@dataclass(slots=True)
class _Builder:
    file: str
    budget: Budget
    problems: list[Problem]
    result: Any = None
    deepest: int = 0
    documents: int = 0
    stack: list[_Frame] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """One event further."""
        if isinstance(event, ScalarEvent):
            self.scalar(event)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self.open(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self.close()
        elif isinstance(event, AliasEvent):
            self.alias(event)
        elif isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise DesignError(self.problem("a second document starts here; a file holds one", self.mark(event)))

    def scalar(self, event: ScalarEvent) -> None:
        mark = self.mark(event)
        self.budget.parse(mark)
        self.refuse_tag(event, mark)
        text: str = event.value
        if not text.isascii() and _has_surrogate(text):
            text = self.joined(text, mark)
        value = plain(text) if event.style is None else text
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self.put(value, mark, text)

    def joined(self, text: str, mark: Mark) -> str:
        """`text` with pairs of escapes joined, as JSON writes characters beyond U+FFFF: "\\ud83d\\ude00"."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.problems.append(self.problem("holds half a character", mark))
            return ""

    def open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        mark = self.mark(event)
        self.budget.parse(mark)
        self.refuse_tag(event, mark)
        if len(self.stack) >= limits.DEPTH:
            raise LimitError(self.problem(f"is nested more than {limits.DEPTH} deep", mark))
        mapping = isinstance(event, MappingStartEvent)
        node = Located(None, "", mark) if mapping else LocatedList((), "", mark)
        if event.anchor:
            self.anchors[event.anchor] = (_UNFINISHED, 0)
        self.stack.append(_Frame(node, event.anchor, self.budget.nodes - 1, is_key=self.wants_key()))
        self.deepest = max(self.deepest, len(self.stack))

    def close(self) -> None:
        frame = self.stack.pop()
        if frame.anchor:
            self.anchors[frame.anchor] = (frame.node, self.budget.nodes - frame.before)
        self.put(frame.node, frame.node.mark, None)

    def alias(self, event: AliasEvent) -> None:
        mark = self.mark(event)
        node, size = self.anchors.get(event.anchor, (None, -1))
        if size < 0 or node is _UNFINISHED:
            what = "is not defined above" if size < 0 else "holds itself"
            raise DesignError(self.problem(f"the alias *{event.anchor} {what}", mark))
        self.budget.copy(size, mark, self.path())
        if isinstance(node, Located | LocatedList):
            self.check_alias_depth(node, mark)
        self.put(clone(node), mark, node if isinstance(node, str) else None)

    def check_alias_depth(self, node: Any, mark: Mark) -> None:
        depth = len(self.stack) + depth_of(node)
        if depth > limits.DEPTH:
            raise LimitError(self.problem(f"is nested more than {limits.DEPTH} deep", mark))
        self.deepest = max(self.deepest, depth)

    def put(self, value: Any, mark: Mark, text: str | None) -> None:
        """Puts a finished key, value or item where it belongs."""
        if not self.stack:
            self.result = value
            return
        frame = self.stack[-1]
        if isinstance(frame.node, LocatedList):
            frame.node.marks[len(frame.node)] = mark
            frame.node.append(value)
        elif not frame.has_key:
            self.put_key(frame, frame.node, value, mark, text)
        else:
            if not frame.skip and frame.key is not None:
                frame.node[frame.key] = value
            frame.has_key, frame.key, frame.skip = False, None, False

    def put_key(self, frame: _Frame, mapping: Located, value: Any, mark: Mark, text: str | None) -> None:
        frame.has_key, frame.skip = True, True
        if not isinstance(value, str):
            what = f"{text}" if text else shown(value)
            self.problems.append(self.problem(f"the key {what} is not text; put it in quotes", mark))
        elif value == "<<":
            self.problems.append(self.problem("merge keys (<<) are not read; `use:` a file instead", mark))
        elif value in mapping:
            first = mapping.marks[value].line
            found = self.problem(f"is given twice; first on line {first}", mark)
            self.problems.append(Problem(join(found.field, value), found.message, None, *mark))
        else:
            frame.key, frame.skip = value, False
            mapping.marks[value] = mark

    def wants_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].node, Located) and not self.stack[-1].has_key

    def refuse_tag(self, event: Any, mark: Mark) -> None:
        if event.tag:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")[:80]
            self.problems.append(self.problem(f"the tag {tag} is not read; write plain values", mark))

    def mark(self, event: Event) -> Mark:
        start = event.start_mark
        return Mark(self.file, start.line + 1, start.column + 1)

    def path(self) -> str:
        """Where the reading is, inside this file."""
        path = ""
        for frame in self.stack:
            if isinstance(frame.node, LocatedList):
                path = join(path, len(frame.node))
            elif frame.key is not None:
                path = join(path, frame.key)
        return path

    def problem(self, message: str, mark: Mark) -> Problem:
        return Problem(self.path(), message, None, *mark)


def depth_of(node: Any) -> int:
    """How many mappings and lists are inside each other."""
    if isinstance(node, Located):
        return 1 + max(map(depth_of, node.values()), default=0)
    if isinstance(node, LocatedList):
        return 1 + max(map(depth_of, node), default=0)
    return 0


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
