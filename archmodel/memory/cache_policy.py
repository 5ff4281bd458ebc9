"""What caches there are, whether run access by access or priced in closed form."""

from __future__ import annotations

import math
from typing import Final, Literal, get_args

from archmodel.errors import ArchmodelError, suggestion

Policy = Literal["ideal", "lru", "lfu", "fifo"]
"""`ideal`: the most popular rows are pinned, known in advance; `lfu` keeps the counts of rows that it does not hold."""

POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)


class CacheError(ArchmodelError, ValueError):
    """A cache that cannot be, or an access to a row that is not there."""


def check_cache(cache_rows: float, policy: str, ways: int | None) -> None:
    """Refuses what no cache is."""
    if policy not in POLICIES:
        raise CacheError(f"no cache policy {policy!r}; {suggestion(policy, POLICIES)}")
    if not (math.isfinite(cache_rows) and cache_rows >= 0):
        raise CacheError(f"a cache of {cache_rows} rows: a number of 0 or more is needed")
    if ways is None:
        return
    if ways < 1:
        raise CacheError(f"a cache of {ways} ways: 1 or more, or None for fully associative, is needed")
    if policy == "ideal":
        raise CacheError("pinned rows have no sets: ways must be None for policy 'ideal'")
