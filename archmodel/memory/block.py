"""Drives: storage-class memory or NAND flash behind a block interface."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from archmodel.memory import queueing
from archmodel.memory.tier import MEMORIES, MemoryTier, TierError, _plain, _quantity
from archmodel.quantities import (
    Array,
    Fraction,
    Num,
    PositiveBytes,
    PositiveRatio,
    PositiveRequestRate,
    PositiveSeconds,
)


@MEMORIES.register
class BlockTier(MemoryTier):
    """A drive, or as many equal drives as its fields add up.

    Requests of one block or more; with Q of them under way it serves

        X = min(Q / (S r(Q)), IOPS, bandwidth / bytes per request)

    a second, S the latency of a request that is alone. r(Q), 1 or more, is what requests wait for each other on the
    drive's channels (`archmodel.memory.queueing`); with r = 1 this is Little's law. How many channels there are
    follows from IOPS, S and the queue depth that IOPS are stated at.
    """

    kind: Literal["block"] = "block"  # type: ignore[assignment]
    access_granularity: PositiveBytes = Field(description="a block")
    latency: PositiveSeconds = Field(description="mean time of a read that is alone")
    write_latency: PositiveSeconds | None = Field(default=None, description="mean time of a write alone, if it differs")
    read_iops: PositiveRequestRate = Field(description="most reads per second")
    write_iops: PositiveRequestRate | None = Field(default=None, description="most writes per second, if they differ")
    queue_depth: PositiveRatio = Field(description="requests that the host keeps under way")
    rated_queue_depth: PositiveRatio | None = Field(
        default=None, description="requests under way when read_iops were measured; very many if left out"
    )
    service_variation: Fraction = Field(
        default=1.0, description="standard deviation over mean of the service time: 0 constant, 1 exponential"
    )

    @property
    def in_flight(self) -> Num:
        return self.queue_depth

    def peak_iops(self, write: bool = False) -> Num:
        """Requests/s that the drive never exceeds, at any depth."""
        return self.write_iops if write and self.write_iops is not None else self.read_iops

    def channels(self, write: bool = False) -> Num:
        """Requests that are served at the same time at most; infinite if the rated depth is too small to tell."""
        service, most = self._service(write), self.peak_iops(write)
        if self.rated_queue_depth is None:
            found: Num = np.asarray(most) * service
        else:
            found = queueing.channels_for(most, self.rated_queue_depth, service, self.service_variation)
        return _plain(np.maximum(found, 1.0))

    def request_rate(self, depth: Num, write: bool = False) -> Num:
        """Requests/s of one block with `depth` under way, `queue_depth` at most; bandwidth aside."""
        reached = queueing.closed_throughput(
            self._depth(depth), self._service(write), self.channels(write), self.service_variation
        )
        return _plain(np.minimum(reached, self.peak_iops(write)))

    def ideal_request_rate(self, depth: Num, write: bool = False) -> Num:
        """Requests/s of one block by Little's law alone: min(depth / S, IOPS, bandwidth / block)."""
        bandwidth = self.peak_write_bandwidth if write else self.peak_read_bandwidth
        free = np.minimum(self._depth(depth) / self._service(write), self.peak_iops(write))
        return _plain(np.minimum(free, bandwidth / np.asarray(self.access_granularity)))

    def latency_at_depth(self, depth: Num, write: bool = False) -> Num:
        """Mean seconds of a request of one block with `depth` always under way: depth / rate (Little)."""
        bandwidth = self.peak_write_bandwidth if write else self.peak_read_bandwidth
        rate = np.minimum(self.request_rate(depth, write), bandwidth / np.asarray(self.access_granularity))
        return _plain(self._depth(depth) / rate)

    def mean_latency(self, load: Num, write: bool = False) -> Num:
        """Mean seconds of a request of one block when `load` requests/s arrive by chance; infinite from the drive's
        peak on."""
        arriving = _quantity(load, "a load")
        service, channels = self._service(write), self.channels(write)
        wait = queueing.open_wait(arriving, service, channels, self.service_variation)
        return _plain(np.where(self._kept_up(arriving, write), service + wait, np.inf))

    def latency_percentile(self, load: Num, share: Num = 0.99, write: bool = False) -> Num:
        """Seconds within which a `share` of the requests is done when `load` requests/s arrive by chance."""
        arriving, wanted = _quantity(load, "a load"), _quantity(share, "a share of requests")
        if np.any(wanted >= 1.0):
            raise TierError("a share of requests is below 1")
        service, channels = self._service(write), self.channels(write)
        found = queueing.open_percentile(arriving, service, channels, self.service_variation, wanted)
        return _plain(np.where(self._kept_up(arriving, write), found, np.inf))

    def _service(self, write: bool) -> Num:
        return self.access_latency(write)

    def _kept_up(self, load: Array, write: bool) -> Array:
        bandwidth = self.peak_write_bandwidth if write else self.peak_read_bandwidth
        return np.asarray((load < self.peak_iops(write)) & (load * self.access_granularity < bandwidth))
