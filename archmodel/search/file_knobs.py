"""Knobs of a search file: values, ranges, parts by the name of their file, and options that set several fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archmodel import catalogue, source
from archmodel.design import Design, DesignFile
from archmodel.errors import DesignError, Problem, shown, suggestion
from archmodel.search.file_ground import Ground
from archmodel.source import Located, Mark
from archmodel.source.provenance import is_cited
from archmodel.sweep.axes import Options
from archmodel.sweep.prepare import Request


class Knobs(Ground):
    """Reads `knobs`."""

    def request(self, design: Design, knobs: Mapping[str, Any]) -> Request:
        return Request(design, knobs, "random", 1, bare=self.bare, places=self.place)

    def knobs(self) -> dict[str, Any]:
        """Knobs as axes are asked for, parts read from their files."""
        knobs = self.tree["knobs"]
        if not isinstance(knobs, Located) or not knobs:
            what = "is empty; name at least one path, e.g. system.node.gpu.hbm.bandwidth, and its values"
            raise DesignError(self.tree.problem("knobs", what))
        problems: list[Problem] = []
        found: dict[str, Any] = {}
        for path, given in knobs.items():
            try:
                found[path] = self.knob(path, given)
            except DesignError as error:
                problems += error.problems
        if problems:
            raise DesignError(problems)
        return found

    def knob(self, path: str, given: Any) -> Any:
        if isinstance(given, Mapping) and "options" in given:
            options = given["options"]
            if not isinstance(options, Located) or not options or len(given) > 1:
                what = "is not {options: {name: value, ...}} with at least one option and nothing else"
                raise DesignError(Problem(f"knobs.{path}", what, None, *self.place(path, None)))
            together = "." not in path and path not in DesignFile.model_fields
            return Options({name: self.option(path, options, name, together) for name in options}, together)
        if isinstance(given, list) and any(self.is_part(path, item) for item in given):
            parts = {_name(item): self.part(path, item, self.place(path, i)) for i, item in enumerate(given)}
            if len(parts) == len(given):
                return Options(parts)
            return [self.part(path, item, self.place(path, i)) for i, item in enumerate(given)]
        return given

    def option(self, path: str, options: Located, name: str, together: bool) -> Any:
        value, mark = options[name], options.place(name)
        if not together:
            return self.part(path, value, mark)
        if not isinstance(value, Located) or not value:
            what = "sets nothing; write the paths that it sets and their values"
            raise DesignError(Problem(f"knobs.{path}.options.{name}", what, None, *mark))
        return {inner: self.part(inner, item, value.place(inner)) for inner, item in value.items()}

    def is_part(self, path: str, value: Any) -> bool:
        """Whether text stands for a file: where the designs hold a mapping."""
        if not isinstance(value, str) or value == "auto":
            return False
        try:
            return any(isinstance(source.at(d.tree, path), Mapping) for d in self.designs.values()) and (
                not any(is_cited(source.at(d.tree, path)) for d in self.designs.values())
            )
        except (KeyError, DesignError):
            return False

    def part(self, path: str, value: Any, mark: Mark) -> Any:
        """A value; the content of the file that it names, where it names one."""
        if not self.is_part(path, value):
            return value
        folder = catalogue.directory()
        files = {p.stem: p for p in sorted(folder.glob("*/*.yaml"))}
        known = {**files, **{p.relative_to(folder).as_posix(): p for p in files.values()}}
        beside = [self.path.parent / value, self.path.parent / f"{value}.yaml"]
        found = next((p for p in beside if p.is_file()), known.get(value))
        if found is None:
            what = f"is no file beside this one or in the catalogue; {suggestion(value, list(files))}"
            raise DesignError(Problem(path, what, shown(value), *mark))
        return source.read(found, root=self.root, catalogue=folder)


def _name(item: Any) -> str:
    if isinstance(item, Mapping):
        return str(item.get("name", sorted(item)))
    return str(item)
