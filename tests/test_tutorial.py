"""The tutorial, run from top to bottom in an empty directory."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from archmodel.cli import commands

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`(\w+\.yaml)`")


def test_every_block_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    ran: list[str] = []
    names: dict[str, object] = {}
    for block in BLOCK.finditer(page):
        text = block["text"]
        if block["language"] == "yaml":
            name = FILE.findall(page[: block.start()])[-1]
            Path(name).write_text(text, encoding="utf-8")
        elif block["language"] == "python":
            exec(compile(text, str(PAGE), "exec"), names)
        else:
            for line in text.splitlines():
                if line.startswith("archmodel "):
                    arguments = shlex.split(line)[1:]
                    result = CliRunner().invoke(commands, arguments)
                    assert result.exit_code == 0, (line, result.output)
                    assert result.output.strip()
                    ran.append(arguments[0])
    assert {"evaluate", "explain", "plan", "check", "sweep"} <= set(ran)
    assert len(names["grid"]["throughput"]) == 39  # type: ignore[index]
    mine = Path("mine.yaml").read_text(encoding="utf-8")
    Path("mine.yaml").write_text(re.sub(r"^plan:\n(?:  .*\n)+", "plan: {use: plan.yaml}\n", mine, flags=re.MULTILINE))
    assert CliRunner().invoke(commands, ["evaluate", "mine.yaml"]).exit_code == 0
