"""No plan is below the bound of the own cost: random plans of published designs, and each chain by itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import archmodel as am
from archmodel import catalogue
from archmodel.design import Design
from archmodel.estimate.price import price
from archmodel.search import own
from archmodel.search.floor import Floor
from archmodel.search.options import NODE, RANK, Assignment, Options
from archmodel.search.planner import draft, tables_of

DESIGNS: dict[str, dict[str, Any]] = {
    "mlperf_dcnv2_dgx_h100": {},
    "mlperf_dlrm_v1_dgx_a100": {"workload.global_batch": 3000},  # a batch that ranks do not share evenly
    "mlperf_dcnv2_eos_8x8": {"system.nodes": 2, "workload.global_batch": 8192, "plan.tables": {"default": "auto"}},
    "nvidia_dlrm_small_1xa100_tf32": {},
    "nvidia_dlrm_large_dgx1_fp32": {"plan.prefetch_input": True},
    "nvidia_dlrm_xlarge_1xa100_hybrid_amp": {},  # more rows than HBM holds: in host memory, some cached
    "mlperf_dcnv2_h100_pcie_4gpu": {"workload.mode": "inference"},
}


@lru_cache
def made(name: str) -> tuple[Design, Options, Floor]:
    design = am.load(catalogue.directory() / f"{name}.yaml").with_(DESIGNS[name])
    options, _, floor = own.options(design)
    return design, options, floor


def drawn(options: Options, random: np.random.Generator) -> Assignment:
    """A plan of a few kinds, shards anywhere; replicas only of small tables."""
    kinds = random.choice(sorted(set(options.kinds)), int(random.integers(1, 4)))
    wide = (options.memory[..., 0] > 0.02 * options.limits[0, 0]) & np.isin(options.kinds, ["data_parallel"])
    usable = np.isfinite(options.cost) & ~wide
    wanted = usable & np.isin(options.kinds, kinds)
    slots, homes = [], []
    for ok, any_ok in zip(wanted, usable, strict=True):
        slot = int(random.choice(np.flatnonzero(ok if ok.any() else any_ok)))
        places = {RANK: options.ranks, NODE: options.nodes}.get(int(options.scope[slot]), 0)
        count = int(options.count[len(slots), slot])
        homes.append(tuple(int(h) for h in random.permutation(places)[:count]) if places else ())
        slots.append(slot)
    return Assignment(np.array(slots), tuple(homes))


@pytest.mark.parametrize("name", DESIGNS)
def test_no_random_plan_is_below_the_bound(name: str) -> None:
    design, options, floor = made(name)
    bound, random = floor.value, np.random.default_rng(7)
    assert 0 < bound < np.inf
    fitting, best = 0, np.inf
    for _ in range(60):
        answer = am.estimate(draft(design, tables_of(design, options, drawn(options, random))))
        if answer.fits:
            fitting += 1
            best = min(best, float(answer.iteration_time))
    assert fitting >= 10
    assert bound <= best


@pytest.mark.parametrize("name", DESIGNS)
def test_every_set_of_routes_bounds_its_own_plans(name: str) -> None:
    """Sharper than the bound of all: a plan is above the bound of the routes that it uses."""
    design, options, floor = made(name)
    if floor.between is None:
        pytest.skip("no chain holds")
    random, route = np.random.default_rng(11), floor._route
    checked = 0
    for _ in range(40):
        assignment = drawn(options, random)
        used = tuple(sorted(set(route[assignment.slot].tolist())))
        answer = am.estimate(draft(design, tables_of(design, options, assignment)))
        if answer.fits:
            checked += 1
            assert floor._chains(used) <= float(answer.iteration_time) * (1 + 1e-9)
    assert checked >= 5


EXCHANGED = ["mlperf_dcnv2_dgx_h100", "mlperf_dcnv2_eos_8x8", "neo_a_zionex_16x8", "nvidia_dlrm_large_dgx1_fp32"]


@pytest.mark.parametrize("name", EXCHANGED)
def test_exchanges_lie_above_their_chords_and_rise(name: str) -> None:
    """At 4,001 sizes that the lines were not fitted to."""
    design = am.load(catalogue.directory() / f"{name}.yaml")
    laws = own.Laws(design, am.estimate(design))
    chords, columns = laws.chords, float(design.workload.table_arrays.embedding_dim.sum())
    for scope, homes in (("rank", design.layout.ranks), ("node", design.layout.nodes), ("world", 1)):
        fixed, slope = chords.forward[scope]
        widths = np.unique([*np.geomspace(1.0, columns, 2001), *np.linspace(1.0, columns, 2001)]) / homes
        times = laws._sent(laws.forward(scope, 1.0), 1.0, widths)
        assert np.all(times >= (fixed + slope * widths) * (1 - 1e-9))
        assert np.all(np.diff(times) >= -1e-12 * times[1:])
        assert (times / (fixed + slope * widths)).min() < 1.02  # and not by far
        for width in (widths[0], widths[1000], widths[-1]):
            alone = sum(float(np.min(price(w, laws.machine).total)) for w in laws.forward(scope, float(width)))
            assert laws._sent(laws.forward(scope, 1.0), 1.0, np.array([width]))[0] == pytest.approx(alone, rel=1e-12)


def test_a_law_that_falls_is_bounded_by_what_it_falls_to() -> None:
    dip = own._chord(lambda x: np.where(x < 50, 1.0 + x, 10.0 + 0.1 * x), 100.0, 1.0)
    sizes = np.linspace(1.0, 100.0, 5000)
    assert np.all(np.where(sizes < 50, 1.0 + sizes, 10.0 + 0.1 * sizes) >= dip[0] + dip[1] * sizes - 1e-12)
