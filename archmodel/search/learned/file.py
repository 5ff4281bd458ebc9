"""A learned cost as a plain JSON file: every weight, what it was fitted on, and how far off it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from archmodel.errors import DesignError, Problem, shown, suggestion
from archmodel.quantities import Array
from archmodel.search.learned.model import NOT_NEGATIVE, PARAMETERS, SetCost
from archmodel.search.learned.tables import BIN_COLUMNS, PLAIN

KIND = "learned_set_cost"
VERSION = 1
_FIELDS = ("kind", "version", "source", "status", "fitted_on", "batch", "seconds_per_unit", "features", "weights")
_OPTIONAL = ("residuals", "seed", "steps", "loss")


def to_dict(model: SetCost) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {
        "kind": KIND,
        "version": VERSION,
        "source": str(model.about.get("fitted_on", "")),
        "status": "fitted",
        "fitted_on": str(model.about.get("fitted_on", "")),
        "batch": model.batch,
        "seconds_per_unit": model.unit,
        **{name: model.about[name] for name in _OPTIONAL if name in model.about},
        "features": {
            name: {"mean": m, "spread": s, "low": a, "high": b}
            for name, m, s, a, b in zip(
                model.columns, *(v.tolist() for v in (model.mean, model.spread, model.low, model.high)), strict=True
            )
        },
        "weights": {name: model.weights[name].tolist() for name in PARAMETERS},
    }


def text(model: SetCost) -> str:
    """The file's text; the same model gives the same text."""
    lines = json.dumps(to_dict(model), indent=1, allow_nan=False)
    return lines + "\n"


def load(path: str | Path) -> SetCost:
    """A model from its file. Raises DesignError for one that cannot be read or is none, by place or field."""
    file = Path(path)
    try:
        document = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DesignError(Problem("", f"cannot be read: {error.strerror or error}", None, str(file))) from None
    except UnicodeDecodeError:
        raise DesignError(Problem("", "is no UTF-8 text", None, str(file))) from None
    except json.JSONDecodeError as error:
        raise DesignError(Problem("", error.msg, None, str(file), error.lineno, error.colno)) from None
    except RecursionError:
        raise DesignError(Problem("", "is nested too deeply", None, str(file))) from None
    return _read(document, _Problems(file))


class _Problems:
    def __init__(self, file: Path) -> None:
        self.file = file

    def refuse(self, field: str, message: str, value: object = None) -> DesignError:
        return DesignError(Problem(field, message, None if value is None else shown(value), str(self.file)))


def _read(document: Any, at: _Problems) -> SetCost:
    if not isinstance(document, Mapping) or document.get("kind") != KIND:
        raise at.refuse("kind", f"must be {KIND}, as archmodel calibrate tables writes it")
    if document.get("version") != VERSION:
        raise at.refuse("version", f"must be {VERSION}", document.get("version"))
    for name in document:
        if name not in (*_FIELDS, *_OPTIONAL):
            raise at.refuse(str(name), f"unknown field; {suggestion(str(name), (*_FIELDS, *_OPTIONAL))}")
    for name in _FIELDS:
        if name not in document:
            raise at.refuse(name, "is missing")
    features, weights = document["features"], document["weights"]
    if not isinstance(features, Mapping) or tuple(features) not in (PLAIN, (*PLAIN, *BIN_COLUMNS)):
        raise at.refuse("features", f"must be {', '.join(PLAIN)}, and all of bin_0 to bin_16 or none, in order")
    stats: dict[str, Array] = {}
    for key in ("mean", "spread", "low", "high"):
        column = [entry.get(key) if isinstance(entry, Mapping) else None for entry in features.values()]
        stats[key] = _numbers(at, f"features.*.{key}", column, (len(features),))
    if not (stats["spread"] > 0).all():
        raise at.refuse("features.*.spread", "must be above zero")
    if not isinstance(weights, Mapping) or set(weights) != set(PARAMETERS):
        raise at.refuse("weights", f"must have {', '.join(PARAMETERS)}")
    first, parts, width = (np.shape(weights[n])[0] if np.ndim(_plain(weights[n])) else 0 for n in ("A1", "A2", "W"))
    shapes = {
        "A1": (first, len(features)), "a1": (first,), "A2": (parts, first), "a2": (parts,),
        "W": (width, parts), "b": (width,), "u": (parts,), "v": (width,), "c": (1,),
    }  # fmt: skip
    found = {name: _numbers(at, f"weights.{name}", weights[name], shapes[name]) for name in PARAMETERS}
    for name in NOT_NEGATIVE:
        if (found[name] < 0).any():
            raise at.refuse(f"weights.{name}", "must not be negative")
    unit = _numbers(at, "seconds_per_unit", [document["seconds_per_unit"]], (1,))[0]
    if not unit > 0:
        raise at.refuse("seconds_per_unit", "must be above zero", float(unit))
    batch = document["batch"]
    if batch is not None and (not isinstance(batch, int) or isinstance(batch, bool) or batch < 1):
        raise at.refuse("batch", "must be a whole number above zero, or null", batch)
    about = {"fitted_on": str(document["fitted_on"]), **{k: document[k] for k in _OPTIONAL if k in document}}
    return SetCost(
        tuple(features), stats["mean"], stats["spread"], stats["low"], stats["high"], found, float(unit), batch, about
    )


def _plain(value: Any) -> Any:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return 0.0


def _numbers(at: _Problems, field: str, value: Any, shape: tuple[int, ...]) -> Array:
    found = np.asarray(_plain(value))
    if found.shape != shape or not np.isfinite(found).all():
        raise at.refuse(field, f"must be finite numbers of shape {shape}")
    return found
