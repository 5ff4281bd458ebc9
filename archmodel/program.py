"""The Program: what every rank computes and moves, as data.

`archmodel.parallel.lower` writes a Program once for all ranks (SPMD): a list of `Op`s, each with one `Work`
that holds *per-rank* amounts. The estimator prices a Program and the executor runs the very same one, so a byte
that is priced is a byte that moves.

Shapes: a per-rank amount is a float array of shape `(ranks,)`, or `(1,)` when it is equal on every rank. Amounts that
follow from an access distribution are expectations and need not be whole numbers; lowered from an observed batch
they are exact counts. Nothing here knows a second, a bandwidth or a numpy kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from archmodel.collectives import volume
from archmodel.quantities import Array, Dtype, itemsize

IntArray = npt.NDArray[np.int64]
Stream = Literal["compute", "scale_up", "scale_out", "host"]
Phase = Literal["input", "forward", "backward", "update"]
Role = Literal["parameter", "optimizer_state", "gradient", "activation", "communication", "input", "cache"]
Tier = str
"""A memory by name: "hbm", the device's own; "ddr", host memory; or a further one that the system declares."""
Group = Literal["world", "node", "rail"]
CollectiveKind = Literal["all_to_all", "all_reduce", "reduce_scatter", "all_gather"]
Algorithm = Literal["direct", "ring", "hierarchical", "tree", "in_network"]
SECTOR = 32.0
"""Bytes of the smallest DRAM access of a GPU (one L2 sector): a 16-byte row costs 32 bytes of traffic."""


def sectors(row_bytes: Array) -> Array:
    """Bytes that reading `row_bytes` contiguous bytes moves at sector granularity; same shape as the input."""
    return np.ceil(row_bytes / SECTOR) * SECTOR


@dataclass(frozen=True, slots=True)
class Layout:
    """How ranks sit on nodes: `nodes` nodes of `local_size` ranks; rank = node * local_size + local index.

    `in_network`: share of a ring's rate at which the switch of a node adds up and multicasts; 0 if it cannot.
    """

    nodes: int
    local_size: int
    in_network: float = 0.0

    @property
    def ranks(self) -> int:
        return self.nodes * self.local_size

    @property
    def node_of(self) -> IntArray:
        """Node index of every rank, shape (ranks,)."""
        return np.arange(self.ranks) // self.local_size

    def members(self, group: Group) -> IntArray:
        """Ranks of every concurrent group, one group per row: (groups, group size)."""
        ranks = np.arange(self.ranks).reshape(self.nodes, self.local_size)
        return {"world": ranks.reshape(1, -1), "node": ranks, "rail": ranks.T}[group]


class Traffic(Protocol):
    """Bytes that every rank of a group sends to every other in an all-to-all; an N x N array only when observed."""

    def split(self, layout: Layout, group: Group) -> dict[str, tuple[Array, Array]]:
        """{"scale_up" | "scale_out": (sent, received)} bytes per rank (ranks,), what a rank keeps left out."""
        ...

    def totals(self, layout: Layout, group: Group) -> tuple[Array, Array]:
        """(input, output) bytes per rank (ranks,), what a rank keeps for itself included."""
        ...


@dataclass(frozen=True)
class OuterTraffic:
    """Rank i sends `send[i] * receive[j]` bytes to rank j: pooled vectors (width owned x samples wanted), and
    indices in expectation (samples owned x indices wanted per sample). Both factors have shape (ranks,)."""

    send: Array
    receive: Array

    def split(self, layout: Layout, group: Group) -> dict[str, tuple[Array, Array]]:
        kept = self.send * self.receive
        if group == "node":
            node_send, node_receive = self._within_node(layout)
            return {"scale_up": (node_send - kept, node_receive - kept)}
        if group == "rail":
            sent, received = self.totals(layout, group)
            return {"scale_out": (sent - kept, received - kept)}
        node_send, node_receive = self._within_node(layout)
        sent, received = self.totals(layout, group)
        return {
            "scale_up": (node_send - kept, node_receive - kept),
            "scale_out": (sent - node_send, received - node_receive),
        }

    def totals(self, layout: Layout, group: Group) -> tuple[Array, Array]:
        if group == "node":
            return self._within_node(layout)
        if group == "rail":
            send, receive = (x.reshape(layout.nodes, -1) for x in (self.send, self.receive))
            return (send * receive.sum(0)).ravel(), (receive * send.sum(0)).ravel()
        return self.send * self.receive.sum(), self.receive * self.send.sum()

    def _within_node(self, layout: Layout) -> tuple[Array, Array]:
        send, receive = (x.reshape(layout.nodes, -1) for x in (self.send, self.receive))
        return (send * receive.sum(1, keepdims=True)).ravel(), (receive * send.sum(1, keepdims=True)).ravel()


@dataclass(frozen=True)
class PairTraffic:
    """Bytes from rank i to rank j as a full matrix (ranks, ranks): what an observed batch gives."""

    pairs: Array

    def split(self, layout: Layout, group: Group) -> dict[str, tuple[Array, Array]]:
        node = layout.node_of
        same_node = node[:, None] == node[None, :]
        others = self._inside(layout, group) & ~np.eye(layout.ranks, dtype=bool)
        result: dict[str, tuple[Array, Array]] = {}
        for name, mask in (("scale_up", others & same_node), ("scale_out", others & ~same_node)):
            if (name, group) not in {("scale_up", "rail"), ("scale_out", "node")}:
                masked = np.where(mask, self.pairs, 0.0)
                result[name] = (masked.sum(1), masked.sum(0))
        return result

    def totals(self, layout: Layout, group: Group) -> tuple[Array, Array]:
        inside = np.where(self._inside(layout, group), self.pairs, 0.0)
        return inside.sum(1), inside.sum(0)

    @staticmethod
    def _inside(layout: Layout, group: Group) -> npt.NDArray[np.bool_]:
        inside = np.zeros((layout.ranks, layout.ranks), dtype=bool)
        for row in layout.members(group):
            inside[np.ix_(row, row)] = True
        return inside


class Work(Protocol):
    """What one op does on every rank. A new kind of work is one frozen dataclass with these three methods."""

    def flops(self) -> Array:
        """Floating-point operations per rank (multiply and add count as two)."""
        ...

    def memory_bytes(self) -> dict[Tier, Array]:
        """Bytes demanded of each memory tier per rank (before any cache filters them)."""
        ...

    def wire_bytes(self) -> dict[str, Array]:
        """Bytes that each rank sends on "scale_up" and "scale_out" links."""
        ...


class _Local:
    """Work that stays on its rank."""

    __slots__ = ()

    def wire_bytes(self) -> dict[str, Array]:
        return {}


def _as_array(x: Array | float) -> Array:
    return np.atleast_1d(np.asarray(x, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Gemm(_Local):
    """C[m, n] = op(A) op(B), reduction over k, with an optional fused epilogue.

    `epilogue`: "" (none), "bias", "bias_relu" (forward), "relu_grad" (mask by the saved output),
    "bias_grad" (also reduces the gradient over the batch into the bias gradient, beside the product).
    "add" (also adds the further operands).
    `epilogue_reads` / `epilogue_writes` are the extra elements that it touches. `output_dtype`: what the results are
    written as, when not as `dtype` (weight gradients in the format of their all-reduce).
    """

    m: Array
    n: Array
    k: Array
    dtype: Dtype
    transpose_a: bool = False
    transpose_b: bool = False
    epilogue: str = ""
    epilogue_reads: Array = field(default_factory=lambda: np.zeros(1))
    epilogue_writes: Array = field(default_factory=lambda: np.zeros(1))
    output_dtype: Dtype | None = None

    def flops(self) -> Array:
        return 2.0 * self.m * self.n * self.k

    def memory_bytes(self) -> dict[Tier, Array]:
        read = self.m * self.k + self.k * self.n + self.epilogue_reads
        written = self.m * self.n + self.epilogue_writes
        return {"hbm": read * itemsize(self.dtype) + written * itemsize(self.output_dtype or self.dtype)}


@dataclass(frozen=True, slots=True)
class Products(_Local):
    """`steps` kernels one after the other, each of `count` products C[m, n] = A[m, k] B[k, n]: the time steps of a
    recurrent layer, the samples of an attention. `accumulate`: added to what C holds, which is read for it; `added`:
    further elements, over all steps, that the sum goes with. `output_dtype`: as in `Gemm`."""

    m: Array
    n: Array
    k: Array
    count: Array
    steps: int
    dtype: Dtype
    accumulate: bool = False
    added: Array = field(default_factory=lambda: np.zeros(1))
    output_dtype: Dtype | None = None

    def flops(self) -> Array:
        return 2.0 * self.m * self.n * self.k * self.count * self.steps

    def memory_bytes(self) -> dict[Tier, Array]:
        times = self.count * self.steps
        written = self.m * self.n * times
        read = (self.m * self.k + self.k * self.n) * times + self.added + (written if self.accumulate else 0.0)
        return {"hbm": read * itemsize(self.dtype) + written * itemsize(self.output_dtype or self.dtype)}


@dataclass(frozen=True, slots=True)
class Convolution(_Local):
    """A convolution as the product C[m, n] = A[m, k] B[k, n] that it amounts to. A is the input, of which a kernel
    larger than one uses each element several times, but reads it from memory once: `read` and `written` elements move.
    `output_dtype`: as in `Gemm`."""

    m: Array
    n: Array
    k: Array
    read: Array
    written: Array
    dtype: Dtype
    output_dtype: Dtype | None = None

    def flops(self) -> Array:
        """Whole, also where k is a mean over places of the input."""
        return np.rint(2.0 * self.m * self.n * self.k)

    def memory_bytes(self) -> dict[Tier, Array]:
        return {"hbm": self.read * itemsize(self.dtype) + self.written * itemsize(self.output_dtype or self.dtype)}


@dataclass(frozen=True, slots=True)
class Elementwise(_Local):
    """A bandwidth-bound kernel: `function` names what it computes (the executor's registry), its operands are the
    op's reads and writes. Elements read and written per rank, each in its own precision, and operations done.
    `kernels`: how many the work is cut into, one after the other."""

    function: str
    read_bytes: Array
    written_bytes: Array
    operations: Array
    dtype: Dtype
    arguments: Mapping[str, float | str] = field(default_factory=dict)
    kernels: int = 1

    def flops(self) -> Array:
        return self.operations

    def memory_bytes(self) -> dict[Tier, Array]:
        return {"hbm": self.read_bytes + self.written_bytes}


@dataclass(frozen=True, slots=True)
class DotInteraction(_Local):
    """Pairwise dot products of `features` vectors of width `dim` for each sample: Z = X X^T, of which the strict
    lower triangle is kept beside the first vector. Backward: dX = (dZ + dZ^T) X. DLRM, arXiv 1906.00091, section 2."""

    batch: Array
    features: int
    dim: int
    dtype: Dtype
    backward: bool = False

    def flops(self) -> Array:
        return 2.0 * self.batch * self.features * self.features * self.dim

    def memory_bytes(self) -> dict[Tier, Array]:
        vectors = float(self.features * self.dim)
        kept = self.features * (self.features - 1) / 2 + self.dim
        return {"hbm": self.batch * (vectors * (2 if self.backward else 1) + kept) * itemsize(self.dtype)}


@dataclass(frozen=True, slots=True)
class EmbeddingLookup(_Local):
    """Fused pooled lookup of all local shards of one route: output[bag] = sum of rows[index in bag].

    All arrays per rank: `indices` read, `bags` produced, `row_bytes` demanded and `unique_row_bytes` distinct per
    tier (both at sector granularity), `output_elements`, `operations` (one add per element gathered). Of every tier but
    HBM: `rows` read in place, one request each, the `sums` that they go to, and the bytes of those sums.
    """

    route: str
    indices: Array
    bags: Array
    row_bytes: Mapping[Tier, Array]
    unique_row_bytes: Mapping[Tier, Array]
    output_elements: Array
    operations: Array
    index_dtype: Dtype
    length_dtype: Dtype
    output_dtype: Dtype
    rows: Mapping[Tier, Array] = field(default_factory=dict)
    sums: Mapping[Tier, Array] = field(default_factory=dict)
    sum_bytes: Mapping[Tier, Array] = field(default_factory=dict)

    def flops(self) -> Array:
        return self.operations

    def streamed_bytes(self) -> Array:
        """Indices and bag lengths read, pooled vectors written: sequential HBM traffic."""
        return (
            self.indices * itemsize(self.index_dtype)
            + self.bags * itemsize(self.length_dtype)
            + self.output_elements * itemsize(self.output_dtype)
        )

    def memory_bytes(self) -> dict[Tier, Array]:
        return _add_hbm(self.row_bytes, self.streamed_bytes())


@dataclass(frozen=True, slots=True)
class EmbeddingUpdate(_Local):
    """Exact update of the rows that a batch touched: gradients of equal indices are summed (sort, segment sum), then
    each distinct row and its optimizer state is read, stepped and written once.

    All arrays per rank: `indices` sorted, `gradient_bytes` gathered (one pooled gradient row per index),
    `gradient_unique_bytes` (the gradient buffer itself), `row_bytes` and `state_bytes` read plus written per tier.
    `rows`: rows, each with its state beside it, that are read and written in place in every tier but HBM.
    """

    route: str
    indices: Array
    bags: Array
    gradient_bytes: Array
    gradient_unique_bytes: Array
    row_bytes: Mapping[Tier, Array]
    state_bytes: Mapping[Tier, Array]
    operations: Array
    index_dtype: Dtype
    length_dtype: Dtype
    rows: Mapping[Tier, Array] = field(default_factory=dict)

    def flops(self) -> Array:
        return self.operations

    def streamed_bytes(self) -> Array:
        """Indices and bag lengths read sequentially."""
        return self.indices * itemsize(self.index_dtype) + self.bags * itemsize(self.length_dtype)

    def memory_bytes(self) -> dict[Tier, Array]:
        tiers: dict[Tier, Array] = {t: self.row_bytes[t] + self.state_bytes[t] for t in self.row_bytes}
        return _add_hbm(tiers, self.streamed_bytes() + self.gradient_bytes)


@dataclass(frozen=True, slots=True)
class EmbeddingScatterAdd(_Local):
    """Adds one row of gradients per index to the rows of the tables, one after the other (atomic additions).

    All arrays per rank: `indices` and `gradient_bytes` read; per tier `row_bytes` demanded and `unique_row_bytes`
    distinct, each read and written back (so twice the bytes of a lookup); one `operation` per element added. `rows`:
    rows that are read and written in place in every tier but HBM.
    """

    route: str
    indices: Array
    gradient_bytes: Array
    row_bytes: Mapping[Tier, Array]
    unique_row_bytes: Mapping[Tier, Array]
    operations: Array
    index_dtype: Dtype
    rows: Mapping[Tier, Array] = field(default_factory=dict)

    def flops(self) -> Array:
        return self.operations

    def streamed_bytes(self) -> Array:
        """Indices and gradient rows, read sequentially."""
        return self.indices * itemsize(self.index_dtype) + self.gradient_bytes

    def memory_bytes(self) -> dict[Tier, Array]:
        return _add_hbm(self.row_bytes, self.streamed_bytes())


@dataclass(frozen=True, slots=True)
class HostIssue(_Local):
    """The device idles while its host, having waited for it, issues what comes next: `iterations` times a whole
    iteration begins (copies into static buffers, the launch of a graph), and `calls` kernels are issued one by one."""

    calls: float = 0.0
    iterations: float = 0.0

    def flops(self) -> Array:
        return np.zeros(1)

    def memory_bytes(self) -> dict[Tier, Array]:
        return {}


def _add_hbm(tiers: Mapping[Tier, Array], extra: Array) -> dict[Tier, Array]:
    result = dict(tiers)
    result["hbm"] = result.get("hbm", np.zeros(1)) + extra
    return result


@dataclass(frozen=True, slots=True)
class CacheProbe(_Local):
    """Find a batch's rows in the caches of one route: distinct ids of its indices (a sort), then tags of their sets, of
    those that a cache lacks the tags of the next below it.

    Per rank: `indices` read as `index_dtype`, `rows` distinct ids written, `asked` rows looked for in the caches of
    every tier, `tag_bytes` read.
    """

    route: str
    indices: Array
    rows: Array
    asked: Mapping[Tier, Array]
    tag_bytes: Array
    index_dtype: Dtype

    def flops(self) -> Array:
        return np.zeros(1)

    def streamed_bytes(self) -> Array:
        """Indices read, distinct ids written, tags read."""
        return (self.indices + self.rows) * itemsize(self.index_dtype) + self.tag_bytes

    def memory_bytes(self) -> dict[Tier, Array]:
        return {"hbm": self.streamed_bytes()}


@dataclass(frozen=True, slots=True)
class RowMove(_Local):
    """Rows of one route with their optimizer state between the tiers that are their home and those that cache them.

    Per rank and path `lower:upper`: `units` moved, one request each, and their `bytes`; the upper is a cache, the lower
    the next cache or the home. A unit is a row, or a page of them. `home`: units among them that leave or reach their
    home. `write_back`: down, else up. `faults`: pages among them that the device faulted on.
    """

    route: str
    units: Mapping[str, Array]
    bytes: Mapping[str, Array]
    home: Array
    write_back: bool = False
    faults: Array = field(default_factory=lambda: np.zeros(1))

    def flops(self) -> Array:
        return np.zeros(1)

    def memory_bytes(self) -> dict[Tier, Array]:
        total: dict[Tier, Array] = {}
        for path, amount in self.bytes.items():
            for tier in path.split(":"):
                total[tier] = total.get(tier, np.zeros(1)) + amount
        return total

    def requests(self) -> dict[tuple[Tier, str], tuple[Array, Array]]:
        """{(tier, "read" | "write"): (bytes, requests)} of what every tier is asked for."""
        total: dict[tuple[Tier, str], tuple[Array, Array]] = {}
        ways = ("write", "read") if self.write_back else ("read", "write")
        for path, amount in self.bytes.items():
            for key in zip(path.split(":"), ways, strict=True):
                bytes_, units = total.get(key, (np.zeros(1), np.zeros(1)))
                total[key] = (bytes_ + amount, units + self.units[path])
        return total


@dataclass(frozen=True, slots=True)
class HostCopy(_Local):
    """`bytes` per rank copied from host memory, pinned or `pageable`, into the device's own over their link."""

    bytes: Array
    pageable: bool = False

    def flops(self) -> Array:
        return np.zeros(1)

    def memory_bytes(self) -> dict[Tier, Array]:
        return {"ddr": self.bytes, "hbm": self.bytes}


@dataclass(frozen=True)
class Collective:
    """All-reduce, reduce-scatter or all-gather of one buffer over every group of a partition of the ranks.

    `blocks` (ranks,) holds the elements of the block that each rank owns: reduce-scatter takes in all blocks of its
    group and leaves a rank its own; all-gather the reverse; all-reduce is both. The buffer travels as `dtype`.
    """

    kind: CollectiveKind
    group: Group
    algorithm: Algorithm
    blocks: Array
    dtype: Dtype
    layout: Layout

    @cached_property
    def buffer_elements(self) -> Array:
        """Elements of the full buffer of each rank's group, (ranks,)."""
        totals = np.empty(self.layout.ranks)
        for row in self.layout.members(self.group):
            totals[row] = self.blocks[row].sum()
        return totals

    @property
    def input_bytes(self) -> Array:
        """Bytes each rank brings: its block (all-gather) or the full buffer."""
        return (self.blocks if self.kind == "all_gather" else self.buffer_elements) * itemsize(self.dtype)

    def flops(self) -> Array:
        return np.zeros(1)

    def memory_bytes(self) -> dict[Tier, Array]:
        output = self.blocks if self.kind == "reduce_scatter" else self.buffer_elements
        return {"hbm": self.input_bytes + output * itemsize(self.dtype)}

    def wire_bytes(self) -> dict[str, Array]:
        sent = volume.sent_bytes(self.kind, self.algorithm, self.blocks, self.layout.local_size, self.group)
        return {dim: elements * itemsize(self.dtype) for dim, elements in sent.items()}


@dataclass(frozen=True)
class AllToAll:
    """Every rank of a group sends a different message to every other; uneven messages are the normal case."""

    group: Group
    traffic: Traffic
    dtype: Dtype
    layout: Layout

    def flops(self) -> Array:
        return np.zeros(1)

    def memory_bytes(self) -> dict[Tier, Array]:
        sent, received = self.traffic.totals(self.layout, self.group)
        return {"hbm": sent + received}

    def wire_bytes(self) -> dict[str, Array]:
        return {dim: sent for dim, (sent, _) in self.traffic.split(self.layout, self.group).items()}


@dataclass(frozen=True, slots=True)
class Op:
    """One step of every rank. Order within a stream, and reads after writes of buffers, are its dependencies."""

    name: str
    phase: Phase
    work: Work
    streams: tuple[Stream, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """A named piece of memory on every rank: `elements` (ranks,) or (1,) of `dtype` in `tier`.

    A `prefetched` buffer is written one iteration before it is read, or earlier, and so is held in `copies`.
    """

    name: str
    role: Role
    elements: Array
    dtype: Dtype
    tier: Tier = "hbm"
    prefetched: bool = False
    copies: int = 2

    @property
    def bytes(self) -> Array:
        return self.elements * itemsize(self.dtype) * (self.copies if self.prefetched else 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """Ops in issue order, the buffers they read and write, and how the ranks sit on nodes. Compared by identity.

    `bottom_rank`: the rank that runs the layers below the interaction for the whole batch; None: each for its samples.
    """

    ops: tuple[Op, ...]
    buffers: Mapping[str, Buffer]
    layout: Layout
    local_batch: Array
    graph_capture: bool = True
    bottom_rank: int | None = None

    def __repr__(self) -> str:
        return f"<Program: {len(self.ops):,} ops on {self.ranks:,} ranks>"

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    def op(self, name: str) -> Op:
        """The op called `name`; KeyError when there is none."""
        return next(o for o in self.ops if o.name == name)
