"""Loops of the exact cache simulators, one access after the other; `archmodel.memory.compiled.fast` compiles them.

All take row ids in [0, rows) and arrays that carry the state from one piece of a trace to the next. `hit[i]` becomes 1
where access i finds its row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from archmodel.memory.compiled import prefetch

Ints = npt.NDArray[Any]
"""An array of integers, of whatever width."""

LRU, FIFO, LFU = 0, 1, 2
"""Policies as `sets` takes them."""

WORD, BLOCK = 32, 256
"""Positions in a word, and in a block, of the bit map of `distances`."""


def lru(ids: Ints, hit: Ints, last: Ints, stale: Ints, state: Ints, capacity: int) -> int:
    """Least recently used, fully associative: hits.

    Accesses have positions in time; `last`: that of each row's last one; `stale`: 1 where a position is no longer any
    row's last. A row is in the cache exactly when its last access is at or after `tail`; an eviction moves `tail` past
    the oldest position that is not stale. Without branches on the outcome, which no processor could predict. state:
    head, tail, rows in the cache.
    """
    head, tail, held = state[0], state[1], state[2]
    hits, n = 0, len(ids)
    for i in range(n):
        prefetch(last, ids[min(i + 40, n - 1)])
        row = ids[i]
        at = last[row]
        h = 1 if at >= tail else 0
        hit[i] = h
        hits += h
        held += 1 - h
        stale[head] = 0
        stale[at if h else head] = h
        last[row] = head
        head += 1
        over = 1 if held > capacity else 0
        while over & stale[tail]:
            tail += 1
        held -= over
        tail += over
        tail += stale[tail]  # run ahead, so that the loop above hardly ever turns
        tail += stale[tail]
    state[0], state[1], state[2] = head, tail, held
    return hits


def fifo(ids: Ints, hit: Ints, inside: Ints, queue: Ints, state: Ints, capacity: int) -> int:
    """First in, first out, fully associative: hits. state: next place in the ring `queue`, rows in the cache."""
    place, held = state[0], state[1]
    hits = 0
    for i in range(len(ids)):
        row = ids[i]
        if inside[row] == 1:
            hit[i] = 1
            hits += 1
            continue
        hit[i] = 0
        if held == capacity:
            inside[queue[place]] = 0
        else:
            held += 1
        queue[place] = row
        inside[row] = 1
        place += 1
        if place == capacity:
            place = 0
    state[0], state[1] = place, held
    return hits


def lfu(
    ids: Ints,
    hit: Ints,
    count: Ints,
    bucket_of: Ints,
    before: Ints,
    after: Ints,
    bucket: Ints,
    free: Ints,
    state: Ints,
    capacity: int,
) -> int:
    """Least frequently used with the counts of all rows kept, fully associative: hits.

    A row that is not inside replaces the one with the lowest count (of equals the least recently used) if its own
    count, this access included, is at least as high; else it passes by. Rows of one count form a list from least to
    most recently used; the lists ("buckets") form one of rising counts.

    before, after: neighbours of each row in its bucket (-1: none). bucket[:, b]: count, first row, last row, next
    bucket, previous bucket. free: unused buckets. state: first bucket (-1: none), unused buckets, rows in the cache.
    """
    first, unused, held = state[0], state[1], state[2]
    hits = 0
    n = len(ids)
    for i in range(n):
        soon = ids[min(i + 40, n - 1)]
        prefetch(count, soon)
        prefetch(bucket_of, soon)
        row = ids[i]
        count[row] += 1
        times = count[row]
        at = bucket_of[row]  # the bucket after which its new one stands
        gone = -1  # a bucket to drop if it is empty
        victim = -1
        if at >= 0:
            hit[i] = 1
            hits += 1
            victim = row
            gone = at
        else:
            hit[i] = 0
            if held == capacity:
                if times < bucket[0, first]:
                    continue
                victim = bucket[1, first]
                gone = first
            else:
                held += 1
            at = first if first >= 0 and bucket[0, first] < times else -1
        if victim >= 0:  # take it out of its bucket
            left, right = before[victim], after[victim]
            if left >= 0:
                after[left] = right
            else:
                bucket[1, gone] = right
            if right >= 0:
                before[right] = left
            else:
                bucket[2, gone] = left
            bucket_of[victim] = -1
        # the bucket of `times`: the one after `at`, or a new one between them
        following = first if at < 0 else bucket[3, at]
        while following >= 0 and bucket[0, following] < times:
            at = following
            following = bucket[3, at]
        if following >= 0 and bucket[0, following] == times:
            home = following
        else:
            unused -= 1
            home = free[unused]
            bucket[0, home] = times
            bucket[1, home] = -1
            bucket[2, home] = -1
            bucket[3, home] = following
            bucket[4, home] = at
            if at >= 0:
                bucket[3, at] = home
            else:
                first = home
            if following >= 0:
                bucket[4, following] = home
        youngest = bucket[2, home]
        before[row] = youngest
        after[row] = -1
        if youngest >= 0:
            after[youngest] = row
        else:
            bucket[1, home] = row
        bucket[2, home] = row
        bucket_of[row] = home
        if gone >= 0 and bucket[1, gone] < 0:  # an empty bucket
            up, down = bucket[4, gone], bucket[3, gone]
            if up >= 0:
                bucket[3, up] = down
            else:
                first = down
            if down >= 0:
                bucket[4, down] = up
            free[unused] = gone
            unused += 1
    state[0], state[1], state[2] = first, unused, held
    return hits


def sets(ids: Ints, hit: Ints, tags: Ints, fill: Ints, count: Ints, policy: int) -> int:
    """Set-associative LRU, FIFO or LFU: hits. A row belongs to one set by its hash (`cache_exact.set_of`).

    tags[s, w]: rows of set s, the first the most recent: the last used one (LRU, LFU) or the last come (FIFO). fill[s]:
    rows in it. count: accesses of every row so far, for LFU, whose rule is that of `lfu`.
    """
    number, ways = tags.shape
    hits = 0
    for i in range(len(ids)):
        row = ids[i]
        h = int(row)
        h = ((h ^ (h >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
        h = ((h ^ (h >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
        h = h ^ (h >> 16)
        mine = (h * number) >> 32
        held = fill[mine]
        way = 0
        while way < held and tags[mine, way] != row:
            way += 1
        if policy == 2:
            count[row] += 1
        if way < held:
            hit[i] = 1
            hits += 1
            if policy == 1:
                continue
        else:
            hit[i] = 0
            if held < ways:
                fill[mine] = held + 1
            else:
                way = ways - 1
                if policy == 2:
                    for other in range(ways - 2, -1, -1):
                        if count[tags[mine, other]] < count[tags[mine, way]]:
                            way = other
                    if count[row] < count[tags[mine, way]]:
                        continue
        while way > 0:
            tags[mine, way] = tags[mine, way - 1]
            way -= 1
        tags[mine, 0] = row
    return hits


def ones_in(word: int) -> int:
    """How many of a word's 32 bits are 1: sums of pairs, of fours, of bytes, then of all (Warren, Hacker's Delight)."""
    x = word - ((word >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 0xFF


def distances(ids: Ints, last: Ints, bits: Ints, tree: Ints, state: Ints, histogram: Ints) -> None:
    """Adds the LRU stack distances of a piece of a trace to `histogram`: [0] first accesses, [d] rows at depth d >= 1.

    Depth d: d distinct rows, the row itself included, since its last access, so caches of d rows or more hit (Mattson
    et al., IBM Systems Journal 9(2), 1970). A bit map over positions marks where each row was last; a Fenwick tree over
    blocks of 256 positions (Bennett and Kruskal's idea, IBM J. Res. Dev. 19(4), 1975, on few enough leaves to stay in
    the first-level cache) and the bits of one block count the marks at or after a position. The block being filled is
    not in the tree yet. state: next position, rows seen.
    """
    head, live = state[0], state[1]
    leaves = len(tree)
    block = head >> 8
    inside = state[2]  # marks in the block that is being filled
    n = len(ids)
    due = np.zeros(16, dtype=np.int64)  # depths to be counted, when their place in the histogram has come
    for i in range(n):
        prefetch(last, ids[min(i + 40, n - 1)])
        soon = last[ids[min(i + 16, n - 1)]]
        prefetch(bits, soon >> 5)
        prefetch(tree, soon >> 8)
        row = ids[i]
        at = last[row]
        if at < 0:
            histogram[0] += 1
            live += 1
        else:
            word = at >> 5
            home = at >> 8
            mark = 1 << (int(at) & 31)
            whole = int(bits[word])
            ones = ones_in(whole & (mark - 1))  # marks in the block before `at`
            for w in range(home << 3, word):
                ones += ones_in(int(bits[w]))
            bits[word] = whole & ~mark
            if home == block:
                depth = inside - ones
                inside -= 1
            else:
                b = home
                while b > 0:
                    ones += tree[b - 1]
                    b &= b - 1
                depth = live - ones
                b = home + 1
                while b <= leaves:
                    tree[b - 1] -= 1
                    b += b & -b
            prefetch(histogram, depth)
            histogram[due[i & 15]] += 1
            due[i & 15] = depth
        bits[head >> 5] |= 1 << (head & 31)
        inside += 1
        last[row] = head
        head += 1
        if head & 255 == 0:
            b = block + 1
            while b <= leaves:
                tree[b - 1] += inside
                b += b & -b
            block += 1
            inside = 0
    for depth in due:
        histogram[depth] += 1
    histogram[0] -= len(due)
    state[0], state[1], state[2] = head, live, inside


def renumber(last: Ints, bits: Ints, before: Ints) -> int:
    """Gives the marked positions the numbers 0, 1, ..., in order: how many. `before`: room for one number per word."""
    marks = 0
    for w in range(len(bits)):
        before[w] = marks
        marks += ones_in(int(bits[w]))
    for row in range(len(last)):
        at = last[row]
        if at >= 0:
            mark = 1 << (int(at) & 31)
            last[row] = before[at >> 5] + ones_in(int(bits[at >> 5]) & (mark - 1))
    return marks


def keep(ids: Ints, wanted: Ints, kept: Ints) -> int:
    """Keeps the accesses of the rows where `wanted` is 1, not 0: how many. `kept` as long as `ids`."""
    n = 0
    for i in range(len(ids)):
        row = ids[i]
        kept[n] = row
        n += wanted[row]
    return n


def sampled(
    ids: Ints,
    which: Ints,
    last: Ints,
    seen_at: Ints,
    bits: Ints,
    tree: Ints,
    hot_at: Ints,
    hot_head: Ints,
    state: Ints,
    hot: Ints,
    cold: Ints,
    weight: float,
    threshold: int,
) -> None:
    """`distances` for a sample of the rows: adds to the histograms `hot` and `cold`, [0] first accesses, [d] at depth
    d.

    which[row]: h + 1 for hot row h, all of which are here, -1 for a cold one that stands for `weight` of its like. Cold
    rows have positions as in `distances` and the time of their last access, `seen_at`; hot ones only that time,
    `hot_at` (-1: none), and the position that came next then, `hot_head`. Of the accesses to hot rows, those with a
    random number below `threshold` (of 2^31) are looked at. state: next position, cold rows seen, marks in the open
    block, time, random number, accesses to hot rows.
    """
    head, live, inside = state[0], state[1], state[2]
    time, random, hots = state[3], state[4], state[5]
    leaves = len(tree)
    block = head >> 8
    n = len(ids)
    for i in range(n):
        soon = ids[min(i + 24, n - 1)]
        prefetch(which, soon)
        prefetch(last, soon)
        prefetch(seen_at, soon)
        row = ids[i]
        name = which[row]
        at, when = 0, 0
        if name > 0:
            at, when = hot_head[name - 1], hot_at[name - 1]
            hot_at[name - 1] = time
            hot_head[name - 1] = head
            time += 1
            hots += 1
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            if when < 0:
                hot[0] += 1
                continue
            if random >= threshold:
                continue
        else:
            at, when = last[row], seen_at[row]
            seen_at[row] = time
            time += 1
        if at < 0:
            cold[0] += 1
            live += 1
        else:
            above = 0
            for h in range(len(hot_at)):
                above += 1 if hot_at[h] > when else 0
            word = at >> 5
            home = at >> 8
            mark = 1 << (int(at) & 31)
            whole = int(bits[word])
            ones = ones_in(whole & (mark - 1))  # marks in the block before `at`
            for w in range(home << 3, word):
                ones += ones_in(int(bits[w]))
            if home == block:
                ones = inside - ones
            else:
                b = home
                while b > 0:
                    ones += tree[b - 1]
                    b &= b - 1
                ones = live - ones
            if name > 0:  # the row itself is among the hot ones above
                depth = int(above + weight * ones + 0.5)
                hot[min(max(depth, 1), len(hot) - 1)] += 1
                continue
            depth = int(above + weight * (ones - 1) + 1.5)
            cold[min(depth, len(cold) - 1)] += 1
            bits[word] = whole & ~mark
            if home == block:
                inside -= 1
            else:
                b = home + 1
                while b <= leaves:
                    tree[b - 1] -= 1
                    b += b & -b
        if name > 0:
            continue
        bits[head >> 5] |= 1 << (head & 31)
        inside += 1
        last[row] = head
        head += 1
        if head & 255 == 0:
            b = block + 1
            while b <= leaves:
                tree[b - 1] += inside
                b += b & -b
            block += 1
            inside = 0
    state[0], state[1], state[2] = head, live, inside
    state[3], state[4], state[5] = time, random, hots


def gaps(ids: Ints, last: Ints, start: int, count: Ints, total: Ints) -> None:
    """Adds accesses between one use of a row and the next, in bins of 1/64 octave (exact below 4096).

    A first use at position i is i + 1 after the start. count, total: how many fall in a bin, and their sum. `last`: -1
    for rows never seen.
    """
    for i in range(len(ids)):
        row = ids[i]
        t = start + i - last[row]
        last[row] = start + i
        at = t
        if t >= 4096:
            octave, top = 0, t >> 12
            while top > 1:
                top >>= 1
                octave += 1
            at = 4096 + octave * 64 + (t >> (octave + 6)) - 64
        count[at] += 1
        total[at] += t
