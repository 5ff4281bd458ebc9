"""What a page of a sweep shows: fronts against brute force, objectives however they are written, points chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import archmodel as am
from archmodel.report.html import opening
from archmodel.report.html import sweep as pages
from archmodel.report.html.front import front
from archmodel.report.html.sweep import View
from archmodel.sweep.results import Results

NUMBERS = st.one_of(st.integers(-4, 4).map(float), st.just(np.nan))


def beaten(x: np.ndarray, y: np.ndarray, i: int, x_up: bool, y_up: bool) -> bool:
    a, b = x * (1 if x_up else -1), y * (1 if y_up else -1)
    others = np.isfinite(a) & np.isfinite(b)
    return bool(np.any(others & (a >= a[i]) & (b >= b[i]) & ((a > a[i]) | (b > b[i]))))


PAIRS = st.integers(0, 12).flatmap(lambda n: st.tuples(*[arrays(float, n, elements=NUMBERS)] * 2))


@given(PAIRS, st.booleans(), st.booleans())
def test_the_front_is_what_brute_force_finds(xy: tuple[np.ndarray, np.ndarray], x_up: bool, y_up: bool) -> None:
    x, y = xy
    good = np.isfinite(x) & np.isfinite(y)
    wanted = [bool(good[i]) and not beaten(x, y, i, x_up, y_up) for i in range(len(x))]
    assert front(x, y, x_up=x_up, y_up=y_up).tolist() == wanted


def table(points: int = 50, **meta: Any) -> Results:
    rng = np.random.default_rng(0)
    held = {
        "point": np.arange(points),
        "a": rng.random(points),
        "b": np.array(["x", "<y>"] * (points // 2), dtype=object),
        "throughput": rng.random(points) * 1e6,
        "energy_per_sample": rng.random(points),
        "constant": np.ones(points),
        "fits": np.ones(points, dtype=bool),
        "reason": np.full(points, None, dtype=object),
    }
    units = {"a": "B/s", "b": "", "throughput": "sample/s", "energy_per_sample": "J/sample", "constant": ""}
    return Results(("a", "b"), ("throughput", "energy_per_sample", "constant"), units, {"points": points, **meta}, held)


@pytest.mark.parametrize(
    "objectives",
    [
        {"energy_per_sample": "min", "throughput": "max"},
        [{"name": "energy_per_sample", "goal": "minimize"}, {"name": "throughput", "goal": "maximize"}],
        ["energy_per_sample", "throughput"],
        ["-energy_per_sample", "+throughput"],
    ],
)
def test_objectives_of_a_search(objectives: Any) -> None:
    view = View(table(objectives=objectives))
    assert list(view.objectives.items()) == [("energy_per_sample", False), ("throughput", True)]


def test_without_objectives_throughput_is_traded() -> None:
    assert View(table()).objectives == {"throughput": True, "energy_per_sample": False}


def test_points_without_an_answer_are_left_out_and_counted() -> None:
    given_ = table()
    holes = given_.held["throughput"].copy()
    holes[::5] = np.nan
    view = View(replace(given_, held={**given_.held, "throughput": holes}))
    assert len(view.answered) == 40
    assert "10 without an answer" in pages.sweep(view.results).subtitle


def test_a_long_table_keeps_the_front_and_the_best() -> None:
    view = View(table(20_000))
    assert len(view.shown) == pages.MOST_POINTS == len(set(view.shown.tolist()))
    assert set(view.answered[view.on_front]) <= set(view.shown)
    assert view.shown[0] == int(np.argmax(view.results["throughput"]))
    assert "holds 4,000 of 20,000 points" in pages.sweep(view.results).html()


def test_no_answer_at_all_is_a_page_too() -> None:
    given_ = table()
    none = {name: np.full(50, np.nan) for name in ("throughput", "energy_per_sample", "constant")}
    reasons = np.full(50, "does not fit: <hbm>", dtype=object)
    html = pages.sweep(replace(given_, held={**given_.held, **none, "reason": reasons})).html()
    assert "No point has an answer" in html and "does not fit: <hbm>" not in html


def test_one_axis_and_one_output() -> None:
    given_ = table()
    narrow = replace(given_, inputs=("a",), outputs=("throughput",))
    assert View(narrow).objectives == {"throughput": True, "a": True}
    assert len(pages.sweep(narrow).html()) > 0


def test_a_search_of_several_models_shows_knobs_against_its_objectives(two_node_design: Path, tmp_path: Path) -> None:
    base = am.load(two_node_design)
    found = am.search(
        {
            "designs": {"one": base, "two": base.with_({"workload.global_batch": 8192})},
            "knobs": {"system.node.gpu.hbm.bandwidth": ["1 TB/s", "2 TB/s"], "system.nodes": [1, 2]},
            "objectives": {"two.throughput": "max", "nodes": "min"},
        },
        out=tmp_path / "front.parquet",
    )
    assert len(found.front)
    table = opening.open_table(tmp_path / "front.points.parquet")
    assert table.inputs == ("system.node.gpu.hbm.bandwidth", "system.nodes")
    assert {"one.throughput", "two.throughput"} <= set(table.outputs)
    assert View(table).objectives == {"two.throughput": True, "nodes": False}
