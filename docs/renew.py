"""Renews what the manual shows: runs the commands of its console blocks and writes their output below them. And the
table of unit factors that the package carries.

    python docs/renew.py            renews README.md, docs/*.md, docs/validation.md and archmodel/unit_factors.py
    python docs/renew.py --check    says which pages are out of date, and fails if one is

A block is ```console; its first line is `$ archmodel ...`, run from the root of the repository.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n\$ archmodel (?P<arguments>[^\n]*)\n(?P<shown>.*?)^```$", re.DOTALL | re.MULTILINE)
SCOREBOARD = ROOT / "docs" / "validation.md"
HEADER = """# Predicted against published

Every published figure in the package beside the prediction, as `archmodel validate` gives them; `make renew` writes
this page. Held-out facts never tuned a constant. A miss stays in the table.

"""
FACTORS_HEADER = '''"""What pint makes of common units of `units.txt`: numerator, denominator, powers of dimensions.

Written by `make renew`."""

FACTORS: dict[str, tuple[int, int, tuple[tuple[str, int], ...]]] = {
'''


def output(arguments: str) -> str:
    """What `archmodel ARGUMENTS` prints, wherever it runs."""
    from archmodel.cli import commands

    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            commands.main(shlex.split(arguments))
        except SystemExit as done:
            if done.code not in (0, None):
                raise RuntimeError(f"archmodel {arguments} exited with {done.code}") from None
    return printed.getvalue()


def renewed(text: str) -> str:
    """A page with the output of every console block renewed."""

    def block(match: re.Match[str]) -> str:
        return f"```console\n$ archmodel {match['arguments']}\n{output(match['arguments'])}```"

    return BLOCK.sub(block, text)


def unit_factors() -> str:
    """The module of unit factors: what pint makes of `units.txt`, for the units of the catalogue and of reports."""
    from archmodel.quantities import common_units

    texts = [
        text.strip(" \"'")
        for file in sorted((ROOT / "designs").rglob("*.yaml"))
        for line in file.read_text(encoding="utf-8").splitlines()
        for text in re.split(r"[{}\[\],]|: | #", line)
    ]
    rows = [f'    "{name}": {row},' for name, row in common_units(texts).items()]
    return FACTORS_HEADER + "\n".join(row.replace("'", '"') for row in rows) + "\n}\n"


def pages() -> dict[Path, str]:
    """Every page as it should be."""
    from archmodel.validation import scoreboard, to_markdown

    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    made = {page: renewed(page.read_text(encoding="utf-8")) for page in found if page != SCOREBOARD}
    made[ROOT / "archmodel" / "unit_factors.py"] = unit_factors()
    return {**made, SCOREBOARD: HEADER + to_markdown(scoreboard())}


def main() -> int:
    """Renews or checks; how many pages are out of date when checking."""
    check = "--check" in sys.argv[1:]
    stale = {
        page: text for page, text in pages().items() if not page.exists() or page.read_text(encoding="utf-8") != text
    }
    for page, text in stale.items():
        print(f"{'out of date' if check else 'renewed'}: {page.relative_to(ROOT)}")
        if not check:
            page.write_text(text, encoding="utf-8")
    return len(stale) if check else 0


if __name__ == "__main__":
    sys.exit(main())
