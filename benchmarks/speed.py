"""Speed and size of archmodel on this machine, against its targets: `python benchmarks/speed.py`.

Each figure is the median of several runs in one process (or of whole processes where it says so), in CPU seconds.
The arrays that are timed are also compared with the scalar path, point by point.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LARGE = """
name: {tables} tables on {ranks} GPUs
system: {{use: systems/dgx_h100.yaml, nodes: {nodes}}}
workload:
  kind: dlrm
  interaction: cat
  global_batch: {batch}
  dense_features: 256
  bottom_mlp: [512, 256, 128]
  top_mlp: [1024, 1024, 512, 256, 1]
  tables:
    t: {{num_embeddings: {rows}, embedding_dim: {dims}, pooling_factor: {pooling}, access: {{kind: zipf, alpha: 1.05}}}}
plan:
  tables: {{default: {{sharding: {sharding}, optimizer: rowwise_adagrad}}}}
  prefetch_input: true
"""


def large(ranks: int, tables: int, sharding: str = "auto") -> str:
    """A design file with `tables` unequal tables on `ranks` GPUs."""
    rng = np.random.default_rng(ranks + tables)
    return LARGE.format(
        ranks=ranks,
        tables=tables,
        nodes=ranks // 8,
        batch=512 * ranks,
        sharding=sharding,
        rows=[int(x) for x in np.exp(rng.uniform(np.log(1e3), np.log(2e7), tables))],
        dims=[int(x) for x in rng.choice([32, 64, 128], tables)],
        pooling=[float(x) for x in np.round(rng.uniform(1, 40, tables), 1)],
    )


def median_of(runs: int, body: Callable[[], object]) -> float:
    """Median CPU seconds of `body`, after one run that is not counted."""
    body()
    times = []
    for _ in range(runs):
        start = time.process_time()
        body()
        times.append(time.process_time() - start)
    return statistics.median(times)


def process(code: str) -> tuple[float, float]:
    """(median CPU seconds, peak MB) of five whole Python processes, their ends included."""
    times, peak = [], 0.0
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, cwd=ROOT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, code)
        times.append(used.ru_utime + used.ru_stime)
        peak = max(peak, used.ru_maxrss / 1e3)
    return statistics.median(times), peak


def line(what: str, value: str, target: str) -> None:
    """One row of the report."""
    print(f"{what:<68} {value:>22}   target {target}")


def main() -> None:
    cpu, _ = process("import archmodel")
    bare, _ = process("import numpy")
    line("import archmodel, whole process (of which import numpy)", f"{cpu:.2f} s ({bare:.2f} s)", "<= 0.5 s")
    command = "import sys; sys.argv = ['archmodel', 'evaluate', 'designs/mlperf_dcnv2_dgx_h100.yaml']\n"
    cpu, peak = process(command + "from archmodel.cli import main\ntry: main()\nexcept SystemExit: pass")
    line("archmodel evaluate, whole process", f"{cpu:.2f} s, {peak:.0f} MB", "<= 1 s, <= 150 MB")

    import archmodel as am

    folder = ROOT / "benchmarks" / ".designs"
    folder.mkdir(exist_ok=True)
    path = folder / "large.yaml"
    path.write_text(large(128, 1000))
    design = am.load(path)

    def fresh() -> object:
        again = am.Design(design.spec, design.tree, design.path)
        return am.estimate(again)

    seconds = median_of(9, fresh)
    line("estimate, 128 ranks x 1000 tables, placement and lowering too", f"{seconds * 1e3:.1f} ms", "<= 20 ms")
    seconds = median_of(9, lambda: am.estimate(design))
    line("estimate, the same, already lowered", f"{seconds * 1e3:.1f} ms", "<= 20 ms")

    points = 10_000
    small = am.load(ROOT / "designs" / "mlperf_dcnv2_dgx_h100.yaml")
    rng = np.random.default_rng(0)
    knobs = {
        "system.node.gpu.hbm.bandwidth": rng.uniform(1e12, 8e12, points),
        "system.node.scale_up.bandwidth": rng.uniform(1e11, 9e11, points),
        "system.node.gpu.peaks.fp16": rng.uniform(3e14, 3e15, points),
    }
    changed = small.with_(knobs)
    seconds = median_of(5, lambda: am.estimate(changed).iteration_time)
    line("10,000 points of 3 hardware knobs, 8-GPU DCNv2", f"{points / seconds:,.0f} points/s", ">= 50,000 points/s")
    together = am.estimate(changed).iteration_time
    worst = 0.0
    for i in range(0, points, points // 50):
        alone = am.estimate(small.with_({p: float(v[i]) for p, v in knobs.items()})).iteration_time
        worst = max(worst, abs(together[i] / alone - 1))
    line("  largest relative difference from the scalar path, 50 points", f"{worst:.1e}", "<= 1e-12")
    one = median_of(9, lambda: am.estimate(small))
    ratio = points / seconds * one
    line("  the scalar path, for comparison", f"{1 / one:,.0f} points/s", f"(arrays are {ratio:,.0f}x faster)")

    path.write_text(large(4096, 4096))
    huge = am.load(path)
    seconds = median_of(1, lambda: am.estimate(am.Design(huge.spec, huge.tree, huge.path)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    what = "estimate, 4096 ranks x 4096 tables, placement and lowering too"
    line(what, f"{seconds:.2f} s, {peak:.2f} GB", "<= 2 s, <= 2 GiB")
    path.write_text(large(4096, 4096, "row_wise"))
    huge = am.load(path)
    seconds = median_of(1, lambda: am.estimate(am.Design(huge.spec, huge.tree, huge.path)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    line("  all of them row-wise (16.8 M shards)", f"{seconds:.2f} s, {peak:.2f} GB", "<= 2 s, <= 2 GiB")


if __name__ == "__main__":
    main()
