"""MLPerf DCNv2 on one DGX H100: what faster HBM, faster NVLink and a larger batch buy, alone and together.

    python studies/sweep_dcnv2.py [-o sweep_dcnv2.html] [--out DIR]

HBM bandwidth from about that of an A100 to twice that of a B200, scale-up bandwidth from a quarter to four times that
of NVLink 4, four batches from a quarter to four times the published one: 6,400 points, each an evaluation of 73 ops.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from _page import Study, curves, section

import archmodel as am
from archmodel.report.html.figure import si_axis

ROOT = Path(__file__).resolve().parent.parent
DESIGN = ROOT / "designs" / "mlperf_dcnv2_dgx_h100.yaml"
HBM = "system.node.gpu.hbm.bandwidth"
LINK = "system.node.scale_up.bandwidth"
BATCH = "workload.global_batch"
BATCHES = (13_824, 27_648, 55_296, 221_184)


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


def report(table: am.Results) -> list[str]:
    """Per batch: throughput at the corners of the grid, and where one more percent of either is worth the same."""
    lines = [
        f"{'batch':>8}  {'slow':>7}  {'HBM x8':>7}  {'link x16':>8}  {'both':>7}  {'together over the product':>26}"
    ]
    for batch in BATCHES:
        grid = np.reshape(table["throughput"][table[BATCH] == batch], (40, 40))  # rows: HBM, columns: link
        slow, hbm, link, both = grid[0, 0], grid[-1, 0], grid[0, -1], grid[-1, -1]
        product = both * slow / (hbm * link)
        gains = f"{hbm / slow:6.2f}x  {link / slow:7.2f}x  {both / slow:6.2f}x  {product:>26.2f}"
        lines.append(f"{batch:>8,}  {slow / 1e6:6.2f}M  {gains}")
    return lines


def balance(table: am.Results) -> list[str]:
    """For the published batch: the link bandwidth from which a percent of it buys no more than a percent of HBM's."""
    at = table[BATCH] == 55_296
    grid = np.log(np.reshape(table["throughput"][at], (40, 40)))
    hbm, link = np.unique(table[HBM]), np.unique(table[LINK])
    by_hbm = np.gradient(grid, np.log(hbm), axis=0)
    by_link = np.gradient(grid, np.log(link), axis=1)
    lines = []
    for row in range(0, 40, 13):
        even = np.flatnonzero(by_link[row] <= by_hbm[row])
        where = f"from {link[even[0]] / 1e9:,.0f} GB/s" if len(even) else f"above {link[-1] / 1e9:,.0f} GB/s"
        where = f"everywhere above {link[0] / 1e9:,.0f} GB/s" if len(even) == len(link) else where
        lines.append(f"HBM {hbm[row] / 1e12:5.2f} TB/s: a percent of HBM buys more than one of the link {where}")
    return lines


def page(table: am.Results) -> str:
    """Throughput over HBM bandwidth at the narrowest, the design's and the widest link, and the lines of the report."""
    at = table[BATCH] == 55_296
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
    lines = "\n".join([*report(table), "", *balance(table)])
    parts = [
        section("links", "Throughput", *figures),
        section("lines", "In numbers", f'<pre class="block">{lines}</pre>'),
    ]
    return Study("DCNv2 on a DGX H100: HBM, NVLink and batch", said, [], parts).html()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("sweep_dcnv2.html"), help="the page to write")
    parser.add_argument("--out", type=Path, help="folder for the table")
    wanted = parser.parse_args(arguments)
    table = swept(wanted.out)
    print("\n".join([*report(table), "", *balance(table)]))
    wanted.output.write_text(page(table), encoding="utf-8")
    print(f"\nfigures in {wanted.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
