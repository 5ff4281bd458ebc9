"""Figures say what the estimate says: parts add up, counts agree, plotly accepts them, text is escaped."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import archmodel as am
from archmodel.errors import ArchmodelError
from archmodel.estimate.result import Estimate
from archmodel.report.html import laws, tables
from archmodel.report.html.balance import loads
from archmodel.report.html.figure import Figure
from archmodel.report.html.memory import memory
from archmodel.report.html.notebook import FIGURES
from archmodel.report.html.roofline import kernels
from archmodel.report.html.stack import pieces
from archmodel.report.html.timeline import timeline
from archmodel.report.html.traffic import flows, traffic, used
from archmodel.report.html.waterfall import stretches, waterfall
from archmodel.report.ranks import busiest_and_median, on_rank
from tests.report.html.conftest import HOSTILE

CATALOGUE = (
    "neo_a_zionex_16x8",
    "resnet50_torus3d_4x4x4",
    "nvidia_dlrm_small_1xa100_inference",
    "neo_f_zionex_4x8_ssd",
)
"""Many ranks and tables; layers on an accelerator; one rank that only serves; tiers and caches."""


@pytest.fixture(scope="module", params=["two nodes", *CATALOGUE])
def each(request: pytest.FixtureRequest, answer: Estimate) -> Estimate:
    return answer if request.param == "two nodes" else am.estimate(am.load(f"designs/{request.param}.yaml"))


def texts(value: object) -> list[str]:
    """Every string of a specification that may be drawn; `customdata` is compared with names, and amounts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() if key != "customdata" for text in texts(item)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", FIGURES)
def test_plotly_accepts_it_and_it_is_json(each: Estimate, name: str) -> None:
    made = FIGURES[name](each)
    assert made.name == name and made.takeaway.endswith(".") and len(made.takeaway) > 20
    drawn = each.figure(name)
    assert len(drawn.data) == len(made.data) > 0
    assert json.loads(json.dumps(made.spec(), allow_nan=False)) == made.spec()


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_estimate_gives_the_same_figure(answer: Estimate, name: str) -> None:
    again = am.estimate(answer.design)
    assert FIGURES[name](again).spec() == FIGURES[name](answer).spec()


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("design", ["hostile", "layers"])
def test_text_of_a_design_is_escaped(request: pytest.FixtureRequest, design: str, name: str) -> None:
    hostile: Estimate = request.getfixturevalue(design)
    spec = FIGURES[name](hostile).spec()
    allowed = {"<b>", "</b>", "<br>", "<extra>", "</extra>"}
    for text in texts(spec):
        for tag in allowed:
            text = text.replace(tag, "")
        assert "<" not in text


def test_the_waterfall_adds_up_to_the_iteration(each: Estimate) -> None:
    parts = [s for s in stretches(each) if s.kind != "hidden"]
    assert sum(s.seconds for s in parts) == pytest.approx(each.iteration_time, rel=1e-12)
    rank, _ = busiest_and_median(each)
    compute = sum(s.seconds for s in parts if s.kind == "compute")
    assert compute == pytest.approx(on_rank(each.busy("compute"), rank), rel=1e-12)


def test_exposed_and_hidden_are_the_whole_of_every_exchange(answer: Estimate) -> None:
    found = stretches(answer)
    for phase in answer.phases:
        if "compute" not in phase.stream.split("+"):
            mine = sum(s.seconds for s in found if s.name == phase.name and s.kind in ("exposed", "hidden"))
            whole = sum(float(answer.op(name).slowest) for name in phase.ops)
            assert mine == pytest.approx(whole, rel=1e-9, abs=0.005 * answer.iteration_time)


def test_exposed_is_what_the_phases_say(each: Estimate) -> None:
    exposed = sum(s.seconds for s in stretches(each) if s.kind == "exposed")
    assert exposed == pytest.approx(sum(p.exposed or 0.0 for p in each.phases if "compute" not in p.stream))


def test_a_waterfall_is_no_longer_than_a_screen(each: Estimate) -> None:
    assert waterfall(each).height < 1000


def test_bars_of_the_waterfall_begin_where_the_last_ended(each: Estimate) -> None:
    bars = sorted(
        (y, base, x)
        for trace in waterfall(each).data
        for y, base, x in zip(trace["y"], trace["base"], trace["x"], strict=True)
        if "hidden" not in trace["name"]
    )
    ends = 0.0
    for _, base, x in bars[:-1]:
        assert base == pytest.approx(ends, abs=1e-12)
        ends = base + x
    assert (bars[-1][1], bars[-1][2]) == (0.0, pytest.approx(ends))


def test_phases_on_top_of_each_other_add_up_too(each: Estimate) -> None:
    assert sum(pieces(each).values()) == pytest.approx(each.iteration_time, rel=1e-12)


def test_the_timeline_has_a_bar_for_every_op_on_every_stream(each: Estimate) -> None:
    figure = timeline(each)
    now = [trace for trace in figure.data if trace["opacity"] == 1.0]
    ranks = set(busiest_and_median(each)) if each.program.ranks > 1 else {0}
    wanted = sum(len(op.op.streams) for op in each.ops for rank in ranks if on_rank(op.time, rank) > 0)
    assert sum(len(trace["x"]) for trace in now) == wanted
    ends = max(b + x for trace in now for b, x in zip(trace["base"], trace["x"], strict=True))
    assert ends <= each.latency * (1 + 1e-9)


def test_bars_of_one_row_do_not_overlap(each: Estimate) -> None:
    rows: dict[float, list[tuple[float, float]]] = {}
    for trace in timeline(each).data:
        if trace["opacity"] == 1.0:
            for y, base, x in zip(trace["y"], trace["base"], trace["x"], strict=True):
                rows.setdefault(y, []).append((base, base + x))
    for spans in rows.values():
        spans.sort()
        assert all(b[0] >= a[1] - 1e-9 for a, b in pairwise(spans))


def test_pointing_at_a_bar_tells_its_law_and_inputs(answer: Estimate) -> None:
    told = timeline(answer, laws.hints(laws.explained(answer))).data
    lookup = next(
        text
        for trace in told
        for text, op in zip(trace["hovertext"], trace["customdata"], strict=True)
        if op == "table.lookup"
    )
    assert (
        "law components." in lookup
        and " t = " in f" {lookup.replace('<br>', ' ')}"
        and "gpu.hbm.bandwidth = " in lookup
        and "time goes to" in lookup
    )


def test_no_kernel_is_above_its_roof_by_more_than_its_cache_gives(answer: Estimate) -> None:
    device = answer.design.system.gpu
    for kernel in kernels(answer):
        assert kernel.rate == pytest.approx(kernel.flops / kernel.seconds)
        if kernel.dtype in device.rates():
            assert kernel.rate <= float(device.peak(kernel.dtype)) * (1 + 1e-9)


def test_balance_has_every_rank(each: Estimate) -> None:
    rows = loads(each)
    assert all(len(times) == each.program.ranks for times in rows.values())
    assert np.allclose(rows["all compute"], each.busy("compute"))


def test_memory_bars_stack_to_the_need(each: Estimate) -> None:
    traces = memory(each).data
    need = each.memory["hbm"]
    stacked = sum(np.asarray(trace["y"]) for trace in traces if trace["yaxis"] == "y")
    ranks = np.asarray(traces[0]["x"])
    assert np.allclose(stacked, np.broadcast_to(need.need, each.program.ranks)[ranks])


def test_flows_are_all_bytes_of_the_program(each: Estimate) -> None:
    total = sum(flows(each).values())
    wanted = sum(
        float(np.mean(amount))
        for op in each.ops
        for amount in (*op.op.work.memory_bytes().values(), *op.op.work.wire_bytes().values())
    )
    assert total == pytest.approx(wanted)
    assert sum(traffic(each).data[0]["link"]["value"]) == pytest.approx(wanted)


def test_memories_of_the_node_are_as_busy_as_the_estimate_says(each: Estimate) -> None:
    busy = used(each)
    assert {tier: busy[f"{tier} memory"] for tier in each.tiers} == {
        tier: float(np.max(use.busy)) for tier, use in each.tiers.items()
    }
    assert [line[0] for line in tables.tiers(each).rows] == [tier.upper() for tier in each.tiers]
    assert [line[0] for line in tables.caches(each).rows] == list(each.caches)


def test_a_figure_of_many_points_or_no_such_name_is_refused(answer: Estimate) -> None:
    with pytest.raises(ArchmodelError, match="did you mean timeline"):
        answer.figure("timelin")
    many = am.estimate(answer.design.with_({"system.node.gpu.hbm.bandwidth": np.array([1e12, 2e12])}))
    with pytest.raises(ArchmodelError, match="one design point"):
        many.figure("timeline")


def test_ops_of_other_names_do_not_merge() -> None:
    assert Figure("a", "t", "s", [], {}).spec() == {"data": [], "layout": {"height": 340}, "narrow": {}}
    assert len(HOSTILE) == len(set(HOSTILE))
