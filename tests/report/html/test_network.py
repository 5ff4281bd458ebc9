"""The drawing of a network: every link is drawn once, the busiest is named, large machines are drawn by node."""

from __future__ import annotations

import re

import numpy as np
import pytest

import archmodel as am
from archmodel.estimate.result import Estimate
from archmodel.network import SCALE_UP, build_topology
from archmodel.report.html import drawing, palette
from archmodel.report.html.network import Loads, blocks, network
from archmodel.report.html.table import Table
from archmodel.report.html.topology import links, topology_page
from archmodel.report.link_loads import iteration_loads


@pytest.fixture(scope="module", params=["mlperf_dcnv2_dgx_h100", "neo_a_zionex_16x8", "resnet50_torus3d_4x4x4"])
def each(request: pytest.FixtureRequest) -> Estimate:
    return am.estimate(am.load(f"designs/{request.param}.yaml"))


def test_every_link_is_drawn_with_what_it_carries(each: Estimate) -> None:
    figure, loads = network(each), Loads.of(each)
    lines = sum(len(t["x"]) // 3 for t in figure.data if t["mode"] == "lines")
    marks = next(t for t in figure.data if t.get("name") == "links")
    apart = drawing.grouped(loads.links, loads.topology)
    shown = {pair: which for pair, which in apart.items() if pair[0] != pair[1]}
    assert lines == len(marks["x"]) == len(shown)
    assert sum(map(len, apart.values())) == len(loads.links)
    assert marks["marker"]["color"] == pytest.approx([100 * loads.share[which].max() for which in shown.values()])
    busiest = int(loads.share.argmax())
    assert all(name in figure.takeaway for name in loads.links[busiest])
    assert f"{100 * loads.share[busiest]:.0f} %" in figure.takeaway
    for told in marks["hovertext"]:
        assert re.search(r"busy .*s at .*B/s, .* %", told)


def test_a_large_machine_is_drawn_by_node(each: Estimate) -> None:
    figure = network(each)
    nodes = [t for t in figure.data if t.get("name") == "nodes"]
    assert bool(nodes) == (each.program.ranks == 128) == ("a point is a node" in figure.note)
    if nodes:
        found, _ = iteration_loads(each)
        inner = found.seconds[: found.inside].reshape(16, -1).max(1) / float(each.iteration_time)
        top = found.seconds.max() / float(each.iteration_time)
        assert nodes[0]["marker"]["color"] == [palette.along(float(share / top)) for share in inner]


def test_the_table_has_every_directed_link_the_busiest_first(each: Estimate) -> None:
    table = blocks(each)[1]
    found, _ = iteration_loads(each)
    assert isinstance(table, Table)
    assert len(table.rows) == len(found.ends)
    assert [row[4][1] for row in table.rows] == sorted(found.seconds.tolist(), reverse=True)


def test_a_single_rank_has_no_network() -> None:
    alone = am.estimate(am.load("designs/nvidia_dlrm_small_1xa100_amp.yaml"))
    assert blocks(alone) == []
    assert "One rank" in network(alone).takeaway


@pytest.mark.parametrize(("sizes", "edges"), [([4, 4, 4], 192), ([3, 3], 18)])
def test_a_machine_alone_shows_every_link(sizes: list[int], edges: int) -> None:
    torus = {"sizes": sizes, "link_bandwidth": 25e9}
    t = build_topology(SCALE_UP.resolve("torus").model_validate(torus), ranks_per_node=int(np.prod(sizes)))
    drawn = [trace for trace in links(t).data if trace["mode"] == "lines"]
    assert sum(len(trace["x"]) // 3 for trace in drawn) == t.graph().number_of_edges() == edges
    places = drawing.places(t, drawing.named(t, [(e.a, e.b) for e in t.wiring()]))
    assert len({(round(x, 6), round(y, 6)) for x, y in places.values()}) == t.ranks


def test_large_nodes_are_drawn_in_part() -> None:
    t = build_topology(SCALE_UP.resolve("switch").model_validate({"bandwidth": 1e9}), ranks_per_node=2000)
    figure = links(t)
    assert "first 1,024 of 2,000 ranks" in figure.takeaway
    assert sum(len(trace["x"]) for trace in figure.data if trace.get("name") == "ranks") == 1024


def test_names_are_text() -> None:
    t = build_topology(SCALE_UP.resolve("switch").model_validate({"bandwidth": 1e9}), ranks_per_node=4)
    assert "<script>alert" not in topology_page(t, "<script>alert(1)</script>").html()
