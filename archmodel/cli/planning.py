"""The command `plan`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archmodel.cli.app import NO, as_json, commands, design_of, fail, print_json, root, seconds_of, settings
from archmodel.errors import escape, nearest

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.search.planner import Weights


@commands.command()
@click.argument("design", type=click.Path(path_type=Path), required=False)
@settings
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the plan here.")
@click.option("--budget", metavar="TIME", help="Search this long, e.g. 5s. Default: a fixed amount of search.")
@click.option("--seed", type=int, default=0, help="Of the search; the same seed gives the same plan.")
@click.option(
    "--restarts", type=click.IntRange(min=1), default=1, help="Search from so many seeds; the best plan counts."
)
@click.option("-w", "--workers", type=click.IntRange(min=1), help="Processes for restarts; default: the cores here.")
@click.option("--scheduler", metavar="ADDRESS", help="Run restarts on a Dask cluster, e.g. tcp://host:8786.")
@click.option(
    "--cost", type=click.Choice(["own", "torchrec", "learned"]), default="own", help="Whose cost to minimise."
)
@click.option("--tasks", type=click.Path(path_type=Path), help="A JSON file of planning tasks (with --cost torchrec).")
@click.option("--model", type=click.Path(path_type=Path), help="A learned cost, with --cost learned.")
@click.option("--task", help="Which of the tasks.")
@click.option("--planner", default="search", help="search, or a published one: random, size, dim, lookup, ...")
@click.option("--min-partition", type=click.IntRange(min=4), help="Fewest columns of a column-wise shard.")
@click.option(
    "--constraints",
    type=click.Path(path_type=Path),
    help="What the plan may not do: a limits file (YAML), or TorchRec's ParameterConstraints (JSON).",
)
@click.option("--exact", is_flag=True, help="Finish a small task with the exact programme (--cost torchrec).")
@click.option(
    "--weights", metavar="time=1,memory=W,nodes=W", help="What to judge plans by. Default: iteration time alone."
)
@click.option("--explain", is_flag=True, help="Say why every table is cut so, and what binds each rank.")
@click.option("--table", "tables", multiple=True, help="With --explain: these tables only.")
@click.option("--as-written", is_flag=True, help="With --explain: of the design's own plan, without a search.")
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="A B",
    help="Compare two plans: designs, or plan files for DESIGN.",
)
@as_json
@root
def plan(
    design: Path | None,
    sets: tuple[tuple[str, str], ...],
    output: Path | None,
    budget: str | None,
    seed: int,
    restarts: int,
    workers: int | None,
    scheduler: str | None,
    cost: str,
    tasks: Path | None,
    model: Path | None,
    task: str | None,
    planner: str,
    min_partition: int | None,
    constraints: Path | None,
    exact: bool,
    weights: str | None,
    explain: bool,
    tables: tuple[str, ...],
    as_written: bool,
    compare: tuple[Path, Path] | None,
    as_json: bool,
    root: Path | None,
) -> None:
    """Find the best placement of the embedding tables.

    Says how good it is by a lower bound. With DESIGN, the whole estimate is the judge; with --cost torchrec, TorchRec's
    planner cost on a task of --tasks (see docs/planner.md); with --cost learned, a cost fitted to measured sets of
    tables (see docs/learned-cost.md). Ctrl-C keeps the best plan so far. Exits with 1 when no
    plan fits.
    """
    from archmodel.report import plans
    from archmodel.search.options import NoPlan

    if compare is not None:
        _compare_plans(compare, design, sets, root, as_json)
        return
    seconds, judged = seconds_of(budget), _weights(weights)
    try:
        with plans.progress("s" if cost == "own" else "ms", quiet=as_json or as_written) as tell:
            if cost != "own" and (restarts > 1 or scheduler is not None):
                fail(f"--restarts and --scheduler are for a design under its own estimate, not for --cost {cost}")
            if cost == "learned":
                if model is None or (design is None) == (tasks is None) or (tasks is None) != (task is None):
                    fail("--cost learned needs --model FILE, and a design file or --tasks FILE with --task NAME")
                others = (constraints, judged, exact or None, explain or None, as_written or None)
                if any(o is not None for o in others) or (design is not None and planner != "search"):
                    fail("--cost learned takes no constraints, weights, --exact or --explain")
                if min_partition is not None and (design is not None or planner != "search"):
                    fail("--cost learned cuts the tables of a task, by its own search; leave --min-partition out")
                from archmodel.interop import learned

                if tasks is not None and task is not None:
                    answer = learned.plan_learned(tasks, task, model, planner, seconds, seed, tell, min_partition)
                elif design is not None:
                    loaded = design_of(design, sets, root)
                    answer = learned.plan_design_learned(loaded, model, seconds, seed, tell)
            elif cost == "torchrec":
                if not tasks or not task or design or model or judged is not None or explain:
                    fail("--cost torchrec plans a task: give --tasks FILE and --task NAME, and no design or weights")
                from archmodel.interop.run import plan_task

                answer = plan_task(tasks, task, planner, seconds, seed, min_partition, constraints, tell, exact)
            else:
                if design is None or tasks or model or exact or planner != "search":
                    fail("give a design file, or --cost torchrec with --tasks and --task")
                if as_written:
                    if not explain:
                        fail("--as-written goes with --explain")
                    _explain_plan(design_of(design, sets, root), tables, as_json)
                    return
                from archmodel.interop.run import plan_design

                answer = plan_design(
                    design_of(design, sets, root), seconds, seed, constraints, judged, tell,
                    restarts, min(workers or os.cpu_count() or 1, restarts), scheduler,
                )  # fmt: skip
    except NoPlan as error:
        click.echo(escape(str(error)), err=True)
        raise click.exceptions.Exit(NO) from None
    if output is not None:
        output.write_text(answer.text, encoding="utf-8")
        use = f"; a design takes it up with `plan: {{use: {escape(output.name)}}}`" if cost == "own" else ""
        click.echo(f"wrote {escape(str(output))}{use}", err=True)
    if explain:
        assert answer.design is not None
        if not as_json:
            plans.show(answer)
        _explain_plan(answer.design, tables, as_json, answer.summary)
    elif as_json:
        print_json(answer.summary)
    else:
        plans.show(answer)


def _explain_plan(
    design: Design, tables: tuple[str, ...], as_json: bool, summary: dict[str, Any] | None = None
) -> None:
    from dataclasses import asdict

    from archmodel.report import plans
    from archmodel.search.explain import explain

    with plans.counting(quiet=as_json) as tell:
        found = explain(design, list(tables) or None, progress=tell)
    if as_json:
        reasons = {"tables": [asdict(t) for t in found.tables], "ranks": [asdict(r) for r in found.ranks]}
        print_json({**(summary or {}), "iteration_time": found.estimate.iteration_time, "explanation": reasons})
    else:
        plans.show_explanation(found)


def _compare_plans(
    files: tuple[Path, Path], design: Path | None, sets: tuple[tuple[str, str], ...], root: Path | None, as_json: bool
) -> None:
    from archmodel.estimate.estimate import estimate
    from archmodel.interop.plan_file import with_plan
    from archmodel.report import plans
    from archmodel.search.compare import compare

    first, second = (
        design_of(f, sets, root) if design is None else with_plan(design_of(design, sets, root), f) for f in files
    )
    found = compare(estimate(first), estimate(second))
    if not as_json:
        plans.show_comparison(found, (files[0].name, files[1].name))
        return
    print_json(
        {
            "iteration_time": [found.first.iteration_time, found.second.iteration_time],
            "fits": [found.first.fits, found.second.fits],
            "memory": {k: list(v) for k, v in found.memory.items()},
            "phases": {k: list(v) for k, v in found.phases.items()},
            "tables": [{"name": d.name, "first": dict(d.first), "second": dict(d.second)} for d in found.tables],
            "same_tables": found.same,
        }
    )


def _weights(text: str | None) -> Weights | None:
    """What `--weights time=1,memory=0.2` says."""
    if text is None:
        return None
    from archmodel.search.planner import Weights

    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ("time", "memory", "nodes"):
            close = nearest(name, ["time", "memory", "nodes"], 1)
            fail(f"--weights {escape(part)}: {f'did you mean {close[0]}?' if close else 'known: time, memory, nodes'}")
        try:
            given[name] = float(value)
        except ValueError:
            fail(f"--weights {escape(part)}: {escape(value) or 'nothing'} is no number; write e.g. {name}=1")
    return Weights(**given)
