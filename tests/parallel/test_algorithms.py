"""The algorithm that lowering names is the one that the library would take."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel import load
from archmodel.collectives import estimate
from archmodel.parallel.algorithms import all_reduce
from archmodel.parallel.lower import lower
from archmodel.parallel.plan import Plan
from archmodel.parallel.resolve import PlanError, resolve
from archmodel.program import Collective, Layout
from tests.collectives.machines import component, machine
from tests.execute.small import cross, place


@pytest.mark.parametrize("fabric", ["nvswitch_a100", "nvswitch_h100", "nvswitch_b200"])
@pytest.mark.parametrize("gpus", [2, 3, 4, 5, 6, 7, 8])
def test_large_buffers_are_reduced_where_the_price_is_least(fabric: str, gpus: int) -> None:
    """8 GiB: NVLS from 5 GPUs on H100, from 6 on B200, as measured by ml-engineering (network/README @744d01e)."""
    row = component(f"fabrics/{fabric}.yaml").in_network
    layout = Layout(1, gpus, 0.0 if row is None else float(row.fraction))
    taken = all_reduce(layout, 2.0**33)
    assert taken == estimate(machine(fabric, gpus), "all_reduce", per_rank_input_bytes=2.0**33).algorithm
    assert taken == ("in_network" if gpus >= {"nvswitch_h100": 5, "nvswitch_b200": 6}.get(fabric, 99) else "ring")


def test_small_buffers_and_several_nodes_use_rings() -> None:
    switch = Layout(1, 8, 0.82)
    assert all_reduce(switch, 1e6) == all_reduce(switch, 0.0) == "ring"
    assert all_reduce(switch, 1e9, "ring") == "ring"
    assert all_reduce(Layout(2, 8, 0.82), 1e9) == "hierarchical"
    assert all_reduce(Layout(1, 8), 1e9) == "ring"


def test_a_plan_may_ask_for_it() -> None:
    workload, plan = cross(), Plan(tables="row_wise", all_reduce="in_network")
    layout = Layout(1, 3, 0.8)
    program = lower(workload, plan, place(workload, plan, layout))
    reductions = [op.work for op in program.ops if op.name.startswith("dense.all_reduce")]
    assert reductions and all(isinstance(w, Collective) and w.algorithm == "in_network" for w in reductions)


@pytest.mark.parametrize(("layout", "why"), [(Layout(1, 3), "reduces"), (Layout(2, 3, 0.8), "one node")])
def test_a_plan_that_asks_in_vain(layout: Layout, why: str) -> None:
    plan = Plan(tables="row_wise", all_reduce="in_network")
    with pytest.raises(PlanError, match=why):
        resolve(plan, cross().table_arrays, layout, 12, {"hbm": np.inf, "ddr": np.inf})


def test_designs_know_their_switch() -> None:
    """DGX H100 reduces in its switch, DGX A100 does not; with a small bucket nothing is large enough."""
    h100, a100 = (load(f"designs/mlperf_dcnv2_dgx_{name}.yaml").layout for name in ("h100", "a100"))
    assert h100.in_network == pytest.approx(0.8205, abs=1e-3)
    assert a100.in_network == 0.0
    assert all_reduce(h100, 1e8) == "in_network" and all_reduce(h100, 1e7) == "ring"
