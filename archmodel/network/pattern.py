"""What a pattern of equal messages asks of the links of one dimension."""

from __future__ import annotations

from dataclasses import dataclass

from archmodel.quantities import Num


@dataclass(frozen=True, slots=True)
class Pattern:
    """Per byte of a message, when all messages of the pattern start together.

    `load`: bytes on the busiest directed link (the one with the most seconds of work), `bandwidth`: of that
    link in B/s. `latency`: seconds of link latency on the longest path, of `hops` links; `edge_latency`: on
    the first and the last link of that path, what passes before the busiest link starts and after it ends.
    `least_hops`: links that whole messages pass one after the other where they are stored: of the shortest path on
    switches and in graphs; one along a row, whose busiest link starts and ends with messages of its own two ranks.
    """

    load: Num
    bandwidth: Num
    hops: int
    least_hops: int
    latency: Num
    edge_latency: Num

    @property
    def seconds_per_byte(self) -> Num:
        """Seconds that the busiest link works for each byte of a message."""
        return self.load / self.bandwidth


NOTHING = Pattern(load=0.0, bandwidth=1.0, hops=0, least_hops=0, latency=0.0, edge_latency=0.0)
"""No message."""
