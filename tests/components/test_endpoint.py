"""Endpoints: limits, what they take, bounds and monotone directions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archmodel import catalogue, source
from archmodel.components.base import fields
from archmodel.components.endpoint import ENDPOINTS, Moves, cores_of, left_for_compute
from archmodel.errors import ArchmodelError
from archmodel.source import read, validate
from tests.components.test_invariants import DEVICE

NAMES = sorted(path.stem for path in (catalogue.directory() / "endpoints").glob("*.yaml"))


def endpoint(name):
    tree = read(catalogue.find(f"endpoints/{name}.yaml"), catalogue=catalogue.directory())
    return validate(ENDPOINTS.resolve(tree["kind"]), source.strip(tree))


ENDPOINT = {name: endpoint(name) for name in NAMES}
NPU = DEVICE["npu_120t"]
ALL = pytest.mark.parametrize("name", NAMES)
amounts = st.floats(0.0, 1e11)


@st.composite
def moves(draw):
    buffer = draw(amounts)
    sent = buffer * draw(st.floats(0.0, 4.0))
    return Moves(sent, 1.5 * sent, sent, sent / 2, buffer, buffer, buffer, 1e-6, 1e-11)


def seconds(which, asked):
    return max((float(np.max(x)) for x in which.limits(asked, NPU).values()), default=0.0)


def test_every_kind_is_in_the_catalogue():
    assert set(ENDPOINTS.kinds()) == {e.kind for e in ENDPOINT.values()}


@ALL
@given(asked=moves(), factor=st.floats(1.0, 10.0))
def test_more_of_a_resource_is_never_slower(name, asked, factor):
    which = ENDPOINT[name]
    before = seconds(which, asked)
    for row in fields(type(which)):
        value = getattr(which, row.name)
        more = isinstance(value, float) and row.dimension in ("bandwidth", "hertz", "bytes") and row.name != "chunk"
        if more:
            assert seconds(which.model_copy(update={row.name: value * factor}), asked) <= before * (1 + 1e-12), row.name
        if row.name in ("sms", "state_machines", "alus"):
            assert seconds(which.model_copy(update={row.name: value + 3}), asked) <= before * (1 + 1e-12), row.name


@ALL
@given(asked=moves(), factor=st.floats(1.0, 10.0))
def test_more_to_move_is_never_faster(name, asked, factor):
    which = ENDPOINT[name]
    scaled = Moves(*(x * factor for x in (
        asked.sent, asked.reads, asked.writes, asked.reduced, asked.engine_reads, asked.engine_writes, asked.buffer
    )), asked.path_latency, asked.path_seconds_per_byte)  # fmt: skip
    assert seconds(which, scaled) >= seconds(which, asked) * (1 - 1e-12)
    assert np.all(which.memory_bytes(scaled) >= which.memory_bytes(asked))


@ALL
@given(asked=moves())
def test_no_endpoint_beats_the_memory_of_its_device(name, asked):
    which = ENDPOINT[name]
    if which.kind != "ideal":
        assert seconds(which, asked) >= float(which.memory_bytes(asked)) / NPU.memory.bandwidth * (1 - 1e-12)


def test_arrays_give_what_scalars_give():
    which = ENDPOINT["ace"]
    points = which.model_copy(update={"dma_bandwidth": np.array([[64e9], [128e9]]), "sram": np.array([[1e5], [4e6]])})
    asked = Moves(2e8, 3e8, 2e8, 1e8, 1e8, 1e8, 1e8, 5e-6, 1e-11)
    together = points.limits(asked, NPU)
    for i, (dma, sram) in enumerate(((64e9, 1e5), (128e9, 4e6))):
        alone = which.model_copy(update={"dma_bandwidth": dma, "sram": sram}).limits(asked, NPU)
        for part, value in alone.items():
            assert np.isclose(np.broadcast_to(together[part], (2, 1))[i, 0], value), part


def test_chunks_in_flight():
    which = ENDPOINT["ace"]
    assert which.in_flight == 16
    assert which.model_copy(update={"state_machines": 100}).in_flight == 32  # 4 MiB / (2 x 64 KiB)
    assert which.model_copy(update={"sram": 65536.0}).in_flight == 0.5


def test_what_is_left_for_compute():
    left = left_for_compute(NPU, 6, 450e9)
    assert cores_of(left) == 74
    assert left.memory.bandwidth == 450e9
    assert left.peak("fp16") == pytest.approx(NPU.peak("fp16") * 74 / 80)
    for name in ("tpu_v4", "xeon_8480c"):
        assert left_for_compute(DEVICE[name], 0, 1e9).memory.bandwidth < DEVICE[name].memory.bandwidth
        with pytest.raises(ArchmodelError, match="has no sm_count"):
            left_for_compute(DEVICE[name], 1, 0.0)
    assert left_for_compute(NPU, 0, 1e15).memory.bandwidth > 0


def test_published_halves_of_the_baselines():
    """Six cores of 80 GB/s drive 450 GB/s, two 128 GB/s: cores never limit the assumed machines, memory does."""
    asked = Moves(2e9, 3e9, 2e9, 1e9, 1e9, 1e9, 1e9)
    for name in ("communication_optimised", "compute_optimised"):
        limits = ENDPOINT[name].limits(asked, NPU)
        assert max(limits, key=lambda k: float(limits[k])) == "memory"
