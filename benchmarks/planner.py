"""The planner against TorchRec's: option costs, plan values, bounds and CPU time.

    python benchmarks/planner.py [OPTIONS.json PLANS.json [HUGECTR.json]]

OPTIONS.json: option costs of TorchRec's planner, {"options": [{world_size, local_world_size, batch, weighted, rows,
dim, pooling, sharding_type, kernel, distinct_shards: [{size, perf, storage}]}]}. PLANS.json: tasks and what TorchRec's
planner found, {"tasks": [...], "runs": [{task, variant, ok, max_perf_ms, plan_cpu_s}]}. HUGECTR.json: plans
that logs of MLPerf's DCNv2 print, [{round, system, matrix, strategy, hotness_cost, table_cost, bw_ratio, work_ratio,
dram_GB}], whose largest cost the search is held against. Without files: sizes only.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np

import archmodel as am
from archmodel.search import tasks
from archmodel.search import torchrec as tr
from archmodel.search.baselines import hugectr_options
from archmodel.search.narrow import NARROW, solve_task
from archmodel.search.solver import Effort, solve


def exactness(path: Path) -> None:
    """How many shards of each kind agree in every bit of time and every byte."""
    shards, times, stores = Counter(), Counter(), Counter()
    for o in json.loads(path.read_text())["options"]:
        kind, topology = o["sharding_type"], tr.Topology(o["world_size"], o["local_world_size"])
        rows, dim, pooling = (np.float64(o[k]) for k in ("rows", "dim", "pooling"))
        for shard in o["distinct_shards"]:
            height, width = map(np.float64, shard["size"])
            perf = tr.perf(
                kind,
                topology,
                o["batch"],
                rows,
                width,
                pooling,
                kernel_bandwidth=tr.bandwidth(o["kernel"]),
                weighted=o["weighted"],
            )
            held = tr.storage(
                o["kernel"], tr.shard_io(kind, topology, o["batch"], width, pooling), height, width, rows, dim
            )
            parts = (perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms, perf.input_dist_comms)
            shards[kind] += 1
            times[kind] += [float(p) for p in parts] == shard["perf"]
            stores[kind] += [float(held.hbm), float(held.ddr), float(held.ssd)] == shard["storage"]
    print(f"{'kind':<20} {'shards':>7} {'times exact':>12} {'bytes exact':>12}")
    for kind in sorted(shards):
        print(f"{kind:<20} {shards[kind]:>7} {times[kind]:>12} {stores[kind]:>12}")
    print(f"{'all':<20} {shards.total():>7} {times.total():>12} {stores.total():>12}\n")


def against(path: Path, min_partition: int | None) -> None:
    """Value, bound and CPU seconds of every task beside TorchRec's; None: as the planner chooses."""
    document = json.loads(path.read_text())
    runs: dict[str, dict[str, dict]] = {}
    for run in document["runs"]:
        if run["ok"]:
            runs.setdefault(run["task"], {})[run["variant"]] = run
    print(f"columns per shard >= {min_partition or f'{tr.MIN_COLUMNS}, or {NARROW} where that is worth it'}")
    columns = ("default", "best", "ours", "bound", "gap", "gain", "CPU s", "faster")
    print(f"{'task':<22} " + " ".join(f"{c:>8}" for c in columns))
    gains = []
    for entry in document["tasks"]:
        theirs = runs[entry["name"]]
        cpu = time.process_time()
        if min_partition is None:
            found = solve_task(tasks.from_dict(entry), Effort())[2]
        else:
            found = solve(tasks.options(tasks.from_dict(entry, min_partition=min_partition)))
        cpu = time.process_time() - cpu
        default, best = theirs["default"], min(r["max_perf_ms"] for r in theirs.values())
        gains.append(1 - found.value / default["max_perf_ms"])
        print(
            f"{entry['name']:<22} {default['max_perf_ms']:>8.3f} {best:>8.3f} {found.value:>8.3f} "
            f"{found.lower_bound:>8.3f} {found.gap:>8.2%} {gains[-1]:>8.1%} {cpu:>8.3f} "
            f"{default['plan_cpu_s'] / cpu:>7.0f}x"
            f"{'' if found.feasible and found.value <= best * (1 + 1e-9) else '  WORSE'}"
        )
    print(f"median gain over TorchRec's default: {median(gains):.1%}\n")


def hugectr(path: Path) -> None:
    """The largest cost of a GPU, as HugeCTR's planner counts it, of published plans and of ours, which replicates no
    more than the published one."""
    tables = am.load("mlperf_dcnv2_dgx_h100.yaml").workload.table_arrays
    pooling, adagrad = np.asarray(tables.pooling_factor, dtype=np.float64), 8.0
    print(f"\n{'HugeCTR':<6} {'system':<36} {'published':>9} {'ours':>8} {'bound':>8}")
    worse = 0
    for x in json.loads(path.read_text()):
        published = max(map(sum, zip(x["hotness_cost"], x["table_cost"], strict=True)))
        replicated = [t for kind, which in x["strategy"] if kind == "dp" for t in which]
        largest = max((128 * adagrad * float(tables.num_embeddings[t]) for t in replicated), default=None)
        found = solve(
            hugectr_options(
                tables.names, tables.num_embeddings, 128, pooling, len(x["matrix"]),
                bandwidth_ratio=x["bw_ratio"], work_ratio=x["work_ratio"], memory_limit=x["dram_GB"] * 1e9,
                bytes_per_element=adagrad, replicate_below=None if largest is None else largest * (1 + 1e-9),
            )
        )  # fmt: skip
        worse += not (found.feasible and found.value <= published)
        print(f"{x['round']:<6} {x['system'][:36]:<36} {published:>9.3f} {found.value:>8.3f} {found.lower_bound:>8.3f}")
    print(f"worse than published: {worse}")


def sizes() -> None:
    """Time to plan drawn tables."""
    print(f"{'tables x ranks':<16} {'HBM GiB':>8} {'value':>9} {'gap':>6} {'CPU s':>7} {'wall s':>7}")
    for count, world, hbm in ((1000, 128, 80), (1000, 128, 20), (4096, 1024, 80)):
        random = np.random.default_rng(count)
        rows = np.minimum(10 ** random.uniform(3, 8, count), 4e7).astype(np.int64)
        dim = random.choice([16, 32, 64, 128, 256], count)
        pooling = np.exp(random.normal(1.5, 1.2, count)).clip(1, 200)
        names = tuple(f"t{i}" for i in range(count))
        task = tasks.Task("drawn", names, rows, dim, pooling, 512, tr.Topology(world, 8, hbm * 1024.0**3))
        cpu, wall = time.process_time(), time.perf_counter()
        found = solve(tasks.options(task), Effort())
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"{f'{count} x {world}':<16} {hbm:>8} {found.value:>9.3f} {found.gap:>6.2%} {cpu:>7.2f} {wall:>7.2f}")


def main(arguments: list[str]) -> None:
    """All tables."""
    if len(arguments) >= 2:
        exactness(Path(arguments[0]))
        for least in (None, tr.MIN_COLUMNS, NARROW):
            against(Path(arguments[1]), least)
    if len(arguments) == 3:
        hugectr(Path(arguments[2]))
    sizes()


if __name__ == "__main__":
    main(sys.argv[1:])
