"""TorchRec's planner cost, so that plans are compared under its own yardstick.

Formulas and constants: torchrec 1.8.0, torchrec/distributed/planner: constants.py, shard_estimators.py,
storage_reservations.py and estimator/estimator.py, restated. Bandwidths in bytes/ms, times in ms. Every function
broadcasts over options.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array, Num

_GIB_PER_S = 1024**3 / 1000.0  # bytes per millisecond
INTRA_NODE = 600 * _GIB_PER_S
CROSS_NODE = 12.5 * _GIB_PER_S
HBM_BANDWIDTH = 897 * _GIB_PER_S
DDR_BANDWIDTH = 51 * _GIB_PER_S
SSD_BANDWIDTH = 100 * 1024**2 / 1000.0
HBM_TO_DDR = 32 * _GIB_PER_S
CACHING_RATIO = 0.2
MIN_COLUMNS = 128
"""Columns of a column-wise shard are at least this many, unless the caller allows fewer."""
INDEX_BYTES = 8.0
BATCHED_COPY = 2.455
DATA_PARALLEL_KERNELS = 9.22
WEIGHTED_KERNEL = 1.1
RESERVED_SHARE = 0.15
INPUT_COPIES = 20
"""Copies of the input of a batch that TorchRec's heuristic reserves on every rank."""
CACHE_ROW_BYTES, CACHED_ROW_BYTES = 4.0, 16.0
_NARROW = 32
"""Lookup kernels of unsplit rows read at least this many columns."""

KINDS = (
    "table_wise",
    "column_wise",
    "table_column_wise",
    "row_wise",
    "table_row_wise",
    "grid_shard",
    "data_parallel",
)
KERNELS = ("fused", "fused_uvm", "fused_uvm_caching", "key_value", "dense")


@dataclass(frozen=True)
class Topology:
    """Ranks, ranks per host, and bytes of HBM and DDR per rank."""

    world_size: int
    local_world_size: int
    hbm_cap: float = 32 * 1024.0**3
    ddr_cap: float = 128 * 1024.0**3
    compute_device: str = "cuda"

    @property
    def hosts(self) -> int:
        """Hosts, at least one."""
        return max(1, self.world_size // self.local_world_size)

    def between(self, world: float, local: float) -> float:
        """Bandwidth of a collective over `world` ranks, `local` of them on a host."""
        return INTRA_NODE if world <= local else CROSS_NODE


@dataclass(frozen=True)
class Perf:
    """Milliseconds of one shard of each option. Input distribution is shown but not part of the total."""

    fwd_compute: Array
    fwd_comms: Array
    bwd_compute: Array
    bwd_comms: Array
    input_dist_comms: Array

    @property
    def total(self) -> Array:
        """What TorchRec adds up per rank."""
        return np.asarray(self.fwd_compute + self.bwd_compute + self.fwd_comms + self.bwd_comms)


@dataclass(frozen=True)
class Storage:
    """Bytes of one shard of each option."""

    hbm: Array
    ddr: Array
    ssd: Array


def bandwidth(kernel: str, device: str = "cuda", caching: Num = CACHING_RATIO) -> Num:
    """Bytes per ms at which a compute kernel reads tables; `caching`: share of a table that its cache holds."""
    if device == "cpu":
        return {"dense": 0.5 * DDR_BANDWIDTH, "fused": DDR_BANDWIDTH}[kernel]
    if kernel == "fused_uvm_caching":
        return (caching * HBM_BANDWIDTH + (1 - caching) * HBM_TO_DDR) / 10
    return {
        "dense": 0.5 * HBM_BANDWIDTH,
        "fused": HBM_BANDWIDTH,
        "fused_uvm": HBM_TO_DDR / 10,
        "key_value": SSD_BANDWIDTH,
    }[kernel]


def block_penalty(columns: Array) -> Array:
    """Slow-down of lookups whose rows do not fill a 128-wide block."""
    return np.where(columns >= 128, 1.0, np.where(columns >= 64, 1.15, 1.75))


def inputs(pooling: Array, batch: int) -> tuple[Array, Array]:
    """Indices and pooled rows of one rank's batch, per table."""
    return pooling * 1.0 * batch, np.minimum(1.0, pooling) * 1.0 * batch


def perf(
    kind: str,
    topology: Topology,
    batch: int,
    rows: Array,
    columns: Array,
    pooling: Array,
    *,
    kernel_bandwidth: Num,
    element: float = 4.0,
    weighted: bool | npt.NDArray[np.bool_] = False,
) -> Perf:
    """Times of a shard `columns` wide. `kernel_bandwidth` may carry a leading axis over kernels; `weighted`: whether
    lookups have weights."""
    world, local, hosts = topology.world_size, topology.local_world_size, topology.hosts
    indices, pooled = inputs(pooling, batch)
    bw = np.asarray(kernel_bandwidth)
    wire = topology.between(world, local)
    columns = np.asarray(columns, dtype=np.float64)
    zero = np.zeros(np.broadcast_shapes(np.shape(indices), np.shape(columns)))
    scale = np.where(weighted, 2.0, 1.0)
    penalty: Array | float = 1.0
    distributed = np.ceil(indices * world * INDEX_BYTES) / wire
    if kind in ("table_wise", "column_wise", "table_column_wise"):
        read = np.ceil(indices * world * INDEX_BYTES) * scale
        lookup = indices * world * np.maximum(columns, _NARROW) * element
        out = pooled * world * columns * element
        penalty = block_penalty(columns)
        fwd_comms = bwd_comms = out / wire
    elif kind == "row_wise":
        read = np.ceil(indices * INDEX_BYTES) * scale
        lookup = indices * columns * element
        out = pooled * world * columns * element
        fwd_comms = out / wire
        bwd_comms = out / wire + out * BATCHED_COPY / bw
        distributed = np.ceil(indices * world * INDEX_BYTES) / wire
    elif kind in ("table_row_wise", "grid_shard"):
        share = indices / local * world
        read = np.ceil(share * INDEX_BYTES) * scale
        lookup = share * columns * element
        out = pooled * world * columns * element
        inside = out / topology.between(local, local)
        across = pooled * hosts * columns * element / topology.between(hosts, 1) if hosts > 1 else zero
        fwd_comms = inside + across
        bwd_comms = across + inside + out * BATCHED_COPY / bw
    else:
        read = np.ceil(indices * INDEX_BYTES) * scale
        lookup = indices * columns * element
        out = pooled * columns * element
        nodes = min(world / local, 2)
        table = rows * columns * element
        reduce = table * (2 * nodes - 1) / nodes / (CROSS_NODE * local)
        if world > 2 * local:
            reduce = reduce * 2
        fwd_comms = zero
        bwd_comms = reduce + table * DATA_PARALLEL_KERNELS / bw
        distributed = zero
    compute = (read + lookup + out) * penalty / bw
    backward = np.where(weighted, compute * 2 * 1 + compute * WEIGHTED_KERNEL, compute * 2)
    shape = np.shape(compute)
    return Perf(
        compute,
        np.broadcast_to(fwd_comms, shape),
        backward,
        np.broadcast_to(bwd_comms, shape),
        np.broadcast_to(distributed, shape),
    )


def shard_io(kind: str, topology: Topology, batch: int, columns: Array, pooling: Array, element: float = 4.0) -> Array:
    """Input and output bytes of one shard."""
    world, local = topology.world_size, topology.local_world_size
    indices, pooled = inputs(pooling, batch)
    share = {"row_wise": indices, "data_parallel": indices, "table_row_wise": indices / local * world}
    share["grid_shard"] = share["table_row_wise"]
    out = pooled * (1 if kind == "data_parallel" else world) * columns * element
    return np.ceil(share.get(kind, indices * world) * INDEX_BYTES) + np.ceil(out)


def storage(
    kernel: str,
    io: Array,
    shard_rows: Array,
    columns: Array,
    rows: Array,
    dim: Array,
    *,
    element: float = 4.0,
    optimizer: float = 0.0,
    device: str = "cuda",
    caching: Num = CACHING_RATIO,
) -> Storage:
    """Bytes of a shard of `shard_rows` x `columns` of a table of `rows` x `dim`. `optimizer`: state per table byte;
    `caching`: share of a table that its cache holds."""
    elements = np.maximum(np.asarray(rows, dtype=np.float64) * dim, 1.0)
    part = shard_rows * columns
    held = shard_rows * columns > 0
    io = np.where(held, io, 0.0)
    zero = np.zeros(np.shape(io))
    tensor = np.ceil(part * element)
    state = np.ceil(tensor * optimizer)
    if device == "cpu":
        return Storage(zero, tensor + state + io, zero)
    if kernel in ("fused", "dense"):
        return Storage(tensor + state + io, zero, zero)
    if kernel == "fused_uvm":
        return Storage(io, tensor + state, zero)
    aux = np.ceil(shard_rows * (CACHE_ROW_BYTES + caching * CACHED_ROW_BYTES))
    if kernel == "fused_uvm_caching":
        share = np.round(np.asarray(rows, dtype=np.float64) * dim * element * caching)
        # products are beyond 2^53, and TorchRec's are of whole numbers
        cached = np.ceil((share.astype(np.longdouble) * part / elements).astype(np.float64))
        return Storage(cached + np.ceil(cached * optimizer) + io + aux, tensor + state, zero)
    return Storage(io, zero, tensor + state + aux)


def column_block(dim: int, least: int = MIN_COLUMNS) -> int:
    """Width of TorchRec's column shards: the smallest divisor >= `least` that is a multiple of four, else `dim`."""
    return next((i for i in range(max(least, 1), dim) if dim % i == 0 and i % 4 == 0), dim)


def column_splits(dim: int, least: int = MIN_COLUMNS) -> list[int]:
    """All widths that columns can be cut to, ascending, without `dim` itself."""
    return [i for i in range(max(least, 4), dim // 2 + 1) if dim % i == 0 and i % 4 == 0]


def usable_hbm(topology: Topology, batch: int, pooling: Array, reserved: float = RESERVED_SHARE) -> float:
    """HBM that shards may fill: the cap less a share and less what TorchRec reserves for input."""
    total = int((1 - reserved) * topology.hbm_cap)
    if topology.compute_device == "cpu":
        return 0.0
    return float(total - np.ceil(np.sum(pooling * batch) * INDEX_BYTES) * INPUT_COPIES)


def row_block(rows: npt.NDArray[np.int64], members: int) -> npt.NDArray[np.int64]:
    """Rows of every full block when rows are cut over `members`; the last ones are short or empty."""
    return np.asarray(-(-rows // members))
