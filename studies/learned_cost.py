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

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from archmodel import catalogue, source
from archmodel.components.gpu import Gpu
from archmodel.components.multi_table import FusedKernel, TableBatch, simulate, table_batch
from archmodel.components.multi_table.simulate import Order
from archmodel.memory.access import AccessDistribution, ReuseHistogram
from archmodel.quantities import Array
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
        for count in (1, 2, 4, 8, 16, len(whole)):
            found.append(Point(case, count, sum(own[:count]) / simulate(whole[:count], machine).time))
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


def accuracy_lines(trained: Trained) -> list[str]:
    lines = [
        f"{'':34s}{'cost':16s}{'sets':>5s}{'error':>9s}{'bias':>9s}{'MSE ms^2':>11s}{'Spearman':>10s}{'Kendall':>9s}"
    ]
    for case, by_model in trained.scores.items():
        for name, s in by_model.items():
            lines.append(
                f"{case:34s}{name:16s}{s.sets:5d}{s.mape:9.1%}{s.bias:+9.1%}{s.mse_ms2:11.2e}{s.spearman:10.3f}{s.kendall:9.3f}"
            )
    return lines


def plan_lines(found: Sequence[Judged]) -> list[str]:
    lines = []
    for task in dict.fromkeys(j.task for j in found):
        here = [j for j in found if j.task == task]
        best = min(j.value for j in here if j.planner in BASELINES)
        lines.append(f"\n{task}{'':4s}(simulated; best published planner {1e3 * best:.4f} ms)")
        for j in here:
            over = f"{j.value / best - 1.0:+7.1%}  min/max {j.balance:5.1%}"
            lines.append(f"  {j.planner:36s}{1e3 * j.value:9.4f} ms  {over}  predicted {1e3 * j.predicted:9.4f} ms")
    lines.append("\ntime saved by the learned cost, task by task, over")
    for name, saved in gains(found).items():
        each = ", ".join(f"{g:.1%}" for g in saved)
        lines.append(f"  {name:38s}{each}; median {np.median(saved):.1%}")
    return lines


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


def page(trained: Trained, points: Sequence[Point], found: Sequence[Judged]) -> str:
    """One HTML page: how sums are off, predictions, plans."""
    from plotly import graph_objects as go
    from plotly.io import to_html

    off = go.Figure(layout={"title": "sum of the tables' own times over the time of the set (26 tables, 32 columns)"})
    for case in dict.fromkeys(p.case for p in points):
        here = [p for p in points if p.case == case]
        off.add_scatter(x=[p.tables for p in here], y=[p.ratio for p in here], name=case)
    off.update_xaxes(title="tables in the set")
    fits = go.Figure(layout={"title": "learned cost over simulated time, sets that were not fitted"})
    for case, (seconds, predicted) in trained.predicted.items():
        fits.add_scatter(x=1e3 * seconds, y=predicted / seconds, mode="markers", name=case)
    fits.update_xaxes(type="log", title="simulated ms")
    errors = go.Figure(layout={"title": "mean absolute relative error", "barmode": "group"})
    for model in ("learned", "linear", "sum of singles"):
        errors.add_bar(x=list(trained.scores), y=[by[model].mape for by in trained.scores.values()], name=model)
    errors.update_yaxes(type="log", tickformat=".0%")
    slowest = go.Figure(layout={"title": "slowest GPU of each plan, simulated (ms)", "barmode": "group"})
    for planner in dict.fromkeys(j.planner for j in found):
        here_ = [j for j in found if j.planner == planner]
        slowest.add_bar(x=[j.task for j in here_], y=[1e3 * j.value for j in here_], name=planner)
    parts = [
        "<!doctype html><meta charset='utf-8'><title>A learned cost of sets of tables</title>",
        "<h1>A learned cost of sets of tables</h1>",
        "<p>All times come from an event-driven simulator of one fused lookup kernel and its update on a V100; "
        "it is not fitted to a measured kernel.</p>",
        "<ul>" + "".join(f"<li>{where}: {what}</li>" for where, what in CLAIMS) + "</ul>",
    ]
    for index, figure in enumerate((off, fits, errors, slowest)):
        parts.append(to_html(figure, full_html=False, include_plotlyjs=index == 0, div_id=f"figure{index}"))
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("learned_cost.html"), help="the page to write")
    chosen = parser.parse_args(arguments)
    begin = time.perf_counter()
    tables = pool()
    print(
        f"{len(set(tables.origin.tolist()))} tables, {len(tables.tables)} shards, batch {BATCH:,}; "
        "simulated, not measured"
    )
    trained = train(tables)
    print("\n".join(accuracy_lines(trained)))
    points = saturation(tables)
    print("\nsum of single tables over the set")
    for case in dict.fromkeys(p.case for p in points):
        print(f"  {case:34s}" + "".join(f"{p.tables:4d}: {p.ratio:.2f}" for p in points if p.case == case))
    found = plans(tables, trained)
    print("\n".join(plan_lines(found)))
    print("\npublished")
    for where, what in CLAIMS:
        print(f"  {where}: {what}")
    chosen.output.write_text(page(trained, points, found), encoding="utf-8")
    print(f"\nfigures in {chosen.output}; {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
