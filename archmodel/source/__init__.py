"""From a YAML file to a validated model, without losing track of file, line and column.

    tree = read("designs/x.yaml")                          # located mappings, `use:` resolved
    tree = set_path(tree, "system.nodes", 32)              # a new tree, sharing the rest
    design = validate(Design, tree)                        # or a DesignError with every problem

Nothing here knows what a design is.
"""

from archmodel.source.provenance import Provenance, provenance, strip
from archmodel.source.reading import scalar
from archmodel.source.tree import (
    Located,
    LocatedList,
    Mark,
    at,
    join,
    located,
    mark_at,
    problem_at,
    set_path,
    split,
)
from archmodel.source.using import read
from archmodel.source.validating import validate

__all__ = [
    "Located",
    "LocatedList",
    "Mark",
    "Provenance",
    "at",
    "join",
    "located",
    "mark_at",
    "problem_at",
    "provenance",
    "read",
    "scalar",
    "set_path",
    "split",
    "strip",
    "validate",
]
