"""A lower bound on the iteration time of every plan of a design's tables.

Three chains of an iteration that no overlap shortens. With I, A, B the exchanges of indices, pooled vectors and their
gradients, L lookups and U updates of the routes that a plan uses, in issue order from `first` to `last`; m is what no
placement changes (compute, dense all-reduces):

    t >= sum L + m_compute + sum U                                                       a rank's compute stream
    t >= sum (I + A + B) + m_link                                                        the link that all routes use
    t >= I_first + max(L_first + sum A, sum L + A_last) + m_between + max(B_first + sum U, sum B + U_last)

The last: vectors leave after their lookup, exchanges share the links one after the other, the interaction waits for
all of them; and the same backward. Maxima are relaxed to weighted means, sums over tables to means over ranks
(`bound.lower_bound`), which knows about memory. A plan uses some set of routes, so the least over sets bounds all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from archmodel.quantities import Array
from archmodel.search.bound import lower_bound
from archmodel.search.options import IntArray, Options

if TYPE_CHECKING:
    from archmodel.search.own import Chords, Floors

_WEIGHTS = ((0.0, 0.0), (0.5, 0.5), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))
_ROUTES = (
    ("rank", ("table_wise", "column_wise", "table_column_wise")),
    ("node", ("table_row_wise", "grid_wise")),
    ("world", ("row_wise",)),
    ("replica", ("data_parallel",)),
)
"""Scope and kinds of every route, in the order in which a Program issues their ops."""
_REPLICAS = 3


@dataclass(frozen=True)
class Floor:
    """What the bound is made of. `options` says which options there are and what they hold at least; `fixed`: what
    exchanges cost however little they carry; `base` (ranks,): compute of no table; `between` (ranks,): what lies
    between the exchanges, None where that chain does not hold; `link`: seconds of dense all-reduces; `distributes`:
    whether an iteration begins with the exchange of its own indices."""

    options: Options
    floors: Floors
    fixed: Chords
    base: Array
    between: Array | None
    link: float
    distributes: bool

    @property
    def value(self) -> float:
        """Seconds that no plan that fits is below."""
        floors = self.floors
        compute = self._of(floors.lookup + floors.update, np.ones(len(self.options.kinds), dtype=bool), self.base)
        if self.between is None:
            return compute
        return max(compute, min(map(self._chains, self._sets()), default=0.0))

    def _of(self, cost: Array, allowed: npt.NDArray[np.bool_], base: Array) -> float:
        finite = np.isfinite(self.options.cost) & allowed
        if not finite.any(1).all():
            return np.inf
        return lower_bound(replace(self.options, cost=np.where(finite, cost, np.inf), base=base)).value

    def _sets(self) -> Iterator[tuple[int, ...]]:
        """Sets of routes that a plan may use."""
        kinds = set(self.options.kinds)
        present = [r for r, (_, of_route) in enumerate(_ROUTES) if kinds.intersection(of_route)]
        for count in range(1, len(present) + 1):
            yield from combinations(present, count)

    @property
    def _route(self) -> IntArray:
        """Route of every slot, (O,)."""
        return np.array([next(r for r, (_, of) in enumerate(_ROUTES) if k in of) for k in self.options.kinds])

    def _chains(self, used: tuple[int, ...]) -> float:
        """The bound of plans that use exactly these routes."""
        allowed = np.isin(self._route, used)
        link = sum(self.fixed.shared[_ROUTES[r][0]][0] + self.fixed.input[_ROUTES[r][0]][0] for r in used) + self.link
        best = self._of(self.floors.link, allowed, np.full(self.options.ranks, link))
        for w, v in _WEIGHTS if len(used) > 1 else _WEIGHTS[-1:]:
            if not np.isfinite(best):
                break
            best = max(best, self._chain(used, allowed, w, v))
        return best

    def _chain(self, used: tuple[int, ...], allowed: npt.NDArray[np.bool_], w: float, v: float) -> float:
        """The third chain: 1 - w and w weigh the sides of its first maximum, 1 - v and v those of its second."""
        assert self.between is not None
        sent = [r for r in used if r != _REPLICAS] or [used[0]]
        first, last = (np.arange(len(_ROUTES)) == r for r in (sent[0], sent[-1]))
        replica = np.arange(len(_ROUTES)) == _REPLICAS
        alone = len(used) == 1
        lookup = np.where(replica, float(alone), (1 - w) * first + w)  # replicas are looked up last
        forward = (1 - w) + w * last
        backward = np.where(replica, 1.0, (1 - v) + v * first)  # and stepped last, after their all-reduce
        update = np.where(replica, 1.0 if alone else v, v + (1 - v) * last)
        input_ = float(self.distributes) * first
        floors, route = self.floors, self._route
        cost = (
            floors.input * input_[route]
            + floors.lookup * lookup[route]
            + floors.forward * forward[route]
            + floors.backward * backward[route]
            + floors.update * update[route]
        )
        fixed = sum(
            input_[r] * self.fixed.input[scope][0]
            + forward[r] * self.fixed.forward[scope][0]
            + backward[r] * self.fixed.backward[scope][0]
            for r, (scope, _) in enumerate(_ROUTES)
            if r in used
        )
        return self._of(cost, allowed, self.between + fixed)
