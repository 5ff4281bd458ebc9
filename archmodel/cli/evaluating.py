"""Commands that predict one design and prove the prediction: `evaluate`, `check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from archmodel.cli.app import NO, as_json, commands, design_file, design_of, print_json, root, settings
from archmodel.errors import escape

if TYPE_CHECKING:
    from archmodel.estimate.result import Estimate


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

    answer = estimate(design_of(design, sets, root))
    if trace is not None:
        from archmodel.report import trace as perfetto

        shown = perfetto.write(answer, trace)
        click.echo(f"wrote {escape(str(trace))} ({shown}); open it at ui.perfetto.dev", err=True)
    if as_json:
        from archmodel.report.as_json import to_dict

        print_json(to_dict(answer))
    else:
        from archmodel.report.terminal import show_estimate

        show_estimate(answer, path=str(design), ops=ops)
    must_fit(answer)


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

    report = run_check(design_of(design, sets, root))
    if as_json:
        from archmodel.report.as_json import finite

        print_json(finite(report.to_dict()))
    else:
        for line in report.lines():
            click.echo(line)
    if not report.passed:
        click.echo("the check failed", err=True)
        raise click.exceptions.Exit(NO)


def must_fit(answer: Estimate) -> None:
    """Exits with 1, saying what is too large, when a design does not fit."""
    if not answer.fits:
        for line in overflows(answer):
            click.echo(line, err=True)
        raise click.exceptions.Exit(NO)
