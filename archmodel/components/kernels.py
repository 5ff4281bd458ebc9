"""Laws of the bandwidth-bound kernels of a GPU: streams, pooled lookups, exact updates.

Pure functions of bytes and rates that broadcast. Efficiencies are the achieved share of peak bandwidth: constants of a
device, with their source in its file.
"""

from __future__ import annotations

import numpy as np

from archmodel.components.breakdown import Breakdown, overlapped
from archmodel.quantities import Num


def streaming(bytes_: Num, flops: Num, bandwidth: Num, peak: Num) -> Breakdown:
    """max(bytes / bandwidth, flops / peak): the roofline (Williams et al., CACM 52(4), 2009)."""
    return overlapped({"memory": np.asarray(bytes_ / bandwidth), "compute": np.asarray(flops / peak)})


def from_memory(demanded: Num, unique: Num, cache: Num) -> Num:
    """Bytes of `demanded` that miss a cache of `cache` bytes when `unique` of them are distinct.

    Every distinct byte is read once; a repeated one hits with the probability that it is still there, taken as
    the share of the distinct bytes that the cache holds. Between `unique` (everything fits) and `demanded` (nothing does).
    """
    held = np.minimum(1.0, cache / np.maximum(unique, 1.0))
    return unique + np.maximum(demanded - unique, 0.0) * (1.0 - held)


def pooled_lookup(
    demanded: Num, unique: Num, streamed: Num, *, cache: Num, gather_bandwidth: Num, stream_bandwidth: Num
) -> Breakdown:
    """Rows that miss the cache at the gather rate, indices and outputs at the stream rate."""
    misses = from_memory(demanded, unique, cache)
    return Breakdown({"memory": misses / gather_bandwidth + streamed / stream_bandwidth})


def exact_update(
    indices: Num,
    gradient: Num,
    gradient_unique: Num,
    rows: Num,
    streamed: Num,
    *,
    cache: Num,
    sort_bytes_per_index: Num,
    gather_bandwidth: Num,
    update_bandwidth: Num,
    stream_bandwidth: Num,
) -> Breakdown:
    """Sort the indices (radix passes over key-value pairs), gather gradient rows (those seen again may hit the cache),
    read and write the distinct rows and their optimizer state."""
    sort = indices * sort_bytes_per_index / stream_bandwidth
    gathered = from_memory(gradient, np.minimum(gradient_unique, gradient), cache) / gather_bandwidth
    return Breakdown({"sort": sort, "memory": gathered + rows / update_bandwidth + streamed / stream_bandwidth})
