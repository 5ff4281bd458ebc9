"""What a node costs: its price as stated, or the sum of its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

import archmodel as am
from archmodel.errors import DesignError

PARTS = {
    "system.node.price": None,
    "system.node.other_price": 50e3,
    "system.node.gpu.price": 10e3,
    "system.node.nic.price": 1e3,
    "system.node.nic.per_node": 4,
    "system.node.host.ddr.price": 5e3,
}


def test_a_node_costs_what_its_parts_do(small_design: Path) -> None:
    design = am.load(small_design).with_({**PARTS, "system.nodes": 2, "system.economics.network_price": 7e3})
    assert design.system.node.whole_price == 50e3 + 8 * 10e3 + 4 * 1e3 + 5e3
    assert design.system.price == 2 * (139e3 + 7e3)
    apart = design.with_({"system.node.gpu.hbm.price": 2e3})
    assert apart.system.node.whole_price == 139e3 + 8 * 2e3
    as_one = design.with_({"system.node.other_price": None, "system.node.price": 139e3})
    one, parts = am.estimate(as_one).cost, am.estimate(design).cost
    assert one is not None and parts is not None and one.per_million_samples == parts.per_million_samples


def test_a_price_is_stated_once_and_no_part_is_free(small_design: Path) -> None:
    with pytest.raises(DesignError, match="price and other_price"):
        am.load(small_design).with_({**PARTS, "system.node.price": 1e5})
    with pytest.raises(DesignError, match="states none for nic"):
        am.load(small_design).with_({**PARTS, "system.node.nic.price": None})
