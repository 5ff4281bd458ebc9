"""The contract of devices, and what the device files of the catalogue state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from archmodel import catalogue, source
from archmodel.components import DEVICES, Breakdown, Device, Gpu
from archmodel.components.processor import KernelConstants, Launch
from archmodel.errors import ArchmodelError, DesignError, QuantityError
from archmodel.memory.tier import MemoryTier
from archmodel.quantities import Num

Load = Callable[[str], Any]
GPUS = sorted(
    path.stem for path in (catalogue.directory() / "devices").glob("*.yaml") if "sm_count" in path.read_text()
)


def test_gemm_time_is_a_float_for_scalars_and_an_array_for_arrays(device: Load) -> None:
    a100 = device("a100_sxm_80gb")
    one = a100.gemm_time(4096, 1024, 1024, dtype="bf16")
    many = a100.gemm_time(np.array([64, 4096]), 1024, 1024, dtype="bf16")
    assert isinstance(one, float)
    assert many.shape == (2,)
    assert many[1] == pytest.approx(one)


@pytest.mark.parametrize("name", ["a100_sxm_80gb", "xeon_8480c", "tpu_v4"])
@pytest.mark.parametrize("bad", [-1, float("nan"), np.array([4, -1]), "four", True])
def test_gemm_time_refuses_sizes_that_are_none(device: Load, name: str, bad: Any) -> None:
    for at in range(3):
        sizes = [64, 64, 64]
        sizes[at] = bad
        with pytest.raises(QuantityError):
            device(name).gemm_time(*sizes, dtype="bf16")
    assert device(name).gemm_time([64, 128], 64, 64, dtype="bf16").shape == (2,)


def test_a_device_must_answer_everything() -> None:
    class Half(Device):
        def rates(self) -> Mapping[Any, Num]:
            return {}

    with pytest.raises(TypeError, match="abstract"):
        Half.model_validate({})


def test_a_device_from_elsewhere_needs_only_the_contract() -> None:
    class Rock(Device):
        """It does nothing, and takes a second for it."""

        @property
        def memory(self) -> MemoryTier:
            return MemoryTier.model_validate({"capacity": 1.0, "bandwidth": 1.0})

        def rates(self) -> Mapping[Any, Num]:
            return {}

        def launch_overhead(self, graph: bool) -> Num:
            return 1.0

        def gemm(self, *work: Num, **options: Any) -> Breakdown:  # type: ignore[override]
            return Breakdown({"launch": 1.0})

        stream = gather = exact_update = gemm  # type: ignore[assignment]

    assert Rock.model_validate({}).gemm_time(1, 1, 1) == 1.0
    with pytest.raises(ArchmodelError, match="the device has no bf16; it has none"):
        Rock.model_validate({}).peak("bf16")


def test_v100_has_no_bf16(device: Load) -> None:
    with pytest.raises(ArchmodelError, match="V100-SXM2-32GB has no bf16; it has fp64, fp32, fp16"):
        device("v100_sxm2_32gb").gemm_time(64, 64, 64, "bf16")


def test_an_unknown_format_is_refused_where_it_stands() -> None:
    tree = source.read(catalogue.find("devices/a100_sxm_80gb.yaml"), catalogue=catalogue.directory())
    with pytest.raises(DesignError, match=r"peaks\.fp17"):
        source.validate(Gpu, source.set_path(tree, "peaks.fp17", "1 TFLOP/s"))


def test_issuing_kernels_hides_behind_long_ones(device: Load) -> None:
    """One by one, a kernel costs its issue or its work, whichever is longer."""
    a100 = device("a100_sxm_80gb")
    issue, gap = a100.launch.eager, a100.launch.graph
    assert float(a100.stream(1e3, graph=False).total) == pytest.approx(issue)
    assert float(a100.stream(1e9, graph=False).total) == pytest.approx(float(a100.stream(1e9).total))
    assert float(a100.stream(1e9, graph=False).parts["launch"]) == pytest.approx(gap)
    updated = a100.exact_update(1.0, 128.0, 128.0, 256.0, 8.0, graph=False)
    assert float(updated.total) == pytest.approx(a100.kernels.update_launches * issue)


def test_an_issue_shorter_than_the_gap_cannot_make_it_shorter(device: Load) -> None:
    quick = device("a100_sxm_80gb").model_copy(update={"launch": Launch(eager=1e-9, graph=1e-6)})
    assert quick.launch_overhead(False) == 1e-6
    assert float(quick.stream(0.0, graph=False).total) == 1e-6


def test_a_sort_of_its_own_share(device: Load) -> None:
    a100 = device("a100_sxm_80gb")
    shares = a100.kernels.model_copy(update={"sort": 0.5})
    slow = a100.model_copy(update={"kernels": shares}).exact_update(1e7, 0.0, 0.0, 0.0, 0.0).parts["sort"]
    assert slow == pytest.approx(1e7 * shares.sort_bytes_per_index / (0.5 * a100.hbm.bandwidth))
    plain = a100.model_copy(update={"kernels": shares.model_copy(update={"sort": None})})
    sorted_as_streamed = plain.exact_update(1e7, 0.0, 0.0, 0.0, 0.0).parts["sort"]
    assert sorted_as_streamed == pytest.approx(1e7 * shares.sort_bytes_per_index / (shares.stream * a100.hbm.bandwidth))


def test_a_share_of_more_than_all_is_refused() -> None:
    with pytest.raises(ValueError, match="above 1"):
        KernelConstants.model_validate({"stream": 1.1, "gather": 0.8, "update": 0.7, "sort_bytes_per_index": 96.0})


# --- the files -----------------------------------------------------------------------------------------------

TENSOR_FLOPS = {
    "V100": 1024,
    "A100": 2048,
    "A40": 1024,
    "L40S": 1024,
    "H100": 4096,
    "H200": 4096,
    "B200": 8192,
    "P100": 256,
}
"""fp16 operations per cycle of one SM: multiply-adds of its tensor cores (P100: of its cores) times two."""


@pytest.mark.parametrize("name", [name for name in GPUS if name != "npu_120t"])  # no silicon: a paper's assumption
def test_peaks_follow_from_cores_and_clock(name: str, device: Load) -> None:
    """A sparse rate, or one of another model, would be off by a factor."""
    gpu = device(name)
    per_cycle = TENSOR_FLOPS[gpu.name.split("-")[0]]
    assert gpu.peak("fp16") == pytest.approx(gpu.sm_count * per_cycle * gpu.clock, rel=0.015)


@pytest.mark.parametrize("name", GPUS)
def test_rates_of_narrow_formats_are_ratios_of_fp16(name: str, device: Load) -> None:
    rates = device(name).rates()
    expected = {"bf16": 1.0, "tf32": 0.5, "fp8": 2.0, "int8": 2.0}
    for dtype in expected.keys() & rates.keys():
        assert rates[dtype] / rates["fp16"] == pytest.approx(expected[dtype], rel=0.015), dtype


@pytest.mark.parametrize(
    ("name", "bandwidth", "capacity"),
    [
        ("a100_sxm_40gb", 1555e9, 40e9),
        ("a100_sxm_80gb", 2039e9, 80e9),
        ("h100_sxm_80gb", 3352e9, 80e9),
        ("h100_pcie_80gb", 2039e9, 80e9),
        ("v100_sxm2_16gb", 900e9, 16e9),
        ("v100_sxm2_32gb", 900e9, 32e9),
        ("l40s_48gb", 864e9, 48e9),
        ("a40_48gb", 696e9, 48e9),
    ],
)
def test_memory_is_that_of_the_datasheet(name: str, bandwidth: float, capacity: float, device: Load) -> None:
    assert device(name).hbm.bandwidth == bandwidth
    assert device(name).hbm.capacity == capacity


@pytest.mark.parametrize("name", GPUS)
def test_achieved_rates_do_not_exceed_the_cache(name: str, device: Load) -> None:
    gpu = device(name)
    assert gpu.l2_bandwidth is None or gpu.l2_bandwidth > gpu.hbm.bandwidth


def test_all_kinds_are_registered() -> None:
    assert {"gpu", "cpu", "accelerator"} <= set(DEVICES.kinds())
