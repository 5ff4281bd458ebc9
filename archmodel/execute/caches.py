"""Software-managed caches of rows that really move: tags, policies, staged batches, rows that are written home.

A batch goes through a cache in four steps, as the ops of a Program do. `probe`: its distinct rows, in the order of ids,
pass the tags, which decide what enters and what leaves. `fetch`: missing rows are read from the home into a buffer,
perhaps batches before they are used. `install`, when the batch's turn comes: leaving rows make room, entering ones take
it; rows of the batch that found no place stay in the buffer. `write_back`: changed rows that left go home.

A row fetched ahead may be changed by a batch before it, or leave the cache after it was fetched. Its buffer then gets
the new values from the write that takes them home, and what lies in a place is never replaced by what was fetched.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from archmodel.execute.optimizers import State
from archmodel.memory.cache_exact import set_of
from archmodel.program import IntArray
from archmodel.quantities import Array

Rows = dict[str, Array]
"""Values of some rows: `weights` and every moment of the optimizer, each (rows, width)."""


@dataclass
class Tags:
    """Which rows a cache holds: sets of `ways` rows, the most recent first, that a policy fills."""

    rows: int
    sets: int
    ways: int
    policy: str
    held: list[list[int]] = field(init=False)
    count: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.held = [[] for _ in range(self.sets)]
        self.count = np.zeros(self.rows, dtype=np.int64)
        self._set = set_of(np.arange(self.rows), self.sets)

    def access(self, row: int) -> bool:
        """Whether `row` was there; else it enters in place of the row that the policy picks, unless that is itself."""
        here = self.held[int(self._set[row])]
        self.count[row] += 1
        if row in here:
            if self.policy != "fifo":
                here.remove(row)
                here.insert(0, row)
            return True
        if len(here) == self.ways:
            leaves = here[-1]
            if self.policy == "lfu":
                leaves = min(reversed(here), key=lambda other: self.count[other])
                if self.count[row] < self.count[leaves]:
                    return False
            here.remove(leaves)
        here.insert(0, row)
        return False

    @property
    def inside(self) -> set[int]:
        """Rows that are there."""
        return {row for here in self.held for row in here}


@dataclass
class Staged:
    """A batch on its way through a cache: its `wanted` rows, those `missed`, how the tags changed, and the fetched
    values."""

    wanted: IntArray
    missed: IntArray
    leaving: IntArray
    entering: IntArray
    outside: IntArray
    again: IntArray
    """Missed rows that the cache held when the batch began: they left and came back within it."""
    units: int = 0
    """Rows, or pages of them, that were missed."""
    values: Rows = field(default_factory=dict)


class RowCache:
    """A cache of `places` rows in front of `home`, the arrays of a shard."""

    def __init__(
        self, home: Rows, places: int, policy: str, ways: int | None, tier: str, unit: int = 1, paged: bool = False
    ) -> None:
        """`unit`: rows that move together, and `places` of them; `paged`: on faults of the device."""
        rows = len(home["weights"])
        self.home, self.tier, self.unit, self.paged = home, tier, unit, paged
        width = places if ways is None else min(ways, places)
        self.places = places
        self.tags = Tags(-(-rows // unit), places // width, width, policy)
        self.lines: Rows = {name: np.zeros((places * unit, values.shape[1])) for name, values in home.items()}
        self.place = np.full(rows, -1, dtype=np.int64)
        self.free = list(range(places * unit))
        self.queue: deque[Staged] = deque()
        self.loose: dict[int, int] = {}
        self.buffer: Rows = {}
        self.going: list[tuple[IntArray, Rows]] = []
        self.refreshed = 0
        """Fetched rows that were changed before their batch came."""

    def probe(self, ids: IntArray) -> Staged:
        """Pass a batch's rows by the tags."""
        before, wanted = self.tags.inside, set((ids // self.unit).tolist())
        missed = {unit for unit in sorted(wanted) if not self.tags.access(unit)}
        after = self.tags.inside
        found = Staged(
            self._rows(wanted),
            self._rows(missed),
            self._rows(before - after),
            self._rows(after - before),
            self._rows(wanted - after),
            self._rows(before & missed),
            len(missed),
        )
        self.queue.append(found)
        return found

    def _rows(self, units: set[int]) -> IntArray:
        """All rows of some units, in order."""
        first = np.array(sorted(units), dtype=np.int64) * self.unit
        rows = (first[:, None] + np.arange(self.unit)).ravel()
        return rows[rows < len(self.place)]

    def fetch(self) -> Staged:
        """Read the missing rows of the batch that was probed last from the home."""
        staged = self.queue[-1]
        staged.values = {name: values[staged.missed] for name, values in self.home.items()}
        return staged

    def install(self) -> None:
        """Take the oldest batch in: rows leave, rows enter."""
        staged = self.queue.popleft()
        self.going = []  # empty after every write_back; without training nothing goes home
        old = np.concatenate([np.setdiff1d(staged.leaving, staged.wanted), staged.again])
        if len(old):
            self.going.append((old, {name: lines[self.place[old]].copy() for name, lines in self.lines.items()}))
        arriving = np.union1d(staged.entering, staged.outside)
        values = {name: self._current(name, arriving, staged) for name in self.home}
        self.free += self.place[staged.leaving].tolist()
        self.place[staged.leaving] = -1
        self.place[staged.entering] = [self.free.pop() for _ in staged.entering]
        enters = np.isin(arriving, staged.entering)
        for name, some in values.items():
            self.lines[name][self.place[arriving[enters]]] = some[enters]
        self.loose = {row: i for i, row in enumerate(arriving[~enters].tolist())}
        self.buffer = {name: some[~enters] for name, some in values.items()}

    def _current(self, name: str, rows: IntArray, staged: Staged) -> Array:
        """Values of rows that arrive: from their place if they have one, else as fetched."""
        place = self.place[rows]
        result = np.zeros((len(rows), self.home[name].shape[1]))
        result[place >= 0] = self.lines[name][place[place >= 0]]
        result[place < 0] = staged.values[name][np.searchsorted(staged.missed, rows[place < 0])]
        return result

    def read(self, name: str, rows: IntArray) -> Array:
        """Values of rows of the batch at work."""
        place, loose = self._where(rows)
        result = np.zeros((len(rows), self.home[name].shape[1]))
        result[~loose] = self.lines[name][place[~loose]]
        result[loose] = self.buffer[name][place[loose]]
        return result

    def write(self, name: str, rows: IntArray, values: Array) -> None:
        """Change rows of the batch at work."""
        place, loose = self._where(rows)
        self.lines[name][place[~loose]] = values[~loose]
        self.buffer[name][place[loose]] = values[loose]

    def _where(self, rows: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Place of every row, and whether it is one of the buffer."""
        place = self.place[rows]
        loose = place < 0
        place[loose] = [self.loose[row] for row in rows[loose].tolist()]
        return place, loose

    def write_back(self) -> int:
        """Write home what left the cache, and what found no place in it: how many rows, or pages."""
        if self.loose:
            self.going.append((np.array(list(self.loose), dtype=np.int64), self.buffer))
        count = 0
        for rows, values in self.going:
            count += len(np.unique(rows // self.unit))
            for name, some in values.items():
                self.home[name][rows] = some
            for staged in self.queue:
                mine = np.isin(rows, staged.missed)
                self.refreshed += int(mine.sum())
                for name, some in values.items():
                    staged.values[name][np.searchsorted(staged.missed, rows[mine])] = some[mine]
        self.going, self.loose, self.buffer = [], {}, {}
        return count

    def settle(self) -> None:
        """Write home everything that is inside, for a look from outside."""
        inside = np.flatnonzero(self.place >= 0)
        for name, lines in self.lines.items():
            self.home[name][inside] = lines[self.place[inside]]


def home_of(weights: Array, state: State) -> Rows:
    """The arrays of a shard by name."""
    return {"weights": weights, **state}
