"""A drive, event by event: channels that requests reach by chance, first come first served."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np
import numpy.typing as npt


def service_times(count: int, mean: float, variation: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """A constant and an exponential part."""
    return mean * ((1.0 - variation) + variation * rng.exponential(size=count))


def closed(
    depth: int, channels: int, mean: float, variation: float, requests: int = 40_000, seed: int = 0
) -> tuple[float, float]:
    """Requests/s and mean seconds of a request when `depth` are always in the drive; a tenth is warm-up."""
    rng = np.random.default_rng(seed)
    total = requests + depth
    times = service_times(total, mean, variation, rng).tolist()
    goes_to = rng.integers(0, channels, total).tolist()
    queues: list[deque[tuple[int, float]]] = [deque() for _ in range(channels)]
    done: list[tuple[float, int]] = []

    def arrive(number: int, now: float) -> None:
        queue = queues[goes_to[number]]
        queue.append((number, now))
        if len(queue) == 1:
            heapq.heappush(done, (now + times[number], goes_to[number]))

    for number in range(depth):
        arrive(number, 0.0)
    following, ended, waited, start = depth, 0, 0.0, 0.0
    warm = requests // 10
    while following < total:
        now, channel = heapq.heappop(done)
        _, since = queues[channel].popleft()
        if queues[channel]:
            number = queues[channel][0][0]
            heapq.heappush(done, (now + times[number], channel))
        ended += 1
        if ended == warm:
            start = now
        elif ended > warm:
            waited += now - since
        arrive(following, now)
        following += 1
    return (ended - warm) / (now - start), waited / (ended - warm)


def opened(
    load: float, channels: int, mean: float, variation: float, requests: int = 200_000, seed: int = 0
) -> npt.NDArray[np.float64]:
    """Seconds of each request when `load` requests/s arrive by chance."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1.0 / load, requests)).tolist()
    times = service_times(requests, mean, variation, rng).tolist()
    goes_to = rng.integers(0, channels, requests).tolist()
    free = [0.0] * channels
    spent = np.empty(requests)
    for number, (now, time, channel) in enumerate(zip(arrivals, times, goes_to, strict=True)):
        free[channel] = max(free[channel], now) + time
        spent[number] = free[channel] - now
    return spent[requests // 10 :]
