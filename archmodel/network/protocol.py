"""How a collective library drives a fabric: start-up, bandwidth and range of one wire protocol."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from archmodel.components.base import Component
from archmodel.quantities import Bytes, Count, Fraction, Num, PositiveBytes, PositiveFraction, Ratio, Seconds


class Tuner(Component):
    """What the library itself expects of a protocol when it chooses one: not what it takes.

        expected = base + steps * step_latency + sent / (fraction * line rate)

    A protocol is used up to the size at which the library expects a wider one to be faster (NCCL,
    src/graph/tuning.cc).
    """

    base: Seconds = Field(..., description="expected start-up")
    step_latency: Seconds = Field(..., description="expected latency of one step")
    fraction: PositiveFraction = Field(..., description="expected share of the line rate")


class Protocol(Component):
    """One row of a fabric's protocol table.

    A low-latency protocol sends a flag with every few bytes: it starts fast and wastes bandwidth. A simple
    one sends large chunks behind a barrier. A transfer of `x` seconds at full rate costs `x + sqrt(fill *
    x)`: cut into k chunks, each costing some time tau, its pipeline fills in x / k and pays k * tau, and the
    best k makes the sum proportional to sqrt(tau * x).

    A row with `line` moves its bytes in rounds, as NCCL's low-latency protocol does (src/enqueue.cc, prims_ll.h): a
    block takes one channel for every `line` bytes, up to `channels`; what is more goes in further rounds, and a rank
    that takes part in k steps handles k + 1 blocks, its own included. So the time is the same from one channel
    to all of them, and only then grows with size:

        c = min(max(block / line, 1), channels),  rounds = ceil(block / (c line)),  round = channels line / rate
        widening (1 - 1 / c) + (steps + 1) round (rounds - 1 + first_round min(block / line, 1))
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
    gather_step: Seconds = Field(0.0, description="added to each step that gathers, not reduces")
    fraction: PositiveFraction = Field(1.0, description="share of the achieved bandwidth that it reaches")
    peer_fraction: PositiveFraction | None = Field(
        None, description="share of it that messages to one peer reach in a direct exchange; absent: `fraction` for all"
    )
    fill: Seconds = Field(0.0, description="time scale of filling the chunk pipeline")
    direct_fill: Seconds | None = Field(None, description="the same in a direct exchange, where it differs")
    exposed: Fraction = Field(
        0.0,
        description="share of the time to send a block (at most `chunk`) that passes before the pipeline runs",
    )
    chunk: PositiveBytes | None = Field(None, description="most of a block that all channels pass on at once")
    line: PositiveBytes | None = Field(
        None, description="bytes that one channel passes on in one round; absent: it does not move in rounds"
    )
    channels: Count = Field(24, description="most channels that it moves on")
    first_round: Fraction = Field(1.0, description="share of a round by which the first one adds to a step's latency")
    gather_round: Ratio = Field(0.0, description="rounds added to each round of a step that gathers, not reduces")
    widening: Seconds = Field(0.0, description="start-up of many channels, over that of one")
    tuner: Tuner | None = Field(
        None, description="what the library expects of it; absent: it is used where it is fastest, up to `limit`"
    )
    limit: Bytes | None = Field(
        None, description="largest message of a ring or tree step that the library sends so; absent: any"
    )
    direct_limit: Bytes | None = Field(
        None, description="largest message to one peer that the library sends so; absent: any"
    )

    def clocked(self, clock: Num) -> Self:
        """On GPUs of `clock` times the clock: what software takes is divided by it."""
        times = ("base", "direct_base", "step_latency", "gather_step", "fill", "direct_fill", "widening")
        known = {name: value for name in times if (value := getattr(self, name)) is not None}
        return self.model_copy(update={name: value / clock for name, value in known.items()})


PLAIN = Protocol.model_validate({"base": 0.0, "direct_base": 0.0})
"""No start-up, full bandwidth, any size: latency and bandwidth alone."""
