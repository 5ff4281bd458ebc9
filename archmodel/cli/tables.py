"""Commands over many designs: `sweep`, `search`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from archmodel.cli.app import INTERRUPTED, NO, as_json, commands, fail, print_json, root, seconds_of, settings
from archmodel.errors import escape


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
        print_json(summary)
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

    seconds = seconds_of(budget)
    if output is not None and output.suffix != ".parquet":
        fail(f"-o {escape(str(output))}: the front is written as parquet; name it so, e.g. front.parquet")
    asked = read(file, root=root, sets=dict(sets))
    with searches.progress() as tell:
        found = run(
            asked, out=output, budget=seconds, points=points, seed=seed,
            workers=workers or os.cpu_count() or 1, scheduler=scheduler, progress=tell,
        )  # fmt: skip
    if as_json:
        print_json(searches.summary(found))
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
