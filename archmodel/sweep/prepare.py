"""From axes as a user writes them to a job: values checked, units read, and which axes go into one pass."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import BaseModel

from archmodel import source
from archmodel.components.base import fields
from archmodel.design import Design, DesignFile
from archmodel.errors import DesignError, Problem, QuantityError, nearest, shown
from archmodel.estimate.estimate import estimate
from archmodel.quantities import to_si
from archmodel.source import Mark
from archmodel.sweep.axes import Axis, Options, Range
from archmodel.sweep.follow import Follow
from archmodel.sweep.job import PASS_POINTS, Job, Replan, sizes
from archmodel.sweep.outputs import DEFAULT, OUTPUTS, unknown
from archmodel.sweep.space import SAMPLES, Space

Place = Callable[[str, int | str | None], Mark]
"""Where an axis, or one of its values, stands."""

MOST_VALUES = 1_000_000
"""Most values of one axis that are kept as a list."""

MOST_POINTS = 10**12


@dataclass(frozen=True)
class Request:
    """A sweep as asked for. `places` says where things stand in a file; `bare` allows SI numbers without a unit."""

    design: Design
    axes: Mapping[str, Any]
    sample: str = "grid"
    points: int | None = None
    seed: int = 0
    outputs: Sequence[str] | None = None
    bare: bool = True
    places: Place = lambda path, item: Mark("sweep")


def prepared(request: Request) -> Job:
    """The job of a sweep; DesignError with every problem of its axes, each in its place."""
    axes = axes_of(request)
    outputs = tuple(DEFAULT if request.outputs is None else request.outputs)
    space = Space(axes, _sample(request.sample), request.points or 0, request.seed)
    if not 0 < space.total <= MOST_POINTS:
        what = f"makes {space.total:,} points, more than the {MOST_POINTS:,} that are swept"
        raise DesignError(Problem("axes", what, None, *request.places("", "axes")))
    in_pass, in_chunk = sizes(space, _width(request.design))
    return Job(request.design, space, outputs, in_pass, in_chunk)


def axes_of(request: Request) -> tuple[Axis, ...]:
    """The axes of a request, checked; DesignError with every problem, each in its place."""
    problems: list[Problem] = []
    _settings(request, problems)
    axes: list[Axis] = []
    for path, given in request.axes.items():
        try:
            axes.append(_axis(request, path, given))
        except DesignError as error:
            problems += error.problems
    if not problems and request.sample == "list":
        problems += _uneven(request, axes)
    if problems:
        raise DesignError(problems)
    return tuple(axes)


def job_of(
    design: Design, axes: tuple[Axis, ...], outputs: tuple[str, ...], follows: tuple[Follow, ...], replan: Replan | None
) -> Job:
    """A job over points of these axes that are given one by one."""
    in_pass, in_chunk = sizes(Space(axes, "random", PASS_POINTS), _width(design))
    anchors = () if replan is None else anchors_of(axes, replan.cells)
    return Job(design, Space(axes, "random", 0), outputs, in_pass, in_chunk, follows, replan, anchors)


UNPLANNED = ("watts", "joules", "joules_per_byte", "joules_per_flop", "joules_per_sample", "usd", "usd_per_joule")
"""Dimensions of what changes no time, so no plan."""


def anchors_of(axes: tuple[Axis, ...], most: int) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """(axis, codes) that plans are made for, `most` combinations: every value of the numeric axes that plans depend on
    while there are so few, else fewer of the longest axes, evenly from end to end (by ratio, of what is not a list)."""
    mine = [i for i, axis in enumerate(axes) if axis.numeric and axis.dimension not in UNPLANNED]
    values = {i: None if (held := axes[i].values) is None else tuple(sorted(set(map(float, held)))) for i in mine}
    counts = {i: most if (held := values[i]) is None else len(held) for i in mine}
    while math.prod(counts.values()) > most:
        longest = max(counts, key=lambda i: (counts[i], values[i] is None))
        counts[longest] -= 1
    return tuple((i, _spread(axes[i], values[i], counts[i])) for i in mine)


def _spread(axis: Axis, values: tuple[float, ...] | None, count: int) -> tuple[float, ...]:
    if values is not None:
        at = np.linspace(0, len(values) - 1, count) if count > 1 else np.array([(len(values) - 1) // 2])
        return tuple(values[i] for i in np.unique(at.round().astype(np.int64)))
    space = np.geomspace if axis.low > 0 else np.linspace
    found = space(axis.low, axis.high, count) if count > 1 else space(axis.low, axis.high, 3)[1:2]
    return tuple(map(float, found))


def _width(design: Design) -> int:
    """Ranks whose times differ: 1 in a design that treats all alike."""
    return max((op.time.shape[-1] for op in estimate(design).ops), default=1)


def _sample(name: str) -> Any:
    return name


def _settings(request: Request, problems: list[Problem]) -> None:
    def wrong(key: str, message: str, value: object = None) -> None:
        text = None if value is None else shown(value)
        problems.append(Problem(key, message, text, *request.places("", key)))

    if not request.axes:
        wrong("axes", "is empty; name at least one path, e.g. system.node.gpu.hbm.bandwidth, and its values")
    if request.sample not in SAMPLES:
        close = nearest(request.sample, SAMPLES, 1)
        meant = f"; did you mean {close[0]}?" if close else ""
        wrong("sample", f"is none of {', '.join(SAMPLES)}{meant}", request.sample)
    drawn = request.sample not in ("grid", "list")
    if drawn and (request.points is None or request.points < 1):
        wrong("points", "is missing; how many points are drawn, e.g. 1000", request.points)
    if not drawn and request.points is not None:
        wrong("points", f"is for what is drawn; a {request.sample} has the points of its axes", request.points)
    if not 0 <= request.seed < 2**63:
        wrong("seed", "is not from 0 to 2^63", request.seed)
    for name in request.outputs or ():
        if why := unknown(name, request.design.program):
            wrong("outputs", why, name)
    if request.outputs is not None and not request.outputs:
        wrong("outputs", f"is empty; known: {', '.join(OUTPUTS)}")
    if any(isinstance(item, np.ndarray) for item in _leaves(request.design.tree)):
        wrong("design", "holds design points already; sweep the design they were put into")


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        for item in node.values():
            yield from _leaves(item)
    elif isinstance(node, list):
        for item in node:
            yield from _leaves(item)
    else:
        yield node


def _uneven(request: Request, axes: Sequence[Axis]) -> list[Problem]:
    """Axes of a list, read side by side, must be of one length."""
    first = axes[0]
    return [
        Problem(
            axis.path,
            f"has {axis.size} values, {first.path} has {first.size}; a list takes one of each for a point",
            None,
            *request.places(axis.path, None),
        )
        for axis in axes[1:]
        if axis.size != first.size
    ]


# --- one axis ------------------------------------------------------------------------------------------------


def _axis(request: Request, path: str, given: Any) -> Axis:
    place = request.places(path, None)
    source.split(path)
    if isinstance(given, Options):
        axis = Axis(path, None, tuple(given.values.values()), names=tuple(given.values), bundle=given.together)
        _accepted(request, axis)
        return axis
    if isinstance(given, Mapping):
        given = _range_of(request, path, given)
    dimension = dimension_at(request.design.spec, path)
    if isinstance(given, Range):
        axis = _range(request, path, given, dimension)
    else:
        if isinstance(given, np.ndarray):
            given = given.tolist()
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            what = "is no axis; a list of values, or from, to and count are needed"
            raise DesignError(Problem(path, what, shown(given), *place))
        if not given:
            raise DesignError(Problem(path, "is an empty axis; at least one value is needed", None, *place))
        if dimension is not None and not all(_quantity(item) for item in given):
            dimension = None
        values = [_si(request, path, item, dimension, i) for i, item in enumerate(given)]
        axis = Axis(path, dimension, tuple(values))
    _accepted(request, axis)
    return replace(axis, numeric=_numeric(request.design, axis))


def _quantity(item: Any) -> bool:
    return isinstance(item, str | int | float | np.number) and not isinstance(item, bool)


def _si(request: Request, path: str, item: Any, dimension: str | None, index: int | str) -> Any:
    if dimension is None:
        return item.item() if isinstance(item, np.generic) else item
    try:
        return float(to_si(item, dimension, bare=request.bare))
    except QuantityError as error:
        where = path if isinstance(index, str) else f"{path}[{index}]"
        raise DesignError(Problem(where, error.message, shown(item), *request.places(path, index))) from None


def _range_of(request: Request, path: str, given: Mapping[str, Any]) -> Range:
    """`{from: 1 TB/s, to: 8 TB/s, count: 200, scale: log}`."""
    known = ("from", "to", "count", "scale")
    problems = []
    for key in given:
        if key not in known:
            close = nearest(key, known, 1)
            what = f"unknown field; {f'did you mean {close[0]}?' if close else 'known: ' + ', '.join(known)}"
            problems.append(Problem(f"{path}.{key}", what, None, *request.places(path, key)))
    for key in ("from", "to"):
        if key not in given and not problems:
            problems.append(Problem(path, f"has no {key}", None, *request.places(path, None)))
    count, scale = given.get("count"), given.get("scale", "linear")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        problems.append(Problem(f"{path}.count", "is not a whole number", shown(count), *request.places(path, "count")))
    if scale not in ("linear", "log"):
        what = "is neither linear nor log"
        problems.append(Problem(f"{path}.scale", what, shown(scale), *request.places(path, "scale")))
    if problems:
        raise DesignError(problems)
    return Range(given["from"], given["to"], count, scale)


def _range(request: Request, path: str, given: Range, dimension: str | None) -> Axis:
    def wrong(message: str, key: str | None = None, value: object = None) -> DesignError:
        text = None if value is None else shown(value)
        return DesignError(Problem(f"{path}.{key}" if key else path, message, text, *request.places(path, key)))

    low = _si(request, path, given.low, dimension, "from")
    high = _si(request, path, given.high, dimension, "to")
    for key, end in (("from", low), ("to", high)):
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            raise wrong("is no number; a range needs two numbers", key, end)
    if low > high:
        raise wrong("is below from", "to", given.high)
    if given.scale == "log" and low <= 0:
        raise wrong("is not above zero; a log scale needs that", "from", given.low)
    whole = isinstance(low, int) and isinstance(high, int)
    if given.count is None:
        if request.sample in ("grid", "list"):
            raise wrong(f"has no count; a {request.sample} needs to know how many values")
        return Axis(path, dimension, None, low, high, given.scale, whole)
    if not 1 <= given.count <= MOST_VALUES:
        raise wrong(f"is not from 1 to {MOST_VALUES:,}; an axis needs at least one value", "count", given.count)
    space = np.geomspace if given.scale == "log" else np.linspace
    values = [float(x) for x in space(low, high, given.count)]
    if dimension is None and whole:
        values = sorted({round(x) for x in values}) if given.scale == "log" else values
        if any(x != round(x) for x in values):
            raise wrong("gives values between whole numbers", "count", given.count)
        return Axis(path, None, tuple(int(x) for x in values))
    return Axis(path, dimension, tuple(values))


def dimension_at(spec: BaseModel, path: str) -> str | None:
    """Name of the quantity that the field at `path` holds; None when it holds none, or is not set."""
    node: Any = spec
    found: str | None = None
    for segment in source.split(path):
        if isinstance(node, BaseModel):
            row = next((row for row in fields(type(node)) if row.name == segment), None)
            if row is None:
                return None
            found, node = row.dimension, getattr(node, str(segment), None)
        elif isinstance(node, Mapping):
            node = node.get(segment)
        elif isinstance(segment, int) and isinstance(node, Sequence) and segment < len(node):
            node = node[segment]
        else:
            return None
    return found


def _accepted(request: Request, axis: Axis) -> None:
    """Every value must be one that the field can hold, whatever else a point has. DesignError."""
    problems: list[Problem] = []
    for index, value in _trials(axis):
        try:
            changes = dict(value) if axis.bundle else {axis.path: value}
            tree = request.design.tree
            for path, item in changes.items():
                tree = source.set_path(tree, path, item)
            source.validate(DesignFile, tree, python=True)
        except DesignError as error:
            mark = request.places(axis.path, index)
            for p in error.problems:
                if any(_touches(p.field, path) for path in changes):
                    problems.append(Problem(p.field, p.message, p.value, *mark))
    if problems:
        raise DesignError(_once(problems))


def _trials(axis: Axis) -> list[tuple[int | str | None, Any]]:
    if axis.values is None:
        return [("from", axis.value(axis.low)), ("to", axis.value(axis.high))]
    if axis.dimension is not None:
        ends = sorted({int(np.argmin(axis.values)), int(np.argmax(axis.values))})
        return [(i, axis.values[i]) for i in ends]
    return list(enumerate(axis.values))


def _touches(field: str, path: str) -> bool:
    """Whether a problem with `field` is one with the axis `path`: at it, below it or above it."""
    return any(a == b or (a.startswith(b) and a[len(b)] in ".[") for a, b in ((field, path), (path, field)) if b)


def _once(problems: list[Problem]) -> list[Problem]:
    """An unknown path is wrong for every value; once is enough."""
    seen: dict[tuple[str, str, str | None], Problem] = {}
    for p in problems:
        seen.setdefault((p.field, p.message, p.value), p)
    return list(seen.values())


def _numeric(design: Design, axis: Axis) -> bool:
    """Whether values may go into one pass as an array: the field holds arrays, the plan does not look at it, and at
    both ends the array gives exactly what each value alone gives."""
    if axis.dimension is None or not axis.path.startswith("system."):
        return False
    ends = np.array([np.min(axis.values), np.max(axis.values)] if axis.values is not None else [axis.low, axis.high])
    program = design.program
    try:
        alone = [design.with_({axis.path: float(end)}) for end in ends]
        together = design.with_({axis.path: ends})
        if any(d.__dict__.get("program") is not program for d in (*alone, together)):
            return False
        with np.errstate(all="ignore"):
            times = [float(estimate(d).iteration_time) for d in alone]
            both = np.broadcast_to(np.asarray(estimate(together).iteration_time), 2)
    except Exception:  # then its values are designs of their own, and what fails is said there
        return False
    return bool(np.array_equal(both, times, equal_nan=True))


# --- names ---------------------------------------------------------------------------------------------------


def design_hash(design: Design) -> str:
    """SHA-256 over the resolved values of a design, without places."""
    text = json.dumps(source.strip(design.tree), sort_keys=True, ensure_ascii=False, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def described(job: Job) -> dict[str, Any]:
    """What a job is: the same for the same results in the same chunks."""
    from archmodel import __version__

    space = job.space
    what: dict[str, Any] = {
        "name": job.design.name,
        "design_hash": design_hash(job.design),
        "package_version": __version__,
        "sample": space.sample,
        "points": space.total,
        "seed": space.seed,
        "axes": [axis.described() for axis in space.axes],
        "outputs": list(job.outputs),
        "pass_points": job.pass_points,
        "chunk_points": job.chunk_points,
    }
    if job.follows:
        what["follows"] = [repr(follow) for follow in job.follows]
    if job.replan is not None:
        what["replan"] = repr(job.replan)
    text = json.dumps(what, sort_keys=True, ensure_ascii=False)
    return {**what, "fingerprint": hashlib.sha256(text.encode()).hexdigest()}
