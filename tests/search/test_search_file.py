"""Search files: what is wrong is named with file, line and column, all of it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import archmodel as am
from archmodel.cli import commands
from archmodel.errors import DesignError
from archmodel.search.aims import RACK
from archmodel.search.file import CELLS, TRIALS, read
from archmodel.sweep.job import Replan

HBM = "system.node.gpu.hbm.bandwidth"
NIC = "system.node.nic.bandwidth"

FILE = f"""\
knobs:
  {HBM}: [1 TB/s, 2 TB/s]
objectives: [throughput]
"""


@pytest.fixture
def write(tmp_path: Path, small_design: Path) -> Any:
    def make(text: str, head: str | None = None) -> Path:
        path = tmp_path / "s.yaml"
        path.write_text((f"design: {small_design}\n" if head is None else head) + text, encoding="utf-8")
        return path

    return make


def problems(path: Path) -> list[str]:
    with pytest.raises(DesignError) as caught:
        read(path)
    return [f"{p.line}:{p.column} {p.field} {p.value or ''} {p.message}" for p in caught.value.problems]


def test_a_file_is_read_whole(write: Any) -> None:
    asked = read(
        write(
            f"""\
set: {{system.node.price: {{value: 250 kUSD, source: "assumed", status: assumed}}}}
knobs:
  {HBM}: {{from: 1 TB/s, to: 8 TB/s, count: 4, scale: log}}
  {NIC}: [100 Gbit/s, 400 Gbit/s]
  system.node.gpu: [h200_sxm_141gb, h100_sxm_80gb]
  system.nodes: {{from: 1, to: 4}}
nodes_per_rack: 4
constraints:
  {RACK}: <= 40 kW
  nodes: <= 16
  throughput: ">= 1 Msample/s"
  usd_per_million_samples: <= 0.5 USD/Msample
  hbm_need: ["<= 30 GB", ">= 1 MB"]
objectives: {{throughput: max, usd_per_million_samples: min}}
reference: {{throughput: 0 sample/s, usd_per_million_samples: 1 USD}}
replan: true
seed: 7
"""
        )
    )
    assert asked.jobs[0].design.system.node.price == 250e3
    assert [axis.path for axis in asked.axes] == [HBM, NIC, "system.node.gpu", "system.nodes"]
    assert [axis.numeric for axis in asked.axes] == [True, True, False, False]
    assert asked.axes[2].names == ("h200_sxm_141gb", "h100_sxm_80gb")
    limits = {(c.of.name, c.at_most): c.limit for c in asked.aims.constraints}
    assert limits == {
        (RACK, True): 40e3,
        ("nodes", True): 16,
        ("throughput", False): 1e6,
        ("usd_per_million_samples", True): 0.5,
        ("hbm_need", True): 30e9,
        ("hbm_need", False): 1e6,
    }
    assert [o.largest for o in asked.aims.objectives] == [True, False]
    assert asked.jobs[0].replan == Replan(TRIALS, None, 7, CELLS) and asked.seed == 7
    assert asked.reference == {"throughput": 0.0, "usd_per_million_samples": 1.0}


def test_power_of_a_rack_is_that_of_its_nodes(small_design: Path) -> None:
    asked = {
        "design": str(small_design),
        "knobs": {"system.node.gpu.busy_power": ["300 W", "400 W"]},
        "nodes_per_rack": 4,
        "constraints": {RACK: "<= 25 kW"},
        "objectives": [RACK],
    }
    found = am.search(asked)
    power = [4 * (8 * each + 3300) for each in (300, 400)]
    assert list(found.column(RACK)) == power
    assert list(found.feasible) == [0], "22.8 kW and 26 kW"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FILE.replace("[throughput]", "[throughputt]"), ['4:14 objectives "throughputt" is no output; did']),
        (FILE + "constraint: {nodes: <= 1}\n", ["5:1 constraint  unknown field; did you mean constraints?"]),
        (FILE + "constraints: {nodez: <= 1}\n", ['5:15 constraints "nodez" is no output; did you mean nodes?']),
        (FILE + "constraints: {peak_power: <= 3 GB}\n", ["is an amount of data; a power is needed"]),
        (FILE + "constraints: {peak_power: 3 kW}\n", ['constraints.peak_power "3 kW" is no limit; write e.g.']),
        (FILE.replace("hbm.bandwidth", "hbm.bandwith"), ["did you mean bandwidth?"]),
        (FILE.replace("2 TB/s", "2 TB"), ["3:43", "is an amount of data; a bandwidth is needed"]),
        (FILE.replace("[throughput]", "{throughput: most}"), ['objectives.throughput "most" is neither max nor min']),
        (FILE.replace("[throughput]", "[latency, latency]"), ["is named twice"]),
        (FILE.replace("[throughput]", "[]"), ["names nothing"]),
        (FILE.replace("[throughput]", "[latency, throughput, nodes, price, power]"), ["names 5; a front of"]),
        (FILE.replace("throughput", "op.tabel.lookup"), ["is no op of the design; did you mean op.table.lookup?"]),
        (FILE + "reference: {latency: 1 s}\n", ["reference.latency", "is no objective"]),
        (FILE + "replan: {trials: 2, budget: 1 s}\n", ["states trials and budget"]),
        (FILE + "replan: {budget: 1 GB}\n", ["a time is needed"]),
        (FILE + "method: genetic\n", ["method"]),
        (FILE + "follows: {system.node.prise: {terms: []}}\n", ["names no quantity of the design"]),
        (
            FILE + f"follows: {{system.node.price: {{terms: [{{of: {NIC}, each: 1 W, adds: 1 USD}}]}}}}\n",
            ["follows.system.node.price.terms[0].each", "a bandwidth is needed"],
        ),
        (FILE + "follows: {system.node.price: {term: 1}}\n", ["unknown field; did you mean terms?"]),
        (
            FILE + f"follows: {{{HBM}: {{base: 1 TB/s, terms: [{{of: {NIC}, each: 1 GB/s, adds: 1 TB/s}}]}}}}\n",
            [f"starts from a base of its own and is set by the knob {HBM}"],
        ),
        (
            FILE.replace("objectives", "  system.node.gpu: [h100_sxm_80g]\nobjectives"),
            ['4:21 system.node.gpu "h100_sxm_80g" is no file beside this one or in the catalogue; did'],
        ),
        (FILE.replace("objectives", "  machine: {options: {}}\nobjectives"), ["knobs.machine", "is not {options:"]),
        (
            FILE.replace("objectives", "  machine: {options: {a: {system.node.gpuss: 4}}}\nobjectives"),
            ["unknown field; did you mean gpus?"],
        ),
        (
            FILE.replace("objectives", f"  m: {{options: {{a: {{{HBM}: 1 TB/s}}}}}}\nobjectives"),
            [f"is set by the knob {HBM} too"],
        ),
    ],
)
def test_what_is_wrong_is_named_in_its_place(write: Any, text: str, expected: list[str]) -> None:
    found = problems(write(text))
    assert all(any(part in line for line in found) for part in expected), found


def test_all_problems_come_at_once(write: Any) -> None:
    found = problems(write("knobs: {system.nodes: []}\nobjectives: [speed]\nconstraints: {nodes: 4}\n"))
    assert len(found) == 3


def test_designs_are_named_once_and_found(write: Any, small_design: Path) -> None:
    assert "exactly one" in problems(write(FILE, head=""))[0]
    assert "did you mean" in problems(write(FILE, head="design: mlperf_dcnv2_dgx_h10.yaml\n"))[0]
    assert "no name for a model" in problems(write(FILE, head=f"designs: {{throughput: {small_design}}}\n"))[0]
    two = read(write(FILE, head=f"designs: {{a: {small_design}, b: {small_design}}}\n"))
    assert two.aims.families == ("a", "b") and len(two.jobs) == 2


def test_the_command_names_a_bad_file_without_a_traceback(write: Any) -> None:
    done = CliRunner().invoke(commands, ["search", str(write(FILE + "constrains: {}\n"))])
    assert done.exit_code == 2
    assert "s.yaml:5:1  constrains" in done.output and "did you mean constraints?" in done.output
    assert "Traceback" not in done.output


def test_a_range_cannot_be_enumerated(write: Any) -> None:
    text = FILE.replace("[1 TB/s, 2 TB/s]", "{from: 1 TB/s, to: 2 TB/s}") + "method: enumerate\n"
    done = CliRunner().invoke(commands, ["search", str(write(text)), "-w", "1"])
    assert done.exit_code == 2 and "is a range without a count" in done.output
