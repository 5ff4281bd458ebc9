"""Fields that follow knobs, as a search file writes them."""

from __future__ import annotations

from typing import Any

from archmodel.errors import DesignError, Problem, shown, suggestion
from archmodel.search.file_ground import Ground
from archmodel.source import Located, LocatedList, Mark
from archmodel.sweep.follow import Follow, Term


class Follows(Ground):
    """Reads `follows`."""

    def follows(self) -> tuple[Follow, ...]:
        problems: list[Problem] = []
        found: list[Follow] = []
        tree = self.section("follows")
        for path, given in tree.items():
            try:
                found.append(self.follow(path, given, tree.place(path)))
            except DesignError as error:
                problems += error.problems
        if problems:
            raise DesignError(problems)
        return tuple(found)

    def follow(self, path: str, given: Any, mark: Mark) -> Follow:
        where = f"follows.{path}"
        dimension = self.dimension(where, path, mark)
        if not isinstance(given, Located):
            raise DesignError(Problem(where, "is not {base, terms}", shown(given), *mark))
        self.known(where, given, ("base", "terms"), ("terms",))
        base = (
            None if "base" not in given else self.number(f"{where}.base", given["base"], dimension, given.place("base"))
        )
        terms = given["terms"]
        if not isinstance(terms, LocatedList) or not terms:
            raise DesignError(
                Problem(f"{where}.terms", "is not a list of {of, adds, each}", None, *given.place("terms"))
            )
        return Follow(path, tuple(self.term(where, dimension, terms, i) for i in range(len(terms))), base)

    def term(self, where: str, dimension: str, terms: LocatedList, index: int) -> Term:
        given, mark = terms[index], terms.place(index)
        where = f"{where}.terms[{index}]"
        if not isinstance(given, Located):
            raise DesignError(Problem(where, "is not {of, adds, each}", shown(given), *mark))
        self.known(where, given, ("of", "adds", "each", "beyond"), ("of", "adds", "each"))
        of = given["of"]
        if not isinstance(of, str):
            raise DesignError(Problem(f"{where}.of", "is not the path of a field", shown(of), *given.place("of")))
        measured = self.dimension(f"{where}.of", of, given.place("of"), counts=True)
        each = self.number(f"{where}.each", given["each"], measured, given.place("each"))
        if each == 0:
            raise DesignError(Problem(f"{where}.each", "is zero", None, *given.place("each")))
        beyond = self.number(f"{where}.beyond", given.get("beyond", 0), measured, given.place("beyond"))
        return Term(of, self.number(f"{where}.adds", given["adds"], dimension, given.place("adds")), each, beyond)

    def known(self, where: str, given: Located, keys: tuple[str, ...], needed: tuple[str, ...]) -> None:
        about = ("source", "status", "note", "name")
        problems = []
        for key in given:
            if key not in (*keys, *about):
                what = f"unknown field; {suggestion(key, keys)}"
                problems.append(Problem(f"{where}.{key}", what, None, *given.place(key)))
        missing = [key for key in needed if key not in given]
        if missing:
            problems.append(Problem(where, f"has no {' and no '.join(missing)}", None, *given.mark))
        if problems:
            raise DesignError(problems)
