"""Options of a design's tables under our own laws: what a shard adds to lookup, exchange and update of its ranks.

Terms come from the laws that price a Program (`estimate.price`), without what a kernel or a collective costs however
little it does. Exchanges are priced by the slope of their law. What the terms leave out (overlap, caches shared by
tables) is why a plan is judged by the whole estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

import numpy as np

from archmodel.components.breakdown import Breakdown
from archmodel.design import Design, capacities
from archmodel.estimate.estimate import estimate
from archmodel.estimate.links import links_of_all_to_all
from archmodel.estimate.machine import Machine
from archmodel.estimate.memory import LIVE_ROLES
from archmodel.estimate.price import price
from archmodel.estimate.result import Estimate
from archmodel.parallel import algorithms
from archmodel.parallel.counts import Expected
from archmodel.parallel.placement import ROUTES, SCOPES, Blocks, Placement, Scope, split_evenly
from archmodel.parallel.plan import CachePlan
from archmodel.parallel.resolve import SCOPE_OF
from archmodel.parallel.sparse import ShardSizes
from archmodel.program import (
    AllToAll,
    Collective,
    Elementwise,
    EmbeddingLookup,
    EmbeddingUpdate,
    IntArray,
    OuterTraffic,
    RowMove,
    Stream,
    Tier,
    Work,
)
from archmodel.quantities import Array, itemsize
from archmodel.search.floor import Floor
from archmodel.search.options import NODE, RANK, WORLD, Options, kernel
from archmodel.search.terms import Chord, Chords, Floors, Terms, no_chords

MIN_COLUMNS = 16
"""Columns are cut no narrower (one 64-byte line of fp32)."""
_FIXED = ("launch", "latency")
_PROBE = 4096.0
"""Columns, or indices, between the two sizes at which the slope of an exchange is taken."""
_KIND_SCOPE = {"rank": RANK, "node": NODE, "world": WORLD, "replica": WORLD}


@dataclass(frozen=True)
class _Shard:
    """One shard of every table: seconds and floors (T,), bytes (T, tiers) and least bytes of rows and state (T,)."""

    local: Array
    exchange: Array
    moves: Array
    floors: Floors
    memory: Array
    least: Array


@dataclass(frozen=True)
class _Slot:
    kind: str
    pieces: int
    tier: Tier
    cached: float = 0.0

    @property
    def read_tier(self) -> Tier:
        """Where lookups and updates find the rows."""
        return "hbm" if self.cached else self.tier


CACHED = (0.05, 0.2)
"""Shares of a table that a cache in HBM may hold, where not all tables fit there."""


def slots(design: Design, hbm: float) -> list[_Slot]:
    """Every way that a table can be cut on this machine, in every tier it has; cached in HBM when not all fit in the
    `hbm` bytes of every rank."""
    layout, tables, room = design.layout, design.workload.table_arrays, capacities(design.system)
    whole = float((tables.num_embeddings * tables.embedding_dim * design.placement.element).sum())
    memories: list[tuple[Tier, float]] = [(tier, 0.0) for tier in room]
    if whole > hbm * layout.ranks:
        memories += [(tier, share) for tier in room if tier != "hbm" for share in CACHED]
    cuts = [("table_wise", 1)]
    if layout.ranks > 1:
        widest = int(design.workload.table_arrays.embedding_dim.max(initial=1))
        most = max(widest // MIN_COLUMNS, 1)
        cuts += [("column_wise", p) for p in (2, 4, 8, 16) if p <= min(most, layout.ranks)]
        cuts += [("row_wise", 1), ("data_parallel", 1)]
        if layout.nodes > 1:
            cuts += [("table_row_wise", 1)]
            cuts += [("grid_wise", p) for p in (2, 4, 8) if p <= min(most, layout.nodes)]
    return [_Slot(k, p, t, c) for k, p in cuts for t, c in memories if k != "data_parallel" or t == "hbm"]


class Laws:
    """Terms of a design's tables."""

    def __init__(self, design: Design, reference: Estimate) -> None:
        system, plan = design.system, design.plan
        self.design, self.plan, self.layout = design, plan, design.layout
        self.tables = design.workload.table_arrays
        self.train = design.workload.mode == "train"
        self.local_batch = split_evenly(design.workload.global_batch, self.layout.ranks)
        self.batch = float(self.local_batch.sum())
        self.counts = Expected(self.tables, self.local_batch)
        self.machine = Machine(
            system.gpu, system.topology(), system.node.host, system.node.gpus, reference.program.graph_capture
        )
        self.hbm = table_bytes(design, reference)
        self.slots = slots(design, self.hbm)
        inputs = [b for b in reference.program.buffers.values() if b.role == "input" and b.prefetched]
        self.input_copies = max((b.copies for b in inputs), default=1)
        self._misses: dict[tuple[Scope, float], Array] = {}

    def _marginal(self, work: Work, machine: Machine | None = None) -> Array:
        parts = price(work, machine or self.machine).parts
        return np.asarray(Breakdown({k: v for k, v in parts.items() if k not in _FIXED}).total)

    def _slope(self, small: Work, large: Work) -> float:
        a, b = (float(np.max(price(w, self.machine).total)) for w in (small, large))
        return max(b - a, 0.0) / _PROBE

    def exchange_rates(self) -> dict[str, tuple[float, float]]:
        """Seconds per column and per byte of input that a rank brings, by scope; forward and backward."""
        ones = np.ones(self.layout.ranks)
        if self.layout.ranks == 1:
            return dict.fromkeys(SCOPES, (0.0, 0.0))
        wires = self.plan.wires
        both = 1.0 + (itemsize(wires.lookup_backward) / itemsize(wires.lookup_forward) if self.train else 0.0)
        input_ = 1e-4 * self._slope(self._index(1e8 * ones), self._index((1e8 + 1e4 * _PROBE) * ones))
        rates = {
            scope: (both * sum(map(self._slope, self.forward(scope, _PROBE), self.forward(scope, 2 * _PROBE))), input_)
            for scope in ("rank", "node", "world")
        }
        return {**rates, "replica": (0.0, 0.0)}

    def forward(self, scope: str, width: float) -> list[Work]:
        """What brings pooled vectors to the ranks of their samples, when every home of a scope has `width` columns."""
        layout, dtype = self.layout, self.plan.wires.lookup_forward
        even, batch = width * itemsize(dtype) * np.ones(layout.ranks), self.local_batch.astype(np.float64)
        if scope == "rank":
            return [AllToAll("world", OuterTraffic(even, batch), dtype, layout)]
        if scope == "world":
            algorithm = algorithms.reduce_scatter(layout)
            return [Collective("reduce_scatter", "world", algorithm, batch * width, dtype, layout)]
        works: list[Work] = []
        if layout.local_size > 1:
            rail = np.broadcast_to(self.batch / layout.local_size, layout.ranks)
            works.append(Collective("reduce_scatter", "node", "ring", rail * width, dtype, layout))
        if layout.nodes > 1:
            works.append(AllToAll("rail", OuterTraffic(even, batch), dtype, layout))
        return works

    @cached_property
    def chords(self) -> Chords:
        """Below every exchange of a design. None for an endpoint, which drives exchanges in its own way."""
        layout, wires, ranks = self.layout, self.plan.wires, self.layout.ranks
        if ranks == 1 or self.design.system.node.endpoint is not None:
            return no_chords()
        columns = max(float(self.tables.embedding_dim.sum()), 1.0)
        back = itemsize(wires.lookup_backward) / itemsize(wires.lookup_forward) if self.train else 0.0
        chords = no_chords()
        indices = float((self.batch * self.tables.pooling_factor).sum()) * itemsize(wires.index) / ranks
        given = _chord(partial(self._scaled, self._index(np.ones(ranks))), max(indices, 1.0), 1.0)
        for scope, homes in (("rank", ranks), ("node", layout.nodes), ("world", 1)):
            ends = columns / homes, 1.0 / homes
            works = self.forward(scope, 1.0)
            there = _chord(partial(self._sent, works, 1.0), *ends)
            again = there if back == 1.0 else _chord(partial(self._sent, works, back), *ends)
            chords.input[scope], chords.forward[scope], chords.backward[scope] = given, there, again
            if len(works) > 1:
                there = _chord(partial(self._sent, works[-1:], 1.0), *ends)
                again = there if back == 1.0 else _chord(partial(self._sent, works[-1:], back), *ends)
            chords.shared[scope] = there[0] + again[0], there[1] + again[1]
        if self.train:
            held = float((self.tables.num_embeddings * self.tables.embedding_dim).sum())
            most = max(held, 1.0) * itemsize(wires.dense_gradient)
            chords.backward["replica"] = chords.shared["replica"] = _chord(self._reduced, most, 1.0)
        return chords

    def _scaled(self, work: Work, sizes: Array) -> Array:
        """Least seconds on any rank, (S,), of an exchange of so many times the bytes."""
        if isinstance(work, AllToAll):
            found = links_of_all_to_all(work, self.machine, sizes[:, None])
        else:
            assert isinstance(work, Collective)
            found = price(replace(work, blocks=work.blocks * sizes[:, None]), self.machine)
        return np.asarray(np.asarray(found.total).min(-1))

    def _sent(self, works: list[Work], times: float, columns: Array) -> Array:
        """Least seconds, (S,), of exchanges of one column in turn that carry `times` x `columns`."""
        if times == 0.0:
            return np.zeros(len(columns))
        return np.asarray(sum(self._scaled(work, times * columns) for work in works))

    def _reduced(self, bytes_: Array) -> Array:
        """Least seconds, (S,), of an all-reduce by any of the algorithms that such sizes may be given: each law rises
        with the bytes, and so does the least of them, which the choice between them may not."""
        ends = {self.all_reduce(b).algorithm: self.all_reduce(b) for b in np.geomspace(bytes_[0], bytes_[-1], 65)}
        one = [replace(work, blocks=work.blocks / work.blocks.sum(-1) / itemsize(work.dtype)) for work in ends.values()]
        return np.asarray(np.min([self._scaled(work, bytes_) for work in one], axis=0))

    def _index(self, amounts: Array) -> Work:
        batch = self.local_batch.astype(np.float64)
        return AllToAll("world", OuterTraffic(batch / self.batch, amounts), self.plan.wires.index, self.layout)

    def all_reduce(self, bytes_: float) -> Collective:
        """Of a dense gradient."""
        layout, dtype = self.layout, self.plan.wires.dense_gradient
        blocks = np.full(layout.ranks, bytes_ / itemsize(dtype) / layout.ranks)
        return Collective("all_reduce", "world", algorithms.all_reduce(layout, bytes_), blocks, dtype, layout)

    def shard(self, slot: _Slot) -> Placement:
        """One representative shard of every table."""
        tables, base = self.tables, self.design.placement
        index = np.arange(len(tables))
        scope = SCOPES.index(SCOPE_OF[slot.kind]) if self.layout.ranks > 1 else 0
        width = -(-tables.embedding_dim // slot.pieces)
        return Placement(
            tables,
            self.layout,
            index,
            np.zeros_like(width),
            width,
            np.full(len(tables), scope),
            np.zeros_like(width),
            (slot.tier,) * len(tables),
            base.dtype,
            base.optimizer,
            (slot.kind,) * len(tables),
            ((CachePlan.model_validate({"in": "hbm", "size": slot.cached}),),) * len(tables) if slot.cached else (),
            tiers=base.tiers,
        )

    def of(self, slot: _Slot, rates: dict[str, tuple[float, float]], chords: Chords) -> _Shard:
        """One shard of every table."""
        placement = self.shard(slot)
        shards = np.arange(len(self.tables))
        scope = SCOPES[int(placement.scope[0])] if len(shards) else "rank"
        size = ShardSizes.of(placement, shards)
        wires = self.plan.wires
        share, full = np.ones(len(shards)), np.ones(len(shards))
        if scope == "replica":
            rows = self.tables.num_embeddings.astype(np.float64)
            indices = self.counts.local_indices(placement, shards)[-1]  # the rank with fewest samples
            unique = self.counts.local_unique(placement, shards)[-1]
            samples = float(self.local_batch[-1])
        else:
            blocks = placement.blocks_of(shards, scope)
            rows = blocks.rows[:, 0].astype(np.float64)
            indices = self.counts.indices(placement, blocks)[:, 0]
            unique = self.counts.unique(placement, blocks)[:, 0]
            samples = self.batch
            members = blocks.rows.shape[1]  # the first block is the largest; floors take the mean, of full ones
            share = np.where(rows > 0, self.tables.num_embeddings / np.maximum(rows * members, 1.0), 0.0)
            full = np.floor(share * members * (1 + 1e-12)) / members
        columns, row, state = size.columns[:, 0], size.row_bytes[:, 0], size.state_row_bytes[:, 0]
        present = (rows > 0).astype(np.float64)
        none = np.zeros(len(shards))

        def tiered(amount: Array) -> dict[Tier, Array]:
            return {"hbm": amount} if slot.read_tier == "hbm" else {"hbm": none, slot.tier: amount}

        def requests(amount: Array) -> dict[Tier, Array]:
            return {} if slot.read_tier == "hbm" else {slot.tier: amount}

        lookup = EmbeddingLookup(
            ROUTES[scope],
            indices,
            samples * present,
            tiered(indices * row),
            tiered(unique * row),
            samples * columns * present,
            indices * columns,
            wires.index,
            wires.length,
            wires.lookup_forward,
            requests(indices),
            requests(samples * present),
            requests(samples * columns * present * itemsize(wires.lookup_forward)),
        )
        works: list[Work] = []
        sent = lookup.indices * itemsize(wires.index) + lookup.bags * itemsize(wires.length)
        forward, backward, shared = (
            columns * present * chord[scope][1] for chord in (chords.forward, chords.backward, chords.shared)
        )
        given = sent * chords.input[scope][1]
        exchange = columns * present * rates[scope][0] + sent * rates[scope][1]
        if self.train and scope == "replica":
            gradient = rows * columns * itemsize(wires.dense_gradient)
            works = self._replica(rows * columns, rows, size)
            backward = shared = gradient * chords.backward[scope][1]
            exchange = exchange + gradient * self.reduce_rate
        elif self.train:
            works = [
                EmbeddingUpdate(
                    ROUTES[scope],
                    indices,
                    samples * present,
                    indices * columns * itemsize(wires.lookup_backward),
                    samples * columns * present * itemsize(wires.lookup_backward),
                    tiered(2 * unique * row),
                    tiered(2 * unique * state),
                    indices * columns + unique * size.step_operations[:, 0],
                    wires.index,
                    wires.length,
                    requests(unique),
                )
            ]
        whole = columns * size.element[:, 0] + (size.state_bytes[:, 0] if self.train else 0.0)
        held = {tier: rows * whole if tier == slot.tier else none for tier in placement.tiers}
        held["hbm"] = (
            held["hbm"] + self.input_copies * sent + 2 * lookup.output_elements * itemsize(wires.lookup_forward)
        )
        if self.train and scope == "replica":
            held["hbm"] = held["hbm"] + rows * columns * itemsize(wires.dense_gradient)
        moves = none
        if slot.cached:
            fetched = self._fetched(slot.cached, placement, scope, blocks)
            path = f"{slot.tier}:hbm"
            move = RowMove(ROUTES[scope], {path: fetched}, {path: fetched * whole}, fetched)
            moves = self._marginal(move) + (self._marginal(replace(move, write_back=True)) if self.train else 0.0)
            held["hbm"] = held["hbm"] + (slot.cached * rows + 2 * fetched) * whole  # and one batch fetched ahead
        return _Shard(
            self._marginal(lookup) + sum((self._marginal(w) for w in works), none),
            exchange,
            moves,
            Floors(
                full * self._marginal(lookup, self.free_cache),
                full * sum((self._marginal(w, self.free_cache) for w in works), none),
                full * given,
                forward,
                backward,
                shared + full * given,
            ),
            np.stack(list(held.values()), 1),
            share * rows * whole,
        )

    def _fetched(self, share: float, placement: Placement, scope: Scope, blocks: Blocks) -> Array:
        """Rows that a batch misses in a cache of a `share` of the first block of every table, (T,)."""
        if (scope, share) not in self._misses:  # the same for every cut by columns, and every home
            first = Blocks(blocks.shards, blocks.ranks[:, :1], blocks.start[:, :1], blocks.end[:, :1])
            self._misses[scope, share] = self.counts.moved(placement, scope, first, self.train).fetched[0, :, 0]
        return self._misses[scope, share]

    def _replica(self, elements: Array, rows: Array, size: ShardSizes) -> list[Work]:
        """Gradient and step of replicated tables."""
        dtype = self.plan.wires.dense_gradient
        gradient = elements * itemsize(dtype)
        held = elements * size.element[:, 0] + rows * size.state_bytes[:, 0]
        none = np.zeros(len(elements))
        return [
            Elementwise("dense_embedding_gradient", none, gradient, none, dtype),
            Elementwise("dense_embedding_update", gradient + held, held, none, "fp32"),
        ]

    @cached_property
    def reduce_rate(self) -> float:
        """Seconds per byte of a replica's gradient."""
        if self.layout.ranks == 1:
            return 0.0
        return self._slope(self.all_reduce(1e8), self.all_reduce(1e8 + _PROBE))

    @cached_property
    def free_cache(self) -> Machine:
        """The machine with a cache whose own rate never limits."""
        device = self.machine.device
        if "l2_bandwidth" in type(device).model_fields:
            device = device.model_copy(update={"l2_bandwidth": None})
        return replace(self.machine, device=device)

    def terms(self, *, bounded: bool = True) -> tuple[Terms, Array, Array, IntArray]:
        """Terms (T, O), bytes and least bytes (T, O, tiers), shards per table (T, O), 0 where there is no option. Not
        `bounded`: what exchanges cost at least is left out."""
        rates, chords = self.exchange_rates(), self.chords if bounded else no_chords()
        found = [self.of(slot, rates, chords) for slot in self.slots]
        dim = self.tables.embedding_dim
        count = np.stack(
            [
                np.where(dim // s.pieces >= min(MIN_COLUMNS, dim.max(initial=1)), s.pieces, 0)
                if s.pieces > 1
                else np.ones_like(dim)
                for s in self.slots
            ],
            axis=1,
        )
        least = np.stack(
            [
                np.stack([f.least * (s.tier == tier) for tier in capacities(self.design.system)], 1)
                for f, s in zip(found, self.slots, strict=True)
            ],
            1,
        )
        floors = Floors(*(np.stack([getattr(f.floors, x.name) for f in found], axis=1) for x in fields(Floors)))
        local, exchange, moves = (
            np.stack([getattr(f, x) for f in found], axis=1) for x in ("local", "exchange", "moves")
        )
        return Terms(local, exchange, moves, floors), np.stack([f.memory for f in found], axis=1), least, count


_SIZES, _LINES = 1024, 33
"""Sizes at which a law is looked at, evenly by ratio, half as many evenly; and lines that are compared."""


def _chord(seconds: Callable[[Array], Array], most: float, least: float) -> Chord:
    """(a, b), a and b at least 0, with a + b x below `seconds(x)` from `least` to `most`: of the lines below it, the
    one that is highest at the end.

    Laws of exchanges rise with their bytes: every term of a protocol's price does, and the protocols that a library
    still considers become fewer (`collectives.pricing`). So from one size that is looked at to the next a law is at
    least what it is at the first, and a line that keeps below that step at its end keeps below the law between. Should
    a law fall from one size to a later one after all, the steps are lowered to what it falls to.
    """
    sizes = np.unique([*np.geomspace(least, most, _SIZES), *np.linspace(least, most, _SIZES // 2)])
    times = seconds(sizes)
    steps = np.minimum.accumulate(times[::-1])[::-1]
    ends = np.append(sizes[1:], sizes[-1])
    starts = np.linspace(0.0, float(steps[0]), _LINES)
    slopes = np.maximum(((steps - starts[:, None]) / ends).min(1), 0.0)
    best = int((starts + slopes * most).argmax())
    return float(starts[best]), float(slopes[best])


def base_seconds(answer: Estimate, within: slice = slice(None)) -> Array:
    """Compute time of every rank that no placement of tables changes, (ranks,): products and layers of the ops
    `within` the Program's order."""
    routes = (*ROUTES.values(), "embeddings", "input", "bottom.cast")
    total = np.zeros(answer.program.ranks)
    for op in answer.ops[within]:
        if "compute" in op.op.streams and not op.name.startswith(tuple(f"{r}." for r in routes)):
            total = total + op.time
    return total


def between_exchanges(answer: Estimate) -> Array:
    """Seconds, (ranks,), from the arrival of the last pooled vector to the departure of the first gradient of one: the
    compute between them, or compute up to the gradient of some dense all-reduce and the all-reduces from there on,
    which leave first. And the dense steps that end an iteration."""
    names = [op.name for op in answer.ops]
    first = names.index("embeddings.combine") if "embeddings.combine" in names else 0
    last = names.index("embeddings.split") if "embeddings.split" in names else len(names)
    between = base_seconds(answer, slice(first, last))
    queued = np.zeros(1)
    for j in reversed(range(first, last)):
        if isinstance(answer.ops[j].op.work, Collective):
            reads = answer.ops[j].op.reads
            ready = max((i for i in range(first, j) if set(answer.ops[i].op.writes).intersection(reads)), default=first)
            queued = queued + np.min(answer.ops[j].time)
            between = np.maximum(between, base_seconds(answer, slice(first, ready + 1)) + queued)
    updated = max((i for i, op in enumerate(answer.ops) if isinstance(op.op.work, EmbeddingUpdate)), default=len(names))
    return between + base_seconds(answer, slice(updated, None))


def dense_link_seconds(answer: Estimate, stream: Stream) -> float:
    """Time of a link that no placement changes: dense all-reduces."""
    dense = [op for op in answer.ops if stream in op.op.streams and op.name.startswith("dense.")]
    return float(sum(np.min(op.time) for op in dense))


def table_bytes(design: Design, answer: Estimate) -> float:
    """HBM of a rank that tables may take: less what the plan reserves, what else is held throughout, and the peak of
    what is not."""
    routes = tuple(f"{route}." for route in ROUTES.values())
    held = [
        float(np.max(b.bytes))
        for name, b in answer.program.buffers.items()
        if b.tier == "hbm" and b.role not in LIVE_ROLES and not name.startswith(routes)
    ]
    room = capacities(design.system)["hbm"] * (1 - float(design.plan.memory_reserve))
    return max(room - sum(held) - float(np.max(answer.memory["hbm"].parts["activation"])), 0.0)


def options(design: Design, *, bounded: bool = True) -> tuple[Options, Terms, Floor | None]:
    """Options whose cost is all terms, the terms, and, if `bounded`, what proves that no estimate is lower."""
    reference = estimate(design)
    laws = Laws(design, reference)
    terms, memory, least, count = laws.terms(bounded=bounded)
    layout, room = design.layout, capacities(design.system)
    limits = {**room, "hbm": laws.hbm}
    valid = count > 0
    shared = Options(
        laws.tables.names,
        layout.ranks,
        layout.local_size,
        tuple(s.kind for s in laws.slots),
        tuple(kernel(s.tier, s.cached) for s in laws.slots),
        np.array([_KIND_SCOPE[SCOPE_OF[s.kind]] if layout.ranks > 1 else RANK for s in laws.slots], dtype=np.int64),
        np.maximum(count, 1),
        np.maximum(laws.tables.embedding_dim[:, None] // np.maximum(count, 1), 1),
        np.where(valid, terms.local + terms.exchange + terms.moves, np.inf),
        memory,
        np.tile(list(limits.values()), (layout.ranks, 1)),
        tiers=tuple(room),
    )
    if not bounded:
        return shared, terms, None
    roomy = np.tile(list(room.values()), (layout.ranks, 1))
    chained = design.plan.collective_order == "fifo" and design.system.node.endpoint is None
    stream: Stream = "scale_out" if layout.nodes > 1 else "scale_up"
    floor = Floor(
        replace(shared, memory=least, limits=roomy),
        terms.floors,
        laws.chords,
        base_seconds(reference),
        between_exchanges(reference) if chained else None,
        dense_link_seconds(reference, stream),
        not design.plan.prefetch_input,
    )
    return shared, terms, floor
