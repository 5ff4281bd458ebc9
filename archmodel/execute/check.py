"""`archmodel.check(design)`: run a small design of the same kinds and hold it against an unsharded reference.

(a) losses and all parameters equal the reference's; (b) the reference's gradients equal finite differences; (c) FLOPs,
bytes per tier, bytes per wire and buffer sizes, counted as they happen, equal the Program's on every rank for every op;
(d) the same seed gives the same bits, and other numbers of ranks the same results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archmodel.execute.batch import Samples, draw
from archmodel.execute.compare import compare_buffers, compare_ops
from archmodel.execute.coverage import tiling_problems
from archmodel.execute.execute import Designed
from archmodel.execute.listed.reference import ListedModel
from archmodel.execute.machine import WireMode
from archmodel.execute.parameters import Parameters, initial
from archmodel.execute.reference import Inputs, Model
from archmodel.execute.report import CheckReport, LayoutRow, TensorRow
from archmodel.execute.run import Execution, run_plan
from archmodel.execute.settings import Settings
from archmodel.execute.shrink import shrink
from archmodel.execute.shrinking import Small, other_layouts
from archmodel.execute.slopes import slopes
from archmodel.parallel.counts import Observed
from archmodel.parallel.lower import lower
from archmodel.parallel.placement import Placement
from archmodel.parallel.plan import Plan
from archmodel.program import Layout
from archmodel.quantities import Array
from archmodel.workloads.layered import Layered
from archmodel.workloads.recommendation import Workload

SAMPLED = 2
"""Random elements of each tensor whose gradients are compared with finite differences."""
ROUNDINGS = 4.0
"""Unit roundings of a parameter that three steps may leave on it."""
ROW_CUT = ("row_wise", "table_row_wise", "grid_wise")


def check(design: Designed, *, steps: int = 3, seed: int = 0) -> CheckReport:
    """Check a design. Raises ExecutionError for what cannot be run, and never passes on nothing."""
    return check_plan(design.workload, design.plan, design.placement, steps=steps, seed=seed)


@dataclass(frozen=True)
class _Run:
    """One layout's run beside its reference."""

    plan: Plan
    placement: Placement
    batches: list[Samples]
    execution: Execution
    model: Model
    losses: Array
    predictions: Array


def check_plan(
    workload: Workload,
    plan: Plan,
    placement: Placement,
    *,
    steps: int = 3,
    seed: int = 0,
    settings: Settings | None = None,
) -> CheckReport:
    """Check a resolved plan of a workload."""
    settings = settings or Settings()
    coverage = tiling_problems(placement)
    small = shrink(workload, plan, placement)
    coverage += [f"shrunk: {problem}" for problem in tiling_problems(small.placement)]
    names = small.workload.table_arrays.names
    start = initial(small.workload, seed)
    main = _run(small.workload, small.plan, small.placement, start, steps, seed, settings)
    again = _execute(
        small,
        main,
        start,
        [draw(small.workload, small.placement.layout.ranks, seed, s) for s in range(steps)],
        "exact",
        settings,
    )
    planned = _execute(small, main, start, main.batches, "planned", settings)
    counts = Observed.each([b.sparse for b in main.batches])
    programs = [lower(small.workload, small.plan, small.placement, c) for c in counts]
    tensors = _tensors(main, planned, start, names)
    train = workload.mode == "train"
    gradients = slopes(
        _model(small.workload, small.plan, small.placement, start, settings),
        inputs(main.batches[0]),
        names,
        SAMPLED,
        seed,
    )
    layouts = other_layouts(small.placement.layout)
    with_elements = sum(t.elements > 0 for t in tensors)
    return CheckReport(
        shrunk=small.notes,
        mode=workload.mode,
        steps=steps,
        coverage=tuple(coverage),
        ops=compare_ops(programs, main.execution.traffic),
        buffers=compare_buffers(programs, main.execution.traffic),
        losses=_losses(main, planned, train),
        results=(_result_difference(main.execution, main, train), _result_difference(planned, main, train)),
        tensors=tensors,
        gradients=gradients,
        digests=(main.execution.digest, again.digest),
        layouts=tuple(_layout_row(small, on, main, start, steps, seed, settings) for on in layouts),
        expected={
            "ops": len(programs[0].ops),
            "buffers": len(programs[0].buffers),
            "losses": steps,
            "tensors": len(start.dense) + len(names),
            "gradients": with_elements,
            "layouts": len(layouts),
        },
    )


def inputs(samples: Samples) -> Inputs:
    """A batch as the reference takes it."""
    return Inputs(samples.dense, samples.labels, samples.sparse.lengths, samples.sparse.ids)


def _run(
    workload: Workload, plan: Plan, placement: Placement, start: Parameters, steps: int, seed: int, settings: Settings
) -> _Run:
    """Execute exactly, and step the reference through the same batches."""
    batches = [draw(workload, placement.layout.ranks, seed, step) for step in range(steps)]
    execution = run_plan(workload, plan, placement, steps=steps, batches=batches, parameters=start, settings=settings)
    model = _model(workload, plan, placement, start, settings)
    predictions, losses = [], []
    for batch in batches:
        predictions.append(model.predict(inputs(batch)))
        losses.append(model.step(inputs(batch)) if workload.mode == "train" else np.nan)
    return _Run(plan, placement, batches, execution, model, np.array(losses), np.stack(predictions))


def _execute(
    small: Small, main: _Run, start: Parameters, batches: list[Samples], wires: WireMode, settings: Settings
) -> Execution:
    return run_plan(
        small.workload,
        main.plan,
        main.placement,
        steps=len(batches),
        batches=batches,
        parameters=start,
        wires=wires,
        settings=settings,
    )


def _model(workload: Workload, plan: Plan, placement: Placement, start: Parameters, settings: Settings) -> Model:
    """The reference for a placement."""
    kind = ListedModel if isinstance(workload, Layered) else Model
    return kind(
        workload=workload,
        tables=[values.copy() for values in start.tables],
        dense={name: values.copy() for name, values in start.dense.items()},
        dense_optimizer=plan.dense_optimizer,
        table_optimizers=placement.optimizer,
        column_blocks=column_blocks(placement),
        whole_tables=frozenset(int(t) for t in placement.table[placement.of_scope("replica")]),
        settings=settings,
    )


def column_blocks(placement: Placement) -> list[list[tuple[int, int]]]:
    """Column ranges that each table is cut into."""
    blocks: list[list[tuple[int, int]]] = [[] for _ in range(len(placement.tables))]
    for t, first, last in zip(placement.table, placement.column_start, placement.column_end, strict=True):
        blocks[int(t)].append((int(first), int(last)))
    return [sorted(b) for b in blocks]


def relative(values: Array, reference: Array) -> float:
    """max |values - reference| / max |reference|; inf where either is not finite; 0 for nothing."""
    if values.shape != reference.shape:
        return float("inf")
    if not values.size:
        return 0.0
    largest = float(np.abs(reference).max())
    difference = float(np.abs(values - reference).max())
    if not np.isfinite(largest) or not np.isfinite(difference):
        return float("inf")
    return difference / largest if largest else difference


def relative_update(values: Array, reference: Array, before: Array) -> float:
    """max |values - reference|, less what float64 rounding explains, relative to max |reference - before|; inf where
    the reference did not move but the values did."""
    if values.shape != reference.shape:
        return float("inf")
    if not values.size:
        return 0.0
    rounding = ROUNDINGS * float(np.finfo(np.float64).eps) * float(np.abs(reference).max())
    difference = max(float(np.abs(values - reference).max()) - rounding, 0.0)
    moved = float(np.abs(reference - before).max())
    if moved:
        return difference / moved
    return 0.0 if np.array_equal(values, before) else float("inf")


def relative_rms(values: Array, reference: Array) -> float:
    """Root mean square of values - reference relative to that of the reference; inf and 0 as in `relative`."""
    if values.shape != reference.shape:
        return float("inf")
    if not values.size:
        return 0.0
    size, difference = (float(np.sqrt(np.mean(x**2))) for x in (reference, values - reference))
    if not np.isfinite(size) or not np.isfinite(difference):
        return float("inf")
    return difference / size if size else difference


def _tensors(main: _Run, planned: Execution, start: Parameters, names: tuple[str, ...]) -> tuple[TensorRow, ...]:
    reference = Parameters(tuple(main.model.tables), main.model.dense).named(names)
    exact, wires, before = (p.named(names) for p in (main.execution.parameters, planned.parameters, start))
    return tuple(
        TensorRow(
            name,
            int(values.size),
            relative(exact[name], values) if name in exact else float("inf"),
            relative_update(exact[name], values, before[name]) if name in exact else float("inf"),
            relative_rms(wires[name], values) if name in wires else float("inf"),
            relative(before[name], values),
        )
        for name, values in reference.items()
    )


def _losses(main: _Run, planned: Execution, train: bool) -> tuple[tuple[float, float, float], ...]:
    def each(losses: Array, predictions: Array) -> Array:
        return losses if train else predictions.max(axis=1)

    columns = (
        each(main.execution.losses, main.execution.predictions),
        each(planned.losses, planned.predictions),
        each(main.losses, main.predictions),
    )
    return tuple((float(a), float(b), float(c)) for a, b, c in zip(*columns, strict=True))


def _result_difference(execution: Execution, run: _Run, train: bool) -> float:
    """Largest relative difference of probabilities and, in training, of each step's loss."""
    found = [relative(execution.predictions, run.predictions)]
    if train:
        found += [relative(a, b) for a, b in zip(execution.losses[:, None], run.losses[:, None], strict=True)]
    return max(found)


def _layout_row(
    small: Small, on: Layout, main: _Run, start: Parameters, steps: int, seed: int, settings: Settings
) -> LayoutRow:
    plan, placement = small.place(on)
    run = _run(small.workload, plan, placement, start, steps, seed, settings)
    train = small.workload.mode == "train"
    names = small.workload.table_arrays.names
    reference = Parameters(tuple(run.model.tables), run.model.dense).named(names)
    mine, theirs = run.execution.parameters.named(names), main.execution.parameters.named(names)
    from_reference = max(
        _result_difference(run.execution, run, train), *(relative(mine[n], v) for n, v in reference.items())
    )
    because = _different_mathematics(main.placement, placement)
    from_main = None
    if not because:
        found = [relative(run.execution.predictions, main.execution.predictions)]
        from_main = max(found + [relative(mine[n], theirs[n]) for n in theirs])
    return LayoutRow(
        f"{on.ranks} rank{'s' if on.ranks > 1 else ''} ({on.nodes} x {on.local_size})",
        from_reference,
        from_main,
        because,
        _same_bits(main, run),
    )


def _different_mathematics(a: Placement, b: Placement) -> str:
    """Why two placements do not train the same model; empty when they do."""
    blocks = zip(column_blocks(a), column_blocks(b), a.optimizer, strict=True)
    if any(x != y and optimizer == "rowwise_adagrad" for x, y, optimizer in blocks):
        return "row-wise Adagrad keeps its state per column block, and the blocks differ"
    whole = [set(p.table[p.of_scope("replica")].tolist()) for p in (a, b)]
    if any(a.optimizer[t] == "adam" for t in whole[0] ^ whole[1]):
        return "Adam steps every row of a replicated table, and only touched rows of another"
    return ""


def _same_bits(main: _Run, run: _Run) -> bool | None:
    """Pooled vectors of the first step, for tables whose rows neither run cuts: one order of addition, one result."""
    tables = main.placement.tables
    whole = np.array([kind not in ROW_CUT for kind in main.placement.sharding], dtype=bool)
    columns = np.repeat(whole, tables.embedding_dim) if len(tables) else np.zeros(0, dtype=bool)
    if not columns.any():
        return None
    return bool(np.array_equal(main.execution.embeddings[:, columns], run.execution.embeddings[:, columns]))
