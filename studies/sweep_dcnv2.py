"""MLPerf DCNv2 on one DGX H100: what faster HBM, faster NVLink and a larger batch buy, alone and together.

    python studies/sweep_dcnv2.py [-o sweep_dcnv2.html] [--out DIR]

HBM bandwidth from about that of an A100 to twice that of a B200, scale-up bandwidth from a quarter to four times that
of NVLink 4, four batches from a quarter to four times the published one: 6,400 points, each an evaluation of 73 ops.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _page import Claim, Study, main, section

import archmodel as am
from archmodel.quantities import show
from archmodel.report.html.charts import curves
from archmodel.report.html.figure import si_axis
from archmodel.report.html.table import Cell, Table, quantity

ROOT = Path(__file__).resolve().parent.parent
DESIGN = ROOT / "designs" / "mlperf_dcnv2_dgx_h100.yaml"
HBM = "system.node.gpu.hbm.bandwidth"
LINK = "system.node.scale_up.bandwidth"
BATCH = "workload.global_batch"
BATCHES = (13_824, 27_648, 55_296, 221_184)
PUBLISHED_BATCH = 55_296


def swept(out: Path | None = None) -> am.Results:
    """The whole grid; its axes are relative to the design's own values."""
    design = am.load(DESIGN)
    link = float(design.system.node.scale_up.bandwidth)  # type: ignore[attr-defined]
    axes = {
        HBM: am.logspace("2 TB/s", "16 TB/s", 40),
        LINK: am.logspace(link / 4, link * 4, 40),
        BATCH: list(BATCHES),
    }
    return am.sweep(design, axes, out=out)


def corners(table: am.Results) -> list[list[Cell]]:
    """Per batch: throughput at the slow corner of the grid, what either and both buy, and both over the product."""
    rows: list[list[Cell]] = []
    for batch in BATCHES:
        grid = np.reshape(table["throughput"][table[BATCH] == batch], (40, 40))  # rows: HBM, columns: link
        slow, hbm, link, both = grid[0, 0], grid[-1, 0], grid[0, -1], grid[-1, -1]
        gains = (hbm / slow, link / slow, both / slow, both * slow / (hbm * link))
        rows.append([f"{batch:,}", quantity(slow, "sample_rate"), *((f"{x:.2f}x", float(x)) for x in gains)])
    return rows


def balance(table: am.Results) -> list[list[Cell]]:
    """For the published batch: the link bandwidth from which a percent of it buys no more than a percent of HBM's."""
    at = table[BATCH] == PUBLISHED_BATCH
    grid = np.log(np.reshape(table["throughput"][at], (40, 40)))
    hbm, link = np.unique(table[HBM]), np.unique(table[LINK])
    by_hbm = np.gradient(grid, np.log(hbm), axis=0)
    by_link = np.gradient(grid, np.log(link), axis=1)
    rows: list[list[Cell]] = []
    for row in range(0, 40, 13):
        even = np.flatnonzero(by_link[row] <= by_hbm[row])
        where = f"from {link[even[0]] / 1e9:,.0f} GB/s" if len(even) else f"above {link[-1] / 1e9:,.0f} GB/s"
        where = f"everywhere above {link[0] / 1e9:,.0f} GB/s" if len(even) == len(link) else where
        rows.append([quantity(hbm[row], "bandwidth"), where])
    return rows


def study(table: am.Results) -> Study:
    """Throughput over HBM bandwidth at the narrowest, the design's and the widest link, and both tables."""
    at = table[BATCH] == PUBLISHED_BATCH
    grid = np.reshape(table["throughput"][at], (40, 40))
    said = (
        f"At the published batch, eight times the HBM bandwidth gives {grid[-1, 0] / grid[0, 0]:.2f}x on the slowest "
        f"link and {grid[-1, -1] / grid[0, -1]:.2f}x on the fastest."
    )
    links = np.unique(table[LINK])
    hbm = {"type": "log", "dtick": "D2", **si_axis("B/s", "HBM bandwidth")}
    figures = []
    for index, link in enumerate((links[0], links[len(links) // 2], links[-1])):
        series, gains = {}, []
        for batch in BATCHES:
            mine = table.only((table[LINK] == link) & (table[BATCH] == batch))
            series[f"batch {batch:,}"] = (mine[HBM].tolist(), mine["throughput"].tolist())
            gains.append(float(mine["throughput"][-1] / mine["throughput"][0]))
        what = f"Eight times the HBM bandwidth gives {min(gains):.2f}x to {max(gains):.2f}x."
        title = f"Scale-up at {link / 1e9:,.0f} GB/s"
        figures.append(curves(f"link-{index}", title, what, series, hbm, si_axis("/s", "samples per second")))
    gained = [
        ("batch", ""), ("slowest corner", "sample/s"), ("HBM x 8", "number"), ("link x 16", "number"),
        ("both", "number"), ("both over the product", "number"),
    ]  # fmt: skip
    even = [("HBM", "B/s"), ("a percent of HBM buys more than one of the link", "")]
    return Study(
        "DCNv2 on a DGX H100: HBM, NVLink and batch",
        said,
        [claim(grid)],
        [
            section("links", "Throughput", *figures),
            section("corners", "Corners of the grid", Table("gains", gained, corners(table))),
            section("even", f"Balance at batch {PUBLISHED_BATCH:,}", Table("balance", even, balance(table))),
        ],
    )


def claim(grid: Any) -> Claim:
    """The published run in the grid, and what is beyond it."""
    answer = am.estimate(am.load(DESIGN))
    row = answer.published["throughput"]
    both = float(grid[-1, -1] * grid[0, 0] / (grid[-1, 0] * grid[0, -1]))
    return Claim(
        f"{show(row['published'], 'sample_rate')} at this batch, HBM and NVLink ({row['source']}). Nobody has "
        "published "
        "what more of either buys.",
        f"{show(row['predicted'], 'sample_rate')} ({row['error']:+.1%}, "
        f"{'calibrated on it' if row['calibrated'] else 'held out'}). From the slow corner of the grid to the fast "
        "one "
        f"{grid[-1, -1] / grid[0, 0]:.2f}x, {both:.2f} times what both buy by themselves.",
        "Lookups overlap with exchanges, so that a faster one of the two leaves the other exposed: they pay together. "
        "The "
        "rest of the machine stays as it is; kernels that are bound by neither end what the fast corner gains.",
    )


def build(out: str) -> Study:
    """The whole study; the table in the folder `out`, or in memory."""
    return study(swept(Path(out) if out else None))


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "sweep_dcnv2", arguments, out="")


if __name__ == "__main__":
    sys.exit(run())
