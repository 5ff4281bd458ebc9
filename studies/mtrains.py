"""Nodes that a model needs which is bound by memory capacity, by the tiers below HBM, at equal throughput.

    python studies/mtrains.py [-o mtrains.html] [--workers 2]

MTrainS (arXiv 2305.01515) says that a hierarchy of HBM, DRAM, byte-addressable and block-addressable storage-class
memory trains models with 4 to 8 times fewer nodes at the throughput that is wanted. Its models, machines and figures
could not be read, so the question is put to a public model: Neo's model F, 12T parameters, 24.2 TB in half precision.
Nodes are ZionEX's. Nothing is fitted; half of the prices and many figures of drives are assumed (designs/memories).

The global batch is the same everywhere, so equal throughput is the same training run. Homes of tables fill the tiers
from the fastest down; hot rows of all that is not in HBM are cached there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from typing import Any

import numpy as np
from _page import Claim, Study, main, section

import archmodel as am
from archmodel import catalogue, source
from archmodel.program import Program, RowMove
from archmodel.report.html.charts import bars, curves
from archmodel.report.html.figure import si_axis
from archmodel.report.html.page import Block, Section
from archmodel.report.html.table import Cell, Table, count, quantity, share

CLAIM = (
    "MTrainS (arXiv 2305.01515), abstract: node count down 4 to 8 times at the target throughput",
    (4.0, 8.0),
)
DESIGN = "neo_f_zionex_five_tiers.yaml"
BYSTANDER = "neo_a_zionex_16x8.yaml"
TIERS = "system.node.host.tiers"
ACCESS = "workload.tables.t.access"

LOWER = 0.85
"""Share of host memory that a cache takes where it is one (assumed)."""
HIERARCHIES: dict[str, tuple[tuple[str, ...] | None, float]] = {
    "HBM": (None, 0.0),
    "HBM, DDR": ((), 0.0),
    "HBM, DDR, byte SCM": (("pmm",), 0.0),
    "HBM, DDR, block SCM": (("scm",), 0.0),
    "HBM, DDR, NAND": (("nand",), 0.0),
    "HBM, DDR, byte SCM, block SCM, NAND": (("pmm", "scm", "nand"), 0.0),
    "HBM, DDR as a cache, block SCM": (("scm",), LOWER),
    "HBM, DDR as a cache, NAND": (("nand",), LOWER),
    "HBM, DDR as a cache, byte SCM, block SCM, NAND": (("pmm", "scm", "nand"), LOWER),
}
"""Tiers of a node below host memory, by the names of the design (None: tables in HBM alone), and the share of host
memory that is a cache above them, below the one in HBM."""
BASELINE = "HBM, DDR"
NODES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 20, 24, 32, 82, 83, 84, 96)
TARGETS = (0.05e6, 0.1e6, 0.25e6, 0.5e6, 1e6, 1.5e6, 1.75e6, 2.5e6, 4e6)
SAID = (0.25e6, 1e6, 1.75e6, 4e6)
"""Of the targets, those that the text speaks of."""
TARGET = 1.75e6
"""Of the headline, samples/s: what 16 nodes with rows of host memory cached in HBM are predicted to reach
(designs/neo_f_zionex_16x8_cached.yaml), all rows of every table spread over all GPUs."""
SHARDINGS = ("row_wise", "mixed")
"""Every table spread over all GPUs; or tables whole on a node where its tiers have room for them, others spread."""
CACHE = 0.5
"""Share of HBM that caches take, buffers of fetched rows not counted."""
FILLED = 0.96
"""Share of a host tier that tables may fill (assumed, as WORKING and CACHE are)."""
WORKING = 6e9
"""Bytes of each HBM that tables leave to activations, inputs and buffers where some live there beside caches."""
PAGE, FAULT = "64 KiB", "2 us"
"""As designs/nvidia_dlrm_xlarge_1xa100_uvm_amp.yaml assumes."""


@dataclass(frozen=True)
class Case:
    """One machine and plan to evaluate."""

    tiers: tuple[str, ...] | None
    nodes: int
    sharding: str = "row_wise"
    cache: float = CACHE
    lower: float = 0.0
    """Share of host memory that a cache takes."""
    policy: str = "lru"
    prefetch: int = 2
    paged: bool = False
    access: str = "zipf, 2021"
    changes: tuple[tuple[str, Any], ...] = ()
    model: str = DESIGN


@dataclass(frozen=True)
class Answer:
    """What came of it. Rates in samples/s, power in W, price in USD, of all nodes together."""

    case: Case
    fits: bool
    throughput: float = 0.0
    bound: str = ""
    stall: float = 0.0
    """Share of an iteration that waits for rows."""
    served: Mapping[str, float] = field(default_factory=dict)
    """Share of the indices that each tier serves."""
    busy: Mapping[str, float] = field(default_factory=dict)
    life: Mapping[str, float] = field(default_factory=dict)
    """Days until writes wear a tier out, where they do."""
    power: float = 0.0
    price: float = 0.0
    joules: float = 0.0
    """Of a sample."""
    usd: float = 0.0
    """Of a million samples."""
    why: str = ""


# --- one case ---------------------------------------------------------------------------------------------------


@cache
def base(name: str) -> am.Design:
    return am.load(catalogue.located(name))


def declared() -> Mapping[str, Any]:
    """All tiers of the five-tier design."""
    found: Mapping[str, Any] = base(DESIGN).tree["system"]["node"]["host"]["tiers"]
    return found


@cache
def fitted(year: int) -> float:
    """Exponent of the Zipf law over the model's rows that has the distinct rows of Meta's published batch of that year
    in as many accesses."""
    from scipy.optimize import brentq

    from archmodel.memory.access import Zipf

    seen = source.read(catalogue.find(f"access/meta_dlrm_{year}.yaml"))
    draws, unique = seen["indices"] / seen["tables"], seen["unique_rows"] / seen["indices"]
    rows = float(base(DESIGN).workload.table_arrays.num_embeddings[0])

    def excess(alpha: float) -> float:
        return float(Zipf(alpha=alpha).expected_unique(rows, draws)) / draws - unique

    return float(brentq(excess, 0.8, 1.8, xtol=1e-5))


SKEWS = ("zipf, 2022", "zipf, 2021", "zipf 1.05", "zipf 0.9", "zipf 0.7", "uniform", "histogram, 2021",
         "histogram, 2022")  # fmt: skip


def accessed(name: str) -> dict[str, Any]:
    """`zipf, YEAR` (fitted to Meta's published batch), `zipf ALPHA`, `histogram, YEAR` (the batch itself: no other row
    is ever touched) or `uniform`, as a design file writes it."""
    kind, _, which = name.partition(" ")
    if kind == "uniform":
        return {"kind": "uniform"}
    if kind == "histogram,":
        return dict(source.read(catalogue.find(f"access/meta_dlrm_{which}.yaml")))
    return {"kind": "zipf", "alpha": fitted(int(which)) if kind == "zipf," else float(which)}


def homes(case: Case) -> list[tuple[str, str, int]]:
    """(tier, sharding, tables) from the fastest tier down; what fits nowhere is in the last. All tables are of one
    size."""
    design = base(case.model)
    tables, node = design.workload.table_arrays, design.system.node
    count = len(tables)
    if case.tiers is None:
        return [("hbm", "row_wise", count)]
    size = float(tables.num_embeddings[0] * (2 * tables.embedding_dim[0] + 4))  # half precision and one fp32 moment
    assert node.host is not None
    hbm = node.gpus * (float(np.asarray(node.device.memory.capacity)) * (1 - case.cache) - WORKING)
    room = {"hbm": max(hbm, 0.0)}
    room |= {name: float(np.asarray(node.host.tier(name).capacity)) * FILLED for name in ("ddr", *case.tiers)}
    room["ddr"] = max(room["ddr"] - host_cache(case), 0.0)
    whole = {name: case.nodes * int(bytes_ // size) if case.sharding == "mixed" else 0 for name, bytes_ in room.items()}
    whole["hbm"] = 0
    spread = {name: int((case.nodes * bytes_ - whole[name] * size) // size) for name, bytes_ in room.items()}
    lower = sum(whole.values()) + sum(n for name, n in spread.items() if name != "hbm")
    spread["hbm"] = min(spread["hbm"], max(count - lower, 0))  # HBM is for caches where others have room
    found, left = [], count
    for name in room:
        for sharding, most in (("table_row_wise", whole[name]), ("row_wise", spread[name])):
            taken = min(most, left)
            found.append((name, sharding, taken))
            left -= taken
    if left:
        found.append((name, "row_wise", left))
    return [group for group in found if group[2]]


def host_cache(case: Case) -> float:
    """Bytes of a node's memory that a cache takes."""
    host = base(case.model).system.node.host
    assert host is not None
    return case.lower * float(np.asarray(host.ddr.capacity))


def plan_of(case: Case) -> dict[str, Any]:
    """`plan.tables` with every table in its tier; all tables below a tier with a cache have caches of the same size
    there."""
    groups = homes(case)
    design = base(case.model)
    devices = design.system.node.gpus
    budget = case.cache * float(np.asarray(design.system.gpu.memory.capacity))
    ranks = {"table_row_wise": devices, "row_wise": devices * case.nodes}

    def share(above: Sequence[str]) -> float:
        """Tables that a rank has outside some tiers, as parts of whole ones."""
        cached = {s: sum(n for tier, of, n in groups if of == s and tier not in above) for s in ranks}
        return ceil(cached["table_row_wise"] / case.nodes) / devices + cached["row_wise"] / ranks["row_wise"]

    held = {"hbm": budget / max(share(["hbm"]), 1e-9)}
    if case.lower:
        held["ddr"] = host_cache(case) / devices / max(share(["hbm", "ddr"]), 1e-9)
    cache_plan: dict[str, Any] = {"policy": case.policy, "prefetch": case.prefetch}
    if case.paged:
        cache_plan |= {"page": PAGE, "ways": None}
    assign: dict[str, Any] = {}
    for tier, sharding, n in groups:
        entry: dict[str, Any] = {"tier": tier, "sharding": sharding}
        above = [name for name in held if name != tier and tier != "hbm"]
        if above:
            entry["cache"] = [{"in": t, **cache_plan, "size": f"{held[t] / ranks[sharding]:.0f} B"} for t in above]
        assign |= {f"t_{i}": entry for i in range(len(assign), len(assign) + n)}
    return {"default": {"sharding": "row_wise", "dtype": "fp16", "optimizer": "rowwise_adagrad"}, "assign": assign}


def bystander(case: Case) -> dict[str, Any]:
    """`plan.tables` of model A, whose thousand tables are placed by the package."""
    size = f"{case.cache * float(np.asarray(base(case.model).system.gpu.memory.capacity)):.0f} B"
    rows = {"in": "hbm", "size": size, "prefetch": case.prefetch}
    return {
        "default": {
            "sharding": "auto", "tier": "auto", "dtype": "fp16", "optimizer": "rowwise_adagrad", "cache": rows,
        }
    }  # fmt: skip


def design_of(case: Case) -> am.Design:
    """Raises DesignError for a plan that cannot be followed."""
    tiers = case.tiers or ()
    whole: dict[str, Any] = {
        "system.nodes": case.nodes,
        TIERS: {name: declared()[name] for name in tiers},
        "plan.tables": plan_of(case) if case.model == DESIGN else bystander(case),
    }
    if case.model == DESIGN:
        whole[ACCESS] = accessed(case.access)
    if case.paged:
        whole["system.node.host.link.fault_time"] = FAULT
    return base(case.model).with_(whole | dict(case.changes))


def answered(case: Case) -> Answer:
    try:
        found = am.estimate(design_of(case))
    except am.ArchmodelError as error:
        return Answer(case, False, why=str(error))
    system, cost, energy = found.design.system, found.cost, found.energy
    assert cost is not None
    assert energy is not None
    assert system.economics is not None
    host = system.node.host
    assert host is not None
    indices = sum(c.indices for c in found.caches.values())
    return Answer(
        case,
        found.fits,
        found.throughput,
        found.bound.resource,
        found.stall / found.iteration_time,
        {} if case.paged else served(found.program, indices),
        {name: float(use.busy) for name, use in found.tiers.items()},
        {name: float(u.lifetime_days) for name, u in found.tiers.items() if np.isfinite(u.lifetime_days)},
        float(energy.power),
        float(cost.capital) / found.iteration_time * float(system.economics.lifetime),
        float(energy.per_sample),
        float(cost.per_million_samples),
        "" if found.fits else "; ".join(need.remedy for need in found.memory.values() if need.remedy),
    )


def served(program: Program, indices: float) -> dict[str, float]:
    """Share of the indices whose rows are found in each tier: those that come from there less those that came there."""
    rows = {"hbm": indices}
    for op in program.ops:
        if isinstance(op.work, RowMove) and not op.work.write_back:
            for path, units in op.work.units.items():
                moved = float(np.broadcast_to(units, program.ranks).sum())
                for tier, amount in zip(path.split(":"), (moved, -moved), strict=True):
                    rows[tier] = rows.get(tier, 0.0) + amount
    return {tier: n / indices for tier, n in rows.items()} if indices else {"hbm": 1.0}


def evaluated(cases: Iterable[Any], workers: int, what: str, function: Callable[[Any], Any] = answered) -> list[Any]:
    """`function` of all cases, on so many processes; progress on stderr."""
    wanted = list(cases)
    found: list[Any] = []
    begin = time.perf_counter()

    def tell(answer: Any) -> None:
        found.append(answer)
        if len(found) % 10 == 0 or len(found) == len(wanted):
            spent = time.perf_counter() - begin
            print(f"{what}: {len(found)} of {len(wanted)}, {spent:.0f} s", file=sys.stderr, flush=True)

    if workers > 1 and len(wanted) > 1:
        with ProcessPoolExecutor(workers) as pool:
            for answer in pool.map(function, wanted, chunksize=2):
                tell(answer)
    else:
        for case in wanted:
            tell(function(case))
    return found


# --- nodes by throughput ----------------------------------------------------------------------------------------


def room_for(tiers: tuple[str, ...] | None, lower: float = 0.0) -> float:
    """The least nodes whose capacity is that of the tables, less the share of host memory that a cache takes: nothing
    below is tried."""
    design = base(DESIGN)
    tables, node = design.workload.table_arrays, design.system.node
    size = float((tables.num_embeddings * (2 * tables.embedding_dim + 4)).sum())
    assert node.host is not None
    one = node.gpus * float(np.asarray(node.device.memory.capacity))
    if tiers is not None:
        one += sum(float(np.asarray(node.host.tier(name).capacity)) for name in ("ddr", *tiers))
        one -= lower * float(np.asarray(node.host.ddr.capacity))
    return size / one


def grid(nodes: Sequence[int] = NODES, most: int = 16) -> list[Case]:
    """Numbers of nodes to try of each hierarchy: up to `most` times those that capacity asks for."""
    found = []
    for tiers, lower in HIERARCHIES.values():
        least = room_for(tiers, lower)
        for n in nodes:
            if least <= n <= max(least * (1.2 if tiers is None else 2.3), most):
                found += [Case(tiers, n, s, lower=lower) for s in (SHARDINGS if tiers is not None else SHARDINGS[:1])]
    return found


def name_of(case: Case) -> str:
    return next(name for name, these in HIERARCHIES.items() if these == (case.tiers, case.lower))


def best(found: Iterable[Answer]) -> dict[tuple[str, int], Answer]:
    """Of each hierarchy and number of nodes the faster plan that fits."""
    kept: dict[tuple[str, int], Answer] = {}
    for answer in found:
        key = name_of(answer.case), answer.case.nodes
        if answer.fits and (key not in kept or answer.throughput > kept[key].throughput):
            kept[key] = answer
    return kept


def least(found: Mapping[tuple[str, int], Answer], hierarchy: str, target: float) -> Answer | None:
    """The fewest nodes that fit and reach `target` samples/s; None where none of those tried do."""
    reach = [a for (name, _), a in found.items() if name == hierarchy and a.throughput >= target]
    return min(reach, key=lambda a: a.case.nodes, default=None)


# --- sensitivity ------------------------------------------------------------------------------------------------

MEMORY = TIERS + ".{}.memory."
HELD = {("pmm",): 4, ("scm",): 8}
"""Nodes with which assumptions are varied, by hierarchy: those of the headline or near them."""


def variations() -> list[tuple[str, str, Case]]:
    """(assumption, value, case) of everything that is varied, around both hierarchies of `HELD`."""
    found = []
    for tiers, nodes in HELD.items():
        at = Case(tiers, nodes)
        drive = MEMORY.format(tiers[0])
        host = base(DESIGN).system.node.host
        assert host is not None
        memory = host.tier(tiers[0]).memory
        found.append(("as assumed", "", at))
        found += [("access", skew, replace(at, access=skew)) for skew in SKEWS if skew != at.access]
        found += [("cache, share of HBM", f"{share:.0%}", replace(at, cache=share)) for share in (0.05, 0.1, 0.25)]
        found += [("policy", policy, replace(at, policy=policy)) for policy in ("fifo", "lfu")]
        ahead = {0: "on demand", 1: "1 batch ahead"}
        found += [("prefetch", label, replace(at, prefetch=n)) for n, label in ahead.items()]
        paged_ = replace(at, prefetch=0, paged=True, cache=CACHE / 2)
        found.append(("demand paging", f"{PAGE} pages", paged_))
        for name in ("write_bandwidth", "bandwidth") if tiers == ("pmm",) else ("write_iops", "read_iops"):
            value = float(np.max(np.asarray(getattr(memory, name))))
            found += [
                (f"{name} of a memory", f"x{by:g}", replace(at, changes=((drive + name, value * by),)))
                for by in ((0.5, 2.0) if name != "bandwidth" else (0.5,))
            ]
        for batch in (16_384, 131_072):
            found.append(("global batch", f"{batch:,}", replace(at, changes=(("workload.global_batch", batch),))))
        found.append(("NIC", "100 Gbit/s", replace(at, changes=(("system.node.nic.bandwidth", "100 Gbit/s"),))))
        found.append(("sharding", "mixed", replace(at, sharding="mixed")))
    return found


SKEW_NODES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)


def fewest(question: tuple[str, str]) -> Answer | None:
    """Of (hierarchy, access): the fewest of SKEW_NODES that reach TARGET, tried from below once the most do."""
    hierarchy, access = question
    tiers, lower = HIERARCHIES[hierarchy]
    nodes = [n for n in SKEW_NODES if n >= room_for(tiers, lower)]

    def reached(n: int) -> Answer | None:
        for sharding in reversed(SHARDINGS):
            found = answered(Case(tiers, n, sharding, lower=lower, access=access))
            if found.fits and found.throughput >= TARGET:
                return found
        return None

    most = reached(nodes[-1])
    return most and next((a for n in nodes[:-1] if (a := reached(n)) is not None), most)


def paging() -> list[tuple[str, Case]]:
    """Host memory below HBM on the 16 nodes that it takes: in software ahead, on demand, and by the driver's pages."""
    at = Case((), 16)
    return [
        ("rows, 2 batches ahead", at),
        ("rows, on demand", replace(at, prefetch=0)),
        (f"pages of {PAGE}, on demand", replace(at, prefetch=0, paged=True)),
    ]


def others() -> list[Case]:
    """Neo's model A, 793B parameters, bound by compute and network: what fewer nodes cost it."""
    return [Case((), n, model=BYSTANDER, cache=0.1) for n in (6, 8, 16, 32)]


def by_skew(workers: int = 1, skews: Sequence[str] = SKEWS) -> dict[tuple[str, str], Answer | None]:
    """The headline's question once more for every distribution of accesses."""
    asked = [(hierarchy, skew) for skew in skews for hierarchy in list(HIERARCHIES)[1:4]]
    return dict(zip(asked, evaluated(asked, workers, "nodes by skew", fewest), strict=True))


@dataclass(frozen=True)
class Results:
    """Everything that is printed and drawn."""

    answers: dict[tuple[str, int], Answer]
    tried: list[Answer]
    varied: list[tuple[str, str, Answer]]
    skewed: dict[tuple[str, str], Answer | None]
    """Fewest nodes by hierarchy and access."""
    paged: list[tuple[str, Answer]]
    others: list[Answer]


def studied(workers: int = 1) -> Results:
    tried = evaluated(grid(), workers, "nodes by throughput")
    wanted = variations()
    varied = evaluated([case for _, _, case in wanted], workers, "assumptions")
    pages = paging()
    paged = evaluated([case for _, case in pages], 1, "paging")
    return Results(
        best(tried),
        tried,
        [(what, value, answer) for (what, value, _), answer in zip(wanted, varied, strict=True)],
        by_skew(workers),
        [(name, answer) for (name, _), answer in zip(pages, paged, strict=True)],
        evaluated(others(), workers, "model A"),
    )


# --- output -----------------------------------------------------------------------------------------------------


def reduction(found: Mapping[tuple[str, int], Answer], hierarchy: str, target: float) -> float | None:
    """Times fewer nodes than HBM and DDR; None where either does not reach the target."""
    one, other = least(found, BASELINE, target), least(found, hierarchy, target)
    return None if one is None or other is None else one.case.nodes / other.case.nodes


def skew_rows(results: Results) -> list[list[Cell]]:
    """Of each access: nodes with DDR, with byte SCM, with block SCM, and the share of the indices that HBM serves with
    block SCM on the nodes of `HELD`."""
    hits = {a.case.access: a.served["hbm"] for _, _, a in results.varied
            if a.fits and a.case == Case(("scm",), HELD["scm",], access=a.case.access)}  # fmt: skip
    found: list[list[Cell]] = []
    for skew in dict.fromkeys(access for _, access in results.skewed):
        here = [a for (_, access), a in results.skewed.items() if access == skew]
        counts = [count(a.case.nodes) if a else (f"over {SKEW_NODES[-1]}", None) for a in here]
        found.append([skew, *counts, share(hits[skew], 1) if skew in hits else ("", None)])
    return found


def headline_rows(found: Mapping[tuple[str, int], Answer], target: float) -> list[list[Cell]]:
    """Of each hierarchy the least machine that reaches the target."""
    rows: list[list[Cell]] = []
    for name in HIERARCHIES:
        a = least(found, name, target)
        if a is None:
            rows.append([name, ("none tried", None), *[("", None) if unit else "" for _, unit in HEADER[2:]]])
            continue
        times = reduction(found, name, target)
        life = ", ".join(f"{k} {days / 365:,.1f} y" for k, days in a.life.items())
        served = ", ".join(f"{k} {part:.2%}" for k, part in a.served.items() if part)
        rows.append(
            [
                name, count(a.case.nodes), (f"{times:.1f}x", times) if times else ("", None),
                quantity(a.throughput, "sample_rate"), a.case.sharding, a.bound, share(a.stall), served, life,
                quantity(a.power, "watts"), (f"{a.price / 1e6:,.2f}", a.price / 1e6), (f"{a.joules:.4f}", a.joules),
                (f"{a.usd:.4f}", a.usd),
            ]
        )  # fmt: skip
    return rows


HEADER = [
    ("tiers of a node", ""), ("nodes", "number"), ("fewer", "number"), ("throughput", "sample/s"), ("sharding", ""),
    ("bound", ""), ("stall", "fraction"), ("rows from", ""), ("worn out in", ""), ("power", "W"), ("MUSD", "number"),
    ("J/sample", "number"), ("USD/Msample", "number"),
]  # fmt: skip


def claims(results: Results) -> list[Claim]:
    """What is published, what comes out here, and why they differ; figures from the results themselves."""
    found = results.answers
    low, high = CLAIM[1]

    def said(name: str) -> str:
        each = [f"{r:.1f} at {t / 1e6:g} M" for t in SAID if (r := reduction(found, name, t)) is not None]
        return f"{name}: {', '.join(each) or 'no target reached by both'}"

    parts = [f"Times fewer nodes than {BASELINE} by samples/s. {'. '.join(map(said, list(HIERARCHIES)[2:]))}."]
    alone, ddr = least(found, "HBM", TARGET / 2), least(found, BASELINE, TARGET / 2)
    if alone and ddr:
        most = max(a.throughput for (name, _), a in found.items() if name == "HBM") / 1e6
        parts.append(
            f"In HBM alone the model takes {alone.case.nodes} nodes, with host memory {ddr.case.nodes} "
            f"({alone.case.nodes / ddr.case.nodes:.1f} times fewer). No table fits the HBM of a node, so all are "
            f"spread over all GPUs, which reaches {most:.2f} Msample/s at most."
        )
    for name in list(HIERARCHIES)[2:4]:
        times = reduction(found, name, TARGET)
        if times is not None:
            inside = "inside" if low <= times <= high else "below" if times < low else "above"
            parts.append(f"At {TARGET / 1e6:g} Msample/s {name} is {times:.1f}, {inside} what is published.")
    return [
        Claim(
            f"{CLAIM[0]}. Its models, machines and baseline are not public in a form that we could read.",
            " ".join(parts),
            "How many times fewer is above all a matter of the throughput that is wanted: the fewer samples/s, the "
            "further down rows may lie. A figure without its target, access distribution and nodes says little.",
        )
    ]


NOTES = (
    "Skew decides. With what Meta's published batches imply, HBM serves nearly all indices, slow tiers the rest. With "
    "little skew host memory is as good as any. How rows come back from batch to batch is not published. Zipf laws "
    "fitted "
    "to one batch extend to all rows; the histogram itself has no further rows, so everything that is ever used fits "
    "into "
    "caches, the best that can be.",
    "Drives are bound by small writes: every row that training fetches it changes and sends home. NAND reads and "
    "writes "
    "4 KiB for a row of 516 B and is worn out long before a node is written off.",
    "Tables that are spread over all GPUs make every NIC carry the pooled vectors of the whole batch, however many "
    "nodes "
    "there are: fewer nodes are no slower, until a tier is. Tables whole on a node gain with nodes, and 16 nodes with "
    "host "
    "memory, which capacity asks for anyway, are then faster than is wanted here.",
    "Half of the prices and drives' figures are assumed; the price of DDR is in that of a node, of HBM alone too. "
    "Persistent memory is on the channels of DDR; Optane is no longer sold.",
)


def headline_section(results: Results) -> Section:
    """The least machines, and what they take."""
    found = results.answers
    chosen = [(name, a) for name in HIERARCHIES if (a := least(found, name, TARGET)) is not None]
    one = {name: a.price for name, a in chosen}
    cheapest = min(one, key=lambda name: one[name])
    said = (
        f"Cheapest is {cheapest}, {one[cheapest] / 1e6:.2f} MUSD, of {one[BASELINE] / 1e6:.2f} with host memory alone."
    )
    figures = [
        bars(name, f"{title} for {TARGET / 1e6:g} Msample/s", text, [n for n, _ in chosen], {title: values}, axis)
        for name, title, text, values, axis in (
            ("price", "Price", said, [a.price / 1e6 for _, a in chosen], {"title": {"text": "MUSD"}}),
            ("power", "Power", f"From {min(a.power for _, a in chosen) / 1e3:.0f} to "
             f"{max(a.power for _, a in chosen) / 1e3:.0f} kW.", [a.power for _, a in chosen], si_axis("W")),
        )
    ]  # fmt: skip
    title = f"Fewest nodes that fit and reach {TARGET / 1e6:g} Msample/s"
    return section("headline", title, Table("headline-rows", HEADER, headline_rows(found, TARGET)), *figures,
                   note=NOTES[3])  # fmt: skip


def target_section(results: Results) -> Section:
    """Nodes by throughput wanted."""
    found = results.answers
    series = {}
    for name in HIERARCHIES:
        here = sorted((n, a.throughput) for (h, n), a in found.items() if h == name)
        if here:
            series[name] = ([n for n, _ in here], [t for _, t in here])
    top, (nodes, rate) = max(((name, max(zip(*xy, strict=True), key=lambda p: p[1])) for name, xy in series.items()),
                             key=lambda item: item[1][1])  # fmt: skip
    curve = curves(
        "throughput", "Throughput by nodes, where the model fits",
        f"Most is {rate / 1e6:.2f} Msample/s, on {nodes} nodes with {top}.", series,
        {"type": "log", "title": {"text": "nodes of 8 GPUs"}, "dtick": "D2"},
        {"type": "log", "dtick": "D2", **si_axis("/s", "samples per second")}, marks={"wanted": TARGET},
    )  # fmt: skip
    fewer = {}
    for name in list(HIERARCHIES)[2:]:
        pairs = [(t, r) for t in TARGETS if (r := reduction(found, name, t)) is not None]
        if pairs:
            fewer[name] = ([t for t, _ in pairs], [r for _, r in pairs])
    blocks: list[Block] = [curve]
    if fewer:
        low, high = CLAIM[1]
        every = [r for _, rs in fewer.values() for r in rs]
        inside = sum(low <= r <= high for r in every)
        said = f"{inside} of {len(every)} answers are within the published {low:g} to {high:g}."
        blocks.append(
            curves(
                "fewer", f"Times fewer nodes than {BASELINE}", said, fewer,
                {"type": "log", "dtick": "D2", **si_axis("/s", "samples per second wanted")},
                {"type": "log", "dtick": "D2", "title": {"text": "times"}},
                marks={"published, least": low, "published, most": high},
            )
        )  # fmt: skip
    rows: list[list[Cell]] = [
        [name, *(count(a.case.nodes) if (a := least(found, name, t)) else ("-", None) for t in TARGETS)]
        for name in HIERARCHIES
    ]
    columns = [("tiers", ""), *((f"{t / 1e6:g} M/s", "number") for t in TARGETS)]
    return section("targets", "Nodes by throughput wanted", *blocks, Table("target-rows", columns, rows), note=NOTES[2])


def assumption_section(results: Results) -> Section:
    """What assumptions make of it."""
    figures, rows = [], []
    for tiers, nodes in HELD.items():
        here = [(what, value, a) for what, value, a in results.varied if a.case.tiers == tiers]
        fitting = [(f"{what} {value}".strip(), a) for what, value, a in here if a.fits]
        if fitting:
            low = min(fitting, key=lambda item: item[1].throughput)
            figures.append(
                bars(
                    f"held-{tiers[0]}", f"{nodes} nodes, {name_of(Case(tiers, nodes))}",
                    f"Least with {low[0]}: {low[1].throughput / 1e6:.3f} Msample/s.", [n for n, _ in fitting],
                    {"throughput": [a.throughput for _, a in fitting]}, si_axis("/s", "samples per second"),
                    hover=[f"{a.bound}, {hit(a)}" for _, a in fitting],
                )
            )  # fmt: skip
        rows += [
            [
                f"{nodes} nodes, {name_of(Case(tiers, nodes))}", what, value,
                quantity(a.throughput, "sample_rate") if a.fits else ("does not fit", None),
                a.bound if a.fits else a.why, share(a.stall), hit(a) if a.fits else "",
            ]
            for what, value, a in here
        ]  # fmt: skip
    columns = [
        ("machine", ""), ("assumption", ""), ("value", ""), ("throughput", "sample/s"), ("bound", ""),
        ("stall", "fraction"), ("indices", ""),
    ]  # fmt: skip
    return section("assumptions", "One assumption at a time", *figures, Table("varied", columns, rows, page=8),
                   note=NOTES[1])  # fmt: skip


def hit(answer: Answer) -> str:
    """What HBM serves."""
    return f"{answer.served['hbm']:.2%} from HBM" if answer.served else "pages"


def other_sections(results: Results) -> list[Section]:
    """Accesses, demand paging, and a model that capacity does not bound."""
    skew = [
        ("access", ""), ("HBM, DDR", "number"), ("byte SCM", "number"), ("block SCM", "number"),
        ("hits in HBM, 8 nodes", "fraction"),
    ]  # fmt: skip
    pages: list[list[Cell]] = [
        [name, quantity(a.throughput, "sample_rate"), a.bound, share(a.stall)] for name, a in results.paged
    ]
    columns = [("", ""), ("throughput", "sample/s"), ("bound", ""), ("stall", "fraction")]
    others_: list[list[Cell]] = [
        [
            name_of(a.case), count(a.case.nodes),
            quantity(a.throughput, "sample_rate") if a.fits else ("does not fit", None), a.bound if a.fits else a.why,
        ]
        for a in results.others
    ]  # fmt: skip
    head = [("tiers of a node", ""), ("nodes", "number"), ("throughput", "sample/s"), ("bound", "")]
    return [
        section("skew", f"Nodes for {TARGET / 1e6:g} Msample/s by distribution of accesses",
                Table("skew-rows", skew, skew_rows(results)), note=NOTES[0]),
        section("paging", "Host memory on 16 nodes: rows ahead, on demand, and demand paging",
                Table("paged", columns, pages)),
        section("others", "A model that is not bound by capacity: Neo's model A", Table("model-a", head, others_)),
    ]  # fmt: skip


def study(results: Results) -> Study:
    """The page of some results."""
    reached = {n: r for n in list(HIERARCHIES)[2:] if (r := reduction(results.answers, n, TARGET)) is not None}
    said = ", ".join(f"{r:.1f} with {n}" for n, r in reached.items())
    takeaway = (
        f"Times fewer nodes than {BASELINE} for Neo's model F at {TARGET / 1e6:g} Msample/s: "
        f"{said or 'none reaches it'}; "
        f"published {CLAIM[1][0]:g} to {CLAIM[1][1]:g}."
    )
    parts = [headline_section(results), target_section(results), assumption_section(results), *other_sections(results)]
    return Study("Nodes by memory tiers", takeaway, claims(results), parts)


def build(workers: int) -> Study:
    """The whole study, on so many processes."""
    return study(studied(workers))


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "mtrains", arguments, workers=2)


if __name__ == "__main__":
    sys.exit(run())
