"""Files that use files: `use: systems/dgx_h100.yaml` in a mapping starts it from that file's content.

Keys beside `use:` override what the file says: mappings are merged, anything else is replaced. Three kinds
of mapping replace instead of merging, because what they would inherit is not theirs: one that has a `use:`
itself, one whose `kind` differs from the inherited one, and a cited value (`{value: ..., source: ...}`).
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from archmodel.errors import DesignError, Problem, nearest, shown
from archmodel.source import limits
from archmodel.source.provenance import is_cited
from archmodel.source.reading import Budget, LimitError, build, depth_of
from archmodel.source.tree import Located, LocatedList, clone, join, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

USE = "use"

PathLike: TypeAlias = str | os.PathLike[str]


def read(
    path: PathLike,
    *,
    root: PathLike | None = None,
    catalogue: PathLike | None = None,
    problems: list[Problem] | None = None,
) -> Located:
    """The mapping in the YAML file `path`, every `use:` in it resolved.

    A used file is looked for beside the file that uses it, then in the folder `catalogue`. With `root`,
    nothing outside that folder (or the catalogue) is opened. Raises `DesignError` with every problem found;
    given a list `problems`, those that can be stepped over are appended to it instead, for `validate` to
    report with its own.
    """
    found: list[Problem] = []
    reader = _Reader(_real(root), _real(catalogue), found)
    try:
        tree = reader.top(os.fspath(path))
    except DesignError as error:
        raise DesignError([*found, *error.problems]) from None
    if found and problems is None:
        raise DesignError(found)
    if problems is not None:
        problems.extend(found)
    settle(tree)
    return tree


@dataclass(frozen=True, slots=True)
class _File:
    """A file that has been read: its tree with every `use:` resolved, how many nodes and how deep."""

    tree: Located
    nodes: int
    depth: int


@dataclass(slots=True)
class _Reader:
    root: str | None
    catalogue: str | None
    problems: list[Problem]
    budget: Budget = field(default_factory=Budget)
    files: dict[str, _File | None] = field(default_factory=dict)
    chain: list[str] = field(default_factory=list)

    def top(self, path: str) -> Located:
        real = _real(path)
        if real is None or not self.allowed(real):
            raise DesignError(Problem("", "lies outside the root folder" if real else "is no path", None, path))
        return self.load(real, path, 0).tree

    def load(self, real: str, name: str, depth: int) -> _File:
        """The file `real`, called `name` in messages, every `use:` in it resolved."""
        before = self.budget.nodes
        self.chain.append(real)
        try:
            tree, _ = build(_text(real, name, self.budget), name, self.budget, self.problems)
            if not isinstance(tree, Located):
                what = "is empty" if tree is None else f"holds {shown(tree)}; a mapping is needed"
                raise DesignError(Problem("", what, None, name, 1, 1))
            self.resolve(tree, "", real, name, depth)
        finally:
            self.chain.pop()
        return _File(tree, self.budget.nodes - before, depth_of(tree))

    def resolve(self, node: Located | LocatedList, path: str, real: str, name: str, depth: int) -> None:
        """Lays every mapping with a `use:`, in and below `node`, over the file it names."""
        if depth > limits.DEPTH:
            raise LimitError(Problem(path, f"is nested more than {limits.DEPTH} deep", None, *node.mark))
        for key, item in list(node.items()) if isinstance(node, Located) else enumerate(node):
            if isinstance(item, Located | LocatedList):
                self.resolve(item, join(path, key), real, name, depth + 1)
        if isinstance(node, Located) and USE in node:
            self.start(node, join(path, USE), real, name, depth)

    def start(self, node: Located, path: str, real: str, name: str, depth: int) -> None:
        """Puts the content of the file that `node` uses under what `node` says itself."""
        mark, wanted = node.marks.pop(USE), node.pop(USE)
        node.fresh = True
        if not isinstance(wanted, str) or not wanted:
            self.problems.append(Problem(path, "is not the path of a file", shown(wanted), *mark))
            return
        place = Problem(path, "", shown(wanted), *mark)
        found = self.find(wanted, real, name, place)
        file = None if found is None else self.used(*found, place, depth)
        if file is None:
            return
        if depth + file.depth > limits.DEPTH:
            raise LimitError(replace(place, message=f"is nested more than {limits.DEPTH} deep"))
        self.budget.copy(file.nodes, mark, path)
        lay_under(node, clone(file.tree))

    def used(self, real: str, name: str, place: Problem, depth: int) -> _File | None:
        """The file that `place` uses, read once; None and problems when it cannot be read."""
        if real in self.chain:
            self.problems.append(replace(place, message=f"uses itself: {_route(self.chain, real)}"))
            return None
        if len(self.chain) >= limits.USES:
            raise LimitError(replace(place, message=f"is more than {limits.USES} files deep in `use:`"))
        if real not in self.files:
            try:
                self.files[real] = self.load(real, name, depth)
            except LimitError:
                raise
            except DesignError as error:
                self.problems.extend(error.problems)
                self.files[real] = None
        return self.files[real]

    def find(self, wanted: str, real: str, name: str, place: Problem) -> tuple[str, str] | None:
        """The real path of a used file and its name for messages; None and a problem when there is none."""
        refused = False
        for candidate, called in self.candidates(wanted, real, name):
            if not self.allowed(candidate):
                refused = True
            elif os.path.exists(candidate):
                return candidate, called
        if refused:
            self.problems.append(replace(place, message="lies outside the root folder"))
            return None
        near = nearest(os.path.basename(wanted), self.neighbours(wanted, real))
        meant = f"; the nearest names are {', '.join(near)}" if near else ""
        where = "beside this file or in the catalogue" if self.catalogue else "beside this file"
        self.problems.append(replace(place, message=f"is no file {where}{meant}"))
        return None

    def candidates(self, wanted: str, real: str, name: str) -> Iterator[tuple[str, str]]:
        beside = _real(os.path.join(os.path.dirname(real), wanted))
        if beside is not None:
            yield beside, os.path.normpath(os.path.join(os.path.dirname(name), wanted))
        if self.catalogue is not None:
            listed = _real(os.path.join(self.catalogue, wanted))
            if listed is not None and _inside(listed, self.catalogue):
                yield listed, listed

    def neighbours(self, wanted: str, real: str) -> list[str]:
        """Names of files that stand where `wanted` was looked for."""
        names: list[str] = []
        for folder in (os.path.dirname(real), self.catalogue):
            where = None if folder is None else _real(os.path.join(folder, os.path.dirname(wanted)))
            if where is not None and self.allowed(where) and os.path.isdir(where):
                with os.scandir(where) as entries:
                    names += [entry.name for _, entry in zip(range(1000), entries, strict=False)]
        return names

    def allowed(self, real: str) -> bool:
        """Whether a file may be opened at all."""
        if self.root is None or _inside(real, self.root):
            return True
        return self.catalogue is not None and _inside(real, self.catalogue)


def lay_under(node: Located, base: Located) -> None:
    """Gives `node` everything of `base` that it does not say itself; `base` is used up."""
    for key, value in node.items():
        old = base.get(key)
        if isinstance(old, Located) and isinstance(value, Located) and continues(value, old):
            lay_under(value, old)
    marks = {**base.marks, **node.marks}
    merged = {**base, **node}
    node.clear()
    node.update(merged)
    node.marks = marks


def continues(new: Located, old: Located) -> bool:
    """Whether the mapping `new` adds to the inherited mapping `old` rather than replacing it."""
    other_kind = "kind" in old and "kind" in new and old["kind"] != new["kind"]
    return not (new.fresh or other_kind or is_cited(old) or is_cited(new))


def _text(real: str, name: str, budget: Budget) -> str:
    """The content of a regular UTF-8 file within the budget."""
    try:
        with open(real, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise DesignError(Problem("", "is not a regular file", None, name))
            data = file.read(limits.BYTES - budget.bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DesignError(Problem("", f"cannot be read: {why}", None, name)) from None
    budget.bytes += len(data)
    if budget.bytes > limits.BYTES:
        most = f"{limits.BYTES // 1024} KiB is the most that is read for one design"
        raise LimitError(Problem("", f"is too large: {most}", None, name))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise DesignError(Problem("", "is not UTF-8 text", None, name, line, column)) from None


def _open(path: str, flags: int) -> int:
    """Opens without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _real(path: PathLike | None) -> str | None:
    """The path with every link resolved; None where there is none or it is no path at all."""
    if path is None:
        return None
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def _inside(real: str, folder: str) -> bool:
    return Path(real).is_relative_to(folder)


def _route(chain: list[str], real: str) -> str:
    return " -> ".join(os.path.basename(path) for path in [*chain[chain.index(real) :], real])
