"""Link loads against ASTRA-sim: `python benchmarks/astra.py RESULTS.json`.

RESULTS.json: simulated collectives, one object each, with the conventions that its `meta` states. They are put into our
terms here and nowhere else: its GB/s of links are 2^30 B/s (those of memory 1e9), every time is cut to whole
nanoseconds, an endpoint waits a delay for every message, and adding up reads and writes local memory. Its
congestion-aware backend stores whole messages before it forwards them; its unaware one knows no contention at all, so
that some of its times are below what the links can carry: those rows are counted (`below the bound`), and our times
stay above the bound instead. `in bracket` uses the simulator's own notion of contention, by which several queues of
a dimension ("tag, 2") have the whole link each.

Prints, by tag, backend and algorithm: rows, errors, whether the simulated time is inside the bracket of our phases,
and how many times, theirs and ours, are below the physical bound.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from archmodel.collectives.groups import placements
from archmodel.collectives.kinds import CollectiveError
from archmodel.collectives.link_load import Law, price_link_load
from archmodel.collectives.link_load_endpoint import Endpoint
from archmodel.collectives.link_load_trees import whole_trees
from archmodel.collectives.link_load_wires import wires_of
from archmodel.network import SCALE_UP, Dimensions, Topology, build_topology

GIB = 2.0**30
KINDS = {"Ring": "ring", "Switch": "switch", "FullyConnected": "fully_connected"}
ALGORITHMS = {
    "ring": "ring",
    "direct": "direct",
    "oneDirect": "direct",
    "halvingDoubling": "halving_doubling",
    "doubleBinaryTree": "double_binary_tree",
}
LARGE = 16 * 2**20


class Row(NamedTuple):
    """One simulated case, with ours beside it (ns)."""

    tag: str
    backend: str
    algorithm: str
    collective: str
    large: bool
    theirs: float
    ours: float
    lower: float
    upper: float
    bound: float


def topology_of(row: dict[str, Any]) -> Topology:
    """The fabric of a row: one dimension, or several."""
    dims = {}
    for i, (kind, size, speed, late) in enumerate(
        zip(row["topology"], row["npus"], row["bandwidth_GBps"], row["latency_ns"], strict=True)
    ):
        name = "bandwidth" if kind == "Switch" else "link_bandwidth"
        dims[f"d{i}"] = {"kind": KINDS[kind], "gpus": size, name: speed * GIB, "link_latency": late * 1e-9}
    if len(dims) == 1:
        spec = dims["d0"]
        return build_topology(SCALE_UP.resolve(spec["kind"]).model_validate(spec), ranks_per_node=row["npus"][0])
    return build_topology(Dimensions.model_validate({"dimensions": dims}), ranks_per_node=prod(row["npus"]))


def priced(row: dict[str, Any], topology: Topology, chunks: int, size: float, contention: bool = True) -> float:
    """Our time, in ns; without contention for the bracket of rows that know none."""
    names = [ALGORITHMS[name] for name in row["algorithm"]]
    if row["collective_optimization"] == "baseline":
        return baseline(row, topology, names, chunks, size)
    algorithm = "+".join(names) if len(topology.dimensions) > 1 and len(names) > 1 else names[0]
    end = Endpoint(row["endpoint_delay_ns"] * 1e-9, row["local_mem_bw_GBps"] * 1e9, tick=1e-9)
    if names == ["double_binary_tree"]:  # which the simulator sends whole
        stores = row["backend"].startswith("aware")
        wire = wires_of(topology, placements(topology, "world"))[0]
        return 1e9 * float(whole_trees(wire, size, chunks, endpoint=end, store_and_forward=stores))
    return 1e9 * float(
        price_link_load(
            topology,
            row["collective"],
            algorithm,
            size * (prod(row["npus"]) if row["collective"] == "all_gather" else 1),
            placements(topology, "world"),
            chunks,
            endpoint=end,
            store_and_forward=row["backend"].startswith("aware"),
            contention=contention,
        ).time
    )


def baseline(row: dict[str, Any], topology: Topology, names: list[str], chunks: int, size: float) -> float:
    """All-reduces of the whole buffer in each dimension, one after the other, in chunks that follow each other."""
    end = Endpoint(row["endpoint_delay_ns"] * 1e-9, row["local_mem_bw_GBps"] * 1e9, tick=1e-9)
    times = [
        price_link_load(
            topology,
            row["collective"],
            name,
            size / chunks,
            placements(topology, d.name),
            1,
            endpoint=end,
            contention=False,
        ).time
        for name, d in zip(names, topology.dimensions, strict=True)
    ]
    return 1e9 * float((chunks - 1) * max(times) + sum(times))


def bound_of(row: dict[str, Any], topology: Topology) -> float:
    """What no schedule can beat, in ns: bytes into a rank over its links, and over the narrowest cut, of each part."""
    n = prod(row["npus"])
    size = row["size_bytes"] * (n if row["collective"] == "all_gather" else 1)
    factor = 2 if row["collective"] == "all_reduce" else 1
    moved = factor * (n - 1) / n * size
    level = topology.scale_up
    times = [moved / float(level.bandwidth)]
    if row["collective"] == "all_to_all":
        half = n // 2
        times.append(half * (n - half) * size / n / float(level.bisection))
        for d in topology.dimensions:  # of each dimension by itself: bytes that must cross it, over all its links
            crossing = (d.size - 1) / d.size * size
            times.append(crossing / float(d.bandwidth))
    else:
        for d in topology.dimensions[-1:]:
            below = n // d.size  # ranks of a block: together they must take in what the others have
            times.append(factor * (d.size - 1) / d.size * size / below / float(d.bandwidth))
    return 1e9 * max(times)


def longest_phase(row: dict[str, Any], topology: Topology, chunk: float) -> float:
    """Seconds (ns) of a chunk's longest phase: with two queues a dimension reduces in one and gathers in the other."""
    end = Endpoint(row["endpoint_delay_ns"] * 1e-9, row["local_mem_bw_GBps"] * 1e9, tick=1e-9)
    wires = wires_of(topology, placements(topology, "world"))
    law = Law(row["collective"], wires, wires, end, row["backend"].startswith("aware"), contention=False)
    phases = law.phases("+".join(ALGORITHMS[name] for name in row["algorithm"])) or []
    return 1e9 * max(float(law.together(steps, chunk).time) for _, steps in phases)


def compared(row: dict[str, Any]) -> Row | None:
    """A case that both price; None where one of the two does not."""
    if row["status"] != "ok" or row["active_chunks_per_dim"] != 1:
        return None
    topology = topology_of(row)
    k, size = row["chunks"], float(row["size_bytes"])
    try:
        ours = priced(row, topology, k, size)
        aware = row["backend"].startswith("aware")
        one = priced(row, topology, 1, size / k, aware)
        several = priced(row, topology, 1001, size / k * 1001, aware)
    except CollectiveError:
        return None
    longest, at_once = (several - one) / 1000, 1
    if row["queues_per_dim"] > 1 and row["collective_optimization"] == "baseline":
        at_once = row["queues_per_dim"]  # whole links for the chunks of each queue
    elif row["queues_per_dim"] > 1:
        longest = longest_phase(row, topology, size / k)
    return Row(
        row["tag"] if row["queues_per_dim"] == 1 else f"{row['tag']}, {row['queues_per_dim']}",
        row["backend"],
        ",".join(row["algorithm"]),
        row["collective"],
        row["size_bytes"] >= LARGE,
        float(row["result_ns"]),
        ours,
        k / at_once * longest,
        (ceil(k / at_once) - 1) * longest + one,
        bound_of(row, topology),
    )


def main(path: str) -> int:
    """Prints the table; 1 when one of our times is below its bound."""
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    skipped = 0
    for result in results:
        row = compared(result)
        if row is None:
            skipped += 1
            continue
        size = ">= 16 MiB" if row.large else "< 16 MiB"
        groups[row.tag, row.backend, row.collective, row.algorithm, size].append(row)
    head = ("tag", "backend", "collective", "algorithm", "size", "rows", "mean |error|", "largest", "in bracket")
    print(f"{head[0]:20}{head[1]:9}{head[2]:15}{head[3]:32}{head[4]:11}{head[5]:>5}{head[6]:>14}{head[7]:>11}"
          f"{head[8]:>12}{'below the bound: theirs, ours':>31}")  # fmt: skip
    wrong = 0
    for key, rows in sorted(groups.items()):
        error = np.array([abs(row.ours / row.theirs - 1) for row in rows])
        inside = sum(row.lower * (1 - 1e-6) - 2 <= row.theirs <= row.upper * (1 + 1e-6) + 2 for row in rows)
        theirs = sum(row.theirs < row.bound * (1 - 1e-3) for row in rows)
        ours = sum(row.ours < row.bound * (1 - 1e-3) for row in rows)
        wrong += ours
        print(f"{key[0]:20}{key[1]:9}{key[2]:15}{key[3]:32}{key[4]:11}{len(rows):5}{error.mean():14.4%}"
              f"{error.max():11.4%}{inside:9}/{len(rows):<3}{theirs:17}{ours:14}")  # fmt: skip
    print(f"{skipped} rows not compared (runs that did not end, several active chunks, or no such algorithm here)")
    return int(wrong > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
