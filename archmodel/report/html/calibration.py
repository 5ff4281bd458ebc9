"""Pages of fitted constants: predicted over measured times of everything that was measured, by kernel or collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archmodel.report.html import palette
from archmodel.report.html.charts import LOGARITHMIC, across, ticked
from archmodel.report.html.figure import Figure, seconds_axis
from archmodel.report.html.page import Page, Section
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.report.html.text import label, lines
from archmodel.report.words import data, one_line, percent, plural, signed, time

if TYPE_CHECKING:
    from archmodel.calibrate.fabric import FabricCalibration
    from archmodel.calibrate.gpu import Calibration
    from archmodel.calibrate.tables import TablesCalibration

MOST_MARKS = 1500
"""Points of one series; of more, an even choice is drawn. The tables have all."""

MOST_LINEAR = 3.0
"""Times off up to which ratios are drawn on a linear axis."""


@dataclass(frozen=True)
class Seen:
    """Measurements of one kind: seconds `measured` and `predicted` (rows,), and what each row is."""

    measured: Sequence[float]
    predicted: Sequence[float]
    names: Sequence[str]

    @property
    def ratio(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Predicted over measured."""
        return np.asarray(self.predicted, dtype=np.float64) / np.asarray(self.measured, dtype=np.float64)


def gpu_page(found: Calibration) -> Page:
    """Kernel constants of a GPU: errors of every kernel, each row, and the constants."""
    seen = {
        fit.kernel: Seen(
            fit.seconds.tolist(),
            (fit.seconds * (1.0 + fit.errors)).tolist(),
            [f"{' x '.join(f'{size:,.0f}' for size in row.shape)} {row.dtype}" for row in fit.rows],
        )
        for fit in found.fits
    }
    rows: list[list[Cell]] = []
    for row in found.residuals():
        others = row["error_left_out"]
        rows.append(
            [
                row["kernel"], count(row["rows"]), count(row["fitted_rows"]), share(row["error"], 1),
                ("", None) if others is None else share(others, 1), share(row["median_error"], 1),
                share(row["p90_error"], 1), share(row["bias"], 1, signed=True),
            ]
        )  # fmt: skip
    columns = [
        ("kernel", ""), ("rows", "number"), ("fitted", "number"), ("error there", "fraction"),
        ("on the others", "fraction"), ("median", "fraction"), ("90 %", "fraction"), ("bias", "fraction"),
    ]  # fmt: skip
    constants: list[list[Cell]] = [
        [fit.kernel, name, (f"{value:.4g}", value)] for fit in found.fits for name, value in fit.constants.items()
    ]
    held = [("kernel", ""), ("constant", ""), ("value, SI", "number")]
    subtitle = f"constants fitted on {one_line(found.measurements)}, {found.date}"
    tables = [Table("errors", columns, rows), Table("constants", held, constants, "Constants")]
    return _page(found.gpu.name or "GPU", subtitle, seen, tables)


def fabric_page(found: FabricCalibration) -> Page:
    """Constants of a fabric: errors of every collective and number of ranks, each row, and the constants."""
    seen: dict[str, Seen] = {}
    for kind, ranks in dict.fromkeys((row.kind, row.ranks) for row in found.rows):
        mine = sorted((r for r in found.rows if (r.kind, r.ranks) == (kind, ranks)), key=lambda r: r.size)
        seen[f"{kind.replace('_', ' ')}, {ranks} ranks"] = Seen(
            [r.measured for r in mine], [r.predicted for r in mine], [data(r.size) for r in mine]
        )
    kept: list[list[Cell]] = [
        [name, (f"{value:.4g}", value), "as it was" if name in found.kept else "fitted"]
        for name, value in found.constants.items()
    ]
    constants = Table("constants", [("constant", ""), ("value, SI", "number"), ("", "")], kept, "Constants")
    return _page(found.name, found.fitted_on, seen, [_errors(seen), constants])


def set_costs_page(found: TablesCalibration) -> Page:
    """A learned cost of sets of tables: errors of it and of two simpler ones, and each set."""
    names = [f"{n} tables" for n in found.sets.counts]
    seen = {
        part: Seen(
            found.sets.seconds[which].tolist(), found.predicted[which].tolist(), [names[i] for i in which.tolist()]
        )
        for part, which in (("fitted", found.fitted.fitted), ("left out", found.fitted.left_out))
        if len(which)
    }
    rows: list[list[Cell]] = [
        [
            where.replace("_", " "), model, count(s.sets),
            *((share(s.mape, 1), share(s.bias, 1, signed=True), (f"{s.mse_ms2:.3g}", s.mse_ms2),
               (f"{s.spearman:.3f}", s.spearman), (f"{s.kendall:.3f}", s.kendall)) if s.sets else [("", None)] * 5),
        ]
        for where, by_model in found.scores.items() for model, s in by_model.items()
    ]  # fmt: skip
    columns = [
        ("sets", ""), ("cost", ""), ("number", "number"), ("error", "fraction"), ("bias", "fraction"),
        ("MSE", "ms^2"), ("Spearman", "number"), ("Kendall", "number"),
    ]  # fmt: skip
    subtitle = f"{plural(len(found.tables), 'table')}, {plural(len(found.sets), 'set')}; scores of two tables and more"
    return _page("Learned cost of sets of tables", subtitle, seen, [Table("errors", columns, rows)])


def _page(title: str, subtitle: str, seen: Mapping[str, Seen], tables: Sequence[Table]) -> Page:
    listed: list[list[Cell]] = [
        [kind, name, quantity(m, "seconds"), quantity(p, "seconds"), share(p / m - 1.0, 1, signed=True)]
        for kind, one in seen.items()
        for m, p, name in zip(one.measured, one.predicted, one.names, strict=True)
    ]
    listed.sort(key=lambda row: -abs(float(row[4][1] or 0.0)))
    columns = [("kind", ""), ("what", ""), ("measured", "s"), ("predicted", "s"), ("error", "fraction")]
    sections = [
        Section("fit", "Predicted against measured", [_over_measured(seen)]),
        Section("errors", "Errors and constants", tables),
        Section("rows", "Every row, the worst first", [Table("rows-table", columns, listed, page=12)]),
    ]
    return Page(title, subtitle, "", sections)


def _errors(seen: Mapping[str, Seen]) -> Table:
    rows: list[list[Cell]] = []
    for kind, one in seen.items():
        off = one.ratio - 1.0
        mean, most = share(float(np.abs(off).mean()), 1), share(float(np.abs(off).max()), 1)
        rows.append([kind, count(len(off)), mean, most, share(float(np.median(off)), 1, signed=True)])
    columns = [("kind", ""), ("rows", "number"), ("error", "fraction"), ("largest", "fraction"), ("bias", "fraction")]
    return Table("errors", columns, rows)


def _over_measured(seen: Mapping[str, Seen]) -> Figure:
    """Predicted over measured time against measured time, a series for each kind."""
    traces = []
    for i, (kind, one) in enumerate(seen.items()):
        shown = np.unique(np.linspace(0, len(one.measured) - 1, min(len(one.measured), MOST_MARKS)).round().astype(int))
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{label(kind)} ({len(one.measured):,})",
                "x": np.asarray(one.measured)[shown],
                "y": one.ratio[shown],
                "marker": {"size": 7, "opacity": 0.7, "color": palette.SERIES[i % len(palette.SERIES)],
                           "symbol": ("circle", "diamond", "square")[i // len(palette.SERIES) % 3]},
                "hovertext": [
                    lines(f"<b>{label(kind)}</b> {label(one.names[j])}",
                          f"measured {time(one.measured[j])}, predicted {time(one.predicted[j])}")
                    for j in shown.tolist()
                ],
                "hoverinfo": "text",
            }
        )  # fmt: skip
    every = np.concatenate([one.ratio - 1.0 for one in seen.values()])
    kind, row, error = max(
        ((kind, j, float(r - 1.0)) for kind, one in seen.items() for j, r in enumerate(one.ratio.tolist())),
        key=lambda item: abs(item[2]),
    )
    said = (
        f"{plural(len(every), 'row')}, mean absolute error {percent(float(np.abs(every).mean()), 1)}; worst is "
        f"{one_line(kind)}, {one_line(seen[kind].names[row])}, {signed(error, 1)}."
    )
    wide = bool(np.max(np.abs(np.log(every + 1.0))) > np.log(MOST_LINEAR))
    layout = {
        "xaxis": ticked({"type": "log", **seconds_axis("measured")}),
        "yaxis": {"title": {"text": "predicted / measured"}, **({**LOGARITHMIC, "type": "log"} if wide else {})},
        "hovermode": "closest",
        "showlegend": True,
        **across({"equal": 1.0}, log=wide),
    }
    return Figure("calibration", "Predicted over measured time", said, traces, layout, height=420)
