"""Commands that draw pages: `report`, `compare`."""

from __future__ import annotations

from pathlib import Path

import click

from archmodel.cli.app import commands, design_of, fail, root, settings
from archmodel.cli.evaluating import must_fit
from archmodel.errors import escape

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
        wrote(output)
        return
    from archmodel.estimate.estimate import estimate
    from archmodel.report.html.report import report as page

    answer = estimate(design_of(path, sets, root))
    page(answer).write(output)
    wrote(output)
    must_fit(answer)


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
    answers = [estimate(design_of(path, sets if i else (), root)) for i, path in enumerate(paths)]
    changed = " ".join(f"{where}={value}" for where, value in sets)
    names = [f"{path.stem} {changed}".strip() if i and changed else path.stem for i, path in enumerate(paths)]
    page(answers, names).write(output)
    wrote(output)


def wrote(path: Path) -> None:
    size = path.stat().st_size
    click.echo(f"wrote {escape(str(path))} ({size / 1e6:.1f} MB); open it in a browser", err=True)
