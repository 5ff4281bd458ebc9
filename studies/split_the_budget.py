"""How to split a budget between GPUs, their memory, the network and nodes, for two models that pull apart.

    python studies/split_the_budget.py [-o split_the_budget.html]

The search of studies/split_the_budget.yaml, whole: every combination for MLPerf's DCNv2 and Neo's model A, at most
2 MUSD and 80 kW, every price with its source there. Beside the front stands the node that is sold, an H100 with 80 GB
and 400 Gbit/s for each GPU, on as many nodes as the budget allows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _page import Claim, Study, main, section

from archmodel.quantities import show
from archmodel.report.html import palette
from archmodel.report.html.charts import bars, curves
from archmodel.report.html.figure import Figure, si_axis
from archmodel.report.html.table import Cell, Table, quantity
from archmodel.report.html.text import label, lines
from archmodel.search.file import read
from archmodel.search.found import Found
from archmodel.search.search import run as searched

FILE = Path(__file__).parent / "split_the_budget.yaml"
MODELS = {"dcnv2": "DCNv2", "neo_a": "Neo's model A"}
KNOBS = ("gpu", "system.node.gpu.hbm.capacity", "system.node.gpu.hbm.bandwidth", "system.node.nic.bandwidth",
         "system.nodes")  # fmt: skip
SOLD = {"gpu": "h100", KNOBS[1]: 80e9, KNOBS[2]: 3.35e12, KNOBS[3]: 50e9}
"""A DGX H100: 80 GB of 3.35 TB/s, 400 Gbit/s for each GPU."""
PARTS = {
    "GPUs": palette.RESOURCES["compute"], "their memory": palette.TIERS["hbm"],
    "interfaces and switches": palette.RESOURCES["scale_out"], "nodes": palette.NEUTRAL,
}  # fmt: skip


@cache
def found() -> Found:
    """Every point."""
    return searched(read(FILE))


def rate(model: str) -> Any:
    """Samples/s of every point."""
    return np.asarray(found().column(f"{model}.throughput"), dtype=np.float64)


def price() -> Any:
    """USD of every point."""
    return np.asarray(found().column("price"), dtype=np.float64)


def sold() -> int:
    """The row of most nodes as they are sold that keeps to the budget."""
    rows = found().feasible
    for name, value in SOLD.items():
        rows = rows[found().column(name)[rows] == value]
    return int(rows[np.argmax(found().column("system.nodes")[rows])])


def rival(row: int) -> int:
    """Of points that cost no more, the one that is better for both models by most (the lesser of the two gains)."""
    rows = found().feasible[price()[found().feasible] <= price()[row] * (1 + 1e-9)]
    gains = np.minimum(*(rate(m)[rows] / rate(m)[row] for m in MODELS))
    return int(rows[np.argmax(gains)])


def described(row: int) -> str:
    """`2 nodes of h100, 80 GB at 3.35 TB/s, 50 GB/s`."""
    gpu, capacity, bandwidth, nic, nodes = (found().column(name)[row] for name in KNOBS)
    return (
        f"{int(nodes)} nodes of {gpu}, {show(float(capacity), 'bytes')} at {show(float(bandwidth), 'bandwidth')}, "
        f"NIC {show(float(nic), 'bandwidth')}"
    )


def split(row: int) -> dict[str, float]:
    """USD by part of a point; their sum is its price."""
    system = found().design(row, "dcnv2").system
    node, nodes = system.node, system.nodes
    gpus = node.gpus * nodes
    memory = float(node.device.memory.price or 0.0) * gpus
    cards = float(node.nic.price or 0.0) * (node.nic.per_node or node.gpus) * nodes if node.nic else 0.0
    switches = float(system.economics.network_price or 0.0) * nodes if system.economics else 0.0
    parts = {"GPUs": float(node.device.price or 0.0) * gpus, "their memory": memory,
             "interfaces and switches": cards + switches}  # fmt: skip
    return {**parts, "nodes": float(price()[row]) - sum(parts.values())}


def chosen() -> dict[str, int]:
    """Points that the page speaks of, by name."""
    front = found().front
    best = {f"most {name}": int(front[np.argmax(rate(m)[front])]) for m, name in MODELS.items()}
    here = sold()
    named = {"cheapest": int(front[np.argmin(price()[front])]), **best, "as sold": here,
             "better for both, no dearer": rival(here)}  # fmt: skip
    return {f"{name}: {show(float(price()[row]), 'usd')}": row for name, row in named.items()}


def front_figure() -> Figure:
    """Both models' throughput, coloured by price."""
    rows, front, here = found().feasible, found().front, sold()
    other = rival(here)

    def told(row: int) -> str:
        rates = ", ".join(f"{name} {show(float(rate(m)[row]), 'sample_rate')}" for m, name in MODELS.items())
        return lines(f"<b>{label(described(int(row)), 90)}</b>", label(rates, 90), show(float(price()[row]), "usd"))

    def points(of: Any, name: str, marker: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "scatter", "mode": "markers", "name": name, "x": rate("dcnv2")[of], "y": rate("neo_a")[of],
            "marker": marker, "hovertext": [told(int(row)) for row in of], "hoverinfo": "text",
        }  # fmt: skip

    bar = {"title": {"text": "MUSD"}, "thickness": 12, "outlinewidth": 0}
    coloured = {"size": 9, "color": price()[front] / 1e6, "colorscale": palette.SEQUENTIAL, "colorbar": bar}
    ring = {"size": 15, "symbol": "diamond-open", "color": palette.BAD, "line": {"width": 2}}
    said = (
        f"{len(front)} of {len(rows)} machines within budget are beaten by no other. {described(other)} are "
        f"{rate('dcnv2')[other] / rate('dcnv2')[here]:.2f} and {rate('neo_a')[other] / rate('neo_a')[here]:.2f} times "
        f"as fast as what is sold ({described(here)}), for no more money."
    )
    data = [
        points(rows, "within budget", {"size": 4, "color": palette.NEUTRAL, "opacity": 0.5}),
        points(front, "front", coloured),
        points(np.array([here]), "as sold", ring),
    ]
    layout = {"xaxis": si_axis("/s", "samples per second, DCNv2"),
              "yaxis": si_axis("/s", "samples per second, model A"), "hovermode": "closest"}  # fmt: skip
    return Figure("front", "Both models on one machine", said, data, layout, height=460,
                  narrow={"legend.y": 1.02})  # fmt: skip


def split_figure() -> Figure:
    """Where the money goes."""
    named = chosen()
    parts = {name: split(row) for name, row in named.items()}
    shares = {p: [100 * parts[n][p] / sum(parts[n].values()) for n in named] for p in PARTS}
    memory, network = shares["their memory"], shares["interfaces and switches"]
    said = (
        f"Memory takes {min(memory):.0f} to {max(memory):.0f} % of the money, the network {min(network):.0f} to "
        f"{max(network):.0f} %."
    )
    return bars("split", "Where the money goes", said, list(named), shares, {"ticksuffix": " %"}, stacked=True,
                colours=PARTS, hover=[described(row) for row in named.values()])  # fmt: skip


def budget_figure() -> Figure:
    """The best of either model by what may be spent."""
    rows = found().feasible
    sums = np.linspace(price()[rows].min(), price()[rows].max(), 40)
    series = {}
    for m, name in MODELS.items():
        best = [float(rate(m)[rows][price()[rows] <= s * (1 + 1e-9)].max()) for s in sums]
        series[name] = ((sums / 1e6).tolist(), [100 * b / max(best) for b in best])
    half = {name: next(x for x, y in zip(*xy, strict=True) if y >= 50) for name, xy in series.items()}
    said = "Half of the best throughput takes " + ", ".join(f"{x:.2f} MUSD of {n}" for n, x in half.items()) + "."
    return curves("budget", "Best of either model by budget", said, series, {"title": {"text": "MUSD"}},
                  {"ticksuffix": " %", "title": {"text": "of the best at 2 MUSD"}})  # fmt: skip


def front_table() -> Table:
    """Every point of the front, and what binds it."""
    rows: list[list[Cell]] = []
    for row in found().front.tolist():
        gpu, capacity, bandwidth, nic, nodes = (found().column(name)[row] for name in KNOBS)
        binding = found().binding(int(row))
        rows.append(
            [
                str(gpu), (f"{int(nodes)}", float(nodes)), quantity(float(capacity), "bytes"),
                quantity(float(bandwidth), "bandwidth"), quantity(float(nic), "bandwidth"),
                *(quantity(float(rate(m)[row]), "sample_rate") for m in MODELS), quantity(float(price()[row]), "usd"),
                " / ".join(f"{b.resource} {b.share:.0%}" for b in binding),
                " / ".join(f"{b.constraint} {b.used:.0%}" for b in binding),
            ]
        )  # fmt: skip
    columns = [
        ("GPU", ""), ("nodes", "number"), ("memory", "B"), ("memory bandwidth", "B/s"), ("NIC", "B/s"),
        *((name, "sample/s") for name in MODELS.values()), ("price", "USD"), ("bound by", ""), ("nearest limit", ""),
    ]  # fmt: skip
    return Table("front-table", columns, rows, page=12)


def claims() -> list[Claim]:
    """What was published, what comes out, and why."""
    here, front = sold(), found().front
    other = rival(here)
    wide = front[rate("dcnv2")[front] > 24e6]
    nic = found().column(KNOBS[3])
    large = int(np.sum(found().column(KNOBS[1])[front] == 192e9))
    return [
        Claim(
            "Nothing that splits one budget over these parts for two models. What was built is the nearest: nodes of "
            "eight H100 with 80 GB and 400 Gbit/s each, at 2 MUSD and 80 kW "
            f"{int(found().column('system.nodes')[here])} of them.",
            f"Those cost {show(float(price()[here]), 'usd')} and reach "
            + " and ".join(f"{show(float(rate(m)[here]), 'sample_rate')} of {name}" for m, name in MODELS.items())
            + f". For {show(float(price()[other]), 'usd')}, {described(other)} reach "
            + " and ".join(show(float(rate(m)[other]), "sample_rate") for m in MODELS)
            + f". Of {len(wide)} machines on the front with more than 24 Msample/s of DCNv2, "
            f"{int(np.sum(nic[wide] == 100e9))} have interfaces of 800 Gbit/s; {large} of all {len(front)} have 192 "
            "GB.",
            "Most prices are assumed (studies/split_the_budget.yaml says which), and parts are sold in sets, not one "
            "by "
            "one. Model A's 1.6 TB do not fit two nodes of 80 GB, so below a third node money goes into memory; the "
            "step from 400 to 800 Gbit/s costs a node about one GPU, and both models are bound by exchanges.",
        )
    ]


def build() -> Study:
    """The whole study."""
    here = sold()
    other = rival(here)
    gains = " and ".join(f"{rate(m)[other] / rate(m)[here]:.2f}x on {name}" for m, name in MODELS.items())
    return Study(
        "Split the budget: GPUs, memory, network, nodes",
        f"At most 2 MUSD and 80 kW: {described(other)} beat the node that is sold by {gains} for no more money.",
        claims(),
        [
            section("trade", "The front", front_figure(), front_table()),
            section("money", "The money", split_figure(), budget_figure()),
        ],
    )


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "split_the_budget", arguments)


if __name__ == "__main__":
    sys.exit(run())
