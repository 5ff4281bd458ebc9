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
root = click.option("--root", type=click.Path(path_type=Path), help="A directory that `use:` and traces may not leave.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object in SI units.")


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="archmodel")
def commands() -> None:
    """Predict what a machine does with a model under a parallel plan, and what bounds it.

    A design file names all three. See docs/design-files.md, or start from one that `archmodel catalogue` lists.
    """


def design_of(path: Path, sets: tuple[tuple[str, str], ...], root: Path | None) -> Design:
    from archmodel.design import load

    return load(path, root=root, sets=dict(sets))


def system_of(path: Path, sets: tuple[tuple[str, str], ...], root: Path | None) -> tuple[System, str]:
    """The system of a design file, or of a file that is one system (paths of --set then begin in it); and its name."""
    from archmodel import catalogue, source
    from archmodel.system import System

    tree = source.read(catalogue.located(path), root=root, catalogue=catalogue.directory())
    if "node" not in tree or "system" in tree:
        loaded = design_of(path, sets, root)
        return loaded.system, loaded.name
    for where, text in sets:
        tree = source.set_path(tree, where.removeprefix("system."), source.scalar(text), origin="--set")
    system = source.validate(System, tree)
    return system, system.name or path.stem


def print_json(value: Any) -> None:
    import json

    click.echo(json.dumps(value, indent=2, allow_nan=False))


def seconds_of(text: str | None) -> float | None:
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
