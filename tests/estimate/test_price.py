"""Prices of single works: a copy from the host, and nothing for work that a rank does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel.errors import ArchmodelError
from archmodel.estimate.machine import Machine
from archmodel.estimate.price import price
from archmodel.program import (
    DotInteraction,
    Elementwise,
    EmbeddingLookup,
    EmbeddingScatterAdd,
    EmbeddingUpdate,
    Gemm,
    HostCopy,
    Work,
)

from .conftest import Maker

SOME = np.array([0.0, 7e5, 0.0, 3e7])
"""An amount of four ranks, of which two have none."""
ONE = np.ones(1)


def machine_of(design: am.Design, **changes: Any) -> Machine:
    system = design.system
    fields = {"host": system.node.host, "graph": True} | changes
    return Machine(system.gpu, system.topology(), ranks_per_node=system.node.gpus, **fields)


def works(amount: np.ndarray) -> list[Work]:
    here = (amount > 0).astype(float)
    return [
        Gemm(amount / 1e3, 64 * here, 32 * here, "bf16"),
        Gemm(64 * here, 32 * here, amount / 1e3, "bf16", epilogue="bias_grad", epilogue_writes=64 * here),
        Elementwise("copy", amount, amount, 0 * ONE, "fp32"),
        DotInteraction(amount / 1e4, 27, 128, "bf16"),
        EmbeddingLookup(
            "table", amount, amount, {"hbm": amount}, {"hbm": amount}, amount, amount, "int64", "int32", "fp32"
        ),
        EmbeddingUpdate(
            "table", amount, amount, amount, amount, {"hbm": amount, "ddr": amount}, {"hbm": amount, "ddr": amount},
            amount, "int64", "int32",
        ),
        HostCopy(amount),
        EmbeddingScatterAdd("table", amount, amount, {"hbm": amount, "ddr": amount}, {"hbm": amount}, amount, "int64"),
        Elementwise("cast_parameters", amount, amount, 0 * ONE, "fp32", kernels=7),
    ]  # fmt: skip


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("index", range(len(works(SOME))))
def test_no_work_takes_no_time_and_some_the_same_as_ever(small: Maker, index: int, graph: bool) -> None:
    machine = machine_of(small(1), graph=graph)
    time = np.broadcast_to(price(works(SOME)[index], machine).total, 4)
    assert (time[SOME == 0] == 0).all()
    for rank in np.flatnonzero(SOME):
        alone = price(works(SOME[[rank]])[index], machine).total
        assert time[rank] == pytest.approx(float(np.squeeze(alone)), rel=1e-12)
        assert time[rank] >= machine.device.launch_overhead(graph=True)


def test_a_copy_from_the_host(small: Maker) -> None:
    machine = machine_of(small(1))
    launch = float(machine.device.launch_overhead(graph=True))
    parts = price(HostCopy(np.array([55e6])), machine).parts
    assert parts["host_link"] == pytest.approx(1e-3)  # 55 GB/s, less than a quarter of DDR's 300 GB/s
    assert parts["launch"] == launch
    slow = machine_of(
        small(1, changes={"system.node.host.ddr.bandwidth": "40 GB/s", "system.node.host.link.latency": "2 us"})
    )
    copy = price(HostCopy(np.array([1e6])), slow)
    assert float(np.squeeze(copy.total)) == pytest.approx(launch + 2e-6 + 1e6 / 10e9)  # four GPUs share 40 GB/s
    pageable = machine_of(small(1, changes={"system.node.host.link.pageable": "11 GB/s"}))
    assert price(HostCopy(np.array([55e6]), pageable=True), pageable).parts["host_link"] == pytest.approx(5e-3)
    assert price(HostCopy(np.array([55e6])), pageable).parts["host_link"] == pytest.approx(1e-3)
    assert price(HostCopy(np.array([55e6]), pageable=True), machine).parts["host_link"] == pytest.approx(1e-3)
    with pytest.raises(ArchmodelError, match="no host"):
        price(HostCopy(np.array([1e6])), machine_of(small(1), host=None))


def test_points_and_ranks_broadcast(small: Maker) -> None:
    bandwidth = np.array([1e10, 2e10, 5e10])
    design = small(1, changes={"system.node.host.link.bandwidth": bandwidth})
    time = price(HostCopy(SOME), machine_of(design)).total
    assert np.shape(time) == (3, 4)
    assert (np.diff(time, axis=0)[:, SOME > 0] < 0).all()
    assert (time[:, SOME == 0] == 0).all()  # type: ignore[index]


def test_exposed_or_hidden(small: Maker) -> None:
    """Not prefetched, the copy adds its time; prefetched, it hides while it is the shorter."""
    times = {}
    for prefetch in (False, True):
        for copy in (False, True):
            design = small(1, "table_wise", prefetch, {"plan.copy_input": copy})
            answer = am.estimate(design)
            times[prefetch, copy] = answer.iteration_time
    copied = am.estimate(small(1, "table_wise", False, {"plan.copy_input": True}))
    (op,) = (o for o in copied.ops if o.name == "input.copy")
    assert times[False, True] == pytest.approx(times[False, False] + op.slowest, rel=1e-9)
    assert times[True, True] == pytest.approx(times[True, False], rel=1e-9)
    slow = {"plan.copy_input": True, "system.node.host.link.bandwidth": "0.1 GB/s"}
    bound = am.estimate(small(1, "table_wise", True, slow))
    (op,) = (o for o in bound.ops if o.name == "input.copy")
    assert op.slowest <= bound.iteration_time < op.slowest + times[True, False]
    assert bound.bound.resource == "host_link"
    assert max(bound.elasticities, key=lambda k: abs(bound.elasticities[k])) == "system.node.host.link.bandwidth"


def test_one_rank_alone_is_slower_when_it_has_the_tables_too(small: Maker) -> None:
    spread, alone = (
        am.estimate(small(1, "row_wise", False, {"plan.bottom_mlp": p})) for p in ("data_parallel", {"rank": 2})
    )
    assert alone.iteration_time > spread.iteration_time
    assert alone.memory["hbm"].need[2] > alone.memory["hbm"].need[1]
