"""A learned cost of sets of tables (AutoShard): how well it predicts, how it transfers, what its plans are worth.

    python studies/learned_cost.py [-o learned_cost.html]

No measured cost table is public, so every time here comes from archmodel.components.multi_table, an event-driven
simulator of one fused lookup kernel and its update on a V100, which is not fitted to any measured kernel. What is shown
is how the method works on costs that do not add up, not how fast a V100 is.

Tables are those of public models (designs/workloads): MLPerf DCNv2 and DLRM v1, NVIDIA's small and large DLRM, RMC1 to
RMC3, with their rows and pooling. Rows are drawn as each workload says, or for NVIDIA's and MLPerf v1's, whose skew is
not public, by the reuse that Meta published of its own tables. Each table also stands as its column-wise shards of 16,
32, 64 and 128 columns, as NeuroShard augments tables. By falling rows every second table of a workload is never trained
on ("unseen").
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from _page import Claim, Study, main, section

from archmodel import catalogue, source
from archmodel.components.gpu import Gpu
from archmodel.components.multi_table import FusedKernel, TableBatch, simulate, table_batch
from archmodel.components.multi_table.simulate import Order
from archmodel.memory.access import AccessDistribution, ReuseHistogram
from archmodel.quantities import Array
from archmodel.report.html import palette
from archmodel.report.html.charts import across, bars, curves, ticked
from archmodel.report.html.figure import Figure, seconds_axis
from archmodel.report.html.page import Section
from archmodel.report.html.table import Cell, Table, count, quantity, share
from archmodel.report.html.text import label
from archmodel.search.baselines import BASELINES, baseline
from archmodel.search.learned import Fitted, TableFeatures, TableSets, fit, place, place_cut
from archmodel.search.learned.fit import compare, singles
from archmodel.search.learned.measurements import of_lists
from archmodel.search.learned.model import SetCost
from archmodel.search.learned.place import search
from archmodel.search.learned.scores import Score
from archmodel.search.options import IntArray, NoPlan, Options
from archmodel.search.tasks import Task
from archmodel.search.torchrec import Topology
from archmodel.workloads.recommendation import WorkloadFamily

DEVICE = "devices/v100_sxm2_16gb.yaml"
"""AutoShard's GPU has 6 MB of L2: a V100."""
BATCH = 4096
"""Samples; AutoShard has 65,536, where this simulator's kernels are all but saturated (see `saturation`)."""
WORKLOADS: dict[str, tuple[int | None, int | None]] = {
    "mlperf_dcnv2": (None, None),
    "mlperf_dlrm_v1": (2022, None),
    "nvidia_dlrm_small": (2021, None),
    "nvidia_dlrm_large": (2022, None),
    "deeprecsys_rmc1": (None, 2),
    "deeprecsys_rmc2": (None, 2),
    "deeprecsys_rmc3": (None, 2),
}
"""Year of Meta's published reuse that rows are drawn by (None: as the workload says), and how many of the tables
(None: all; those of an RMC are all alike)."""
NARROWEST = 16
TRAIN_SETS, TEST_SETS = 320, 60
FEW, MANY = (2, 12), (16, 24)
"""Tables of a set: as trained, and more than were ever trained on."""
MEMORY = 16e9 * 0.85
"""Bytes for tables on each GPU, for fp16 weights without optimizer state (SGD)."""
OUTWEIGHS = 0.5
"""Tables of more than this share of a GPU's mean load (in sums of singles) are left out of random tasks."""
THREADS = 2
SUMS, LINEAR, OURS = "searched, sum of singles", "searched, linear cost", "searched, learned cost"
CUTS = "searched, learned cost, columns cut"
CLAIMS = (
    ("AutoShard (KDD 2022, arXiv 2208.06399), abstract", "better than the heuristics on a data set of synthetic tables "
     "and in production; transfers to other numbers of tables and to unseen ones; its tables of results are not public "
     "in a form that we could read, so no figure is compared"),
    ("DreamShard (NeurIPS 2022), abstract", "up to 19 % faster than the strongest baseline"),
    ("NeuroShard (MLSys 2023), abstract", "up to 23.8 % better than the state of the art"),
)  # fmt: skip


# --- tables -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Shards (T,): one batch each, which table each is cut from, and whether it may be trained on."""

    batches: tuple[TableBatch, ...]
    tables: TableFeatures
    origin: IntArray
    seen: Any

    def which(self, name: str) -> IntArray:
        """Shards of a workload."""
        return np.flatnonzero([n.startswith(name + "/") for n in self.tables.names])


def tree(path: str) -> Any:
    return source.read(catalogue.find(path), catalogue=catalogue.directory())


@cache
def kernel() -> FusedKernel:
    return FusedKernel.of(source.validate(Gpu, tree(DEVICE)))


@cache
def meta(year: int) -> ReuseHistogram:
    return source.validate(ReuseHistogram, tree(f"access/meta_dlrm_{year}.yaml"))


def drawn(workload: str, batch: int) -> list[tuple[str, TableBatch, bool]]:
    """Name, batch and seen of every table of a workload, by falling rows."""
    document = tree(f"workloads/{workload}.yaml")
    tables = source.validate(WorkloadFamily.resolve(document["kind"]), document).table_arrays
    year, count = WORKLOADS[workload]
    order = np.argsort(-tables.num_embeddings[:count], kind="stable").tolist()

    def one(place: int) -> tuple[str, TableBatch, bool]:
        t = order[place]
        access: AccessDistribution = (
            tables.distributions[int(tables.distribution_of[t])] if year is None else meta(year)
        )
        found = table_batch(
            access,
            rows=int(tables.num_embeddings[t]),
            columns=int(tables.embedding_dim[t]),
            pooling=float(tables.pooling_factor[t]),
            batch=batch,
            seed=1000 * list(WORKLOADS).index(workload) + t,
        )
        return f"{workload}/{tables.names[t]}", found, place % 2 == 0

    return together(one, range(len(order)))


def shards(name: str, whole: TableBatch) -> list[tuple[str, TableBatch]]:
    """A table and its column-wise shards, by halves; they share one stream of rows."""
    shared = {key: getattr(whole, key) for key in ("reuse", "bins", "by_row")}
    found, columns = [], whole.columns
    while columns >= NARROWEST:
        shard = replace(whole, columns=columns)
        shard.__dict__.update(shared)
        found.append((f"{name}:{columns}", shard))
        columns //= 2
    return found


def pool(batch: int = BATCH, workloads: Sequence[str] = tuple(WORKLOADS)) -> Pool:
    names, batches, origin, seen = [], [], [], []
    tables = [table for workload in workloads for table in drawn(workload, batch)]
    for number, (name, whole, may) in enumerate(tables):
        for shard, one in shards(name, whole):
            names.append(shard)
            batches.append(one)
            origin.append(number)
            seen.append(may)
    features = TableFeatures(
        tuple(names),
        np.array([b.rows for b in batches]),
        np.array([b.columns for b in batches]),
        np.array([b.pooling for b in batches]),
        np.stack([b.bins for b in batches]),
    )
    return Pool(tuple(batches), features, np.array(origin), np.array(seen))


# --- simulated measurements -----------------------------------------------------------------------------------------


def together(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Of every item, on two threads (compiled loops and numpy leave each other alone)."""
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(function, items))


def measured(tables: Pool, sets: Sequence[IntArray]) -> TableSets:
    """Simulated seconds of sets."""
    seconds = together(lambda s: simulate([tables.batches[t] for t in s], kernel()).time, sets)
    return of_lists(sets, seconds, len(tables.tables), BATCH)


def sample(
    tables: Pool, among: IntArray, size: tuple[int, int], count: int, rng: np.random.Generator
) -> list[IntArray]:
    """Random sets of shards, no two of one table."""
    found = []
    for _ in range(count):
        mixed = rng.permutation(among)
        first = np.sort(np.unique(tables.origin[mixed], return_index=True)[1])
        found.append(mixed[first[: int(rng.integers(size[0], size[1] + 1))]])
    return found


@dataclass(frozen=True)
class Trained:
    """What was fitted, every shard's own time, and scores by case and model."""

    fitted: Fitted
    alone: Array
    scores: dict[str, dict[str, Score]]
    predicted: dict[str, tuple[Array, Array]]


def train(tables: Pool, seed: int = 0) -> Trained:
    rng = np.random.default_rng(seed)
    seen, unseen = np.flatnonzero(tables.seen), np.flatnonzero(~tables.seen)
    alone = measured(tables, [np.array([t]) for t in range(len(tables.tables))])
    several = measured(tables, sample(tables, seen, FEW, TRAIN_SETS, rng))
    own = alone.of(seen)
    sets = [own.member[s : s + 1] for s in range(len(own))]
    sets += [several.member[a:b] for a, b in zip(several.start[:-1], several.start[1:], strict=True)]
    joined = of_lists(sets, np.concatenate([own.seconds, several.seconds]), len(tables.tables), BATCH)
    found = fit(tables.tables, joined, seed=seed)
    cases = {
        f"seen tables, {FEW[0]}-{FEW[1]} a set": (seen, FEW),
        f"unseen tables, {FEW[0]}-{FEW[1]} a set": (unseen, FEW),
        f"seen tables, {MANY[0]}-{MANY[1]} a set": (seen, MANY),
        f"unseen tables, {MANY[0]}-{MANY[1]} a set": (unseen, MANY),
    }
    times = singles(alone)
    scores: dict[str, dict[str, Score]] = {"left out of the fit": dict(found.scores["left_out"])}
    predicted = {}
    for name, (among, size) in cases.items():
        test = measured(tables, sample(tables, among, size, TEST_SETS, rng))
        scores[name] = compare(found.model, found.linear, times, tables.tables, test)
        predicted[name] = test.seconds, found.model.predict(tables.tables, test.matrix)
    return Trained(found, times, scores, predicted)


@dataclass(frozen=True)
class Point:
    """Tables in a set, and the sum of their own times over the time of the set."""

    case: str
    tables: int
    ratio: float


def saturation(tables: Pool) -> list[Point]:
    """How far sums of single tables are off by batch (one lookup a table and sample), and where many tables compete for
    the cache (DCNv2's lookups, blocks by table and then bag or the other way round); 32 columns."""
    cases: list[tuple[str, list[TableBatch], FusedKernel]] = []
    for batch in (4096, 16384, 65536):
        whole = [replace(b, columns=32) for _, b, _ in drawn("nvidia_dlrm_small", batch)]
        cases.append((f"one lookup, batch {batch:,}", whole, kernel()))
    dcn = [tables.batches[t] for t in tables.which("mlperf_dcnv2") if tables.tables.dim[t] == 32]
    orders: tuple[Order, Order] = ("table", "bag")
    for order in orders:
        cases.append((f"DCNv2, blocks by {order}", dcn, replace(kernel(), order=order)))
    found = []
    for case, whole, machine in cases:
        own = together(lambda b, m=machine: simulate([b], m).time, whole)
        for n in (1, 2, 4, 8, 16, len(whole)):
            found.append(Point(case, n, sum(own[:n]) / simulate(whole[:n], machine).time))
    return found


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A plan of a task: what the slowest GPU is predicted to take (by sums of singles for the search on those, by the
    learned cost for all others), and what the simulator says of all GPUs."""

    task: str
    planner: str
    predicted: float
    ranks: Array

    @property
    def value(self) -> float:
        return float(self.ranks.max())

    @property
    def balance(self) -> float:
        """Fastest over slowest GPU: AutoShard's degree of balance."""
        return float(self.ranks.min() / self.ranks.max())


def tasks(tables: Pool, alone: Array, seed: int = 1) -> dict[str, tuple[IntArray, int]]:
    """Shards and GPUs of each task."""
    rng = np.random.default_rng(seed)
    dcn = tables.which("mlperf_dcnv2")
    dim = tables.tables.dim
    found = {
        "DCNv2 cut to 32 columns, 8 GPUs": (np.repeat(dcn[dim[dcn] == 32], 4), 8),
        "DCNv2 cut to 16 columns, 16 GPUs": (np.repeat(dcn[dim[dcn] == 16], 8), 16),
        "DCNv2 whole, 8 GPUs": (dcn[dim[dcn] == 128], 8),
        "DCNv2 whole, 16 GPUs": (dcn[dim[dcn] == 128], 16),
    }
    everything, unseen = np.arange(len(tables.tables)), np.flatnonzero(~tables.seen)
    for name, among, size, ranks in (("mixed", everything, 80, 8), ("unseen", unseen, 40, 4)):
        for k in range(3):
            (drawn_,) = sample(tables, among, (len(tables.tables),) * 2, 1, rng)
            order = drawn_[np.argsort(-alone[drawn_], kind="stable")]
            chosen = rng.permutation(order)[:size]
            # tables that come near a GPU's share leave nothing to a planner
            while len(order) > size and alone[chosen].max() > OUTWEIGHS * alone[chosen].sum() / ranks:
                order = order[1:]
                chosen = rng.permutation(order)[:size]
            found[f"{size} {name} tables, {ranks} GPUs ({k})"] = (chosen, ranks)
    return found


def judged(tables: Pool, trained: Trained, name: str, chosen: IntArray, ranks: int) -> list[Judged]:
    """Every planner's plan of one task, run in the simulator."""
    mine = tables.tables.of(chosen)
    names = tuple(f"{n}#{i}" for i, n in enumerate(mine.names))
    mine = replace(mine, names=names)
    memory = (mine.rows * mine.dim * 2.0)[:, None]
    limits = np.full((ranks, 1), MEMORY)
    task = Task(name, names, mine.rows, mine.dim, mine.pooling, BATCH // ranks, Topology(ranks, ranks, MEMORY, 0.0))
    model, alone = trained.fitted.model, trained.alone[chosen]
    one = np.zeros(1, dtype=np.int64)
    options = Options(
        names, ranks, ranks, ("table_wise",), ("fused",), one, np.ones((len(mine), 1), dtype=np.int64),
        mine.dim[:, None], alone[:, None], memory[:, None], limits,
    )  # fmt: skip
    parts = model.parts(mine)
    homes: dict[str, IntArray] = {}
    for planner in BASELINES:
        try:
            homes[planner] = np.array([h[0] for h in baseline(planner, task, options, 0).homes])
        except NoPlan:
            continue
    linear = np.maximum(trained.fitted.linear.each(mine), 0.0)
    for planner, each in ((SUMS, alone), (LINEAR, linear)):
        homes[planner] = search(each[:, None], lambda s: s[..., 0], memory, limits, names=names)[0]
    homes[OURS] = place(model, mine, ranks, memory, limits).home
    found = []
    for planner, home in homes.items():
        sets = [chosen[home == r] for r in range(ranks)]
        seconds = np.array(together(lambda s: simulate([tables.batches[t] for t in s], kernel()).time, sets))
        if planner == SUMS:
            predicted = max(float(alone[home == r].sum()) for r in range(ranks))
        else:
            predicted = float(model.of(np.stack([parts[home == r].sum(0) for r in range(ranks)])).max())
        found.append(Judged(name, planner, predicted, seconds))
    return [*found, with_cuts(tables, model, name, mine, chosen, ranks)]


def with_cuts(tables: Pool, model: SetCost, name: str, mine: TableFeatures, chosen: IntArray, ranks: int) -> Judged:
    """The plan in which tables may be cut by columns; a shard of a shard is one of its table's, so it is simulated."""
    width = mine.rows * 2.0
    cut = place_cut(
        model, mine, ranks, lambda pieces: (width * (mine.dim // pieces))[:, None], np.full((ranks, 1), MEMORY),
        least=NARROWEST,
    )  # fmt: skip
    shards = []
    for t in cut.table.tolist():
        whole = tables.batches[chosen[t]]
        shard = replace(whole, columns=whole.columns // int(cut.pieces[t]))
        shard.__dict__.update({key: getattr(whole, key) for key in ("reuse", "bins", "by_row")})
        shards.append(shard)
    sets = [[shards[s] for s in np.flatnonzero(cut.placed.home == r)] for r in range(ranks)]
    seconds = np.array(together(lambda s: simulate(s, kernel()).time, sets))
    return Judged(name, CUTS, cut.placed.value, seconds)


def plans(tables: Pool, trained: Trained) -> list[Judged]:
    return [j for name, (chosen, ranks) in tasks(tables, trained.alone).items()
            for j in judged(tables, trained, name, chosen, ranks)]  # fmt: skip


# --- output -----------------------------------------------------------------------------------------------------------


def gains(found: Sequence[Judged]) -> dict[str, list[float]]:
    """Time that the learned cost saves, task by task: of the best of AutoShard's greedies, of the best published
    planner (with Karmarkar-Karp, which is given every table's own simulated time), and of the same search on additive
    costs."""
    by_task: dict[str, dict[str, float]] = {}
    for j in found:
        by_task.setdefault(j.task, {})[j.planner] = j.value
    greedies = [p for p in BASELINES if p != "karmarkar_karp"]
    cuts = [1.0 - values[CUTS] / values[OURS] for values in by_task.values()]
    against = {
        "the best greedy": greedies,
        "the best published planner": list(BASELINES),
        "the search on sums of singles": [SUMS],
        "the search on the linear cost": [LINEAR],
    }
    saved = {
        name: [1.0 - values[OURS] / min(values[p] for p in planners if p in values) for values in by_task.values()]
        for name, planners in against.items()
    }
    return {**saved, "tables left whole, by cutting columns": cuts}


def sums_section(points: Sequence[Point]) -> Section:
    """How far sums of single tables are off."""
    series = {
        case: ([p.tables for p in points if p.case == case], [p.ratio for p in points if p.case == case])
        for case in dict.fromkeys(p.case for p in points)
    }
    worst = max(points, key=lambda p: p.ratio)
    said = f"{worst.tables} tables take 1/{worst.ratio:.1f} of the sum of their own times ({worst.case})."
    figure = curves(
        "sums", "Sum of the tables' own times over the time of the set, 32 columns", said, series,
        {"title": {"text": "tables in the set"}}, {"title": {"text": "times"}},
    )  # fmt: skip
    counts = list(dict.fromkeys(p.tables for p in points))
    by = {(p.case, p.tables): p.ratio for p in points}
    rows: list[list[Cell]] = [
        [case, *((f"{by[case, n]:.2f}", by[case, n]) if (case, n) in by else ("", None) for n in counts)]
        for case in series
    ]
    columns = [("case", ""), *((f"{n} tables", "number") for n in counts)]
    return section("sums-of-singles", "Why a sum is not enough", figure, Table("sums-table", columns, rows))


def accuracy_section(trained: Trained) -> Section:
    """How well costs predict sets that were not fitted."""
    names = list(trained.scores)
    mape = {m: [100 * by[m].mape for by in trained.scores.values()] for m in ("learned", "linear", "sum of singles")}
    said = (
        f"The learned cost is {min(mape['learned']):.1f} to {max(mape['learned']):.1f} % off, a linear one "
        f"{min(mape['linear']):.0f} to {max(mape['linear']):.0f} %, sums of singles "
        f"{min(mape['sum of singles']):.0f} to {max(mape['sum of singles']):.0f} %."
    )
    errors = bars("errors", "Mean absolute relative error", said, names, mape, {"type": "log", "ticksuffix": " %"})
    data = [
        {
            "type": "scatter", "mode": "markers", "name": label(case), "x": seconds, "y": predicted / seconds,
            "marker": {"size": 5, "color": palette.SERIES[i]},
        }
        for i, (case, (seconds, predicted)) in enumerate(trained.predicted.items())
    ]  # fmt: skip
    far = max(float(np.max(np.abs(p / s - 1))) for s, p in trained.predicted.values())
    layout = {"xaxis": ticked({"type": "log", **seconds_axis("simulated")}), "yaxis": {"title": {"text": "times"}},
              "showlegend": True, "hovermode": "closest", **across({"equal": 1.0})}  # fmt: skip
    fits = Figure("fits", "Learned cost over simulated time", f"No set is further off than {far:.0%}.", data, layout)
    rows: list[list[Cell]] = [
        [
            case, model, count(s.sets), share(s.mape, 1), share(s.bias, 1, signed=True),
            (f"{s.mse_ms2:.2e}", s.mse_ms2), (f"{s.spearman:.3f}", s.spearman), (f"{s.kendall:.3f}", s.kendall),
        ]
        for case, by in trained.scores.items() for model, s in by.items()
    ]  # fmt: skip
    columns = [
        ("sets", ""), ("cost", ""), ("number", "number"), ("error", "fraction"), ("bias", "fraction"),
        ("MSE", "ms^2"), ("Spearman", "number"), ("Kendall", "number"),
    ]  # fmt: skip
    return section("accuracy", "Predictions of sets that were not fitted", errors, fits, Table("scores", columns, rows))


def plans_section(found: Sequence[Judged]) -> Section:
    """Plans run in the simulator."""
    names = list(dict.fromkeys(j.task for j in found))
    planners = list(dict.fromkeys(j.planner for j in found))
    by = {(j.task, j.planner): j for j in found}
    best = {t: min(by[t, p].value for p in BASELINES if (t, p) in by) for t in names}
    shown = ("size_lookup", "karmarkar_karp", SUMS, LINEAR, OURS, CUTS)
    series = {
        p.replace("_", " "): [by[t, p].value / best[t] if (t, p) in by else float("nan") for t in names] for p in shown
    }
    saved = gains(found)["the best published planner"]
    said = (
        f"Plans by the learned cost take {min(saved):.1%} to {max(saved):.1%} less time than the best published "
        f"planner's, in the middle {np.median(saved):.1%}."
    )
    figure = bars(
        "plans", "Slowest GPU of each plan over that of the best published planner, simulated", said, names, series,
        {"title": {"text": "times"}}, marks={"": 1.0}, note="Two of the published planners; the table has all.",
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            j.task, j.planner, quantity(j.value, "seconds"), share(j.value / best[j.task] - 1, 1, signed=True),
            share(j.balance, 1), quantity(j.predicted, "seconds"),
        ]
        for t in names for p in planners if (t, p) in by for j in (by[t, p],)
    ]  # fmt: skip
    columns = [
        ("task", ""), ("planner", ""), ("slowest GPU", "s"), ("over the best published", "fraction"),
        ("fastest over slowest GPU", "fraction"), ("predicted", "s"),
    ]  # fmt: skip
    less: list[list[Cell]] = [
        [name, ", ".join(f"{x:.1%}" for x in each), share(float(np.median(each)), 1)]
        for name, each in gains(found).items()
    ]
    saving = Table("saved", [("less time than", ""), ("task by task", ""), ("median", "fraction")], less)
    return section("planned", "Plans", figure, saving, Table("plans-table", columns, rows, page=9))


def claims(trained: Trained, points: Sequence[Point], found: Sequence[Judged]) -> list[Claim]:
    """What was published, what comes out, and why."""
    saved = gains(found)
    unseen = [by["learned"] for case, by in trained.scores.items() if case.startswith("unseen")]
    at = {p.case: p.ratio for p in points}
    texts = [f"{where}: {what}." for where, what in CLAIMS]
    return [
        Claim(
            texts[0],
            f"Sets of tables that were never fitted are predicted to {', '.join(f'{s.mape:.1%}' for s in unseen)}, "
            "with a "
            f"rank correlation (Kendall) of {', '.join(f'{s.kendall:.2f}' for s in unseen)}. Plans take a median "
            f"{np.median(saved['the best greedy']):.1%} less time than the best of the paper's greedies.",
            "Costs are simulated, without noise and exchanges, by a kernel that is not fitted to a measured one. "
            "Tables are "
            "mostly one-hot Criteo tables; AutoShard's are 856 of Meta's, whose features are not public. It searches "
            "by "
            "reinforcement learning, we by moves and swaps on the predicted cost.",
        ),
        Claim(
            " ".join(texts[1:]),
            f"A median {np.median(saved['the best published planner']):.1%} less time than the best of six published "
            f"planners on {len(saved['the best greedy'])} tasks, {max(saved['the best published planner']):.1%} at "
            "most.",
            "Both measure exchanges too, which are left out here. The batch of "
            f"{BATCH:,} is small, so that sums are far off ({max(at.values()):.1f} times for 26 tables of one lookup); "
            "at "
            "AutoShard's 65,536 little would be left to learn.",
        ),
    ]  # fmt: skip


def study(tables: Pool, trained: Trained, points: Sequence[Point], found: Sequence[Judged]) -> Study:
    """The page of what was simulated."""
    learned = trained.scores["left out of the fit"]["learned"].mape
    saved = gains(found)["the best published planner"]
    return Study(
        "A learned cost of sets of tables",
        f"On {len(set(tables.origin.tolist()))} public tables in {len(tables.tables)} shards, simulated and not "
        "measured, "
        f"the learned cost is {learned:.1%} off and its plans take a median {np.median(saved):.1%} less time than the "
        "best "
        "published planner's.",
        claims(trained, points, found),
        [sums_section(points), accuracy_section(trained), plans_section(found)],
    )


def build() -> Study:
    """The whole study."""
    tables = pool()
    trained = train(tables)
    return study(tables, trained, saturation(tables), plans(tables, trained))


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return main(__doc__, build, "learned_cost", arguments)


if __name__ == "__main__":
    sys.exit(run())
