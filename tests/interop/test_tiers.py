"""Plans with caches, out to files and back."""

from __future__ import annotations

import numpy as np
import pytest
from ruamel.yaml import YAML

import archmodel as am
from archmodel import catalogue
from archmodel.estimate.estimate import estimate
from archmodel.interop import torchrec
from archmodel.interop.plan_file import plan_text

DESIGNS = ("nvidia_dlrm_xlarge_1xa100_cached_amp.yaml", "nvidia_dlrm_xlarge_1xa100_uvm_amp.yaml")


@pytest.mark.parametrize("name", DESIGNS)
def test_a_written_plan_is_the_same_plan(name: str) -> None:
    """Caches of an entry become caches of single tables, each with the share that it has."""
    design = am.load(catalogue.find(name))
    again = design.with_({"plan": YAML(typ="safe").load(plan_text(design))})
    assert again.placement.tier == design.placement.tier
    assert np.allclose(again.placement.cache_share, design.placement.cache_share, atol=1e-5)
    assert estimate(again).iteration_time == pytest.approx(estimate(design).iteration_time, rel=1e-6)


def test_torchrecs_cached_kernel() -> None:
    design = am.load(catalogue.find(DESIGNS[0]))
    plan = torchrec.from_design(design)
    kernels = {name: table.compute_kernel for name, table in plan.items()}
    assert set(kernels.values()) == {"fused", "fused_uvm_caching"}
    back = design.with_({"plan.tables": torchrec.to_tables(plan, design)})
    assert back.placement.tier == design.placement.tier
    assert back.placement.cached.tolist() == design.placement.cached.tolist()
    assert np.allclose(back.placement.cache_share[0, back.placement.cached], torchrec.LOAD_FACTOR, rtol=1e-4)
