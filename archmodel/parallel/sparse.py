"""Lowering of the embedding tables, one route per scope of shards:

route       shards                              forward exchange                       backward exchange
table       table-, column-, table-column-wise  all-to-all                             all-to-all
node_row    table-row-wise, grid-wise           reduce-scatter, rail all-to-all        rail all-to-all, all-gather
row         row-wise                            reduce-scatter                         all-gather
replicated  data parallel                       none                                   all-reduce of the whole gradient

The output of a bottom MLP that runs on one rank travels with the table route, as further columns of that rank.
Each route has one fused lookup and one fused update. A rank with nothing on a route does zero work in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from archmodel.parallel import algorithms
from archmodel.parallel.bottom import BOTTOM, Bottom
from archmodel.parallel.counts import Counts
from archmodel.parallel.dense import blocks, gradient, one
from archmodel.parallel.emit import Emitter, per_rank
from archmodel.parallel.inputs import SPARSE_FEATURES
from archmodel.parallel.placement import (
    ROUTES,
    Blocks,
    Placement,
    Scope,
    by_word,
)
from archmodel.program import (
    AllToAll,
    CacheProbe,
    Collective,
    Elementwise,
    EmbeddingLookup,
    EmbeddingScatterAdd,
    EmbeddingUpdate,
    IntArray,
    OuterTraffic,
    Phase,
    RowMove,
    Stream,
    Tier,
    sectors,
)
from archmodel.quantities import Array, Dtype, itemsize
from archmodel.workloads.layers import EMBEDDINGS

STEP_OPERATIONS = {"sgd": 2, "rowwise_adagrad": 4, "adagrad": 7, "adam": 12}
STEP_OPERATIONS_PER_ROW = {"sgd": 0, "rowwise_adagrad": 5, "adagrad": 0, "adam": 0}
"""Operations of one optimizer step per element of a row, and per row on top: counted from the update equations."""


def stored(compute: Dtype) -> Dtype:
    """Format that tensors of a compute precision have in memory: tf32 is fp32 there."""
    return "fp32" if compute == "tf32" else compute


@dataclass
class Amounts:
    """What the shards of one route amount to on every rank: arrays (ranks,)."""

    ranks: int
    values: dict[str, Array] = field(default_factory=dict)

    def add(self, name: str, amount: Array) -> None:
        self.values[name] = self.values.get(name, np.zeros(self.ranks)) + amount

    def __getitem__(self, name: str) -> Array:
        return self.values.get(name, np.zeros(self.ranks))

    def tiers(self, name: str) -> dict[Tier, Array]:
        """Per-tier amounts; HBM always, other tiers where they hold something."""
        return {"hbm": per_rank(self[f"{name}.hbm"]), **self.by(name)}

    def by(self, name: str) -> dict[str, Array]:
        """Amounts of one name by what stands after it: tiers, or paths between them."""
        found = [key for key in self.values if key.startswith(f"{name}.")]
        return {key[len(name) + 1 :]: per_rank(self[key]) for key in found}


@dataclass(frozen=True)
class ShardSizes:
    """Per-shard constants as columns (S, 1)."""

    columns: Array
    row_bytes: Array
    state_row_bytes: Array
    state_bytes: Array
    element: Array
    step_operations: Array
    in_tier: dict[Tier, Array]
    """1 where lookups read the tier."""
    at_home: dict[Tier, Array]
    """1 where the tier holds the rows."""

    @classmethod
    def of(cls, placement: Placement, shards: IntArray) -> ShardSizes:
        table = placement.table[shards]
        columns = placement.columns[shards].astype(np.float64)[:, None]

        element, per_element, per_row = (v[table, None] for v in (placement.element, *placement.state_bytes))
        state = columns * per_element + per_row
        optimizer = [placement.optimizer[t] for t in table]
        read = np.array([placement.read_tier[t] for t in table], dtype=str).reshape(-1, 1)
        home = np.array([placement.tier[t] for t in table], dtype=str).reshape(-1, 1)
        return cls(
            columns=columns,
            row_bytes=sectors(columns * element),
            state_row_bytes=sectors(state),
            state_bytes=state,
            element=element,
            step_operations=columns * by_word(optimizer, STEP_OPERATIONS.__getitem__)[:, None]
            + by_word(optimizer, STEP_OPERATIONS_PER_ROW.__getitem__)[:, None],
            in_tier={t: (read == t).astype(np.float64) for t in placement.tiers if (read == t).any()},
            at_home={t: (home == t).astype(np.float64) for t in placement.tiers if (home == t).any()},
        )


def amounts(e: Emitter, placement: Placement, counts: Counts, scope: Scope, train: bool = True) -> Amounts:
    """Sum the shards of a scope over ranks (everything but replicas, which `replica_amounts` does)."""
    total = Amounts(e.layout.ranks)
    batch = float(e.local_batch.sum())
    backward = itemsize(e.plan.wires.lookup_backward)
    for b in placement.blocks(scope):
        size = ShardSizes.of(placement, b.shards)
        indices, unique = counts.indices(placement, b), counts.unique(placement, b)
        present = (b.rows > 0).astype(np.float64)
        put = partial(_put, total, placement, scope, b)

        put("indices", indices)
        put("bags", batch * present)
        put("output", batch * size.columns * present)
        put("width", size.columns * np.ones_like(present))
        put("adds", indices * size.columns)
        put("gathered", indices * size.columns * backward)
        put("gradient_rows", batch * size.columns * present * backward)
        put("steps", indices * size.columns + unique * size.step_operations)
        for tier, here in size.in_tier.items():
            put(f"rows.{tier}", indices * size.row_bytes * here)
            put(f"unique.{tier}", unique * size.row_bytes * here)
            put(f"rows_added.{tier}", 2 * indices * size.row_bytes * here)
            put(f"row_update.{tier}", 2 * unique * size.row_bytes * here)
            put(f"state_update.{tier}", 2 * unique * size.state_row_bytes * here)
            if tier != "hbm":
                put(f"reads.{tier}", indices * here)
                put(f"sums.{tier}", batch * present * here)
                put(f"sum_columns.{tier}", batch * size.columns * present * here)
                put(f"updates.{tier}", unique * here)
        for tier, here in size.at_home.items():
            put(f"parameters.{tier}", b.rows * size.columns * size.element * here)
            put(f"state.{tier}", b.rows * size.state_bytes * here)
        if placement.cached[placement.table[b.shards]].any():
            _cache_amounts(e, placement, counts, scope, b, size, (indices, unique), put, train)
    return total


def _cache_amounts(
    e: Emitter,
    placement: Placement,
    counts: Counts,
    scope: Scope,
    b: Blocks,
    size: ShardSizes,
    wanted: tuple[Array, Array],
    put: Callable[[str, Array], None],
    train: bool,
) -> None:
    """What the caches of some blocks hold, are asked for and move: of every level what the one above it lacks."""
    table = placement.table[b.shards]
    unit = placement.unit_rows[b.shards].astype(np.float64)[:, None]
    moves = counts.moved(placement, scope, b, train)
    index = itemsize(e.plan.wires.index)
    row = (size.columns * size.element + (size.state_bytes if train else 0.0)) * unit
    chain = placement.chain[:, table]
    depth = np.array([[len(placement.caches[t])] for t in table])

    def path(name: str, units: Array, above: int, below: int) -> None:
        """Rows that move between two levels, by their tiers."""
        for upper, lower in dict.fromkeys(zip(chain[above].tolist(), chain[below].tolist(), strict=True)):
            if lower:
                both = ((chain[above] == upper) & (chain[below] == lower))[:, None]
                put(f"{name}_rows.{lower}:{upper}", units * both)
                put(f"{name}_bytes.{lower}:{upper}", units * row * both)

    asked = wanted[1]
    put("faults", np.zeros_like(asked))
    for level in range(placement.levels):
        plans = placement.level(level, table)
        held, fetched = placement.cache_units(scope, b, level), moves.fetched[level]
        ways = np.array([(c.ways or 1) if c else 0 for c in plans], dtype=np.float64)[:, None]
        by_software = np.array([[float(c is not None and c.page is None)] for c in plans])
        if level == 0 and by_software.any():  # pages are found by the device's own page tables
            put("probed", wanted[0] * by_software)
            put("probed_rows", wanted[1] * by_software)
        put("tags", asked * np.minimum(ways, held) * index * by_software)
        put("faults", fetched * np.array([[float(c is not None and c.page is not None)] for c in plans]))
        put("fetch_home", fetched * (depth == level + 1))
        path("fetch", fetched, level, level + 1)
        for tier in dict.fromkeys(c.tier for c in plans if c is not None):
            here = (chain[level] == tier)[:, None] & (held > 0)
            put(f"asked.{tier}", asked * here * by_software)
            put(f"cache.{tier}", held * row * here)
            put(f"staged.{tier}", fetched * row * here)
        asked = fetched
    for (above, below), units in moves.written.items():
        path("back", units, above, below)
        put("back_home", units * (depth == below))


def replica_amounts(e: Emitter, placement: Placement, counts: Counts) -> Amounts:
    """The same for replicated tables: every rank looks up its own samples."""
    total = Amounts(e.layout.ranks)
    shards = placement.of_scope("replica")
    size = ShardSizes.of(placement, shards)
    batch = e.local_batch.astype(np.float64)
    indices, unique = counts.local_indices(placement, shards), counts.local_unique(placement, shards)
    rows = placement.tables.num_embeddings[placement.table[shards]].astype(np.float64)
    present = (rows > 0).astype(np.float64)
    columns = size.columns[:, 0]
    total.add("indices", indices.sum(1))
    total.add("bags", batch * present.sum())
    total.add("output", batch * (columns * present).sum())
    total.add("width", np.full(e.layout.ranks, columns.sum()))
    total.add("adds", indices @ columns)
    total.add("elements", np.full(e.layout.ranks, rows @ columns))
    total.add("steps", np.full(e.layout.ranks, rows @ size.step_operations[:, 0]))
    for tier, mask in size.at_home.items():
        here = mask[:, 0]
        total.add(f"rows.{tier}", indices @ (size.row_bytes[:, 0] * here))
        total.add(f"unique.{tier}", unique @ (size.row_bytes[:, 0] * here))
        total.add(f"rows_added.{tier}", 2 * (indices @ (size.row_bytes[:, 0] * here)))
        total.add(f"row_update.{tier}", 2 * (unique @ (size.row_bytes[:, 0] * here)))
        total.add(f"parameters.{tier}", np.full(e.layout.ranks, (rows * columns * size.element[:, 0]) @ here))
        total.add(f"state.{tier}", np.full(e.layout.ranks, (rows * size.state_bytes[:, 0]) @ here))
    return total


def _put(total: Amounts, placement: Placement, scope: Scope, blocks: Blocks, name: str, amount: Array) -> None:
    total.add(name, placement.per_rank(scope, blocks, np.broadcast_to(amount, blocks.start.shape)))


@dataclass
class SparseLowering:
    """Emits the embedding ops of all routes that have shards."""

    e: Emitter
    placement: Placement
    counts: Counts
    train: bool
    bottom: Bottom | None = None
    routes: dict[Scope, Amounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for scope in ROUTES:
            if len(self.placement.of_scope(scope)):
                self.routes[scope] = (
                    replica_amounts(self.e, self.placement, self.counts)
                    if scope == "replica"
                    else amounts(self.e, self.placement, self.counts, scope, self.train)
                )
        self._declare()

    @property
    def distributed(self) -> bool:
        """True when anything has to travel."""
        return self.e.layout.ranks > 1

    @property
    def exchanged(self) -> dict[Scope, Amounts]:
        """Routes that bring the interaction its features: those of tables, and the bottom MLP's."""
        if self.bottom is None or "rank" in self.routes:
            return self.routes
        return {"rank": Amounts(self.e.layout.ranks), **self.routes}

    def _declare(self) -> None:
        e = self.e
        for scope, a in self.routes.items():
            name = ROUTES[scope]
            for tier, held in a.by("parameters").items():
                e.buffer(f"{name}.weights.{tier}", "parameter", held, "uint8", tier)
                if self.train:
                    e.buffer(f"{name}.state.{tier}", "optimizer_state", a[f"state.{tier}"], "uint8", tier)
            for tier, held in a.by("cache").items():
                e.buffer(f"{name}.cache.{tier}", "cache", held, "uint8", tier)
                ahead = self.placement.prefetch
                e.buffer(
                    f"{name}.staged.{tier}", "cache", a[f"staged.{tier}"], "uint8", tier, ahead > 0, copies=1 + ahead
                )
            if "probed" in a.values:
                ids, ahead = a["probed_rows"], self.placement.prefetch
                e.buffer(f"{name}.wanted", "cache", ids, e.plan.wires.index, "hbm", ahead > 0, copies=1 + ahead)
            index_bytes = a["indices"] * itemsize(e.plan.wires.index) + a["bags"] * itemsize(e.plan.wires.length)
            e.buffer(
                f"{name}.indices", "input", index_bytes, "uint8", prefetched=e.plan.prefetch_input, copies=e.copies
            )

    def weights(self, scope: Scope) -> str:
        """The route's rows as one operand."""
        return f"{ROUTES[scope]}.weights"

    def input(self) -> None:
        """Send every sample's indices to the ranks that hold their rows."""
        e, wires = self.e, self.e.plan.wires
        for scope in self.routes:
            name = ROUTES[scope]
            if scope == "replica" or not self.distributed:
                continue
            traffic = self.counts.input_traffic(self.placement, scope, itemsize(wires.index), itemsize(wires.length))
            work = AllToAll("world", traffic, wires.index, e.layout)
            e.op(
                f"{name}.input_all_to_all",
                "input",
                work,
                (SPARSE_FEATURES,),
                (f"{name}.indices",),
                e.streams("world"),
            )

    def fetch(self) -> None:
        """Find the batch's rows in the caches and fetch those that are missing: of the next batch, beside this one's
        work, when the plan prefetches; else of this one, in line."""
        ahead = self.placement.prefetch
        for scope, a in self.routes.items():
            name = ROUTES[scope]
            if "faults" not in a.values:
                continue
            index, probed = self.e.plan.wires.index, per_rank(a["probed"])
            asked = a.by("asked")
            probe = CacheProbe(name, probed, per_rank(a["probed_rows"]), asked, per_rank(a["tags"]), index)
            # one batch ahead: right behind the indices; further: behind those that came an iteration earlier
            phase: Phase = "input" if ahead == 1 else "forward"
            wanted = f"{name}.wanted"
            on: Stream = "host" if ahead else "compute"
            if "probed" in a.values:
                self.e.op(f"{name}.cache_probe", phase, probe, (self._indices(scope),), (wanted,), (on,))
            faults = per_rank(a["faults"])
            home = per_rank(a["fetch_home"])
            move = RowMove(name, a.by("fetch_rows"), a.by("fetch_bytes"), home, faults=faults)
            # further ahead, both belong to the same batch: nothing to wait for but their order on the stream
            reads = (wanted if "probed" in a.values else self._indices(scope),) if ahead < 2 else ()
            self.e.op(f"{name}.cache_fetch", phase, move, reads, self._staged(scope), ("host",))

    def write_back(self) -> None:
        """Write the changed rows that leave the caches to those below, or home."""
        for scope, a in self.routes.items():
            if "faults" in a.values:
                home = per_rank(a["back_home"])
                move = RowMove(ROUTES[scope], a.by("back_rows"), a.by("back_bytes"), home, write_back=True)
                self.e.op(f"{ROUTES[scope]}.cache_write_back", "update", move, (self.weights(scope),), (), ("host",))

    def _staged(self, scope: Scope) -> tuple[str, ...]:
        """Where fetched rows of a route arrive."""
        return tuple(f"{ROUTES[scope]}.staged.{tier}" for tier in self.routes[scope].by("cache"))

    def lookup(self) -> None:
        """One fused lookup per route."""
        e, wires = self.e, self.e.plan.wires
        for scope, a in self.routes.items():
            name = ROUTES[scope]
            samples = e.local_batch if self._indices(scope) == SPARSE_FEATURES else e.local_batch.sum()
            pooled = e.buffer(f"{name}.pooled", "activation", samples * a["width"], wires.lookup_forward)
            cast = e.plan.cast_after_lookup and e.plan.precision.parameters != wires.lookup_forward
            dtype = e.plan.precision.parameters if cast else wires.lookup_forward
            found = e.buffer(f"{name}.looked_up", "activation", samples * a["width"], dtype) if cast else pooled
            work = EmbeddingLookup(
                name,
                per_rank(a["indices"]),
                per_rank(a["bags"]),
                a.tiers("rows"),
                a.tiers("unique"),
                per_rank(a["output"]),
                per_rank(a["adds"]),
                wires.index,
                wires.length,
                dtype,
                a.by("reads"),
                a.by("sums"),
                {tier: columns * itemsize(dtype) for tier, columns in a.by("sum_columns").items()},
            )
            reads = (self._indices(scope), self.weights(scope), *self._staged(scope))
            e.op(f"{name}.lookup", "forward", work, reads, (found,))
            if cast:
                written = per_rank(samples * a["width"])
                to_wire = Elementwise(
                    "cast", written * itemsize(dtype), written * itemsize(wires.lookup_forward), one(0), dtype
                )
                e.op(f"{name}.cast", "forward", to_wire, (found,), (pooled,))

    def _indices(self, scope: Scope) -> str:
        return SPARSE_FEATURES if scope == "replica" or not self.distributed else f"{ROUTES[scope]}.indices"

    def _features(self, scope: Scope) -> str:
        """The route's pooled vectors of the local samples."""
        return f"{ROUTES[scope]}.{'pooled' if scope == 'replica' or not self.distributed else 'features'}"

    def _local_width(self, scope: Scope) -> int:
        tables = int(self.placement.columns[self.placement.of_scope(scope)].sum())
        return tables + (self.bottom.width if self.bottom and scope == "rank" else 0)

    def _width(self, scope: Scope, a: Amounts) -> Array:
        """Columns that each rank brings to a route's exchange, (ranks,)."""
        return a["width"] + (self.bottom.e.each(self.bottom.width) if self.bottom and scope == "rank" else 0.0)

    def _cast(self, name: str, source: tuple[str, Dtype], target: tuple[str, Dtype]) -> None:
        """Change the format of a tensor of the bottom MLP's output width, on its rank."""
        assert self.bottom is not None
        e, elements = self.bottom.e, self.bottom.e.batch * self.bottom.width
        read, written = (elements * itemsize(dtype) for _, dtype in (source, target))
        work = Elementwise("cast", read, written, one(0), self.e.plan.precision.compute)
        e.op(name, "forward" if name.endswith("forward") else "backward", work, (source[0],), (target[0],))

    def exchange(self) -> None:
        """Bring pooled vectors to the ranks of their samples."""
        e, dtype = self.e, self.e.plan.wires.lookup_forward
        for scope, a in self.exchanged.items():
            name = ROUTES[scope]
            if self._features(scope).endswith("pooled"):
                continue
            features = e.activation(f"{name}.features", self._local_width(scope), dtype)
            self._forward_exchange(scope, a, features)

    def _forward_exchange(self, scope: Scope, a: Amounts, features: str) -> None:
        e, name, dtype = self.e, ROUTES[scope], self.e.plan.wires.lookup_forward
        batch, size = e.local_batch.astype(np.float64), itemsize(dtype)
        pooled = f"{name}.pooled"
        if scope == "rank":
            work = AllToAll("world", OuterTraffic(self._width(scope, a) * size, batch), dtype, e.layout)
            reads = (*((pooled,) if scope in self.routes else ()), *self._bottom_output())
            e.op(f"{name}.pooled_all_to_all", "forward", work, reads, (features,), e.streams("world"))
        elif scope == "world":
            algorithm = algorithms.reduce_scatter(e.layout)
            reduce = Collective("reduce_scatter", "world", algorithm, batch * a["width"], dtype, e.layout)
            e.op(f"{name}.pooled_reduce_scatter", "forward", reduce, (pooled,), (features,), e.streams("world"))
        else:
            partial = (
                features
                if e.layout.nodes == 1
                else e.buffer(f"{name}.partial", "activation", self._rail_batch() * a["width"], dtype)
            )
            reduce = Collective("reduce_scatter", "node", "ring", self._rail_batch() * a["width"], dtype, e.layout)
            e.op(f"{name}.pooled_reduce_scatter", "forward", reduce, (pooled,), (partial,), e.streams("node"))
            if e.layout.nodes > 1:
                rail = AllToAll("rail", OuterTraffic(a["width"] * size, batch), dtype, e.layout)
                e.op(f"{name}.pooled_all_to_all", "forward", rail, (partial,), (features,), e.streams("rail"))

    def _bottom_output(self) -> tuple[str, ...]:
        """What the bottom MLP's rank sends, in the wire's format; nothing when there is no such rank."""
        if self.bottom is None:
            return ()
        e, wire, compute = self.bottom.e, self.e.plan.wires.lookup_forward, self.e.plan.precision.compute
        if wire == stored(compute):
            return (self.bottom.output,)
        sent = e.activation("table.bottom", self.bottom.width, wire)
        self._cast("bottom.cast.forward", (self.bottom.output, compute), (sent, wire))
        return (sent,)

    def _bottom_gradient(self) -> tuple[str, ...]:
        """Where the gradient of what the bottom MLP's rank sent arrives."""
        if self.bottom is None:
            return ()
        e, wire = self.bottom.e, self.e.plan.wires.lookup_backward
        wanted = e.activation(gradient(self.bottom.output), self.bottom.width)
        if wire == stored(self.e.plan.precision.compute):
            return (wanted,)
        return (e.activation(gradient("table.bottom"), self.bottom.width, wire),)

    def _rail_batch(self) -> Array:
        """Samples of all ranks with the same local index, (ranks,)."""
        layout = self.e.layout
        rail = self.e.local_batch.reshape(layout.nodes, layout.local_size).sum(0)
        return np.tile(rail.astype(np.float64), layout.nodes)

    def combine(self) -> None:
        """Lay the routes' vectors side by side, in table order, in the compute precision; the bottom MLP's apart."""
        e = self.e
        width = sum(self._local_width(s) for s in self.exchanged)
        e.activation(EMBEDDINGS, width - (self.bottom.width if self.bottom else 0))
        if self.bottom:
            e.activation(BOTTOM, self.bottom.width)
        reads = e.batch * width * itemsize(e.plan.wires.lookup_forward)
        writes = e.batch * width * itemsize(e.plan.precision.compute)
        work = Elementwise("combine", reads, writes, one(0), e.plan.precision.compute)
        e.op(
            "embeddings.combine",
            "forward",
            work,
            tuple(self._features(s) for s in self.exchanged),
            (EMBEDDINGS, BOTTOM) if self.bottom else (EMBEDDINGS,),
        )

    def split(self) -> None:
        """Cut the gradient of all pooled vectors into one buffer per route, in the backward wire's precision."""
        e, dtype = self.e, self.e.plan.wires.lookup_backward
        width = sum(self._local_width(s) for s in self.exchanged)
        for scope in self.exchanged:
            e.activation(gradient(f"{ROUTES[scope]}.features"), self._local_width(scope), dtype)
        reads = e.batch * width * itemsize(e.plan.precision.compute)
        if self.bottom and e.plan.bottom_mlp.sliced:  # zeros written, then read with the features, the sum written
            both = (gradient(EMBEDDINGS), gradient(BOTTOM))
            padded = Elementwise("add_padded", 2 * reads, 2 * reads, e.batch * width, e.plan.precision.compute)
            e.op("bottom.pad_gradient", "backward", padded, both, both)
        work = Elementwise("separate", reads, e.batch * width * itemsize(dtype), one(0), e.plan.precision.compute)
        e.op(
            "embeddings.split",
            "backward",
            work,
            (gradient(EMBEDDINGS), gradient(BOTTOM)) if self.bottom else (gradient(EMBEDDINGS),),
            tuple(gradient(f"{ROUTES[s]}.features") for s in self.exchanged),
        )

    def exchange_gradients(self) -> None:
        """Bring gradients of pooled vectors to the ranks that hold the rows."""
        e, dtype = self.e, self.e.plan.wires.lookup_backward
        batch, size = e.local_batch.astype(np.float64), itemsize(dtype)
        for scope, a in self.exchanged.items():
            name = ROUTES[scope]
            if scope == "replica" or not self.distributed:
                continue
            local, owned = gradient(f"{name}.features"), gradient(f"{name}.pooled")
            total = float(batch.sum())
            if scope in self.routes:
                e.buffer(owned, "activation", a["width"] * total, dtype)
            if scope == "rank":
                work = AllToAll("world", OuterTraffic(batch, self._width(scope, a) * size), dtype, e.layout)
                writes = (*((owned,) if scope in self.routes else ()), *self._bottom_gradient())
                e.op(f"{name}.gradient_all_to_all", "backward", work, (local,), writes, e.streams("world"))
            elif scope == "world":
                gather = Collective(
                    "all_gather", "world", algorithms.reduce_scatter(e.layout), batch * a["width"], dtype, e.layout
                )
                e.op(f"{name}.gradient_all_gather", "backward", gather, (local,), (owned,), e.streams("world"))
            else:
                partial = local
                if e.layout.nodes > 1:
                    partial = e.buffer(
                        gradient(f"{name}.partial"), "activation", self._rail_batch() * a["width"], dtype
                    )
                    rail = AllToAll("rail", OuterTraffic(batch, a["width"] * size), dtype, e.layout)
                    e.op(
                        f"{name}.gradient_all_to_all",
                        "backward",
                        rail,
                        (local,),
                        (partial,),
                        e.streams("rail"),
                    )
                gather = Collective("all_gather", "node", "ring", self._rail_batch() * a["width"], dtype, e.layout)
                e.op(f"{name}.gradient_all_gather", "backward", gather, (partial,), (owned,), e.streams("node"))
        if self.bottom and dtype != stored(e.plan.precision.compute):
            arrived, wanted = gradient("table.bottom"), gradient(self.bottom.output)
            self._cast("bottom.cast.backward", (arrived, dtype), (wanted, e.plan.precision.compute))

    def gradient_rows(self) -> None:
        """One row of gradients per index, where the plan updates tables so. Part of the backward pass."""
        e, wires, kept = self.e, self.e.plan.wires, self.e.plan.precision.parameters
        if e.plan.sparse_update == "exact":
            return
        for scope, a in self.routes.items():
            if scope == "replica" and self.distributed:
                continue
            name, elements = ROUTES[scope], per_rank(a["adds"])
            upstream = gradient(f"{name}.{'pooled' if self.distributed else 'features'}")
            rows = e.buffer(f"{name}.gradient_rows", "gradient", elements, kept)
            scaled = e.plan.sparse_update == "rows_compiled" or self._rows_are_views
            read = a["indices"] * itemsize(wires.index) + a["bags"] * itemsize(wires.length) + a["gathered"]
            work = Elementwise(
                "gradient_rows",
                per_rank(read),
                elements * itemsize(kept),
                elements if scaled else one(0),
                kept,
                {"scale": "rate"} if scaled else {},
            )
            e.op(f"{name}.gradient_rows", "backward", work, (self._indices(scope), upstream), (rows,))

    @property
    def _rows_are_views(self) -> bool:
        """Whether what arrives is a row per index already, so that no kernel writes them before they are scaled."""
        plan, pooling = self.e.plan, self.placement.tables.pooling_factor
        same = plan.wires.lookup_backward == plan.precision.parameters
        return self.distributed and same and not plan.loss_scaling and bool(np.all(pooling == 1))

    def _add_rows(self, scope: Scope, a: Amounts) -> None:
        """Scale the rows of gradients, each time in a pass, and add them to the tables."""
        e, name, kept = self.e, ROUTES[scope], self.e.plan.precision.parameters
        rows, elements = f"{name}.gradient_rows", per_rank(a["adds"])
        passes = {"unscale": "loss"} if e.plan.loss_scaling else {}
        if not self._rows_are_views:
            passes["scale"] = "rate"
        for step, factor in passes.items() if e.plan.sparse_update == "rows" else ():
            moved = elements * itemsize(kept)
            work = Elementwise("scale_rows", moved, moved, elements, kept, {"scale": factor})
            e.op(f"{name}.{step}_rows", "update", work, (rows,), (rows,))
        add = EmbeddingScatterAdd(
            name,
            per_rank(a["indices"]),
            elements * itemsize(kept),
            a.tiers("rows_added"),
            a.tiers("row_update"),
            elements,
            e.plan.wires.index,
            a.by("reads"),
        )
        e.op(f"{name}.scatter_add", "update", add, (self._indices(scope), rows), (self.weights(scope),))

    def update(self) -> None:
        """Exact sparse update per route; replicated tables all-reduce a dense gradient and step every row."""
        wires = self.e.plan.wires
        for scope, a in self.routes.items():
            if scope == "replica" and self.distributed:
                self._update_replicas(a)
                continue
            name = ROUTES[scope]
            upstream = gradient(f"{name}.{'pooled' if self.distributed else 'features'}")
            if self.e.plan.sparse_update != "exact":
                self._add_rows(scope, a)
                continue
            work = EmbeddingUpdate(
                name,
                per_rank(a["indices"]),
                per_rank(a["bags"]),
                per_rank(a["gathered"]),
                per_rank(a["gradient_rows"]),
                a.tiers("row_update"),
                a.tiers("state_update"),
                per_rank(a["steps"]),
                wires.index,
                wires.length,
                a.by("updates"),
            )
            self.e.op(f"{name}.update", "update", work, (self._indices(scope), upstream), (self.weights(scope),))

    def _update_replicas(self, a: Amounts) -> None:
        e, wires = self.e, self.e.plan.wires
        elements = float(a["elements"][0])
        dtype = wires.dense_gradient
        dense = e.buffer("replicated.weights.gradient", "gradient", elements, dtype)
        local = gradient("replicated.features")
        read = (
            a["indices"] * itemsize(wires.index)
            + a["bags"] * itemsize(wires.length)
            + a["adds"] * itemsize(wires.lookup_backward)
        )
        scatter = Elementwise(
            "dense_embedding_gradient",
            per_rank(read),
            one(elements * itemsize(dtype)),
            per_rank(a["adds"]),
            dtype,
        )
        e.op("replicated.gradient", "backward", scatter, (SPARSE_FEATURES, local), (dense,))
        algorithm = algorithms.all_reduce(e.layout, elements * itemsize(dtype))
        work = Collective("all_reduce", "world", algorithm, blocks(elements, e), dtype, e.layout)
        e.op("replicated.all_reduce", "backward", work, (dense,), (dense,), e.streams("world"))
        rows = sum(float(held[0]) for held in a.by("parameters").values())
        state = sum(float(held[0]) for held in a.by("state").values())
        held = rows + state
        step = Elementwise(
            "dense_embedding_update",
            one(elements * itemsize(dtype) + held),
            one(held),
            per_rank(a["steps"]),
            "fp32",
        )
        e.op("replicated.update", "update", step, (dense,), (self.weights("replica"),))
