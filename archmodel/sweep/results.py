"""The table that a sweep makes: in memory, or in a folder whatever its length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archmodel.errors import suggestion
from archmodel.sweep.job import Column, Columns
from archmodel.sweep.store import Store, frame, needs_polars
from archmodel.views import Viewed

if TYPE_CHECKING:
    import polars
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

LOWER_IS_BETTER = (
    "iteration_time", "latency", "exposed_communication", "energy_per_sample", "power", "usd_per_million_samples",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Results(Mapping[str, Column], Viewed):
    """Columns by name: `point`, every axis, every output, `fits` and `reason` (None where there is an answer).

    `units`: SI unit of each column. `meta`: what made it. Points that do not fit or failed hold NaN and say why.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    units: Mapping[str, str]
    meta: Mapping[str, Any]
    held: Columns
    folder: Path | None = None

    def __repr__(self) -> str:
        return f"<Results: {self.points:,} points over {', '.join(self.inputs)}; {len(self.outputs)} outputs>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every column, in order."""
        return ("point", *self.inputs, *self.outputs, "fits", "reason")

    def __getitem__(self, name: str) -> Column:
        self._known(name)
        if name not in self.held:
            assert self.folder is not None
            self.held[name] = Store(self.folder).column(name)
        return self.held[name]

    def _known(self, name: str) -> None:
        if name not in self.names:
            raise KeyError(f"no column {name!r}; {suggestion(name, self.names)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def points(self) -> int:
        """How many points the sweep has."""
        return int(self.meta["points"])

    def to_polars(self) -> polars.DataFrame:
        """Everything as one polars frame, with design hash and versions in every row. Needs the extra `table`."""
        pl = needs_polars()
        if self.folder is not None:
            whole: polars.DataFrame = pl.read_parquet(Store(self.folder).files())
            return whole
        return frame({name: self[name] for name in self.names}, self.meta)

    def scan(self) -> polars.LazyFrame:
        """The same without reading it, for tables that memory does not hold."""
        pl = needs_polars()
        lazy: polars.LazyFrame = (
            self.to_polars().lazy() if self.folder is None else pl.scan_parquet(Store(self.folder).files())
        )
        return lazy

    def parts(self, names: Sequence[str]) -> Iterator[Columns]:
        """Some columns, a file at a time: for tables that memory does not hold."""
        if self.folder is None:
            yield {name: self[name] for name in names}
            return
        pl = needs_polars()
        for file in Store(self.folder).files():
            table = pl.read_parquet(file, columns=list(names))
            yield {name: table[name].to_numpy() for name in names}

    def best(self, by: str = "throughput") -> dict[str, Any] | None:
        """The point with the best `by`: highest, or lowest of times, energies and costs; None when no point fits."""
        self._known(by)
        sign = -1.0 if by in LOWER_IS_BETTER or by.startswith("op.") else 1.0
        names = [name for name in self.names if name != "reason"]
        found: dict[str, Any] | None = None
        for part in self.parts(names):
            values = sign * np.asarray(part[by], dtype=np.float64)
            if np.isfinite(values).any():
                row = int(np.nanargmax(values))
                if found is None or values[row] > sign * found[by]:
                    found = {name: _plain(part[name][row]) for name in names}
        return found

    @cached_property
    def reasons(self) -> dict[str, int]:
        """Why points have no answer, and how many, the most frequent first."""
        found: Counter[str] = Counter()
        for part in self.parts(["reason"]):
            found.update(text for text in part["reason"] if text is not None)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Least and largest value of every output that has one."""
        found: dict[str, tuple[float, float]] = {}
        for part in self.parts(self.outputs):
            for name, values in part.items():
                if np.isfinite(values).any():
                    low, high = found.get(name, (np.inf, -np.inf))
                    found[name] = (min(low, float(np.nanmin(values))), max(high, float(np.nanmax(values))))
        return found

    def only(self, rows: npt.NDArray[np.bool_]) -> Results:
        """The points that `rows` marks, as a table of their own in memory."""
        held = {name: self[name][rows] for name in self.names}
        return replace(self, held=held, meta={**self.meta, "points": int(np.sum(rows))}, folder=None)

    def figure(self, x: str, y: str = "throughput", color: str | None = None) -> Figure:
        """`y` over `x`, one line for each value of `color` (default: the first other axis of few values)."""
        import plotly.graph_objects as go  # type: ignore[import-untyped]

        if color is None:
            few = (name for name in self.inputs if name != x and len(np.unique(self[name])) <= 12)
            color = next(few, None)
        figure = go.Figure()
        groups: Sequence[Any] = [None] if color is None else list(np.unique(self[color]))
        for group in groups:
            mask = np.ones(self.points, dtype=bool) if color is None else self[color] == group
            order = np.flatnonzero(mask)[np.argsort(self[x][mask], kind="stable")]
            lines = "lines+markers" if len(order) <= 2_000 else "markers"
            name = None if color is None else f"{group:g}" if isinstance(group, float) else str(group)
            figure.add_trace(go.Scatter(x=self[x][order], y=self[y][order], mode=lines, name=name))
        titled = [f"{name} [{self.units[name]}]" if self.units[name] else name for name in (x, y)]
        figure.update_layout(xaxis_title=titled[0], yaxis_title=titled[1], legend_title=color or "")
        return figure


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
