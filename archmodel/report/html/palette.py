"""One colour for one meaning, in every figure of every page, and the two themes.

Hues are those of Okabe and Ito ("Color Universal Design", 2008) and of Paul Tol's schemes "bright", "muted" and "medium
contrast" (SRON technical note SRON/EPS/TN/09-002, 2021), chosen so that members of one family differ for every kind of
colour vision and stand out from either background. `tests/report/html/test_palette.py` holds that.
"""

from __future__ import annotations

import re
import zlib
from itertools import pairwise
from typing import Any

PHASES = {"input": "#AA3377", "forward": "#56B4E9", "backward": "#E69F00", "update": "#117733"}
"""Phases of an iteration."""

RESOURCES = {
    "compute": "#4477AA",
    "memory": "#228833",
    "scale_up": "#66CCEE",
    "scale_out": "#EE6677",
    "host": "#CCBB44",
    "latency": "#BBBBBB",
}
"""Streams, links and parts of a time: what an op waits for."""

TIERS = {"hbm": "#228833", "ddr": "#E69F00", "cxl": "#AA3377", "scm": "#DDCC77", "ssd": "#56B4E9"}
"""Memories. A tier of another name has a colour of its own that depends on the name alone."""

ROLES = {
    "parameter": "#6699CC",
    "optimizer_state": "#EECC66",
    "gradient": "#EE6677",
    "activation": "#997700",
    "input": "#AA3377",
    "cache": "#66CCEE",
    "reserved": "#BBBBBB",
}
"""What a memory holds."""

SIMILAR = {
    "device": "compute",
    "launch": "latency",
    "nic": "scale_out",
    "l2": "memory",
    "sort": "compute",
    "waiting": "latency",
}
"""Parts that share the colour of a resource."""

CALIBRATED, HELD_OUT = "#BB8855", "#4477AA"
"""Facts that constants were fitted on, and the others."""

GOOD, BAD, NEUTRAL = "#4477AA", "#EE6677", "#888888"
SERIES = ("#4477AA", "#EE7733", "#228833", "#AA3377", "#66CCEE", "#CCBB44", "#EE6677", "#888888")
"""Designs side by side, and whatever has no meaning of its own, in this order."""


def colour(name: str) -> str:
    """The colour of a phase, stream, part, tier or role; of any other name, always the same one of `SERIES`."""
    name = SIMILAR.get(name, name)
    for family in (RESOURCES, TIERS, PHASES, ROLES):
        if name in family:
            return family[name]
    return SERIES[zlib.crc32(name.encode("utf-8")) % len(SERIES)]


def phase(name: str) -> str:
    """The colour of a phase."""
    return PHASES.get(name) or colour(name)


def role(name: str) -> str:
    """The colour of what a memory holds."""
    return ROLES.get(name) or colour(name)


def of_streams(streams: tuple[str, ...]) -> str:
    """The colour of an op by where it runs; of an exchange, its outermost link."""
    return colour(max(streams, key=lambda s: _OUTERMOST.index(s) if s in _OUTERMOST else -1, default="latency"))


_OUTERMOST = ("compute", "host", "scale_up", "scale_out")


def of_path(path: str) -> str:
    """The colour of a field of a design by what it belongs to."""
    tier = re.search(r"\.tiers\.([^.]+)\.", path)
    if tier and "latency" not in path:
        return colour(tier[1])
    for word, name in _WORDS:
        if word in path:
            return colour(name)
    return NEUTRAL


_WORDS = (
    ("latency", "latency"), ("launch", "latency"), ("scale_out", "scale_out"), (".nic", "scale_out"),
    ("scale_up", "scale_up"), ("host.link", "host"), (".hbm", "hbm"), (".memory", "hbm"), (".ddr", "ddr"),
    (".scm", "scm"), (".ssd", "ssd"), (".cxl", "cxl"), ("peaks", "compute"), (".gpu", "compute"),
    ("accelerator", "compute"),
)  # fmt: skip


def faint(colour: str, share: float = 0.35) -> str:
    """The same colour, mostly transparent."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"


# --- themes ---------------------------------------------------------------------------------------------------

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
SEQUENTIAL = [[0, "#2a63b8"], [0.25, "#6a8fc0"], [0.5, "#a3a8a6"], [0.75, "#d6b265"], [1, "#f5bd1f"]]
"""From blue to yellow, as cividis (Nunez, Anderton, Renslow 2018), its ends moved so that both stand out from either
background."""


def along(share: float) -> str:
    """The colour of `SEQUENTIAL` at a share from 0 to 1."""
    at = [place for place, _ in SEQUENTIAL]
    channels = [[int(str(c)[i : i + 2], 16) for _, c in SEQUENTIAL] for i in (1, 3, 5)]
    return "#" + "".join(f"{round(_between(share, at, channel)):02x}" for channel in channels)


def _between(x: float, at: list[Any], values: list[int]) -> float:
    for (a, b), (low, high) in zip(pairwise(at), pairwise(values), strict=True):
        if x <= b:
            return float(low + (high - low) * (max(x, 0.0) - a) / (b - a))
    return float(values[-1])


def _theme(paper: str, ink: str, grid: str, middle: str) -> dict[str, Any]:
    axis = {
        "gridcolor": grid,
        "zerolinecolor": grid,
        "linecolor": grid,
        "automargin": True,
        "title": {"standoff": 8},
        "tickfont": {"size": 11},
    }
    diverging = [[0, "#2166ac"], [0.25, "#74a9d8"], [0.5, middle], [0.75, "#f0a35e"], [1, "#c0561a"]]
    return {
        "layout": {
            "paper_bgcolor": paper,
            "plot_bgcolor": paper,
            "font": {"family": FONT, "size": 12, "color": ink},
            "colorway": list(SERIES),
            "colorscale": {"diverging": diverging, "sequential": SEQUENTIAL, "sequentialminus": SEQUENTIAL},
            "hoverlabel": {
                "align": "left",
                "bgcolor": paper,
                "bordercolor": grid,
                "font": {"family": FONT, "color": ink, "size": 12},
            },
            "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
            "margin": {"l": 8, "r": 12, "t": 28, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "annotationdefaults": {"bgcolor": paper, "arrowcolor": ink, "borderpad": 2},
            "barcornerradius": 1,
        },
        "data": {"heatmap": [{"colorbar": {"thickness": 12, "outlinewidth": 0}}]},
    }


THEMES = {
    "light": _theme("#ffffff", "#20242c", "#dde1e7", "#f2f2f2"),
    "dark": _theme("#191c22", "#e4e7ec", "#3a404b", "#30343c"),
}
"""Plotly templates; page.css has the same paper and ink."""
