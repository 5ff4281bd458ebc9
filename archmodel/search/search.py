"""search(file): the best that can be bought, as a Pareto front over the knobs of a design."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.quantities import Array
from archmodel.search.aims import named
from archmodel.search.ask import (
    ENUMERATED,
    ENUMERATED_DESIGNS,
    ENUMERATED_PLANS,
    POPULATION,
    Asker,
    Bred,
    Enumeration,
    Genetic,
    Neighbours,
    size,
)
from archmodel.search.file import Asked, read
from archmodel.search.found import Found, Points, found_of
from archmodel.search.pareto import front, hypervolume
from archmodel.search.record import Record, SearchError, columns_of, opened, rows_of
from archmodel.sweep.executors import Call, Evaluate, session
from archmodel.sweep.job import PLAN, PLAN_OF, Columns, Job, Piece, packed
from archmodel.sweep.prepare import described
from archmodel.sweep.sweep import git_version

POINTS = 2_000
"""Points that a search which is neither small nor told when to stop evaluates."""

PIECE_DESIGNS = 4
"""Designs of a piece, which is what one worker takes at a time; one when they are planned anew."""

BATCH_NEIGHBOURS = 192
"""Most neighbours of a batch."""

_HELD = 2.0
"""Seconds between two looks at the hypervolume of a search under way, at least."""


@dataclass(frozen=True)
class State:
    """How far a search is: points evaluated, those of them that the record had, points in all (None: a time ends it),
    share of the budget that is spent, points on the front, and the share of the box between reference and best values
    that the front dominates."""

    done: int
    before: int
    total: int | None
    spent: float
    front: int
    hypervolume: float


Progress = Callable[[State], None]


def search(
    given: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    budget: float | None = None,
    points: int | None = None,
    seed: int | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    sets: Mapping[str, str] | None = None,
    root: str | Path | None = None,
) -> Found:
    """The Pareto front of a search file, or of a mapping like one (whose `design` may be a Design).

    A space that is small is evaluated whole and its front is exact; of others, NSGA-II and then neighbours of the front
    are evaluated until `points` are (default 2,000) or `budget` seconds are over. The same seed gives the same answer
    whatever workers there are, unless a time ends it. `out`: a parquet file for the front; every evaluation is kept
    beside it, and the same search goes on from there. `workers`: processes of this machine, 1 being this one.
    `scheduler`: address of a Dask scheduler to use in their place. An interrupt keeps the front so far. Raises
    DesignError for a bad file, SearchError or SweepError for what cannot run.
    """
    return run(
        read(given, root=root, sets=sets),
        out=out, budget=budget, points=points, seed=seed, workers=workers, scheduler=scheduler, progress=progress,
    )  # fmt: skip


def run(
    asked: Asked,
    *,
    out: str | Path | None = None,
    budget: float | None = None,
    points: int | None = None,
    seed: int | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Found:
    """Runs a search that was read; see `search`."""
    if workers < 1:
        raise SearchError(f"{workers} workers: at least 1 is needed")
    if budget is not None and not budget > 0:
        raise SearchError(f"a budget of {budget} s: more than 0 is needed")
    if points is not None and points < 1:
        raise SearchError(f"{points} points: at least 1 is needed")
    path = None if out is None else Path(out)
    if path is not None:
        from archmodel.sweep.store import needs_polars

        needs_polars()
    seed = asked.seed if seed is None else seed
    what = [described(job) for job in asked.jobs]
    with opened(path and record_of(path), _same(asked, what)) as record:
        search = _Search(asked, record, seed, points if points is not None else asked.points, budget, progress)
        with session(workers, scheduler) as evaluate:
            search.run(evaluate)
        found = found_of(asked, search.evaluated(), search.meta(what, workers, scheduler), record)
    if path is not None:
        found.write(path)
    return found


def record_of(path: Path) -> Path:
    """The file beside a front that holds every evaluation."""
    return path.with_name(f"{path.stem}.sqlite")


def _same(asked: Asked, what: list[dict[str, Any]]) -> dict[str, Any]:
    """What evaluations depend on."""
    jobs = asked.jobs
    return {
        "designs": {family: w["design_hash"] for family, w in zip(asked.aims.families, what, strict=True)},
        "package_version": what[0]["package_version"],
        "knobs": what[0]["axes"],
        "outputs": list(jobs[0].outputs),
        "follows": what[0].get("follows"),
        "replan": what[0].get("replan"),
    }


@dataclass
class _Search:
    """A search under way."""

    asked: Asked
    record: Record
    seed: int
    points: int | None
    budget: float | None
    progress: Progress | None
    began: float = field(default_factory=time.monotonic)
    order: dict[bytes, int] = field(default_factory=dict)
    parts: list[Columns] = field(default_factory=list)
    codes: list[Array] = field(default_factory=list)
    before: int = 0
    interrupted: bool = False
    complete: bool = False
    volume: tuple[float, float] = (0.0, -np.inf)
    kept: Array | None = None

    def __post_init__(self) -> None:
        asked = self.asked
        self.packed = [(described(job)["fingerprint"], packed(job)) for job in asked.jobs]
        self.method, self.total = self._method()

    def _method(self) -> tuple[str, int | None]:
        """How points are chosen, and how many there are in all, where that is known."""
        asked, known = self.asked, size(self.asked.axes)
        planned = asked.jobs[0].replan is not None
        if asked.method == "enumerate" and known is None:
            free = next(axis.path for axis in asked.axes if axis.size is None)
            raise SearchError(f"method enumerate: the knob {free} is a range without a count, so it has no every value")
        small = known is not None and known[0] <= ENUMERATED and (
            known[1] <= (ENUMERATED_PLANS if planned else ENUMERATED_DESIGNS)
        ) and (self.points is None or self.points >= known[0])  # fmt: skip
        if asked.method == "enumerate" or (asked.method == "auto" and small):
            assert known is not None
            return "enumeration", known[0] if self.points is None else min(self.points, known[0])
        if self.points is None and self.budget is None:
            self.points = POINTS
        return "nsga2", self.points if known is None or self.points is None else min(self.points, known[0])

    def asker(self) -> Asker:
        axes = self.asked.axes
        if self.method == "enumeration":
            return Enumeration(axes, self.seed)
        most = self.points or 2**62
        population = min(self.asked.population or POPULATION, most)
        genetic = Genetic(
            axes, len(self.asked.aims.objectives), self.seed, population, self.asked.crossover, self.base()
        )
        return Bred(genetic, Neighbours(axes, BATCH_NEIGHBOURS, self.seed), self.spent)

    def base(self) -> Array | None:
        """Codes of the values that the design has, where every knob knows one."""
        from archmodel import source

        job, codes = self.asked.jobs[0], []
        plain = source.strip(job.design.tree)
        for axis in self.asked.axes:
            try:
                value = source.at(plain, axis.path) if not axis.bundle else None
            except KeyError:
                value = None
            if axis.dimension is not None:
                from archmodel.sweep.follow import number_at

                codes.append(number_at(job.design.spec, axis.path))
            elif axis.size is None:
                codes.append(float(value) if isinstance(value, int | float) else axis.low)
            else:
                codes.append(float(axis.values.index(value)) if axis.values and value in axis.values else 0.0)
        return np.array(codes)

    def spent(self) -> tuple[float, int]:
        """Share of points or time that is used up, and points left."""
        done = len(self.order)
        share = 0.0 if self.points is None else done / self.points
        if self.budget is not None:
            share = max(share, (time.monotonic() - self.began) / self.budget)
        return share, (2**62 if self.points is None else self.points) - done

    def run(self, evaluate: Evaluate) -> None:
        asker = self.asker()
        aims = self.asked.aims
        try:
            while True:
                share, left = self.spent()
                if share >= 1.0:
                    self.complete = self.method == "enumeration" and self.total == len(self.order) == size_of(self)
                    return
                codes = asker.ask()
                if codes is None:
                    self.complete = self.method == "enumeration"
                    return
                if self.method == "enumeration":
                    codes = codes[:left]
                columns = self.batch(codes, evaluate)
                asker.tell(codes, aims.values(columns), aims.excesses(columns))
        except _TimeUpError:
            return
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if self.complete and isinstance(asker, Enumeration):
                self.sort(asker)

    def sort(self, asker: Enumeration) -> None:
        """Puts all points into the order of the knobs as written, and numbers them so."""
        points = self.evaluated()
        order = np.argsort(asker.numbers(list(self.order)), kind="stable")
        columns = {name: column[order] for name, column in points.columns.items()}
        columns["point"] = np.arange(len(order), dtype=np.int64)
        self.parts, self.codes = [columns], [points.codes[order]]

    # --- evaluating ------------------------------------------------------------------------------------------

    def batch(self, codes: Array, evaluate: Evaluate) -> Columns:
        """Columns of a batch, in its order: what the record has, and the rest evaluated."""
        keys = [row.tobytes() for row in codes]
        fresh = list(dict.fromkeys(key for key in keys if key not in self.order))
        calls: list[Call] = []
        for family, job in enumerate(self.asked.jobs):
            known = self.record.rows(family, fresh)
            calls += self.calls(family, job, [key for key in fresh if key not in known])
        missing = {key for call in calls for key in _keys(call.chunk, len(self.asked.axes))}
        self.before += len(fresh) - len(missing)
        done, of = len(self.order) + len(fresh) - len(missing), len(self.asked.jobs)
        self.tell(done)
        finished: dict[bytes, int] = {}
        family_of = {key: i for i, (key, _) in enumerate(self.packed)}
        try:
            for call, columns in evaluate(calls):
                family = family_of[call.key]
                mine = _keys(call.chunk, len(self.asked.axes))
                plans, planned = _plans(self.asked.jobs[family], mine, columns)
                self.record.write(family, mine, rows_of(columns, self.asked.jobs[family].outputs), plans, planned)
                for key in mine:
                    finished[key] = finished.get(key, 0) + 1
                if self.progress is not None:
                    if time.monotonic() - self.volume[1] > _HELD:  # what the front is in the midst of the batch
                        whole, partly = self.known([key for key, count in finished.items() if count == of])
                        if whole:
                            self.widen(partly)
                    self.tell(done + sum(count == of for count in finished.values()))
                if self.budget is not None and time.monotonic() - self.began > self.budget:
                    raise _TimeUpError
        finally:
            self.take(fresh)
        return self.columns_at(keys)

    def calls(self, family: int, job: Job, keys: list[bytes]) -> list[Call]:
        """Points as pieces: those of one design together, a few designs or one pass at most."""
        if not keys:
            return []
        codes = np.frombuffer(b"".join(keys), dtype=np.float64).reshape(len(keys), -1)
        alone = [(row.tobytes(),) for row in codes[:, job.structural]]
        groups: dict[tuple[bytes, ...], list[bytes]] = {}
        for key, design in zip(keys, alone if job.replan is None else job.plan_keys(codes), strict=True):
            groups.setdefault(design, []).append(key)
        pieces: list[list[tuple[tuple[bytes, ...], list[bytes]]]] = []
        most = 1 if job.replan is not None else PIECE_DESIGNS
        for design, points in groups.items():
            for start in range(0, len(points), job.pass_points):
                part = points[start : start + job.pass_points]
                full = not pieces or len(pieces[-1]) >= most or (
                    sum(len(p) for _, p in pieces[-1]) + len(part) > job.pass_points
                )  # fmt: skip
                if full:
                    pieces.append([])
                pieces[-1].append((design, part))
        name, bytes_ = self.packed[family]
        calls = []
        for number, piece in enumerate(pieces):
            named = dict.fromkeys(key for design, _ in piece for key in design) if job.replan else {}
            found = ((key, self.record.plan(family, key)) for key in named)
            plans = tuple((key, text) for key, text in found if text is not None)
            calls.append(Call(name, bytes_, Piece(number, b"".join(k for _, part in piece for k in part), plans)))
        return calls

    def take(self, keys: list[bytes]) -> None:
        """Takes the points that are evaluated for every model into this search, in the order that they were asked."""
        whole, columns = self.known(keys)
        if not whole:
            return
        for key in whole:
            self.order[key] = len(self.order)
        columns["point"] = np.arange(len(self.order) - len(whole), len(self.order), dtype=np.int64)
        self.parts.append(columns)
        self.codes.append(np.frombuffer(b"".join(whole), dtype=np.float64).reshape(len(whole), -1))
        self.widen(columns)

    def known(self, keys: list[bytes]) -> tuple[list[bytes], Columns]:
        """Those of the points that are evaluated for every model, and their columns."""
        found = [self.record.rows(family, keys) for family in range(len(self.asked.jobs))]
        whole = [key for key in keys if all(key in rows for rows in found)]
        columns: Columns = {"point": np.arange(len(whole), dtype=np.int64)}
        if whole:
            for family, job, rows in zip(self.asked.aims.families, self.asked.jobs, found, strict=True):
                read = columns_of([rows[key] for key in whole], job.outputs)
                columns |= {named(family, name): column for name, column in read.items()}
        return whole, columns

    def columns_at(self, keys: list[bytes]) -> Columns:
        """Columns of points that were taken."""
        rows = np.array([self.order[key] for key in keys], dtype=np.int64)
        whole = self.evaluated().columns
        return {name: column[rows] for name, column in whole.items()}

    def evaluated(self) -> Points:
        """Every point so far."""
        if len(self.parts) > 1:
            self.parts = [{name: np.concatenate([p[name] for p in self.parts]) for name in self.parts[0]}]
            self.codes = [np.concatenate(self.codes)]
        if not self.parts:
            return Points(np.empty((0, len(self.asked.axes))), {})
        return Points(self.codes[0], self.parts[0])

    # --- how far it is ---------------------------------------------------------------------------------------

    def widen(self, columns: Columns) -> None:
        """Takes points into the front so far."""
        aims = self.asked.aims
        values = aims.values(columns)[aims.feasible(columns)]
        if len(values):
            joined = values if self.kept is None else np.concatenate([self.kept, values])
            self.kept = np.unique(joined[front(joined)], axis=0)

    def tell(self, done: int) -> None:
        if self.progress is None:
            return
        now = time.monotonic()
        if now - self.volume[1] > _HELD:
            cost = time.monotonic()
            share = 0.0
            if self.kept is not None and len(self.kept) > 1:
                share = box_share(self.kept, self.kept.max(0))
            self.volume = (share, time.monotonic() + 10 * (time.monotonic() - cost))
        share, _ = self.spent()
        size_ = 0 if self.kept is None else len(self.kept)
        self.progress(State(done, self.before, self.total, min(share, 1.0), size_, self.volume[0]))

    def meta(self, what: list[dict[str, Any]], workers: int, scheduler: str | None) -> dict[str, Any]:
        asked = self.asked
        replan = asked.jobs[0].replan
        return {
            "name": asked.name,
            "designs": {f or w["name"]: w["design_hash"] for f, w in zip(asked.aims.families, what, strict=True)},
            "package_version": what[0]["package_version"],
            "git_version": git_version(),
            "created": datetime.now(UTC).isoformat(),
            "seed": self.seed,
            "method": self.method,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "repeatable": (self.budget is None or self.complete) and (replan is None or replan.seconds is None),
            "evaluated_before": self.before,
            "seconds": time.monotonic() - self.began,
        }


class _TimeUpError(Exception):
    """The budget ended in the midst of a batch."""


def size_of(search: _Search) -> int | None:
    """Points of the whole space."""
    known = size(search.asked.axes)
    return None if known is None else known[0]


def box_share(values: Array, reference: Array) -> float:
    """Hypervolume over that of the box between the reference and the best of each objective; 0 for a flat box."""
    box = float(np.prod(reference - values.min(0)))
    return hypervolume(values, reference) / box if box > 0 else 0.0


def _keys(chunk: Any, axes: int) -> list[bytes]:
    """The points of a piece, one by one."""
    assert isinstance(chunk, Piece)
    width = 8 * axes
    return [chunk.codes[i : i + width] for i in range(0, len(chunk.codes), width)]


def _plans(job: Job, keys: list[bytes], columns: Columns) -> tuple[dict[bytes, str], dict[bytes, bytes]]:
    """Plans of a piece by their keys, and the key of each point's."""
    if job.replan is None:
        return {}, {}
    planned = {key: of for key, of in zip(keys, columns[PLAN_OF], strict=True) if of is not None}
    texts = zip(columns[PLAN_OF], columns[PLAN], strict=True)
    return {of: text for of, text in texts if of is not None}, planned
