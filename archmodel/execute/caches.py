"""Software-managed caches of rows that really move: tags, policies, staged batches, rows that are written home.

A batch goes through the caches of a shard, one above the other, in four steps, as the ops of a Program do. `probe`: its
distinct rows, in the order of ids, pass the tags of the top, those that it lacks the tags of the next cache, and so on.
Tags decide what enters and what leaves. `fetch`: missing rows are read from the home into a buffer of the last cache,
and up from buffer to buffer, or from a place on the way, perhaps batches before they are used. `install`, when the
batch's turn comes: leaving rows make room, entering ones take it; rows of the batch that found no place in the top stay
in its buffer. `write_back`: changed rows that left go to the next cache that has them, or home.

A row fetched ahead may be changed by a batch before it, or leave a cache after it was fetched. Its buffers then get the
new values from the write that takes them down, and what lies in a place is never replaced by what was fetched. The
newest copy is always the topmost: what leaves a cache while one above has it is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
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


@dataclass
class Level:
    """One cache of a shard: `places` units in sets of `ways`, in a tier."""

    places: int
    policy: str
    ways: int | None
    tier: str
    tags: Tags = field(init=False)
    lines: Rows = field(init=False)
    place: IntArray = field(init=False)
    """Line of every row; -1: not here."""
    queue: deque[Staged] = field(init=False)
    free: list[int] = field(init=False)
    going: list[tuple[IntArray, Rows]] = field(init=False)
    """Rows that left, and their values."""

    def empty(self, home: Rows, unit: int) -> Level:
        """This cache with nothing in it, for rows of `home`."""
        rows = len(home["weights"])
        width = self.places if self.ways is None else min(self.ways, self.places)
        self.tags = Tags(-(-rows // unit), self.places // width, width, self.policy)
        self.lines = {name: np.zeros((self.places * unit, values.shape[1])) for name, values in home.items()}
        self.place = np.full(rows, -1, dtype=np.int64)
        self.free = list(range(self.places * unit))
        self.queue, self.going = deque(), []
        return self

    def holds(self, rows: IntArray) -> npt.NDArray[np.bool_]:
        """Which of the rows have a place."""
        return self.place[rows] >= 0

    def values(self, rows: IntArray) -> Rows:
        """Of rows that have a place."""
        return {name: lines[self.place[rows]] for name, lines in self.lines.items()}

    def put(self, rows: IntArray, values: Rows) -> None:
        """Change rows that have a place."""
        for name, some in values.items():
            self.lines[name][self.place[rows]] = some


class RowCache:
    """Caches in front of `home`, the arrays of a shard, the top first."""

    def __init__(self, home: Rows, levels: Sequence[Level], unit: int = 1, paged: bool = False) -> None:
        """`unit`: rows that move together; `paged`: on faults of the device."""
        self.home, self.unit, self.paged = home, unit, paged
        self.levels = [level.empty(home, unit) for level in levels]
        self.top = self.levels[0]
        self.loose: dict[int, int] = {}
        self.buffer: Rows = {}
        self.refreshed = 0
        """Fetched rows that were changed before their batch came."""

    @property
    def tier(self) -> str:
        """Tier that is read."""
        return self.top.tier

    def probe(self, ids: IntArray) -> list[Staged]:
        """Pass a batch's rows by the tags of every level."""
        wanted, found = set((ids // self.unit).tolist()), []
        for level in self.levels:
            before = level.tags.inside
            missed = {unit for unit in sorted(wanted) if not level.tags.access(unit)}
            after = level.tags.inside
            staged = Staged(
                self._rows(wanted),
                self._rows(missed),
                self._rows(before - after),
                self._rows(after - before),
                self._rows(wanted - after),
                self._rows(before & missed),
                len(missed),
            )
            level.queue.append(staged)
            found.append(staged)
            wanted = missed
        return found

    def _rows(self, units: set[int]) -> IntArray:
        """All rows of some units, in order."""
        first = np.array(sorted(units), dtype=np.int64) * self.unit
        rows = (first[:, None] + np.arange(self.unit)).ravel()
        return rows[rows < len(self.top.place)]

    def fetch(self) -> list[int]:
        """Read the missing rows of the batch that was probed last, into every level from the one below: how many rows,
        or pages, from the top down."""
        staged = [level.queue[-1] for level in self.levels]
        staged[-1].values = {name: values[staged[-1].missed] for name, values in self.home.items()}
        for above, level in zip(staged[-2::-1], self.levels[:0:-1], strict=True):
            above.values = self._from(level, level.queue, above.missed)
        return [s.units for s in staged]

    def _from(self, level: Level, batches: Iterable[Staged], rows: IntArray) -> Rows:
        """Values of rows that pass a level: from their place if they have one, else as some batches, the last first,
        fetched them."""
        here = level.holds(rows)
        values = {name: np.zeros((len(rows), home.shape[1])) for name, home in self.home.items()}
        for name, some in level.values(rows[here]).items():
            values[name][here] = some
        for staged in batches:
            mine = ~here & np.isin(rows, staged.missed)
            for name, some in staged.values.items():
                values[name][mine] = some[np.searchsorted(staged.missed, rows[mine])]
        return values

    def install(self) -> None:
        """Take the oldest batch in: rows leave, rows enter."""
        batch = self.top.queue[0].wanted
        newer = np.zeros(len(self.top.place), dtype=bool)
        for level in self.levels:
            staged = level.queue.popleft()
            old = np.concatenate([np.setdiff1d(staged.leaving, batch), staged.again])
            old, newer = old[~newer[old]], newer | (level.place >= 0)
            level.going = [(old, level.values(old))]  # empty after every write_back; without training nothing goes
            arriving = np.union1d(staged.entering, staged.outside) if level is self.top else staged.entering
            values = self._from(level, [staged], arriving)
            level.free += level.place[staged.leaving].tolist()
            level.place[staged.leaving] = -1
            level.place[staged.entering] = [level.free.pop() for _ in staged.entering]
            enters = np.isin(arriving, staged.entering)
            level.put(arriving[enters], {name: some[enters] for name, some in values.items()})
            if level is self.top:
                self.loose = {row: i for i, row in enumerate(arriving[~enters].tolist())}
                self.buffer = {name: some[~enters] for name, some in values.items()}

    def read(self, name: str, rows: IntArray) -> Array:
        """Values of rows of the batch at work."""
        place, loose = self._where(rows)
        result = np.zeros((len(rows), self.home[name].shape[1]))
        result[~loose] = self.top.lines[name][place[~loose]]
        result[loose] = self.buffer[name][place[loose]]
        return result

    def write(self, name: str, rows: IntArray, values: Array) -> None:
        """Change rows of the batch at work."""
        place, loose = self._where(rows)
        self.top.lines[name][place[~loose]] = values[~loose]
        self.buffer[name][place[loose]] = values[loose]

    def _where(self, rows: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Place of every row, and whether it is one of the buffer."""
        place = self.top.place[rows]
        loose = place < 0
        place[loose] = [self.loose[row] for row in rows[loose].tolist()]
        return place, loose

    def write_back(self) -> dict[tuple[int, int], int]:
        """Write what left the caches, and what found no place in the top, to the next level that has it, or home: how
        many rows, or pages, by level that they leave and level that takes them, the home the last."""
        if self.loose:
            self.top.going.append((np.array(list(self.loose), dtype=np.int64), self.buffer))
        moved: dict[tuple[int, int], int] = {}
        for above, level in reversed([*enumerate(self.levels)]):  # a row that came back within the batch is newer above
            for rows, values in level.going:
                left = np.ones(len(rows), dtype=bool)
                for number, below in enumerate(self.levels[above + 1 :], above + 1):
                    here = left & below.holds(rows)
                    below.put(rows[here], {name: some[here] for name, some in values.items()})
                    moved[above, number] = moved.get((above, number), 0) + int(here.sum())
                    left &= ~here
                path = above, len(self.levels)
                moved[path] = moved.get(path, 0) + len(np.unique(rows[left] // self.unit))
                for name, some in values.items():
                    self.home[name][rows[left]] = some[left]
                self._refresh(rows, values)
            level.going = []
        self.loose, self.buffer = {}, {}
        return moved

    def _refresh(self, rows: IntArray, values: Rows) -> None:
        """Rows that go down are the newest, also for batches that fetched them ahead."""
        for level in self.levels:
            for staged in level.queue:
                mine = np.isin(rows, staged.missed)
                self.refreshed += int(mine.sum())
                for name, some in values.items():
                    staged.values[name][np.searchsorted(staged.missed, rows[mine])] = some[mine]

    def settle(self) -> None:
        """Write home everything that is inside, the newest last, for a look from outside."""
        for level in reversed(self.levels):
            inside = np.flatnonzero(level.place >= 0)
            for name, some in level.values(inside).items():
                self.home[name][inside] = some


def home_of(weights: Array, state: State) -> Rows:
    """The arrays of a shard by name."""
    return {"weights": weights, **state}
