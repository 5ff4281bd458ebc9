"""Commands that fit constants to measurements: `calibrate gpu`, `network`, `tables`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from archmodel.cli.app import Commands, as_json, commands, print_json
from archmodel.errors import escape


@commands.group(cls=Commands)
def calibrate() -> None:
    """Fit constants to measurements."""


@calibrate.command()
@click.argument("measurements", type=click.Path(path_type=Path))
@click.option("--device", help="Its datasheet: a file, or a name in the catalogue. Default: what the table says.")
@click.option("--gpu", "which", help="Which GPU, when the table holds several.")
@click.option("--few", is_flag=True, help="Of products fit two constants and keep the datasheet file's others.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the YAML block here (else: print it).")
@click.option("--html", type=click.Path(path_type=Path), help="Draw predicted over measured times here.")
def gpu(
    measurements: Path, device: str | None, which: str | None, few: bool, output: Path | None, html: Path | None
) -> None:
    """Fit a GPU's kernel constants.

    MEASUREMENTS is a table of measured times, as studies/measure_gpu.py writes it (see docs/calibration.md). Prints the
    constants as a block for a device file, and how well they predict rows that were not fitted.
    """
    from archmodel.calibrate.gpu import calibrate_gpu
    from archmodel.report.fits import show_fits

    found = calibrate_gpu(measurements, device, gpu=which, few=few)
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
        print_json(found.to_dict())
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
        print_json(found.to_dict())
    else:
        from archmodel.report.set_costs import show_set_costs

        show_set_costs(found)
