"""Where chunks are evaluated: in this process, in processes of this machine, or on a Dask cluster.

One seam, `concurrent.futures.Executor`, and one loop that keeps a few chunks more in flight than there are workers, so
that memory does not grow with the sweep.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from archmodel import __version__
from archmodel.errors import ArchmodelError
from archmodel.sweep.job import Columns, run_chunk

ATTEMPTS = 3
"""How often a chunk is given to a new pool after its process died."""

ANSWER = 10
"""Seconds in which a scheduler must answer."""


class SweepError(ArchmodelError):
    """A sweep that cannot start or go on; what is finished is kept."""


Done = Iterator[tuple[int, Columns]]


def evaluated(key: str, job: bytes, chunks: Iterable[int], workers: int, scheduler: str | None) -> Done:
    """(chunk, columns) of every chunk, in the order in which they are ready."""
    if scheduler is not None:
        return _on_dask(key, job, chunks, scheduler)
    if workers == 1:
        return (run_chunk(key, job, chunk)[1:] for chunk in chunks)
    return _in_processes(key, job, chunks, workers)


def _in_processes(key: str, job: bytes, chunks: Iterable[int], workers: int) -> Done:
    """Processes are started afresh when one dies, and what was in flight is given out again."""
    attempts: dict[int, int] = {}
    waiting = deque(chunks)
    while waiting:
        inflight: set[int] = set()
        with _pool(workers) as pool:
            try:
                yield from _through(pool, 2 * workers, key, job, waiting, inflight)
            except BrokenProcessPool:
                for chunk in sorted(inflight, reverse=True):
                    attempts[chunk] = attempts.get(chunk, 0) + 1
                    if attempts[chunk] == ATTEMPTS:
                        what = f"a worker process died {ATTEMPTS} times on chunk {chunk} or one beside it"
                        raise SweepError(f"{what} (out of memory?); fewer --workers may help") from None
                    waiting.appendleft(chunk)


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def end_with_parent() -> None:
    """A worker whose parent is killed would wait for work for ever; this ends it. Interrupts, which a terminal sends to
    both, are left to the parent."""
    import signal
    from multiprocessing import connection, parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_dask(key: str, job: bytes, chunks: Iterable[int], scheduler: str) -> Done:
    """Dask gives the chunks of a worker that dies to the others."""
    try:
        from distributed import Client
    except ImportError:
        raise SweepError("a scheduler needs Dask: pip install 'archmodel[cluster]'") from None
    try:
        client: Any = Client(scheduler, timeout=ANSWER, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise SweepError(f"no scheduler answers at {scheduler}: {error}") from None
    with client:
        cores = sum(client.nthreads().values())
        if not cores:
            raise SweepError(f"the scheduler at {scheduler} has no workers; start some: dask worker {scheduler}")
        with client.get_executor(pure=False, retries=ATTEMPTS) as pool:
            yield from _through(pool, 2 * cores, key, job, deque(chunks), set())


def _through(
    pool: Executor, most: int, key: str, job: bytes, waiting: deque[int], inflight: set[int]
) -> Iterator[tuple[int, Columns]]:
    running: set[Future[Any]] = set()
    submit: Callable[..., Future[Any]] = pool.submit
    while waiting or running:
        while waiting and len(running) < most:
            inflight.add(waiting[0])
            running.add(submit(run_chunk, key, job, waiting.popleft()))
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=id):
            version, chunk, columns = future.result()
            if version != __version__:
                raise SweepError(f"a worker runs archmodel {version}, this is {__version__}; results would be mixed")
            inflight.discard(chunk)
            yield chunk, columns
