"""Values show themselves in notebooks, escaped, and what draws is imported only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import archmodel as am
from archmodel import views
from archmodel.quantities import show


def test_a_design_an_estimate_a_plan_and_a_sweep_show_themselves(small_design: Path) -> None:
    design = am.load(small_design)
    grid = am.sweep(design, {"workload.global_batch": [2048, 4096]})
    shown = {
        "design": design._repr_html_(),
        "estimate": am.estimate(design)._repr_html_(),
        "plan": am.plan(design)._repr_html_(),
        "sweep": grid._repr_html_(),
    }
    for text in shown.values():
        assert text is not None and "&lt;b&gt;" in text and "<b>" not in text and "<script" not in text
    assert "8 NVIDIA A100" in str(shown["design"]) or "node of 8" in str(shown["design"])
    assert "iteration time" in str(shown["estimate"]) and "lower bound" in str(shown["plan"])


def test_an_estimate_of_many_points_shows_ranges(small_design: Path) -> None:
    import numpy as np

    many = am.estimate(am.load(small_design).with_({"system.node.gpu.hbm.bandwidth": np.array([1e12, 2e12])}))
    assert " to " in str(many._repr_html_())


@pytest.mark.parametrize("name", ["timeline", "waterfall", "roofline", "balance", "memory", "traffic", "elasticities"])
def test_figures_are_plotly_figures(small_design: Path, name: str) -> None:
    figure = am.estimate(am.load(small_design)).figure(name)
    assert type(figure).__name__ == "Figure" and figure.layout.title.text


def test_what_has_no_drawer_shows_nothing() -> None:
    class Plain(views.Viewed):
        pass

    assert Plain()._repr_html_() is None
    views.register("Plain", "html", "tests.test_views:drawn")
    assert views.drawer(Plain(), "figure") is None


def test_estimating_imports_no_report(small_design: Path) -> None:
    code = f"import sys, archmodel as am; am.estimate(am.load({str(small_design)!r}))"
    code += "; print('archmodel.report' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_a_prompt_shows_a_line(small_design: Path, tmp_path: Path) -> None:
    design = am.load(small_design)
    many = am.estimate(design.with_({"system.node.gpu.hbm.bandwidth": np.array([1e12, 2e12])}))
    one = am.estimate(design)
    table = am.sweep(design, {"system.node.gpu.hbm.bandwidth": ["1 TB/s", "2 TB/s"]})
    found = am.search({"design": design, "knobs": {"system.nodes": [1, 2]}, "objectives": ["throughput", "nodes"]})
    plan = am.plan(design, budget=0.0)
    for value in (design, one, many, table, found, plan, design.program, design.placement, one.ops[0]):
        text = repr(value)
        assert text.startswith(f"<{type(value).__name__}") and len(text) < 160
    assert repr(one) == (
        f"<Estimate of {design.name!r}: {show(one.iteration_time, 'seconds')}, "
        f"{show(one.throughput, 'sample_rate')}, fits>"
    )
    assert " to " in repr(many)
    assert repr(design.system.gpu).startswith("Gpu(name='A100-SXM4-80GB'") and "datasheet" not in repr(design.system)
