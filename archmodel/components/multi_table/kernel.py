"""The event loop: blocks on slots, rows through an exact LRU cache, two bandwidths that all running blocks share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


def run_blocks(
    keys: Ints,
    key_bytes: Ints,
    start: npt.NDArray[np.int64],
    rounds: Ints,
    streamed: Floats,
    slots: int,
    capacity: float,
    memory_bandwidth: float,
    cache_bandwidth: float,
    memory_latency: float,
    cache_latency: float,
    chain: int,
    previous: Ints,
    following: Ints,
    held: npt.NDArray[np.int8],
    result: Floats,
) -> None:
    """Runs blocks 0, 1, ... to the end; `result`: seconds, bytes from memory, bytes through the cache, accesses, hits.

    Block b reads the keys from start[b] up to start[b + 1] in rounds[b] equal rounds, and moves streamed[b] bytes past
    the cache. A round takes one latency (that of memory if anything missed; the first `chain` of them, for its loads
    wait for each other) while the bytes that all running rounds ask for per second are within both bandwidths, and
    longer by the same factor for all of them when they are not: queues lengthen every request alike. So all rounds
    proceed on one clock, `now`, that runs slower than time. `key_bytes`: of the rows behind each key; `previous`,
    `following`, `held` (zeros): room for a list of keys. Freed slots take the next block.
    """
    blocks = len(rounds)
    heap_at = np.zeros(slots, dtype=np.float64)
    heap_slot = np.zeros(slots, dtype=np.int32)
    block_of = np.zeros(slots, dtype=np.int32)
    done = np.zeros(slots, dtype=np.int32)
    slot_memory = np.zeros(slots, dtype=np.float64)
    slot_cache = np.zeros(slots, dtype=np.float64)
    running = 0
    now = 0.0
    seconds = 0.0
    memory_rate = 0.0
    cache_rate = 0.0
    memory_bytes = 0.0
    cache_bytes = 0.0
    hits = 0
    used = 0.0
    newest = -1
    oldest = -1
    next_block = 0
    free = 0
    while next_block < blocks or running > 0:
        slot = -1
        if next_block < blocks and free < slots:
            slot = free  # the first wave
            free += 1
            block_of[slot] = next_block
            done[slot] = 0
            next_block += 1
        else:
            # the round that ends first
            at = heap_at[0]
            slot = heap_slot[0]
            running -= 1
            last_at = heap_at[running]
            last_slot = heap_slot[running]
            i = 0
            while True:
                child = 2 * i + 1
                if child >= running:
                    break
                if child + 1 < running and heap_at[child + 1] < heap_at[child]:
                    child += 1
                if heap_at[child] >= last_at:
                    break
                heap_at[i] = heap_at[child]
                heap_slot[i] = heap_slot[child]
                i = child
            heap_at[i] = last_at
            heap_slot[i] = last_slot
            slow = max(1.0, max(memory_rate / memory_bandwidth, cache_rate / cache_bandwidth))
            seconds += (at - now) * slow
            now = at
            memory_rate = max(memory_rate - slot_memory[slot], 0.0)
            cache_rate = max(cache_rate - slot_cache[slot], 0.0)
            done[slot] += 1
            if done[slot] >= rounds[block_of[slot]]:
                if next_block >= blocks:
                    continue
                block_of[slot] = next_block
                done[slot] = 0
                next_block += 1
        block = block_of[slot]
        turn = done[slot]
        count = start[block + 1] - start[block]
        first = start[block] + count * turn // rounds[block]
        stop = start[block] + count * (turn + 1) // rounds[block]
        missed = 0.0
        asked = 0.0
        for k in range(first, stop):
            key = keys[k]
            size = float(key_bytes[key])
            asked += size
            if held[key] == 1:
                hits += 1
                if newest != key:
                    before = previous[key]
                    after = following[key]
                    following[before] = after
                    if after >= 0:
                        previous[after] = before
                    else:
                        oldest = before
                    # `before` is newer; the key becomes the newest
                    previous[newest] = key
                    following[key] = newest
                    previous[key] = -1
                    newest = key
                continue
            missed += size
            if size > capacity:
                continue
            while used + size > capacity:
                out = oldest
                oldest = previous[out]
                if oldest >= 0:
                    following[oldest] = -1
                else:
                    newest = -1
                held[out] = 0
                used -= float(key_bytes[out])
            held[key] = 1
            used += size
            previous[key] = -1
            following[key] = newest
            if newest >= 0:
                previous[newest] = key
            else:
                oldest = key
            newest = key
        share = streamed[block] / rounds[block]
        moved = missed + share
        through = asked + share
        latency = memory_latency if moved > 0.0 else cache_latency
        if turn == 0:
            latency = memory_latency * (chain - 1) + latency
        memory_bytes += moved
        cache_bytes += through
        slot_memory[slot] = moved / latency
        slot_cache[slot] = through / latency
        memory_rate += slot_memory[slot]
        cache_rate += slot_cache[slot]
        at = now + latency
        i = running
        running += 1
        while i > 0:
            parent = (i - 1) // 2
            if heap_at[parent] <= at:
                break
            heap_at[i] = heap_at[parent]
            heap_slot[i] = heap_slot[parent]
            i = parent
        heap_at[i] = at
        heap_slot[i] = slot
    result[0] = seconds
    result[1] = memory_bytes
    result[2] = cache_bytes
    result[3] = float(len(keys))
    result[4] = float(hits)


def reference(keys: Any, key_bytes: Any, capacity: float) -> int:
    """Hits of the keys in order in the same cache, told with an ordered dictionary: what the loop is tested with."""
    held: dict[int, int] = {}
    used, hits = 0.0, 0
    for key in keys:
        size = int(key_bytes[key])
        if key in held:
            hits += 1
            held[key] = held.pop(key)
            continue
        if size > capacity:
            continue
        while used + size > capacity:
            used -= held.pop(next(iter(held)))
        held[key] = size
        used += size
    return hits
