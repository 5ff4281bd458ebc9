"""sweep(design, axes): one design at many values of some of its fields."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.design import Design, load
from archmodel.sweep.executors import SweepError, evaluated
from archmodel.sweep.job import Columns, Job, packed
from archmodel.sweep.outputs import output
from archmodel.sweep.prepare import Request, described, prepared
from archmodel.sweep.results import Results
from archmodel.sweep.store import Store, frame

Progress = Callable[[int, int, int], None]
"""Told (points done, points in all, points that were done before)."""

MOST_HELD = 5_000_000
"""Most points that are kept in memory; more go to a folder."""


def sweep(
    design: Design | str | Path,
    axes: Mapping[str, Any],
    *,
    sample: str = "grid",
    points: int | None = None,
    seed: int = 0,
    outputs: Sequence[str] | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """`design` at all values of `axes`: {path: list, or `linspace`, `logspace`, `between`}, as one labelled table.

    `sample`: grid (every combination), list (the axes side by side), or `points` drawn by random, latin_hypercube or
    sobol. `outputs`: names of archmodel.sweep.outputs.OUTPUTS (DEFAULT when left out), or `op.NAME`. `workers`:
    processes of this machine; 1 is this one. `scheduler`: address of a Dask scheduler to use in their place. `out`: a
    folder for the table; a sweep that was interrupted goes on there. Raises DesignError for bad axes, SweepError for
    what cannot run.
    """
    base = design if isinstance(design, Design) else load(design)
    request = Request(base, axes, sample, points, seed, outputs)
    return run(prepared(request), workers=workers, scheduler=scheduler, out=out, progress=progress)


def run(
    job: Job,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """Evaluates a job; see `sweep`."""
    if workers < 1:
        raise SweepError(f"{workers} workers: at least 1 is needed")
    what = described(job)
    total = job.space.total
    tell: Progress = progress or (lambda done, of, before: None)
    units = {"point": "", **{axis.path: axis.unit for axis in job.space.axes}}
    units |= {name: output(name).unit for name in job.outputs} | {"fits": "", "reason": ""}
    manifest = {**what, "units": units, "git_version": git_version(), "created": datetime.now(UTC).isoformat()}
    names = tuple(axis.path for axis in job.space.axes)
    if out is None:
        if total > MOST_HELD:
            raise SweepError(f"{total:,} points are too many for memory; name a folder for the table")
        parts: dict[int, Columns] = {}
        done = 0
        tell(done, total, 0)
        for chunk, columns in evaluated(what["fingerprint"], packed(job), range(job.chunks), workers, scheduler):
            parts[chunk] = columns
            done += len(columns["point"])
            tell(done, total, 0)
        return Results(names, job.outputs, units, manifest, _joined([parts[chunk] for chunk in sorted(parts)]))
    store = Store(Path(out))
    with store.opened(manifest) as finished:
        missing = (chunk for chunk in range(job.chunks) if chunk not in finished)
        before = done = sum(stop - start for start, stop in map(job.bounds, finished))
        meta = store.manifest
        notes = {"archmodel": _notes(meta)}
        tell(done, total, before)
        if done < total:
            for chunk, columns in evaluated(what["fingerprint"], packed(job), missing, workers, scheduler):
                store.write(chunk, frame(columns, meta), notes)
                done += len(columns["point"])
                tell(done, total, before)
    return Results(names, job.outputs, units, meta, {}, store.folder)


def opened(folder: str | Path) -> Results:
    """The table of a sweep that was run before, as far as it got."""
    store = Store(Path(folder))
    meta = store.manifest
    names = tuple(axis["path"] for axis in meta["axes"])
    return Results(names, tuple(meta["outputs"]), meta["units"], meta, {}, store.folder)


def _joined(parts: Sequence[Columns]) -> Columns:
    """One table, in the order of the points' numbers."""
    number = np.concatenate([part["point"] for part in parts])
    order = np.argsort(number, kind="stable")
    return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def _notes(meta: Mapping[str, Any]) -> str:
    import json

    kept = ("name", "design_hash", "package_version", "git_version", "units", "sample", "seed", "fingerprint")
    return json.dumps({key: meta[key] for key in kept})


def git_version() -> str:
    """Commit of the checkout that this package is in, with + when files differ from it; empty outside of one."""
    import subprocess

    home = Path(__file__).resolve().parent.parent
    if not any((folder / ".git").exists() for folder in (home, home.parent)):
        return ""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(home), *arguments],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=10,
        )
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "-uno", "--", str(home)) else "")
    except (OSError, subprocess.SubprocessError):
        return ""
