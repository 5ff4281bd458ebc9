"""The simulated machine: ranks, each with its own memory, and the network between them.

Values live in float64. Bytes are counted as size x itemsize of the format that the Program declares for the
buffer. With `wires="planned"` values are also rounded to that format wherever a buffer holds what travels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from archmodel.execute.arithmetic import Counted, Tally, counted, plain
from archmodel.execute.batch import Samples
from archmodel.execute.errors import ExecutionError
from archmodel.execute.formats import rounded
from archmodel.execute.network import Network
from archmodel.execute.optimizers import State, new_state
from archmodel.execute.parameters import Parameters
from archmodel.execute.settings import Settings
from archmodel.execute.shards import Bags, Shard, shards_of
from archmodel.execute.traffic import Traffic
from archmodel.parallel.bottom import BOTTOM
from archmodel.parallel.placement import ROUTES, Placement, Scope
from archmodel.parallel.plan import Plan
from archmodel.program import Program
from archmodel.quantities import Array, itemsize
from archmodel.workloads.layers import DENSE_INPUT, EMBEDDINGS, Listed

WireMode = Literal["exact", "planned"]
NOTHING = (0, 0)
"""Shape of a tensor on ranks that another rank computes it for."""
SCOPE_OF_ROUTE: dict[str, Scope] = {route: scope for scope, route in ROUTES.items()}


@dataclass
class Coming:
    """A batch that is on its way: its indices per table, those that have arrived per shard of a route, and dense
    features and labels."""

    features: list[Bags] = field(default_factory=list)
    bags: dict[str, list[Bags | None]] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)


@dataclass
class Rank:
    """One rank's memory. Only `Network` reaches into another's."""

    index: int
    machine: Machine
    shards: dict[Scope, list[Shard]]
    values: dict[str, Array] = field(default_factory=dict)
    features: list[Bags] = field(default_factory=list)
    """Local samples' indices, per table."""
    bags: dict[str, list[Bags | None]] = field(default_factory=dict)
    """Indices that have arrived, per shard of a route."""
    coming: list[Coming] = field(default_factory=list)
    """Of batches ahead, the next first."""
    optimizer_state: dict[str, State] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def touch(self, bytes_: float, tier: str = "hbm") -> None:
        """Count bytes read or written by the op at work."""
        self.machine.traffic.touch(self.machine.op, self.index, tier, bytes_)

    def note(self, name: str, amount: float) -> None:
        """Count a further amount of the op at work."""
        self.machine.traffic.note(self.machine.op, self.index, name, amount)

    def hold(self, buffer: str, elements: float) -> None:
        """Record how many elements a buffer has."""
        self.machine.traffic.hold(buffer, self.index, elements)

    def itemsize(self, buffer: str) -> int:
        """Bytes of one element of a buffer."""
        return itemsize(self.machine.program.buffers[buffer].dtype)

    def look(self, name: str) -> Array:
        """A buffer's values, uncounted."""
        if name not in self.values:
            raise ExecutionError(f"{self.machine.op} reads {name} on rank {self.index} before anything wrote it")
        return self.values[name]

    def read(self, name: str) -> Array:
        """A buffer's values; counts reading all of them."""
        values = self.look(name)
        self.touch(values.size * self.itemsize(name))
        return values

    def operand(self, name: str) -> Counted:
        """The same, and arithmetic on them counts operations."""
        return counted(self.read(name), self.tally)

    def counting(self, values: Array) -> Counted:
        """Arithmetic on these values counts operations."""
        return counted(values, self.tally)

    def place(self, name: str, values: Array) -> None:
        """Fill a buffer, uncounted."""
        values = plain(values)
        if name in self.machine.rounded_buffers:
            values = rounded(values, self.machine.program.buffers[name].dtype)
        self.values[name] = values
        self.hold(name, values.size)

    def write(self, name: str, values: Array) -> None:
        """Fill a buffer; counts writing all of it."""
        self.place(name, values)
        self.touch(values.size * self.itemsize(name))

    def width(self, scope: Scope) -> int:
        """Columns of the pooled vectors that this rank makes for a route."""
        return sum(shard.width for shard in self.shards[scope])

    @property
    def coming_batch(self) -> Coming:
        """What is here of the batch ahead that the op at work serves."""
        while len(self.coming) < self.machine.ahead:
            self.coming.append(Coming())
        return self.coming[self.machine.ahead - 1]

    @property
    def own_features(self) -> list[Bags]:
        """Local samples' indices of the batch that the op at work serves."""
        return self.coming_batch.features if self.machine.ahead else self.features

    def arrived(self, name: str) -> list[Bags | None]:
        """Indices that have arrived, of the batch that the op at work serves."""
        return (self.coming_batch.bags if self.machine.ahead else self.bags)[name]


@dataclass
class Machine:
    """All ranks of one run. `op` and `traffic` are those at work."""

    program: Program
    placement: Placement
    plan: Plan
    train: bool
    settings: Settings
    wires: WireMode
    layers: dict[str, Listed] = field(default_factory=dict)
    """Listed layers by name; none for models that are not lists."""
    ranks: list[Rank] = field(default_factory=list)
    traffic: Traffic = field(init=False)
    op: str = ""
    step: int = 0
    ahead: int = 0
    """Batches that the one that the op at work serves is ahead."""
    samples: Samples | None = None
    """The batch that the op at work serves, where the input pipeline left it."""

    def __post_init__(self) -> None:
        self.traffic = Traffic(self.program.ranks)
        self.network = Network(self.program.layout, self._count, self._cast)
        routes = [route for scope, route in ROUTES.items() if len(self.placement.of_scope(scope))]
        if self.program.bottom_rank is not None:
            routes.append(ROUTES["rank"])
        self.rounded_buffers = frozenset(
            name
            for name, buffer in self.program.buffers.items()
            if self.wires == "planned"
            and (
                (buffer.role == "activation" and name.split(".")[0] in routes and name != EMBEDDINGS)
                or (buffer.role == "gradient")
            )
        )

    def _count(self, rank: int, link: str, elements: int, dtype: str) -> None:
        self.traffic.send(self.op, rank, link, elements * itemsize(dtype))

    def _cast(self, values: Array, dtype: str) -> Array:
        return rounded(values, dtype) if self.wires == "planned" else values

    @property
    def layout_ranks(self) -> range:
        """Indices of all ranks."""
        return range(self.program.ranks)

    def fill(self, parameters: Parameters) -> None:
        """Give every rank its shards, its copy of the dense parameters that it holds (of others, a matrix or vector
        without elements), and zero optimizer state."""
        for index in self.layout_ranks:
            rank = Rank(index, self, shards_of(self.placement, index, parameters, self.train))
            for name, whole in parameters.dense.items():
                values = whole if index in self.holders(name) else np.zeros((0,) * whole.ndim)
                rank.values[name] = values.copy()
                if self.train:
                    rank.optimizer_state[name] = new_state(self.plan.dense_optimizer, values.shape)
            self.ranks.append(rank)

    def holders(self, parameter: str) -> list[int]:
        """Ranks that hold a dense parameter."""
        elements = np.broadcast_to(self.program.buffers[parameter].elements, (self.program.ranks,))
        return np.flatnonzero(elements).tolist()

    def take(self, samples: Samples, traffic: Traffic) -> None:
        """Serve this batch and count what follows into `traffic`. Its indices are on the ranks, unless they are to be
        copied from host memory."""
        self.traffic, self.samples = traffic, samples
        if not self.plan.copy_input:
            for rank in self.ranks:
                self.give_sparse(rank)

    def _mine(self, rank: Rank) -> slice:
        """A rank's own samples."""
        first = sum(self.local_batch[: rank.index])
        return slice(first, first + self.local_batch[rank.index])

    def give_sparse(self, rank: Rank) -> list[Bags]:
        """Put the indices of a rank's own samples into its memory."""
        assert self.samples is not None
        sparse, mine = self.samples.sparse, self._mine(rank)
        given = []
        for lengths, ids in zip(sparse.lengths, sparse.ids, strict=True):
            first, last = (int(lengths[:edge].sum()) for edge in (mine.start, mine.stop))
            given.append(Bags(lengths[mine], ids[first:last]))
        if self.ahead:
            rank.coming_batch.features = given
        else:
            rank.features = given
        return given

    def give_dense(self, rank: Rank) -> int:
        """Put dense features and labels into a rank's memory; returns how many numbers. Those of all samples go to the
        rank that alone reads them."""
        assert self.samples is not None
        alone, mine = self.program.bottom_rank, self._mine(rank)
        given = {DENSE_INPUT: self.samples.dense if alone == rank.index else self.samples.dense[mine]}
        if alone not in (None, rank.index):
            given[DENSE_INPUT] = np.zeros(NOTHING)
        if self.train:
            given["labels"] = self.samples.labels[mine, None]
        for name, values in given.items():
            if self.ahead:
                rank.coming_batch.values[name] = values
                rank.hold(name, values.size)
            else:
                rank.place(name, values)
        return sum(values.size for values in given.values())

    def begin(self) -> None:
        """Load the batch's dense features and labels, unless they are to be copied, and record what stays in memory."""
        for rank in self.ranks:
            if not self.plan.copy_input:
                self.give_dense(rank)
            if not self.placement.table.size:
                rank.place(EMBEDDINGS, np.zeros((self.local_batch[rank.index], 0)))
            self._hold_parameters(rank)
        self.step += 1

    def _hold_parameters(self, rank: Rank) -> None:
        program = self.program
        dense = [name for name in rank.values if name in program.buffers and program.buffers[name].role == "parameter"]
        for name in dense:
            rank.hold(name, rank.values[name].size)
        if "dense.master" in program.buffers:
            rank.hold("dense.master", sum(rank.values[name].size for name in dense))
        moments = sum(m.size for state in rank.optimizer_state.values() for m in state.values())
        if moments:
            rank.hold("dense.state", moments)
        for scope, shards in rank.shards.items():
            for tier in sorted({shard.tier for shard in shards}):
                here = [shard for shard in shards if shard.tier == tier]
                rank.hold(f"{ROUTES[scope]}.weights.{tier}", sum(s.weights.size * itemsize(s.dtype) for s in here))
                if self.train:
                    rank.hold(f"{ROUTES[scope]}.state.{tier}", sum(s.state_bytes for s in here))
            caches = [
                (level.tier, level.places * s.cache.unit * s.row_bytes)
                for s in shards if s.cache is not None for level in s.cache.levels
            ]  # fmt: skip
            for tier in {tier for tier, _ in caches}:
                rank.hold(f"{ROUTES[scope]}.cache.{tier}", sum(size for t, size in caches if t == tier))

    def turn(self) -> None:
        """The next batch's inputs become this one's."""
        for rank in self.ranks:
            if rank.coming:
                batch = rank.coming.pop(0)
                rank.bags |= batch.bags
                rank.values |= batch.values
                rank.features = batch.features or rank.features

    @property
    def bottom_width(self) -> int:
        """Columns of the bottom MLP's output that travel with the table route; 0 when every rank makes its own."""
        if self.program.bottom_rank is None:
            return 0
        elements = np.broadcast_to(self.program.buffers[BOTTOM].elements, (self.program.ranks,)).sum()
        return int(elements) // sum(self.local_batch)

    def columns(self, rank: int, scope: Scope) -> int:
        """Columns that a rank brings to the exchange of a route."""
        alone = scope == "rank" and rank == self.program.bottom_rank
        return self.ranks[rank].width(scope) + (self.bottom_width if alone else 0)

    def sources(self, scope: Scope) -> list[int]:
        """Ranks whose samples make up the rows of a route's pooled vectors, in order. Node-wise shards keep the samples
        of one local index together, as the reduce-scatter in the node hands them out by local index."""
        layout = self.program.layout
        if scope == "node":
            return [
                node * layout.local_size + local for local in range(layout.local_size) for node in range(layout.nodes)
            ]
        return list(self.layout_ranks)

    @property
    def local_batch(self) -> list[int]:
        """Samples of every rank."""
        return [int(b) for b in np.broadcast_to(self.program.local_batch, (self.program.ranks,))]

    def rail_batch(self, rank: int) -> int:
        """Samples of all ranks with the same local index."""
        layout = self.program.layout
        return sum(self.local_batch[rank % layout.local_size :: layout.local_size])
