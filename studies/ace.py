"""What drives the network of a training machine, and what that costs its compute: a study after ACE (ISCA 2021).

    python studies/ace.py [-o ace.html]

16 to 128 accelerators on a 3D torus, five endpoints, three workloads. The page has the memory traffic that each way to
drive an all-reduce needs, iteration times, what of the links is used, where the engine saturates, and how much of every
result rests on which assumption. The machine is assumed throughout (see designs/systems/torus3d_*.yaml); nothing here
was tuned to published figures, which stand beside the results.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from _page import head
from pydantic import RootModel

from archmodel import catalogue, source
from archmodel.collectives import endpoint_traffic as counting
from archmodel.components.endpoint import ENDPOINTS, Endpoint
from archmodel.components.endpoints import Ace
from archmodel.design import Design, load
from archmodel.estimate.contention import machine_of, shares
from archmodel.estimate.driving import driven
from archmodel.estimate.sharing import SharedTimeline, simulate
from archmodel.estimate.sharing_points import simulate_points
from archmodel.program import AllToAll, Collective, Convolution, Gemm, Layout, Products
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


# --- report ---------------------------------------------------------------------------------------------------------


def report(
    results: list[Result], sensitivity: dict[str, dict[str, float]], wanting: dict[str, Needed] | None = None
) -> str:
    """The study in lines of text."""
    lines = ["memory that an all-reduce needs, links busy (four phases; published: 3.5 x less on average)"]
    rows = memory_rows()
    for name, sent, read, base, engine, ratio, both in rows:
        lines.append(
            f"  {name:10} sent {sent:.3f} read {read:.3f} per byte · {base:5.0f} against {engine:5.0f} GB/s"
            f" · reads {ratio:.2f} x, reads and writes {both:.2f} x"
        )
    for reading, mean in (
        ("each phase a kernel of its own", float(np.mean([r[5] for r in rows]))),
        ("phases fused: 1.5 reads for each byte sent", float(np.mean([1.5 * r[1] for r in rows]))),
        ("reads and writes, each phase a kernel", float(np.mean([r[6] for r in rows]))),
    ):
        lines.append(f"  mean {mean:.2f} x ({mean / PUBLISHED_MEMORY - 1:+.1%} against published), {reading}")
    lines.append("iteration time of the best baseline over that of ACE, two iterations (published mean, largest)")
    for w, ups in speed_ups(results).items():
        steady = speed_ups(results, measure="period")[w]
        bound = speed_ups(results, of="ideal")[w]
        lines.append(
            f"  {w:10} mean {np.mean(ups):.3f} largest {max(ups):.3f} (published {PUBLISHED[w][0]}, {PUBLISHED[w][1]})"
            f" · steady state {np.mean(steady):.3f} · an ideal endpoint {np.mean(bound):.3f}"
        )
    mean, largest = PUBLISHED_UTILISATION
    lines.append(f"bytes per second of a busy network, ACE over a baseline (published mean {mean}, largest {largest})")
    found = rates(results)
    for name, got in found.items():
        lines.append(f"  {name:24} mean {np.mean(got):.2f} largest {max(got):.2f}")
    lines.append(f"  {'all three together':24} mean {np.mean([x for got in found.values() for x in got]):.2f}")
    lines.append("ACE on 4 x 4 x 4: buffer bytes per second of a large all-reduce, and what limits it")
    for name, changes in ASKED.items():
        rate, limit = engine_rate(changes)
        lines.append(f"  {name:42} {rate / 1e9:6.1f} GB/s  {limit}")
    lines.append("speed-up over the best baseline on 4 x 4 x 4 with one assumption changed")
    for name, case in sensitivity.items():
        lines.append(f"  {name:50} " + "  ".join(f"{w} {x:.3f}" for w, x in case.items()))
    for w, need in (wanting or {}).items():
        lines.append(f"what alone would give the published mean of {w}, {PUBLISHED[w][0]}, on 4 x 4 x 4")
        for name, (factor, most, at) in need.knobs.items():
            said = f"{factor:.2f} x" if factor else "nothing"
            lines.append(f"  {name:36} {said:8}  (largest {most:.3f}, at {at:.2f} x)")
        if need.both:
            lines.append(
                f"  together: gradients of {need.both[0]:.1f} x the bytes, kernels that move {need.both[1]:.1f} x"
            )
    return "\n".join(lines)


def page(
    results: list[Result], sensitivity: dict[str, dict[str, float]], wanting: dict[str, Needed] | None = None
) -> str:
    """The study as an HTML page."""
    import plotly.graph_objects as go

    figures: list[tuple[str, Any]] = []
    for w in WORKLOADS:
        figure = go.Figure()
        for e in ENDPOINT_FILES:
            mine = [r for r in results if (r.workload, r.endpoint) == (w, e)]
            x = [int(np.prod(r.torus)) for r in mine]
            text = [f"exposed {1e3 * r.exposed:.2f} ms, links {r.used:.0%} busy" for r in mine]
            figure.add_bar(
                x=[str(n) for n in x], y=[1e3 * r.two for r in mine], name=e.replace("_", " "), hovertext=text
            )
        figure.update_layout(xaxis_title="accelerators", yaxis_title="ms of one of two iterations", barmode="group")
        figures.append((f"{w}: iteration time", figure))
    exposed, used = go.Figure(), go.Figure()
    for e in ENDPOINT_FILES:
        mine = [r for r in results if r.endpoint == e]
        x = [f"{r.workload} {int(np.prod(r.torus))}" for r in mine]
        exposed.add_bar(x=x, y=[r.exposed / r.period for r in mine], name=e.replace("_", " "))
        used.add_bar(x=x, y=[r.used for r in mine], name=e.replace("_", " "))
    exposed.update_layout(yaxis_title="share of an iteration that compute waits", yaxis_tickformat=".0%")
    used.update_layout(yaxis_title="share of the links' 500 GB/s while busy", yaxis_tickformat=".0%")
    figures += [("Exposed communication", exposed), ("Network bandwidth used", used)]
    drive = go.Figure()
    given = np.linspace(10e9, 900e9, 200)
    for name, engine in (("kernels in memory", False), ("engine", True)):
        t = counting.traffic("all_reduce", (4, 4, 4), "four_phase")
        ideal = float(counting.in_step("all_reduce", (4, 4, 4), LINKS, "four_phase"))
        rate = np.minimum(given / (t.engine_reads if engine else t.reads), ideal) * t.sent
        drive.add_scatter(x=given / 1e9, y=rate / 1e9, name=name)
    drive.update_layout(xaxis_title="GB/s of memory for communication", yaxis_title="GB/s sent, 4 x 4 x 4")
    figures.append(("Memory bandwidth and what it drives", drive))
    machines, srams, grid = engine_grid()
    figures.append(("Where the engine saturates (GB/s of buffer, DMA not limiting)", go.Figure(
        go.Heatmap(x=[str(m) for m in machines], y=[f"{s:g} MiB" for s in srams], z=grid, texttemplate="%{z:.0f}")
    ).update_layout(xaxis_title="state machines", yaxis_title="SRAM")))  # fmt: skip
    bars = go.Figure()
    for w in WORKLOADS:
        names = [name for name, case in sensitivity.items() if w in case]
        bars.add_bar(x=[sensitivity[n][w] for n in names], y=names, orientation="h", name=w)
    bars.update_layout(xaxis_title="best baseline / ACE, 4 x 4 x 4", barmode="group", height=700)
    figures.append(("What the speed-up rests on", bars))
    if wanting:
        lines = go.Figure()
        for w, need in wanting.items():
            lines.add_scatter(x=FACTORS, y=need.curve, name=w)
            lines.add_hline(y=PUBLISHED[w][0], line_dash="dot", annotation_text=f"published, {w}")
        lines.update_layout(
            xaxis_title="kernels faster than assumed, times", xaxis_type="log", yaxis_title="best baseline / ACE"
        )
        figures.append(("The speed-up at any speed of kernels, 4 x 4 x 4", lines))
    parts = [
        f"<h2>{title}</h2>" + figure.to_html(full_html=False, include_plotlyjs=not i, div_id=f"figure-{i}")
        for i, (title, figure) in enumerate(figures)
    ]
    text = report(results, sensitivity, wanting).replace("&", "&amp;").replace("<", "&lt;")
    ups = {w: float(np.mean(x)) for w, x in speed_ups(results).items()}
    said = "ACE over the best baseline, mean: " + ", ".join(
        f"{w} {x:.2f} (published {PUBLISHED[w][0]})" for w, x in ups.items()
    )
    return (
        f"{head('Who drives the network, and what it costs the compute', f'{said}.')}<pre>{text}</pre>{''.join(parts)}"
    )


def main() -> None:
    """Run the study and write its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("ace.html"), help="HTML page to write")
    arguments = parser.parse_args()
    assert isinstance(endpoint("ace"), Ace)
    results, sensitivity = everything(), sensitivities()
    wanting = {w: needed(w) for w in WORKLOADS}
    print(report(results, sensitivity, wanting))
    arguments.output.write_text(page(results, sensitivity, wanting), encoding="utf-8")
    print(f"written: {arguments.output}")


if __name__ == "__main__":
    main()
