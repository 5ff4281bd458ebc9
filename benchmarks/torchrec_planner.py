"""TorchRec's own planner beside ours, on the same tasks in one run on one machine.

    python benchmarks/torchrec_planner.py TASKS.json PYTHON [TASK ...]

TASKS.json: planning tasks as `archmodel plan --tasks` reads them. PYTHON: an interpreter that has torchrec (1.8.0 was
used, with torch 2.13.0 and fbgemm-gpu-cpu 1.8.0); it plans with TorchRec's default settings. The two take turns; CPU
seconds of the planning alone, imports and building of tables left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

THEIRS = """
import json, sys, time, logging
logging.disable(logging.CRITICAL)
import torch
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

task = json.load(sys.stdin)
machine = task["topology"]
topology = Topology(world_size=machine["world_size"], local_world_size=machine["local_world_size"],
                    hbm_cap=machine["hbm_cap"], ddr_cap=machine["ddr_cap"], compute_device="cuda")
tables = [
    EmbeddingBagConfig(
        name=t["name"], num_embeddings=t["rows"], embedding_dim=t["dim"], feature_names=["f_" + t["name"]]
    )
    for t in task["tables"]
]
constraints = {t["name"]: ParameterConstraints(pooling_factors=[t["pooling"]]) for t in task["tables"]}
module = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
planner = EmbeddingShardingPlanner(topology=topology, batch_size=task["batch_per_rank"], constraints=constraints)
begin = time.process_time()
planner.plan(module, [EmbeddingBagCollectionSharder()])
spent = time.process_time() - begin
perf = {}
for option in planner._best_plan if hasattr(planner, "_best_plan") and planner._best_plan else []:
    for shard in option.shards:
        perf[shard.rank] = perf.get(shard.rank, 0.0) + shard.perf.total
print(json.dumps({"cpu": spent, "value": max(perf.values()) if perf else None}))
"""


def theirs(python: str, task: dict[str, object]) -> dict[str, float]:
    """CPU seconds and largest rank of TorchRec's plan."""
    done = subprocess.run([python, "-c", THEIRS], input=json.dumps(task), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"TorchRec failed on {task['name']}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(task: dict[str, object]) -> dict[str, float]:
    """CPU seconds and largest rank of our plan, options included."""
    from archmodel.search import tasks
    from archmodel.search.narrow import solve_task
    from archmodel.search.solver import Effort

    begin = time.process_time()
    found = solve_task(tasks.from_dict(task), Effort())[2]
    return {"cpu": time.process_time() - begin, "value": found.value}


def main(arguments: list[str]) -> None:
    """The table."""
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    document = json.loads(Path(arguments[0]).read_text())
    wanted = arguments[2:] or [t["name"] for t in document["tasks"] if len(t["tables"]) <= 100]
    print(f"{'task':<22} {'TorchRec ms':>12} {'ours ms':>9} {'TorchRec CPU s':>15} {'ours CPU s':>11} {'ratio':>8}")
    ours(document["tasks"][0])  # the first call imports
    for task in document["tasks"]:
        if task["name"] in wanted:
            before, them, after = ours(task), theirs(arguments[1], task), ours(task)
            cpu = (before["cpu"] + after["cpu"]) / 2
            value = "" if them["value"] is None else f"{them['value']:.3f}"
            row = f"{task['name']:<22} {value:>12} {before['value']:>9.3f} {them['cpu']:>15.2f} {cpu:>11.4f}"
            print(f"{row} {them['cpu'] / cpu:>7.0f}x", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
