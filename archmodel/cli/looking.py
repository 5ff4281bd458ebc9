"""Commands that show what there is: `explain`, `topology`, `locality`, `validate`, `catalogue`, `schema`."""

from __future__ import annotations

from pathlib import Path

import click

from archmodel.cli.app import as_json, commands, design_file, design_of, print_json, root, settings, system_of
from archmodel.errors import escape


@commands.command()
def schema() -> None:
    """Print the JSON schema of a design file."""
    from archmodel.design import json_schema

    print_json(json_schema())


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

    loaded = design_of(design, sets, root)
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

    system, name = system_of(design, sets, root)
    found = system.topology(ranks)
    if html is not None:
        from archmodel.report.html.topology import topology_page

        topology_page(found, name).write(html)
        click.echo(f"wrote {escape(str(html))}", err=True)
    if as_json:
        print_json(network.to_dict(found))
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

        print_json(to_list(rows))
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
        print_json([row._asdict() for row in rows])
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
        print_json(found.to_dict())
    else:
        words.show_locality(found)
