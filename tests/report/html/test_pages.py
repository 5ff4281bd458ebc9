"""Pages as files: self-contained, the same bytes each time, small, and what the commands do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import archmodel as am
from archmodel.calibrate.gpu import calibrate_gpu
from archmodel.cli import commands
from archmodel.errors import ArchmodelError
from archmodel.estimate.result import Estimate
from archmodel.report.html.calibration import gpu_page
from archmodel.report.html.compare import compare, inputs, outputs
from archmodel.report.html.locality import locality_page
from archmodel.report.html.page import Page, plotly_js
from archmodel.report.html.report import report
from archmodel.report.html.scoreboard import scoreboard
from archmodel.report.html.sweep import sweep
from archmodel.report.html.topology import topology_page
from archmodel.report.locality import locality
from archmodel.sweep.results import Results
from archmodel.validation.score import Row
from tests.report.html.conftest import END, HOSTILE, IMAGE, SCRIPT

MOST_BYTES = 6_000_000
LINES = ("name", "title", "takeaway")


def row(id_: str, published: float, predicted: float, *, calibrated: bool = False, group: str = "g") -> Row:
    error = predicted / published - 1
    return Row(id_, group, "throughput", published, predicted, error, calibrated, SCRIPT, IMAGE)


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    return [
        row("one", 1e6, 1.1e6),
        row(END, 2e6, 1.5e6, group=IMAGE),
        row("three", 3e6, 3e6, calibrated=True),
        Row("four", "g", "latency", 1e-3, 2e-3, 1.0, False, "s", ""),
    ]


@pytest.fixture(scope="session")
def pages(
    answer: Estimate, hostile: Estimate, layers: Estimate, grid: Results, rows: list[Row],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Page]:  # fmt: skip
    folder = tmp_path_factory.mktemp("measured")
    trace, table = folder / "<b>ids.npy", folder / "times.csv"
    np.save(trace, np.random.default_rng(0).zipf(1.2, 5000) % 3000)
    table.write_text("gpu,kernel,shape,dtype,time\nh100_sxm,launch,graph=1,fp32,2 us\n", encoding="utf-8")
    return {
        "report": report(answer),
        "hostile": report(hostile),
        "layers": report(layers),
        "compare": compare([hostile, layers, answer]),
        "sweep": sweep(grid),
        "scoreboard": scoreboard(rows),
        "topology": topology_page(answer.design.system.topology(), SCRIPT),
        "locality": locality_page(locality(trace)),
        "calibration": gpu_page(calibrate_gpu(table)),
    }


NAMES = (
    "report", "hostile", "layers", "compare", "sweep", "scoreboard", "topology", "locality", "calibration",
)  # fmt: skip


class Elements(HTMLParser):
    """Elements with their attributes, script bodies left out by the parser itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(html.replace(plotly_js(), ""))
    return parser.found


def data_of(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_small_file_and_asks_nothing_of_a_network(pages: dict[str, Page], name: str) -> None:
    html = pages[name].html()
    assert len(html.encode()) <= MOST_BYTES
    for tag, attributes in elements(html):
        assert tag not in ("link", "iframe", "img", "object", "base")
        assert not {"src", "srcset", "action", "background"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    policy = dict(elements(html)[3][1])
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert str(policy["content"]).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in str(policy["content"])


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_makes_no_element(pages: dict[str, Page], name: str) -> None:
    found = elements(pages[name].html())
    assert [tag for tag, _ in found].count("script") == (4 if pages[name].script else 3)
    assert not [a for _, attributes in found for a in attributes if a.startswith("on")]
    assert not [a for _, attributes in found for a in attributes.values() if a and "javascript:" in a and "<a" not in a]


def test_hostile_names_are_shown(pages: dict[str, Page]) -> None:
    plan = data_of(pages["hostile"].html())["tables"]["plan"]
    assert {line[0] for line in plan["rows"]} == set(HOSTILE)


def test_the_same_design_gives_the_same_bytes(two_node_design: Path, pages: dict[str, Page]) -> None:
    again = am.estimate(am.load(two_node_design))
    assert report(again).html() == pages["report"].html()


def test_bytes_do_not_depend_on_the_process(two_node_design: Path) -> None:
    code = (
        "import sys, hashlib, archmodel as am; from archmodel.report.html.report import report;"
        f"print(hashlib.sha256(report(am.estimate(am.load({str(two_node_design)!r}))).html().encode()).hexdigest())"
    )
    seeds = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert seeds[0].stdout == seeds[1].stdout != b""


def test_pages_do_not_import_plotly(two_node_design: Path) -> None:
    code = (
        "import sys, archmodel as am; from archmodel.report.html.report import report;"
        f"report(am.estimate(am.load({str(two_node_design)!r}))).html(); print('plotly' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_says_something_and_ids_are_unique(pages: dict[str, Page], name: str) -> None:
    html = pages[name].html()
    assert len(re.findall(r'class="takeaway">[^<]{12,}', html)) == html.count('class="takeaway"') > 0
    ids = re.findall(r'\sid="([^"]+)"', html.replace(plotly_js(), ""))
    assert len(ids) == len(set(ids))


# --- compare --------------------------------------------------------------------------------------------------


def test_compare_lists_what_differs_and_nothing_else(answer: Estimate) -> None:
    other = am.estimate(answer.design.with_({"system.node.nic.bandwidth": "400 Gbit/s"}))
    named = [("A: a", answer), ("B: b", other)]
    assert [line[0] for line in inputs(named).rows] == ["system.node.nic.bandwidth"]
    assert inputs([("A: a", answer), ("B: b", answer)]).rows == []
    kind, (first, second) = outputs(named)["throughput"]
    assert (kind, first, second) == ("sample_rate", answer.throughput, other.throughput)


def test_compare_takes_two_to_eight(answer: Estimate) -> None:
    for count in (0, 1, 9):
        with pytest.raises(ArchmodelError, match="2 to 8"):
            compare([answer] * count)
    assert len(compare([answer] * 8).html()) > 0


# --- commands -------------------------------------------------------------------------------------------------


def run(*args: object) -> Result:
    return CliRunner().invoke(commands, [str(arg) for arg in args])


def test_report_writes_a_page(two_node_design: Path, tmp_path: Path, pages: dict[str, Page]) -> None:
    page = tmp_path / "report.html"
    result = run("report", two_node_design, "-o", page)
    assert (result.exit_code, result.stdout) == (0, "") and "open it in a browser" in result.stderr
    assert page.read_text(encoding="utf-8") == pages["report"].html()


def test_report_of_what_does_not_fit_is_written_and_exits_1(two_node_design: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("report", two_node_design, "--set", "system.node.gpu.hbm.capacity=10 MB", "-o", page)
    assert result.exit_code == 1 and "does not fit: hbm" in result.stderr
    assert "which does not fit" in page.read_text(encoding="utf-8")


def test_compare_of_two_and_of_one_changed(two_node_design: Path, tmp_path: Path) -> None:
    page = tmp_path / "compare.html"
    assert run("compare", two_node_design, two_node_design, "-o", page).exit_code == 0
    assert "0 values differ" in page.read_text(encoding="utf-8")
    changed = run("compare", two_node_design, "--set", "system.node.nic.bandwidth=400 Gbit/s", "-o", page)
    assert changed.exit_code == 0
    assert "1 value differs" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "none.yaml", "-o", "x.html"), "none.yaml"),
        (("report", "none.parquet", "-o", "x.html"), "no such file"),
        (("report", ".", "-o", "x.html"), "no folder of a sweep"),
        (("compare", "designs/neo_a_zionex_16x8.yaml", "-o", "x.html"), "name another"),
        (("report", "designs/neo_a_zionex_16x8.yaml"), "--output"),
        (("report", "designs/neo_a_zionex_16x8.yaml", "-o", "/nowhere/x.html"), "/nowhere/x.html"),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and said in result.stderr and "Traceback" not in result.stderr


def test_a_sweep_is_reported_from_its_folder_and_from_its_file(hostile_design: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    design = am.load(hostile_design)
    axes = {"system.node.gpu.hbm.bandwidth": am.linspace("1 TB/s", "4 TB/s", 5), "workload.global_batch": [2048, 4096]}
    held = am.sweep(design, axes, out=tmp_path / "out")
    page = tmp_path / "page.html"
    assert run("report", tmp_path / "out", "-o", page).exit_code == 0
    whole = page.read_text(encoding="utf-8")
    assert whole == sweep(held).html()
    (chunk,) = (tmp_path / "out").glob("points-*.parquet")
    assert run("report", chunk, "-o", page).exit_code == 0
    assert data_of(page.read_text(encoding="utf-8"))["sweep"] == data_of(whole)["sweep"]
    alone = tmp_path / "alone.parquet"
    alone.write_bytes(chunk.read_bytes())
    assert run("report", alone, "-o", page).exit_code == 0
    assert data_of(page.read_text(encoding="utf-8"))["sweep"] == data_of(whole)["sweep"]
    refused = run("report", tmp_path / "out", "--set", "a=1", "-o", page)
    assert refused.exit_code == 2 and "--set" in refused.stderr


def test_any_other_parquet_file_is_refused(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    pl.DataFrame({"a": [1, 2]}).write_parquet(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no parquet at all", encoding="utf-8")
    for name, said in (("other", "no table of a sweep"), ("text", "no parquet file")):
        result = run("report", tmp_path / f"{name}.parquet", "-o", tmp_path / "x.html")
        assert result.exit_code == 2 and said in result.stderr and "Traceback" not in result.stderr


# --- scoreboard -----------------------------------------------------------------------------------------------


def test_the_scoreboard_keeps_calibrated_and_held_out_apart(pages: dict[str, Page]) -> None:
    data = data_of(pages["scoreboard"].html())
    traces = {trace.get("name"): trace for trace in data["figures"]["against-throughput"]["data"]}
    assert (len(traces["held out"]["x"]), len(traces["calibrated"]["x"])) == (2, 1)
    assert traces["equal"]["x"] == traces["equal"]["y"]
    low, high = traces["within 20 %"]["y"][0], traces["within 20 %"]["y"][3]
    assert np.allclose((low, high), np.array(traces["within 20 %"]["x"][:1]) * [0.8, 1.2], rtol=1e-3)
    assert "against-time" in data["figures"]
    errors = {(line[0], line[1]): [cell[1] for cell in line[2:5]] for line in data["tables"]["errors"]["rows"]}
    assert errors["all", "held out"] == pytest.approx([3, np.mean([0.1, 0.25, 1.0]), 0.25])
    assert errors["g", "calibrated"] == [1, 0, 0]


def test_validate_writes_the_scoreboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    monkeypatch.setattr("archmodel.validation.scoreboard", lambda: tuple(rows))
    page = tmp_path / "board.html"
    result = run("validate", "--html", page, "--json")
    assert result.exit_code == 0 and len(json.loads(result.stdout)) == 4
    assert page.read_text(encoding="utf-8") == scoreboard(rows).html()
