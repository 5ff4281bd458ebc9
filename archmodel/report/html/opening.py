"""Tables of sweeps and searches as pages read them: a folder of one, or any parquet file of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from archmodel.errors import escape
from archmodel.quantities import DIMENSIONS
from archmodel.sweep.executors import SweepError
from archmodel.sweep.outputs import OP, OUTPUTS
from archmodel.sweep.results import Results
from archmodel.sweep.store import MANIFEST, Store, needs_polars
from archmodel.sweep.sweep import opened

_NOT_SHOWN = (
    "point", "fits", "reason", "design_hash", "git_version", "package_version", "seed", "bound_by", "nearest_limit",
    "plan",
)  # fmt: skip


def is_table(path: Path) -> bool:
    """Whether `path` names a table rather than a design."""
    return path.is_dir() or path.suffix == ".parquet"


def open_table(path: Path) -> Results:
    """The results at `path`. Raises SweepError when that is no table of a sweep."""
    if path.is_dir():
        found = opened(path)
        if not Store(path).files():
            raise SweepError(f"{escape(str(path))}: no chunk of the sweep is finished yet")
        counted = len(found["point"])
        return Results(found.inputs, found.outputs, found.units, {**found.meta, "points": counted}, {}, path)
    return _file(path)


def _file(path: Path) -> Results:
    pl = needs_polars()
    try:
        table = pl.read_parquet(path)
        notes = json.loads(pl.read_parquet_metadata(path).get("archmodel", "{}"))
    except FileNotFoundError:
        raise SweepError(f"{escape(str(path))}: there is no such file") from None
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SweepError(f"{escape(str(path))}: is no parquet file: {escape(why)}") from None
    manifest = _manifest(path)
    names = [name for name in table.columns if name not in _NOT_SHOWN and not name.endswith((".fits", ".reason"))]
    listed = [str(name) for name in manifest.get("outputs", notes.get("outputs", ()))]
    outputs = [name for name in names if name in listed or name in OUTPUTS or name.startswith(OP)]
    inputs = [name for name in names if name not in outputs]
    if not outputs or not inputs or not len(table):
        what = "rows" if outputs and inputs else "columns of inputs and outputs"
        raise SweepError(f"{escape(str(path))}: is no table of a sweep; it has no {what}")
    units = {name: OUTPUTS[name].unit if name in OUTPUTS else "" for name in (*inputs, *outputs)}
    units |= {name: str(unit) for name, unit in {**notes.get("units", {}), **manifest.get("units", {})}.items()}
    held = {name: table[name].to_numpy() for name in table.columns}
    held.setdefault("point", pl.Series(range(len(table))).to_numpy())
    meta: dict[str, Any] = {"name": path.stem, **notes, **manifest, "points": len(table)}
    return Results(tuple(inputs), tuple(outputs), units, meta, held)


def _manifest(path: Path) -> dict[str, Any]:
    """What the folder of a chunk says about its sweep."""
    return Store(path.parent).manifest if (path.parent / MANIFEST).exists() else {}


def kind_of(unit: str) -> str | None:
    """The dimension of an SI unit; None for plain numbers."""
    return next((d.name for d in DIMENSIONS.values() if unit and d.unit == unit), None)
