"""How a collective library drives a fabric: start-up, bandwidth and range of one wire protocol."""

from __future__ import annotations

from pydantic import Field

from archmodel.components.base import Component
from archmodel.quantities import Bytes, PositiveFraction, Seconds


class Protocol(Component):
    """One row of a fabric's protocol table.

    A low-latency protocol sends a flag with every few bytes: it starts fast and wastes bandwidth. A simple
    one sends large chunks behind a barrier. A transfer of `x` seconds at full rate costs `x + sqrt(fill *
    x)`: cut into k chunks, each costing some time tau, its pipeline fills in x / k and pays k * tau, and the
    best k makes the sum proportional to sqrt(tau * x).
    """

    base: Seconds | None = Field(
        None, description="start-up of a ring, tree or in-network collective; absent: not used by them"
    )
    direct_base: Seconds | None = Field(
        None, description="start-up of a direct exchange (all-to-all); absent: not used by it"
    )
    step_latency: Seconds | None = Field(
        None, description="latency of one ring or tree step, where it is not the fabric's"
    )
    fraction: PositiveFraction = Field(1.0, description="share of the achieved bandwidth that it reaches")
    fill: Seconds = Field(0.0, description="time scale of filling the chunk pipeline")
    limit: Bytes | None = Field(
        None, description="largest message of a ring or tree step that the library sends so; absent: any"
    )
    direct_limit: Bytes | None = Field(
        None, description="largest message to one peer that the library sends so; absent: any"
    )


PLAIN = Protocol.model_validate({"base": 0.0, "direct_base": 0.0})
"""No start-up, full bandwidth, any size: latency and bandwidth alone."""
