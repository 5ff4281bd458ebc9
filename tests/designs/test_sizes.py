"""Table sizes, parameter and operation counts against what the sources print."""

from typing import Annotated

import numpy as np
import pytest
from pydantic import RootModel

from archmodel import catalogue, source
from archmodel.workloads.recommendation import Workload, WorkloadFamily


class AnyWorkload(RootModel[Annotated[Workload, WorkloadFamily.field()]]):
    pass


def workload(name):
    tree = source.read(catalogue.find(f"workloads/{name}"), catalogue=catalogue.directory())
    return source.validate(AnyWorkload, tree).root


def macs(model):
    """Multiply-adds of one sample in the matrix products, forward."""
    from archmodel.workloads.layers import Dot, Linear, LowRankCross

    total = 0
    for layer in model.layers():
        if isinstance(layer, Linear):
            total += layer.in_features * layer.out_features
        elif isinstance(layer, LowRankCross):
            total += 2 * layer.features * layer.rank
        elif isinstance(layer, Dot):
            total += layer.features**2 * layer.dim
    return total


@pytest.mark.parametrize(
    ("name", "rows", "parameters"),
    [
        ("mlperf_dlrm_v1", 187_767_399, 187_767_399 * 128),
        ("mlperf_dcnv2", 204_184_588, 204_184_588 * 128),
        ("nvidia_dlrm_small", 32_709_138, 4_186_769_664),
        ("nvidia_dlrm_large", 177_944_291, 22_776_869_248),
        ("nvidia_dlrm_xlarge", 882_774_575, 112_995_145_600),
    ],
)
def test_criteo_models_have_26_tables_and_the_published_rows(name, rows, parameters):
    tables = workload(name).table_arrays
    assert len(tables) == 26
    assert int(tables.num_embeddings.sum()) == rows
    assert set(tables.embedding_dim.tolist()) == {128}
    assert tables.parameters == parameters


@pytest.mark.parametrize(
    ("name", "unit", "printed", "digits"),
    [
        ("mlperf_dlrm_v1", 1e9, 96.14, 2),
        ("mlperf_dcnv2", 1e9, 104.54, 2),
        ("nvidia_dlrm_small", 2**30, 15.6, 1),
        ("nvidia_dlrm_large", 2**30, 84.9, 1),
        ("nvidia_dlrm_xlarge", 2**30, 421, 0),
    ],
)
def test_bytes_of_fp32_tables_as_printed(name, unit, printed, digits):
    assert round(4 * workload(name).table_arrays.parameters / unit, digits) == printed


@pytest.mark.parametrize(
    ("name", "billions"), [("nvidia_dlrm_small", 4.2), ("nvidia_dlrm_large", 22.8), ("nvidia_dlrm_xlarge", 113)]
)
def test_parameters_as_printed(name, billions):
    digits = 1 if billions < 100 else 0
    assert round(workload(name).table_arrays.parameters / 1e9, digits) == billions


def test_multiply_adds_of_the_criteo_models():
    # NVIDIA counts 2,459,520: its interaction is padded from 479 to 480 features, which adds one row of 1,024
    assert macs(workload("nvidia_dlrm_small")) == 2_459_520 - 1024
    assert macs(workload("mlperf_dlrm_v1")) == 2_459_520 - 1024
    assert macs(workload("mlperf_dcnv2")) == 16_030_464


def test_the_multi_hot_bags_hold_214_indices():
    tables = workload("mlperf_dcnv2").table_arrays
    expected = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
    assert tables.pooling_factor.tolist() == expected
    assert sum(expected) == 214


def test_the_multi_hot_skew_repeats_rows_as_fixed_bags_do():
    """A bag is a first index (Zipf 1.05) and h - 1 others, uniform but fixed for that index."""
    model = workload("mlperf_dcnv2")
    tables, batch = model.table_arrays, 55_296
    rng = np.random.default_rng(0)
    checked = 0
    for t in (1, 2, 4, 11, 14, 22, 23):  # small enough to draw
        rows, hot = int(tables.num_embeddings[t]), int(tables.pooling_factor[t])
        weights = np.arange(1, rows + 1) ** -1.05
        edges = np.cumsum(weights)
        first = np.searchsorted(edges, rng.random(batch) * edges[-1], side="right")
        bags = np.concatenate([first[:, None], rng.integers(0, rows, (rows, hot - 1))[first]], axis=1)
        drawn = len(np.unique(bags))
        assert model.table_arrays.expected_unique(batch)[t] == pytest.approx(drawn, rel=0.03)
        checked += 1
    assert checked == 7


def test_neo_model_a_is_what_the_file_says():
    model = workload("neo_model_a")
    tables = model.table_arrays
    assert len(tables) == 1000
    assert tables.parameters == pytest.approx(793e9, rel=1e-4)
    assert float(tables.embedding_dim.mean()) == 93
    assert (int(tables.embedding_dim.min()), int(tables.embedding_dim.max())) == (4, 384)
    assert set(tables.pooling_factor.tolist()) == {15}
    assert len(model.bottom_mlp) + len(model.top_mlp) == 20
    assert model.flops_per_sample == pytest.approx(638e6, rel=1e-3)


def test_neo_model_f_is_what_the_file_says():
    model = workload("neo_model_f")
    tables = model.table_arrays
    assert tables.parameters == 12_000_000_000_000
    assert set(tables.embedding_dim.tolist()) == {256}
    assert set(tables.pooling_factor.tolist()) == {20}
    assert model.flops_per_sample == pytest.approx(5e6, rel=0.01)


@pytest.mark.parametrize("name", ["neo_model_a", "neo_model_f"])
def test_neo_tables_repeat_rows_as_metas_public_trace_does(name):
    tables = workload(name).table_arrays
    share = tables.expected_unique(65_536) / (tables.pooling_factor * 65_536)
    assert share == pytest.approx(128_435_723 / 887_017_990, rel=0.01)


@pytest.mark.parametrize(
    ("number", "multiply_adds", "table_bytes"), [(1, 100_416, 81_920), (2, 319_552, 983_040), (3, 3_203_328, 25_600)]
)
def test_deeprecsys_models_do_the_work_of_their_configurations(number, multiply_adds, table_bytes):
    model = workload(f"deeprecsys_rmc{number}")
    tables = model.table_arrays
    assert macs(model) == multiply_adds
    assert float((tables.pooling_factor * tables.embedding_dim * 4).sum()) == table_bytes
