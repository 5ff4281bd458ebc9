"""Options of a design's tables under our own laws: what a shard adds to lookup, exchange and update of its ranks.

Terms come from the laws that price a Program (`estimate.price`), without what a kernel or a collective costs however
little it does. Exchanges are priced by the slope of their law. What the terms leave out (overlap, caches shared by
tables) is why a plan is judged by the whole estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from archmodel.components.breakdown import Breakdown
from archmodel.design import Design, capacities
from archmodel.estimate.estimate import estimate
from archmodel.estimate.price import Machine, price
from archmodel.estimate.result import Estimate
from archmodel.parallel import algorithms
from archmodel.parallel.counts import Expected
from archmodel.parallel.placement import ROUTES, SCOPES, Placement, split_evenly
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
    Tier,
    Work,
)
from archmodel.quantities import Array, itemsize
from archmodel.search.options import NODE, RANK, WORLD, Options

TIERS: tuple[Tier, ...] = ("hbm", "ddr")
"""Tiers that tables are placed in."""
MIN_COLUMNS = 16
"""Columns are cut no narrower (one 64-byte line of fp32)."""
_FIXED = ("launch", "latency")
_PROBE = 4096.0
"""Columns, or indices, between the two sizes at which the slope of an exchange is taken."""
_KIND_SCOPE = {"rank": RANK, "node": NODE, "world": WORLD, "replica": WORLD}


@dataclass(frozen=True)
class Terms:
    """Seconds of one shard on each rank that it touches, (T, O): local work, exchange, and a floor that no estimate of
    the shard's local work can be below."""

    local: Array
    exchange: Array
    floor: Array


@dataclass(frozen=True)
class _Slot:
    kind: str
    pieces: int
    tier: Tier


def slots(design: Design) -> list[_Slot]:
    """Every way that a table can be cut on this machine, in every tier it has."""
    layout = design.layout
    tiers: tuple[Tier, ...] = TIERS if design.system.node.host is not None else ("hbm",)
    cuts = [("table_wise", 1)]
    if layout.ranks > 1:
        widest = int(design.workload.table_arrays.embedding_dim.max(initial=1))
        most = max(widest // MIN_COLUMNS, 1)
        cuts += [("column_wise", p) for p in (2, 4, 8, 16) if p <= min(most, layout.ranks)]
        cuts += [("row_wise", 1), ("data_parallel", 1)]
        if layout.nodes > 1:
            cuts += [("table_row_wise", 1)]
            cuts += [("grid_wise", p) for p in (2, 4, 8) if p <= min(most, layout.nodes)]
    return [_Slot(k, p, t) for k, p in cuts for t in tiers if not (k == "data_parallel" and t == "ddr")]


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
        self.peak = float(np.max(np.asarray(system.gpu.memory.bandwidth)))
        self.slots = slots(design)

    def _marginal(self, work: Work) -> Array:
        parts = price(work, self.machine).parts
        return np.asarray(Breakdown({k: v for k, v in parts.items() if k not in _FIXED}).total)

    def _slope(self, small: Work, large: Work) -> float:
        a, b = (float(np.max(price(w, self.machine).total)) for w in (small, large))
        return max(b - a, 0.0) / _PROBE

    def exchange_rates(self) -> dict[str, tuple[float, float]]:
        """Seconds per column and per byte of input that a rank brings, by scope; forward and backward."""
        layout, wires, ones = self.layout, self.plan.wires, np.ones(self.layout.ranks)
        if layout.ranks == 1:
            return dict.fromkeys(SCOPES, (0.0, 0.0))
        batch = self.local_batch.astype(np.float64)
        forward, size = wires.lookup_forward, itemsize(wires.lookup_forward)
        both = 1.0 + (itemsize(wires.lookup_backward) / size if self.train else 0.0)

        def outer(width: float) -> Work:
            return AllToAll("world", OuterTraffic(width * size * ones, batch), forward, layout)

        def index(amount: float) -> Work:
            return AllToAll("world", OuterTraffic(batch / self.batch, amount * ones), wires.index, layout)

        def reduce(width: float) -> Work:
            return Collective(
                "reduce_scatter", "world", algorithms.reduce_scatter(layout), batch * width, forward, layout
            )

        def node(width: float) -> Work:
            rail = np.broadcast_to(self.batch / layout.local_size, layout.ranks)
            return Collective("reduce_scatter", "node", "ring", rail * width, forward, layout)

        def rail(width: float) -> Work:
            return AllToAll("rail", OuterTraffic(width * size * ones, batch), forward, layout)

        start = _PROBE
        input_ = 1e-4 * self._slope(index(1e8), index(1e8 + 1e4 * _PROBE))
        inside = self._slope(node(start), node(2 * start)) if layout.local_size > 1 else 0.0
        across = self._slope(rail(start), rail(2 * start)) if layout.nodes > 1 else 0.0
        return {
            "rank": (both * self._slope(outer(start), outer(2 * start)), input_),
            "world": (both * self._slope(reduce(start), reduce(2 * start)), input_),
            "node": (both * (inside + across), input_),
            "replica": (0.0, 0.0),
        }

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
        )

    def of(self, slot: _Slot, rates: dict[str, tuple[float, float]]) -> tuple[Array, Array, Array, Array, Array]:
        """Of one shard of every table: local, exchange and floor seconds (T,), bytes (T, tiers), least bytes of rows
        and state (T,)."""
        placement = self.shard(slot)
        shards = np.arange(len(self.tables))
        scope = SCOPES[int(placement.scope[0])] if len(shards) else "rank"
        size = ShardSizes.of(placement, shards)
        wires = self.plan.wires
        if scope == "replica":
            rows = self.tables.num_embeddings.astype(np.float64)
            indices = self.counts.local_indices(placement, shards)[0]
            unique = self.counts.local_unique(placement, shards)[0]
            samples = float(self.local_batch[0])
        else:
            blocks = placement.blocks_of(shards, scope)
            rows = blocks.rows[:, 0].astype(np.float64)
            indices = self.counts.indices(placement, blocks)[:, 0]
            unique = self.counts.unique(placement, blocks)[:, 0]
            samples = self.batch
        share = np.ones(len(shards))
        if scope == "replica":
            share *= self.batch / self.layout.ranks / max(samples, 1.0)
        elif scope in ("node", "world"):  # the first block is the largest; floors take the mean
            members = blocks.rows.shape[1]
            share = np.where(rows > 0, self.tables.num_embeddings / np.maximum(rows * members, 1.0), 0.0)
        columns, row, state = size.columns[:, 0], size.row_bytes[:, 0], size.state_row_bytes[:, 0]
        present = (rows > 0).astype(np.float64)
        none = np.zeros(len(shards))

        def tiered(amount: Array) -> dict[Tier, Array]:
            return {"hbm": amount} if slot.tier == "hbm" else {"hbm": none, "ddr": amount}

        def requests(amount: Array) -> dict[Tier, Array]:
            return {} if slot.tier == "hbm" else {slot.tier: amount}

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
        )
        local = self._marginal(lookup)
        below = 1.0 / self.peak if slot.tier == "hbm" else self._host_floor()
        floor = share * (lookup.streamed_bytes() / self.peak + unique * row * below)
        column_rate, input_rate = rates[scope]
        sent = lookup.indices * itemsize(wires.index) + lookup.bags * itemsize(wires.length)
        exchange = columns * present * column_rate + sent * input_rate
        if self.train and scope == "replica":
            more, floor_more, wire = self._replica(rows * columns, lookup, size, rows)
            local, floor, exchange = local + more, floor + floor_more, exchange + wire
        elif self.train:
            update = EmbeddingUpdate(
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
            local = local + self._marginal(update)
            floor = floor + share * 2 * unique * (row + state) * below
        held = rows * (columns * size.element[:, 0] + (size.state_bytes[:, 0] if self.train else 0.0))
        buffers = sent + 2 * lookup.output_elements * itemsize(wires.lookup_forward)
        memory = np.stack([buffers + (held if slot.tier == "hbm" else 0.0), held if slot.tier == "ddr" else none], 1)
        return local, exchange, floor, memory, share * held

    def _host_floor(self) -> float:
        """Seconds per byte of rows in host memory, at most what the law charges."""
        host = self.machine.host
        return 0.0 if host is None else 1.0 / float(np.max(host.bandwidth_per_device(self.machine.ranks_per_node)))

    def _replica(
        self, elements: Array, lookup: EmbeddingLookup, size: ShardSizes, rows: Array
    ) -> tuple[Array, Array, Array]:
        """Gradient, step and all-reduce of replicated tables."""
        wires = self.plan.wires
        gradient = itemsize(wires.dense_gradient)
        held = elements * size.element[:, 0] + rows * size.state_bytes[:, 0]
        none = np.zeros(len(elements))
        scatter = Elementwise("dense_embedding_gradient", elements * gradient, none, none, wires.dense_gradient)
        step = Elementwise(
            "dense_embedding_update", elements * gradient + held, held, rows * size.step_operations[:, 0], "fp32"
        )
        local = self._marginal(scatter) + self._marginal(step)
        if self.layout.ranks == 1:
            return local, (elements * gradient + 2 * held) / self.peak, none
        layout = self.layout

        def reduce(amount: float) -> Work:
            blocks = np.full(layout.ranks, amount / layout.ranks)
            algorithm = algorithms.all_reduce(layout, 1e9)
            return Collective("all_reduce", "world", algorithm, blocks, wires.dense_gradient, layout)

        slope = self._slope(reduce(1e8), reduce(1e8 + 1e4 * _PROBE)) * 1e-4
        return local, 0.0 * held, elements * slope

    def terms(self) -> tuple[Terms, Array, Array, IntArray]:
        """Terms (T, O), bytes and least bytes (T, O, tiers), shards per table (T, O), 0 where there is no option."""
        rates = self.exchange_rates()
        found = [self.of(slot, rates) for slot in self.slots]
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
        local, exchange, floor = (np.stack([f[i] for f in found], axis=1) for i in range(3))
        least = np.stack(
            [np.stack([f[4] * (s.tier == tier) for tier in TIERS], 1) for f, s in zip(found, self.slots, strict=True)],
            1,
        )
        return Terms(local, exchange, floor), np.stack([f[3] for f in found], axis=1), least, count


def base_seconds(answer: Estimate) -> Array:
    """Compute time of every rank that no placement of tables changes: products and layers, (ranks,)."""
    routes = (*ROUTES.values(), "embeddings", "input", "bottom.cast")
    total = np.zeros(answer.program.ranks)
    for op in answer.ops:
        if "compute" in op.op.streams and not op.name.startswith(tuple(f"{r}." for r in routes)):
            total = total + op.time
    return total


def options(design: Design) -> tuple[Options, Options, Terms]:
    """Options whose cost is all terms, and the same with floors for a bound that holds for the whole estimate."""
    reference = estimate(design)
    laws = Laws(design, reference)
    terms, memory, least, count = laws.terms()
    layout, room = design.layout, capacities(design.system)
    tables = ("parameter", "optimizer_state", "input")
    needs = reference.memory["hbm"]
    held = sum((np.max(v) for k, v in needs.parts.items() if k not in (*tables, "reserved")), 0.0)
    limits = [max(room["hbm"] * (1 - float(design.plan.memory_reserve)) - float(held), 0.0), room.get("ddr", 0.0)]
    valid = count > 0
    cost = np.where(valid, terms.local + terms.exchange, np.inf)
    shared = Options(
        laws.tables.names,
        layout.ranks,
        layout.local_size,
        tuple(s.kind for s in laws.slots),
        tuple(s.tier for s in laws.slots),
        np.array([_KIND_SCOPE[SCOPE_OF[s.kind]] if layout.ranks > 1 else RANK for s in laws.slots], dtype=np.int64),
        np.maximum(count, 1),
        np.maximum(laws.tables.embedding_dim[:, None] // np.maximum(count, 1), 1),
        cost,
        memory,
        np.broadcast_to(np.array(limits), (layout.ranks, 2)).copy(),
    )
    base = base_seconds(reference)
    roomy = np.broadcast_to(np.array([room["hbm"], room.get("ddr", 0.0)]), (layout.ranks, 2)).copy()
    floor = replace(shared, cost=np.where(valid, terms.floor, np.inf), memory=least, limits=roomy, base=base)
    return shared, floor, terms
