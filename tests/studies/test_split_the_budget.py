"""The search file runs, its points pay for their parts, and every price says where it comes from."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import archmodel as am
from archmodel import source
from archmodel.search.file import read
from archmodel.search.search import run

FILE = Path(__file__).parent.parent.parent / "studies" / "split_the_budget.yaml"


def test_points_pay_for_their_parts() -> None:
    pytest.importorskip("optuna")
    found = run(read(FILE, sets={}), points=8)
    for row in range(2):
        at = {name: found.column(name)[row] for name in found.knobs}
        gpu = {"a100": 13_400, "h100": 28_400, "b200": 36_400}[at["gpu"]]
        memory = 20 * at["system.node.gpu.hbm.capacity"] / 1e9 + 500 * at["system.node.gpu.hbm.bandwidth"] / 1e12
        links = at["system.node.nic.bandwidth"] * 8 / 100e9
        node = 38_000 + 8 * (gpu + memory) + 8 * 450 * links + 10_000 + 4800 * links
        assert found.column("price")[row] == pytest.approx(node * at["system.nodes"])
        watts = {"a100": 336, "h100": 595, "b200": 749}[at["gpu"]]
        watts += 31.4 * at["system.node.gpu.hbm.bandwidth"] / 1e12
        assert found.column("dcnv2.peak_power")[row] == pytest.approx(
            at["system.nodes"] * (8 * watts + 4400 + 100 * links)
        )


def test_parts_of_gpus_add_up_to_what_is_sold() -> None:
    """Price and power of the die and of the memory that it is sold with."""
    asked = read(FILE)
    follows = {f.path: f for f in asked.jobs[0].follows}
    kinds = asked.axes[0]
    assert kinds.names == ("a100", "h100", "b200")
    for values, kilo, watts in zip(kinds.values or (), (15, 30, 40), (400, 700, 1000), strict=True):
        plain = source.strip(values["system.node.gpu"])
        memory = plain["hbm"]
        alone = am.load(FILE.parent / "split_the_budget" / "dcnv2.yaml").with_(
            {"system.node.gpu": values["system.node.gpu"]}
        )
        assert memory and alone.system.gpu.price == kilo * 1e3
        bandwidth, capacity = alone.system.gpu.memory.bandwidth, alone.system.gpu.memory.capacity
        die = am.load(FILE.parent / "split_the_budget" / "dcnv2.yaml").with_(
            {k: v for k, v in values.items() if k.endswith(("gpu", "price", "busy_power"))}
        )
        assert die.system.gpu.price + 20 * capacity / 1e9 == pytest.approx(kilo * 1e3)
        read_ = {"system.node.gpu.hbm.bandwidth": bandwidth, "system.node.gpu.busy_power": die.system.gpu.busy_power}
        busy = follows["system.node.gpu.busy_power"].value(lambda path, read_=read_: read_[path])
        assert busy == pytest.approx(watts, abs=1.0)


def test_every_price_and_power_says_where_it_comes_from() -> None:
    tree = source.read(FILE, catalogue=am.catalogue.directory())
    for options in tree["knobs"]["gpu"]["options"].values():
        for path, value in options.items():
            if path.endswith(("price", "power")):
                assert value["source"] and value["status"]
    for follow in tree["follows"].values():
        for term in follow["terms"]:
            assert term["source"] and term["status"]


@pytest.fixture(scope="module")
def small(study: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The study on 24 points."""
    folder = tmp_path_factory.mktemp("budget")
    shutil.copytree(FILE.parent / "split_the_budget", folder / "split_the_budget")
    text = FILE.read_text(encoding="utf-8")
    for whole, few in (
        ("[40 GB, 80 GB, 192 GB]", "[80 GB, 192 GB]"),
        ("[2 TB/s, 3.35 TB/s, 4.8 TB/s, 8 TB/s]", "[3.35 TB/s]"),
        ("[100 Gbit/s, 200 Gbit/s, 400 Gbit/s, 800 Gbit/s]", "[400 Gbit/s, 800 Gbit/s]"),
        ("[2, 3, 4, 6, 8, 12]", "[2, 4]"),
    ):
        assert whole in text
        text = text.replace(whole, few)
    (folder / FILE.name).write_text(text, encoding="utf-8")
    before, study.FILE = study.FILE, folder / FILE.name
    study.found.cache_clear()
    yield study
    study.FILE = before
    study.found.cache_clear()


def test_parts_add_up_to_the_price(small: ModuleType) -> None:
    for row in small.found().front:
        parts = small.split(int(row))
        assert sum(parts.values()) == pytest.approx(float(small.price()[row]))
        assert min(parts.values()) > 0
        nodes = int(small.found().column("system.nodes")[row])
        assert parts["nodes"] == pytest.approx(nodes * 48_000)  # the node without parts, and its share of the building


def test_what_beats_the_sold_node_costs_no_more(small: ModuleType) -> None:
    here = small.sold()
    assert [small.found().column(name)[here] for name in small.SOLD] == list(small.SOLD.values())
    other = small.rival(here)
    assert small.price()[other] <= small.price()[here] * (1 + 1e-9)
    assert all(small.rate(m)[other] >= small.rate(m)[here] for m in small.MODELS)


def test_the_page_says_what_the_search_found(small: ModuleType) -> None:
    page = small.build()
    assert f"{len(small.found().front)} of {len(small.found().feasible)} machines" in "\n".join(page.lines())
    table = small.front_table()
    assert len(table.rows) == len(small.found().front)
    assert np.all(np.diff([row[5][1] for row in table.rows]) <= 0)
