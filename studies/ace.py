"""What drives the network of a training machine, and what that costs its compute: a study after ACE (ISCA 2021).

    python studies/ace.py [-o ace.html]

16 to 128 accelerators on a 3D torus, five endpoints, three workloads. The page has the memory traffic that each way to
drive an all-reduce needs, iteration times, what of the links is used, where the engine saturates, and how much of every
result rests on which assumption. The machine is assumed throughout (see designs/systems/torus3d_*.yaml); nothing here
was tuned to published figures, which stand beside the results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import numpy as np
from _page import Claim, Study, main, section
from pydantic import RootModel

from archmodel import catalogue, source
from archmodel.collectives import endpoint_traffic as counting
from archmodel.components.endpoint import ENDPOINTS, Endpoint
from archmodel.design import Design, load
from archmodel.estimate.contention import machine_of, shares
from archmodel.estimate.driving import driven
from archmodel.estimate.sharing import SharedTimeline, simulate
from archmodel.estimate.sharing_points import simulate_points
from archmodel.program import AllToAll, Collective, Convolution, Gemm, Layout, Products
from archmodel.report.html import palette
from archmodel.report.html.charts import bars, curves
from archmodel.report.html.figure import Figure, seconds_axis, si_axis
from archmodel.report.html.page import Section
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.system import System

TORI = ((4, 2, 2), (4, 4, 2), (4, 4, 4), (4, 8, 4))
LINKS = (400e9, 50e9, 50e9)
"""B/s that an accelerator sends along each dimension (torus3d_4x4x4.yaml)."""
BASELINES = ("no_overlap", "communication_optimised", "compute_optimised")
ENDPOINT_FILES = (*BASELINES, "ace", "ideal")
WORKLOADS = {"ResNet-50": ("resnet50", 32), "GNMT": ("gnmt", 128), "DLRM": ("dlrm_hybrid", 512)}
"""Design file and samples of one accelerator (the batches are assumed)."""
PUBLISHED = {"ResNet-50": (1.41, 1.51), "GNMT": (1.12, 1.17), "DLRM": (1.13, 1.19)}
"""Speed-up over the best baseline, mean and largest: abstract of arXiv 2007.00156."""
PUBLISHED_UTILISATION = (1.44, 2.67)
PUBLISHED_MEMORY = 3.5
LISTED_COMPUTE = {"ResNet-50": 1095.314e-6, "DLRM": 51.678e-6}
"""Seconds of forward and both backward passes in the public lists of layers (cycles of 1 ns), whose machine and batch
are not stated; see `array_cycles`."""
LISTED_FORWARD = {
    "conv1": 13_003,
    "layer_64_1_conv1": 3_456,
    "layer_64_1_conv2": 10_944,
    "layer_64_2_conv1": 3_648,
    "layer_512_1_conv1": 14_156,
    "fc1000": 16_416,
}
"""Cycles of some forward passes in the public list of ResNet-50."""
SIDE, ARRAY_CLOCK = 256, 1e9
"""Side of a systolic array and its clock: what explains the public lists (`array_cycles`)."""


class _Any(RootModel[Annotated[Endpoint, ENDPOINTS.field()]]):
    pass


@cache
def endpoint(name: str) -> Endpoint:
    """An endpoint of the catalogue."""
    tree = source.read(catalogue.find(f"endpoints/{name}.yaml"), catalogue=catalogue.directory())
    return source.validate(_Any, tree).root


@cache
def design(
    workload: str, torus: tuple[int, int, int], plan: str = "layers_lifo", per_rank: int | None = None
) -> Design:
    """A workload on a torus, its batch growing with the machine."""
    file, samples = WORKLOADS[workload]
    package, v, h = torus
    base = load(catalogue.find(f"{file}_torus3d_4x4x4.yaml"))
    changes: dict[str, Any] = {
        "name": f"{workload} on {package} x {v} x {h}",
        "system.nodes": v * h,
        "system.scale_out.sizes": [v, h],
        "system.scale_out.links": [2 if v == 2 else 1, 2 if h == 2 else 1],
        "workload.global_batch": (per_rank or samples) * package * v * h,
    }
    if plan == "layers_no_overlap":
        changes |= {"plan.gradient_bucket": 1e12, "plan.collective_order": "fifo"}
    return base.with_(changes)


def with_endpoint(system: System, which: Endpoint) -> System:
    """The system, driven by `which`."""
    return system.model_copy(update={"node": system.node.model_copy(update={"endpoint": which})})


@dataclass(frozen=True)
class Result:
    """One run. `period`: steady state; `two`: mean of two iterations from a standing start; `exposed`: seconds that
    compute waits in `period`; `rate`: bytes sent per second of a busy network, `used`: its part of the links'."""

    workload: str
    torus: tuple[int, int, int]
    endpoint: str
    period: float
    two: float
    exposed: float
    rate: float
    used: float


def array_cycles(m: Any, n: Any, k: Any) -> Any:
    """Cycles of C[m, n] = A[m, k] B[k, n] on a weight-stationary systolic array of s x s: for each tile, weights
    are shifted in over min(k, s) rows, then m rows of A pass, and the last drains over s columns,

        ceil(k / s) ceil(n / s) (m + min(k, s) + s)

    For one image this is what the public list of ResNet-50 has for the forward pass of 41 of its 54 layers, to the
    cycle, with s = 256. So the list is of an array of 131 TFLOP/s and of one image for each accelerator; how it came by
    the other 13 (most of them 1 x 1 convolutions of many channels, up to four times as long) we do not know.
    """
    return np.ceil(k / SIDE) * np.ceil(n / SIDE) * (m + np.minimum(k, SIDE) + SIDE)


def kernel_seconds(work: Any, device: Any, whole: Any, kernels: str) -> Any:
    """Seconds of a product on what an endpoint leaves of a device: as long as its bytes take, or the product at its
    peak rate ("roofline") or on a systolic array with the share of the cores that is left ("array")."""
    moving = np.asarray(device.stream(work.memory_bytes()["hbm"], dtype=work.dtype, graph=True).total)
    if kernels == "roofline":
        return np.maximum(moving, work.flops() / device.peaks[work.dtype])
    each = getattr(work, "count", 1.0) * getattr(work, "steps", 1)
    seconds = each * array_cycles(work.m, work.n, work.k) / ARRAY_CLOCK * whole.sm_count / device.sm_count
    return np.maximum(moving, seconds)


def run(
    workload: str, torus: tuple[int, int, int], name: str, which: Endpoint | None = None, *, compute: float = 1.0,
    per_rank: int | None = None, change: Any = None, kernels: str = "gpu",
) -> Result:  # fmt: skip
    """A workload on a torus with an endpoint of the catalogue, or `which`. `compute`: kernels take so many times as
    long; `change`: what to do to the system first; `kernels`: how products are priced (`kernel_seconds`)."""
    plan = "layers_no_overlap" if name == "no_overlap" else "layers_lifo"
    d = design(workload, torus, plan, per_rank)
    system = with_endpoint(change(d.system) if change else d.system, which or endpoint(name))
    program = d.program
    shared = shares(program, system)
    alone = list(shared.alone)
    if kernels != "gpu":
        device = machine_of(program, system).device
        for i, op in enumerate(program.ops):
            if isinstance(op.work, Gemm | Products | Convolution):
                alone[i] = np.atleast_1d(kernel_seconds(op.work, device, system.gpu, kernels))
    computing = ["compute" in op.streams for op in program.ops]
    alone = [a * compute if k else a for a, k in zip(alone, computing, strict=True)]
    shared = replace(shared, alone=tuple(alone))
    lifo = plan == "layers_lifo"
    steady = simulate(program, shared, lifo=lifo)
    two = simulate(program, shared, lifo=lifo, iterations=2)
    return _result(workload, torus, name, d, steady, float(two.period))


def _result(
    workload: str, torus: tuple[int, int, int], name: str, d: Design, steady: SharedTimeline, two: float
) -> Result:
    sent = busy = computing = 0.0
    for op, seconds in zip(d.program.ops, steady.times, strict=True):
        if isinstance(op.work, AllToAll | Collective):
            sent += sum(float(np.max(x)) for x in op.work.wire_bytes().values())
            busy += float(np.max(seconds))
        elif "compute" in op.streams:
            computing += float(np.max(seconds))
    period = float(steady.period)
    rate = sent / busy
    return Result(workload, torus, name, period, two, max(period - computing, 0.0), rate, rate / sum(LINKS))


def everything() -> list[Result]:
    """All endpoints, workloads and tori."""
    return [run(w, t, e) for w in WORKLOADS for t in TORI for e in ENDPOINT_FILES]


def speed_ups(results: list[Result], of: str = "ace", measure: str = "two") -> dict[str, list[float]]:
    """Iteration time of the best baseline over that of `of`, torus by torus."""
    found: dict[str, list[float]] = {}
    for w in dict.fromkeys(r.workload for r in results):
        for t in dict.fromkeys(r.torus for r in results):
            mine = {r.endpoint: getattr(r, measure) for r in results if (r.workload, r.torus) == (w, t)}
            found.setdefault(w, []).append(min(mine[b] for b in BASELINES) / mine[of])
    return found


def rates(results: list[Result]) -> dict[str, list[float]]:
    """Bytes per busy second of ACE over those of each baseline, by workload and torus. What exactly the published ratio
    divides is not known to us, so all three are shown."""
    ace = {(r.workload, r.torus): r.rate for r in results if r.endpoint == "ace"}
    return {b: [ace[r.workload, r.torus] / r.rate for r in results if r.endpoint == b] for b in BASELINES}


# --- memory traffic ------------------------------------------------------------------------------------------------


def memory_rows() -> list[tuple[str, float, float, float, float, float, float]]:
    """Torus; sent, read per buffer byte; GB/s of memory, driven in memory and by an engine; ratio of reads, of both."""
    rows = []
    for t in TORI:
        c = counting.traffic("all_reduce", t, "four_phase")
        need = [
            float(counting.needed_bandwidth("all_reduce", t, LINKS, "four_phase", engine=e)) / 1e9
            for e in (False, True)
        ]
        rows.append((" x ".join(map(str, t)), c.sent, c.reads, *need, c.reads_saved, c.saved))
    return rows


# --- the engine -----------------------------------------------------------------------------------------------------


def engine_rate(changes: dict[str, Any], torus: tuple[int, int, int] = (4, 4, 4)) -> tuple[float, str]:
    """Buffer bytes per second of a large all-reduce driven by a changed ACE, and what limits it."""
    which = endpoint("ace").model_copy(update=changes)
    d = design("ResNet-50", torus)
    machine = machine_of(d.program, with_endpoint(d.system, which))
    ranks = d.layout.ranks
    blocks = np.full(ranks, 256 * 2**20 / 4 / ranks)
    layout = Layout(d.layout.nodes, d.layout.local_size)
    work = Collective("all_reduce", "world", "hierarchical", blocks, "fp32", layout)
    found = driven(work, machine, which)
    time = float(np.max(np.asarray(found.breakdown.total)))
    added = float(np.max(np.asarray(found.breakdown.parts.get("endpoint", 0.0))))
    worst = max(found.limits, key=lambda k: float(np.max(np.asarray(found.limits[k]))))
    return 256 * 2**20 / time, worst if added > 0 else "network"


MiB = 2.0**20
ASKED: dict[str, dict[str, Any]] = {
    "as assumed: 4 MiB, 16 machines, 128 GB/s": {},
    "2 MiB, 8 machines, 64 GB/s": {"sram": 2 * MiB, "state_machines": 8, "dma_bandwidth": 64e9},
    "2 MiB": {"sram": 2 * MiB},
    "8 machines": {"state_machines": 8},
    "64 GB/s": {"dma_bandwidth": 64e9},
    "1 ALU": {"alus": 1},
    "32 machines, 256 GB/s": {"state_machines": 32, "dma_bandwidth": 256e9},
}


def engine_grid() -> tuple[list[int], list[float], np.ndarray[Any, Any]]:
    """State machines, SRAM in MiB, GB/s of buffer through a 4 x 4 x 4 torus with DMA that does not limit."""
    machines, srams = [1, 2, 4, 8, 12, 16, 24, 32], [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    rate = [
        [engine_rate({"state_machines": m, "sram": s * MiB, "dma_bandwidth": 500e9})[0] / 1e9 for m in machines]
        for s in srams
    ]
    return machines, srams, np.array(rate)


# --- sensitivity ----------------------------------------------------------------------------------------------------


def _link(share: float) -> Any:
    def change(system: System) -> System:
        out: Any = system.scale_out
        inner: Any = system.node.scale_up
        slower = out.model_copy(update={"link_bandwidth": tuple(b * share for b in out.link_bandwidth)})
        node = system.node.model_copy(
            update={"scale_up": inner.model_copy(update={"link_bandwidth": inner.link_bandwidth * share})}
        )
        return system.model_copy(update={"scale_out": slower, "node": node})

    return change


def _all(field: dict[str, Any]) -> dict[str, Endpoint]:
    found: dict[str, Endpoint] = {}
    for name in ENDPOINT_FILES:
        e = endpoint(name)
        found[name] = e.model_copy(update={k: v for k, v in field.items() if k in type(e).model_fields})
    return found


def sensitivities(torus: tuple[int, int, int] = (4, 4, 4)) -> dict[str, dict[str, float]]:
    """Speed-up over the best baseline on one torus, with one assumption changed at a time."""
    cases: dict[str, dict[str, Any]] = {
        "as assumed": {},
        "kernels 2 x faster": {"compute": 0.5},
        "kernels 4 x faster": {"compute": 0.25},
        "kernels 8 x faster": {"compute": 0.125},
        "as fast as the public list of layers (one image)": {"compute": "listed"},
        "kernels at the roofline of what is left": {"kernels": "roofline"},
        "the array of the public list, batch as assumed": {"kernels": "array"},
        "the array of the public list, its batch": {"kernels": "array", "samples": {"ResNet-50": 1}},
        "an eighth of the batch": {"batch": 1 / 8},
        "links 2 x slower": {"change": _link(0.5)},
        "writes take memory bandwidth too": {"endpoints": _all({"counts": "reads_and_writes"})},
        "cores and bandwidth given up only while sending": {"endpoints": _all({"always": False})},
    }
    found: dict[str, dict[str, float]] = {}
    for name, case in cases.items():
        found[name] = {}
        for w, (_, samples) in WORKLOADS.items():
            compute: Any = case.get("compute", 1.0)
            if compute == "listed":
                if w not in LISTED_COMPUTE:
                    continue
                compute = LISTED_COMPUTE[w] / compute_seconds(w, torus)
            if "samples" in case and w not in case["samples"]:
                continue
            per_rank = max(int(samples * case["batch"]), 1) if "batch" in case else case.get("samples", {}).get(w)
            ends = case.get("endpoints", {})
            results = [
                run(
                    w,
                    torus,
                    e,
                    ends.get(e),
                    compute=compute,
                    per_rank=per_rank,
                    change=case.get("change"),
                    kernels=case.get("kernels", "gpu"),
                )
                for e in (*BASELINES, "ace")
            ]
            found[name][w] = speed_ups(results)[w][0]
    return found


FACTORS = np.geomspace(1 / 4, 64, 33)
"""What an assumption is multiplied or divided by, to see whether it alone can give the published mean."""
KNOBS = {
    "kernels faster": "faster",
    "gradients of more bytes": "bytes",
    "kernels that move more bytes": "hungry",
    "links slower": "links",
    "latencies longer": "late",
    "compute-optimised endpoint weaker": "weak",
}


def _scaled(part: Any, by: Any, *fields: str) -> Any:
    """A component with those of its fields that it has times `by`."""
    known = {name: getattr(part, name, None) for name in fields}
    return part.model_copy(update={n: np.asarray(v) * by for n, v in known.items() if v is not None})


def _endpoint(system: System, by: Any, *fields: str) -> System:
    return with_endpoint(system, _scaled(system.node.endpoint, by, *fields))


def _memory(system: System, by: Any) -> System:
    gpu: Any = system.gpu
    slower = gpu.model_copy(update={"hbm": _scaled(gpu.hbm, by, "bandwidth")})
    return system.model_copy(update={"node": system.node.model_copy(update={"gpu": slower})})


def _latencies(system: System, by: Any) -> System:
    inner = _scaled(system.node.scale_up, by, "link_latency")
    outer: Any = system.scale_out
    late = tuple(x * by for x in np.broadcast_to(outer.link_latencies, 2).tolist())
    node = system.node.model_copy(update={"scale_up": inner})
    return system.model_copy(update={"node": node, "scale_out": outer.model_copy(update={"link_latencies": late})})


def two_iterations(w: str, torus: tuple[int, int, int], name: str, by: dict[str, Any]) -> Any:
    """Seconds of one of two iterations over all points of `by`: factors (points, 1) of `KNOBS`.

    More bytes of gradients slow all that moves them: links, memory, engine. Kernels that move more bytes have a slower
    memory, of which endpoints keep their part."""
    plan = "layers_no_overlap" if name == "no_overlap" else "layers_lifo"
    d = design(w, torus, plan)
    kernels = wires = with_endpoint(d.system, endpoint(name))
    if (k := by.get("hungry")) is not None:
        kernels = _endpoint(_memory(kernels, 1 / k), 1 / k, "memory_bandwidth", "dma_bandwidth")
    if (k := by.get("bytes")) is not None:
        drive = ("memory_bandwidth", "copy_width", "bus_bandwidth", "dma_bandwidth", "alu_width")
        wires = _endpoint(_memory(_link(1 / k)(wires), 1 / k), 1 / k, *drive)
    if (k := by.get("links")) is not None:
        wires = _link(1 / k)(wires)
    if (k := by.get("late")) is not None:
        wires = _latencies(wires, k)
    if (k := by.get("weak")) is not None and name == "compute_optimised":
        wires = _endpoint(wires, 1 / k, "memory_bandwidth", "copy_width")
    faster = by.get("faster", 1.0)
    computing, moving = shares(d.program, kernels), shares(d.program, wires)
    alone = [
        x / faster if "compute" in op.streams else y
        for op, x, y in zip(d.program.ops, computing.alone, moving.alone, strict=True)
    ]
    points = max(len(k) for k in by.values())
    shared = replace(computing, alone=tuple(alone)).over((points,))
    return simulate_points(d.program, shared, plan == "layers_lifo", iterations=2).period


def speed_up_over(w: str, by: dict[str, Any], torus: tuple[int, int, int] = (4, 4, 4)) -> Any:
    """Iteration time of the best baseline over that of ACE, at every point of `by`."""
    best = np.min([two_iterations(w, torus, b, by) for b in BASELINES], axis=0)
    return best / two_iterations(w, torus, "ace", by)


@dataclass(frozen=True)
class Needed:
    """What gives the published mean. `knobs`: by `KNOBS`, the factor nearest to 1 that does (None: none between a
    quarter and 64) and the largest speed-up with its factor. `both`: factors of bytes of gradients and of kernels that
    do together, nearest to 1; `curve`: speed-up at `FACTORS` of faster kernels."""

    knobs: dict[str, tuple[float | None, float, float]]
    both: tuple[float, float] | None
    curve: list[float]


def needed(w: str) -> Needed:
    """Which assumption, alone, would give the published mean on 4 x 4 x 4, and how far it would have to be off."""
    wanted = PUBLISHED[w][0]
    knobs, curve = {}, []
    for name, knob in KNOBS.items():
        ups = speed_up_over(w, {knob: FACTORS[:, None]})
        curve = ups.tolist() if knob == "faster" else curve
        best = int(np.argmax(ups))
        knobs[name] = (_nearest(FACTORS, ups, wanted), float(ups[best]), float(FACTORS[best]))
    each = np.geomspace(1, 16, 21)
    a, b = (x.reshape(-1, 1) for x in np.meshgrid(each, each, indexing="ij"))
    reached = speed_up_over(w, {"bytes": a, "hungry": b}) >= wanted
    far = np.where(reached, (np.log(a) + np.log(b))[:, 0], np.inf)
    first = int(np.argmin(far))
    return Needed(knobs, (float(a[first, 0]), float(b[first, 0])) if reached.any() else None, curve)


def _nearest(factors: Any, ups: Any, wanted: float) -> float | None:
    """Where a curve crosses `wanted`, nearest to a factor of 1; between points linear in the logarithm."""
    found = []
    for i in np.flatnonzero((ups[:-1] < wanted) != (ups[1:] < wanted)):
        part = (wanted - ups[i]) / (ups[i + 1] - ups[i])
        found.append(float(np.log(factors[i]) + part * np.log(factors[i + 1] / factors[i])))
    return float(np.exp(min(found, key=abs))) if found else None


def compute_seconds(workload: str, torus: tuple[int, int, int]) -> float:
    """Seconds of forward and backward kernels, alone on the device."""
    d = design(workload, torus)
    shared = shares(d.program, with_endpoint(d.system, endpoint("ideal")))
    pairs = zip(d.program.ops, shared.alone, strict=True)
    return sum(float(np.max(a)) for op, a in pairs if "compute" in op.streams and op.phase != "update")


# --- the page -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """All that the page shows: every run, sensitivities, and what each assumption would have to be."""

    results: list[Result]
    sensitivity: dict[str, dict[str, float]]
    wanting: dict[str, Needed]


def mean(values: Sequence[float]) -> float:
    """Of some figures."""
    return float(np.mean(values))


def words(name: str) -> str:
    """An endpoint by name."""
    return name.replace("_", " ")


def memory_means() -> dict[str, float]:
    """Reads, or reads and writes, that kernels need over those of the engine, by what is counted; mean of the tori."""
    rows = memory_rows()
    return {
        "each phase a kernel of its own": mean([r[5] for r in rows]),
        "phases fused: 1.5 reads for each byte sent": mean([1.5 * r[1] for r in rows]),
        "reads and writes, each phase a kernel": mean([r[6] for r in rows]),
    }


def memory_section() -> Section:
    """Memory traffic of a driven all-reduce."""
    given = np.linspace(10e9, 900e9, 60)
    series = {}
    for name, engine in (("kernels in memory", False), ("engine", True)):
        t = counting.traffic("all_reduce", (4, 4, 4), "four_phase")
        ideal = float(counting.in_step("all_reduce", (4, 4, 4), LINKS, "four_phase"))
        rate = np.minimum(given / (t.engine_reads if engine else t.reads), ideal) * t.sent
        series[name] = (given.tolist(), rate.tolist())
    base, engine_needs = (next(r for r in memory_rows() if r[0] == "4 x 4 x 4")[k] for k in (3, 4))
    figure = curves(
        "drive", "Memory bandwidth and what it drives on 4 x 4 x 4",
        f"Kernels need {base:.0f} GB/s of memory to keep all links busy, the engine {engine_needs:.0f}.",
        series, si_axis("B/s", "memory bandwidth for communication"), si_axis("B/s", "sent"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            t,
            count(sent),
            count(read),
            quantity(1e9 * a, "bandwidth"),
            quantity(1e9 * b, "bandwidth"),
            count(x),
            count(y),
        ]
        for t, sent, read, a, b, x, y in memory_rows()
    ]
    columns = [
        ("torus", ""), ("sent per byte", "number"), ("read per byte", "number"), ("kernels need", "B/s"),
        ("engine needs", "B/s"), ("reads, times", "number"), ("reads and writes, times", "number"),
    ]  # fmt: skip
    means: list[list[Cell]] = [
        [name, count(x), share(x / PUBLISHED_MEMORY - 1, 1, signed=True)] for name, x in memory_means().items()
    ]
    counted = [("what is counted", ""), ("mean, times", "number"), ("against published", "fraction")]
    tables = Table("memory-rows", columns, rows), Table("memory-means", counted, means, "Mean over the tori")
    return section("memory", "Memory of an all-reduce", figure, *tables)


def time_figure(results: list[Result], workload: str) -> Figure:
    """Iteration time by torus and endpoint."""
    by = {(r.torus, r.endpoint): r for r in results if r.workload == workload}
    tori = list(dict.fromkeys(torus for torus, _ in by))
    series = {words(e): [by[t, e].two for t in tori] for e in ENDPOINT_FILES}
    names = [f"{int(np.prod(t))} accelerators" for t in tori]
    ups = speed_ups([r for r in results if r.workload == workload])[workload]
    said = f"The best baseline takes {mean(ups):.3f} times as long as ACE on average, {max(ups):.3f} at most."
    return bars(f"time-{workload.lower()}", workload, said, names, series, seconds_axis("one of two iterations"))


def share_figure(results: list[Result], name: str, title: str, of: Callable[[Result], float], said: str) -> Figure:
    """A share of every run, by workload, torus and endpoint."""
    cases = list(dict.fromkeys((r.workload, r.torus) for r in results))
    by = {(r.workload, r.torus, r.endpoint): 100 * of(r) for r in results}
    series = {words(e): [by[w, t, e] for w, t in cases] for e in ENDPOINT_FILES}
    return bars(name, title, said, [f"{w} {int(np.prod(t))}" for w, t in cases], series, {"ticksuffix": " %"})


def network_sections(results: list[Result]) -> list[Section]:
    """What waits for the network, and how much of it is used."""
    worst = max(results, key=lambda r: r.exposed / r.period)
    said = (
        f"Most is exposed by {words(worst.endpoint)} for {worst.workload} on {int(np.prod(worst.torus))}: "
        f"{worst.exposed / worst.period:.0%} of the iteration."
    )
    most = max(results, key=lambda r: r.used)
    top = (
        f"Links carry at most {most.used:.0%} of their 500 GB/s while they are busy ({words(most.endpoint)}, "
        f"{most.workload})."
    )
    rows: list[list[Cell]] = [[words(b), count(mean(got)), count(max(got))] for b, got in rates(results).items()]
    rows.append(["all three together", count(mean([x for got in rates(results).values() for x in got])), ("", None)])
    columns = [("over", ""), ("mean", "number"), ("largest", "number")]
    exposed = share_figure(results, "exposed", "Exposed communication", lambda r: r.exposed / r.period, said)
    used = share_figure(results, "used", "Bandwidth of the links while busy", lambda r: r.used, top)
    table = Table("rates", columns, rows, "Bytes per second of a busy network, ACE over a baseline")
    return [section("network", "The network", exposed, used, beside=True), section("over", "", table)]


def engine_section() -> Section:
    """Where the engine saturates."""
    machines, srams, grid = engine_grid()
    full = float(grid.max())
    enough = next((m, s) for m in range(len(machines)) for s in range(len(srams)) if grid[s, m] >= 0.999 * full)
    trace = {
        "type": "heatmap", "x": [str(m) for m in machines], "y": [f"{s:g} MiB" for s in srams], "z": grid,
        "texttemplate": "%{z:.0f}", "colorscale": palette.SEQUENTIAL, "colorbar": {"title": {"text": "GB/s"}},
        "hovertemplate": "%{x} state machines, %{y}: %{z:.1f} GB/s<extra></extra>",
    }  # fmt: skip
    layout = {"xaxis": {"type": "category", "title": {"text": "state machines"}},
              "yaxis": {"type": "category", "title": {"text": "SRAM"}}}  # fmt: skip
    said = (
        f"{machines[enough[0]]} state machines and {srams[enough[1]]:g} MiB are the least that carry "
        f"{full:.0f} GB/s of buffer through 4 x 4 x 4; more buys nothing."
    )
    figure = Figure("engine", "Buffer through the engine, DMA not limiting", said, [trace], layout, height=320)
    rows: list[list[Cell]] = []
    for name, changes in ASKED.items():
        rate, limit = engine_rate(changes)
        rows.append([name, quantity(rate, "bandwidth"), words(limit)])
    return section("saturates", "Where the engine saturates", figure,
                   Table("asked", [("engine", ""), ("buffer", "B/s"), ("limited by", "")], rows))  # fmt: skip


def rests_section(runs: Runs) -> Section:
    """What the speed-up rests on."""
    names = list(runs.sensitivity)
    series = {w: [runs.sensitivity[n].get(w, float("nan")) for n in names] for w in WORKLOADS}
    high = {w: max((case[w], n) for n, case in runs.sensitivity.items() if w in case) for w in WORKLOADS}
    said = "Most, by one assumption changed: " + "; ".join(f"{w} {x:.2f} ({n})" for w, (x, n) in high.items()) + "."
    figure = bars("rests", "Best baseline over ACE on 4 x 4 x 4", said, names, series, {"title": {"text": "times"}},
                  marks={"equal": 1.0})  # fmt: skip
    most = {w: need.knobs["kernels faster"] for w, need in runs.wanting.items()}
    any_speed = "; ".join(f"{w} at most {up:.3f}, {at:.3g} times as fast" for w, (_, up, at) in most.items())
    lines = curves(
        "speeds", "At any speed of kernels, 4 x 4 x 4", f"{any_speed}.",
        {w: (FACTORS.tolist(), need.curve) for w, need in runs.wanting.items()},
        {"type": "log", "title": {"text": "kernels faster than assumed, times"}},
        {"title": {"text": "best baseline over ACE"}},
        marks={f"published mean, {w}": PUBLISHED[w][0] for w in WORKLOADS},
    )  # fmt: skip
    alone: list[list[Cell]] = [
        [knob, *(cell for w in runs.wanting for cell in _alone(runs.wanting[w].knobs[knob]))] for knob in KNOBS
    ]
    heads = [(f"{w}: {what}", "number") for w in runs.wanting for what in ("needs, times", "most it gives")]
    rows: list[list[Cell]] = [
        [n, *(count(case[w]) if w in case else ("", None) for w in WORKLOADS)] for n, case in runs.sensitivity.items()
    ]
    columns = [("assumption", ""), *((w, "number") for w in WORKLOADS)]
    title = "What one assumption alone would have to be for the published mean, on 4 x 4 x 4"
    needs = Table("needed", [("assumption", ""), *heads], alone, title)
    return section("rests-on", "What the speed-up rests on", figure, Table("cases", columns, rows), lines, needs)


def _alone(found: tuple[float | None, float, float]) -> list[Cell]:
    """The factor that does it, if any, and the largest speed-up."""
    factor, most, _ = found
    return [("none does", None) if factor is None else count(factor), count(most)]


def _explained(wanting: dict[str, Needed]) -> str:
    """Which assumption alone would give the published mean of each workload; else which two together."""
    said = []
    for w, need in wanting.items():
        enough = [f"{name} ({factor:.2f} times)" for name, (factor, *_) in need.knobs.items() if factor is not None]
        if enough:
            said.append(f"For {w} one assumption would do: {', or '.join(enough)}.")
            continue
        both = need.both
        pair = (
            f"; gradients of {both[0]:.1f} times the bytes with kernels that move {both[1]:.1f} times do"
            if both
            else ""
        )
        said.append(f"For {w} no single one of {len(need.knobs)} does, from a quarter to 64 times{pair}.")
    return " ".join(said)


def claims(runs: Runs) -> list[Claim]:
    """What was published, what comes out, and why."""
    ups, bounds = speed_ups(runs.results), speed_ups(runs.results, of="ideal")
    steady = speed_ups(runs.results, measure="period")
    found = rates(runs.results)
    reads = memory_means()
    return [
        Claim(
            f"{PUBLISHED_MEMORY} times less memory bandwidth on average for an all-reduce (abstract of arXiv "
            "2007.00156).",
            "; ".join(f"{x:.2f} times ({name})" for name, x in reads.items()) + ".",
            "Counted from the algorithm of four phases alone, so it agrees or not by what is counted as a read.",
        ),
        Claim(
            "Iterations of the best baseline over those of ACE, mean (largest): "
            + "; ".join(f"{w} {x} ({y})" for w, (x, y) in PUBLISHED.items()) + ".",
            "; ".join(
                f"{w} {mean(x):.3f} ({max(x):.3f}; in steady state {mean(steady[w]):.3f})" for w, x in ups.items()
            ) + ".",
            "A bound says why: even an ideal endpoint reaches only "
            + ", ".join(f"{mean(x):.2f}" for x in bounds.values())
            + ", for with the assumed batches communication is small beside compute. The public list of ResNet-50's "
            f"layers is of one image on a systolic array of 256 x 256. {_explained(runs.wanting)} The machine is "
            "assumed: of the paper only the abstract could be had.",
        ),
        Claim(
            "Network bandwidth used, over baselines that the abstract does not name: "
            f"{PUBLISHED_UTILISATION[0]} times in the mean, {PUBLISHED_UTILISATION[1]} at most.",
            "; ".join(f"{mean(x):.2f} ({max(x):.2f}) over {words(b)}" for b, x in found.items())
            + f"; {mean([x for got in found.values() for x in got]):.2f} over all three.",
            "What exactly the published ratio divides is not known to us, so all three baselines are shown.",
        ),
    ]  # fmt: skip


def study(runs: Runs) -> Study:
    """The page of some runs."""
    ups = {w: mean(x) for w, x in speed_ups(runs.results).items()}
    said = ", ".join(f"{w} {x:.2f} (published {PUBLISHED[w][0]})" for w, x in ups.items())
    rows: list[list[Cell]] = [
        [
            r.workload, count(int(np.prod(r.torus))), words(r.endpoint), quantity(r.two, "seconds"),
            quantity(r.period, "seconds"), quantity(r.exposed, "seconds"), quantity(r.rate, "bandwidth"), share(r.used),
        ]
        for r in runs.results
    ]  # fmt: skip
    columns = [
        ("workload", ""), ("accelerators", "number"), ("endpoint", ""), ("one of two iterations", "s"),
        ("steady state", "s"), ("exposed", "s"), ("sent while busy", "B/s"), ("of the links", "fraction"),
    ]  # fmt: skip
    return Study(
        "Who drives the network, and what it costs the compute",
        f"ACE over the best baseline, mean: {said}.",
        claims(runs),
        [
            section("times", "Iteration time", *(time_figure(runs.results, w) for w in WORKLOADS), beside=True),
            section("runs", "Every run", Table("all-runs", columns, rows, page=5)),
            *network_sections(runs.results),
            memory_section(),
            engine_section(),
            rests_section(runs),
        ],
    )


def build() -> Study:
    """The whole study."""
    return study(Runs(everything(), sensitivities(), {w: needed(w) for w in WORKLOADS}))


def command(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "ace", arguments)


if __name__ == "__main__":
    sys.exit(command())
