"""The cost of a set of tables as a function of a sum over its tables, so no order of tables matters.

    cost(set) = c + u . S + v . softplus(W S + b),      S = sum over tables of phi(x)
    phi(x) = softplus(A2 softplus(A1 x + a1) + a2),     W, u, v, c >= 0

AutoShard's net has the same shape (table MLP, sum, head), with ReLU and signs left free. Here the head cannot fall and
is convex in S. Both are what a fused kernel does: another table never makes it faster, and its time is a maximum of
linear forms in totals (a chain of latencies, bytes over each bandwidth), which a convex increasing function of totals
is. It buys three things. Beyond the sets seen the cost goes on linearly, as time does. A lower bound on the largest
rank of any placement is provable (`lower_bound`). And softplus has a gradient everywhere, so a quasi-Newton fit works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from archmodel.errors import ArchmodelError
from archmodel.quantities import Array
from archmodel.search.learned.tables import TableFeatures

_SAFE = 1.0 - 1e-9
"""Bounds are lowered by this factor, far more than sums of floats can be off."""


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.asarray(np.logaddexp(0.0, x))


def sigmoid(x: Array) -> Array:
    """Slope of softplus."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


_NEAR = 0.05
"""Of the range of a feature; what lies this near outside it counts as inside."""
PARAMETERS = ("A1", "a1", "A2", "a2", "W", "b", "u", "v", "c")
NOT_NEGATIVE = ("W", "u", "v", "c")


@dataclass(frozen=True)
class SetCost:
    """`columns`: the features; they are standardised by `mean` and `spread`, and were between `low` and `high` in the
    tables fitted, all (F,). `unit`: seconds of one unit of the head. `batch`: samples that the measurements were of,
    when known. `about`: what it was fitted on, and how well."""

    columns: tuple[str, ...]
    mean: Array
    spread: Array
    low: Array
    high: Array
    weights: Mapping[str, Array]
    unit: float
    batch: int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def parts(self, tables: TableFeatures) -> Array:
        """phi of every table (T, K), to be summed over a set; at least 0. Raises ArchmodelError for tables without
        the features that the model was fitted on."""
        if tables.columns != self.columns:
            missing = [c for c in self.columns if c not in tables.columns]
            what = f"lack {missing[0]} to {missing[-1]}" if missing else "have bins of reuse, which it does not know"
            raise ArchmodelError(f"the tables {what}; the cost model was fitted on {', '.join(self.columns)}")
        empty = np.flatnonzero((tables.rows < 1) | ~(tables.pooling > 0))
        if len(empty):
            name = tables.names[int(empty[0])]
            raise ArchmodelError(f"table {name} has no rows or no lookups; a learned cost knows no such tables")
        return phi((tables.matrix - self.mean) / self.spread, self.weights)[-1]

    def of(self, sums: Array) -> Array:
        """Seconds of sets (...) from their sums (..., K); none for an empty set (a sum of nothing)."""
        cost = self.unit * head(sums, self.weights)[-1]
        return np.where(np.asarray(sums).any(-1), cost, 0.0)

    def predict(self, tables: TableFeatures, sets: Any) -> Array:
        """Seconds (S,) of sets given as a matrix (S, T) of which tables are in them."""
        return self.of(np.asarray(sets @ self.parts(tables)))

    def lower_bound(self, parts: Array, ranks: int) -> float:
        """Seconds that the slowest of `ranks` ranks takes at least, however tables are placed, memory left aside:

            max over ranks >= mean over ranks of f(S_r) >= f(mean S_r) = f(sum of all parts / ranks)   (f is convex)
            max over ranks >= f(phi of any one table)                                                  (f rises)

        f is the head, also where a rank is empty: its 0 is below f(0), so the mean is taken over the ranks that hold a
        table, at most min(ranks, tables) of them; fewer ranks only raise f of the mean.
        """
        if not len(parts):
            return 0.0
        used = min(ranks, len(parts))
        spread = float(self.of(parts.sum(0) / used))
        return _SAFE * max(spread, float(self.of(parts).max()))

    def outside(self, tables: TableFeatures) -> list[str]:
        """Tables with a feature outside those of all tables fitted by more than a twentieth of their range: there the
        cost is extrapolated."""
        x = tables.matrix
        slack = _NEAR * (self.high - self.low) + 1e-9
        out = ((x < self.low - slack) | (x > self.high + slack)).any(1)
        return [tables.names[t] for t in np.flatnonzero(out).tolist()]

    def with_about(self, **more: Any) -> SetCost:
        return replace(self, about={**self.about, **more})


def phi(x: Array, weights: Mapping[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Layers of the table's part: before and after the first, before and after the second."""
    first = x @ weights["A1"].T + weights["a1"]
    hidden = softplus(first)
    second = hidden @ weights["A2"].T + weights["a2"]
    return first, hidden, second, softplus(second)


def head(sums: Array, weights: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Layers of the set's part: before and after the first, and the cost in units."""
    first = sums @ weights["W"].T + weights["b"]
    hidden = softplus(first)
    return first, hidden, np.asarray(weights["c"][0] + sums @ weights["u"] + hidden @ weights["v"])


def loss(
    x: Array, sets: Any, target: Array, weights: Mapping[str, Array], decay: float
) -> tuple[float, dict[str, Array]]:
    """Mean squared relative error over sets, plus decay times the mean square of A1 and A2; and its gradient.

    `x` (T, F) standardised features, `sets` (S, T) who is in which set, `target` (S,) in units.
    """
    first, hidden, second, parts = phi(x, weights)
    sums = np.asarray(sets @ parts)
    head_first, head_hidden, cost = head(sums, weights)
    off = cost / target - 1.0
    value = float(np.mean(off**2))
    slope = 2.0 * off / target / len(target)  # of the loss by the cost (S,)
    gradient = {"c": slope.sum(keepdims=True), "u": slope @ sums, "v": slope @ head_hidden}
    back = slope[:, None] * weights["v"] * sigmoid(head_first)  # (S, H)
    gradient["W"], gradient["b"] = back.T @ sums, back.sum(0)
    by_sum = slope[:, None] * weights["u"] + back @ weights["W"]  # (S, K)
    by_second = np.asarray(sets.T @ by_sum) * sigmoid(second)  # (T, K)
    gradient["A2"], gradient["a2"] = by_second.T @ hidden, by_second.sum(0)
    by_first = by_second @ weights["A2"] * sigmoid(first)
    gradient["A1"], gradient["a1"] = by_first.T @ x, by_first.sum(0)
    for name in ("A1", "A2"):
        value += decay * float(np.mean(weights[name] ** 2))
        gradient[name] = gradient[name] + 2.0 * decay * weights[name] / weights[name].size
    return value, gradient
