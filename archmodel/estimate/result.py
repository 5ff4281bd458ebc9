"""The answer: what a design takes, and why. Frozen; parts add up to totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from archmodel.components.breakdown import Breakdown
from archmodel.errors import suggestion
from archmodel.estimate.memory import MemoryNeed
from archmodel.estimate.timeline import Step, Timeline, critical_path
from archmodel.program import Op, Program, RowMove
from archmodel.quantities import Array, Num, show
from archmodel.views import Drawn

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.estimate.use import CacheUse, TierUse


def _scalar(x: Array | float) -> Any:
    """Python float for a scalar evaluation, array over design points otherwise."""
    array = np.asarray(x)
    return float(array) if array.ndim == 0 else array


def _median(x: Array) -> Array:
    """Of the last axis. `np.median` imports numpy.ma, which takes longer than a whole estimate."""
    rising, half = np.sort(x, axis=-1), x.shape[-1] // 2
    middle: Array = rising[..., half] if x.shape[-1] % 2 else (rising[..., half - 1] + rising[..., half]) / 2
    return middle


@dataclass(frozen=True, repr=False)
class OpEstimate:
    """One op, priced: `breakdown` and `time` on every rank (..., ranks) or (..., 1), and when it runs."""

    op: Op
    breakdown: Breakdown
    timeline: Timeline
    index: int

    def __repr__(self) -> str:
        return f"<OpEstimate {self.name}: {show(self.time, 'seconds')}>"

    @property
    def start(self) -> Array:
        """Seconds at which it starts on every rank, in the last simulated iteration."""
        return self.timeline.start[self.index]

    @property
    def end(self) -> Array:
        """Seconds at which it ends on every rank."""
        return self.timeline.end[self.index]

    @property
    def name(self) -> str:
        """Name of the op."""
        return self.op.name

    @property
    def time(self) -> Array:
        """Seconds on every rank."""
        return self.timeline.times[self.index]

    @property
    def slowest(self) -> Any:
        """Seconds on the slowest rank."""
        return _scalar(self.time.max(-1))

    @property
    def median(self) -> Any:
        """Seconds on the median rank."""
        return _scalar(_median(self.time))

    @property
    def bound(self) -> str:
        """The part that takes most of the time on the slowest rank."""
        rank = int(np.reshape(self.time, (-1, self.time.shape[-1]))[0].argmax())
        parts = {k: _on_rank(v, rank) for k, v in self.breakdown.parts.items()}
        return max(parts, key=lambda k: parts[k], default="nothing")


def _on_rank(values: Num, rank: int) -> float:
    array = np.atleast_1d(np.asarray(values))
    row = array.reshape(-1, array.shape[-1])[0]
    return float(row[rank] if len(row) > 1 else row[0])


@dataclass(frozen=True)
class Phase:
    """All ops of one group of a phase: seconds on the slowest and the median rank, what bounds them, and, of
    exchanges and host copies, the seconds in which the busiest rank does not compute (None for design points)."""

    name: str
    phase: str
    stream: str
    ops: tuple[str, ...]
    slowest: float
    median: float
    bound: str
    exposed: float | None


@dataclass(frozen=True)
class Bound:
    """What limits the iteration: shares of the critical path by resource, and the rank that it ends on."""

    resource: str
    rank: int
    op: str
    shares: Mapping[str, float]
    compute_idle: float

    def __str__(self) -> str:
        share = self.shares.get(self.resource, 0.0)
        return f"{self.resource}: {share:.0%} of the critical path, longest in {self.op} on rank {self.rank}"


@dataclass(frozen=True)
class Energy:
    """Joules of one iteration over the whole system, by part, and the mean power in watts."""

    parts: Mapping[str, Num]
    iteration_time: Num
    samples: int

    @property
    def iteration(self) -> Num:
        """Joules of one iteration."""
        return sum(self.parts.values(), 0.0)

    @property
    def per_sample(self) -> Num:
        """Joules of one sample."""
        return self.iteration / self.samples

    @property
    def power(self) -> Num:
        """Mean watts."""
        return self.iteration / self.iteration_time


@dataclass(frozen=True)
class Cost:
    """Dollars of one iteration: capital over the lifetime, and electricity."""

    capital: Num
    electricity: Num
    samples: int

    @property
    def per_million_samples(self) -> Num:
        """Dollars for a million samples."""
        return (self.capital + self.electricity) / self.samples * 1e6


@dataclass(frozen=True, repr=False)
class Estimate(Drawn):
    """Everything predicted for a design. Scalars are floats, or arrays over design points when fields hold arrays."""

    design: Design
    program: Program
    timeline: Timeline
    ops: tuple[OpEstimate, ...]
    memory: Mapping[str, MemoryNeed]
    energy: Energy | None
    cost: Cost | None

    def __repr__(self) -> str:
        time, rate = show(self.iteration_time, "seconds"), show(self.throughput, "sample_rate")
        fits = np.asarray(self.fits)
        fit = "fits" if fits.all() else "does not fit" if not fits.any() else f"{fits.sum():,} of {fits.size:,} fit"
        return f"<Estimate of {self.design.name!r}: {time}, {rate}, {fit}>"

    @property
    def iteration_time(self) -> Any:
        """Seconds from one iteration's end to the next one's, in steady state."""
        return _scalar(self.timeline.period)

    @property
    def throughput(self) -> Any:
        """Samples per second over the whole system."""
        return _scalar(self.samples / self.timeline.period)

    @property
    def samples(self) -> int:
        """Samples of one iteration."""
        return self.design.workload.global_batch

    @property
    def latency(self) -> Any:
        """Seconds from the first op's start to the last one's end of one iteration."""
        return _scalar(self.timeline.latency)

    @property
    def fits(self) -> Any:
        """True when every tier's worst rank is within its capacity."""
        fits = [np.asarray(m.fits) for m in self.memory.values()]
        result = np.logical_and.reduce(np.broadcast_arrays(*fits)) if fits else np.True_
        return bool(result) if np.ndim(result) == 0 else result

    def op(self, name: str) -> OpEstimate:
        """The op called `name`; KeyError names the nearest."""
        for o in self.ops:
            if o.name == name:
                return o
        raise KeyError(f"no op {name!r}; {suggestion(name, [o.name for o in self.ops])}")

    def busy(self, stream: str) -> Array:
        """Seconds that a stream is occupied in one iteration, (..., ranks) or (..., 1)."""
        total: Array = np.zeros(1)
        for o in self.ops:
            if stream in o.op.streams:
                total = total + o.time
        return total

    @property
    def exposed_communication(self) -> Any:
        """Seconds of an iteration in which the busiest rank's compute stream waits for the network.

        The rank with most compute has the least slack, so what it still waits is not another rank's lateness.
        """
        idle = np.maximum(self.timeline.period[..., None] - self.busy("compute"), 0.0).min(-1)
        return _scalar(idle if self.program.ranks > 1 else np.zeros_like(idle))

    @cached_property
    def _compute_spans(self) -> list[tuple[float, float]]:
        """When the busiest rank computes, in the last two simulated iterations."""
        rank = int(np.broadcast_to(self.busy("compute"), self.program.ranks).argmax())
        spans = []
        for o in self.ops:
            if "compute" in o.op.streams:
                for ends in (self.timeline.previous_end, self.timeline.end):
                    end = _on_rank(ends[o.index], rank)
                    spans.append((end - _on_rank(o.time, rank), end))
        return spans

    def exposed(self, op: OpEstimate) -> float:
        """Seconds of an exchange or host copy in which the busiest rank does not compute (scalar evaluations).

        0 for compute, and for what is prefetched and not on the critical path.
        """
        writes = [self.program.buffers[b] for b in op.op.writes if b in self.program.buffers]
        ahead = bool(writes) and all(b.prefetched for b in writes)
        ahead |= isinstance(op.op.work, RowMove) and op.op.work.write_back  # on into the next iteration
        if "compute" in op.op.streams or (ahead and all(s.op != op.index for s in self.critical_path)):
            return 0.0
        low, high = float(op.start.min()), float(op.end.max())
        covered = sum(max(0.0, min(high, end) - max(low, start)) for start, end in self._compute_spans)
        idle = high - low - covered
        return idle if idle > 1e-9 * float(np.max(self.timeline.period)) else 0.0

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Ops grouped by phase and layer group, in program order."""
        groups: dict[tuple[str, str, str], list[OpEstimate]] = {}
        for o in self.ops:
            groups.setdefault((o.op.phase, group_of(o.op), "+".join(o.op.streams)), []).append(o)
        result = []
        for (phase, name, stream), members in groups.items():
            time = sum((m.time for m in members), np.zeros(1))
            longest = max(members, key=lambda m: float(np.max(m.slowest)))
            exposed = sum(self.exposed(m) for m in members) if self.timeline.period.ndim == 0 else None
            result.append(
                Phase(
                    name,
                    phase,
                    stream,
                    tuple(m.name for m in members),
                    _scalar(time.max(-1)),
                    _scalar(_median(time)),
                    longest.bound,
                    exposed,
                )
            )
        return tuple(result)

    @cached_property
    def critical_path(self) -> list[Step]:
        """Ops that set the iteration time, latest first (scalar evaluations)."""
        return critical_path(self.program, self.timeline)

    @cached_property
    def bound(self) -> Bound:
        """Which resource on which rank limits the iteration (scalar evaluations)."""
        shares: dict[str, float] = {}
        by_op: dict[tuple[str, str, int], float] = {}
        for step in self.critical_path:
            o = self.ops[step.op]
            whole = _on_rank(o.time, step.rank)
            for part, values in o.breakdown.parts.items():
                seconds = _on_rank(values, step.rank)
                share = step.seconds * seconds / whole if whole > 0 else 0.0
                resource = resource_of(o.op, part)
                shares[resource] = shares.get(resource, 0.0) + share
                key = (resource, o.name, step.rank)
                by_op[key] = by_op.get(key, 0.0) + share
        total = sum(shares.values()) or 1.0
        shares = {k: v / total for k, v in sorted(shares.items(), key=lambda kv: -kv[1])}
        resource = next(iter(shares), "nothing")
        worst = max((k for k in by_op if k[0] == resource), key=lambda k: by_op[k], default=(resource, "", 0))
        idle = 1.0 - float(np.max(self.busy("compute"))) / max(float(np.max(self.timeline.period)), 1e-30)
        return Bound(resource, worst[2], worst[1], shares, max(idle, 0.0))

    @cached_property
    def elasticities(self) -> dict[str, float]:
        """d ln(iteration time) / d ln(resource) for every rate and latency of the system: what 1 % more of it buys.

        By central difference of half a percent, all resources in one array pass; zeros are left out.
        """
        from archmodel.estimate.elasticity import elasticities

        return elasticities(self.design)

    @cached_property
    def tiers(self) -> Mapping[str, TierUse]:
        """Memories of a node that the design uses, with what an iteration asks of them, the fastest first."""
        from archmodel.estimate.use import tier_use

        return tier_use(self.program, self.design.system.node.host, self.timeline.period)

    @cached_property
    def caches(self) -> Mapping[str, CacheUse]:
        """Caches of rows by route of the tables that have them."""
        from archmodel.estimate.use import cache_use

        return cache_use(self.program)

    @property
    def stall(self) -> float:
        """Seconds of an iteration in which the busiest rank waits for rows from other tiers (scalar evaluations).

        Routes whose rows are late at once count once: it is no more than what the rank with most compute is idle.
        """
        idle = max(float(np.max(self.timeline.period)) - float(np.max(self.busy("compute"))), 0.0)
        return min(sum(self.exposed(o) for o in self.ops if isinstance(o.op.work, RowMove)), idle)

    @property
    def published(self) -> dict[str, dict[str, Any]]:
        """Published figures of the design beside the predicted ones: {quantity: {published, predicted, error, ...}}."""
        result: dict[str, dict[str, Any]] = {}
        for name, fact in self.design.published.items():
            predicted = getattr(self, name)
            result[name] = {
                "published": fact.value,
                "predicted": predicted,
                "error": predicted / fact.value - 1.0,
                "calibrated": fact.calibrated,
                "source": fact.source,
            }
        return result


def group_of(op: Op) -> str:
    """Name of the group that an op is reported in: `bottom`, `cross`, `table.lookup`, `dense.all_reduce`, ..."""
    head, _, tail = op.name.partition(".")
    if tail in ("forward", "backward", "input_gradient", "weight_gradient") or head.rsplit("_", 1)[-1].isdigit():
        return head.rsplit("_", 1)[0] if head.rsplit("_", 1)[-1].isdigit() else head
    return op.name.rsplit("_", 1)[0] if op.name.rsplit("_", 1)[-1].isdigit() else op.name


def resource_of(op: Op, part: str) -> str:
    """What a part of an op's time is spent on, in the words of a system: launch, tensor compute, HBM, NIC, ..."""
    return part
