"""The solver: greedy starts from the relaxed problem, local search on the busiest rank, kicks; anytime.

It knows nothing of what costs mean: see `options.Options`.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, default_rng

from archmodel.quantities import Array
from archmodel.search.bound import Bound, blame, lower_bound, prices, relaxed
from archmodel.search.options import NODE, RANK, WORLD, Assignment, IntArray, Options, Solution

_TRIALS = 48
"""Re-cuts tried in one step."""
_STARTS, _TIGHT_STARTS = 2, 4
"""Starts without a banned scope that are lowered, and those where memory binds; of every other family, one."""
_WIDE = 128
"""Cuts all narrower than this are left out of one family of starts."""
_WIDE_GAP, _WIDE_SIZE, _WIDE_KICKS, _MANY = 0.01, 20_000, 30, 5
"""Gap from which the search looks further than near the relaxed problem's choices, tables times ranks up to which it
does, and kicks that it adds where memory binds or where so many tables for every rank should balance."""
_KICK_WORK = 4e6
"""Kicks without a budget, times tables, times ranks: at most this."""
_LARGE = 0.2
"""Share of a rank's memory from which shards are placed before all others, where memory binds."""
_FALLBACKS = 8
"""Options that find room, of a table whose own option does not, among which the best is taken."""
_REFUSED, _CHAIN, _RELIEFS = 12, 6, 16
"""Options refused for want of room that displace others, tables that one displaces at most, and ways tried for each."""
_SHORT = 6
"""Options per table that a kick chooses from."""
Progress = Callable[[float, float, float], None]
"""Called with seconds so far, value and lower bound when a better plan is found."""


class State:
    """A plan in the making: loads and bytes of every rank, shards in flat arrays."""

    def __init__(self, options: Options) -> None:
        self.o = options
        self.load = options.start.copy()
        self.held = np.zeros_like(options.limits)
        self.slot = np.full(len(options.names), -1, dtype=np.int64)
        self.homes: list[tuple[int, ...]] = [()] * len(options.names)
        self.width = options.local

    def put(self, t: int, slot: int, homes: tuple[int, ...], sign: float = 1.0) -> None:
        """Add a table's shards (or take them away with sign -1)."""
        cost, memory = sign * self.o.cost[t, slot], sign * self.o.memory[t, slot]
        scope = self.o.scope[slot]
        if scope == WORLD:
            self.load += cost
            self.held += memory
        elif scope == RANK:
            for h in homes:
                self.load[h] += cost
                self.held[h] += memory
        else:
            for h in homes:
                self.load[h * self.width : (h + 1) * self.width] += cost
                self.held[h * self.width : (h + 1) * self.width] += memory
        if sign > 0:
            self.slot[t], self.homes[t] = slot, homes

    def take(self, t: int) -> tuple[int, tuple[int, ...]]:
        """Remove a table; what it was."""
        old = int(self.slot[t]), self.homes[t]
        self.put(t, *old, sign=-1.0)
        self.slot[t] = -1
        return old

    def copy(self) -> State:
        """An independent copy."""
        other = State.__new__(State)
        other.o, other.width = self.o, self.width
        other.load, other.held = self.load.copy(), self.held.copy()
        other.slot, other.homes = self.slot.copy(), list(self.homes)
        return other

    @property
    def value(self) -> float:
        """Largest load."""
        return float(self.load.max())

    def node_loads(self) -> Array:
        """Largest load of every whole node."""
        n = self.o.nodes
        return np.asarray(self.load[: n * self.width].reshape(n, self.width).max(1))

    def room(self, memory: Array) -> npt.NDArray[np.bool_]:
        """Ranks that can hold `memory` (tiers,) more."""
        room = self.held[:, 0] <= self.o.limits[:, 0] - memory[0]
        for k in range(1, len(memory)):
            if memory[k] > 0:
                room &= self.held[:, k] <= self.o.limits[:, k] - memory[k]
        return np.asarray(room)

    def where(self, t: int, slot: int, *, blind: bool = False) -> tuple[float, tuple[int, ...]] | None:
        """Best homes of a table now: the largest touched load after it, and the homes; None when it does not fit.
        `blind`: as if every rank had room."""
        cost, memory, scope = self.o.cost[t, slot], self.o.memory[t, slot], self.o.scope[slot]
        count = int(self.o.count[t, slot])
        room = np.ones(self.o.ranks, dtype=bool) if blind else self.room(memory)
        if scope == WORLD:
            return (float(self.load.max() + cost), ()) if room.all() else None
        if scope == NODE:
            n = self.o.nodes
            whole = room[: n * self.width].reshape(n, self.width).all(1)
            loads = np.where(whole, self.node_loads(), np.inf)
        else:
            loads = np.where(room, self.load, np.inf)
        if count == 1:
            h = int(loads.argmin())
            return (float(loads[h] + cost), (h,)) if np.isfinite(loads[h]) else None
        if count > len(loads):
            return None if scope == NODE else self._stacked(t, slot, count)
        order = np.argsort(loads, kind="stable")[:count]
        top = loads[order[-1]]
        if np.isfinite(top):
            return float(top + cost), tuple(order.tolist())
        return None

    def _stacked(self, t: int, slot: int, count: int) -> tuple[float, tuple[int, ...]] | None:
        """Homes when a table has more shards than there are ranks: the emptiest rank takes the next one."""
        cost, memory = self.o.cost[t, slot], self.o.memory[t, slot]
        load, held = self.load.copy(), self.held.copy()
        homes: list[int] = []
        for _ in range(count):
            room = (held + memory <= self.o.limits).all(1)
            if not room.any():
                return None
            h = int(np.where(room, load, np.inf).argmin())
            load[h] += cost
            held[h] += memory
            homes.append(h)
        return float(load[homes].max()), tuple(homes)

    def frozen(self) -> Assignment:
        """As a value."""
        return Assignment(self.slot.copy(), tuple(self.homes))


def construct(options: Options, slot: IntArray, *, by_memory: bool = False, goal: float = 0.0) -> State | None:
    """Longest processing time first: shards on every rank, then on nodes, then on ranks. A table that finds no room
    takes another option that does, the cheapest of those that stay below `goal` if any do. None when one finds none."""
    state = State(options)
    index = np.arange(len(slot))
    scope, cost, memory = options.scope[slot], options.cost[index, slot], options.memory[index, slot]
    size = cost / max(float(cost.max(initial=0.0)), 1e-300)
    if by_memory:
        share = (memory / np.maximum(options.limits.min(0), 1.0)).max(1)
        size = np.where(share > _LARGE, 1.0 + share, size)
    world = np.flatnonzero(scope == WORLD)
    total = memory[world].sum(0)
    if (total <= options.limits.min(0)).all():
        state.load += cost[world].sum()
        state.held += total
        state.slot[world] = slot[world]
        left: list[int] = []
    else:
        left = world.tolist()
    node, rank = np.flatnonzero(scope == NODE), np.flatnonzero(scope == RANK)
    order = left + node[np.argsort(-size[node], kind="stable")].tolist()
    if not all(_place(state, t, int(slot[t]), goal) for t in order):
        return None
    refused = _ranks(state, rank[np.argsort(-size[rank], kind="stable")], slot)
    return state if all(_place(state, t, int(slot[t]), goal) for t in refused) else None


def _place(state: State, t: int, slot: int, goal: float) -> bool:
    """The option asked for, or else, of the cheapest ones that find room, the one that leaves the lowest top."""
    found = state.where(t, slot)
    if found is None:
        best, tried, floor = (np.inf, np.inf), 0, max(state.value, goal)
        for other in np.argsort(state.o.work[t], kind="stable").tolist():
            if not np.isfinite(state.o.cost[t, other]) or tried == _FALLBACKS:
                break
            if (there := state.where(t, other)) is not None:
                tried += 1
                rank = max(there[0], floor), float(state.o.work[t, other])
                if rank < best:
                    best, found, slot = rank, there, other
                if rank[0] == floor:
                    break
        if found is None:
            return False
    state.put(t, slot, found[1])
    return True


def _ranks(state: State, order: IntArray, slot: IntArray) -> list[int]:
    """Single-rank shards, each on the rank of least load that has room; tables that find none are given back."""
    o = state.o
    heap = [(v, r) for r, v in enumerate(state.load.tolist())]
    heapq.heapify(heap)
    held, limits = state.held.tolist(), o.limits.tolist()
    todo = order.tolist()
    for i, t in enumerate(todo):
        s = int(slot[t])
        cost, memory, count = float(o.cost[t, s]), o.memory[t, s].tolist(), int(o.count[t, s])
        taken: list[tuple[float, int]] = []
        while heap and len(taken) < count:
            v, r = taken_now = heapq.heappop(heap)
            if not all(h + m <= limit for h, m, limit in zip(held[r], memory, limits[r], strict=True)):
                heapq.heappush(heap, taken_now)
                break
            taken.append((v, r))
        if len(taken) < count:  # a heap is of no use where the emptiest ranks are full
            for item in taken:
                heapq.heappush(heap, item)
            _settle(state, heap, held)
            return [u for u in todo[i:] if not _as_asked(state, u, int(slot[u]))]
        for v, r in taken:
            held[r] = [h + m for h, m in zip(held[r], memory, strict=True)]
            heapq.heappush(heap, (v + cost, r))
        state.slot[t], state.homes[t] = s, tuple(r for _, r in taken)
    _settle(state, heap, held)
    return []


def _settle(state: State, heap: list[tuple[float, int]], held: list[list[float]]) -> None:
    for v, r in heap:
        state.load[r] = v
    state.held = np.array(held).reshape(state.o.limits.shape)


def _as_asked(state: State, t: int, slot: int) -> bool:
    found = state.where(t, slot)
    if found is not None:
        state.put(t, slot, found[1])
    return found is not None


class Shards:
    """Flat arrays over all shards of one scope in a state, for vectorised swaps."""

    def __init__(self, state: State, scope: int) -> None:
        o = state.o
        tables = np.flatnonzero(o.scope[state.slot] == scope)
        slots = state.slot[tables]
        count = o.count[tables, slots]
        self.table = np.repeat(tables, count)
        chosen = np.repeat(slots, count)
        homes: list[int] = []
        for t in tables.tolist():
            homes.extend(state.homes[t])
        self.home = np.array(homes, dtype=np.int64)
        self.cost = o.cost[self.table, chosen]
        self.memory = o.memory[self.table, chosen]
        self.piece = np.arange(len(self.table)) - np.repeat(np.cumsum(count) - count, count)


def improve(state: State, deadline: float, steps: int = 100_000, floor: float = 0.0) -> None:
    """Lower the busiest rank until no move, swap or re-cut does: each step takes the one that leaves the least."""
    tight = bool((state.held > 0.9 * state.o.limits).any())
    shards: dict[int, Shards] = {}
    for _ in range(steps):
        top = state.value
        if top <= floor or time.perf_counter() > deadline:
            return
        busiest = int(state.load.argmax())
        if not shards:
            scopes = [RANK] + ([NODE] if state.o.nodes > 1 else [])
            shards = {scope: Shards(state, scope) for scope in scopes}
        if any(_exchange(state, shards[scope], scope, busiest, top, tight) for scope in shards):
            continue
        if not _recut(state, shards, busiest, top):
            return
        shards = {}


def _exchange(state: State, shards: Shards, scope: int, busiest: int, top: float, tight: bool) -> bool:
    """The best move of a shard off the busiest rank (or node), or swap with a smaller one; False when none helps."""
    width = 1 if scope == RANK else state.width
    here = busiest // width
    mine = np.flatnonzero(shards.home == here)
    if not len(mine):
        return False
    load = state.load if scope == RANK else state.node_loads()
    if here >= len(load):
        return False
    cost = shards.cost[mine]
    best, choice = top * (1 - 1e-12), (-1, -1, -1)
    targets = np.argsort(load, kind="stable")[: 8 if tight else 2]
    after = np.maximum(top - cost[:, None], load[targets] + cost[:, None])
    after = np.where(targets == here, np.inf, after)
    i, j = divmod(int(after.argmin()), len(targets))
    for _ in range(4 if tight else 1):
        if after[i, j] >= best:
            break
        if _legal(state, shards, int(mine[i]), -1, here, int(targets[j]), width):
            best, choice = float(after[i, j]), (int(mine[i]), -1, int(targets[j]))
            break
        after[i, j] = np.inf
        i, j = divmod(int(after.argmin()), len(targets))
    difference = cost[:, None] - shards.cost[None, :]
    swapped = np.maximum(top - difference, load[shards.home] + difference)
    swapped[:, shards.home == here] = np.inf
    for _ in range(12 if tight else 3):
        flat = int(swapped.argmin())
        i, j = divmod(flat, len(shards.cost))
        if swapped[i, j] >= best:
            break
        if _legal(state, shards, int(mine[i]), j, here, int(shards.home[j]), width):
            best, choice = float(swapped[i, j]), (int(mine[i]), j, int(shards.home[j]))
            break
        swapped[i, j] = np.inf
    mover, other, there = choice
    if mover < 0:
        return False
    _shift(state, shards, mover, here, there, width)
    if other >= 0:
        _shift(state, shards, other, there, here, width)
    return True


def _legal(state: State, shards: Shards, mover: int, other: int, here: int, there: int, width: int) -> bool:
    """Whether both sides hold what they get, and no table gets two shards on one home."""
    if there in state.homes[shards.table[mover]]:
        return False
    if other >= 0 and here in state.homes[shards.table[other]]:
        return False
    gain = shards.memory[mover] - (shards.memory[other] if other >= 0 else 0.0)
    limits, held = state.o.limits, state.held
    a, b = slice(here * width, (here + 1) * width), slice(there * width, (there + 1) * width)
    return bool((held[a] - gain <= limits[a]).all() and (held[b] + gain <= limits[b]).all())


def _shift(state: State, shards: Shards, s: int, here: int, there: int, width: int) -> None:
    a, b = slice(here * width, (here + 1) * width), slice(there * width, (there + 1) * width)
    state.load[a] -= shards.cost[s]
    state.load[b] += shards.cost[s]
    state.held[a] -= shards.memory[s]
    state.held[b] += shards.memory[s]
    shards.home[s] = there
    t = int(shards.table[s])
    homes = list(state.homes[t])
    homes[int(shards.piece[s])] = there
    state.homes[t] = tuple(homes)


def _recut(state: State, shards: dict[int, Shards], busiest: int, top: float) -> bool:
    """Another option for a table on the busiest rank, where that lowers the top: of those, the least total work. Where
    there is no room for any, others make room for one."""
    o = state.o
    limit = top * (1 - 1e-12)
    tables = _tables_on(state, shards, busiest)
    if not len(tables):
        return False
    slot = state.slot[tables]
    cost, scope = o.cost[tables, slot], o.scope[slot]
    low = float(state.load.min())
    emptiest = np.where(scope == WORLD, low - cost, np.minimum(low, top - cost))[:, None]
    second = float(np.partition(state.load, -2)[-2]) if o.ranks > 1 else -np.inf
    highest = np.where(scope == RANK, np.maximum(second, top - cost), top - cost)[:, None]
    after = o.cost[tables] + np.where(o.scope == WORLD, highest, emptiest)  # at least what it will be
    after[np.arange(len(tables)), slot] = np.inf
    rise = np.where(after < limit, o.work[tables] - o.work[tables, slot][:, None], np.inf)
    order = np.argsort(rise, axis=None, kind="stable")[: min(_TRIALS, int((after < limit).sum()))]
    refused: list[tuple[int, int]] = []
    for flat in order.tolist():
        i, other = divmod(flat, rise.shape[1])
        t = int(tables[i])
        old = state.take(t)
        found = state.where(t, other) if state.value < limit else None
        if found is not None and found[0] < limit:
            state.put(t, other, found[1])
            return True
        state.put(t, *old)
        if found is None:
            refused.append((t, other))
    return any(_displace(state, shards, t, other, limit) for t, other in refused[:_REFUSED])


def _displace(state: State, shards: dict[int, Shards], t: int, slot: int, limit: float) -> bool:
    """A table takes an option for which there is no room, and others that are in its way move or take options that
    hold less there, each the least additional work; True when all keep below `limit`."""
    trial = state.copy()
    trial.take(t)
    found = trial.where(t, slot, blind=True)
    if found is None or found[0] >= limit:
        return False
    trial.put(t, slot, found[1])
    moved = [t]
    for _ in range(_CHAIN):
        over = trial.held - state.o.limits
        if not (over > 0).any():
            state.load, state.held, state.slot, state.homes = trial.load, trial.held, trial.slot, trial.homes
            return True
        rank, tier = divmod(int((over / np.maximum(state.o.limits, 1.0)).argmax()), over.shape[1])
        here = np.setdiff1d(_tables_on(state, shards, rank), moved)
        freed = _relieve(trial, here, rank, tier, float(over[rank, tier]), limit)
        if freed < 0:
            return False
        moved.append(freed)
    return False


def _tables_on(state: State, shards: dict[int, Shards], rank: int) -> IntArray:
    """Tables of which a rank holds a shard or a block."""
    here = [shards[RANK].table[shards[RANK].home == rank], np.flatnonzero(state.o.scope[state.slot] == WORLD)]
    if NODE in shards:
        here.append(shards[NODE].table[shards[NODE].home == rank // state.width])
    return np.unique(np.concatenate(here))


def _relieve(state: State, here: IntArray, rank: int, tier: int, excess: float, limit: float) -> int:
    """Frees bytes of a rank's tier, `excess` or what can be, by moving or re-cutting one of the tables `here`: which
    one, -1 when none will do."""
    o = state.o
    slot = state.slot[here]
    held = o.memory[here, slot, tier][:, None]
    stays = (o.scope == WORLD) | ((o.scope == NODE) & (o.nodes == 1))
    freed = held - np.where(stays, o.memory[here][:, :, tier], 0.0)
    possible = (freed >= excess) & (o.cost[here] < limit)
    if not possible.any():  # a part of it, then
        possible = (freed > 0.2 * excess) & (o.cost[here] < limit)
    rise = np.where(possible, o.work[here] - o.work[here, slot][:, None], np.inf)
    for flat in np.argsort(rise, axis=None, kind="stable")[: min(_RELIEFS, int(possible.sum()))].tolist():
        i, other = divmod(flat, rise.shape[1])
        t = int(here[i])
        old = state.take(t)
        found = state.where(t, other)
        if found is not None and found[0] < limit:
            state.put(t, other, found[1])
            return t
        state.put(t, *old)
    return -1


@dataclass
class Effort:
    """How long to try: rounds of kicks without a time limit are deterministic; `budget` in seconds adds one."""

    budget: float | None = None
    rounds: int | None = None
    seed: int = 0
    tolerance: float = 5e-4
    progress: Progress | None = field(default=None, repr=False)


def starts(options: Options, bound: Bound) -> list[tuple[IntArray, bool, int]]:
    """(options (T,), whether to pack by memory, family): the relaxed problem's choices, with less cost and fewer bytes
    per shard step by step; family 0 may use every scope, the others leave one out."""
    index = np.arange(len(options.names))
    floor = float(options.cost.min(1).max(initial=0.0))
    base = max(bound.value - float(options.start.min()), floor) * (1 + 1e-6)  # the bound may lie just below a cost
    limits = np.maximum(options.limits.min(0), 1.0)
    share_of_rank = (options.memory / limits).max(2)
    smallest = np.where(np.isfinite(options.cost), share_of_rank, np.inf).min(1)
    used = options.bytes[index, bound.slot].sum(0) / np.maximum(options.limits.sum(0), 1.0)
    tight = bool(bound.multipliers.any())
    crowded = bool((used > 0.6).any())
    few = len(options.names) < 5 * options.ranks
    bans: list[npt.NDArray[np.bool_]] = [np.zeros(len(options.scope), dtype=bool)]
    if few:  # whole shards matter more than their total: leave out one scope, or another
        bans += [ban for scope in (NODE, RANK) if _possible(options, ban := options.scope == scope)]
    narrow = np.where(options.count > 1, options.columns, 1 << 30).max(0) < _WIDE
    if _possible(options, narrow):
        bans.append(narrow)
    result: list[tuple[IntArray, bool, int]] = []
    seen: set[bytes] = set()
    for family, ban in enumerate(bans):
        for price in (1.0, 1.02, 1.1, 1.3, 2.0) if tight else (1.0,):
            for fill in (1.0, 0.25, 0.1, 0.04) if crowded else (1.0,):
                for share in (1.0, 0.5) if crowded else (1.0, 0.7, 0.5, 0.35):
                    allowed = np.where(ban, np.inf, options.cost)
                    limit = np.maximum(share * base, allowed.min(1))[:, None]
                    small = share_of_rank <= np.maximum(fill, smallest)[:, None]
                    limit = np.where(small & ~ban, limit, -1.0)
                    slot, price_of = relaxed(options, base, bound.multipliers * price, limit)
                    if not np.isfinite(price_of).all():
                        continue
                    for choice in (slot, filled(options, slot, limit)) if tight and share == 1.0 else (slot,):
                        if choice.tobytes() not in seen:
                            seen.add(choice.tobytes())
                            result += [(choice, by, family) for by in ((False, True) if crowded else (False,))]
    return result


def filled(options: Options, slot: IntArray, limit: Array) -> IntArray:
    """Options (T,) with the memory that they leave put to use, most work saved for a share of it first: prices alone
    treat equal tables alike. `limit`: most cost of an option, (T, O) or so."""
    index, total = np.arange(len(slot)), np.maximum(options.limits.sum(0), 1.0)
    left = total - options.bytes[index, slot].sum(0)
    saved = options.work[index, slot][:, None] - options.work
    more = options.bytes - options.bytes[index, slot][:, None]
    useful = (saved > 0) & (options.cost <= limit) & (more <= left).all(2)
    worth = np.where(useful, saved / np.maximum((more / total).max(2), 1e-9), 0.0)
    found, done = slot.copy(), np.zeros(len(slot), dtype=bool)
    first = np.flatnonzero(useful)
    if len(first) > (most := 4 * len(slot)):
        first = np.sort(first[np.argpartition(-worth.ravel()[first], most)[:most]])
    for flat in first[np.argsort(-worth.ravel()[first], kind="stable")].tolist():
        t, other = divmod(flat, worth.shape[1])
        if not done[t] and (more[t, other] <= left).all():
            found[t], done[t] = other, True
            left = left - more[t, other]
    return found


def wide_starts(options: Options, value: float) -> list[IntArray]:
    """Options (T,) for where memory binds and the bound is far: the relaxed problem's choices when shards may cost
    what the best plan's rank does, or anything, with bytes priced anew for each, spread by ever smaller shards."""
    limits = np.maximum(options.limits.min(0), 1.0)
    share_of_rank = (options.memory / limits).max(2)
    smallest = np.where(np.isfinite(options.cost), share_of_rank, np.inf).min(1)
    found: dict[bytes, IntArray] = {}
    for most in (value, float(np.max(options.cost, where=np.isfinite(options.cost), initial=value))):
        multipliers = prices(options, most)
        if not multipliers.any() and not (options.memory > 0.5 * limits).any():
            continue
        for price in (1.0, 1.5):
            for fill in (1.0, 0.25, 0.1):
                small = share_of_rank <= np.maximum(fill, smallest)[:, None]
                limit = np.where(small, np.maximum(most, options.cost.min(1))[:, None], -1.0)
                slot, price_of = relaxed(options, most, multipliers * price, limit)
                if np.isfinite(price_of).all():
                    found.setdefault(slot.tobytes(), slot)
    return list(found.values())


def _possible(options: Options, ban: npt.NDArray[np.bool_]) -> bool:
    """Whether a ban on slots concerns anything, and leaves every table an option."""
    return bool(ban.any() and np.isfinite(np.where(ban, np.inf, options.cost)).any(1).all())


def solve(options: Options, effort: Effort | None = None, extra: list[Assignment] | None = None) -> Solution:
    """The best plan found within the effort, and its bound. `extra`: plans to start from as well. Raises NoPlan."""
    effort = effort or Effort()
    begin, cpu = time.perf_counter(), time.process_time()
    deadline = begin + (effort.budget if effort.budget is not None else np.inf)
    best: State | None = None
    interrupted = False
    whole, options = options, options.that_fit()
    if not np.isfinite(options.cost).any(1).all():
        raise blame(whole)
    bound = lower_bound(options)
    goal = bound.value * (1 + effort.tolerance)

    def keep(state: State) -> None:
        nonlocal best
        if best is None or state.value < best.value * (1 - 1e-12):
            best = state.copy()
            if effort.progress is not None:
                effort.progress(time.perf_counter() - begin, best.value, bound.value)

    try:
        begun: list[tuple[float, int, int, State]] = []
        built, index = np.inf, np.arange(len(options.names))
        for slot, by_memory, family in starts(options, bound):
            if options.work[index, slot].sum() > built * options.ranks:  # its mean is above what stands already
                continue
            state = construct(options, slot, by_memory=by_memory, goal=goal)
            if state is not None:
                begun.append((state.value, len(begun), family, state))
                built = min(built, state.value)
        begun += [(s.value, len(begun) + i, -1, s) for i, s in enumerate(_resumed(options, p) for p in extra or [])]
        if not begun:
            begun = [(s.value, 0, 0, s) for s in _last_resort(options)]
        begun.sort(key=lambda b: (b[1] > 0, *b[:2]))  # the relaxed problem's own choice first
        tried: dict[int, int] = {}
        most = _TIGHT_STARTS if bound.multipliers.any() and effort.rounds is None else _STARTS
        for _, _, family, state in begun:
            tried[family] = tried.get(family, 0) + 1
            if tried[family] > (1 if family > 0 else most):
                continue
            keep(state)
            improve(state, deadline, floor=goal)
            keep(state)
            if state.value <= goal:
                break
        assert best is not None
        rounds = _rounds(options) if effort.rounds is None else effort.rounds
        _kicks(options, best.copy(), keep, rounds, effort.seed, deadline, goal)
        if effort.rounds is None:
            far = best.value > bound.value * (1 + _WIDE_GAP)
            small = len(options.names) * options.ranks <= _WIDE_SIZE
            wide = wide_starts(options, best.value) if far and small else []
            for slot in wide:
                state = construct(options, slot, goal=goal)
                if state is not None and time.perf_counter() < deadline:
                    improve(state, deadline, floor=goal)
                    keep(state)
            many = best.value > bound.value * (1 + _WIDE_GAP)
            many &= len(options.names) >= _MANY * options.ranks
            more = 10**9 if effort.budget is not None else _WIDE_KICKS if wide or many else 0
            _kicks(options, best.copy(), keep, more, effort.seed + 1, deadline, goal)
    except KeyboardInterrupt:
        interrupted = True
        if best is None:
            raise
    final = best.frozen()
    return Solution(
        whole,
        final,
        final.value(options),
        min(bound.value, final.value(options)),
        time.process_time() - cpu,
        final.fits(options),
        interrupted,
        {f"price_of_{tier}": float(m) for tier, m in zip(options.tiers, bound.multipliers, strict=False)},
    )


def _resumed(options: Options, plan: Assignment) -> State:
    state = State(options)
    for t, (slot, homes) in enumerate(zip(plan.slot.tolist(), plan.homes, strict=True)):
        state.put(t, slot, homes)
    return state


def _last_resort(options: Options) -> list[State]:
    """Smallest memory first, then lowered; NoPlan when even that does not fit."""
    share = (options.bytes / np.maximum(options.limits.sum(0), 1.0)).max(2)
    slot = np.where(np.isfinite(options.cost), share, np.inf).argmin(1)
    state = construct(options, slot, by_memory=True)
    if state is None:
        raise blame(options)
    return [state]


def _rounds(options: Options) -> int:
    """Kicks that the size of a problem is worth."""
    tables = len(options.names)
    return min(max(6, tables // 6), 100, max(4, int(_KICK_WORK / (tables * options.ranks))))


def _kicks(
    options: Options,
    state: State,
    keep: Callable[[State], None],
    rounds: int,
    seed: int,
    deadline: float,
    goal: float,
) -> None:
    """Iterated local search: re-place a few tables of busy and idle ranks, lower again, keep what is no worse."""
    tables, random = len(options.names), default_rng(seed)
    short = np.argsort(options.work, axis=1, kind="stable")[:, :_SHORT].tolist()
    for _ in range(rounds if tables > 1 else 0):
        if state.value <= goal or time.perf_counter() > deadline:
            return
        trial = state.copy()
        for t in _picked(trial, random):
            trial.take(t)
            fits = [
                (found[0] + options.work[t, s] / options.ranks, s, found[1])
                for s in short[t]
                if np.isfinite(options.cost[t, s]) and (found := trial.where(t, s)) is not None
            ]
            if not fits:
                break
            fits.sort()
            _, slot, homes = fits[min(int(random.geometric(0.6)) - 1, len(fits) - 1)]
            trial.put(t, slot, homes)
        else:
            improve(trial, deadline, floor=goal)
            if trial.value <= state.value * (1 + 1e-12):
                state = trial
                keep(state)


def _picked(state: State, random: Generator) -> list[int]:
    """A few tables, two of them on the busiest rank."""
    o, tables = state.o, len(state.homes)
    busiest = int(state.load.argmax())
    node = busiest // state.width
    scope = o.scope[state.slot].tolist()
    near = [
        t
        for t, homes in enumerate(state.homes)
        if scope[t] == WORLD or (busiest if scope[t] == RANK else node) in homes
    ]
    picked = random.choice(tables, min(tables, 3), replace=False).tolist()
    if near:
        picked += random.choice(near, min(len(near), 2), replace=False).tolist()
    return sorted(set(picked), key=lambda t: -float(o.work[t].min()))
