"""Where chunks are evaluated: in this process, in processes of this machine, or on a Dask cluster.

One seam, `concurrent.futures.Executor`, and one loop that keeps a few chunks more in flight than there are workers, so
that memory does not grow with the sweep.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from archmodel import __version__
from archmodel.errors import ArchmodelError
from archmodel.sweep.job import Chunk, Columns, run_chunk

ATTEMPTS = 3
"""How often a chunk is given to a new pool after its process died."""

ANSWER = 10
"""Seconds in which a scheduler must answer."""


class SweepError(ArchmodelError):
    """A sweep that cannot start or go on; what is finished is kept."""


class Call(NamedTuple):
    """A chunk of the packed job `key`."""

    key: str
    job: bytes
    chunk: Chunk


Done = Iterator[tuple[int, Columns]]
Evaluate = Callable[[Iterable[Call]], Iterator[tuple[Call, Columns]]]
"""Evaluates calls; gives them back, with their columns, in the order in which they are ready."""


def evaluated(key: str, job: bytes, chunks: Iterable[int], workers: int, scheduler: str | None) -> Done:
    """(chunk, columns) of every chunk, in the order in which they are ready."""
    with session(workers, scheduler) as evaluate:
        for call, columns in evaluate(Call(key, job, chunk) for chunk in chunks):
            assert isinstance(call.chunk, int)
            yield call.chunk, columns


@contextmanager
def session(workers: int, scheduler: str | None) -> Iterator[Evaluate]:
    """What evaluates calls, any number of times: the Dask cluster at `scheduler`, or processes of this machine, which
    are started once, or with one worker this process."""
    if scheduler is not None:
        with _dask(scheduler) as (pool, cores):
            yield lambda calls: _through(pool, 2 * cores, deque(calls), set())
    elif workers == 1:
        yield _here
    else:
        processes = _Processes(workers)
        try:
            yield processes
        finally:
            processes.close()


def mapped(
    function: Callable[..., Any], items: Sequence[tuple[Any, ...]], workers: int, scheduler: str | None
) -> Iterator[Any]:
    """`function(*item)` of every item, in their order, where `session` would evaluate; `function` is a module's."""
    if scheduler is None and (workers == 1 or len(items) == 1):
        yield from (function(*item) for item in items)
        return
    with _dask(scheduler) if scheduler is not None else _local(min(workers, len(items))) as (pool, _):
        futures = [pool.submit(function, *item) for item in items]
        try:
            yield from (future.result() for future in futures)
        except BrokenProcessPool:
            raise SweepError("a worker process died (out of memory?); fewer --workers may help") from None


@contextmanager
def _local(workers: int) -> Iterator[tuple[Executor, int]]:
    with _pool(workers) as pool:
        yield pool, workers


def _here(calls: Iterable[Call]) -> Iterator[tuple[Call, Columns]]:
    for call in calls:
        yield call, run_chunk(*call)[2]


class _Processes:
    """Processes are started afresh when one dies, and what was in flight is given out again."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.open = ExitStack()
        self.pool: Executor | None = None

    def close(self) -> None:
        self.pool = None
        self.open.close()

    def __call__(self, calls: Iterable[Call]) -> Iterator[tuple[Call, Columns]]:
        attempts: dict[Call, int] = {}
        waiting = deque(calls)
        while waiting:
            inflight: set[Call] = set()
            if self.pool is None:
                self.pool = self.open.enter_context(_pool(self.workers))
            try:
                yield from _through(self.pool, 2 * self.workers, waiting, inflight)
            except BrokenProcessPool:
                self.close()
                for call in sorted(inflight, reverse=True):
                    attempts[call] = attempts.get(call, 0) + 1
                    if attempts[call] == ATTEMPTS:
                        number = call.chunk if isinstance(call.chunk, int) else call.chunk.number
                        what = f"a worker process died {ATTEMPTS} times on chunk {number} or one beside it"
                        raise SweepError(f"{what} (out of memory?); fewer --workers may help") from None
                    waiting.appendleft(call)


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


@contextmanager
def _dask(scheduler: str) -> Iterator[tuple[Executor, int]]:
    """An executor and the cores behind it. Dask gives the chunks of a worker that dies to the others."""
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
            yield pool, cores


def _through(pool: Executor, most: int, waiting: deque[Call], inflight: set[Call]) -> Iterator[tuple[Call, Columns]]:
    running: dict[Future[Any], Call] = {}
    submit: Callable[..., Future[Any]] = pool.submit
    while waiting or running:
        while waiting and len(running) < most:
            inflight.add(waiting[0])
            call = waiting.popleft()
            running[submit(run_chunk, *call)] = call
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=id):
            version, _, columns = future.result()
            if version != __version__:
                raise SweepError(f"a worker runs archmodel {version}, this is {__version__}; results would be mixed")
            call = running.pop(future)
            inflight.discard(call)
            yield call, columns
