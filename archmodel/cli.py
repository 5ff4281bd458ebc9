"""The command `archmodel`. Results go to standard output, everything else to standard error.

Exit codes: 0 fine; 1 the design does not fit, or a check failed; 2 bad input; 130 interrupted; 141 the reader of the
output went away.
Each command imports what it needs when it runs, so that `archmodel --help` is immediate.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from archmodel import __version__
from archmodel.errors import ArchmodelError, escape, nearest

if TYPE_CHECKING:
    from archmodel.design import Design
    from archmodel.estimate.result import Estimate
    from archmodel.search.planner import Weights
    from archmodel.system import System

FINE, NO, BAD_INPUT, INTERRUPTED, READER_GONE = 0, 1, 2, 130, 141
_COLLECT = 50_000
"""Allocations between two searches for cyclic garbage: at the usual 700 they take a tenth of a short command."""


class Commands(click.Group):
    """Click's group, with our exit codes and the nearest name for a mistyped command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            close = nearest(name, self.list_commands(ctx), 1)
            meant = f" did you mean {close[0]}?" if close else f" known: {', '.join(self.list_commands(ctx))}"
            raise click.UsageError(f"no command {escape(name)};{meant}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except ArchmodelError as error:
            fail(str(error))
        except OSError as error:
            raise click.exceptions.Exit(_after(error)) from None
        return result

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        try:
            extra["standalone_mode"] = False
            code = super().main(args, *rest, **extra)
        except click.Abort:
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        except click.ClickException as error:
            error.show()
            code = BAD_INPUT
        sys.exit(code if isinstance(code, int) else FINE)


def _after(error: OSError) -> int:
    """What is left to do when standard output or a file to write fails."""
    if error.errno == errno.EPIPE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing to flush to at exit
        return READER_GONE
    click.echo(escape(f"{error.filename or 'output'}: {error.strerror or error}"), err=True)
    return BAD_INPUT


def fail(message: str) -> NoReturn:
    """Says what is wrong on standard error and exits as bad input does."""
    click.echo(message, err=True)
    raise click.exceptions.Exit(BAD_INPUT)


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without "·" gets "?", no traceback
    gc.set_threshold(_COLLECT)
    try:
        commands()
    finally:
        gc.freeze()  # all memory goes back anyway: searching it for garbage at exit takes a tenth of a short command


class Setting(click.ParamType[tuple[str, str]]):
    """`path=value`."""

    name = "path=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        path, equals, text = str(value).partition("=")
        if not (equals and path.strip()):
            self.fail(f'{escape(repr(value))} is not path=value, e.g. system.node.nic.bandwidth="400 Gbit/s"')
        return path.strip(), text.strip()


design_file = click.argument("design", type=click.Path(path_type=Path))
settings = click.option(
    "--set",
    "sets",
    multiple=True,
    type=Setting(),
    help='Change a value: --set system.node.nic.bandwidth="400 Gbit/s". May be repeated.',
)
root = click.option("--root", type=click.Path(path_type=Path), help="A directory that `use:` may not leave.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object in SI units.")


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="archmodel")
def commands() -> None:
    """Predict what a machine does with a model under a parallel plan, and what bounds it.

    A design file names all three. See docs/design-files.md, or start from one that `archmodel catalogue` lists.
    """


@commands.command()
@design_file
@settings
@as_json
@click.option("--ops", "-v", is_flag=True, help="Also list every op.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the timeline for Perfetto (.json or .json.gz).",
)
@root
def evaluate(
    design: Path,
    sets: tuple[tuple[str, str], ...],
    as_json: bool,
    ops: bool,
    trace: Path | None,
    root: Path | None,
) -> None:
    """Predict time, memory, energy and cost.

    Prints what DESIGN takes and what bounds it. Exits with 1 when it does not fit.
    """
    from archmodel.estimate.estimate import estimate

    answer = estimate(_load(design, sets, root))
    if trace is not None:
        from archmodel.report import trace as perfetto

        shown = perfetto.write(answer, trace)
        click.echo(f"wrote {escape(str(trace))} ({shown}); open it at ui.perfetto.dev", err=True)
    if as_json:
        from archmodel.report.as_json import to_dict

        _print_json(to_dict(answer))
    else:
        from archmodel.report.terminal import show_estimate

        show_estimate(answer, path=str(design), ops=ops)
    _must_fit(answer)


def overflows(answer: Estimate) -> list[str]:
    """One sentence for every tier that holds too much: by how much, where, and what takes it."""
    from archmodel.report.ranks import on_rank
    from archmodel.report.terminal import makeup
    from archmodel.report.words import data

    lines = []
    for tier, need in answer.memory.items():
        if need.fits:
            continue
        where, times = f"rank {need.worst_rank}", 1
        if need.shared:
            where, times = f"node {need.worst_rank // need.devices}", need.devices
        least = on_rank(need.capacity, need.worst_rank)
        lines.append(
            f"does not fit: {tier} of {where} needs {data(times * need.worst)} of {data(times * least)} "
            f"({', '.join(makeup(need, times))}); {need.remedy}{_room_elsewhere(answer, tier)}"
        )
    return lines


def _room_elsewhere(answer: Estimate, tier: str) -> str:
    """What other memories have left on the rank that needs most there: `, ddr has 120 GB to spare`."""
    import numpy as np

    from archmodel.report.ranks import on_rank
    from archmodel.report.words import data

    spare = {
        other: float(np.min(np.asarray(need.capacity))) - on_rank(need.need, need.worst_rank)
        for other, need in answer.memory.items()
        if other != tier
    }
    found = [f"{other} of a rank has {data(amount)} to spare" for other, amount in spare.items() if amount > 0]
    return f"; {', '.join(found)}" if found else "; no other memory has room"


@commands.command()
@design_file
@settings
@as_json
@root
def check(design: Path, sets: tuple[tuple[str, str], ...], as_json: bool, root: Path | None) -> None:
    """Prove the estimate's bytes by running them.

    Runs a shrunk DESIGN in numpy: results against an unsharded reference, every byte against the estimate. Exits with 1
    when anything differs.
    """
    from archmodel.execute.check import check as run_check

    report = run_check(_load(design, sets, root))
    if as_json:
        from archmodel.report.as_json import finite

        _print_json(finite(report.to_dict()))
    else:
        for line in report.lines():
            click.echo(line)
    if not report.passed:
        click.echo("the check failed", err=True)
        raise click.exceptions.Exit(NO)


page_file = click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The page, e.g. report.html."
)


@commands.command()
@click.argument("path", metavar="DESIGN|TABLE", type=click.Path(path_type=Path))
@page_file
@settings
@root
def report(path: Path, output: Path, sets: tuple[tuple[str, str], ...], root: Path | None) -> None:
    """Draw a design, or the table of a sweep or search, as one page.

    The page needs no network: timeline, where the time goes, roofline, balance, memory, traffic, levers, plan, sources;
    of a table (a folder that a sweep wrote, or a parquet file), trade-offs and axes. Exits with 1 when a design does
    not fit.
    """
    from archmodel.report.html import opening

    if opening.is_table(path):
        if sets:
            fail("--set changes a design; the points of a table are there already")
        from archmodel.report.html.sweep import sweep as page_of

        page_of(opening.open_table(path)).write(output)
        _wrote(output)
        return
    from archmodel.estimate.estimate import estimate
    from archmodel.report.html.report import report as page

    answer = estimate(_load(path, sets, root))
    page(answer).write(output)
    _wrote(output)
    _must_fit(answer)


@commands.command()
@click.argument("designs", nargs=-1, required=True, type=click.Path(path_type=Path))
@page_file
@settings
@root
def compare(designs: tuple[Path, ...], output: Path, sets: tuple[tuple[str, str], ...], root: Path | None) -> None:
    """Draw designs side by side, differences first.

    The first of DESIGNS is what the others are held against. --set changes all but the first; of a single design, the
    page compares it with itself changed.
    """
    from archmodel.estimate.estimate import estimate
    from archmodel.report.html.compare import compare as page

    if len(designs) == 1 and not sets:
        fail("one design; name another, or change it with --set")
    paths = designs if len(designs) > 1 else (designs[0], designs[0])
    answers = [estimate(_load(path, sets if i else (), root)) for i, path in enumerate(paths)]
    changed = " ".join(f"{where}={value}" for where, value in sets)
    names = [f"{path.stem} {changed}".strip() if i and changed else path.stem for i, path in enumerate(paths)]
    page(answers, names).write(output)
    _wrote(output)


def _wrote(path: Path) -> None:
    size = path.stat().st_size
    click.echo(f"wrote {escape(str(path))} ({size / 1e6:.1f} MB); open it in a browser", err=True)


def _must_fit(answer: Estimate) -> None:
    """Exits with 1, saying what is too large, when a design does not fit."""
    if not answer.fits:
        for line in overflows(answer):
            click.echo(line, err=True)
        raise click.exceptions.Exit(NO)


@commands.command()
@click.argument("file", type=click.Path(path_type=Path))
@settings
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the table; a sweep goes on there.")
@click.option("-w", "--workers", type=click.IntRange(min=1), help="Processes; default: the cores of this machine.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on a Dask cluster instead, e.g. tcp://host:8786.")
@as_json
@root
def sweep(
    file: Path,
    sets: tuple[tuple[str, str], ...],
    output: Path | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
    root: Path | None,
) -> None:
    """Evaluate a design at many values of its fields.

    FILE names a design and axes (see docs/sweeps.md). With --output the table goes to parquet files, and an
    interrupted sweep goes on where it was. Exits with 1 when no point has an answer.
    """
    from archmodel.report import sweeps
    from archmodel.sweep.file import read
    from archmodel.sweep.prepare import prepared
    from archmodel.sweep.sweep import run

    if output is not None and output.suffix not in ("", ".parquet"):
        fail(f"{escape(str(output))}: a sweep writes a folder of parquet files; name it without {output.suffix}")
    job = prepared(read(file, root=root, sets=dict(sets)))
    count = workers or min(os.cpu_count() or 1, job.chunks)
    try:
        with sweeps.progress(job.space.total) as tell:
            results = run(job, workers=count, scheduler=scheduler, out=output, progress=tell)
    except KeyboardInterrupt:
        if output is not None:
            click.echo(f"finished points are in {escape(str(output))}; the same command goes on from there", err=True)
        raise
    summary = sweeps.summary(results)
    if as_json:
        _print_json(summary)
    else:
        sweeps.show_sweep(results, summary)
    if not summary["answered"]:
        click.echo("no point has an answer", err=True)
        raise click.exceptions.Exit(NO)


@commands.command()
@click.argument("file", type=click.Path(path_type=Path))
@settings
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the front here (parquet).")
@click.option("--budget", metavar="TIME", help="Search this long, e.g. 60s.")
@click.option("--points", type=click.IntRange(min=1), help="Evaluate at most so many points.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Of the search; default: as FILE says.")
@click.option("-w", "--workers", type=click.IntRange(min=1), help="Processes; default: the cores of this machine.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on a Dask cluster instead, e.g. tcp://host:8786.")
@as_json
@root
def search(
    file: Path,
    sets: tuple[tuple[str, str], ...],
    output: Path | None,
    budget: str | None,
    points: int | None,
    seed: int | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
    root: Path | None,
) -> None:
    """Find the designs that nothing beats.

    FILE names a design, knobs, constraints and objectives (see docs/search.md). Prints the Pareto front and what binds
    its points. With --output, every evaluation is kept beside the front, and an interrupted search goes on where it
    was. Ctrl-C keeps the front so far. Exits with 1 when no point is feasible.
    """
    from archmodel.report import searches
    from archmodel.search.file import read
    from archmodel.search.search import run

    seconds = _seconds(budget)
    if output is not None and output.suffix != ".parquet":
        fail(f"-o {escape(str(output))}: the front is written as parquet; name it so, e.g. front.parquet")
    asked = read(file, root=root, sets=dict(sets))
    with searches.progress() as tell:
        found = run(
            asked, out=output, budget=seconds, points=points, seed=seed,
            workers=workers or os.cpu_count() or 1, scheduler=scheduler, progress=tell,
        )  # fmt: skip
    if as_json:
        _print_json(searches.summary(found))
    else:
        searches.show_search(found)
    if output is not None:
        click.echo(
            f"wrote {escape(str(output))}; every evaluation is in {escape(output.stem)}.sqlite beside it", err=True
        )
    if found.interrupted:
        click.echo("interrupted; the same command goes on from here" if output else "interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED)
    if not len(found.front):
        click.echo("no point is feasible", err=True)
        raise click.exceptions.Exit(NO)


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
    seconds, judged = _seconds(budget), _weights(weights)
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
                    loaded = _load(design, sets, root)
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
                    _explain_plan(_load(design, sets, root), tables, as_json)
                    return
                from archmodel.interop.run import plan_design

                answer = plan_design(
                    _load(design, sets, root), seconds, seed, constraints, judged, tell,
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
        _print_json(answer.summary)
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
        _print_json({**(summary or {}), "iteration_time": found.estimate.iteration_time, "explanation": reasons})
    else:
        plans.show_explanation(found)


def _compare_plans(
    files: tuple[Path, Path], design: Path | None, sets: tuple[tuple[str, str], ...], root: Path | None, as_json: bool
) -> None:
    from archmodel.estimate.estimate import estimate
    from archmodel.interop.plan_file import with_plan
    from archmodel.report import plans
    from archmodel.search.compare import compare

    first, second = (_load(f, sets, root) if design is None else with_plan(_load(design, sets, root), f) for f in files)
    found = compare(estimate(first), estimate(second))
    if not as_json:
        plans.show_comparison(found, (files[0].name, files[1].name))
        return
    _print_json(
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


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from archmodel.errors import QuantityError
    from archmodel.quantities import DIMENSIONS, read

    try:
        value, dimension = read(text)
    except QuantityError as error:
        fail(f"--budget {escape(str(error))}; write e.g. 5s")
    if dimension is not DIMENSIONS["seconds"] or not value > 0:
        fail(f"--budget {escape(text)} is not a time above zero; write e.g. 5s")
    return value


@commands.command()
def schema() -> None:
    """Print the JSON schema of a design file."""
    from archmodel.design import json_schema

    _print_json(json_schema())


@commands.command()
@design_file
@click.argument("op", required=False)
@settings
@click.option("--assumptions", is_flag=True, help="List every value that no source backs.")
@root
def explain(
    design: Path, op: str | None, sets: tuple[tuple[str, str], ...], assumptions: bool, root: Path | None
) -> None:
    """Show the formula behind a number.

    The laws behind OP of DESIGN with their equations, their inputs with sources, and the parts of the result.
    Without OP: the ops there are.
    """
    from archmodel.report import explain as words

    loaded = _load(design, sets, root)
    if assumptions:
        words.show_assumptions(loaded)
    elif op is None:
        words.show_ops(loaded, path=str(design))
    else:
        words.show_op(loaded, op)


@commands.command()
@design_file
@settings
@as_json
@click.option("--ranks", type=click.IntRange(min=1), help="Only the first so many ranks, or more nodes than it has.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Draw the links here.")
@root
def topology(
    design: Path,
    sets: tuple[tuple[str, str], ...],
    as_json: bool,
    ranks: int | None,
    html: Path | None,
    root: Path | None,
) -> None:
    """Show the network of a machine.

    Prints the dimensions of DESIGN's network: size, bandwidth per rank, latency, bisection; and the links. DESIGN may
    also be a system file.
    """
    from archmodel.report import topology as network

    system, name = _machine(design, sets, root)
    found = system.topology(ranks)
    if html is not None:
        from archmodel.report.html.topology import topology_page

        topology_page(found, name).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if as_json:
        _print_json(network.to_dict(found))
    else:
        network.show_topology(found, name)


@commands.command()
@as_json
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Draw the scoreboard here.")
def validate(as_json: bool, html: Path | None) -> None:
    """Hold predictions against publications."""
    from archmodel.validation import scoreboard

    rows = scoreboard()
    if html is not None:
        from archmodel.report.html.scoreboard import scoreboard as page

        page(rows).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if as_json:
        from archmodel.report.scoreboard import to_list

        _print_json(to_list(rows))
    else:
        from archmodel.report.scoreboard import show_scoreboard

        show_scoreboard(rows)


@commands.command()
@as_json
def catalogue(as_json: bool) -> None:
    """List the designs that come along."""
    from archmodel import catalogue as shelf

    rows = shelf.entries()
    if as_json:
        _print_json([row._asdict() for row in rows])
    else:
        from archmodel.report.listing import show_catalogue

        show_catalogue(rows)


@commands.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--column", help="The column of a .parquet file that holds the row ids, when there are several.")
@as_json
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Draw the curves on a page here.")
def locality(trace: Path, column: str | None, as_json: bool, html: Path | None) -> None:
    """Measure how a trace reuses its rows.

    TRACE is a file of row ids (.npy, .parquet, text). Prints exact hit rates of caches of a ladder of sizes, reuse
    distances, and what share of the accesses the hottest rows have.
    """
    from archmodel.report import locality as words

    found = words.locality(trace, column)
    if html is not None:
        from archmodel.report.html.locality import locality_page

        locality_page(found).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if as_json:
        _print_json(found.to_dict())
    else:
        words.show_locality(found)


@commands.group(cls=Commands)
def calibrate() -> None:
    """Fit constants to measurements."""


@calibrate.command()
@click.argument("measurements", type=click.Path(path_type=Path))
@click.option("--device", help="Its datasheet: a file, or a name in the catalogue. Default: what the table says.")
@click.option("--gpu", "which", help="Which GPU, when the table holds several.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the YAML block here (else: print it).")
@click.option("--html", type=click.Path(path_type=Path), help="Draw predicted over measured times here.")
def gpu(measurements: Path, device: str | None, which: str | None, output: Path | None, html: Path | None) -> None:
    """Fit a GPU's kernel constants.

    MEASUREMENTS is a table of measured times, as studies/measure_gpu.py writes it (see docs/calibration.md). Prints the
    constants as a block for a device file, and how well they predict rows that were not fitted.
    """
    from archmodel.calibrate.gpu import calibrate_gpu
    from archmodel.report.fits import show_fits

    found = calibrate_gpu(measurements, device, gpu=which)
    if html is not None:
        from archmodel.report.html.calibration import gpu_page as page

        page(found).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if output is None:
        click.echo(found.yaml(), nl=False)
    else:
        output.write_text(found.yaml(), encoding="utf-8")
    show_fits(found, file=sys.stderr if output is None else sys.stdout)


@calibrate.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--fabric", help="Where the search starts: a fabric file, or a name in the catalogue. Default: by the GPU."
)
@click.option("--bandwidth", help='All links of one GPU, per direction, where they are others: "450 GB/s".')
@click.option("--nic", help='Logs of several nodes: what one interface carries, "200 Gbit/s".')
@click.option("--interfaces", type=click.IntRange(min=1), help="Interfaces of a node. Default: one for each GPU.")
@click.option("--in-place", is_flag=True, help="Fit the in-place columns.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the YAML block here (else: print it).")
@click.option("--html", type=click.Path(path_type=Path), help="Draw measured and predicted times here.")
@as_json
def network(
    logs: tuple[Path, ...],
    fabric: str | None,
    bandwidth: str | None,
    nic: str | None,
    interfaces: int | None,
    in_place: bool,
    output: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Fit a fabric's constants to nccl-tests.

    LOGS are what all_reduce_perf, all_gather_perf, reduce_scatter_perf and alltoall_perf print, one run a file, with
    anything around it. Prints a fabric file and how well it predicts the rows.
    """
    from archmodel.calibrate.fabric import calibrate_network
    from archmodel.report.residuals import show_residuals

    found = calibrate_network(
        logs, fabric=fabric, bandwidth=bandwidth, nic=nic, interfaces=interfaces, in_place=in_place
    )
    if html is not None:
        from archmodel.report.html.calibration import fabric_page as page

        page(found).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if output is not None:
        output.write_text(found.yaml(), encoding="utf-8")
    if as_json:
        _print_json(found.to_dict())
        return
    if output is None:
        click.echo(found.yaml(), nl=False)
    show_residuals(found, file=sys.stderr if output is None else sys.stdout)


@calibrate.command("tables")
@click.argument("measurements", type=click.Path(path_type=Path))
@click.option("--tables", required=True, type=click.Path(path_type=Path), help="The tables, a csv file.")
@click.option("--seed", type=int, default=0, help="Of the fit, and of which sets are left out.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the model here (JSON).")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Draw predicted over measured times here."
)
@as_json
def set_costs(
    measurements: Path, tables: Path, seed: int, output: Path | None, html: Path | None, as_json: bool
) -> None:
    """Fit a cost of sets of tables.

    MEASUREMENTS is a csv file of sets of embedding tables and what they took in one fused kernel (see
    docs/learned-cost.md). Prints how well the cost predicts sets that were not fitted, beside the sum of the tables'
    own times and a linear model; `archmodel plan --cost learned --model` plans with it.
    """
    from archmodel.calibrate.tables import calibrate_tables

    found = calibrate_tables(measurements, tables, seed=seed)
    if html is not None:
        from archmodel.report.html.calibration import set_costs_page as page

        page(found).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if output is not None:
        output.write_text(found.json(), encoding="utf-8")
    if as_json:
        _print_json(found.to_dict())
    else:
        from archmodel.report.set_costs import show_set_costs

        show_set_costs(found)


def _load(path: Path, sets: tuple[tuple[str, str], ...], root: Path | None) -> Design:
    from archmodel.design import load

    return load(path, root=root, sets=dict(sets))


def _machine(path: Path, sets: tuple[tuple[str, str], ...], root: Path | None) -> tuple[System, str]:
    """The system of a design file, or of a file that is one system (paths of --set then begin in it); and its name."""
    from archmodel import catalogue, source
    from archmodel.system import System

    tree = source.read(catalogue.located(path), root=root, catalogue=catalogue.directory())
    if "node" not in tree or "system" in tree:
        loaded = _load(path, sets, root)
        return loaded.system, loaded.name
    for where, text in sets:
        tree = source.set_path(tree, where.removeprefix("system."), source.scalar(text), origin="--set")
    system = source.validate(System, tree)
    return system, system.name or path.stem


def _print_json(value: Any) -> None:
    import json

    click.echo(json.dumps(value, indent=2, allow_nan=False))
