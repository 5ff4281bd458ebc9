"""Service centres that requests reach by chance: the channels of a drive.

A drive has c channels, each serving one request at a time in S seconds on average, first come first served; every
request goes to any channel with the same probability. The service time is a constant and an exponential part,

    S (1 - v) + Exp(S v),   v = its coefficient of variation, from 0 (deterministic) to 1 (exponential).

Everything broadcasts.
"""

from __future__ import annotations

import numpy as np

from archmodel.quantities import Array, Num

_BISECTIONS = 60


def closed_response(depth: Num, channels: Num, variation: Num) -> Array:
    """Mean time from start to end of a request, in units of S, when `depth` requests are always in the drive.

    With n = (depth - 1) / c the requests that a newcomer finds in its channel, and k = (1 - v^2) / 2:

        r = 1 + n - k n / r   =>   r = (1 + n + sqrt((1 + n)^2 - 4 k n)) / 2

    A newcomer waits for those it finds; the one in service (utilisation n / r, Schweitzer's estimate) is partly done.
    v = 1 gives r = 1 + n, exact for exponential service (balanced closed network: Zahorjan et al., Balanced job bound
    analysis of queueing networks, CACM 25(2), 1982); the correction for the one in service is Reiser's (A queueing
    network analysis of computer communication networks with window flow control, IEEE Trans. Comm. 27(8), 1979).
    """
    n = np.maximum(np.asarray(depth, dtype=np.float64) - 1.0, 0.0) / channels
    k = (1.0 - np.asarray(variation, dtype=np.float64) ** 2) / 2.0
    return np.asarray((1.0 + n + np.sqrt(np.maximum((1.0 + n) ** 2 - 4.0 * k * n, 0.0))) / 2.0)


def closed_throughput(depth: Num, service: Num, channels: Num, variation: Num) -> Array:
    """Requests/s with `depth` always in the drive, by Little's law: depth / (S r), at most depth / S and c / S."""
    q = np.asarray(depth, dtype=np.float64)
    found = q / closed_response(q, channels, variation)
    with np.errstate(divide="ignore"):
        return np.asarray(np.divide(np.minimum(found, np.minimum(q, channels)), service))


def channels_for(rate: Num, depth: Num, service: Num, variation: Num) -> Array:
    """Channels with which `depth` requests in the drive make `rate` requests/s: `closed_response` solved for c,

        r = depth / (rate S),   n = r (r - 1) / (r - k),   c = (depth - 1) / n

    and rate S at least, as many as are busy. Infinite where rate S is `depth` or more: requests never wait for each
    other.
    """
    busy = np.asarray(rate, dtype=np.float64) * service
    r = np.asarray(depth, dtype=np.float64) / busy
    k = (1.0 - np.asarray(variation, dtype=np.float64) ** 2) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (np.asarray(depth) - 1.0) * (r - k) / (r * (r - 1.0))
    return np.asarray(np.where(r > 1.0, np.maximum(found, busy), np.inf))


def open_wait(load: Num, service: Num, channels: Num, variation: Num) -> Array:
    """Mean seconds before service when `load` requests/s arrive by chance (Poisson): every channel is an M/G/1 queue,

        W = rho S (1 + v^2) / (2 (1 - rho)),   rho = load S / c

    Pollaczek and Khinchine; Kleinrock, Queueing Systems vol. 1, 5.6. Infinite from rho = 1 on.
    """
    rho = np.asarray(load, dtype=np.float64) * service / channels
    square = np.asarray(variation, dtype=np.float64) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = rho * service * (1.0 + square) / (2.0 * (1.0 - rho))
    return np.asarray(np.where(rho < 1.0, wait, np.inf))


def open_percentile(load: Num, service: Num, channels: Num, variation: Num, share: Num) -> Array:
    """Seconds within which a `share` of the requests is done when `load` requests/s arrive by chance.

    P(wait > t) = rho exp(-rho t / W), exact for exponential service and Kingman's heavy-traffic limit else (Kleinrock,
    vol. 2, 2.1); the exponential part of the service time is added exactly, the quantile found by bisection.
    """
    s = np.asarray(service, dtype=np.float64)
    rho, wait, v, q = np.broadcast_arrays(
        np.asarray(load, dtype=np.float64) * s / channels,
        open_wait(load, s, channels, variation),
        np.asarray(variation, dtype=np.float64),
        np.asarray(share, dtype=np.float64),
    )
    stable = rho < 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where((rho > 0) & stable, wait / rho, 0.0)  # of a wait that is one
    own = s * v
    high = 2.0 * (mean + own) * np.log(2.0 / np.maximum(1.0 - q, np.finfo(float).tiny))
    low = np.zeros_like(high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        later = _tail(middle, rho, mean, own) > 1.0 - q
        low, high = np.where(later, middle, low), np.where(later, high, middle)
    return np.asarray(np.where(stable, s * (1.0 - v) + high, np.inf))


def _tail(t: Array, rho: Array, mean: Array, own: Array) -> Array:
    """P(wait + Exp(own) > t), the wait 0 with probability 1 - rho, else exponential of mean `mean`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alone = np.where(own > 0, np.exp(-t / np.where(own > 0, own, 1.0)), 0.0)
        waiting = np.where(mean > 0, np.exp(-t / np.where(mean > 0, mean, 1.0)), 0.0)
        apart = np.abs(mean - own) > 1e-9 * (mean + own)
        gap = np.where(apart, mean - own, 1.0)
        both = np.where(apart, (mean * waiting - own * alone) / gap, alone * (1.0 + t / np.where(own > 0, own, 1.0)))
    return np.asarray((1.0 - rho) * alone + rho * both)
