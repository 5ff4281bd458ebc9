"""Whole tables on ranks under a cost that is a function of the set: greedy starts, moves and swaps, kicks.

An additive search may add costs up; here every candidate set is priced anew, all candidates of a step in one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from archmodel.quantities import Array
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.tables import TableFeatures
from archmodel.search.options import IntArray, NoPlan

Price = Callable[[Array], Array]
"""Seconds of sets from their sums of parts, (..., K) to (...)."""
Progress = Callable[[float, float, float], None]

_KICKS = 128
_KICK_WORK = 4e5
"""Kicks without a budget, times the tables, squared over ranks: at most this."""
_CLOSE = 5e-4
"""A value so near its bound is not worked on."""
_ATTEMPTS = 8
"""Kicks that do not fit, for each that does, before the search ends."""
_MOVED = 3
"""Tables that a kick moves at most, from the slowest rank and from another one each."""
_LESS = 1.0 - 1e-12


@dataclass(frozen=True)
class Placed:
    """`home` (T,): the rank of every table; `cost` (ranks,) in seconds; `value` is the largest, and no placement of
    whole tables is below `lower_bound` under this cost."""

    home: IntArray
    cost: Array
    value: float
    lower_bound: float
    interrupted: bool = False


class _State:
    """Tables on ranks: sums of parts (ranks, K), bytes held (ranks, tiers), cost (ranks,)."""

    def __init__(self, parts: Array, price: Price, memory: Array, limits: Array) -> None:
        self.parts, self.price, self.memory, self.limits = parts, price, memory, limits
        self.home = np.full(len(parts), -1, dtype=np.int64)
        self.sums = np.zeros((len(limits), parts.shape[1]))
        self.held = np.zeros_like(limits)
        self.cost = np.zeros(len(limits))

    def copy(self) -> _State:
        other = _State.__new__(_State)
        other.__dict__.update(self.__dict__)
        for name in ("home", "sums", "held", "cost"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def settle(self, *ranks: int) -> None:
        """Adds up anew what these ranks hold."""
        for rank in ranks:
            here = self.home == rank
            self.sums[rank], self.held[rank] = self.parts[here].sum(0), self.memory[here].sum(0)
        touched = list(ranks)
        self.cost[touched] = self.price(self.sums[touched])

    @property
    def value(self) -> float:
        return float(self.cost.max(initial=0.0))

    def greedy(self, order: IntArray) -> bool:
        """Tables in this order, each where its rank costs least with it and has room; False when one finds none."""
        for t in order.tolist():
            room = (self.held + self.memory[t] <= self.limits).all(1)
            if not room.any():
                return False
            after = np.where(room, self.price(self.sums + self.parts[t]), np.inf)
            rank = int(after.argmin())
            self.home[t] = rank
            self.settle(rank)
        return True

    def best_move(self, slowest: int) -> tuple[float, int, int]:
        """(larger of the two ranks' costs after it, table, rank) of the best move from a rank."""
        mine = np.flatnonzero(self.home == slowest)
        if not len(mine):
            return np.inf, -1, -1
        left = self.price(self.sums[slowest] - self.parts[mine])
        left = np.where(len(mine) > 1, left, 0.0)
        room = np.asarray((self.held + self.memory[mine][:, None] <= self.limits).all(2))
        room[:, slowest] = False
        got = np.where(room, self.price(self.sums + self.parts[mine][:, None]), np.inf)
        after = np.maximum(got, left[:, None])
        at = int(after.argmin())
        return float(after.flat[at]), int(mine[at // after.shape[1]]), at % after.shape[1]

    def best_swap(self, slowest: int) -> tuple[float, int, int]:
        """(larger of the two ranks' costs after it, table here, table there) of the best exchange of two tables."""
        mine, others = np.flatnonzero(self.home == slowest), np.flatnonzero(self.home != slowest)
        if not len(mine) or not len(others):
            return np.inf, -1, -1
        away = self.home[others]
        change = self.parts[others][None] - self.parts[mine][:, None]
        more = self.memory[others][None] - self.memory[mine][:, None]
        fits = (self.held[slowest] + more <= self.limits[slowest]).all(2)
        fits &= (self.held[away] - more <= self.limits[away]).all(2)
        after = np.maximum(self.price(self.sums[slowest] + change), self.price(self.sums[away] - change))
        after = np.where(fits, after, np.inf)
        at = int(after.argmin())
        return float(after.flat[at]), int(mine[at // len(others)]), int(others[at % len(others)])

    def improve(self, deadline: float) -> None:
        """Moves and swaps on the slowest rank until none helps; each makes that rank faster, no other as slow."""
        while time.perf_counter() < deadline:
            slowest, top = int(self.cost.argmax()), self.value
            moved, t, rank = self.best_move(slowest)
            swapped, here, there = self.best_swap(slowest)
            if min(moved, swapped) >= top * _LESS:
                return
            if moved <= swapped:
                self.home[t] = rank
            else:
                rank = int(self.home[there])
                self.home[here], self.home[there] = rank, slowest
            self.settle(slowest, rank)

    def kick(self, rng: np.random.Generator) -> bool:
        """Moves a few tables of the slowest rank and of another to random ranks, or exchanges a few tables with any
        others; False where that does not fit."""
        slowest = int(self.cost.argmax())
        if rng.random() < 0.5:
            pairs = rng.integers(len(self.home), size=(int(rng.integers(1, _MOVED + 1)), 2))
            pairs[0, 0] = rng.choice(np.flatnonzero(self.home == slowest))
            for a, b in pairs.tolist():
                self.home[a], self.home[b] = self.home[b], self.home[a]
            self.settle(*range(len(self.limits)))
            return bool((self.held <= self.limits).all())
        other = int(rng.integers(len(self.limits)))
        touched = {slowest, other}
        for rank in (slowest, other):
            mine = np.flatnonzero(self.home == rank)
            for t in rng.permutation(mine)[: int(rng.integers(1, _MOVED + 1))].tolist():
                self.home[t] = int(rng.integers(len(self.limits)))
                touched.add(int(self.home[t]))
        self.settle(*touched)
        return bool((self.held <= self.limits).all())


def place(
    model: SetCost,
    tables: TableFeatures,
    ranks: int,
    memory: Array,
    limits: Array,
    *,
    seed: int = 0,
    budget: float | None = None,
    starts: Sequence[IntArray] = (),
    kicks: int | None = None,
    progress: Progress | None = None,
) -> Placed:
    """The best placement found of whole tables on ranks under a learned cost.

    `memory` (T, tiers), `limits` (ranks, tiers), bytes. `starts`: placements (T,) to begin from as well. Without
    `budget` (seconds) the amount of search is fixed, by `kicks` if given, and the answer repeats. Raises NoPlan when
    tables find no room.
    """
    parts = model.parts(tables)
    bound = model.lower_bound(parts, ranks)
    home, cost, interrupted = search(
        parts, model.of, memory, limits, seed=seed, budget=budget, starts=starts, names=tables.names,
        bound=bound, most=kicks, progress=progress,
    )  # fmt: skip
    value = float(cost.max(initial=0.0))
    return Placed(home, cost, value, min(bound, value), interrupted)


def search(
    parts: Array,
    price: Price,
    memory: Array,
    limits: Array,
    *,
    names: Sequence[str],
    seed: int = 0,
    budget: float | None = None,
    starts: Sequence[IntArray] = (),
    bound: float = 0.0,
    most: int | None = None,
    progress: Progress | None = None,
) -> tuple[IntArray, Array, bool]:
    """`place` for any cost of sums of parts: homes (T,), costs (ranks,), whether it was interrupted."""
    begin = time.perf_counter()
    deadline = np.inf if budget is None else begin + budget
    best: _State | None = None
    interrupted = False

    def keep(state: _State) -> None:
        nonlocal best
        if best is None or state.value < best.value * _LESS:
            best = state
            if progress is not None:
                progress(time.perf_counter() - begin, state.value, bound)

    try:
        for state in _starts(parts, price, memory, limits, starts):
            keep(state.copy())
            if best is not None and best.value <= bound * (1.0 + _CLOSE):
                break
            state.improve(deadline)
            keep(state)
        if best is None:
            raise NoPlan(_blame(names, memory, limits))
        rng = np.random.default_rng(seed)
        work = max(len(parts) ** 2 / len(limits), 1.0)
        kicks = int(min(_KICKS, max(_KICK_WORK / work, 1.0))) if budget is None else 10**9
        kicks = kicks if most is None else min(kicks, most)
        done = 0
        for _ in range(_ATTEMPTS * kicks if len(limits) > 1 else 0):
            if done >= kicks or time.perf_counter() > deadline or best.value <= bound * (1.0 + _CLOSE):
                break
            state = best.copy()
            if state.kick(rng):
                done += 1
                state.improve(deadline)
                keep(state)
    except KeyboardInterrupt:
        interrupted = True
        if best is None:
            raise
    assert best is not None
    return best.home, best.cost, interrupted


def _starts(parts: Array, price: Price, memory: Array, limits: Array, given: Sequence[IntArray]) -> list[_State]:
    alone = price(parts)
    share = (memory / np.maximum(limits.max(0), 1.0)).max(1)
    orders = (alone, share, alone / max(float(alone.sum()), 1e-300) + share / max(float(share.sum()), 1e-300))
    found = []
    for key in orders:
        state = _State(parts, price, memory, limits)
        if state.greedy(np.argsort(-key, kind="stable")):
            found.append(state)
    for home in given:
        state = _State(parts, price, memory, limits)
        state.home = np.array(home, dtype=np.int64)
        state.settle(*range(len(limits)))
        if (state.held <= limits).all():
            found.append(state)
    return found


def _blame(names: Sequence[str], memory: Array, limits: Array) -> str:
    gib = 1024.0**3
    over = np.flatnonzero(~np.asarray((memory[:, None] <= limits).all(2)).any(1))
    if len(over):
        t = int(over[0])
        return f"table {names[t]} needs {memory[t].max() / gib:.2f} GiB; the roomiest rank has {limits.max() / gib:.2f}"
    return (
        f"{len(names)} whole tables of {memory.sum() / gib:.2f} GiB find no room on {len(limits)} ranks of "
        f"{limits[0].sum() / gib:.2f} GiB; cut large ones by columns or add ranks"
    )
