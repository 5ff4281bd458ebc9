"""The same table from this process, from processes, and from a cluster whose worker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from concurrent.futures import Future as ConcurrentFuture
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.sweep import executors
from archmodel.sweep.executors import SweepError, evaluated
from archmodel.sweep.job import packed, run_chunk
from archmodel.sweep.prepare import Request, prepared

from ..clusters import Cluster, running
from .conftest import AXES, BATCH, LINK
from .test_sweep import same

ROOT = Path(__file__).parent.parent.parent
MANY = {BATCH: list(range(256, 256 * 161, 256)), LINK: ["100 GB/s", "200 GB/s"]}


def test_processes_give_the_same_to_the_last_bit(small: am.Design) -> None:
    axes = {**AXES, "plan.prefetch_input": [True, False], BATCH: list(range(1024, 1024 * 5, 1024))}
    assert same(am.sweep(small, axes, workers=2), am.sweep(small, axes))


class Dying(Executor):
    """An executor whose process dies at some calls."""

    calls = 0
    at: tuple[int, ...] = ()

    def submit(self, fn: Any, *args: Any, **more: Any) -> Any:  # type: ignore[override]
        Dying.calls += 1
        future: ConcurrentFuture[Any] = ConcurrentFuture()
        if Dying.calls in Dying.at:
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(fn(*args))
        return future


@contextmanager
def dying(workers: int) -> Iterator[Executor]:
    yield Dying()


@pytest.mark.parametrize(("at", "survives"), [((3,), True), ((3, 9), True), (tuple(range(1, 200)), False)])
def test_a_dead_process_is_replaced_and_its_chunks_are_given_out_again(
    small: am.Design, monkeypatch: pytest.MonkeyPatch, at: tuple[int, ...], survives: bool
) -> None:
    monkeypatch.setattr(executors, "_pool", dying)
    Dying.calls, Dying.at = 0, at
    job = prepared(Request(small, MANY))
    if not survives:
        with pytest.raises(SweepError, match="died 3 times on chunk"):
            list(evaluated("key", packed(job), range(job.chunks), 2, None))
        return
    found = [chunk for chunk, _ in evaluated("key", packed(job), range(job.chunks), 2, None)]
    assert sorted(found) == list(range(job.chunks))


def test_a_worker_of_another_version_is_refused(small: am.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(*arguments: Any) -> Any:
        return ("0.0.1", *run_chunk(*arguments)[1:])

    monkeypatch.setattr(executors, "_pool", dying)
    monkeypatch.setattr(executors, "run_chunk", old)
    Dying.at = ()
    with pytest.raises(SweepError, match=r"a worker runs archmodel 0\.0\.1"):
        am.sweep(small, MANY, workers=2)


def test_no_workers_is_an_error(small: am.Design) -> None:
    with pytest.raises(SweepError, match="at least 1"):
        am.sweep(small, {BATCH: [64]}, workers=0)


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A real scheduler and two real workers."""
    with running(tmp_path) as made:
        yield made


def test_a_cluster_gives_the_same_to_the_last_bit_though_a_worker_is_killed(small: am.Design, cluster: Cluster) -> None:
    address, workers = cluster
    killed: list[int] = []

    def kill_one(done: int, total: int, before: int) -> None:
        if 0 < done < total and not killed:
            workers[0].send_signal(signal.SIGKILL)
            killed.append(done)

    table = am.sweep(small, MANY, scheduler=address, progress=kill_one)
    assert killed and workers[0].wait(10) == -signal.SIGKILL
    assert same(table, am.sweep(small, MANY))
    assert np.isfinite(table["iteration_time"]).all()


def test_a_scheduler_that_is_not_there_is_named(small: am.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "ANSWER", 0.5)
    with pytest.raises(SweepError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        am.sweep(small, {BATCH: [64]}, scheduler="tcp://127.0.0.1:9")


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """Without that, each would wait for work for ever."""
    code = (
        "import os, time\nfrom archmodel.sweep.executors import _pool\n"
        "if __name__ == '__main__':\n"
        "    with _pool(1) as pool:\n"
        f"        open({str(tmp_path / 'pid')!r}, 'w').write(str(pool.submit(os.getpid).result()))\n"
        "        time.sleep(60)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script)], env=ENVIRONMENT)
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text() != "")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not Path(f"/proc/{pid.read_text()}").exists() or zombie(int(pid.read_text())))


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(true: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def test_a_sweep_in_memory_imports_nothing_heavy(small_design: Path) -> None:
    code = (
        (
            "import archmodel as am, sys\n"
            f"am.sweep({str(small_design)!r}, {{{BATCH!r}: [64, 128], {LINK!r}: am.linspace('1 TB/s', '2 TB/s', 3)}})\n"
            "am.sweep({!r}, {{'workload.global_batch': [64, 128]}}, sample='latin_hypercube', points=4)\n"
            "print(*sys.modules)"
        )
        .replace("{!r}", repr(str(small_design)))
        .replace("{{", "{")
        .replace("}}", "}")
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    heavy = ("polars", "distributed", "plotly", "scipy.stats", "scipy.linalg", "networkx")
    assert not set(done.stdout.split()).intersection(heavy)
