"""Fits of a GPU's constants: they find what made the measurements, and say how far they are off where they cannot."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from archmodel import catalogue, source
from archmodel.calibrate.gemm_fit import CYCLES, START, Products, fit, halves, predict
from archmodel.calibrate.gpu import Calibration, calibrate_gpu, datasheet
from archmodel.components import Gpu
from archmodel.components.gemm import Constants
from archmodel.errors import ArchmodelError, DesignError
from archmodel.report.html.calibration import MOST_MARKS, gpu_page
from archmodel.report.html.figure import Figure
from archmodel.report.html.table import Table

DAY = datetime.date(2026, 1, 31)
TRUE = Constants(0.93, 0.88, 0.71, 44.0, 2200.0, 900.0, 2600.0, 2900.0, 0.7, 0.3)


def some_products(rows: int = 300, seed: int = 3) -> Products:
    rng = np.random.default_rng(seed)
    m, n, k = (2.0 ** rng.integers(0, 14, rows) * rng.integers(1, 4, rows) for _ in range(3))
    return Products(m, n, np.maximum(k, 32.0), np.ones(rows), 2, np.ones(rows))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that a GPU with known constants would give, with an outlier."""
    gpu = known()
    shapes = some_products()
    seconds = predict(shapes, gpu.chip("bf16"), TRUE, float(gpu.launch.graph))
    lines = ["gpu,kernel,shape,dtype,time"]
    for m, n, k, time in zip(shapes.m, shapes.n, shapes.k, seconds, strict=True):
        lines.append(f"made_up,gemm,m={m:.0f} n={n:.0f} k={k:.0f},bf16,{float(time)!r} s")
    lines[5] = lines[5].rpartition(",")[0] + ",1 s"
    for bytes_ in (1e6, 1e7, 1e8, 1e9):
        lines.append(f"made_up,copy,bytes={bytes_},fp32,{float(gpu.stream(bytes_).total)!r} s")
        lookup = (bytes_, bytes_ / 4, bytes_ / 10)
        names = ("demanded_bytes", "unique_bytes", "streamed_bytes")
        text = " ".join(f"{name}={value}" for name, value in zip(names, lookup, strict=True))
        lines.append(f"made_up,lookup,{text},fp16,{float(gpu.gather(*lookup).total)!r} s")
        update = (bytes_ / 100, bytes_, bytes_ / 4, bytes_ / 2, bytes_ / 20)
        names = ("indices", "gradient_bytes", "gradient_unique_bytes", "row_bytes", "streamed_bytes")
        text = " ".join(f"{name}={value}" for name, value in zip(names, update, strict=True))
        lines.append(f"made_up,update,{text},fp16,{float(gpu.exact_update(*update).total)!r} s")
    lines += [
        "made_up,launch,graph=1,fp32,1.5 us",
        "made_up,launch,graph=0,fp32,5 us",
        "made_up,launch,graph=0,fp32,6 us",
    ]
    file = tmp_path_factory.mktemp("measured") / 'a "table".csv'
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def known() -> Gpu:
    gpu = datasheet("a100_sxm_80gb")
    shares = gpu.kernels.model_copy(update={"stream": 0.8, "gather": 0.7, "update": 0.6})
    launch = gpu.launch.model_copy(update={"graph": 1.5e-6, "eager": 5.5e-6})
    return gpu.model_copy(update={"kernels": shares, "launch": launch})


@pytest.fixture(scope="module")
def calibration(measured: Path) -> Calibration:
    return calibrate_gpu(measured, "a100_sxm_80gb", date=DAY)


def test_a_fit_finds_the_constants_that_made_the_times() -> None:
    chip = datasheet("a100_sxm_80gb").chip("bf16")
    shapes = some_products()
    seconds = predict(shapes, chip, TRUE, 1e-6)
    made = Products(shapes.m, shapes.n, shapes.k, shapes.batch, 2, seconds)
    found = fit([(made, chip)], 1e-6, start=START)
    assert np.abs(predict(made, chip, found, 1e-6) / seconds - 1).mean() < 0.01
    assert found.peak_fraction == pytest.approx(TRUE.peak_fraction, rel=0.05)
    assert found.split_cycles == pytest.approx(TRUE.split_cycles, rel=0.1)


def test_few_rows_fit_loads_and_latencies_and_keep_the_rest(tmp_path: Path) -> None:
    """Of times that a chip with slower loads and longer latencies made; the block says what was not fitted."""
    base = datasheet("a100_sxm_80gb")
    law = base.kernels.gemm.of_law
    slower = law._replace(load_width=0.6 * law.load_width, **{name: 1.5 * getattr(law, name) for name in CYCLES})
    shapes = some_products()
    rows = predict(shapes, base.chip("bf16"), slower, float(base.launch.graph))
    table = tmp_path / "table.csv"
    lines = zip(shapes.m, shapes.n, shapes.k, shapes.batch, rows, strict=True)
    table.write_text("m,n,k,batch,time_s\n" + "\n".join(",".join(map(repr, map(float, line))) for line in lines))
    found = calibrate_gpu(table, base, few=True, date=DAY)
    constants = found.gpu.kernels.gemm.of_law
    for name in law._fields:
        assert getattr(constants, name) == pytest.approx(float(np.asarray(getattr(slower, name))), rel=0.01), name
    assert found.fits[-1].error < 0.01
    assert f"one factor of all cycles, the rest as in {base.name}" in found.yaml()


def test_every_kind_of_kernel_is_fitted(calibration: Calibration) -> None:
    gpu = calibration.gpu
    assert [f.kernel for f in calibration.fits] == ["launch", "copy", "lookup", "update", "gemm"]
    assert (gpu.launch.graph, gpu.launch.eager) == (1.5e-6, 5.5e-6)
    assert gpu.kernels.stream == pytest.approx(0.8, abs=0.005)
    assert gpu.kernels.gather == pytest.approx(0.7, abs=0.01)
    assert gpu.kernels.update == pytest.approx(0.6, abs=0.01)
    gemm = calibration.fits[-1]
    assert gemm.error_left_out is not None
    assert np.median(np.abs(gemm.errors)) < 0.02


def test_the_outlier_is_shown_and_does_not_decide(calibration: Calibration) -> None:
    (row, error), (_, next_error), *_ = calibration.fits[-1].worst()
    assert (row.line, row.seconds) == (6, 1.0)
    assert error < -0.99
    assert abs(next_error) < 0.3


def test_the_block_is_yaml_that_a_device_file_can_hold(calibration: Calibration) -> None:
    block = YAML(typ="safe", pure=True).load(io.StringIO(calibration.yaml()))
    gemm = block["kernels"]["gemm"]
    assert 'gemm rows of a "table".csv, 2026-01-31; mean absolute error' in gemm["fitted_on"]
    assert {name: gemm[name] for name in Constants._fields} == calibration.fits[-1].constants
    assert block["kernels"]["stream"]["value"] == "80 %"
    assert block["launch"]["graph"]["value"] == "1.5 us"


def test_a_device_file_with_the_block_is_the_calibrated_gpu(calibration: Calibration, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("use: devices/a100_sxm_80gb.yaml\n" + calibration.yaml(), encoding="utf-8")
    mine = datasheet(file)
    assert mine.kernels.gemm.of_law == calibration.gpu.kernels.gemm.of_law
    assert mine.gemm_time(512.0, 512.0, 512.0) == calibration.gpu.gemm_time(512.0, 512.0, 512.0)
    assert mine.launch.graph == pytest.approx(1.5e-6)


def test_residuals_and_figure_hold_every_row(calibration: Calibration, measured: Path) -> None:
    assert sum(record["rows"] for record in calibration.residuals()) == len(measured.read_text().splitlines()) - 1
    page = gpu_page(calibration)
    (figure,) = page.sections[0].blocks
    assert isinstance(figure, Figure)
    assert [len(trace["x"]) for trace in figure.data] == [
        min(record["rows"], MOST_MARKS) for record in calibration.residuals()
    ]
    for trace, one in zip(figure.data, calibration.fits, strict=True):
        if len(one.rows) <= MOST_MARKS:
            assert trace["y"] == pytest.approx(1.0 + one.errors)
    (table,) = page.sections[2].blocks
    assert isinstance(table, Table)
    assert len(table.rows) == sum(record["rows"] for record in calibration.residuals())


def test_the_same_table_gives_the_same_block(calibration: Calibration, measured: Path) -> None:
    assert calibrate_gpu(measured, "a100_sxm_80gb", date=DAY).yaml() == calibration.yaml()


def test_a_table_that_names_a_device_of_the_catalogue_needs_no_other(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("gpu,kernel,shape,dtype,time\nh100_sxm,launch,graph=1,fp32,2 us\n", encoding="utf-8")
    assert calibrate_gpu(file).gpu.name == "H100-SXM5-80GB"


def test_a_device_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("kernel,shape,dtype,time\nlaunch,graph=1,fp32,2 us\n", encoding="utf-8")
    with pytest.raises(ArchmodelError, match=r"does not say which GPU .*a100_sxm_40gb"):
        calibrate_gpu(file)
    with pytest.raises(ArchmodelError, match="did you mean h100_sxm_80gb"):
        calibrate_gpu(file, "h100_sxn_80gb")
    with pytest.raises(ArchmodelError, match="is a cpu, not a gpu"):
        calibrate_gpu(file, "epyc_7742")


def test_a_precision_that_the_gpu_lacks_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("kernel,shape,dtype,time\ngemm,m=1 n=1 k=1,fp8,2 us\n", encoding="utf-8")
    with pytest.raises(ArchmodelError, match="has no fp8; it has"):
        calibrate_gpu(file, "a100_sxm_80gb")


def test_a_bad_table_is_refused_before_any_fit(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("kernel,shape,dtype,time\ngemm,m=1 n=1 k=1,bf16,-2 us\n", encoding="utf-8")
    with pytest.raises(DesignError) as caught:
        calibrate_gpu(file, "a100_sxm_80gb")
    assert [(problem.field, problem.line) for problem in caught.value.problems] == [("time", 2)]


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_halves(rows: int) -> None:
    half = halves(rows, 0)
    assert half.sum() == rows - rows // 2
    assert (half == halves(rows, 0)).all()


def test_the_catalogue_s_constants_are_what_the_fit_says_of_them() -> None:
    """Both calibrated files state their rows and errors."""
    for name in ("a100_sxm_80gb", "h100_sxm_80gb"):
        block = source.read(catalogue.find(f"devices/{name}.yaml"))["kernels"]["gemm"]
        assert "a random half" in block["fitted_on"]
        assert block["status"] == "fitted"
