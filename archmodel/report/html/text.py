"""Text from files on a page: it is shown, never run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archmodel.report.words import one_line

LONGEST = 42
"""Characters of a name in a figure; longer ones are cut in their middle."""

DIGITS = 5
"""Significant digits of what figures are drawn from."""


def short(text: str, most: int = LONGEST) -> str:
    """`text`, its middle left out where it is longer than `most`."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def label(text: str, most: int = LONGEST) -> str:
    """A name as plotly may draw it: on one line, and none of the HTML that plotly knows."""
    return html.escape(short(one_line(text), most), quote=False)  # plotly knows no &quot;


def labels(texts: Sequence[str], most: int = LONGEST) -> list[str]:
    """Labels that stay different where their texts are: axes of categories merge equal ones."""
    found: dict[str, int] = {}
    result = []
    for text in texts:
        cut = label(text, most)
        found[cut] = found.get(cut, 0) + 1
        result.append(cut if found[cut] == 1 else f"{cut} ({found[cut]})")
    return result


def markup(text: str) -> str:
    """Text for HTML, in an element or in a quoted attribute."""
    return html.escape(text, quote=True)


def lines(*rows: str) -> str:
    """Escaped rows one below the other, in a figure; empty ones are left out."""
    return "<br>".join(row for row in rows if row)


def rounded(value: Any) -> Any:
    """`value` in plain JSON types, floats with `DIGITS` significant digits; what is no finite number is null."""
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, np.generic):
        return rounded(value.item())
    if isinstance(value, float):
        return _number(value)
    return value


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    near = float(f"{value:.{DIGITS - 1}e}")
    return int(near) if near.is_integer() and abs(near) < 1e15 else near


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that holds it, nor open a comment in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_hash(code: str) -> str:
    """A script as a content security policy allows it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode("ascii")
