"""CPUs: derived peaks and bandwidth against published ones, caches, and whole designs on a node of CPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.components import Cpu
from archmodel.errors import ArchmodelError, DesignError
from archmodel.estimate.knobs import replaced

Load = Callable[[str], Any]

PUBLISHED = [
    # name, fp32 FLOP/s, DDR B/s, where from
    ("xeon_skylake_1_6", 0.98e12, 76.8e9),  # RecNMP (ISCA 2020): compute roof and peak bandwidth
    ("xeon_broadwell", 14 * 2 * 2 * 8 * 2.4e9, 77e9),  # HPCA 2020, Table II
    ("epyc_7742", 64 * 2 * 2 * 8 * 2.25e9, 204.8e9),  # AMD product page: per-socket bandwidth
    ("xeon_8480c", 56 * 2 * 2 * 16 * 2.0e9, 307.2e9),
]


@pytest.mark.parametrize(("name", "peak", "bandwidth"), PUBLISHED)
def test_peaks_and_bandwidth_follow_from_the_parts(name: str, peak: float, bandwidth: float, device: Load) -> None:
    cpu = device(name)
    assert cpu.peak("fp32") == pytest.approx(peak, rel=0.005)
    assert cpu.peak("fp64") == pytest.approx(peak / 2, rel=0.005)
    assert cpu.memory.bandwidth == pytest.approx(bandwidth, rel=0.005)


def test_matrix_units_add_formats(device: Load) -> None:
    xeon = device("xeon_8480c")
    assert xeon.peak("bf16") == pytest.approx(56 * 1024 * 2.0e9)
    assert xeon.gemm_time(4096, 4096, 4096, "bf16") < xeon.gemm_time(4096, 4096, 4096, "fp32") / 8


def test_lookups_saturate_where_they_were_measured_to(device: Load) -> None:
    """RecNMP: pooled lookups of its Skylake host saturate at 51.8 GB/s."""
    cpu = device("xeon_skylake_1_6")
    assert 1e10 / float(cpu.gather(1e10, 1e10, 0.0).total) == pytest.approx(51.8e9, rel=0.01)


def test_few_cores_cannot_wait_for_enough_lines(device: Load) -> None:
    """Little's law: 12 lines of 64 B per 90 ns and core."""
    one = device("xeon_skylake_1_6").model_copy(update={"cores": 1})
    assert one.gather_bandwidth == pytest.approx(12 * 64 / 90e-9)
    assert one.model_copy(update={"outstanding_misses": None}).gather_bandwidth == pytest.approx(0.674 * 76.8e9)
    instant = one.model_copy(update={"ddr": one.ddr.model_copy(update={"latency": 0.0})})
    assert instant.gather_bandwidth == pytest.approx(0.674 * 76.8e9)


def test_an_inclusive_last_level_holds_no_more_than_itself(device: Load) -> None:
    broadwell, skylake = device("xeon_broadwell"), device("xeon_skylake_1_6")
    assert broadwell.cache_capacity == 35 * 2**20
    assert skylake.cache_capacity == (24.75 + 18) * 2**20


def test_fields_may_be_arrays_over_design_points(device: Load) -> None:
    cpu = device("epyc_7742")
    points = replaced(cpu, "ddr.transfer_rate", np.array([[1.6e9], [3.2e9]]))
    times = points.stream(np.array([1e9, 2e9])).total
    assert times.shape == (2, 2)
    assert np.allclose(times[1], cpu.stream(np.array([1e9, 2e9])).total, rtol=1e-12)


def test_a_host_may_leave_its_memory_out_but_then_runs_nothing(device: Load) -> None:
    cpu = device("epyc_7742").model_copy(update={"ddr": None})
    assert cpu.peak("fp32") > 0
    with pytest.raises(ArchmodelError, match="EPYC 7742 states no ddr"):
        cpu.stream(1e6)


@pytest.mark.parametrize("width", [0, 100, 250])
def test_a_register_is_a_multiple_of_64_bits(width: int, device: Load) -> None:
    with pytest.raises(ValueError, match="simd_width"):
        Cpu.model_validate({**device("epyc_7742").model_dump(), "simd_width": width})


NODE = """
name: recommendation model on CPUs
system:
  name: two sockets
  source: made up for tests
  status: assumed
  node:
    {device}: {{kind: cpu, use: devices/epyc_7742.yaml}}
    gpus: {sockets}
    scale_up: {fabric}
workload:
  kind: dlrm
  source: made up for tests
  status: assumed
  global_batch: 256
  dense_features: 13
  bottom_mlp: [64, 32]
  top_mlp: [64, 1]
  tables:
    t: {{count: 6, num_embeddings: 1_000_000, embedding_dim: 32, pooling_factor: 20}}
plan:
  precision: {{compute: fp32}}
  tables: {{default: auto}}
"""


def design(tmp_path: Path, **changes: object) -> am.Design:
    path = tmp_path / "cpu.yaml"
    values = {
        "device": "accelerator",
        "sockets": 2,
        "fabric": "{kind: pcie, bandwidth: 20 GB/s, host_bandwidth: 40 GB/s}",
    }
    path.write_text(NODE.format(**{**values, **changes}), encoding="utf-8")
    return am.load(path)


def test_a_design_runs_on_a_node_of_cpus(tmp_path: Path) -> None:
    answer = am.estimate(design(tmp_path))
    assert answer.iteration_time > 0
    assert float(answer.memory["hbm"].capacity) == pytest.approx(1e12)
    faster = design(tmp_path).with_({"system.node.accelerator.ddr.transfer_rate": "6400 MT/s"})
    assert am.estimate(faster).iteration_time < answer.iteration_time


def test_a_missing_format_of_the_cpu_is_named(tmp_path: Path) -> None:
    with pytest.raises((ArchmodelError, DesignError), match="EPYC 7742 has no bf16"):
        am.estimate(design(tmp_path).with_({"plan.precision.compute": "bf16"}))


def test_explain_names_the_laws_and_parts_of_a_cpu(tmp_path: Path) -> None:
    from archmodel.report.explain import explain

    answer = am.estimate(design(tmp_path))
    told = explain(answer, next(op.name for op in answer.ops if op.name.endswith("lookup")))
    assert {law.name.rpartition(".")[2] for law in told.laws} >= {"gather_bandwidth", "pooled_lookup", "launched"}
    assert {f"system.node.accelerator.{name}" for name in ("ddr.channels", "ddr.transfer_rate", "cores")} <= set(
        told.inputs
    )
