"""What is finished stays finished: folders survive kill -9, and refuse to mix sweeps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.sweep import sweep as module
from archmodel.sweep.executors import SweepError
from archmodel.sweep.store import series
from archmodel.sweep.sweep import opened

from .conftest import AXES, BATCH, HBM, LINK

pl = pytest.importorskip("polars")

ROOT = Path(__file__).parent.parent.parent
MANY = {BATCH: list(range(256, 256 * 161, 256)), LINK: ["100 GB/s", "200 GB/s"]}
"""160 designs, 16 to a chunk."""


def sorted_frame(table: Any) -> Any:
    return table.to_polars().sort("point")


def test_a_folder_holds_what_memory_does(small: am.Design, tmp_path: Path) -> None:
    held, stored = am.sweep(small, AXES), am.sweep(small, AXES, out=tmp_path / "t")
    columns = [c for c in held.to_polars().columns if c != "git_version"]
    assert sorted_frame(held).select(columns).equals(sorted_frame(stored).select(columns))
    assert stored.best() == held.best() and stored.ranges() == held.ranges() and stored.reasons == held.reasons
    again = opened(tmp_path / "t")
    assert again.units == held.units and list(again) == list(held)
    assert again.scan().select(pl.len()).collect().item() == 42


def test_the_parquet_file_says_what_made_it(small: am.Design, tmp_path: Path) -> None:
    am.sweep(small, AXES, out=tmp_path)
    notes = json.loads(pl.read_parquet_metadata(tmp_path / "points-000000.parquet")["archmodel"])
    assert notes["units"][HBM] == "B/s" and notes["package_version"] == am.__version__
    assert {"design_hash", "git_version", "fingerprint"} <= notes.keys()


def test_a_sweep_goes_on_without_repeating_or_losing_a_chunk(
    small: am.Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = am.sweep(small, MANY)
    honest, seen = module.evaluated, []

    def stopping(key: str, job: bytes, chunks: Any, *rest: Any) -> Any:
        for count, result in enumerate(honest(key, job, chunks, *rest)):
            if count == 3:
                raise KeyboardInterrupt
            yield result

    def noting(key: str, job: bytes, chunks: Any, *rest: Any) -> Any:
        for result in honest(key, job, chunks, *rest):
            seen.append(result[0])
            yield result

    monkeypatch.setattr(module, "evaluated", stopping)
    with pytest.raises(KeyboardInterrupt):
        am.sweep(small, MANY, out=tmp_path / "t")
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t").glob("*.parquet")}
    assert len(kept) == 3
    monkeypatch.setattr(module, "evaluated", noting)
    table = am.sweep(small, MANY, out=tmp_path / "t")
    assert seen == list(range(3, 10))
    assert all((tmp_path / "t" / name).stat().st_mtime_ns == at for name, at in kept.items())
    columns = ["point", BATCH, LINK, "iteration_time", "hbm_need"]
    assert sorted_frame(table).select(columns).equals(sorted_frame(whole).select(columns))


def test_kill_9_in_mid_run(small_design: Path, tmp_path: Path) -> None:
    """A real process with real workers, killed, leaves whole chunks and no workers; the next run ends the job."""
    file = tmp_path / "s.yaml"
    file.write_text(f"design: {small_design}\naxes: {{{BATCH}: {MANY[BATCH]}, {LINK}: [100 GB/s, 200 GB/s]}}\n")
    command = [sys.executable, "-m", "archmodel", "sweep", str(file), "-o", str(tmp_path / "t"), "-w", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    until(lambda: len(list(tmp_path.glob("t/*.parquet"))) >= 2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    until(lambda: not alive(first.pid))
    kept = {p.name: p.read_bytes() for p in tmp_path.glob("t/*.parquet")}
    (tmp_path / "t" / "points-000009.parquet.part").write_bytes(b"half a file")
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["answered"] == 320
    assert all((tmp_path / "t" / name).read_bytes() == content for name, content in kept.items())
    assert not list(tmp_path.glob("t/*.part"))
    numbers = opened(tmp_path / "t").to_polars()["point"]
    assert sorted(numbers) == list(range(320))


def until(true: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def alive(group: int) -> bool:
    """Whether a process of the group runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_another_sweep_is_refused_and_says_what_differs(small: am.Design, tmp_path: Path) -> None:
    am.sweep(small, {BATCH: [64]}, out=tmp_path / "t")
    with pytest.raises(SweepError, match=r"manifest\.json: is of another sweep .* other axes"):
        am.sweep(small, {BATCH: [65]}, out=tmp_path / "t")
    with pytest.raises(SweepError, match="other design hash"):
        am.sweep(small.with_({HBM: 1e12}), {BATCH: [64]}, out=tmp_path / "t")
    with pytest.raises(SweepError, match="other outputs"):
        am.sweep(small, {BATCH: [64]}, outputs=["latency"], out=tmp_path / "t")
    assert opened(tmp_path / "t").points == 1


def test_a_folder_of_something_else_is_left_alone(small: am.Design, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(SweepError, match=r"holds thesis\.tex and no sweep"):
        am.sweep(small, {BATCH: [64]}, out=tmp_path)
    with pytest.raises(SweepError, match="is a file"):
        am.sweep(small, {BATCH: [64]}, out=tmp_path / "thesis.tex")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "manifest.json").write_text("{}")
    with pytest.raises(SweepError, match="is not the manifest of a sweep"):
        am.sweep(small, {BATCH: [64]}, out=tmp_path / "m")
    with pytest.raises(SweepError, match="is no folder of a sweep"):
        opened(tmp_path / "nowhere")


def test_two_processes_do_not_write_one_folder(small: am.Design, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    am.sweep(small, {BATCH: [64]}, out=tmp_path / "t")
    with (tmp_path / "t" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SweepError, match="another process is writing"):
            am.sweep(small, {BATCH: [64]}, out=tmp_path / "t")


def test_memory_does_not_grow_with_the_sweep(small_design: Path, tmp_path: Path) -> None:
    """Peak memory of the process that writes, four times the points: the same but for a few chunks."""

    def peak(points: int) -> float:
        code = (
            "import archmodel as am\nfrom archmodel.interop.run import peak_memory\n"
            f"d = am.load({str(small_design)!r})\n"
            f"axes = {{{HBM!r}: am.between('1 TB/s', '4 TB/s'), {LINK!r}: am.between('100 GB/s', '600 GB/s')}}\n"
            f"am.sweep(d, axes, sample='random', points={points}, out={str(tmp_path / str(points))!r})\n"
            "print(peak_memory() / 2**20)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    small, large = peak(100_000), peak(400_000)
    assert large < 600
    assert large - small < 0.5 * 300_000 * 16 * 8 / 2**20, "half of what the rows themselves take"


@pytest.mark.parametrize("text", [[None, "no room"], ["no room", None], [None, None], ["a", "b"], []])
def test_text_columns_may_begin_with_nothing(text: list[str | None]) -> None:
    """The first point of a chunk fits and a later one does not."""
    column = np.empty(len(text), dtype=object)
    column[:] = text
    made = series("reason", column)
    assert made.to_list() == text and str(made.dtype) == "String"
