"""Bytes between pairs of ranks: what a rank sends is what is counted; on links they are what `link_load` has."""

from __future__ import annotations

import numpy as np
import pytest

from archmodel.collectives import volume
from archmodel.collectives.between import RINGS, in_rings, pairs_of
from archmodel.collectives.flows import exchange_bytes, group_bytes, group_pairs
from archmodel.collectives.groups import placements
from archmodel.collectives.kinds import SERVES, CollectiveError
from archmodel.collectives.link_load import price_link_load
from archmodel.collectives.link_load_shared import Request, members_of, together
from archmodel.network import SCALE_UP, Nic, RailClos, Switch, Topology, build_topology
from archmodel.network.load import link_loads
from archmodel.quantities import Array
from tests.collectives.machines import machine

CASES = [
    (kind, algorithm)
    for kind in ("all_reduce", "reduce_scatter", "all_gather")
    for algorithm in SERVES[kind]
    if algorithm != "in_network"
]
ONE = {
    "switch": {"bandwidth": 50e9},
    "fully_connected": {"link_bandwidth": 50e9},
    "ring": {"link_bandwidth": 50e9},
}


def node(kind: str, ranks: int, **more: object) -> Topology:
    return build_topology(SCALE_UP.resolve(kind).model_validate({**ONE.get(kind, {}), **more}), ranks_per_node=ranks)


def by_rank(topology: Topology, pairs: Array) -> dict[str, Array]:
    place = np.arange(topology.ranks) // topology.local_size
    near = place[:, None] == place
    return {"scale_up": np.where(near, pairs, 0.0).sum(1), "scale_out": np.where(near, 0.0, pairs).sum(1)}


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
@pytest.mark.parametrize("places", [[0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 1], [0, 1, 2, 3, 4], [0]])
def test_pairs_add_up_to_what_is_sent_and_received(kind: str, algorithm: str, places: list[int]) -> None:
    at = np.array(places)
    blocks = np.random.default_rng(len(at)).integers(0, 1000, len(at)).astype(float)
    counted, pairs = group_bytes(kind, algorithm, blocks, at), group_pairs(kind, algorithm, blocks, at)
    near = at[:, None] == at
    for name, mask in (("scale_up", near), ("scale_out", ~near)):
        sent, received = counted[name]
        assert np.where(mask, pairs, 0.0).sum(1) == pytest.approx(sent, rel=1e-12, abs=1e-9)
        assert np.where(mask, pairs, 0.0).sum(0) == pytest.approx(received, rel=1e-12, abs=1e-9)
    assert not pairs.diagonal().any()
    assert pairs.min(initial=0.0) >= 0


@pytest.mark.parametrize("group", ["world", "node", "rail"])
@pytest.mark.parametrize(("kind", "algorithm"), [c for c in CASES if c[1] in (*RINGS, "direct")])
def test_every_group_of_a_machine_sends_what_the_program_counts(kind: str, algorithm: str, group: str) -> None:
    t = machine("nvswitch_a100", 8, 4)
    blocks = np.random.default_rng(1).integers(0, 1000, t.ranks).astype(float)
    found = by_rank(t, pairs_of(t, kind, algorithm, blocks, members_of(t, group)))
    wanted = volume.sent_bytes(kind, algorithm, blocks, t.local_size, group)
    for name, amount in wanted.items():
        assert found[name] == pytest.approx(amount, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_rings_through_dimensions_send_as_much_in_all(kind: str) -> None:
    blocks = np.random.default_rng(2).integers(0, 1000, 24).astype(float)
    total = volume.sent_bytes(kind, "hierarchical", blocks, 24)["scale_up"].sum()
    for axes in ((24,), (4, 6), (2, 3, 4), (1, 24, 1)):
        pairs = in_rings(kind, blocks, axes)
        assert pairs.sum() == pytest.approx(total, rel=1e-12)
        assert in_rings(kind, np.ones(24), axes).sum(1) == pytest.approx(np.full(24, pairs.sum() / total) * 23 * (
            2 if kind == "all_reduce" else 1))  # fmt: skip


def test_what_goes_to_a_switch_has_no_pairs() -> None:
    with pytest.raises(CollectiveError, match="to a switch"):
        group_pairs("all_reduce", "in_network", np.ones(4), np.zeros(4, dtype=np.int64))


# --- on links -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fabric", ONE)
@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(
    ("kind", "algorithm"), [("all_reduce", "ring"), ("all_gather", "direct"), ("all_to_all", "direct")]
)
def test_links_carry_what_link_load_puts_on_them(fabric: str, ranks: int, kind: str, algorithm: str) -> None:
    t = node(fabric, ranks)
    size = 840.0  # per rank
    blocks = np.full(ranks, size if kind == "all_gather" else size / ranks)
    if kind == "all_to_all":
        pairs = np.full((ranks, ranks), size / ranks) * ~np.eye(ranks, dtype=bool)
    else:
        pairs = pairs_of(t, kind, algorithm, blocks, np.arange(ranks)[None])
    found, wanted = link_loads(t, pairs), together(t, [Request(kind, algorithm, size)])
    assert found.ends == wanted.links
    assert found.bytes == pytest.approx(wanted.load)
    priced = price_link_load(t, kind, algorithm, size * (ranks if kind == "all_gather" else 1), placements(t, "world"))
    if fabric != "ring" or ranks % 2:  # of an even ring `link_load` sends what is opposite one way round, routes both
        assert found.seconds.max() == pytest.approx(priced.parts["bandwidth"], rel=1e-9)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (2, 3, 4)])
def test_rings_along_a_torus_load_each_direction_by_half(sizes: tuple[int, ...]) -> None:
    t = node("torus", int(np.prod(sizes)), sizes=list(sizes), link_bandwidth=50e9)
    n = t.ranks
    found = link_loads(t, pairs_of(t, "all_reduce", "hierarchical", np.ones(n), np.arange(n)[None], sizes))
    one_way = together(t, [Request("all_reduce", "hierarchical", float(n))])
    back = dict(zip(one_way.links, one_way.load, strict=True))
    for ends, x in zip(found.ends, found.bytes, strict=True):
        assert x == pytest.approx((back[ends] + back[ends[::-1]]) / 2)


def test_rings_of_point_to_point_links_take_all_links_as_they_are_priced() -> None:
    """DGX-1: packed rings keep every link that they use equally long busy, as long as `link_load` says."""
    t = machine("nvlink_v100_dgx1", 8)
    found = link_loads(t, pairs_of(t, "all_reduce", "ring", np.full(8, 1e6), np.arange(8)[None]))
    priced = price_link_load(t, "all_reduce", "ring", 8e6, placements(t, "world"))
    assert found.seconds.max() * 1 / float(t.scale_up.efficiency) == pytest.approx(priced.parts["bandwidth"])
    assert set(np.round(found.seconds / found.seconds.max(), 9)) <= {0.0, 0.5, 1.0}


def test_ranks_take_their_own_interfaces_between_nodes() -> None:
    """All pairs of 4 nodes: an interface carries as many messages as `link_load` counts; inside nodes, those of pairs
    of that node."""
    t = build_topology(
        Switch.model_validate({"bandwidth": 300e9}), ranks_per_node=4, nodes=4,
        nic=Nic.model_validate({"bandwidth": 25e9}), scale_out=RailClos.model_validate({}),
    )  # fmt: skip
    pairs = np.where(np.eye(16, dtype=bool), 0.0, 1.0)
    found = link_loads(t, pairs)
    sent, _ = exchange_bytes(pairs, np.arange(16) // 4)["scale_out"]
    for (a, b), x in zip(found.ends, found.bytes, strict=True):
        if isinstance(a, int):
            assert x == (sent[a] if str(b).startswith("leaf") else 3.0)
    priced = price_link_load(t, "all_to_all", "direct", 16.0, placements(t, "world"))
    assert found.seconds.max() == pytest.approx(12 / 25e9) == pytest.approx(priced.parts["bandwidth"])


def test_in_network_sums_are_on_the_links_of_each_rank() -> None:
    t = node("switch", 4)
    sent = np.array([4.0, 3.0, 2.0, 1.0])
    found = link_loads(t, np.zeros((4, 4)), sent, 2 * sent)
    assert {ends: float(x) for ends, x in zip(found.ends, found.bytes, strict=True)} == {
        **{(r, "node 0 switch"): sent[r] for r in range(4)},
        **{("node 0 switch", r): 2 * sent[r] for r in range(4)},
    }


def test_routes_conserve_bytes() -> None:
    """At every rank and switch, what goes out less what comes in is what is sent less what is received."""
    t = node("torus", 24, sizes=[2, 3, 4], link_bandwidth=50e9)
    pairs = np.random.default_rng(3).random((24, 24))
    np.fill_diagonal(pairs, 0.0)
    found = link_loads(t, pairs)
    out = np.zeros(24)
    for (a, b), x in zip(found.ends, found.bytes, strict=True):
        out[a] += x
        out[b] -= x
    assert out == pytest.approx(pairs.sum(1) - pairs.sum(0))
