"""One level of memory, and how long random accesses to it take.

Kinds: `memory` (here: byte-addressable, HBM to persistent memory, also behind a link), `block` (a drive) and
`near_memory` (DRAM that sums rows).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from archmodel.components.base import Component, Family
from archmodel.errors import ArchmodelError
from archmodel.memory.endurance import DAY, Endurance
from archmodel.quantities import (
    Array,
    JoulesPerByte,
    Num,
    PositiveBandwidth,
    PositiveBytes,
    PositiveRatio,
    Seconds,
    Usd,
    Watts,
)

MEMORIES: Family[MemoryTier] = Family(
    "memory", homes={"block": "archmodel.memory.block", "near_memory": "archmodel.memory.nmp.tier"}
)

_ROUNDING = 1e-12
"""Relative excess of a request over whole granules that is taken for rounding."""


class TierError(ArchmodelError, ValueError):
    """Accesses that no memory serves, or a question that a tier's fields do not answer."""


@MEMORIES.register
class MemoryTier(Component):
    """Capacity and speed of a memory: HBM of one device, the DDR of a whole host, modules behind a link.

    `bytes_` and `requests` broadcast against each other and against the fields; scalars give floats. Requests are
    independent of each other, all of one size, bytes / requests; each starts at a granule. They may be fractions, as
    expected misses are. No bytes are no requests. Raises TierError for what is negative, NaN or infinite, and for
    bytes without requests.
    """

    kind: Literal["memory"] = "memory"
    capacity: PositiveBytes = Field(description="bytes that it holds")
    bandwidth: PositiveBandwidth = Field(
        description="peak bandwidth of reads, and of reads and writes together unless write_bandwidth says otherwise"
    )
    write_bandwidth: PositiveBandwidth | None = Field(default=None, description="peak write bandwidth, if it differs")
    latency: Seconds = Field(default=0.0, description="of one access, as a dependent load sees it")
    write_latency: Seconds | None = Field(default=None, description="of one write, if it differs")
    access_granularity: PositiveBytes = Field(default=32.0, description="smallest access (sector, line or block)")
    outstanding: PositiveRatio | None = Field(
        default=None, description="random accesses in flight at once; latency bounds no rate if left out"
    )
    link_bandwidth: PositiveBandwidth | None = Field(
        default=None, description="per direction, of a link between it and its host, as CXL; none if left out"
    )
    link_latency: Seconds | None = Field(default=None, description="that the link adds to an access and its answer")
    idle_power: Watts | None = Field(default=None, description="drawn when nothing is accessed")
    active_power: Watts | None = Field(default=None, description="drawn at peak bandwidth")
    energy_per_byte: JoulesPerByte | None = Field(default=None, description="energy of an access")
    price: Usd | None = Field(default=None, description="price of the whole memory")
    endurance: Endurance | None = Field(default=None, description="how much may be written; no limit if left out")

    # --- laws ------------------------------------------------------------------------------------------------

    def moved_bytes(self, bytes_: Num, requests: Num) -> Num:
        """Bytes that the medium moves: every request takes whole granules,

        requests x ceil(bytes / requests / granularity) x granularity
        """
        return _plain(self._moved(*_checked(bytes_, requests)))

    def amplification(self, bytes_: Num, requests: Num) -> Num:
        """Bytes that the medium moves per useful byte, 1 or more; 1 where nothing is asked for."""
        useful, count = _checked(bytes_, requests)
        return _plain(np.where(useful > 0, self._moved(useful, count) / np.where(useful > 0, useful, 1.0), 1.0))

    def read_time(self, bytes_: Num, requests: Num) -> Num:
        """Seconds of `requests` random reads of `bytes_` useful bytes together, at the tier's own concurrency.

            max(moved / bandwidth, requests x latency / in flight)

        in flight: `outstanding`, at most the requests there are. A link bounds bandwidth and adds to latency.
        """
        useful, count = _checked(bytes_, requests)
        return _plain(self._time(useful, count, self.peak_read_bandwidth, write=False))

    def write_time(self, bytes_: Num, requests: Num) -> Num:
        """As `read_time`, of writes. A write of part of a granule counts as the whole; reading the rest of it before
        is a read of its own (`update_time`)."""
        useful, count = _checked(bytes_, requests)
        return _plain(self._time(useful, count, self.peak_write_bandwidth, write=True))

    def update_time(self, bytes_: Num, requests: Num) -> Num:
        """Seconds to read granules and write them back, one after the other."""
        return self.read_time(bytes_, requests) + self.write_time(bytes_, requests)

    @property
    def sums_rows(self) -> bool:
        """Whether lookups get sums of rows from it, not rows."""
        return False

    def sum_time(self, row_bytes: Num, rows: Num, sums: Num, sum_bytes: Num) -> Num:
        """Seconds to make `sums` sums, of `sum_bytes` together, of `rows` rows of `row_bytes` together, where the
        memory does so (`sums_rows`). Raises TierError else."""
        raise TierError(f"{self.name or 'the memory'} sums no rows; one of kind near_memory does")

    def sum_energy(self, row_bytes: Num, rows: Num, sums: Num, sum_bytes: Num) -> Num:
        """Joules of that."""
        raise TierError(f"{self.name or 'the memory'} sums no rows; one of kind near_memory does")

    def request_rate(self, depth: Num, write: bool = False) -> Num:
        """Requests/s of one granule with `depth` in flight, bandwidth aside: Little's law, depth / latency."""
        latency = np.asarray(self.access_latency(write), dtype=np.float64)
        with np.errstate(divide="ignore"):
            return _plain(np.divide(self._depth(depth), latency))

    def access_latency(self, write: bool = False) -> Num:
        """Seconds of one access with nothing else under way, the link's included."""
        medium = self.write_latency if write and self.write_latency is not None else self.latency
        return medium if self.link_latency is None else medium + self.link_latency

    def lifetime(self, write_bandwidth: Num) -> Num:
        """Seconds until the medium is worn out when the host writes `write_bandwidth` B/s without a pause.

        Infinite for no writes, and for a memory that states no endurance.
        """
        rate = _quantity(write_bandwidth, "a write bandwidth")
        if self.endurance is None:
            return _plain(np.full(rate.shape, np.inf))
        return _plain(self.endurance.lifetime(rate, self.capacity))

    def lifetime_days(self, write_bandwidth: Num) -> Num:
        """`lifetime` in days."""
        return _plain(np.asarray(self.lifetime(write_bandwidth)) / DAY)

    def power(self, busy: Num) -> Num:
        """Watts at a share `busy` of peak bandwidth: idle + busy x (active - idle). Raises TierError without both."""
        share = _quantity(busy, "a share of peak bandwidth")
        if np.any(share > 1.0):
            raise TierError("a share of peak bandwidth is 1 at most")
        if self.idle_power is None or self.active_power is None:
            raise TierError(f"{self.name or 'the memory'} states no idle_power and active_power")
        return _plain(self.idle_power + share * (np.asarray(self.active_power) - self.idle_power))

    # --- bounds ----------------------------------------------------------------------------------------------

    @property
    def peak_read_bandwidth(self) -> Num:
        """B/s that no read exceeds: of the medium or the link."""
        return _through(self.bandwidth, self.link_bandwidth)

    @property
    def peak_write_bandwidth(self) -> Num:
        """B/s that no write exceeds: of the medium or the link."""
        medium = self.bandwidth if self.write_bandwidth is None else self.write_bandwidth
        return _through(medium, self.link_bandwidth)

    @property
    def in_flight(self) -> Num:
        """Requests that the tier serves at once; infinite when nothing bounds them."""
        return np.inf if self.outstanding is None else self.outstanding

    @property
    def update_bandwidth(self) -> Num:
        """B/s when every byte is read and written back, both directions counted:

            2 / (1 / read + 1 / write)

        which is `bandwidth` where reads and writes run at the same rate.
        """
        if self.write_bandwidth is None:
            return self.bandwidth
        return 2.0 / (1.0 / self.bandwidth + 1.0 / self.write_bandwidth)

    # --- inside ----------------------------------------------------------------------------------------------

    def _moved(self, useful: Array, count: Array) -> Array:
        """Requests of size 0 move nothing; rounding of bytes / requests adds no granule."""
        size = np.divide(useful, count, out=np.zeros_like(useful), where=count > 0)
        granules = np.ceil(size / self.access_granularity * (1.0 - _ROUNDING))
        return np.asarray(np.maximum(count * granules * self.access_granularity, useful))

    def _time(self, useful: Array, count: Array, bandwidth: Num, write: bool) -> Array:
        asked = np.where(useful > 0, count, 0.0)
        fewer_than_one = np.minimum(asked, 1.0)
        rate = np.asarray(self.request_rate(np.maximum(asked, 1.0), write))
        by_rate = np.where(asked <= 1.0, fewer_than_one * self.access_latency(write), asked / rate)
        return np.asarray(np.maximum(self._moved(useful, count) / bandwidth, by_rate))

    def _depth(self, depth: Num) -> Array:
        """Requests in flight when `depth` are there; at least one."""
        wanted = np.asarray(depth, dtype=np.float64)
        if not np.all(wanted > 0):
            raise TierError("a queue of more than 0 requests is needed")
        return np.minimum(wanted, self.in_flight)


def _through(medium: Num, link: Num | None) -> Num:
    return medium if link is None else np.minimum(medium, link)


def _quantity(value: npt.ArrayLike, what: str) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TierError(f"{what} is not a number or an array of numbers") from None
    if not np.all(np.isfinite(array)):
        raise TierError(f"{what} is not a finite number")
    if np.any(array < 0):
        raise TierError(f"{what} is negative")
    return array


def _checked(bytes_: npt.ArrayLike, requests: npt.ArrayLike) -> tuple[Array, Array]:
    size, number = _quantity(bytes_, "an amount of data"), _quantity(requests, "a number of requests")
    try:
        useful, count = np.broadcast_arrays(size, number)
    except ValueError:
        raise TierError(f"bytes of shape {size.shape} and requests of shape {number.shape} do not match") from None
    if np.any((count == 0) & (useful > 0)):
        raise TierError("bytes without requests; at least one request moves them")
    return useful, count


def _plain(value: npt.ArrayLike) -> Num:
    """A float where there is one number, else the array."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
