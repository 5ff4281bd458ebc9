"""Caches of rows above one another, run batch by batch: what every level fetches, and what it writes to those below.

cascade = CascadeSimulator([CacheSimulator(rows, 1_000), CacheSimulator(rows, 10_000)])     # the top first
cascade.feed(wanted).fetched       # (from the level below into the top, from the home into the last)

The distinct rows of a batch pass the tags of the top in order, those that it lacks the tags of the next level, and so
on. Every level takes what it lacked from below and hands it up, whether or not it finds a place there. It is accessed
by nothing else: a row that is written into it is no access. So levels need not hold the rows of those above
(non-inclusive) and may (non-exclusive), and what they hold follows from the batches alone, before any data moves.

A batch that trains changes its rows at the top. The newest copy of a row is the topmost one, always. When it leaves, or
finds no place after its batch, it goes to the next level that holds the row, else home. Copies below are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from archmodel.memory.cache_exact import CacheSimulator


@dataclass(frozen=True)
class BatchMoves:
    """Rows that a batch moves: `fetched` into every level from below; `written`, if it trains, by (level that they
    leave, level that takes them), the home having the number of the levels."""

    fetched: tuple[int, ...]
    written: dict[tuple[int, int], int] = field(default_factory=dict)


class CascadeSimulator:
    """Caches of one table above one another, the top first; one alone is a cache above its home."""

    def __init__(self, levels: Sequence[CacheSimulator]) -> None:
        self.levels = tuple(levels)

    def feed(self, wanted: npt.NDArray[np.int64]) -> BatchMoves:
        """Runs a batch's distinct rows, in order."""
        before = [level.inside for level in self.levels]
        missed = [wanted]
        for level in self.levels:
            missed.append(missed[-1][level.feed(missed[-1]) == 0])
        after = [level.inside for level in self.levels]
        written: dict[tuple[int, int], int] = {}
        changed = np.zeros(self.levels[0].rows, dtype=bool)
        changed[wanted] = True
        newer = np.zeros_like(changed)
        for above, held in enumerate(before):
            leaving = np.flatnonzero(held & ~after[above] & ~newer & ~changed)
            back = missed[above + 1]  # left and came back within the batch
            leaving = np.concatenate([leaving, back[held[back] & ~newer[back]]])
            if above == 0:
                leaving = np.concatenate([leaving, wanted[~after[0][wanted]]])
            newer |= held
            for below in range(above + 1, len(self.levels)):
                found = after[below][leaving]
                written[above, below] = int(found.sum())
                leaving = leaving[~found]
            written[above, len(self.levels)] = len(leaving)
        return BatchMoves(tuple(len(m) for m in missed[1:]), written)
