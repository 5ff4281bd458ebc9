"""How values show themselves: notebooks ask for `_repr_html_`, users for `figure(name)`.

What draws stands on a higher floor than what is drawn. So classes inherit `Viewed`, which knows drawers by name only;
the package registers them when it is imported, and they are imported when something is first drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

_DRAWERS: dict[tuple[str, str], str] = {}


def register(kind: str, view: str, drawer: str) -> None:
    """`drawer`, as `module:function`, draws the `view` of instances of the class called `kind`."""
    _DRAWERS[kind, view] = drawer


def drawer(value: object, view: str) -> Any:
    """The function that draws `view` of `value`, by its class or the nearest of its bases; None when there is none."""
    for base in type(value).__mro__:
        found = _DRAWERS.get((base.__name__, view))
        if found is not None:
            module, _, function = found.partition(":")
            return getattr(import_module(module), function)
    return None


class Viewed:
    """Shows itself in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        draw = drawer(self, "html")
        return None if draw is None else str(draw(self))


class Drawn(Viewed):
    """Has figures too."""

    __slots__ = ()

    def figure(self, name: str) -> Figure:
        """A plotly figure, e.g. `figure("timeline")`. Raises ArchmodelError naming those that there are."""
        return drawer(self, "figure")(self, name)
