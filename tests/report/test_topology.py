"""The network of a machine, printed and drawn."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from archmodel.cli import commands
from archmodel.network import SCALE_UP, build_topology
from archmodel.report import topology as network

SYSTEMS = ["dgx1_v100", "zionex", "gb200_nvl72", "dgx_h100_fat_tree"]


def run(*args: object) -> str:
    result = CliRunner().invoke(commands, ["topology", *map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_of_the_catalogue(name: str) -> None:
    text = run(f"designs/systems/{name}.yaml")
    assert "scale_up" in text and "bisection" in text and "GPU and" in text


def test_a_design_with_settings(two_node_design: Path) -> None:
    text = run(two_node_design, "--set", "system.node.nic.bandwidth=400 Gbit/s", "--set", "system.nodes=4")
    assert "32 ranks · 4 nodes of 8" in text and "50.0 GB/s" in text


def test_json_is_in_si(two_node_design: Path) -> None:
    found = json.loads(run(two_node_design, "--json"))
    assert (found["ranks"], [d["size"] for d in found["dimensions"]]) == (16, [8, 2])
    assert found["dimensions"][0]["bandwidth"] == 300e9
    assert sum(link["count"] for link in found["links"]) == 16 + 16 + 8


def test_ranks_may_be_fewer_and_must_fit(two_node_design: Path) -> None:
    assert "4 ranks · 1 node of 4" in run(two_node_design, "--ranks", 4)
    result = CliRunner().invoke(commands, ["topology", str(two_node_design), "--ranks", "12"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "8 or 16 do" in result.stderr


def test_the_page(tmp_path: Path, two_node_design: Path) -> None:
    page = tmp_path / "page.html"
    run(two_node_design, "--html", page)
    text = page.read_text(encoding="utf-8")
    assert 'id="topology"' in text and "16 ranks, 2 nodes of 8" in text


def test_large_machines_are_printed() -> None:
    t = build_topology(SCALE_UP.resolve("switch").model_validate({"bandwidth": 1e9}), ranks_per_node=2000)
    out = io.StringIO()
    network.show_topology(t, "large [b]name[/b]", file=out)
    assert "[b]name[/b]" in out.getvalue()
