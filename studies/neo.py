"""Neo on ZionEX (arXiv 2104.05158): scaling, sharding, precision on the wire, caches, 12T parameters, CPU servers.

    python studies/neo.py [-o neo.html]

Published figures stand beside predictions, each with what is known of it; nothing was tuned to them here. Three things
that the paper does not give decide most of the answer, and the page says so: how many tables model A has, how many
CPU servers "existing systems" had, and which of the 40x is algorithm, memory or machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _page import Claim, Study, main, section

import archmodel as am
from archmodel.design import Design
from archmodel.estimate.result import Estimate
from archmodel.quantities import show
from archmodel.report.html.charts import bars, curves
from archmodel.report.html.figure import Figure, seconds_axis, si_axis
from archmodel.report.html.stack import pieces
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.search.limits import Limits, TableLimit
from archmodel.search.planner import written

HERE = Path(__file__).parent / "neo"
GPUS = (8, 16, 32, 64, 128, 256, 512)
LOCAL_BATCH = 512
"""Samples of one GPU: 64K over 128 GPUs (Neo)."""
PUBLISHED_A = 1.2e6
"""Samples/s of model A on 128 GPUs: remembered from Neo, not checked against the paper."""
MADMAX = {8: 0.14e6, 128: 1.21e6}
"""What another model, MAD-Max (arXiv 2310.02784), predicts for model A: its notebook's output, paper figure 7."""
SPEED_UP = 40.0
"""Neo's abstract: up to 40x over existing systems, which are training on CPU parameter servers."""
PUBLISHED_BYTES = {"fp32, Adagrad": 96e12, "fp16, row-wise Adagrad": 24e12}
"""Bytes of model F in the naive form and as trained: remembered, but its arithmetic holds: 12e12 x 4 x 2, 12e12 x 2."""
HBM_PARTS = (0.85, 0.75, 0.65, 0.55)
"""Parts of HBM that tables may fill, tried in turn."""
SERVERS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
KINDS: dict[str, tuple[str, ...]] = {
    "table-wise": ("table_wise",),
    "+ column-wise": ("table_wise", "column_wise"),
    "+ row-wise": ("table_wise", "column_wise", "row_wise"),
    "+ rows in a node, grids, copies": (
        "table_wise",
        "column_wise",
        "row_wise",
        "table_row_wise",
        "grid_wise",
        "data_parallel",
    ),
}
"""What the planner may use, wider step by step."""
STORED = {"dtype": "fp16", "optimizer": "rowwise_adagrad"}


@cache
def design(model: str) -> Design:
    """Model A or F on 16 nodes as catalogued."""
    return am.load(f"neo_{model}_zionex_16x8.yaml")


def sized(model: str, gpus: int, batch: int | None = None, **plan: Any) -> Design:
    """A model on so many GPUs, 512 samples each unless said otherwise."""
    changes: dict[str, Any] = {"system.nodes": gpus // 8, "workload.global_batch": batch or LOCAL_BATCH * gpus}
    return design(model).with_({**changes, **{f"plan.{k}": v for k, v in plan.items()}})


# --- scaling ----------------------------------------------------------------------------------------------------


@cache
def scaling(model: str, gpus: tuple[int, ...] = GPUS, batch: int | None = None) -> dict[int, Estimate]:
    """Estimates by number of GPUs. Where the automatic placement leaves too little HBM to activations, every so manieth
    table goes to host memory instead; sizes that hold the model in no such way are left out."""
    found = {}
    for n in gpus:
        here = sized(model, n, batch)
        tried = (am.estimate(d) for d in (here, *(spilt(here, part) for part in HBM_PARTS)))
        answer = next((e for e in tried if e.fits), None)
        if answer is not None:
            found[n] = answer
    return found


def spilt(base: Design, part: float) -> Design:
    """The design with tables in HBM up to `part` of it, evenly chosen by their order, and the others in host memory."""
    tables = base.workload.table_arrays
    kind = str(base.plan.tables.default.sharding)
    size = float(tables.num_embeddings @ tables.embedding_dim) * 2.0
    room = part * base.layout.ranks * float(np.asarray(base.system.gpu.memory.capacity))
    away = max(1.0 - room / size, 0.0)
    steps = np.floor(np.arange(len(tables) + 1) * away)
    assign = {
        name: {"sharding": kind if kind != "auto" else "table_wise", "tier": "ddr" if gone else "hbm", **STORED}
        for name, gone in zip(tables.names, np.diff(steps) > 0, strict=True)
    }
    return with_assigned(base, assign)


def scaling_figures() -> list[Figure | Table]:
    """Throughput over GPUs, and what the iteration is made of."""
    a, f, strong = scaling("a"), scaling("f"), scaling("a", (64, 128, 256, 512), 65536)
    most, least = max(a), min(n for n in a if "ddr" not in tiers(a[n]))
    kept = a[most].throughput / most / (a[least].throughput / least)
    below = f"; below {least} its tables spill into host memory" if min(a) < least else ""
    series = {
        f"model A, {LOCAL_BATCH} samples a GPU": (list(a), [e.throughput for e in a.values()]),
        "model A, 65,536 samples in all": (list(strong), [e.throughput for e in strong.values()]),
        f"model F, {LOCAL_BATCH} samples a GPU": (list(f), [e.throughput for e in f.values()]),
    }
    x = {"type": "log", "tickvals": list(GPUS), "ticktext": [str(n) for n in GPUS], "title": {"text": "GPUs"}}
    figure = curves(
        "scaling", "Throughput over GPUs",
        f"From {least} to {most} GPUs model A keeps {kept:.0%} of its throughput per GPU{below}. Model F starts at "
        f"{min(f)}: none of the smaller sizes holds its 24 TB.",
        series, x, {"type": "log", **si_axis("/s", "samples per second"), "dtick": 1},
        points={
            "Neo, model A (remembered)": ([128], [PUBLISHED_A]),
            "MAD-Max's prediction, model A": (list(MADMAX), list(MADMAX.values())),
        },
        height=400,
        note="MAD-Max prices every lookup as from HBM, also on 8 GPUs, which cannot hold the tables there.",
    )  # fmt: skip
    rows: list[list[Cell]] = []
    for model, found in (("A", a), ("F", f)):
        for n, e in found.items():
            exposed = e.exposed_communication / e.iteration_time
            rows.append(
                [
                    model, count(n), quantity(e.iteration_time, "seconds"), quantity(e.throughput, "sample_rate"),
                    share(exposed), e.bound.resource.replace("_", " "), e.bound.op, ", ".join(tiers(e)),
                ]
            )  # fmt: skip
    columns = [
        ("model", ""), ("GPUs", "number"), ("iteration", "s"), ("throughput", "sample/s"), ("exposed", "fraction"),
        ("bound by", ""), ("most in", ""), ("tables in", ""),
    ]  # fmt: skip
    return [figure, made_of("scaling-time", a), Table("scaling-table", columns, rows, "What binds at each size")]


def tiers(answer: Estimate) -> list[str]:
    """Memories that hold tables."""
    return sorted(set(answer.design.placement.tier), reverse=True)


def made_of(name: str, answers: dict[int, Estimate]) -> Figure:
    """An iteration of model A at every size, in the colours of its phases and links."""
    made = [pieces(e) for e in answers.values()]
    keys = list(dict.fromkeys(key for one in made for key in one if key[0] != "waiting"))
    series = {key[0]: [one.get(key, 0.0) for one in made] for key in keys}
    colours = {key[0]: key[1] for key in keys}
    last = made[-1]
    exposed = sum(s for (what, _), s in last.items() if what.startswith("exposed"))
    said = f"On {max(answers)} GPUs {exposed / float(answers[max(answers)].iteration_time):.0%} of an iteration is"
    return bars(
        name, "Model A's iteration, by size", f"{said} communication that nothing hides.",
        [f"{n} GPUs" for n in answers], series, seconds_axis(), stacked=True, colours=colours,
        note="From the rank that computes most; exposed: it waits for that link.",
    )  # fmt: skip


# --- sharding ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A way to place the tables of a model: its estimate and how many tables are of each kind."""

    name: str
    answer: Estimate

    @property
    def kinds(self) -> str:
        """`50 column-wise, 950 table-wise; 20 in host memory, 10 of them cached`."""
        placement = self.answer.design.placement
        found, away = list(placement.sharding), int(np.sum(np.asarray(placement.tier) != "hbm"))
        said = ", ".join(f"{found.count(k)} {k.replace('_', '-')}" for k in dict.fromkeys(sorted(found)))
        cached = int(np.sum(placement.cached))
        return said + (f"; {away} in host memory" if away else "") + (f", {cached} of them cached" if cached else "")


@cache
def ablation(model: str) -> tuple[tuple[Step, ...], float]:
    """Placements from the simplest to whatever the planner finds, and the planner's bound on all of them."""
    base = design(model)
    steps: list[Step] = []
    if model == "a":
        names = base.workload.table_arrays.names
        random = np.random.default_rng(0).integers(base.layout.ranks, size=len(names)).tolist()
        placed = {
            "table-wise, at random": random,
            "table-wise, in turns": [i % base.layout.ranks for i in range(len(names))],
        }
        for name, ranks in placed.items():
            assign = {n: {"sharding": "table_wise", "ranks": [r], **STORED} for n, r in zip(names, ranks, strict=True)}
            steps.append(Step(name, am.estimate(with_assigned(base, assign))))
        kinds = KINDS
    else:
        for kind in ("row_wise", "grid_wise"):
            placed_f = base.with_({"plan.tables": {"default": {"sharding": kind, **STORED}}})
            steps.append(Step(f"{kind.replace('_', '-')} throughout", am.estimate(placed_f)))
        kinds = {"all kinds, planned": KINDS["+ rows in a node, grids, copies"]}
    bound = 0.0
    best: Estimate | None = None
    for name, allowed in kinds.items():
        limits = Limits(tables=[TableLimit(sharding=list(allowed))])  # type: ignore[arg-type]
        start = base if best is None else best.design
        found = am.plan(start, limits=limits)
        if best is None or found.value < float(best.iteration_time):
            best = found.estimate
        bound = found.lower_bound
        if best.design.placement.cached.any():
            steps.append(Step("the plan below, without its caches", am.estimate(without_caches(best.design))))
        label = f"{name}, planned" if name == "table-wise" else name
        steps.append(Step(label, best))
    return tuple(steps), bound


def without_caches(planned: Design) -> Design:
    """A plan whose tables in host memory are read there."""
    tables = written(planned)
    bare = {name: {k: v for k, v in entry.items() if k != "cache"} for name, entry in tables["assign"].items()}
    return planned.with_({"plan.tables": {**tables, "assign": bare}})


def with_assigned(base: Design, assign: dict[str, dict[str, Any]]) -> Design:
    """The design with every table where `assign` says."""
    return base.with_({"plan.tables": {"default": {"sharding": "auto", **STORED}, "assign": assign}})


def sharding_blocks(model: str) -> list[Figure | Table]:
    """Iteration times of the placements of a model on 128 GPUs."""
    steps, bound = ablation(model)
    times = [float(s.answer.iteration_time) for s in steps]
    first = next(i for i, s in enumerate(steps) if s.answer.fits)
    said = (
        f"Model {model.upper()}: from {steps[first].name} to the best plan, {times[first] / min(times):.2f}x the "
        f"throughput; no plan can take less than {show(bound, 'seconds')}."
    )
    figure = bars(
        f"sharding-{model}", f"Model {model.upper()} on 128 GPUs, by kinds of sharding", said,
        [s.name for s in steps], {"iteration": times}, seconds_axis(), marks={"bound": bound},
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            s.name, quantity(t, "seconds"), quantity(s.answer.throughput, "sample_rate"),
            share(times[first] / t - 1, signed=True),
            "yes" if s.answer.fits else "no", s.kinds,
        ]
        for s, t in zip(steps, times, strict=True)
    ]  # fmt: skip
    columns = [
        ("placement", ""), ("iteration", "s"), ("throughput", "sample/s"), ("gain", "fraction"), ("fits", ""),
        ("tables", ""),
    ]  # fmt: skip
    return [figure, Table(f"sharding-{model}-table", columns, rows)]


# --- precision on wires and in memory ---------------------------------------------------------------------------

WIRES: dict[str, dict[str, str]] = {
    "fp32 everywhere": {"lookup_forward": "fp32", "lookup_backward": "fp32"},
    "fp16 lookups forward": {"lookup_forward": "fp16", "lookup_backward": "fp32"},
    "fp16 forward, bf16 back (Neo)": {"lookup_forward": "fp16", "lookup_backward": "bf16"},
    "and bf16 dense gradients": {"lookup_forward": "fp16", "lookup_backward": "bf16", "dense_gradient": "bf16"},
    "fp8 lookups, bf16 dense gradients": {
        "lookup_forward": "fp8",
        "lookup_backward": "fp8",
        "dense_gradient": "bf16",
    },
}


@cache
def wires() -> dict[str, Estimate]:
    """Model A on 128 GPUs by what its vectors and gradients travel in; tables and plan as catalogued."""
    base = design("a")
    found = {}
    for name, formats in WIRES.items():
        found[name] = am.estimate(base.with_({f"plan.wires.{k}": v for k, v in formats.items()}))
    return found


def wire_figure() -> Figure:
    """Iteration by wire precision."""
    found = wires()
    times = [float(e.iteration_time) for e in found.values()]
    names = list(found)
    at = names.index("fp16 forward, bf16 back (Neo)")
    said = f"Neo's 16-bit exchanges make an iteration {times[0] / times[at]:.2f}x as fast as fp32 ones; " + (
        f"fp8 lookups and bf16 dense gradients would add {times[at] / times[-1] - 1:.0%}, priced by bytes alone: "
        f"what it does to accuracy is not modelled."
    )
    made = [pieces(e) for e in found.values()]
    keys = list(dict.fromkeys(key for one in made for key in one if key[0] != "waiting"))
    return bars(
        "wires", "Model A on 128 GPUs, by precision on the wire", said, names,
        {k[0]: [one.get(k, 0.0) for one in made] for k in keys}, seconds_axis(), stacked=True,
        colours={k[0]: k[1] for k in keys},
    )  # fmt: skip


# --- model F: memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hold:
    """What model F takes in one form: bytes of tables and optimizer state, and the fewest nodes that hold it with "
    "a batch
    of 65,536 (0: twice what the pool of memory asks for does not)."""

    name: str
    bytes: float
    nodes: int


@cache
def holds() -> tuple[Hold, ...]:
    """Both published forms of model F. Nodes are searched upwards from what the pool of HBM and DDR could hold."""
    found = []
    forms = {"fp32, Adagrad": ("fp32", "adagrad"), "fp16, row-wise Adagrad": ("fp16", "rowwise_adagrad")}
    for name, (dtype, optimizer) in forms.items():
        tables = {"default": {"sharding": "row_wise", "dtype": dtype, "optimizer": optimizer}}

        def answer(nodes: int, tables: dict[str, Any] = tables) -> Estimate:
            return am.estimate(sized("f", 8 * nodes, 65536, tables=tables, memory_reserve=0.3))

        ranks = 128
        parts = [m.parts.get(p) for m in answer(16).memory.values() for p in ("parameter", "optimizer_state")]
        held = sum(float(np.broadcast_to(p, ranks).sum()) for p in parts if p is not None)
        node = design("f").system.node
        assert node.host is not None
        pool = node.gpus * float(np.asarray(node.device.memory.capacity)) + float(np.asarray(node.host.ddr.capacity))
        least = int(held // pool) + 1
        nodes = next((n for n in range(least, 2 * least) if answer(n).fits), 0)
        found.append(Hold(name, held, nodes))
    return tuple(found)


def hold_table() -> Table:
    """Bytes of model F, published and counted."""
    rows: list[list[Cell]] = [
        [
            h.name, quantity(PUBLISHED_BYTES[h.name], "bytes"), quantity(h.bytes, "bytes"),
            share(h.bytes / PUBLISHED_BYTES[h.name] - 1, 1, signed=True), count(h.nodes),
        ]
        for h in holds()
    ]  # fmt: skip
    columns = [
        ("form", ""), ("published", "B"), ("counted", "B"), ("difference", "fraction"), ("fewest nodes", "number"),
    ]  # fmt: skip
    return Table(
        "holds", columns, rows, "Model F: tables and optimizer state, and the fewest nodes of 8 that hold them"
    )


CACHES = ("256 MiB", "512 MiB", "1 GiB", "2 GiB", "4 GiB", "8 GiB", "16 GiB", "24 GiB")


@cache
def cached() -> dict[str, Estimate]:
    """Model F with hot rows of host memory kept in HBM, by bytes of the cache."""
    base = design("f")
    found = {"no cache": am.estimate(base)}
    for size in CACHES:
        rule = {"in": "hbm", "size": size, "policy": "lru", "ways": 32, "prefetch": 1}
        tables = {"default": {"sharding": "row_wise", "tier": "auto", "cache": rule, **STORED}}
        answer = am.estimate(base.with_({"plan.tables": tables}))
        if answer.fits:
            found[f"{size} a GPU"] = answer
    return found


def cache_figure() -> Figure:
    """Model F by size of its cache."""
    found = cached()
    times = {name: float(e.iteration_time) for name, e in found.items()}
    best = min(times, key=lambda k: times[k])
    said = f"Best of these: {best}, {times['no cache'] / times[best]:.2f}x as fast as tables without a cache."
    return bars("caches", "Model F on 128 GPUs, rows of host memory cached in HBM", said, list(times),
                  {"iteration": list(times.values())}, seconds_axis(),
                  note="Least recently used of 32 ways, fetched a batch ahead; others fill HBM first.")  # fmt: skip


# --- CPU servers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Servers:
    """Throughput of so many CPU servers: with synchronous steps, and if no server ever waited for the network."""

    servers: int
    synchronous: float
    no_network: float
    fits: bool


@cache
def cpu(model: str, servers: int) -> Servers:
    """A model on CPU servers, 512 samples each."""
    base = am.load(HERE / f"cpu_{model}.yaml")
    answer = am.estimate(base.with_({"system.nodes": servers, "workload.global_batch": LOCAL_BATCH * servers}))
    busy = float(np.max(answer.busy("compute")))
    return Servers(servers, float(answer.throughput), answer.samples / busy, bool(answer.fits))


def crossing(of: str) -> float:
    """Servers at which 128 GPUs are 40 times as fast as `of`; throughput is near proportional to servers."""
    ours = float(am.estimate(design("a")).throughput)
    found = [cpu("a", n) for n in SERVERS]
    ups = np.log([ours / getattr(s, of) for s in found])
    return float(np.exp(np.interp(-np.log(SPEED_UP), -ups, np.log(SERVERS))))


def cpu_blocks() -> list[Figure | Table]:
    """Speed-up of 128 GPUs over CPU servers."""
    ours = float(am.estimate(design("a")).throughput)
    found = [cpu("a", n) for n in SERVERS]
    few, many = crossing("no_network"), crossing("synchronous")
    figure = curves(
        "servers", "128 GPUs over CPU servers, model A",
        f"40x is what {few:.0f} servers would give if they never waited for the network, and {many:.0f} if every step "
        "were synchronous: the published factor says how large the old cluster was.",
        {
            "synchronous steps": (list(SERVERS), [ours / s.synchronous for s in found]),
            "servers that never wait": (list(SERVERS), [ours / s.no_network for s in found]),
        },
        {"type": "log", "tickvals": list(SERVERS[::2]), "ticktext": [str(n) for n in SERVERS[::2]],
         "title": {"text": "CPU servers"}},
        {"type": "log", "title": {"text": "speed-up"}, "tickvals": [5, 10, 20, 40, 100, 200, 400, 1000]},
        marks={"published: up to 40x": SPEED_UP},
    )  # fmt: skip
    f = cpu("f", 128)
    planned = float(ablation("f")[0][-1].answer.throughput)
    a = cpu("a", 128)
    rows: list[list[Cell]] = [
        [
            f"model {m}", quantity(gpus, "sample_rate"), quantity(s.synchronous, "sample_rate"),
            quantity(s.no_network, "sample_rate"), count(round(gpus / s.synchronous, 1)),
            count(round(gpus / s.no_network, 1)),
        ]
        for m, gpus, s in (("A", ours, a), ("F, planned", planned, f))
    ]  # fmt: skip
    columns = [
        ("", ""), ("128 GPUs", "sample/s"), ("128 servers, synchronous", "sample/s"), ("never waiting", "sample/s"),
        ("speed-up", "number"), ("over never waiting", "number"),
    ]  # fmt: skip
    return [figure, Table("servers-table", columns, rows, "One server for each GPU")]


# --- the study --------------------------------------------------------------------------------------------------


def claims() -> list[Claim]:
    """What was published, what comes out, and why."""
    a = am.estimate(design("a"))
    steps, bound = ablation("a")
    f_steps, _ = ablation("f")
    times = [float(s.answer.iteration_time) for s in steps]
    f_times = [float(s.answer.iteration_time) for s in f_steps]
    few, many = crossing("no_network"), crossing("synchronous")
    found = {h.name: h for h in holds()}
    half, full = found["fp16, row-wise Adagrad"], found["fp32, Adagrad"]
    w = [float(e.iteration_time) for e in wires().values()]
    best = float(PUBLISHED_A * bound / a.samples)
    return [
        Claim(
            "Model A (793B parameters) trains at 1.2 M samples/s on 128 A100, 54.6 ms for 65,536 samples. The "
            "figure is "
            "remembered, not checked against the paper.",
            f"{show(a.throughput, 'sample_rate')}, {show(a.iteration_time, 'seconds')} "
            f"({a.throughput / PUBLISHED_A - 1:+.0%}); "
            f"{a.exposed_communication / a.iteration_time:.0%} of it is exposed communication, bound by the NICs.",
            "The exchange is proportional to the number of tables, which the paper does not give; 1,000 are assumed. "
            f"With these tables no plan is below {show(bound, 'seconds')}, {best:.2f} times the published time, so "
            f"placement "
            "alone cannot close the gap: fewer tables, fewer wide ones, or an exchange hidden behind more compute "
            "would.",
        ),
        Claim(
            "Better sharding and 16-bit exchanges were each worth tens of percent on model A; the paper's own figures "
            "could not be read here, so none is held against ours.",
            f"From tables placed in turns to the planner's best, {times[1] / min(times) - 1:+.0%}; placed at random "
            f"they do "
            f"not fit and would be {times[0] / min(times):.2f}x as slow. Cutting columns or rows gains nothing "
            f"more. Exchanges in 16 instead of 32 bit: {w[0] / w[2] - 1:+.0%}.",
            "Tables of model A are assumed to have equal rows and pooling. Real ones differ by orders of magnitude, "
            "which makes a good plan worth more and gives the other kinds of sharding something to do.",
        ),
        Claim(
            "Model F's 12T parameters take 96 TB in the naive form and 24 TB with FP16 and row-wise Adagrad, and train "
            "on 16 nodes (5.1 TB of HBM and 24 TB of DDR).",
            f"{show(full.bytes, 'bytes')} and {show(half.bytes, 'bytes')}; {full.nodes} nodes and {half.nodes}. On 16 "
            f"nodes rows spread over all GPUs take {show(f_times[0], 'seconds')}, the planner's mix "
            f"{show(min(f_times), 'seconds')} ({f_times[0] / min(f_times):.1f}x): rows stay inside nodes, and rows "
            f"of host "
            "memory are cached in HBM.",
            "Bytes are arithmetic and agree; 0.19 TB of optimizer state is left out of the published 24. No throughput "
            "of model F is published. 64 equal tables are assumed.",
        ),
        Claim(
            "Up to 40x in time to solution over existing systems (abstract), which trained on CPU parameter servers.",
            f"128 GPUs are 40x as fast as {few:.0f} to {many:.0f} two-socket servers: the lower count if servers never "
            "wait for the network, the higher if every step is synchronous.",
            "The number of servers is not public, nor is the server: a two-socket Skylake with 25 Gbit/s is assumed. "
            "Asynchronous parameter servers lie between the two curves. So the claim can be neither confirmed nor "
            "refuted; what can be said is which cluster it would be a claim about.",
        ),
    ]  # fmt: skip


def build() -> Study:
    """The whole study."""
    a = am.estimate(design("a"))
    few, many = crossing("no_network"), crossing("synchronous")
    f_steps, _ = ablation("f")
    f_gain = float(f_steps[0].answer.iteration_time) / float(f_steps[-1].answer.iteration_time)
    takeaway = (
        f"Model A on 128 GPUs: {show(a.throughput, 'sample_rate')} predicted, 1.2 M published; the planner makes "
        f"model F "
        f"{f_gain:.1f}x as fast as row-wise; 40x over CPU servers means {few:.0f} to {many:.0f} of them."
    )
    return Study(
        "Neo on ZionEX: 8 to 512 GPUs, and the CPU servers before",
        takeaway,
        claims(),
        [
            section("scaling", "Scaling", *scaling_figures()),
            section("sharding", "Kinds of sharding", *sharding_blocks("a"), *sharding_blocks("f")),
            section("wires", "Precision on the wire", wire_figure()),
            section("memory", "12T parameters", hold_table(), cache_figure()),
            section("cpu", "Over CPU parameter servers", *cpu_blocks(), note=_SERVERS),
        ],
    )


_SERVERS = (
    "studies/neo/cpu_server.yaml: two Skylake sockets of 18 cores, 256 GB, 25 Gbit/s; every value is assumed or "
    "from the "
    "source it names. Each server is trainer and parameter server at once."
)


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "neo", arguments)


if __name__ == "__main__":
    sys.exit(run())
