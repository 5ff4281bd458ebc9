"""Each kind of fabric: what a rank can send, over what links."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from archmodel.network import (
    SCALE_OUT,
    SCALE_UP,
    FullyConnected,
    HybridCubeMesh,
    Nic,
    Pcie,
    RailClos,
    ScaleUp,
    Switch,
    TopologyError,
    build_topology,
)
from archmodel.source import read, strip, validate

DESIGNS = Path(__file__).parents[2] / "designs"
CUBE = [
    [0, 1, 1], [0, 2, 1], [0, 3, 2], [0, 4, 2], [1, 2, 2], [1, 3, 1], [1, 5, 2], [2, 3, 2],
    [2, 6, 1], [3, 7, 1], [4, 5, 1], [4, 6, 1], [4, 7, 2], [5, 6, 2], [5, 7, 1], [6, 7, 2],
]  # fmt: skip

EXAMPLES: dict[str, Mapping[str, Any]] = {
    "switch": {"bandwidth": "300 GB/s"},
    "fully_connected": {"link_bandwidth": "64 GB/s"},
    "hybrid_cube_mesh": {"link_bandwidth": "25 GB/s", "pairs": CUBE},
    "pcie": {"bandwidth": "31.5 GB/s", "host_bandwidth": "100 GB/s"},
    "ring": {"link_bandwidth": "50 GB/s", "link_latency": "500 ns"},
    "fat_tree": {"bandwidth": "50 GB/s", "radix": [2, 2, 2], "oversubscription": [1.0, 2.0]},
    "torus": {"sizes": [2, 4], "link_bandwidth": ["100 GB/s", "25 GB/s"], "link_latencies": "500 ns"},
    "mesh": {"sizes": [2, 4], "link_bandwidth": "25 GB/s", "links": [4, 1]},
    "dimensions": {
        "dimensions": {
            "package": {"kind": "fully_connected", "gpus": 2, "link_bandwidth": "200 GB/s"},
            "board": {"kind": "switch", "gpus": 4, "bandwidth": "50 GB/s", "link_latency": "1 us"},
        }
    },
    "graph": {
        "links": [
            *({"between": [gpu, f"plane {plane}"], "bandwidth": "25 GB/s", "count": 2}
              for gpu in range(8) for plane in range(4)),
        ]
    },
}  # fmt: skip

BOXES = {"torus", "mesh", "dimensions"}
"""Kinds whose ranks must be a box: three ranks of 2 x 4 are none."""


def scale_up(kind: str) -> ScaleUp:
    return SCALE_UP.resolve(kind).model_validate(EXAMPLES[kind])


def test_every_kind_is_tested_here() -> None:
    own = {kind for kind, cls in SCALE_UP.kinds().items() if cls.__module__.startswith("archmodel.")}
    assert own - {"none"} == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("ranks", range(1, 9))
def test_a_dimension_is_physical(kind: str, ranks: int) -> None:
    fabric = scale_up(kind)
    if kind in BOXES and ranks in (3, 5, 7):
        with pytest.raises(TopologyError, match="no box of 2 x 4"):
            fabric.dimension(ranks)
        return
    d = fabric.dimension(ranks)
    assert d.size == ranks
    assert d.bandwidth > 0
    assert 0 < d.ring_bandwidth <= d.bandwidth
    assert 0 < d.direct_bandwidth <= d.bandwidth
    linked = sum(edge.bandwidth for edge in fabric.edges(ranks) if 0 in (edge.a, edge.b))
    assert ranks == 1 or d.bandwidth <= linked + 1e-6 or kind == "hybrid_cube_mesh"


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("ranks", range(2, 9))
def test_uniform_traffic_does_not_beat_the_bisection(kind: str, ranks: int) -> None:
    """All pairs exchanging evenly at the direct rate send floor(n/2) ceil(n/2) of n (n-1) flows over a half cut."""
    if kind in BOXES and ranks in (3, 5, 7):
        return
    d = scale_up(kind).dimension(ranks)
    per_pair = d.bandwidth * d.direct_share / (ranks - 1)
    assert per_pair * (ranks // 2) * (ranks - ranks // 2) <= d.bisection * (1 + 1e-12)


def test_switch_gives_all_links_to_everyone() -> None:
    d = scale_up("switch").dimension(3)
    assert d.bandwidth == d.ring_bandwidth == d.direct_bandwidth == 300e9


def test_fully_connected_uses_one_link_per_peer() -> None:
    fabric = FullyConnected.model_validate(EXAMPLES["fully_connected"])
    assert [fabric.dimension(n).ring_bandwidth for n in (2, 4, 8)] == [64e9, 3 * 64e9, 7 * 64e9]
    assert fabric.dimension(8).bisection == 16 * 64e9


def test_pcie_shares_the_host() -> None:
    fabric = Pcie.model_validate(EXAMPLES["pcie"])
    assert fabric.rates(2).injection == 31.5e9
    assert fabric.rates(8).injection == 100e9 / 8
    assert Pcie.model_validate({"bandwidth": 31.5e9}).rates(8).injection == 31.5e9


def test_hybrid_cube_mesh_of_dgx1() -> None:
    """Three rings through all eight GPUs use all six links both ways; four GPUs find two; two of them one link."""
    fabric = HybridCubeMesh.model_validate(EXAMPLES["hybrid_cube_mesh"])
    assert fabric.dimension(8).ring_bandwidth == 6 * 25e9
    assert fabric.dimension(4).ring_bandwidth == 4 * 25e9
    assert fabric.dimension(2).ring_bandwidth == 25e9
    assert fabric.dimension(8).bisection == 6 * 25e9
    assert sum(count for _, _, count in fabric.pairs) == 24


def test_hybrid_cube_mesh_refuses_nonsense() -> None:
    def mesh(pairs: list[list[int]]) -> HybridCubeMesh:
        return HybridCubeMesh.model_validate({"link_bandwidth": 25e9, "pairs": pairs})

    with pytest.raises(ValidationError, match="linked to itself"):
        mesh([[1, 1, 2]])
    with pytest.raises(ValidationError, match="listed twice"):
        mesh([[0, 1, 2], [1, 0, 1]])
    with pytest.raises(ValidationError, match="GPUs 0 to 7"):
        mesh([[0, 99, 2]])
    with pytest.raises(TopologyError, match="not all joined"):
        mesh([[0, 1, 2], [2, 3, 1]]).dimension(4)


def test_protocol_tables_must_serve_every_size() -> None:
    with pytest.raises(ValidationError, match="large rings would have none"):
        Switch.model_validate({"bandwidth": 1e9, "protocols": {"ll": {"base": 1e-6, "limit": 1e5}}})
    with pytest.raises(ValidationError, match="large all-to-alls would have none"):
        Switch.model_validate({"bandwidth": 1e9, "protocols": {"simple": {"base": 1e-6}}})


@pytest.mark.parametrize(
    ("per_node", "ranks", "share"),
    [(None, 8, 1.0), (8, 8, 1.0), (8, 1, 1.0), (4, 8, 0.5), (4, 1, 1.0), (1, 8, 0.125), (1, 3, 1 / 3), (16, 8, 2.0)],
)
def test_gpus_share_the_interfaces_near_them(per_node: int | None, ranks: int, share: float) -> None:
    nic = Nic.model_validate({"bandwidth": 25e9, "per_node": per_node})
    assert nic.per_rank(ranks, gpus_per_node=8) == pytest.approx(25e9 * share)


def test_oversubscription_counts_beyond_the_leaf() -> None:
    clos = RailClos.model_validate({"oversubscription": 2.0, "nodes_per_leaf": 4})
    nic = Nic.model_validate({"bandwidth": 25e9})
    assert clos.per_rank(4, 8, nic, 8) == 25e9
    assert clos.per_rank(5, 8, nic, 8) == 12.5e9
    assert clos.dimension(5, 8, nic, 8).bisection == 2 * 8 * 12.5e9


def test_uplinks_cannot_speed_up_interfaces() -> None:
    with pytest.raises(ValidationError, match="oversubscription is below 1"):
        RailClos.model_validate({"oversubscription": 0.5})


def test_knobs_broadcast() -> None:
    points = np.array([[1.0], [2.0], [4.0]])
    clos = RailClos.model_validate({"oversubscription": points})
    nic = Nic.model_validate({"bandwidth": 25e9 * points})
    assert np.allclose(clos.per_rank(5, 8, nic, 8), 25e9)


@pytest.mark.parametrize("path", sorted((DESIGNS / "fabrics").glob("*.yaml")), ids=lambda p: p.stem)
def test_catalogue_fabrics_load_and_say_where_they_come_from(path: Path) -> None:
    tree = read(path)
    family = SCALE_OUT if tree["kind"] == "rail_clos" else SCALE_UP
    fabric = validate(family.resolve(tree["kind"]), strip(tree))  # type: ignore[type-var]
    assert fabric.source
    assert fabric.status
    assert fabric.fitted_on
    assert fabric.name
    if isinstance(fabric, ScaleUp):
        assert build_topology(fabric, ranks_per_node=8).ranks == 8
