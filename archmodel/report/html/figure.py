"""A figure as data: plotly's JSON, an id that does not change, and what it says in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from archmodel.report.html.palette import THEMES
from archmodel.report.html.text import markup, rounded

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Figure:
    """`name`: id on its page. `takeaway`: what the data say, plain text. `data`, `layout`: as plotly.js takes them, all
    text in them escaped. `narrow`: changes of the layout on a screen that is narrow. `note`: how to read it."""

    name: str
    title: str
    takeaway: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    height: int = 340
    narrow: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def spec(self) -> dict[str, Any]:
        """What the page's script draws."""
        layout = {**self.layout, "height": self.height}
        answer: dict[str, Any] = rounded({"data": list(self.data), "layout": layout, "narrow": self.narrow})
        return answer

    def packed(self) -> dict[str, Any]:
        """The same for a page, each text of the traces once: `hovertext` holds places in `texts`."""
        spec = self.spec()
        places: dict[str, int] = {}
        for trace in spec["data"]:
            if isinstance(trace.get("hovertext"), list):
                trace["hovertext"] = [places.setdefault(text, len(places)) for text in trace["hovertext"]]
        return {**spec, "texts": list(places)}

    def to_plotly(self) -> PlotlyFigure:
        """The same as a figure of plotly's, titled with what it says, in the light theme."""
        import plotly.graph_objects as go  # type: ignore[import-untyped]

        spec = self.spec()
        head = f"{markup(self.title)}<br><sup>{markup(self.takeaway)}</sup>"
        layout = {**spec["layout"], "template": THEMES["light"], "title": {"text": head, "x": 0.01}}
        layout["height"] = self.height + 70
        layout["margin"] = {"t": 100, **layout.get("margin", {})}
        return go.Figure(data=spec["data"], layout=layout)


def listing_axis(ticks: Sequence[str]) -> dict[str, Any]:
    """An axis down a list of names, the first on top; `ticks` are escaped."""
    return {
        "tickvals": list(range(len(ticks))),
        "ticktext": list(ticks),
        "range": [len(ticks) - 0.4, -0.6],
        "fixedrange": True,
        "showgrid": False,
    }


def seconds_axis(title: str = "") -> dict[str, Any]:
    """An axis of times: `20ms`."""
    return {"tickformat": "~s", "ticksuffix": "s", "title": {"text": title}}


def si_axis(unit: str, title: str = "") -> dict[str, Any]:
    """An axis of amounts with SI prefixes: `20GB`."""
    return {"tickformat": "~s", "ticksuffix": markup(unit), "title": {"text": title}}
