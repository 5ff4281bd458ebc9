"""Numbers and names as reports spell them."""

from __future__ import annotations

import re

from archmodel.errors import escape
from archmodel.quantities import Num, show

STREAMS = {"compute": "device", "scale_up": "scale-up", "scale_out": "NIC", "host": "host link"}
DIMENSION = {"throughput": "sample_rate", "iteration_time": "seconds", "latency": "seconds"}
"""What the quantities that get published are."""

DEVICE_TIER = "hbm"
"""What plans call a device's own memory, whatever it is made of."""

NO_BREAK = "\ue000"
"""Stands for a space at which no line may be broken (rich breaks at every character that Unicode calls a space)."""

_SPACE = re.compile(r"\s+")


def one_line(text: str) -> str:
    """Text from a file, on one line and unable to move a cursor."""
    return escape(_SPACE.sub(" ", text)).replace(NO_BREAK, "?").strip()


def whole(text: str) -> str:
    """Text that no line break divides."""
    return text.replace(" ", NO_BREAK)


def on(streams: str) -> str:
    """Where an op runs: `scale_up+scale_out` -> `scale-up + NIC`."""
    return " + ".join(STREAMS.get(stream, one_line(stream)) for stream in streams.split("+"))


def time(seconds: Num) -> str:
    """`12.3 ms`."""
    return show(seconds, "seconds")


def data(amount: Num) -> str:
    """`31.2 GB`."""
    return show(amount, "bytes")


def percent(share: float, digits: int = 0) -> str:
    """`71 %`."""
    return f"{100 * share:.{digits}f} %"


def signed(share: float, digits: int = 0) -> str:
    """`+5 %`; never `-0 %`."""
    value = round(100 * share, digits) + 0.0
    return f"{value:+.{digits}f} %"


def shares(parts: dict[str, float], least: float = 0.05, most: int = 3) -> str:
    """`bandwidth 88 %, latency 12 %`: the largest parts; just `bandwidth` when it is alone."""
    total = sum(parts.values())
    if total <= 0:
        return "nothing"
    large = [(name, seconds / total) for name, seconds in parts.items() if seconds >= least * total][:most]
    if len(large) == 1 and large[0][1] > 0.995:
        return large[0][0]
    return ", ".join(whole(f"{name} {percent(share)}") for name, share in large)


def money(usd: float) -> str:
    """`$0.41`, with three significant digits below a dollar."""
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.3g}"


def plural(count: int, noun: str) -> str:
    """`1 rank`, `128 ranks`, `2 accesses`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"
