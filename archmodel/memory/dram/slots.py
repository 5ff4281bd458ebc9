# ruff: noqa: N803, N806  (JEDEC's names)
"""What a queue of so many bursts lets through: vectors under way, where one may enter, and how waiting thins them out.

A queue holds the bursts that are still to be read, so a vector of n bursts enters when Q - n are left: with every n-th
read one. Everything follows from where those reads fall.
"""

from __future__ import annotations

import numpy as np

from archmodel.quantities import Array

_LONGEST = 8
"""Bursts of a vector up to which the pattern of a short queue is worked out read by read."""
_SHORT = 3
"""Vectors that a queue holds up to which it is."""
_SPREAD, _WEIGHTS = np.polynomial.legendre.leggauss(6)


def pattern(first: Array, step: Array, n: Array, Q: Array) -> tuple[Array, Array]:
    """(p, i): in a queue of at most three vectors every vector enters at the i-th read of the one p before it.

    Its reads come `first`, `first + step`, ... after it entered, so vectors are c = (first + (i - 1) step) / p apart,
    and just after the read the bursts that are left leave room:

        sum over j < p of n - min(max(floor(i - j c / step), 0), n)  <=  Q - n

    The shortest such c is taken; no wait is in it.
    """
    if not is_short(n, Q).any():
        return np.ones(()), np.ones(())
    shape = np.broadcast_shapes(first.shape, step.shape, n.shape, Q.shape)
    most = int(min(n.max(initial=1), _LONGEST))
    p, i = np.arange(1.0, 2 * most + 2)[:, None], np.arange(1.0, most + 1)[None, :]
    first, step, n, Q = (np.broadcast_to(a, shape)[..., None, None] for a in (first, step, n, Q))
    i = np.minimum(i, n)
    c = (first + (i - 1) * step) / p
    j = np.arange(-3 * most - 3, 2 * most + 1).reshape(-1, *([1] * (len(shape) + 2)))
    left = np.where(j < p, n - np.clip(np.floor(i - j * c / step + 1e-9), 0.0, n), 0.0).sum(0)
    fits = np.where(left <= np.maximum(Q - n, 0.0), c, np.inf).reshape(*shape, -1)
    best = fits.argmin(-1)
    pairs = np.broadcast_to(p, c.shape), np.broadcast_to(i, c.shape)
    found = [np.take_along_axis(a.reshape(*shape, -1), best[..., None], -1)[..., 0] for a in pairs]
    return found[0], found[1]


def cycles_of_slots(
    first: Array, step: Array, n: Array, Q: Array, wait: Array, crowded: Array, enters: tuple[Array, Array]
) -> Array:
    """Cycles between vectors that a queue of Q bursts allows, when reads of a vector come `first` (`wait` and `crowded`
    later), then every `step`; `enters` from `pattern`.

    With k = floor(Q / n) whole vectors, r = Q - k n bursts more, T = first + waits + (n - 1) step, and room for
    Q - (n - 1) / 2 bursts on average when reads are evenly spread:

        one after the other   c = (T - r step) / k, but not less than `mixed`: a vector enters r reads before the last
        mixed                 c = n (T - (n - 1) step / 2) / room
        three or fewer        c = max(pattern, mixed) + wait min(n / room, 1): what waits holds the room of n bursts

    never more than T / k; from the first to the second as one to two vectors are being read.
    """
    k = np.maximum(np.floor(Q / n), 1.0)
    r = np.maximum(Q - k * n, 0.0)
    first = first + crowded
    total = first + wait + (n - 1.0) * step
    room = np.maximum(Q, n) - (n - 1.0) / 2
    even = n * (first + wait + (n - 1.0) * step / 2) / room
    apart = np.minimum(np.maximum((total - r * step) / k, np.where(r > 0, even, 0.0)), total / k)
    mixed = np.where((k > 1) | (r > 0), np.clip((n - 1.0) * step / even - 1.0, 0.0, 1.0), 0.0)
    many = 1.0 / ((1.0 - mixed) / apart + mixed / even)
    p, i = enters
    few = (first + (i - 1.0) * step) / p
    more = np.maximum(n * (first + (n - 1.0) * step / 2) / room - few, 0.0)
    few = few + np.where((r > 0) & (k > 1), 1.0, mixed) * more + wait * np.minimum(n / room, 1.0)
    return np.asarray(np.where(is_short(n, Q), np.minimum(few, total / k), many))


def is_short(n: Array, Q: Array) -> Array:
    """Where reads are followed one by one."""
    return np.asarray((n > 1) & (n <= _LONGEST) & (_SHORT * n >= Q))


def thinned(least: Array, slots: Array, spread: Array) -> Array:
    """Cycles between vectors when resources allow 1 / `least` a cycle and the queue a normal variable about 1 / `slots`
    with a relative deviation of `spread`: one over the mean of the smaller rate."""
    from scipy.special import ndtr

    rate, most = 1.0 / slots, 1.0 / least
    deviation = np.maximum(rate * spread, 1e-12)
    z = (most - rate) / deviation
    mean = rate * ndtr(z) + most * ndtr(-z) - deviation * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return np.asarray(1.0 / np.maximum(mean, 1e-300))


def refresh_loss(stop: Array, ranks: Array, slots: Array, c: Array, alone: Array) -> Array:
    """Cycles that the channel loses to a refresh that stops one of R ranks for `stop` cycles.

    Vectors of the other ranks go on, but each one that comes instead is the stopped rank's with chance 1 / R and stays.
    Of k slots, each of which needs a time `alone` for a vector, k (1 - 1/R) are left at first; while they are more
    than the channel needs, u R (k c (1 - 1/R) - alone) cycles long, nothing is lost, then they die out with the time
    R alone:

        loss = s - y R alone (1 - exp(-s / (R alone))),   y = min(1, (1 - 1/R) k c / alone),  s what is left of the stop

    averaged over u from 0 to 2, since first-ready scheduling serves ranks in long runs.
    """
    fresh = slots * c * (1.0 - 1.0 / ranks)
    share = np.minimum(fresh / alone, 1.0)
    total = np.zeros(np.broadcast_shapes(np.shape(stop), np.shape(fresh)))
    for node, weight in zip(_SPREAD, _WEIGHTS, strict=True):
        s = np.maximum(stop - (1.0 + node) * ranks * np.maximum(fresh - alone, 0.0), 0.0)
        total = total + weight / 2 * (s + share * ranks * alone * np.expm1(-s / (ranks * alone)))
    return np.asarray(total)
