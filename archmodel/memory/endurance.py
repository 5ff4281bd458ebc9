"""How long a medium lasts under writes."""

from __future__ import annotations

from typing import Final

import numpy as np
from pydantic import Field, model_validator

from archmodel.components.base import Component
from archmodel.quantities import Array, Num, PositiveBytes, PositiveRatio, PositiveSeconds

DAY: Final = 86400.0


class Endurance(Component):
    """What may be written before a medium is worn out: as bytes, or as drive writes per day over a warranty.

    A rating counts bytes that the host writes under the workload it was measured with (JEDEC JESD218, JESD219: random
    writes of 4 KiB and more for drives of servers), the drive's own copies included.
    """

    written: PositiveBytes | None = Field(default=None, description="bytes that the host may write (TBW, PBW)")
    drive_writes_per_day: PositiveRatio | None = Field(default=None, description="capacities a day (DWPD)")
    warranty: PositiveSeconds | None = Field(default=None, description="over which drive_writes_per_day hold")
    write_amplification: PositiveRatio = Field(
        default=1.0,
        description="bytes that the medium writes for one of the host, relative to the workload of the rating",
    )

    @model_validator(mode="after")
    def _one_rating(self) -> Endurance:
        per_day = self.drive_writes_per_day is not None and self.warranty is not None
        half = (self.drive_writes_per_day is None) != (self.warranty is None)
        if half or per_day == (self.written is not None):
            raise ValueError("needs either written, or drive_writes_per_day and warranty")
        return self

    def allowance(self, capacity: Num) -> Num:
        """Bytes that the host may write: as stated, or drive writes per day x capacity x days of warranty."""
        if self.written is not None:
            return self.written
        assert self.drive_writes_per_day is not None
        assert self.warranty is not None
        return self.drive_writes_per_day * capacity * (self.warranty / DAY)

    def lifetime(self, write_bandwidth: Num, capacity: Num) -> Array:
        """Seconds until the allowance is used up: allowance / (write bandwidth x write amplification)."""
        with np.errstate(divide="ignore"):
            worn = np.asarray(write_bandwidth, dtype=np.float64) * self.write_amplification
            return np.asarray(np.divide(self.allowance(capacity), worn))
