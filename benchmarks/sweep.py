"""Speed and memory of sweeps on this machine, against their targets: `python benchmarks/sweep.py [--long]`.

A rate is points over the CPU seconds that all processes of a sweep took together, times two cores: what two cores of
their own give. The rate by the clock, which other work on the machine lowers, stands beside it. Everything counts:
making points, the checks of `with_`, all eleven outputs, sending columns to the writing process and parquet.
`--long` sweeps ten million points. `--calculon DIR` and `--madmax DIR` measure checkouts of those in turn with ours,
one evaluation after the other as their own searches do them; `--aiconfigurator PYTHON` is the interpreter of an
environment with `pip install aiconfigurator`.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(name, "1")

CORES = 2
HBM = "system.node.gpu.hbm.bandwidth"
LINK = "system.node.scale_up.bandwidth"
PEAK = "system.node.gpu.peaks.fp16"


def axes() -> dict[str, Any]:
    """Three hardware knobs, drawn."""
    import archmodel as am

    return {
        HBM: am.between("1 TB/s", "8 TB/s"),
        LINK: am.between("100 GB/s", "900 GB/s"),
        PEAK: am.between("300 TFLOP/s", "3000 TFLOP/s"),
    }


def cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class Peak(threading.Thread):
    """Largest resident memory of this process and its children together, looked at ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.on = 0, True

    def run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while self.on:
            total = 0
            for pid in (os.getpid(), *children()):
                try:
                    total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
                except (FileNotFoundError, ProcessLookupError):
                    continue
            self.bytes = max(self.bytes, total)
            time.sleep(0.1)


def children() -> list[int]:
    """Processes that this one started."""
    mine = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in mine.read_text().split()] if mine.exists() else []


def row(what: str, value: str, target: str) -> None:
    """One line of the report."""
    print(f"{what:<66} {value:>34}   {target}", flush=True)


def measured(what: str, design: Any, points: int, workers: int, target: str) -> None:
    """One sweep of `points` points to parquet."""
    import archmodel as am

    folder = Path(tempfile.mkdtemp(prefix="archmodel-sweep-"))
    peak = Peak()
    peak.start()
    try:
        began, used = time.perf_counter(), cpu()
        table = am.sweep(design, axes(), sample="random", points=points, workers=workers, out=folder)
        seconds, used = time.perf_counter() - began, cpu() - used
        size = sum(file.stat().st_size for file in folder.glob("*.parquet"))
        assert not table.reasons
    finally:
        peak.on = False
        shutil.rmtree(folder)
    rate = f"{CORES * points / used:,.0f}/s ({points / seconds:,.0f}/s by the clock)"
    row(what, rate, target)
    row("  memory of all processes, parquet on disk", f"{peak.bytes / 2**20:,.0f} MiB, {size / 2**20:,.0f} MiB", "")


def evaluation(what: str, design: Any, points: int, target: str) -> None:
    """Chunks evaluated in this process, without starting workers and without parquet."""
    from archmodel.sweep.job import Worker
    from archmodel.sweep.prepare import Request, prepared

    job = prepared(Request(design, axes(), "random", points))
    worker = Worker(job)
    worker.chunk(0)
    rates = []
    for chunk in range(1, min(job.chunks, 6)):
        start, stop = job.bounds(chunk)
        used = time.process_time()
        worker.chunk(chunk)
        rates.append((stop - start) / (time.process_time() - used))
    row(what, f"{CORES * sorted(rates)[len(rates) // 2]:,.0f}/s", target)


CALCULON = """
import logging, sys, time
from importlib import import_module
from calculon.io import read_json_file
from calculon.llm import Llm
from calculon.system import System
search = import_module("calculon.llm.optimal_execution").OptimalExecution.search
if sys.argv[1] == "quiet":
    logging.disable(logging.CRITICAL)
app, system = Llm.Application(read_json_file("models/gpt3-175B.json")), System(read_json_file("systems/a100_80g.json"))
honest, count, began = Llm.run, 0, time.process_time()
def run(*given):
    global count, first
    if count == 5:
        first = time.process_time()
    if time.process_time() - began > 12:
        sys.exit()
    count += 1
    return honest(*given)
Llm.run = run
cut = (8, 8, 1, 1, 64, "full", False, "ar", "true", False, True, True)
try:
    search(False, 1, False, 64, 64, "float16", app, system, *cut)
finally:
    sys.stderr.write(f"{(count - 5) / (time.process_time() - first)}")
"""
"""Its own search over executions of GPT-3 175B on 64 GPUs (8-way tensor, 8-way pipeline parallel), for at most 12 s."""

MADMAX = """
import contextlib, io, sys, time
mode, sys.argv = sys.argv[1], ["run_model.py"]
from utils import import_model, import_system, import_task, parse_configurations
given = parse_configurations()
def read():
    model, system = import_model(given.model_cfg_file), import_system(given.system_cfg_file)
    return import_task(model, system, given.task_cfg_file), model, system
task, *parts = read()
def one():
    again, *of = read() if mode == "files" else (task, *parts)
    again.build_pretrain(*of)
with contextlib.redirect_stdout(io.StringIO()):
    one()
    began = time.process_time()
    for _ in range(500):
        one()
sys.stderr.write(f"{500 / (time.process_time() - began)}")
"""
"""Its default, DLRM-A on 128 GPUs."""

AICONFIGURATOR = """
import logging, sys, time
from aiconfigurator.sdk import config, sweep
from aiconfigurator.sdk.perf_database import get_database
from aiconfigurator_core.sdk.backends.base_backend import BaseBackend
logging.disable(logging.CRITICAL)
honest, count = BaseBackend.run_agg, 0
def run(*given, **named):
    global count
    count += 1
    return honest(*given, **named)
BaseBackend.run_agg = run
targets = [float(t) for t in range(1, 80)] if sys.argv[1] == "memo" else [1e9]
runtime = config.RuntimeConfig(isl=4000, osl=1000, ttft=1e9, tpot=targets)
given = dict(model_path="Qwen/Qwen3-32B-FP8", runtime_config=runtime, backend_name="trtllm",
             database=get_database("h200_sxm", "trtllm", "current"), model_config=config.ModelConfig(),
             parallel_config_list=[(t, 1, 1, 1, 1, 1) for t in (1, 2, 4, 8)], enable_chunked_prefill=True)
sweep.sweep_agg(**given)
began, count = time.process_time(), 0
sweep.sweep_agg(**given)
sys.stderr.write(f"{count / (time.process_time() - began)}")
"""
"""Its aggregate sweep of Qwen3-32B on H200s, 2,669 points, for one latency target or ("memo") for 79, of which 78 find
every point remembered. The second sweep of a process counts: its measured tables are read by then."""


def peer(what: str, code: str, folder: Path, mode: str, python: str = sys.executable) -> None:
    """Evaluations per CPU second of another model, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [python, "-c", code, mode]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    row(what, f"{float(done.stderr.split()[-1]):,.0f}/s and core", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="ten million points to parquet")
    parser.add_argument("--calculon", type=Path, metavar="DIR", help="a checkout of calculon-ai/calculon")
    parser.add_argument("--madmax", type=Path, metavar="DIR", help="a checkout of samhsia/MADMax")
    parser.add_argument("--aiconfigurator", metavar="PYTHON", help="an interpreter that imports aiconfigurator")
    wanted = parser.parse_args()
    long = wanted.long
    from speed import large

    import archmodel as am

    symmetric = am.load(ROOT / "designs" / "mlperf_dlrm_v1_dgx_h100.yaml")
    uneven = am.load(ROOT / "designs" / "mlperf_dcnv2_dgx_h100.yaml")
    folder = ROOT / "benchmarks" / ".designs"
    folder.mkdir(exist_ok=True)
    path = folder / "large.yaml"
    path.write_text(large(128, 1000))
    wide = am.load(path)
    neo = am.load(ROOT / "designs" / "neo_a_zionex_16x8.yaml")

    evaluation("evaluation alone: DLRM on 8 ranks that are alike, 43 ops", symmetric, 2_000_000, ">= 200,000/s")
    evaluation("evaluation alone: DCNv2 on 8 uneven ranks, 73 ops", uneven, 2_000_000, "")
    evaluation("evaluation alone: 1000 tables on 128 uneven ranks, 39 ops", wide, 100_000, ">= 5,000/s")
    evaluation("evaluation alone: Neo A, 1000 tables on 128 uneven ranks, 105 ops", neo, 50_000, "")
    for mode in ("as it is", "quiet") if wanted.calculon else ():
        peer(f"Calculon's search, GPT-3 175B on 64 GPUs, logger {mode}", CALCULON, wanted.calculon, mode)
    for mode in ("files", "memory") if wanted.madmax else ():
        peer(f"MAD-Max, DLRM-A on 128 GPUs, configuration from {mode}", MADMAX, wanted.madmax, mode)
    for mode in ("points", "memo") if wanted.aiconfigurator else ():
        what = f"AIConfigurator's aggregate sweep, Qwen3-32B on H200s, {mode}"
        peer(what, AICONFIGURATOR, Path(tempfile.gettempdir()), mode, wanted.aiconfigurator)
    count = 10_000_000 if long else 1_000_000
    measured(f"{count:,} points to parquet, DLRM, 2 processes", symmetric, count, 2, ">= 200,000/s, <= 2048 MiB")
    measured("100,000 points to parquet, 1000 tables, 2 processes", wide, 100_000, 2, ">= 5,000/s")

    one = am.estimate(symmetric)
    began = time.process_time()
    for _ in range(20):
        am.estimate(symmetric)
    alone = 20 / (time.process_time() - began)
    row("one point at a time, DLRM, one core", f"{alone:,.0f}/s", "")
    assert one.fits


if __name__ == "__main__":
    main()
