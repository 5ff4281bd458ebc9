"""Every row of the table is what evaluating that point alone gives, to the last bit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.errors import DesignError
from archmodel.sweep.executors import SweepError
from archmodel.sweep.job import sizes
from archmodel.sweep.prepare import Request, design_hash, prepared
from archmodel.sweep.results import Results
from archmodel.sweep.space import Space

from .conftest import AXES, BATCH, HBM, LINK


def same(a: Results, b: Results) -> bool:
    """Equal bit for bit, NaN included."""
    return all(
        np.array_equal(a[n], b[n], equal_nan=True) if a[n].dtype.kind == "f" else list(a[n]) == list(b[n]) for n in a
    )


def test_rows_are_what_each_point_alone_gives(small: am.Design) -> None:
    table = am.sweep(small, AXES)
    assert table.points == 42
    assert list(table["point"]) == list(range(42))
    assert list(table[BATCH][:6]) == [2048] * 3 + [4096] * 3
    for row in range(42):
        changes = {path: table[path][row].item() for path in AXES}
        alone = am.estimate(small.with_(changes))
        assert table["iteration_time"][row] == alone.iteration_time
        assert table["throughput"][row] == alone.throughput
        assert table["exposed_communication"][row] == alone.exposed_communication
        assert alone.energy is not None and table["energy_per_sample"][row] == alone.energy.per_sample
        assert table["hbm_need"][row] == alone.memory["hbm"].worst
        assert table["fits"][row] == alone.fits


@pytest.mark.parametrize("sample", ["random", "latin_hypercube", "sobol"])
def test_drawn_rows_are_what_each_point_alone_gives(small: am.Design, sample: str) -> None:
    axes = {HBM: am.between("1 TB/s", "4 TB/s", "log"), BATCH: [2048, 4096], "plan.prefetch_input": [True, False]}
    table = am.sweep(small, axes, sample=sample, points=12, seed=3)
    for row in range(12):
        alone = small.with_({path: table[path][row].item() for path in axes})
        assert table["iteration_time"][row] == am.estimate(alone).iteration_time


def test_a_list_takes_axes_side_by_side(small: am.Design) -> None:
    table = am.sweep(small, {HBM: ["1 TB/s", "2 TB/s"], BATCH: [4096, 2048]}, sample="list")
    assert list(zip(table[HBM], table[BATCH], strict=True)) == [(1e12, 4096), (2e12, 2048)]


def test_numbers_go_into_one_pass_and_counts_and_capacities_do_not(small: am.Design) -> None:
    axes = {HBM: [1e12, 2e12], "system.node.gpu.hbm.capacity": ["40 GB", "80 GB"], BATCH: [2048]}
    numeric = {axis.path: axis.numeric for axis in prepared(Request(small, axes)).space.axes}
    assert numeric == {HBM: True, "system.node.gpu.hbm.capacity": False, BATCH: False}


def test_a_design_is_compiled_once_for_all_its_numbers(small: am.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    from archmodel import design as module

    calls = []
    lower = module.lower
    small.program
    monkeypatch.setattr(module, "lower", lambda *a: calls.append(1) or lower(*a))
    am.sweep(small, {HBM: am.linspace("1 TB/s", "4 TB/s", 50), BATCH: [2048, 1024, 512]})
    assert len(calls) == 3


def test_points_that_do_not_fit_say_so_and_the_others_stand(small: am.Design) -> None:
    table = am.sweep(small, {BATCH: [4096, 400_000_000], HBM: ["1 TB/s", "2 TB/s"]})
    assert list(table["fits"]) == [True, True, False, False]
    assert np.isnan(table["iteration_time"][2:]).all() and np.isfinite(table["iteration_time"][:2]).all()
    assert np.isfinite(table["hbm_need"]).all()
    assert table["reason"][0] is None
    assert table["reason"][2].startswith("does not fit: hbm of rank 0 needs ") and " of 80" in table["reason"][2]


def test_points_that_cannot_be_are_recorded_and_the_sweep_goes_on(small: am.Design) -> None:
    axes = {"system.nodes": [1, 2], "plan.tables.assign.rows.ranks": [[0, 1], [0, 99]]}
    table = am.sweep(small, axes)
    assert [bool(f) for f in table["fits"]] == [r is None for r in table["reason"]]
    assert any("99" in (r or "") for r in table["reason"])


def test_one_bad_number_spoils_only_its_own_point(small: am.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    from archmodel.sweep import job as module

    honest = module.estimate

    def touchy(design: am.Design) -> Any:
        if np.any(np.asarray(design.system.gpu.memory.bandwidth) == 2.5e12):
            raise ZeroDivisionError("a model of a stranger")
        return honest(design)

    monkeypatch.setattr(module, "estimate", touchy)
    table = am.sweep(small, {HBM: am.linspace("1 TB/s", "4 TB/s", 7)})
    assert [r is None for r in table["reason"]] == [True] * 3 + [False] + [True] * 3
    assert table["reason"][3] == "ZeroDivisionError: a model of a stranger"


def test_labels_units_and_origin(small: am.Design) -> None:
    table = am.sweep(small, AXES)
    assert table.units[HBM] == "B/s" and table.units["iteration_time"] == "s" and table.units[BATCH] == ""
    assert table.meta["design_hash"] == design_hash(small) and len(table.meta["design_hash"]) == 64
    assert table.meta["package_version"] == am.__version__
    assert "git_version" in table.meta
    assert set(table.units) == set(table)
    assert next(iter(table)) == "point" and len(table) == len(list(table))


def test_the_hash_is_of_values_not_of_places(small: am.Design, tmp_path: Path) -> None:
    assert small.path is not None
    copy = tmp_path / "moved.yaml"
    copy.write_text("# moved\n" + small.path.read_text(encoding="utf-8"), encoding="utf-8")
    assert design_hash(am.load(copy)) == design_hash(small)
    assert design_hash(small.with_({BATCH: 64})) != design_hash(small)


def test_chosen_outputs_and_the_time_of_an_op(small: am.Design) -> None:
    table = am.sweep(small, {HBM: ["1 TB/s", "2 TB/s"]}, outputs=["throughput", "op.table.lookup"])
    assert table.outputs == ("throughput", "op.table.lookup")
    assert table["op.table.lookup"][0] > table["op.table.lookup"][1] > 0


def test_best_and_figure(small: am.Design) -> None:
    table = am.sweep(small, AXES)
    best = table.best()
    assert best is not None and best[HBM] == 4e12 and best["throughput"] == table["throughput"].max()
    assert table.best("iteration_time")["iteration_time"] == table["iteration_time"].min()  # type: ignore[index]
    figure = table.figure(x=HBM)
    assert len(figure.data) == 2 and figure.layout.xaxis.title.text == f"{HBM} [B/s]"


def test_an_unknown_column_names_the_nearest(small: am.Design) -> None:
    with pytest.raises(KeyError, match="did you mean throughput"):
        am.sweep(small, {BATCH: [64]})["throughputs"]


def test_polars_frame(small: am.Design) -> None:
    pytest.importorskip("polars")
    frame = am.sweep(small, AXES).to_polars()
    assert frame.height == 42 and frame["design_hash"][0] == design_hash(small)
    assert frame["reason"].null_count() == 42


@pytest.mark.parametrize(
    ("axes", "more", "field", "message"),
    [
        ({}, {}, "axes", "is empty"),
        ({HBM: []}, {}, HBM, "is an empty axis"),
        ({HBM: "1 TB/s"}, {}, HBM, "is no axis"),
        ({HBM: ["1 TB/s", "25 GB"]}, {}, f"{HBM}[1]", "a bandwidth is needed"),
        ({HBM: [1e12, math.nan]}, {}, f"{HBM}[1]", "not a finite number"),
        ({HBM: [1e12, -1.0]}, {}, f"{HBM}[1]", "is negative"),
        ({HBM: [1e12, 0]}, {}, HBM, "is zero"),
        ({"system.node.gpu.hmb.bandwidth": [1e12]}, {}, "system.node.gpu.hmb", "did you mean hbm?"),
        ({"system.node.gpu.hbm.bandwith": [1e12]}, {}, "system.node.gpu.hbm.bandwith", "did you mean bandwidth?"),
        ({"system.node..gpu": [1]}, {}, "system.node..gpu", "is no path"),
        ({"system.nodes": [1, 0]}, {}, "system.nodes", "is less than 1"),
        ({"system.nodes": [1, 2.5]}, {}, "system.nodes", "is not a whole number"),
        ({"system.nodes": am.linspace(1, 4, 5)}, {}, "system.nodes.count", "between whole numbers"),
        ({HBM: am.between("1 TB/s", "2 TB/s")}, {}, HBM, "has no count"),
        ({HBM: am.linspace("2 TB/s", "1 TB/s", 3)}, {}, f"{HBM}.to", "is below from"),
        ({HBM: am.linspace("1 TB/s", "2 TB/s", 0)}, {}, f"{HBM}.count", "at least one value"),
        ({HBM: am.logspace("0 B/s", "1 TB/s", 2)}, {}, f"{HBM}.from", "is not above zero"),
        ({HBM: {"from": 1e12, "to": 2e12, "cout": 3}}, {}, f"{HBM}.cout", "did you mean count?"),
        ({HBM: {"from": 1e12}}, {}, HBM, "has no to"),
        ({HBM: [1e12]}, {"sample": "sobel"}, "sample", "did you mean sobol?"),
        ({HBM: [1e12]}, {"sample": "random"}, "points", "is missing"),
        ({HBM: [1e12]}, {"points": 3}, "points", "is for what is drawn"),
        ({HBM: [1e12]}, {"outputs": ["thruput"]}, "outputs", "did you mean throughput?"),
        ({HBM: [1e12]}, {"outputs": ["op.tabel.lookup"]}, "outputs", "did you mean op.table.lookup?"),
        ({HBM: [1e12, 2e12], LINK: [1e11]}, {"sample": "list"}, LINK, "has 1 values"),
    ],
)
def test_bad_axes_are_named(
    small: am.Design, axes: dict[str, Any], more: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(DesignError) as caught:
        am.sweep(small, axes, **more)
    assert any(p.field == field and message in p.message for p in caught.value.problems), str(caught.value)


def test_all_bad_axes_are_named_at_once(small: am.Design) -> None:
    with pytest.raises(DesignError) as caught:
        am.sweep(small, {HBM: [], LINK: ["3 GB"], "system.node.gpus": [0]})
    assert len(caught.value.problems) == 3


def test_a_design_that_holds_points_is_refused(small: am.Design) -> None:
    with pytest.raises(DesignError, match="holds design points already"):
        am.sweep(small.with_({HBM: np.array([1e12, 2e12])}), {LINK: ["100 GB/s"]})


def test_too_much_for_memory_is_said_before_anything_runs(small: am.Design) -> None:
    axes = {HBM: am.linspace("1 TB/s", "2 TB/s", 10_000), LINK: am.linspace("1 TB/s", "2 TB/s", 10_000)}
    with pytest.raises(SweepError, match="100,000,000 points are too many for memory"):
        am.sweep(small, axes)


def test_chunks_shrink_for_many_ranks_and_for_many_designs(small: am.Design) -> None:
    def space(n: int, numeric: bool) -> Space:
        request = Request(small, {HBM: am.linspace("1 TB/s", "2 TB/s", n)} if numeric else {BATCH: list(range(1, n))})
        return prepared(request).space

    assert sizes(space(1_000_000, True), 1) == (8192, 8192 * 3)
    assert sizes(space(1_000_000, True), 128) == (1024, 8192)
    assert sizes(space(200, False), 1) == (8192, 16)


def test_progress_counts_to_the_end(small: am.Design) -> None:
    told: list[tuple[int, int, int]] = []
    am.sweep(small, {BATCH: list(range(64, 64 * 41, 64))}, progress=lambda *a: told.append(a))
    assert told[0] == (0, 40, 0) and told[-1] == (40, 40, 0)
    assert [t[0] for t in told] == sorted(t[0] for t in told)


def test_a_manifest_is_plain_json(small: am.Design) -> None:
    json.dumps(am.sweep(small, {"plan.prefetch_input": [True, False]}).meta, allow_nan=False)
