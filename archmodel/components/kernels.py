"""Laws of bandwidth-bound kernels: streams, pooled lookups, exact updates.

Pure functions of bytes and rates that broadcast. Achieved rates are peak rates times the shares that a device's file
states with their source, so no law is faster than bytes over peak bandwidth.
"""

from __future__ import annotations

import numpy as np

from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.quantities import Num

LOOKUP_CHAIN = 3
"""Loads of a pooled lookup that wait for each other: bag offset, index, row."""


def waiting(bytes_: Num, latency: Num) -> Num:
    """Seconds until the first byte arrives; none when none is asked for.

        t = latency + bytes / bandwidth

    is Hockney's law (Parallel Computing 17, 1991): with latency x bandwidth bytes in flight (Little's law) a memory
    reaches half its rate, so a kernel that moves less cannot use it all.
    """
    return np.where(np.asarray(bytes_) > 0, latency, 0.0)


def streaming(bytes_: Num, flops: Num, *, bandwidth: Num, peak: Num, latency: Num = 0.0) -> Breakdown:
    """The roofline (Williams, Waterman, Patterson, CACM 52(4), 2009) behind one latency:

        t = latency + max(bytes / bandwidth, flops / peak)

    `bytes_`: read plus written. `bandwidth`, `peak`: achieved rates.
    """
    return overlapped(
        {"memory": np.asarray(bytes_ / bandwidth), "compute": np.asarray(flops / peak)},
        {"latency": waiting(bytes_, latency)},
    )


def matrix_product(m: Num, n: Num, k: Num, batch: Num, itemsize: int) -> tuple[Num, Num]:
    """(operations, bytes) of C[m, n] = A[m, k] B[k, n] done `batch` times, each operand moved once; none when empty:

        operations = 2 m n k batch
        bytes = (m k + k n + m n) itemsize batch

    A multiply-add counts as two operations.
    """
    flops = 2.0 * m * n * k * batch
    return flops, np.where(np.asarray(flops) > 0, (m * k + k * n + m * n) * float(itemsize) * batch, 0.0)


def gram_matrix(n: Num, k: Num, batch: Num, itemsize: int) -> tuple[Num, Num]:
    """(operations, bytes) of G[n, n] = X[n, k] X^T done `batch` times, X and G moved once; none when empty:

    operations = 2 n^2 k batch
    bytes = (n k + n^2) itemsize batch
    """
    flops = 2.0 * n * n * k * batch
    return flops, np.where(np.asarray(flops) > 0, (n * k + n * n) * float(itemsize) * batch, 0.0)


def from_memory(demanded: Num, unique: Num, cache: Num) -> Num:
    """Bytes of `demanded` that miss a cache of `cache` bytes when `unique` of them are distinct:

        misses = unique + (demanded - unique) (1 - min(1, cache / unique))

    Every distinct byte is read once; a repeated one hits with the probability that it is still there, taken as the
    share of the distinct bytes that the cache holds (a cache under independent references that favour no row; skewed
    ones hit more often, so this errs to the slow side). Between `unique` (all fits) and `demanded` (nothing does).
    """
    distinct = np.minimum(unique, demanded)
    held = np.minimum(1.0, cache / np.maximum(distinct, 1.0))
    return distinct + (demanded - distinct) * (1.0 - held)


def pooled_lookup(
    demanded: Num,
    unique: Num,
    streamed: Num,
    *,
    cache: Num,
    gather_bandwidth: Num,
    stream_bandwidth: Num,
    cache_bandwidth: Num = np.inf,
    latency: Num = 0.0,
) -> Breakdown:
    """Rows that miss the cache at the gather rate, indices and outputs at the stream rate; all of it through the cache:

        t = 3 latency + max(misses / gather rate + streamed / stream rate, (demanded + streamed) / cache rate)

    `demanded`, `unique`: bytes of rows at sector granularity, all and distinct; three loads depend on each other.
    """
    memory = from_memory(demanded, unique, cache) / gather_bandwidth + streamed / stream_bandwidth
    through_cache = (demanded + streamed) / cache_bandwidth
    return overlapped(
        {"memory": np.asarray(memory), "l2": np.asarray(through_cache)},
        {"latency": waiting(demanded + streamed, LOOKUP_CHAIN * latency)},
    )


def scatter_add(
    demanded: Num,
    unique: Num,
    streamed: Num,
    *,
    cache: Num,
    gather_bandwidth: Num,
    stream_bandwidth: Num,
    cache_bandwidth: Num = np.inf,
    latency: Num = 0.0,
) -> Breakdown:
    """Rows of gradients added to rows of tables by atomics, which the cache does; its misses are read and written back:

        t = 2 latency + max(2 misses / gather rate + streamed / stream rate, (2 demanded + streamed) / cache rate)

    `demanded`, `unique`: bytes of table rows one way, all and distinct; `streamed`: indices and gradients. Index and
    row depend on each other. Additions to one address wait for each other at one a clock (NVIDIA Kepler GK110
    whitepaper), which at 65,536 of them is below 0.2 ms a table and hidden behind the other tables' traffic: not here.
    """
    memory = 2.0 * from_memory(demanded, unique, cache) / gather_bandwidth + streamed / stream_bandwidth
    through_cache = (2.0 * demanded + streamed) / cache_bandwidth
    return overlapped(
        {"memory": np.asarray(memory), "l2": np.asarray(through_cache)},
        {"latency": waiting(demanded + streamed, 2 * latency)},
    )


def exact_update(
    indices: Num,
    gradient: Num,
    gradient_unique: Num,
    rows: Num,
    streamed: Num,
    *,
    cache: Num,
    sort_bytes_per_index: Num,
    sort_bandwidth: Num,
    gather_bandwidth: Num,
    update_bandwidth: Num,
    stream_bandwidth: Num,
    cache_bandwidth: Num = np.inf,
    latency: Num = 0.0,
) -> Breakdown:
    """Sort the indices, sum the gradients of equal ones, read and write each distinct row and its optimizer state:

        t = latency + indices x sort bytes / sort rate
          + max(gradient misses / gather rate + rows / update rate + streamed / stream rate,
                (gradient + rows + streamed) / cache rate)

    `rows`: bytes read plus written; `gradient`: one pooled gradient row per index, of which `gradient_unique` distinct.

    A least-significant-digit radix sort with one read and one write per digit (Adinets and Merrill, "Onesweep",
    arXiv 2206.01784, which CUB's DeviceRadixSort implements) of K-byte keys and V-byte values in p passes moves
    K + 2 p (K + V) bytes per pair: the histogram reads every key once. For 8-byte linear row ids and 4-byte positions
    in 4 passes of 8 bits that is 104 B.
    """
    sort = indices * sort_bytes_per_index / sort_bandwidth
    gathered = from_memory(gradient, gradient_unique, cache) / gather_bandwidth
    memory = gathered + rows / update_bandwidth + streamed / stream_bandwidth
    through_cache = (gradient + rows + streamed) / cache_bandwidth
    return overlapped(
        {"memory": np.asarray(memory), "l2": np.asarray(through_cache)},
        {"latency": waiting(indices + gradient + rows + streamed, latency), "sort": sort},
    )
