"""What must hold for every device of the catalogue, whatever its kind: bounds, monotone directions, scaling.

A new kind is tested from the moment it is registered: it needs one file in `designs/devices/`. Kinds of other packages
are tested by the same suite when ARCHMODEL_DEVICES names a folder of their device files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from archmodel import catalogue, source
from archmodel.components import DEVICES, Breakdown, Device
from archmodel.components.base import fields
from archmodel.errors import ArchmodelError
from archmodel.estimate.knobs import replaced
from archmodel.quantities import DTYPES

FOLDERS = [
    catalogue.directory() / "devices",
    *map(Path, filter(None, os.environ.get("ARCHMODEL_DEVICES", "").split(":"))),
]
FILES = {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.yaml"))}
NAMES = sorted(FILES)
ALL = pytest.mark.parametrize("name", NAMES)
FEW = settings(max_examples=15, deadline=None)
EXACT = 1e-12

sizes = st.integers(1, 20_000).map(float)
amounts = st.floats(0.0, 1e11)
factors = st.floats(1.0, 10.0)


class AnyDevice(RootModel[Annotated[Device, DEVICES.field(default="gpu")]]):
    pass


def read(name: str) -> Device:
    tree = source.read(FILES[name], catalogue=catalogue.directory())
    return source.validate(AnyDevice, tree).root


DEVICE = {name: read(name) for name in NAMES}

Kernel = Callable[[Device, Any], Breakdown]
KERNELS: dict[str, tuple[int, Kernel]] = {
    "gemm": (4, lambda d, x: d.gemm(x[0], x[1], x[2], dtype_of(d), batch=x[3])),
    "gram": (3, lambda d, x: d.gram(x[0], x[1], dtype_of(d), batch=x[2])),
    "stream": (2, lambda d, x: d.stream(x[0], x[1])),
    "gather": (3, lambda d, x: d.gather(x[0], x[1], x[2])),
    "exact_update": (5, lambda d, x: d.exact_update(x[0], x[1], x[2], x[3], x[4])),
}
"""The kernels of the contract, with the number of their amounts of work."""
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS)


def dtype_of(device: Device) -> str:
    """A format for matrix products that the device has."""
    return next(t for t in ("bf16", "fp16", "fp32") if t in device.rates())


@st.composite
def work(draw: st.DrawFn, kernel: str) -> tuple[float, ...]:
    """Amounts of work that make sense together: no more distinct bytes than bytes."""
    if kernel == "gemm":
        return draw(sizes), draw(sizes), draw(sizes), float(draw(st.integers(1, 64)))
    if kernel == "gram":
        return draw(sizes), draw(sizes), float(draw(st.integers(1, 64)))
    if kernel == "stream":
        return draw(amounts), draw(amounts)
    if kernel == "gather":
        demanded = draw(amounts)
        return demanded, demanded * draw(st.floats(0.0, 1.0)), draw(amounts)
    gradient = draw(amounts)
    return draw(st.floats(0, 1e9)), gradient, gradient * draw(st.floats(0.0, 1.0)), draw(amounts), draw(amounts)


def total(device: Device, kernel: str, amounts: Any) -> Any:
    return KERNELS[kernel][1](device, amounts).total


def knobs(part: BaseModel, *dimensions: str, path: str = "") -> Iterator[tuple[str, float]]:
    """(path, value) of every field below `part` of these dimensions; curves and absent values left out."""
    for row in fields(type(part)):
        value, here = getattr(part, row.name), f"{path}.{row.name}" if path else row.name
        if isinstance(value, BaseModel):
            yield from knobs(value, *dimensions, path=here)
        elif row.dimension in dimensions:
            entries = value.items() if isinstance(value, dict) else [(None, value)]
            for key, item in entries:
                if isinstance(item, float):
                    yield (here if key is None else f"{here}.{key}"), item


RATES = ("bandwidth", "flop_rate", "hertz", "transfer_rate")


def test_every_kind_has_a_device_in_the_catalogue() -> None:
    own = {kind for kind, cls in DEVICES.kinds().items() if cls.__module__.startswith("archmodel.")}
    tested = {device.kind for device in DEVICE.values()}  # type: ignore[attr-defined]
    assert own <= tested <= set(DEVICES.kinds())


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data())
def test_parts_are_times_and_add_up(name: str, kernel: str, data: st.DataObject) -> None:
    answer = KERNELS[kernel][1](DEVICE[name], data.draw(work(kernel)))
    assert all(np.all(np.asarray(part) >= 0) and np.all(np.isfinite(part)) for part in answer.parts.values())
    assert np.isclose(sum(float(np.asarray(part)) for part in answer.parts.values()), float(answer.total), rtol=EXACT)


@ALL
@FEW
@given(data=st.data())
def test_no_time_beats_its_bound(name: str, data: st.DataObject) -> None:
    device = DEVICE[name]
    memory = device.memory
    bandwidth = max(float(memory.bandwidth), float(memory.write_bandwidth or 0.0))
    cache = float(getattr(device, "cache_capacity", 0.0))

    m, n, k, batch = data.draw(work("gemm"))
    product = total(device, "gemm", (m, n, k, batch))
    operands = (m * k + k * n + m * n) * batch * DTYPES[dtype_of(device)]
    assert product >= 2 * m * n * k * batch / device.peak(dtype_of(device)) * (1 - EXACT)
    assert product >= (operands - cache) / bandwidth * (1 - EXACT)  # what the cache held before is not read again

    n, k, batch = data.draw(work("gram"))
    product = total(device, "gram", (n, k, batch))
    operands = (n * k + n * n) * batch * DTYPES[dtype_of(device)]
    assert product >= 2 * n * n * k * batch / device.peak(dtype_of(device)) * (1 - EXACT)
    assert product >= (operands - cache) / bandwidth * (1 - EXACT)
    assert product <= total(device, "gemm", (n, n, k, batch)) * (1 + EXACT)  # the same with a second operand

    bytes_, _ = data.draw(work("stream"))
    assert total(device, "stream", (bytes_, 0.0)) >= bytes_ / bandwidth

    demanded, unique, streamed = data.draw(work("gather"))
    assert total(device, "gather", (demanded, unique, streamed)) >= (unique + streamed) / bandwidth

    indices, gradient, distinct, rows, streamed = data.draw(work("exact_update"))
    update = total(device, "exact_update", (indices, gradient, distinct, rows, streamed))
    assert update >= (distinct + rows + streamed) / bandwidth


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data(), factor=factors)
def test_more_work_never_takes_less_time(name: str, kernel: str, data: st.DataObject, factor: float) -> None:
    amounts = data.draw(work(kernel))
    before = total(DEVICE[name], kernel, amounts)
    for which in range(KERNELS[kernel][0]):
        grown = [np.ceil(a * factor) if i == which else a for i, a in enumerate(amounts)]
        assert total(DEVICE[name], kernel, grown) >= before * (1 - EXACT)


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data(), factor=factors)
def test_more_of_a_rate_is_never_slower(name: str, kernel: str, data: st.DataObject, factor: float) -> None:
    device, amounts = DEVICE[name], data.draw(work(kernel))
    before = total(device, kernel, amounts)
    for path, value in knobs(device, *RATES):
        assert total(replaced(device, path, value * factor), kernel, amounts) <= before * (1 + EXACT), path


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data(), factor=factors)
def test_a_longer_latency_or_launch_is_never_faster(name: str, kernel: str, data: st.DataObject, factor: float) -> None:
    device, amounts = DEVICE[name], data.draw(work(kernel))
    before = total(device, kernel, amounts)
    for path, value in knobs(device, "seconds"):
        assert total(replaced(device, path, value * factor), kernel, amounts) >= before * (1 - EXACT), path


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data(), factor=st.sampled_from([1e-3, 0.5, 7.0]))
def test_time_scales_with_the_unit_of_time(name: str, kernel: str, data: st.DataObject, factor: float) -> None:
    """Every rate times f and every time over f: all times over f. A bare constant of seconds or B/s would show."""
    device = faster = DEVICE[name]
    amounts = data.draw(work(kernel))
    for path, value in knobs(device, *RATES):
        faster = replaced(faster, path, value * factor)
    for path, value in knobs(device, "seconds"):
        faster = replaced(faster, path, value / factor)
    expected = total(device, kernel, amounts) / factor
    assert np.isclose(total(faster, kernel, amounts), expected, rtol=1e-9)


@ALL
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel not in ("gemm", "gram")])
@FEW
@given(data=st.data())
def test_twice_the_work_takes_at_most_twice_as_long(name: str, kernel: str, data: st.DataObject) -> None:
    """Doing the work twice is one way to do twice the work, on the same distinct rows."""
    device, amounts = DEVICE[name], data.draw(work(kernel))
    distinct = {"gather": 1, "exact_update": 2}.get(kernel)
    doubled = [a if i == distinct else 2 * a for i, a in enumerate(amounts)]
    assert total(device, kernel, doubled) <= 2 * total(device, kernel, amounts) * (1 + EXACT)


@ALL
@EVERY_KERNEL
def test_large_work_takes_as_long_as_its_amount(name: str, kernel: str) -> None:
    """Overheads vanish: ten times the work, ten times the time."""
    large = {
        "gemm": (16_384.0, 16_384.0, 16_384.0, 1.0),
        "gram": (16_384.0, 16_384.0, 1.0),
        "stream": (1e13, 1e13),
        "gather": (1e13, 1e13, 1e12),
        "exact_update": (1e11, 1e13, 1e13, 1e13, 1e12),
    }[kernel]
    product = kernel in ("gemm", "gram")
    more = (*large[:-1], 10.0) if product else tuple(10 * a for a in large)
    ratio = total(DEVICE[name], kernel, more) / total(DEVICE[name], kernel, large)
    assert ratio == pytest.approx(10, rel=0.1 if product else 1e-3)


@ALL
@EVERY_KERNEL
@pytest.mark.parametrize("graph", [True, False])
def test_no_work_takes_at_most_the_launch(name: str, kernel: str, graph: bool) -> None:
    device = DEVICE[name]
    answer = {
        "gemm": lambda: device.gemm(0.0, 64.0, 64.0, dtype_of(device), graph=graph),
        "gram": lambda: device.gram(0.0, 64.0, dtype_of(device), graph=graph),
        "stream": lambda: device.stream(0.0, graph=graph),
        "gather": lambda: device.gather(0.0, 0.0, 0.0, graph=graph),
        "exact_update": lambda: device.exact_update(0.0, 0.0, 0.0, 0.0, 0.0, graph=graph),
    }[kernel]()
    kernels = device.kernels.update_launches if kernel == "exact_update" else 1  # type: ignore[attr-defined]
    assert 0 <= float(answer.total) <= kernels * float(device.launch_overhead(graph)) * (1 + EXACT)


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data())
def test_a_captured_graph_is_never_slower(name: str, kernel: str, data: st.DataObject) -> None:
    device, amounts = DEVICE[name], data.draw(work(kernel))
    one_by_one = {
        "gemm": lambda x: device.gemm(*x[:3], dtype_of(device), batch=x[3], graph=False),
        "gram": lambda x: device.gram(*x[:2], dtype_of(device), batch=x[2], graph=False),
        "stream": lambda x: device.stream(*x, graph=False),
        "gather": lambda x: device.gather(*x, graph=False),
        "exact_update": lambda x: device.exact_update(*x, graph=False),
    }[kernel](amounts)
    assert one_by_one.total >= total(device, kernel, amounts) * (1 - EXACT)
    assert one_by_one.total >= device.launch_overhead(False) * (1 - EXACT)


@ALL
@EVERY_KERNEL
@FEW
@given(data=st.data())
def test_arrays_give_what_scalars_give(name: str, kernel: str, data: st.DataObject) -> None:
    """Over sizes (ranks,) and hardware over points (points, 1), against one call for each pair."""
    device = DEVICE[name]
    ranks = data.draw(st.lists(work(kernel), min_size=1, max_size=4))
    path, value = data.draw(st.sampled_from(sorted(knobs(device, "bandwidth", "flop_rate", "transfer_rate"))))
    points = value * np.array([[1.0], [0.25], [3.0]])
    together = total(replaced(device, path, points), kernel, np.array(ranks).T)
    one_by_one = [
        [float(total(replaced(device, path, float(p)), kernel, rank)) for rank in ranks] for p in points.ravel()
    ]
    assert np.allclose(np.broadcast_to(together, (3, len(ranks))), one_by_one, rtol=EXACT, atol=0)


@ALL
def test_a_missing_format_is_named_with_those_that_there_are(name: str) -> None:
    device = DEVICE[name]
    with pytest.raises(ArchmodelError, match=f"has no uint8; it has {', '.join(device.rates())}"):
        device.gemm(64.0, 64.0, 64.0, "uint8")


@ALL
def test_vector_work_needs_no_matrix_format(name: str) -> None:
    """Elementwise arithmetic is done in fp32 whatever the format in memory, so every device can do it in any."""
    device = DEVICE[name]
    if "fp32" in device.rates():
        assert device.stream(1e6, 1e6, "uint8").total == device.stream(1e6, 1e6, "fp32").total
