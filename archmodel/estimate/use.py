"""What an iteration asks of the memories of a node, and of the caches of rows in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archmodel.estimate.tiers import Requests, channel_seconds, lookups, seconds_of
from archmodel.program import (
    CacheProbe,
    EmbeddingLookup,
    EmbeddingScatterAdd,
    EmbeddingUpdate,
    HostCopy,
    Program,
    RowMove,
    Tier,
    Work,
)
from archmodel.quantities import Array, Num
from archmodel.system import Host


@dataclass(frozen=True)
class TierUse:
    """One memory of the busiest node in an iteration: bytes `read` and `written`, whole granules that its medium
    `read_moved` and `written_moved`, share of the time that it is `busy`, its channels with what others move over them
    included, and days until such writes wear it out."""

    tier: Tier
    read: float
    written: float
    read_moved: float
    written_moved: float
    busy: Num
    lifetime_days: Num


@dataclass(frozen=True)
class LevelUse:
    """The caches of one route that lie in one tier, over all ranks: rows they are `asked` for, those `fetched` from
    below, those `written` below, be it home or to another cache."""

    tier: Tier
    asked: float
    fetched: float
    written: float

    @property
    def hit_rate(self) -> float:
        """Share of the rows asked for that were there."""
        return 1.0 - self.fetched / self.asked if self.asked else 0.0


@dataclass(frozen=True)
class CacheUse:
    """The caches of one route in an iteration, over all ranks: `indices` looked up, their distinct `rows`, those
    `fetched` from the home, those `written` home; and of each tier that has some, the fastest first."""

    route: str
    indices: float
    rows: float
    fetched: float
    written: float
    levels: Mapping[Tier, LevelUse]

    @property
    def hit_rate(self) -> float:
        """Share of the indices that need no row from the home; a row that many want is fetched once."""
        return 1.0 - self.fetched / self.indices if self.indices else 0.0

    @property
    def row_hit_rate(self) -> float:
        """Share of the distinct rows that the caches held."""
        return 1.0 - self.fetched / self.rows if self.rows else 0.0


def asked(work: Work, host: Host | None) -> Requests:
    """What a work asks of memories beside HBM."""
    if isinstance(work, EmbeddingLookup):
        return lookups(work, host)
    if isinstance(work, RowMove):
        return {key: amount for key, amount in work.requests().items() if key[0] != "hbm"}
    found: dict[tuple[Tier, str], tuple[Array, Array]] = {}
    if isinstance(work, EmbeddingUpdate | EmbeddingScatterAdd):
        for t, rows in work.rows.items():
            state = work.state_bytes[t] if isinstance(work, EmbeddingUpdate) else 0.0
            found[t, "read"] = found[t, "write"] = ((work.row_bytes[t] + state) / 2, rows)
    elif isinstance(work, HostCopy):
        found["ddr", "read"] = (work.bytes, np.minimum(work.bytes, 1.0))
    return found


def tier_use(program: Program, host: Host | None, period: Array) -> dict[str, TierUse]:
    """Every memory of a node that the program uses, the fastest first."""
    if host is None:
        return {}
    return {name: found for name in host.tier_names if (found := _use(name, host, program, period)) is not None}


def _use(name: Tier, host: Host, program: Program, period: Array) -> TierUse | None:
    """On the node that is busiest. Times of ops add up; rows that are summed are read."""
    tier = host.tier(name)
    seconds: Num = 0.0
    totals = dict.fromkeys(("read", "write", "read_moved", "write_moved"), 0.0)
    touched = False
    for op in program.ops:
        for (t, way), amounts in asked(op.work, host).items():
            of_node = [_node(x, program) for x in amounts]
            if host.tier(t).channels_of == name:
                touched = True
                seconds = seconds + channel_seconds(tier, way, of_node)
            if t != name:
                continue
            touched = True
            seconds = seconds + np.asarray(seconds_of(tier, way, of_node))
            kind = "write" if way == "write" else "read"
            totals[kind] += of_node[0]
            totals[f"{kind}_moved"] += float(np.max(tier.moved_bytes(*of_node[:2])))
    if not touched:
        return None
    spent = np.asarray(seconds)
    spent = spent[..., 0] if spent.ndim else spent
    rate = totals["write_moved"] / period
    days = np.asarray(tier.lifetime_days(rate if np.ndim(rate) == 0 else rate[..., None]))
    return TierUse(
        name,
        totals["read"],
        totals["write"],
        totals["read_moved"],
        totals["write_moved"],
        _plain(np.minimum(spent / period, 1.0)),
        _plain(days[..., 0] if days.ndim else days),
    )


def _node(amount: Array, program: Program) -> float:
    """The sum over the devices of the busiest node."""
    layout = program.layout
    wide = np.broadcast_to(amount, (layout.ranks,)).reshape(layout.nodes, layout.local_size)
    return float(wide.sum(1).max())


def cache_use(program: Program) -> dict[str, CacheUse]:
    """Every route that has caches."""
    found: dict[str, CacheUse] = {}
    for op in program.ops:
        if not isinstance(op.work, CacheProbe):
            continue
        route = op.work.route
        works = [o.work for o in program.ops if isinstance(o.work, RowMove) and o.work.route == route]
        home = {w.write_back: _all(w.home, program) for w in works}
        into = {
            (w.write_back, tier): sum(
                (_all(u, program) for path, u in w.units.items() if path.endswith(f":{tier}")), 0.0
            )
            for w in works
            for tier in op.work.asked
        }
        levels = {
            tier: LevelUse(tier, _all(asked, program), into[False, tier], into.get((True, tier), 0.0))
            for tier, asked in op.work.asked.items()
        }
        indices, rows = _all(op.work.indices, program), _all(op.work.rows, program)
        found[route] = CacheUse(route, indices, rows, home[False], home.get(True, 0.0), levels)
    return found


def _all(amount: Array, program: Program) -> float:
    return float(np.broadcast_to(amount, (program.ranks,)).sum())


def _plain(value: Array) -> Num:
    return float(value) if np.ndim(value) == 0 else value
