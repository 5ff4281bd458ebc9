"""Law of a matrix product on a GPU: tiles, waves, split-K, operand loads, and memory, with ten constants.

C[m, n] = A[m, k] B[k, n], `batch` times in one kernel. A library cuts C into tiles, one block of threads each, may
split k over several blocks, and picks tile and split by a heuristic. The law prices every pair of `TILES` x `SPLITS`
and takes the fastest:

    t = launch + min over (tile, split) of  max(X, M) + exposed * min(X, M) + L

    X = max(waves * operations of a tile / (peak_fraction * peak / SMs),    arithmetic
            waves * operand bytes of a tile / (load_width * clock),         loads into an SM
            rounds * steps * STEP_CYCLES / clock)                           latency of the k-loop
    M = bytes from memory / bandwidth + cached bytes / L2 rate              see `memory_time`
    L = start of the kernel, filling and draining of tiles, and split-K: its second kernel, its partial sums in the L2

What is not hidden behind the longer of X and M is `exposed` (0: perfect overlap, 1: none). Every term falls when a
peak, a bandwidth, the clock or the L2 grows, so time is monotone in the hardware; and X >= 2 m n k batch / peak,
M >= uncached bytes / bandwidth, so no physical bound is beaten.

Constants are fractions, bytes per cycle and cycles, so that they carry over to a GPU known by its datasheet. The
tiles, splits and the other module values are shared by all GPUs: they stand for the libraries (cuBLAS and its kin),
not for silicon. Fitted and judged by `archmodel.calibrate.gpu`.

Mean absolute error on the half of the measured bf16 tables that was not fitted: 6.5 % on A100, 4.8 % on H100; worst
where libraries choose least predictably (A100: 10 % for k <= 256, 9 % for n <= 64). With the other GPU's constants,
which is all that a datasheet allows: 21 % on H100 (A100's, biased +15 %), 15 % on A100 (H100's, biased -12 %).

All functions broadcast, and none holds an array larger than its arguments broadcast to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array, Num

TILES: tuple[tuple[int, int], ...] = (
    (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64),
)  # fmt: skip
"""Rows and columns of C that one block computes: shapes that CUTLASS and cuBLAS offer, few enough to be fast. Tiles of
the same area in other shapes (64 x 256, 32 x 128), and smaller ones, did not lower the error of the fit."""

VECTOR_TILE = (1, 4)
"""The tile of matrix-vector kernels (m = 1), whose threads also split k."""
VECTOR_STEPS = 8
"""Steps of other kernels that theirs is as deep as: a warp of 32 threads loads 16 bytes each, 512 in all."""

SPLITS: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Blocks that share the k of one tile."""
SPLIT_LEAST = 256.0
"""Least k that a block of a split works through: finer splits take as long as this one."""

STEP_BYTES = 64
"""Depth of one step of the k-loop: 32 elements of 16 bits."""
STEP_CYCLES = 80.0
"""Cycles between steps of one block when nothing else limits it. Fitted apart it came to 82 on H100, and did not matter
on A100."""
FILL_STEPS = 12
"""Steps after which the pipeline of a tile is full; shorter loops pay that part of filling and draining."""
PAIRED_AREA = 128 * 128
"""Tiles of at most this area run two to an SM, and waves of them come in pairs."""
CACHE_SHARE = 0.5
"""Share of the L2 that operands keep between uses. Between one and two times that, what stays falls linearly to 0."""
CACHED_LOADS = 0.5
"""Rate of L2 hits in units of `load_width`: an operand that waits in the L2 rather than being shared by neighbours.
Fitted apart on A100 and H100 it came to 0.501 and 0.502."""
PANEL = 0.5
"""Side of the square of C whose blocks share operand panels, over the side of a whole wave of 256 x 128 tiles."""
PARTIAL_BYTES = 16.0
"""L2 traffic of split-K per block and element of C: float32 partial sums written, read, and the sum written back."""
WEIGHT_COPIES = 6.0
"""Weight matrices that the measured tables cycle through, so that one finds its weights evicted if six do not fit."""


class Constants(NamedTuple):
    """Calibrated constants of a GPU; `archmodel.components.gpu.GemmConstants` says what each is."""

    peak_fraction: Num
    read_fraction: Num
    write_fraction: Num
    load_width: Num
    start_cycles: Num
    fill_cycles: Num
    wave_cycles: Num
    split_cycles: Num
    tail: Num
    exposed: Num


class Chip(NamedTuple):
    """What a datasheet says: FLOP/s in the precision used, B/s, Hz, bytes, and the number of SMs."""

    peak: Num
    bandwidth: Num
    clock: Num
    l2_capacity: Num
    sm_count: int


class Product(NamedTuple):
    """Shape of C[m, n] = A[m, k] B[k, n], done `batch` times; bytes of an element; whether B is A transposed."""

    m: Num
    n: Num
    k: Num
    batch: Num
    itemsize: int
    gram: bool = False


class Tile(NamedTuple):
    """A way to do a product: rows and columns of C that a block computes, splits of k, `STEP_BYTES` per step."""

    rows: Num
    columns: Num
    split: Num
    depth: Num


class Ask(NamedTuple):
    """What a way asks of a chip: operations (of its peak), and cycles of loads, of k-loop latency and of overhead.

    `loads` and `loop` run while the arithmetic does, `overhead` beside it. The vector tile has infinite overhead for
    m > 1: it is no way to go.
    """

    operations: Num
    loads: Num
    loop: Num
    overhead: Num


# --- waves ---------------------------------------------------------------------------------------------------


def rounds(load: Num, tail: Num) -> Num:
    """Rounds that `load` blocks per place take: at least one, and a last, partly filled round of share f costs
    tail + (1 - tail) f. `tail` = 1: whole waves, ceil(load); 0: work moves freely to idle SMs."""
    full = np.floor(load)
    part = load - full
    taken: Num = np.maximum(1.0, full + np.where(part > 0, tail + (1.0 - tail) * part, 0.0))
    return taken


def waves(blocks: Num, sm_count: int, paired: Any, tail: Num) -> Num:
    """Tiles that the busiest SM computes one after the other, for `blocks` over all SMs.

    Where `paired` (bool or array of it), two blocks run on an SM at once: beyond one each, they end in pairs.
    """
    load = blocks / sm_count
    single = rounds(load, tail)
    double = np.maximum(single, 2.0 * rounds(load / 2.0, tail))
    return np.where(np.logical_and(paired, load > 2.0), double, single)


# --- memory --------------------------------------------------------------------------------------------------


def resident(bytes_: Num, l2_capacity: Num) -> Num:
    """Share of `bytes_` still in the L2 when read again: all of up to `CACHE_SHARE` of it, nothing of twice that."""
    return np.minimum(np.maximum(2.0 - bytes_ / (CACHE_SHARE * l2_capacity), 0.0), 1.0)


def memory_time(product: Product, chip: Chip, constants: Constants, warm: bool) -> Num:
    """Seconds to bring A and B and to write C (`M` above).

    Blocks that run together share operand panels as far as a square of C with side `PANEL` times that of a wave
    reaches; further squares read A (or B) again, from memory unless it stays in the L2. Of a Gram matrix, A A^T, the
    second operand is in the L2 with the first.

    `warm`: as in a benchmark that repeats one product, A is still in the L2 as far as it fits, and so are weights B as
    far as `WEIGHT_COPIES` of them fit. Otherwise both come from memory once. Outputs are always written to memory.
    """
    m, n, k, batch, itemsize, gram = product
    a, b, c = m * k * batch * itemsize, k * n * batch * itemsize * (not gram), m * n * batch * itemsize
    stays_a, stays_b = resident(a, chip.l2_capacity), resident(b, chip.l2_capacity)
    found_a, found_b = (stays_a, resident(WEIGHT_COPIES * b, chip.l2_capacity)) if warm else (0.0, 0.0)
    side = PANEL * math.sqrt(chip.sm_count * 256.0 * 128.0)
    again_a, again_b = np.maximum(n / side, 1.0) - 1.0, np.maximum(m / side, 1.0) - 1.0
    read = a * ((1.0 - found_a) + again_a * (1.0 - stays_a)) + b * ((1.0 - found_b) + again_b * (1.0 - stays_b))
    cached = a * found_a + b * found_b
    reading = constants.read_fraction * chip.bandwidth
    hitting = np.maximum(CACHED_LOADS * constants.load_width * chip.sm_count * chip.clock, reading)
    return read / reading + cached / hitting + c / (constants.write_fraction * chip.bandwidth)


# --- ways to do a product ------------------------------------------------------------------------------------

WAYS: tuple[Tile, ...] = (
    *(Tile(float(m), float(n), float(split), 1.0) for m, n in TILES for split in SPLITS),
    Tile(float(VECTOR_TILE[0]), float(VECTOR_TILE[1]), 1.0, float(VECTOR_STEPS)),
)


def ask(product: Product, tile: Tile, sm_count: int, constants: Constants) -> Ask:
    """What doing `product` by `tile` asks of a GPU with `sm_count` SMs, whatever its rates."""
    m, n, k, batch, itemsize, _ = product
    step = STEP_BYTES / itemsize * tile.depth
    splits = np.greater(tile.split, 1.0)
    steps = np.ceil(np.where(splits, np.maximum(k / tile.split, SPLIT_LEAST), k) / step)
    depth = steps * step
    blocks = np.ceil(m / tile.rows) * np.ceil(n / tile.columns) * batch * tile.split
    tiles = waves(blocks, sm_count, tile.rows * tile.columns <= PAIRED_AREA, constants.tail)
    usable = np.greater(tile.rows, 1.0) | np.less_equal(m, 1.0)
    filling = (constants.fill_cycles + constants.wave_cycles * (tiles - 1.0)) * np.minimum(steps / FILL_STEPS, 1.0)
    partial = PARTIAL_BYTES * tile.split * m * n * batch / (constants.load_width * sm_count)
    overhead = constants.start_cycles + filling + np.where(splits, constants.split_cycles + partial, 0.0)
    return Ask(
        operations=tiles * (2.0 * tile.rows * tile.columns) * depth * sm_count / constants.peak_fraction,
        loads=tiles * (tile.rows + tile.columns) * depth * itemsize / constants.load_width,
        loop=np.ceil(blocks / sm_count) * steps * STEP_CYCLES,
        overhead=np.where(usable, overhead, np.inf),
    )


def asks(product: Product, sm_count: int, constants: Constants) -> Iterable[Ask]:
    """The asks of all `WAYS`; for a single product of those that may win, kept from call to call."""
    values = (*product[:4], *constants)
    if any(np.size(x) != 1 for x in values):
        return (ask(product, tile, sm_count, constants) for tile in WAYS)
    m, n, k, batch, *floats = (float(np.asarray(x).item()) for x in values)
    return _worthwhile(Product(m, n, k, batch, product.itemsize), sm_count, Constants(*floats))


_TABLE = Tile(*(np.array(column) for column in zip(*WAYS, strict=True)))


@lru_cache(maxsize=65536)
def _worthwhile(product: Product, sm_count: int, constants: Constants) -> tuple[Ask, ...]:
    found = ask(product, _TABLE, sm_count, constants)
    keep = unbeaten(found)
    return tuple(Ask(*way) for way in zip(*(np.broadcast_to(x, keep.shape)[keep].tolist() for x in found), strict=True))


def unbeaten(found: Ask) -> npt.NDArray[np.bool_]:
    """Which of the ways (ways,) some chip may find fastest; of equal ones, one.

    Exact, since time grows with operations, with the longer of loads and loop, with overhead, and with nothing else.
    """
    operations, overhead = np.asarray(found.operations), np.asarray(found.overhead)
    inner = np.asarray(np.maximum(found.loads, found.loop))
    order = np.lexsort((inner, operations, overhead))
    no_worse = np.ones((order.size, order.size), dtype=bool)
    for need in (operations[order], inner[order], overhead[order]):
        no_worse &= need[:, None] <= need
    beaten = np.triu(no_worse, 1).any(axis=0) | np.isinf(overhead[order])
    keep = np.empty(order.size, dtype=bool)
    keep[order] = ~beaten
    return keep


# --- time ----------------------------------------------------------------------------------------------------


def gemm(product: Product, chip: Chip, constants: Constants, *, warm: bool = False) -> dict[str, Num]:
    """Seconds by part ("compute", "memory", "l2", "latency"), launch apart; they sum to the time of the kernel.

    The longer of X and M counts whole, under the name of what sets it (arithmetic: compute, loads: l2, k-loop:
    latency); of the other one its exposed share. Overheads are latency. An empty product takes no time.
    """
    memory = memory_time(product, chip, constants, warm)
    best, arithmetic, inner, loads = _fastest(product, chip, constants, memory)
    busy = np.maximum(arithmetic, inner)
    waits = memory > busy
    in_memory = np.where(waits, memory, constants.exposed * memory)
    in_sm = np.where(waits, constants.exposed * busy, busy)
    computing = np.where(arithmetic >= inner, in_sm, 0.0)
    loading = np.where(arithmetic >= inner, 0.0, in_sm * loads)
    some = _some(product)
    return {
        "compute": np.where(some, computing, 0.0),
        "memory": np.where(some, in_memory, 0.0),
        "l2": np.where(some, loading, 0.0),
        "latency": np.where(some, np.maximum(best - in_memory - computing - loading, 0.0), 0.0),
    }


def gemm_time(product: Product, chip: Chip, constants: Constants, *, warm: bool = False) -> Num:
    """Seconds of the kernel, launch apart: the sum of `gemm`'s parts."""
    memory = memory_time(product, chip, constants, warm)
    best: Num = np.inf
    for way in asks(product, chip.sm_count, constants):
        best = np.minimum(best, _time(way, chip, constants, memory)[0])
    return np.where(_some(product), best, 0.0)


def _fastest(product: Product, chip: Chip, constants: Constants, memory: Num) -> tuple[Array, Array, Array, Array]:
    """Least time of all ways; of that way the times of arithmetic, of loads or k-loop; 1 where loads are longer."""
    best, arithmetic, inner, loads = (np.asarray(x) for x in (np.inf, 0.0, 0.0, 0.0))
    for way in asks(product, chip.sm_count, constants):
        time, computing, moving = _time(way, chip, constants, memory)
        faster = time < best
        best = np.where(faster, time, best)
        arithmetic = np.where(faster, computing, arithmetic)
        inner = np.where(faster, moving, inner)
        loads = np.where(faster, np.where(np.greater_equal(way.loads, way.loop), 1.0, 0.0), loads)
    return best, arithmetic, inner, loads


def _time(way: Ask, chip: Chip, constants: Constants, memory: Num) -> tuple[Num, Num, Num]:
    """Time of one way, of its arithmetic, and of its loads or k-loop."""
    arithmetic = way.operations / chip.peak
    inner = np.maximum(way.loads, way.loop) / chip.clock
    busy = np.maximum(arithmetic, inner)
    time = np.maximum(busy, memory) + constants.exposed * np.minimum(busy, memory) + way.overhead / chip.clock
    return time, arithmetic, inner


def _some(product: Product) -> npt.NDArray[np.bool_]:
    return np.asarray(np.greater(product.m * product.n * product.k * product.batch, 0.0))
