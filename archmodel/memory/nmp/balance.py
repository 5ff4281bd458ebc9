"""How evenly lookups fall on ranks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from archmodel.quantities import Array, Num


def _integral(values: Array, nodes: Array) -> Array:
    return np.asarray(np.trapezoid(values, nodes, axis=-1), dtype=np.float64)


@lru_cache(maxsize=1)
def _normal() -> tuple[Array, Array]:
    """Nodes from -8 to 8 and the normal distribution function there."""
    from math import erf, sqrt

    nodes = np.linspace(-8.0, 8.0, 1601)
    return nodes, np.array([0.5 * (1.0 + erf(x / sqrt(2.0))) for x in nodes])


def normal_maximum(count: Num) -> tuple[Array, Array]:
    """Expected largest e of `count` independent standard normal numbers, and expected square q of it:

    e = integral_0^inf 1 - F(x)^count dx - integral_-inf^0 F(x)^count dx;  q likewise of 2 |x| (...), both added
    """
    nodes, below = _normal()
    power = below ** np.asarray(count, dtype=np.float64)[..., None]
    tail = np.where(nodes > 0, 1.0 - power, -power)
    return _integral(tail, nodes), _integral(2.0 * nodes * tail, nodes)


def most_loaded(lookups: Num, ranks: Num) -> Array:
    """Expected lookups on the most loaded of `ranks` when each of `lookups` falls on any of them by chance:

        E[max] = n / R + sqrt(n / R) e(R) + (q(R) - 1) (1 - 2/R) / 6,  at least ceil(n / R), at most n

    with e and q of `normal_maximum`: the loads of a multinomial are independent normals less their mean, and the last
    term is their skewness (Cornish and Fisher, 1938). Within 1.5 % of the exact value from n = R on, up to 16 ranks.
    """
    n, r = np.asarray(lookups, dtype=np.float64), np.asarray(ranks, dtype=np.float64)
    first, square = normal_maximum(r)
    above = np.sqrt(n / r) * first + (square - 1.0) * (1.0 - 2.0 / r) / 6.0
    expected = n / r + np.where(r > 1, above, 0.0)
    return np.asarray(np.minimum(np.maximum(expected, np.ceil(n / r)), n))
